//! The simulator's smoke test: whole clusters in storms, the same twice, and broken rules that must be noticed.
#![cfg(feature = "sim")]

use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Drill, Mark, Marks, Options, Report};
use shard_core::time::Duration;

fn run(options: Options) -> Report {
    Cluster::new(options).run()
}

/// What the storms of these seeds must pass at least once. Rarer marks are a campaign's (`storm --seeds 1000`).
const MET: &[Mark] = &[
    Mark::CoordinatorCrashed,
    Mark::CoordinatorPaused,
    Mark::CrashInDrain,
    Mark::CrashInHandler,
    Mark::CrashWhileHalting,
    Mark::CrashWhileLeaving,
    Mark::LapseWithShards,
    Mark::RevivedInMargin,
    Mark::CandidacyGivenUp,
    Mark::LeaseRefused,
    Mark::ReleasedUnreigned,
    Mark::ReleasedResigned,
    Mark::OpenedEarly,
    Mark::DeclaredDead,
    Mark::AnnouncedToOwner,
    Mark::ShardsReported,
    Mark::StaleDirective,
    Mark::ForFormerLife,
    Mark::SortDropped,
    Mark::SortHeld,
    Mark::Idle,
    Mark::Evicted,
    Mark::StartFailed,
    Mark::FastDoor,
    Mark::InDoubt,
    Mark::FullEntity,
    Mark::Unavailable,
    Mark::Expired,
    Mark::Rejected,
    Mark::ClosedBeyond,
    Mark::RefusedDraining,
    Mark::StreamReopened,
    Mark::LinkGap,
    Mark::LinkNewLife,
    Mark::LinkDoubtful,
    Mark::LinkCrowded,
    Mark::LinkRoomAgain,
];

#[test]
fn storms_break_no_promise_and_reach_the_rare_places() {
    let mut marks = Marks::default();
    for seed in 0..60 {
        let report = run(Options::from_seed(seed));
        assert!(report.violation.is_none(), "{report}");
        assert!(report.counters.messages > 0 && report.counters.grants > 0, "{report:?}");
        marks.add(&report.marks);
    }
    let missed: Vec<_> = MET.iter().filter(|mark| marks.count(**mark) == 0).map(|mark| mark.name()).collect();
    assert!(missed.is_empty(), "never met: {missed:?}\n{marks}");
}

/// The same storms with a guard by tenant on every node: what waits for its turn is neither lost, repeated nor reordered when
/// shards move, entities fall asleep or fail, sessions end and processes die.
#[test]
fn guarded_entities_keep_every_promise_in_storms() {
    let mut marks = Marks::default();
    for seed in 200..260 {
        let report = run(Options::from_seed(seed).with_guard());
        assert!(report.violation.is_none(), "{report}");
        assert!(report.counters.handled > 0, "{report:?}");
        marks.add(&report.marks);
    }
    let met = [Mark::FullTenant, Mark::Rejected, Mark::Idle, Mark::Evicted, Mark::StartFailed];
    let missed: Vec<_> = met.iter().filter(|mark| marks.count(**mark) == 0).map(|mark| mark.name()).collect();
    assert!(missed.is_empty(), "never met: {missed:?}\n{marks}");
    assert_eq!(marks.count(Mark::FastDoor), 0, "no handler without a seat");
}

/// Every seed twice, and the whole text of both runs compared. Prints how many and how long.
#[test]
fn the_same_seed_is_the_same_text() {
    let (began, mut bytes) = (std::time::Instant::now(), 0);
    let seeds = 100..108;
    for seed in seeds.clone() {
        let traced = || run(Options::from_seed(seed).with_storm(Duration::from_secs(6)).with_trace());
        let (once, twice) = (traced(), traced());
        assert_eq!(once.digest, twice.digest, "seed {seed}");
        assert_eq!(once.counters, twice.counters, "seed {seed}");
        let first = once.trace.iter().zip(&twice.trace).find(|(a, b)| a != b);
        assert!(first.is_none() && once.trace.len() == twice.trace.len(), "seed {seed}: {first:?}");
        bytes += once.trace.iter().map(String::len).sum::<usize>();
        // Writing lines changes nothing.
        let untraced = run(Options::from_seed(seed).with_storm(Duration::from_secs(6)));
        assert_eq!(untraced.digest, once.digest, "seed {seed}");
    }
    println!("{} seeds, {bytes} bytes of events, twice: {:.1} s", seeds.count(), began.elapsed().as_secs_f64());
    assert_ne!(run(Options::from_seed(100)).digest, run(Options::from_seed(101)).digest);
}

/// Clusters of every size of the reports, and the incremental checkers with their scan.
#[test]
fn clusters_of_any_size_keep_their_promises() {
    for (nodes, seeds) in [(1, 4), (2, 4), (3, 4), (5, 4), (20, 2), (50, 1)] {
        for seed in 0..seeds {
            let options = Options::from_seed(seed).with_nodes(nodes).with_storm(Duration::from_secs(8));
            let report = run(options);
            assert!(report.violation.is_none(), "{nodes} nodes: {report}");
            assert!(report.counters.handled > 0, "{nodes} nodes, seed {seed}: nothing was handled");
        }
    }
}

/// Two shards that move again as soon as they rest, under much mail. Of the even seeds, in which all moves are planned ones,
/// 64, 124, 166 and 226 were reordered while a stream that kept nothing still named a former owner.
#[test]
fn dense_moves_keep_the_order() {
    for seed in [64, 99, 124, 166, 226, 1, 2] {
        let report = run(Options::from_seed(seed).with_storm(Duration::from_secs(12)).with_dense_moves());
        assert!(report.violation.is_none(), "{report}");
        assert!(report.counters.drains > 50, "seed {seed}: {} drains", report.counters.drains);
    }
}

