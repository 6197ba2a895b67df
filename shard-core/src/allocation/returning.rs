//! Back to where it was.

use alloc::collections::BTreeMap;

use super::{AllocationStrategy, ClusterView, Needs, NodeIx, Plan, Request};
use crate::id::{NodeId, ShardId};

/// A strategy that first places each shard where it was, if that node may take it, and otherwise as `inner` does; moves are
/// the inner strategy's.
///
/// A coordinator's table is rebuilt from what nodes report, so a cluster that was stopped whole starts with none. What was
/// written down before then (`Node::homes` of an adapter says it on the coordinator) brings the shards back to their nodes,
/// and with them whatever these keep at hand for them: caches, files. It is a hint and nothing more: nothing is unsafe if it
/// is old or wrong, and it is used for one placement of each shard, since later the inner strategy knows better.
///
/// ```
/// use shard_core::allocation::{LeastShard, Returning};
/// use shard_core::id::{NodeId, ShardId};
///
/// let strategy = Returning::new(LeastShard::default(), [(ShardId(0), NodeId(7)), (ShardId(1), NodeId(8))]);
/// ```
#[derive(Clone, Debug)]
pub struct Returning<S> {
    inner: S,
    homes: BTreeMap<ShardId, NodeId>,
}

impl<S> Returning<S> {
    /// `homes` as they were; of two homes of a shard, the last counts.
    #[must_use]
    pub fn new(inner: S, homes: impl IntoIterator<Item = (ShardId, NodeId)>) -> Self {
        Self { inner, homes: homes.into_iter().collect() }
    }
}

impl<S: AllocationStrategy> AllocationStrategy for Returning<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(candidates + log shards) for a shard that has not been placed yet; then what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let home = self.homes.get(&request.shard);
        let former = home.and_then(|home| view.candidates().iter().copied().find(|ix| view.node(*ix).id.id == *home));
        former.or_else(|| self.inner.place(view, request))
    }

    /// What has a home is where it shall be, or the inner strategy's to move.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        if !self.homes.is_empty() {
            self.homes.retain(|shard, _| view.home(*shard).is_none());
        }
        self.inner.plan(view, plan);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::{Layout, LeastShard, NodeView};
    use crate::id::{Incarnation, NodeKey};
    use crate::time::Instant;

    fn nodes(ids: &[u64]) -> Layout {
        let mut layout = Layout::new(4);
        let node = |id: &u64| {
            NodeView::new(NodeKey { id: NodeId(*id), incarnation: Incarnation(9) }, alloc::format!("10.0.0.{id}"))
        };
        layout.set_nodes(ids.iter().map(node).collect());
        layout
    }

    #[test]
    fn a_shard_returns_to_its_node_and_is_placed_anew_if_that_is_gone() {
        let homes = [(ShardId(0), NodeId(3)), (ShardId(1), NodeId(4))];
        let mut strategy = Returning::new(LeastShard::default(), homes);
        let layout = nodes(&[1, 2, 3]);
        let view = layout.view(Instant::ZERO, 0);
        let mut place = |shard| strategy.place(&view, &Request::new(ShardId(shard), 0)).map(|ix| view.node(ix).id.id.0);
        assert_eq!([0, 1, 2].map(&mut place), [Some(3), Some(1), Some(1)], "node 4 is gone; shard 2 has no home");
    }

    #[test]
    fn a_shard_that_has_been_placed_is_the_inner_strategys() {
        let mut strategy = Returning::new(LeastShard::default(), [(ShardId(0), NodeId(3))]);
        let mut layout = nodes(&[1, 2, 3]);
        let third = layout.find(NodeKey { id: NodeId(3), incarnation: Incarnation(9) }).expect("it is there");
        layout.settle(Instant::ZERO, ShardId(0), third);
        let view = layout.view(Instant::ZERO, 0);
        let mut ledger = crate::allocation::Ledger::new();
        assert!(ledger.round(&mut strategy, &view, crate::allocation::Limits::default()).is_empty());
        assert_eq!(strategy.place(&view, &Request::new(ShardId(0), 0)).map(NodeIx::at), Some(0), "by count");
    }
}
