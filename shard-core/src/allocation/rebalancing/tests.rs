//! Vectors of the reference, corrected.

use super::super::tests::{T0, layout};
use super::*;
use crate::allocation::{Layout, LeastShard, Ledger, Limits, Shared, Stats};

/// Nodes with so many shards and so much memory each.
fn cluster(counts: &[u32], memory: &[u64]) -> Layout {
    let starts: Vec<u32> = counts.iter().scan(0, |at, count| Some(core::mem::replace(at, *at + count))).collect();
    let owned: Vec<Vec<u32>> =
        starts.iter().zip(counts).map(|(start, count)| (*start..start + count).collect()).collect();
    let mut layout = layout(&owned.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for (ix, memory) in (0..).map(NodeIx).zip(memory) {
        layout.set_stats(ix, Some(Stats { memory_used: *memory, ..Stats::default() }));
    }
    layout
}

fn counts(layout: &Layout) -> Vec<u32> {
    layout.view(T0, 0).counts.to_vec()
}

fn at(secs: u64) -> Instant {
    T0 + Duration::from_secs(1_000 + secs)
}

fn shares(layout: &Layout) -> Option<(Vec<i64>, Option<u32>)> {
    struct Look(Option<(Vec<i64>, Option<u32>)>);
    impl AllocationStrategy for Look {
        fn name(&self) -> &'static str {
            "look"
        }
        fn place(&mut self, _: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
            None
        }
        fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
            let shares = Shares::of(view, plan);
            let targets = view.candidates().iter().map(|ix| shares.target_milli(*ix)).collect();
            self.0 = Some((targets, shares.imbalance_ppm()));
        }
    }
    let mut look = Look(None);
    Ledger::new().round(&mut look, &layout.view(T0, 0), Limits::default());
    look.0
}

fn rebalancing() -> Rebalancing<LeastShard> {
    Rebalancing::new(LeastShard::default(), Switch::new())
}

/// One round at `now`, carried out at once; returns its moves.
fn round(strategy: &mut dyn AllocationStrategy, layout: &mut Layout, now: Instant) -> usize {
    let limits = Limits { moves_per_round_max: 1_000, in_flight_max: 1_000 };
    let mut ledger = Ledger::new();
    let moves = ledger.round(strategy, &layout.view(now, 0), limits).to_vec();
    moves.iter().for_each(|m| layout.settle(now, m.shard, m.to));
    moves.len()
}

#[test]
fn targets_are_those_of_the_harmonic_mean_of_memory() {
    let layout = cluster(&[100; 4], &[400 << 20, 100 << 20, 100 << 20, 100 << 20]);
    // 30.769 and 123.077; the entropy falls short by .167751 before anything has moved.
    assert_eq!(shares(&layout), Some(([30_769, 123_077, 123_077, 123_077].to_vec(), Some(167_751))));
}

#[test]
fn imbalance_is_the_entropy_deviation_of_the_reference() {
    let ppm = |counts: &[u32]| shares(&cluster(counts, &[])).and_then(|shares| shares.1);
    assert_eq!(ppm(&[300, 30, 180, 100]), Some(167_742));
    assert_eq!(ppm(&[156, 152, 152, 150]), Some(73));
    // 1 - .562335 / ln 2, and 1 - .055546 / ln 2.
    assert_eq!((ppm(&[3, 1]), ppm(&[100, 1]), ppm(&[1, 1])), (Some(188_721), Some(919_863), Some(0)));
    assert_eq!(ppm(&[7]), None);
}

#[test]
fn unequal_memory_is_evened_out_and_then_nothing_moves() {
    let mut layout = cluster(&[100; 4], &[400 << 20, 100 << 20, 100 << 20, 100 << 20]);
    let mut strategy = rebalancing().allowing(0);
    let made: usize = (0..40).map(|cycle| round(&mut strategy, &mut layout, at(60 * cycle))).sum();
    assert_eq!((counts(&layout), made), ([31, 123, 123, 123].to_vec(), 69));
    let later: usize = (40..1_000).map(|cycle| round(&mut strategy, &mut layout, at(60 * cycle))).sum();
    assert_eq!(later, 0);
    let report = strategy.report();
    assert_eq!((report.moves, report.completed, report.failed, report.cycles), (69, 1, 0, 1_000));
}

