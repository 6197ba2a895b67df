//! What is built in keeps the laws, and what is bad is caught by the law meant for it.

mod bad;

use std::{format, string::ToString, vec::Vec};

use super::*;
use crate::allocation::{Hash, LeastShard, Returning};
use crate::id::{NodeId, ShardId};

/// Three nodes that are alike, and ten shards on the first.
const THREE_OPEN_NODES: &[u8] = &[2, 9, 1, 1];

#[test]
fn what_is_built_in_keeps_the_laws() {
    let mut failed = Vec::new();
    for (at, laws) in built_in().into_iter().enumerate() {
        if let Err(breach) = laws.cases(60).run() {
            failed.push(format!("number {at}: {breach}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn what_claims_too_little_is_told() {
    let breach = Laws::new(|| Hash).movement(2).run().expect_err("it is told to move less than it does");
    assert_eq!(breach.law, Law::Movement, "{breach}");
    // Nothing is where its number says, so nearly everything moves once, and a promise to move nothing is broken.
    let breach = Laws::new(|| Hash).moving_per_shard(0).only(&[Law::Rest]).run().expect_err("it moves");
    assert!(breach.law == Law::Movement && breach.how.contains("no more than 0 should"), "{breach}");
}

#[test]
fn at_rest_the_default_moves_nothing_for_ten_thousand_rounds() {
    let strategies: [fn() -> LeastShard; 2] = [LeastShard::default, || LeastShard::new(3, 50)];
    for make in strategies {
        Laws::new(make).only(&[Law::Rest]).cases(20).resting_for(10_000).check();
    }
}

/// It is meant to answer differently once a shard was placed; all else holds.
#[test]
fn what_returns_keeps_the_laws_but_that_of_memory() {
    let homes = || (0..60).map(|shard| (ShardId(shard), NodeId(u64::from(shard) * 7 % 200 * 64)));
    let laws = Laws::new(move || Returning::new(LeastShard::default(), homes())).at_most_in_flight(3).movement(1);
    let others: Vec<Law> = Law::ALL.into_iter().filter(|law| !matches!(law, Law::Deterministic | Law::Order)).collect();
    laws.only(&others).cases(60).check();
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
