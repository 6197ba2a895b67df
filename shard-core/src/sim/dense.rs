//! Dense storms: few shards, much mail, and a strategy that never lets a shard rest.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use super::options::{Faults, Options, ms};
use crate::allocation::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why};

/// Moves every shard in every round, until the calm.
struct Restless(Arc<AtomicBool>);

impl AllocationStrategy for Restless {
    fn name(&self) -> &'static str {
        "restless"
    }

    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let nodes = view.candidates();
        nodes.get(request.seed as usize % nodes.len().max(1)).copied()
    }

    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        if !self.0.load(Ordering::Relaxed) {
            return;
        }
        let nodes = view.candidates();
        for shard in view.shards() {
            let Some(owner) = view.home(shard) else { continue };
            let next = nodes.iter().position(|ix| *ix == owner).map_or(0, |at| (at + 1) % nodes.len().max(1));
            if let Some(to) = nodes.get(next).filter(|to| **to != owner) {
                // What the plan refuses is moving already.
                let _ = plan.propose(shard, *to, Why::Other("restless"));
            }
        }
    }
}

impl Options {
    /// The same run, dense: four nodes, two shards of two entities, some 160 messages a second from each node, and every shard
    /// moved again as soon as it has come to rest. An odd seed keeps the harm that it drew; an even one has only breaks of
    /// connections and pauses, so that all moves are planned ones.
    #[must_use]
    pub fn with_dense_moves(mut self) -> Self {
        (self.nodes, self.voters, self.pure_voters) = (4, 3, 0);
        (self.shards, self.entities_per_shard) = (2, 2);
        self.lanes = self.lanes.min(2);
        self.work_every = ms(6);
        self.rebalance = ms(20);
        self.handlers.time = ms(6);
        self.handlers.long_permille = 0;
        if self.seed.is_multiple_of(2) {
            let Faults { pause_every, break_every, delay, inbox, drift, drift_every, .. } = self.faults;
            self.faults = Faults { pause_every, break_every, delay, inbox, drift, drift_every, ..Faults::none() };
            (self.handlers.fail_permille, self.handlers.stop_permille) = (0, 0);
        }
        self.dense = true;
        self
    }

    /// Where moves shall be dense: has the strategy of each process look at a flag, which the calm takes down.
    pub(super) fn restless(&mut self) -> Option<Arc<AtomicBool>> {
        let on = Arc::new(AtomicBool::new(self.dense));
        let flag = Arc::clone(&on);
        self.dense.then(move || {
            self.strategy = super::Strategy::new(move || Restless(Arc::clone(&flag)));
            on
        })
    }
}
