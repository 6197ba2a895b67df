//! By count with a threshold: the older default of Akka.

use super::first_few::FirstFew;
use super::two_phase::{is_calm, most_suitable};
use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why};
use crate::id::ShardId;

/// Takes a few shards from the busiest node while it has more than `threshold` more than the least busy one; a handful of
/// nodes is evened out one by one. Counts end `threshold` apart, so use [`LeastShard`](super::LeastShard) or
/// [`TwoPhaseLeastShard`](super::TwoPhaseLeastShard) unless a cluster shall behave as it did. It plans nothing while nodes
/// run different versions or one is cut off.
///
/// Akka takes the lowest ids in the order of texts, this one in the order of numbers; and a shard on its way counts for the
/// node it goes to, once that is known, so that no more are sent there than it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThresholdLeastShard {
    threshold: u32,
    max_simultaneous: usize,
}

impl ThresholdLeastShard {
    /// Counts may be `threshold` apart (with 0 nothing ever moves, as in Akka), and `max_simultaneous` shards are on their
    /// way at once at most.
    #[must_use]
    pub const fn new(threshold: u32, max_simultaneous: usize) -> Self {
        Self { threshold, max_simultaneous }
    }
}

impl Default for ThresholdLeastShard {
    /// A threshold of 1 and 3 moves at once, as in Akka.
    fn default() -> Self {
        Self::new(1, 3)
    }
}

impl AllocationStrategy for ThresholdLeastShard {
    fn name(&self) -> &'static str {
        "threshold-least-shard"
    }

    /// Among the nodes of the newest version the one with the fewest shards, the lowest address first. O(candidates).
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        most_suitable(view)
    }

    /// O(shards log threshold + moves x candidates).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let room = self.max_simultaneous.saturating_sub(view.in_flight() + plan.moves().len()).min(plan.budget());
        if room == 0 || !is_calm(view) {
            return;
        }
        let mut movable = alloc::vec![0_u32; view.nodes().len()];
        let still = |shard: &ShardId| !plan.is_moving(*shard);
        let homes = view.shards().filter(still).filter_map(|shard| view.home(shard));
        homes.for_each(|home| movable[home.at()] += 1);
        let candidates = || view.candidates().iter().copied();
        let Some(from) = candidates().max_by_key(|ix| (movable[ix.at()], core::cmp::Reverse(*ix))) else { return };
        let least = candidates().map(|ix| plan.count(ix)).min().unwrap_or(0);
        let apart = movable[from.at()].saturating_sub(least);
        let number = apart.saturating_sub(self.threshold).min(self.threshold) as usize;
        let mut few = FirstFew::new(number.min(room));
        view.shards().filter(still).filter(|shard| view.home(*shard) == Some(from)).for_each(|shard| few.offer(shard));
        for shard in few.into_sorted() {
            let to = most_suitable(&view.with_counts(plan.counts()));
            let _ = to.map(|to| plan.propose(shard, to, Why::Count));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::super::tests::{layout, planned};
    use super::*;

    /// The rows of Akka's tests: shards 1, 2, 3 and so on, dealt node by node.
    #[test]
    fn all_fifteen_rows() {
        // (counts, threshold, at once) and pairs of (on their way, taken).
        type Row<'a> = (&'a [u32], (u32, usize), &'a [(&'a [u32], &'a [u32])]);
        let rows: [Row<'_>; 15] = [
            (&[2, 0, 0], (1, 10), &[(&[], &[1]), (&[1], &[])]),
            (&[1, 1, 0], (1, 10), &[(&[], &[])]),
            (&[1, 2, 0], (1, 10), &[(&[], &[2]), (&[2], &[])]),
            (&[3, 0, 0], (1, 10), &[(&[], &[1]), (&[1], &[2])]),
            (&[4, 4, 0], (1, 10), &[(&[], &[1]), (&[1], &[5])]),
            (&[4, 4, 2], (1, 10), &[(&[], &[1]), (&[1], &[5])]),
            (&[1, 2, 0], (2, 10), &[(&[], &[])]),
            (&[1, 3, 0], (2, 10), &[(&[], &[2]), (&[2], &[])]),
            (&[2, 2, 0], (2, 10), &[(&[], &[])]),
            (&[3, 3, 0], (2, 10), &[(&[], &[1]), (&[1], &[4]), (&[1, 4], &[])]),
            (&[4, 4, 0], (2, 10), &[(&[], &[1, 2]), (&[1, 2], &[5, 6]), (&[1, 2, 5, 6], &[])]),
            (&[5, 5, 0], (2, 10), &[(&[], &[1, 2]), (&[1, 2], &[6, 7]), (&[1, 2, 6, 7], &[3])]),
            (&[50, 0, 50], (2, 100), &[(&[], &[1, 2]), (&[1, 2], &[51, 52]), (&[1, 2, 51, 52], &[3, 4])]),
            (&[1, 10, 0], (3, 2), &[(&[], &[2, 3]), (&[2, 3], &[])]),
            (&[10, 0, 0], (3, 4), &[(&[2, 3], &[1, 4])]),
        ];
        for (counts, (threshold, at_once), answers) in rows {
            for (moving, taken) in answers {
                let ends = counts.iter().scan(1, |end, count| {
                    *end += count;
                    Some((*end - count..*end).collect::<Vec<u32>>())
                });
                let owned: Vec<_> = ends.collect();
                let mut layout = layout(&owned.iter().map(Vec::as_slice).collect::<Vec<_>>());
                // On their way to nowhere known, as in Akka.
                moving.iter().for_each(|shard| layout.depart(ShardId(*shard), None));
                let moves = planned(&mut ThresholdLeastShard::new(threshold, at_once), &layout);
                let shards: Vec<u32> = moves.iter().map(|(shard, _)| *shard).collect();
                assert_eq!(shards, *taken, "{counts:?}, {moving:?} on their way");
            }
        }
    }

    #[test]
    fn a_shard_whose_destination_is_known_counts_there() {
        // Akka takes one more than is optimal here (the sixth row).
        let mut layout = layout(&[&[1, 2, 3, 4], &[5, 6, 7, 8], &[9, 10]]);
        layout.depart(ShardId(1), Some(NodeIx(2)));
        assert_eq!(planned(&mut ThresholdLeastShard::new(1, 10), &layout), []);
    }
}
