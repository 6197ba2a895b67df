//! Nodes by what they are for.

use super::choices::by_room;
use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Rejected, Request, Why};
use crate::id::ShardId;

/// Each shard lives on nodes of its own role, which a function names: Orleans' silo-role placement, by shard. While no
/// candidate has the role, the shard waits, or stays where it is. A shard on a candidate without its role moves to one that
/// has it; a shard whose role is `None` is placed among all candidates and never moved.
///
/// Source: Orleans' `SiloRoleBasedPlacement`, whose role is the text of the grain's key. There any of the role's nodes takes
/// it, each equally likely; here the one with the fewest shards for its capacity, the lowest address first.
///
/// ```
/// use shard_core::allocation::ByRole;
///
/// // The first ten shards, by the type's shard function, are those of the ingest daemons.
/// let strategy = ByRole::new(|shard| Some(if shard.0 < 10 { "ingest" } else { "backend" }));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ByRole<F> {
    role_of: F,
}

impl<F: Fn(ShardId) -> Option<&'static str> + Send> ByRole<F> {
    /// `role_of` says which role a shard's nodes have; the same shard, the same role.
    pub const fn new(role_of: F) -> Self {
        Self { role_of }
    }

    fn suits(&self, view: &ClusterView<'_>, shard: ShardId, ix: NodeIx) -> bool {
        (self.role_of)(shard).is_none_or(|role| view.node(ix).has_role(role))
    }
}

impl<F: Fn(ShardId) -> Option<&'static str> + Send> AllocationStrategy for ByRole<F> {
    fn name(&self) -> &'static str {
        "by-role"
    }

    /// O(candidates x roles of a node).
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let suitable = view.candidates().iter().copied().filter(|ix| self.suits(view, request.shard, *ix));
        suitable.min_by(|a, b| by_room(view, *a, *b))
    }

    /// O(shards + moves x candidates).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        for shard in view.shards() {
            let astray = view.home(shard).is_some_and(|home| view.is_candidate(home) && !self.suits(view, shard, home));
            if !astray || plan.is_moving(shard) {
                continue;
            }
            let to = self.place(&view.with_counts(plan.counts()), &Request::new(shard, 0));
            if to.is_some_and(|to| plan.propose(shard, to, Why::Role) == Err(Rejected::BudgetSpent)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::super::tests::{T0, layout, placed, planned};
    use super::*;
    use crate::allocation::Layout;

    /// Three nodes that own the shards given; the first is an `a`, the last a `b`, the second both.
    fn nodes(owned: [&[u32]; 3]) -> Layout {
        let mut layout = layout(&owned);
        let mut nodes = layout.view(T0, 0).nodes().to_vec();
        for (node, roles) in nodes.iter_mut().zip([&["a"][..], &["a", "b"], &["b"]]) {
            node.roles = roles.iter().map(ToString::to_string).collect();
        }
        layout.set_nodes(nodes);
        layout
    }

    fn role_of(shard: ShardId) -> Option<&'static str> {
        [Some("a"), Some("b"), Some("c"), None][shard.0 as usize % 4]
    }

    #[test]
    fn shards_live_on_nodes_of_their_role() {
        let mut strategy = ByRole::new(role_of);
        let empty = nodes([&[], &[], &[]]);
        assert_eq!(placed(&mut strategy, &empty, 0).as_deref(), Some("h:10"));
        assert_eq!(placed(&mut strategy, &empty, 1).as_deref(), Some("h:11"));
        assert_eq!(placed(&mut strategy, &empty, 2), None, "nobody is a `c`");
        assert_eq!(placed(&mut strategy, &empty, 3).as_deref(), Some("h:10"));
        // The one with the fewest; for its capacity.
        let mut crowded = nodes([&[0], &[4, 8], &[]]);
        assert_eq!(placed(&mut strategy, &crowded, 12).as_deref(), Some("h:10"));
        let mut nodes = crowded.view(T0, 0).nodes().to_vec();
        nodes[1].capacity = 4;
        crowded.set_nodes(nodes);
        assert_eq!(placed(&mut strategy, &crowded, 12).as_deref(), Some("h:11"));
    }

    #[test]
    fn what_strayed_moves_and_nothing_else() {
        let mut strategy = ByRole::new(role_of);
        // Shard 1 is a `b` on an `a`, shard 4 an `a` on a `b`; shard 2 has nowhere to go, shard 3 is at home anywhere.
        assert_eq!(planned(&mut strategy, &nodes([&[0, 1, 2, 3], &[5, 8], &[4]])), [(1, 2), (4, 1)]);
        let mut closed = nodes([&[0, 1], &[], &[]]);
        closed.set_accepts(NodeIx(0), false);
        assert_eq!(planned(&mut strategy, &closed), [], "whoever takes nothing is left alone");
    }
}
