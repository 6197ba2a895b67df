//! What is built in keeps the laws, and what is bad is caught by the law meant for it.

mod bad;

use std::{boxed::Box, string::ToString};

use super::*;
use crate::allocation::{ByTenant, ClusterView, Hash, LeastShard, NodeIx};
use crate::id::ShardId;
use crate::shuffle::{FlowKey, ShardSize, WhenAllDown};

type Boxed = Box<dyn AllocationStrategy>;

/// Three nodes that are alike, and ten shards on the first.
const THREE_OPEN_NODES: &[u8] = &[2, 9, 1, 1];

/// Whatever a filter admits, there are never more shards to move than there are; this is said where that is the claim.
const ALL_OF_THEM: u32 = 10;

fn big(view: &ClusterView<'_>, ix: NodeIx) -> bool {
    view.node(ix).has_role("big")
}

fn strong(view: &ClusterView<'_>, ix: NodeIx) -> bool {
    view.node(ix).capacity > 1 || view.node(ix).zone.0 == 1
}

fn tenant_of(shard: ShardId) -> Option<u64> {
    (shard.0 < 40).then(|| FlowKey::new(7).tenant(&(shard.0 / 4).to_string()))
}

fn by_tenant<S: AllocationStrategy>(inner: S) -> ByTenant<S, fn(ShardId) -> Option<u64>> {
    ByTenant::new(inner, ShardSize::Members(3), tenant_of)
}

#[test]
fn hash_keeps_the_laws_and_moves_nearly_everything() {
    Laws::new(|| Hash).movement(ALL_OF_THEM).check();
    let breach = Laws::new(|| Hash).movement(2).run().expect_err("it is told to move less than it does");
    assert_eq!(breach.law, Law::Movement, "{breach}");
}

#[test]
fn least_shard_keeps_the_laws_and_moves_the_least() {
    Laws::new(LeastShard::default).at_most_in_flight(3).movement(1).check();
    Laws::new(|| LeastShard::new(3, 50)).at_most_in_flight(50).movement(1).check();
    Laws::new(|| LeastShard::new(0, 1)).at_most_in_flight(1).movement(1).check();
}

#[test]
fn filters_keep_the_laws() {
    let strategies: [fn() -> Boxed; 8] = [
        || Box::new(Hash.only(big)),
        || Box::new(Hash.preferring(big)),
        || Box::new(LeastShard::default().only(big)),
        || Box::new(LeastShard::default().preferring(big)),
        || Box::new(LeastShard::new(2, 9).only(big).only(strong)),
        || Box::new(LeastShard::new(2, 9).preferring(big).only(strong)),
        || Box::new(LeastShard::new(1, 9).only(strong).preferring(big)),
        || Box::new(Hash.preferring(strong).preferring(big)),
    ];
    for make in strategies {
        Laws::new(make).role("big").movement(ALL_OF_THEM).cases(60).check();
    }
}

#[test]
fn tenants_keep_the_laws() {
    let minute = Duration::from_secs(60);
    let strategies: [fn() -> Boxed; 6] = [
        || Box::new(by_tenant(LeastShard::new(1, 10))),
        || Box::new(by_tenant(Hash)),
        || Box::new(by_tenant(LeastShard::new(1, 10).only(big))),
        || Box::new(by_tenant(LeastShard::default()).only(big)),
        || Box::new(by_tenant(Hash).preferring(big)),
        || Box::new(by_tenant(LeastShard::new(1, 10)).when_all_down(WhenAllDown::Spill)),
    ];
    for make in strategies {
        Laws::new(make).remembering(minute).role("big").movement(ALL_OF_THEM).cases(30).check();
    }
}

#[test]
fn a_breach_shows_the_smallest_cluster_and_repeats() {
    let laws = Laws::new(|| bad::Swinging);
    let breach = laws.run().expect_err("it never rests");
    // Two nodes to swing between, one shard, and nothing else.
    assert_eq!(
        (breach.world.nodes.len(), breach.world.places.len(), breach.world.changes.len()),
        (2, 1, 0),
        "{breach}"
    );
    let told = breach.to_string();
    assert!(told.starts_with("`swinging` breaks the law `rest` (seed 0x"), "{told}");
    let again = laws.from_seed(breach.seed.expect("it was drawn")).run().expect_err("the same seed");
    assert_eq!(again.to_string(), told);
}

#[test]
fn the_same_bytes_are_the_same_world_and_none_are_one_node() {
    let laws = Laws::new(|| bad::Swinging);
    assert!(laws.run_bytes(&[]).is_ok(), "there is nowhere to swing to");
    let (a, b) = (laws.run_bytes(THREE_OPEN_NODES), laws.run_bytes(THREE_OPEN_NODES));
    assert_eq!(a.expect_err("it never rests").to_string(), b.expect_err("it never rests").to_string());
}

#[test]
#[should_panic(expected = "`swinging` breaks the law `rest`")]
fn a_fuzzer_finds_out_by_a_panic() {
    crate::sim::fuzz::check_strategy(THREE_OPEN_NODES, || bad::Swinging);
}

#[test]
fn time_to_rest_is_a_claim_too() {
    let laws = |rounds| Laws::new(|| LeastShard::new(1, 1)).resting_within(rounds).only(&[Law::Rest]);
    laws(300).check();
    assert_eq!(laws(3).run().expect_err("one at a time").law, Law::Rest);
}
