//! The laws of allocation, held to the strategies of this crate, through the public API only. The number after `movement`
//! is how many times the least that must move each of them moves at most.

use shard_core::allocation::{AllocationStrategy, ClusterView, Hash, LeastShard, NodeIx, NodeView};
use shard_core::id::ShardId;
use shard_core::sim::laws::{Law, Laws};
use shard_core::time::Duration;
use strategies_contrib::{
    AntiAffinity, BoundedLoad, CoLocation, DrainByTime, Jump, Maglev, MetricCapacity, PinList, RoleAffinity,
};

type Boxed = Box<dyn AllocationStrategy>;

/// Clusters have ten nodes at most, so this many even shares are everything.
const ALL_OF_THEM: u32 = 10;

fn role_affinity() -> RoleAffinity<LeastShard> {
    RoleAffinity::new("coordinator", ShardId(4), LeastShard::new(1, 10))
}

#[test]
fn role_affinity_keeps_the_laws() {
    let strategies: [fn() -> Boxed; 5] = [
        || Box::new(role_affinity()),
        || Box::new(RoleAffinity::new("coordinator", ShardId(1_000), LeastShard::default())),
        || Box::new(RoleAffinity::new("coordinator", ShardId(4), Hash)),
        || Box::new(role_affinity().only(|view: &ClusterView<'_>, ix: NodeIx| view.node(ix).has_role("big"))),
        || Box::new(RoleAffinity::new("coordinator", ShardId(2), role_affinity())),
    ];
    for make in strategies {
        Laws::new(make).role("coordinator").role("big").movement(ALL_OF_THEM).check();
    }
}

fn by_threes(shard: ShardId) -> Option<u64> {
    (shard.0 < 50).then(|| u64::from(shard.0 / 3))
}

#[test]
fn anti_affinity_keeps_the_laws() {
    Laws::new(|| AntiAffinity::new(by_threes)).movement(1).check();
    Laws::new(|| AntiAffinity::new(|shard: ShardId| Some(u64::from(shard.0 / 20)))).movement(1).check();
}

#[test]
fn pin_lists_keep_the_laws() {
    // Addresses of nodes that clusters often have.
    let pinned = || {
        let addresses = ["h:1000", "h:1001", "h:1064", "h:1066", "h:2000"];
        (0..20).fold(PinList::new(LeastShard::new(1, 10)), |list, shard| {
            list.pin(ShardId(shard), addresses[shard as usize % addresses.len()])
        })
    };
    Laws::new(pinned).movement(4).check();
    Laws::new(move || pinned().only(|view: &ClusterView<'_>, ix: NodeIx| view.node(ix).zone.0 < 2)).check();
}

fn licences(node: &NodeView) -> u32 {
    node.metadata("licences").and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[test]
fn metric_capacity_keeps_the_laws() {
    let laws = Laws::new(|| MetricCapacity::new(licences)).metadata("licences", &["1", "3", "8"]);
    laws.movement(5).check();
    Laws::new(|| MetricCapacity::new(|node: &NodeView| node.capacity)).movement(1).check();
}

#[test]
fn co_location_keeps_the_laws() {
    Laws::new(|| CoLocation::new(LeastShard::default(), by_threes)).movement(2).check();
    Laws::new(|| CoLocation::new(Hash, by_threes)).movement(ALL_OF_THEM).check();
}

#[test]
fn drains_by_time_keep_the_laws_by_day_and_by_night() {
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    let drain = move || LeastShard::new(1, 10).only(DrainByTime::new("reports", hours(22), hours(4)));
    for start in [hours(9), hours(22)] {
        Laws::new(drain).role("reports").starting_at(start).movement(ALL_OF_THEM).check();
    }
    // Rest is for a view that does not change; at four, it does.
    let morning = Laws::new(drain).role("reports").starting_at(hours(3) - Duration::from_secs(100));
    assert_eq!(morning.run().expect_err("shards come back").law, Law::Rest);
}

#[test]
fn calculated_homes_keep_the_laws() {
    Laws::new(|| BoundedLoad::new(25)).movement(4).check();
    Laws::new(|| BoundedLoad::new(0)).movement(5).check();
    Laws::new(Maglev::default).movement(4).check();
    Laws::new(|| Jump).movement(ALL_OF_THEM).check();
}
