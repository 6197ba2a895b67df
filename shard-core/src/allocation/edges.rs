//! Which shards talk to each other, and how much.

use alloc::vec::Vec;

use crate::id::ShardId;

/// Two shards of one entity type whose entities call each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Edge {
    /// The one with the lower number.
    pub a: ShardId,
    /// The other one.
    pub b: ShardId,
    /// What goes between them, both ways added: messages a second, or any other unit that is the same for all edges.
    pub weight: u32,
}

impl Edge {
    /// `weight` between two shards, given in any order.
    #[must_use]
    pub const fn new(one: ShardId, other: ShardId, weight: u32) -> Self {
        let (a, b) = if one.0 <= other.0 { (one, other) } else { (other, one) };
        Self { a, b, weight }
    }
}

/// Sorts edges by their shards and makes those between the same two one. What a shard says to itself, what says nothing, and
/// what ends at a shard that does not exist is left out. O(edges log edges).
pub(super) fn tidied(mut edges: Vec<Edge>, shards: u32) -> Vec<Edge> {
    for edge in &mut edges {
        *edge = Edge::new(edge.a, edge.b, edge.weight);
    }
    edges.retain(|edge| edge.a != edge.b && edge.b.0 < shards && edge.weight > 0);
    edges.sort_unstable();
    edges.dedup_by(|next, kept| {
        let same = (next.a, next.b) == (kept.a, kept.b);
        if same {
            kept.weight = kept.weight.saturating_add(next.weight);
        }
        same
    });
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_sorted_merged_and_sound() {
        let edge = |a, b, weight| Edge::new(ShardId(a), ShardId(b), weight);
        let raw = |a, b, weight| Edge { a: ShardId(a), b: ShardId(b), weight };
        let given =
            [raw(3, 1, 5), raw(2, 2, 9), raw(0, 4, 9), edge(1, 0, 2), raw(1, 3, u32::MAX), raw(2, 0, 0), edge(0, 1, 4)];
        assert_eq!(tidied(given.to_vec(), 4), [edge(0, 1, 6), edge(1, 3, u32::MAX)]);
    }
}
