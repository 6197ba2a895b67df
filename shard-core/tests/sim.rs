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
fn a_violation_names_its_seed_both_witnesses_and_what_led_to_it() {
    let report = caught(Rule::NoForcedHandoff, 1);
    let text = report.to_string();
    assert!(text.contains("--seed 1 --mutant forced-handoff") && text.contains("while"), "{text}");
    assert!(report.violation.is_some_and(|violation| violation.history.len() > 20));
}

/// The seeds are fixed: each was the first that notices the harm, and stays so until the simulator draws differently.
fn caught(rule: Rule, seed: u64) -> Report {
    let report = run(Options::from_seed(seed).with_mutant(rule));
    assert!(report.violation.is_some(), "nobody noticed `{}` under seed {seed}", rule.mutant());
    report
}