#[test]
fn unequal_counts_are_evened_out_in_few_cycles() {
    let mut layout = cluster(&[300, 30, 180, 100], &[1 << 20; 4]);
    let mut strategy = rebalancing();
    for cycle in 0..14 {
        round(&mut strategy, &mut layout, at(15 * cycle));
    }
    let counts = counts(&layout);
    assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 2, "{counts:?}");
    let exact = counts.iter().sum::<u32>();
    assert_eq!(exact, 610);
}

#[test]
fn memory_that_follows_the_load_is_not_overshot() {
    let mut layout = cluster(&[300, 100], &[]);
    let mut strategy = rebalancing().allowing(0);
    let mut turned = 0;
    for cycle in 0..60 {
        let counts = counts(&layout);
        for (ix, count) in (0..).map(NodeIx).zip(&counts) {
            layout.set_stats(ix, Some(Stats { memory_used: u64::from(*count) << 20, ..Stats::default() }));
        }
        turned += usize::from(counts[0] < 199);
        round(&mut strategy, &mut layout, at(60 * cycle));
    }
    assert_eq!((counts(&layout), turned), ([200, 200].to_vec(), 0));
}

#[test]
fn a_suspended_one_moves_nothing_until_its_time_or_a_word() {
    let switch = Shared::new(Switch::new());
    let mut strategy = Rebalancing::new(LeastShard::default(), switch.clone());
    let mut layout = cluster(&[50, 0], &[]);
    switch.change(|switch| switch.suspend(at(100)));
    assert_eq!(round(&mut strategy, &mut layout, at(99)), 0);
    assert_eq!(switch.change(|switch| switch.suspended(at(99))), Some(at(100)));
    assert_eq!(round(&mut strategy, &mut layout, at(100)), 13);
    switch.change(|switch| switch.suspend(Instant::NEVER));
    assert_eq!(round(&mut strategy, &mut layout, at(200)), 0);
    switch.change(Switch::resume);
    // Not sooner than a cycle after the last one.
    assert_eq!(round(&mut strategy, &mut layout, at(114)), 0);
    assert_eq!(round(&mut strategy, &mut layout, at(115)), 6);
    assert_eq!(switch.change(|switch| switch.report().moves), 19);
}

#[test]
fn a_session_without_progress_is_given_up_for_longer_each_time() {
    // Whatever is moved, the nodes say the opposite the next time.
    let mut layout = cluster(&[100, 100], &[]);
    let mut strategy = rebalancing().cooling_down(Duration::ZERO).stagnating(3, 1_000_000);
    let mut busy = Vec::new();
    for second in (0..2_000).step_by(15) {
        let memory = if second % 30 == 0 { [4 << 20, 1 << 20] } else { [1 << 20, 4 << 20] };
        (0..).map(NodeIx).zip(memory).for_each(|(ix, memory_used)| {
            layout.set_stats(ix, Some(Stats { memory_used, ..Stats::default() }));
        });
        if round(&mut strategy, &mut layout, at(second)) > 0 {
            busy.push(second);
        }
    }
    let pauses: Vec<u64> = busy.windows(2).map(|two| two[1] - two[0]).filter(|pause| *pause > 15).collect();
    assert_eq!(pauses[..5], [30, 60, 120, 240, 480]);
    assert!(strategy.report().failed >= 5);
}

#[test]
fn a_heavy_shard_that_fits_nowhere_stays_and_light_ones_leave_it() {
    let mut layout = cluster(&[4, 1], &[]);
    [90, 5, 5, 5, 20].into_iter().zip(0..).for_each(|(load, shard)| layout.set_load(ShardId(shard), load));
    let mut strategy = rebalancing().correcting(1_000);
    for cycle in 0..5 {
        round(&mut strategy, &mut layout, at(100 * cycle));
    }
    let view = layout.view(T0, 0);
    let homes: Vec<u16> = view.shards().filter_map(|shard| view.home(shard)).map(|ix| ix.0).collect();
    assert_eq!(homes, [0, 1, 1, 1, 1]);
    // What costs more than it gains is not moved.
    let mut layout = cluster(&[3, 1], &[]);
    assert_eq!(round(&mut rebalancing().costing(2), &mut layout, at(0)), 0);
    assert_eq!(round(&mut rebalancing().costing(1), &mut layout, at(0)), 1);
}

#[test]
fn the_ramp_is_that_of_the_reference() {
    // Orleans' factors for two nodes are these over 1.1: .086511 in the first cycle, .574655 in the tenth.
    let terms = rebalancing().correcting(1_000).ramping(905).terms;
    assert_eq!((terms.part(1), terms.part(10)), (95_000, 631_463));
    assert_eq!(rebalancing().terms.part(1), 500_000);
}
