//! Rebalancing: on any cluster whatever, every strategy, built in or contributed, keeps the laws of allocation, its plans can be carried out, and it
//! comes to rest.

use std::time::Duration;

use shard_core::allocation::{AllocationStrategy, ByTenant, ClusterView, Hash, LeastShard, NodeIx};
use shard_core::id::ShardId;
use shard_core::shuffle::{FlowKey, ShardSize, WhenAllDown};
use shard_core::sim::fuzz::check_laws;
use shard_core::sim::laws::Laws;
use strategies_contrib::{AntiAffinity, BoundedLoad, CoLocation, Jump, Maglev, MetricCapacity, PinList, RoleAffinity};

type Make = fn() -> Box<dyn AllocationStrategy>;

/// Shards that change places are no more than all of them: a cluster has ten nodes at most, and an even share is a tenth.
const ALL_OF_THEM: u32 = 10;

/// Rounds to see whether rest lasts: enough for a strategy to go round in circles among ten nodes, and few enough for many
/// inputs a second.
const QUIET: u32 = 24;

/// Those that answer by what they see alone, with the factor of movement and the limit that they claim.
const STRATEGIES: &[(Make, u32, usize)] = &[
    (|| Box::new(Hash), ALL_OF_THEM, usize::MAX),
    (|| Box::new(LeastShard::default()), 1, 3),
    (|| Box::new(LeastShard::new(3, 50)), 1, 50),
    (|| Box::new(Hash.only(big)), ALL_OF_THEM, usize::MAX),
    (|| Box::new(Hash.preferring(big)), ALL_OF_THEM, usize::MAX),
    (|| Box::new(LeastShard::default().only(big)), ALL_OF_THEM, usize::MAX),
    (|| Box::new(LeastShard::default().preferring(big)), ALL_OF_THEM, 3),
    (|| Box::new(LeastShard::new(1, 9).only(strong).preferring(big)), ALL_OF_THEM, usize::MAX),
    (|| Box::new(RoleAffinity::new("big", ShardId(7), LeastShard::new(1, 9))), ALL_OF_THEM, usize::MAX),
    (|| Box::new(PinList::new(LeastShard::new(1, 9)).pin(ShardId(3), "h:1001")), ALL_OF_THEM, usize::MAX),
    (|| Box::new(AntiAffinity::new(tenant_of)), 2, usize::MAX),
    (|| Box::new(CoLocation::new(LeastShard::default(), tenant_of)), ALL_OF_THEM, usize::MAX),
    (|| Box::new(MetricCapacity::new(|node| node.capacity)), 1, usize::MAX),
    (|| Box::new(BoundedLoad::new(25)), ALL_OF_THEM, usize::MAX),
    (|| Box::new(Maglev::default()), ALL_OF_THEM, usize::MAX),
    (|| Box::new(Jump), ALL_OF_THEM, usize::MAX),
];

/// Those that remember who was there, for a minute.
const REMEMBERING: &[Make] = &[
    || Box::new(by_tenant(LeastShard::new(1, 10))),
    || Box::new(by_tenant(Hash)),
    || Box::new(by_tenant(LeastShard::default()).only(big)),
    || Box::new(by_tenant(LeastShard::new(1, 10)).when_all_down(WhenAllDown::Spill)),
];

/// The bytes are a cluster: `shard_core::sim::laws` says how.
pub fn rebalance(bytes: &[u8]) {
    for (make, factor, limit) in STRATEGIES {
        check_laws(bytes, &Laws::new(make).role("big").resting_for(QUIET).movement(*factor).at_most_in_flight(*limit));
    }
    for make in REMEMBERING {
        check_laws(
            bytes,
            &Laws::new(make).role("big").resting_for(QUIET).remembering(Duration::from_secs(60)).movement(ALL_OF_THEM),
        );
    }
}

fn big(view: &ClusterView<'_>, ix: NodeIx) -> bool {
    view.node(ix).has_role("big")
}

fn strong(view: &ClusterView<'_>, ix: NodeIx) -> bool {
    view.node(ix).capacity > 1
}

fn by_tenant<S: AllocationStrategy>(inner: S) -> ByTenant<S, fn(ShardId) -> Option<u64>> {
    ByTenant::new(inner, ShardSize::Members(3), tenant_of)
}

/// Four shards to a tenant; the last ones are nobody's in particular.
fn tenant_of(shard: ShardId) -> Option<u64> {
    (shard.0 < 40).then(|| FlowKey::new(7).tenant(&(shard.0 / 4).to_string()))
}
