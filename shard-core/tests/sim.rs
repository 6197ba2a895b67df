//! The simulator's smoke test: whole clusters in storms, the same twice, and broken rules that must be noticed.
#![cfg(feature = "sim")]

use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Options, Report};

fn run(options: Options) -> Report {
    Cluster::new(options).run()
}

#[test]
fn storms_break_no_promise() {
    for seed in 0..60 {
        let report = run(Options::from_seed(seed));
        assert!(report.violation.is_none(), "{report}");
        assert!(report.counters.messages > 0 && report.counters.grants > 0, "{report:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 100..104 {
        let (once, twice) = (run(Options::from_seed(seed)), run(Options::from_seed(seed).with_trace()));
        assert_eq!(once.digest, twice.digest, "seed {seed}");
        assert_eq!(once.counters, twice.counters, "seed {seed}");
    }
    assert_ne!(run(Options::from_seed(100)).digest, run(Options::from_seed(101)).digest);
}

#[test]
fn the_four_rules_that_hold_ownership_are_missed_at_once() {
    noticed(Rule::NoForcedHandoff, 1..=30, "double-owner");
    noticed(Rule::DriftFactor, 1..=30, "double-owner");
    noticed(Rule::ValidityFromSend, 1..=60, "double-owner");
    noticed(Rule::DropBarrier, 1..=30, "double-owner");
}

#[test]
fn the_rules_of_delivery_are_missed_too() {
    noticed(Rule::SettleOnStart, 1..=30, "lost");
    noticed(Rule::ClosedBeyond, 1..=200, "duplicated");
    noticed(Rule::LinkGap, 1..=60, "lost");
    noticed(Rule::ContiguousReign, 1..=60, "term-twice");
}

/// A run in which the broken rule does its harm, within so many seeds. It names both witnesses, what led to it, and how
/// to see it again.
fn noticed(rule: Rule, mut seeds: std::ops::RangeInclusive<u64>, property: &str) {
    let name = rule.mutant();
    let report = seeds
        .find_map(|seed| {
            let report = run(Options::from_seed(seed).with_mutant(rule));
            report.violation.as_ref().is_some_and(|found| found.property == property).then_some(report)
        })
        .unwrap_or_else(|| panic!("nobody noticed `{name}`"));
    let text = report.to_string();
    assert!(text.contains(&format!("--seed {} --mutant {name}", report.seed)), "{text}");
    assert!(report.violation.is_some_and(|found| found.history.len() > 20 && !found.witness.is_empty()), "{text}");
}

#[test]
fn tenants_keep_to_their_hands_through_storms() {
    use shard_core::allocation::{ByTenant, LeastShard};
    use shard_core::shuffle::{FlowKey, ShardSize};
    use shard_core::sim::Strategy;

    // Two shards to a tenant, hands of two nodes of three to five.
    let strategy = Strategy::new(|| {
        let tenant_of =
            |shard: shard_core::id::ShardId| Some(FlowKey::new(1).hash("tenant", &(shard.0 / 2).to_string()));
        ByTenant::new(LeastShard::default(), ShardSize::Members(2), tenant_of)
    });
    for seed in 500..530 {
        let report = run(Options::from_seed(seed).with_strategy(strategy.clone()));
        assert!(report.violation.is_none(), "{report}");
        assert!(report.counters.grants > 0, "{report:?}");
    }
}
