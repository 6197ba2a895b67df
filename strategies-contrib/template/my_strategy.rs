//! A strategy to begin with: copy this file into your crate, rename the type, and change the two functions. It is compiled
//! and tried on the laws by `tests/template.rs`, whose one test is yours to copy as well.

use shard_core::allocation::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why};

/// Say here what it is for, what it does when a node comes or goes, and what it does not do.
#[derive(Clone, Debug, Default)]
pub struct MyStrategy;

impl MyStrategy {
    /// What a strategy needs to know comes in here: a view has no room for it.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    /// How much `ix` would like one more shard: the greatest goes first. This is the line to change.
    fn score(view: &ClusterView<'_>, ix: NodeIx, shards: u32) -> i64 {
        let room = i64::from(view.node(ix).capacity) * 100;
        room - i64::from(shards)
    }
}

impl AllocationStrategy for MyStrategy {
    fn name(&self) -> &'static str {
        "my-strategy"
    }

    /// Where a shard goes that nobody owns: among the candidates, and with ties broken by the number of the node.
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        let score = |ix: &NodeIx| (Self::score(view, *ix, view.count(*ix)), core::cmp::Reverse(*ix));
        view.candidates().iter().copied().max_by_key(score)
    }

    /// Which shards move: only where the taker, with one more, still scores better than the giver did. So every move makes the
    /// worst score better, and there is a last one. It takes from whoever comes first, which is simple; taking from the worst
    /// first would move a little less.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        for shard in view.shards() {
            if plan.budget() == 0 {
                return;
            }
            let Some(home) = view.home(shard).filter(|home| view.is_candidate(*home)) else { continue };
            if plan.is_moving(shard) {
                continue;
            }
            let score = |ix: &NodeIx| (Self::score(view, *ix, plan.count(*ix) + 1), core::cmp::Reverse(*ix));
            let Some(to) = view.candidates().iter().copied().max_by_key(score) else { return };
            if score(&to).0 > Self::score(view, home, plan.count(home)) {
                // It can fail only if the shard is there already, which the comparison rules out.
                let _ = plan.propose(shard, to, Why::Other("a better score"));
            }
        }
    }
}
