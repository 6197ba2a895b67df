//! What placement rules look at, and what operators ask about them.

use super::{Driver, Host};
use crate::allocation::Stats;
use crate::id::ShardKey;
use crate::node::{Explanation, Input};
use crate::time::Instant;
use crate::wire::Traffic;

impl<M> Driver<M> {
    /// This node's resources, as they were measured just now: once a second or so, optional.
    pub fn measured(&mut self, now: Instant, stats: Stats, host: &mut (impl Host<M> + ?Sized)) {
        self.hear(now, Input::Measured(stats), host);
    }

    /// Which shards of a type say what to whom, as entities on this node do: every few seconds, if the strategy of the type
    /// [needs](crate::allocation::AllocationStrategy::needs) it; optional. An embedder knows whose handler sends what;
    /// [`HeavyPairs`](crate::allocation::HeavyPairs) counts it in fixed memory.
    pub fn talked(&mut self, now: Instant, traffic: Traffic, host: &mut (impl Host<M> + ?Sized)) {
        self.hear(now, Input::Traffic(traffic), host);
    }

    /// Why a shard is where it is, while this node reigns. O(shards of the type).
    pub fn explain(&mut self, now: Instant, key: ShardKey) -> Option<Explanation> {
        self.node.explain(now, key)
    }
}