/// A checker that only looks at what an event touched still sees two owners, and owners of whom the table knows nothing.
#[test]
fn large_clusters_are_checked_too() {
    for property in ["double-owner", "unlisted-owner"] {
        let seen = (0..20).find_map(|seed| {
            let options = Options { only: Some(property.into()), ..Options::from_seed(seed).with_nodes(20) };
            let options = options.with_mutant(Rule::Quarantine);
            run(options).violation.filter(|violation| violation.property == property)
        });
        assert!(seen.is_some(), "nobody noticed `{property}` among twenty nodes");
    }
}

/// One fault to a cluster at rest: everyone's shards come back, and nobody's moves without need.
#[test]
fn drills_measure_one_fault_at_a_time() {
    for drill in [Drill::Crash, Drill::CoordinatorCrash, Drill::Leave, Drill::Join] {
        let report = run(Options::drill(drill, 1, 5));
        assert!(report.violation.is_none(), "{}: {report}", drill.name());
        let rebalance = report.rebalance.expect("a drill changes the members");
        assert!(rebalance.moves >= rebalance.minimum, "{}: {rebalance:?}", drill.name());
        let victims = report.gaps.summary().find(|gap| gap.victim && gap.cause.name() == drill.name());
        let longest = victims.map_or(0, |gap| gap.max);
        assert!(longest < 5_000, "{}: {}", drill.name(), report.gaps);
    }
}

/// Leaves, resignations and joins that nothing disturbs: nobody is left in doubt, and nothing is lost.
#[test]
fn planned_moves_leave_nothing_in_doubt() {
    for drill in [Drill::Leave, Drill::CoordinatorLeave, Drill::Resign, Drill::Join] {
        for seed in 1..=12 {
            let report = run(Options::drill(drill, seed, 5));
            assert!(report.violation.is_none(), "{}: {report}", drill.name());
            assert_eq!((report.counters.in_doubt, report.counters.lost), (0, 0), "{} {seed}", drill.name());
        }
    }
}

#[test]
fn the_four_rules_that_hold_ownership_are_missed_at_once() {
    noticed(Rule::NoForcedHandoff, 40..=120, "double-owner");
    noticed(Rule::DriftFactor, 40..=120, "double-owner");
    noticed(Rule::ValidityFromSend, 65..=160, "double-owner");
    noticed(Rule::DropBarrier, 1..=30, "double-owner");
}

#[test]
fn the_rules_of_delivery_are_missed_too() {
    noticed(Rule::SettleOnStart, 1..=30, "lost");
    noticed(Rule::ClosedBeyond, 1..=200, "duplicated");
    noticed(Rule::LinkGap, 1..=60, "lost");
    noticed(Rule::ContiguousReign, 1..=60, "term-twice");
}

/// The checker of the store keeps its own record of claims: a claim that the broken rule does not write is one all the same.
#[test]
fn the_rules_of_the_store_are_missed() {
    noticed(Rule::StoreClaim, 1..=20, "newest-refused");
    noticed(Rule::StoreCondition, 1..=20, "lost-update");
    noticed(Rule::StoreActivation, 1..=20, "newest-refused");
}

/// A run in which the broken rule does its harm, within so many seeds. It names both witnesses, what led to it, and how
/// to see it again.
fn noticed(rule: Rule, mut seeds: std::ops::RangeInclusive<u64>, property: &str) {
    let name = rule.mutant();
    let report = seeds
        .find_map(|seed| {
            let only = Some(property.to_owned());
            let report = run(Options { only, ..Options::from_seed(seed).with_mutant(rule) });
            report.violation.as_ref().is_some_and(|found| found.property == property).then_some(report)
        })
        .unwrap_or_else(|| panic!("nobody noticed `{name}`"));
    let text = report.to_string();
    let replay = text.lines().find(|line| line.contains("replay")).unwrap_or_default();
    assert!(
        replay.contains(&format!("--seed {}", report.seed)) && replay.contains(&format!("--mutant {name}")),
        "{text}"
    );
    assert!(report.violation.is_some_and(|found| found.history.len() > 20 && !found.witness.is_empty()), "{text}");
}

/// One tenant's poison entity kills whatever runs it, in the real cluster: exactly its hand dies, exactly the tenants with a
/// node there are harmed, and over the seeds as many are unaffected as the calculator says, within four standard errors.
/// (cortex #3571, loki #6174: a query of death that was dealt anew at every crash killed all, one after the other.)
#[test]
fn poison_kills_its_hand_and_harms_as_many_as_calculated() {
    use shard_core::sim::{Poison, Toll};
    let (mut toll, isolation) = (Toll::default(), Poison::new(0).isolation());
    for seed in 1..=8 {
        let run = Poison::new(seed).run();
        println!("{run}");
        assert!(run.wrong.is_empty(), "{run}\n{}", run.report);
        assert_eq!((run.killed.len(), run.unaffected), (3, run.shared[0]), "{run}");
        toll.add(&run);
    }
    let (share, law) = (toll.unaffected as f64 / toll.others() as f64, isolation.overlap()[0]);
    let off = toll.deviation_squared(&isolation).sqrt();
    println!("unaffected: {share:.4} of {} tenants, calculated {law:.4}: {off:.2} standard errors", toll.others());
    assert!(off < 4.0, "{share} of {:?} unaffected, calculated {law}", toll.shared);
    // The same seed, the same run.
    assert_eq!(Poison::new(8).run().report.digest, Poison::new(8).run().report.digest);
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
