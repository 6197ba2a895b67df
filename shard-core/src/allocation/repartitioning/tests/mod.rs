//! Vectors of the reference, translated to shards, and what holds on any graph.

mod graphs;
mod heavy;

use std::vec::Vec;

use super::super::tests::{T0, layout};
use super::*;
use crate::allocation::{Edge, Hash, Layout, LeastShard, Move, Random, Shared};

fn edge(a: u32, b: u32, weight: u32) -> Edge {
    Edge::new(ShardId(a), ShardId(b), weight)
}

/// Nodes with the shards given, which say so much to each other.
fn talking(owned: &[&[u32]], edges: &[(u32, u32, u32)]) -> Layout {
    let mut layout = layout(owned);
    layout.set_edges(edges.iter().map(|(a, b, weight)| edge(*a, *b, *weight)).collect());
    layout
}

fn at(secs: u64) -> Instant {
    T0 + Duration::from_secs(1_000 + secs)
}

/// Around a strategy that moves nothing, so that all moves are its own.
fn alone(tolerance: u32) -> Repartitioning<Random> {
    Repartitioning::new(Random, Switch::new()).cooling_down(Duration::ZERO).heeding(50, 1).tolerating(0, tolerance)
}

fn homes(layout: &Layout) -> Vec<u16> {
    let view = layout.view(T0, 0);
    view.shards().filter_map(|shard| view.home(shard)).map(|ix| ix.0).collect()
}

fn counts(layout: &Layout) -> Vec<u32> {
    layout.view(T0, 0).counts.to_vec()
}

fn cut(layout: &Layout) -> u64 {
    let view = layout.view(T0, 0);
    let apart = |edge: &&Edge| view.home(edge.a) != view.home(edge.b);
    view.edges().iter().filter(apart).map(|edge| u64::from(edge.weight)).sum()
}

/// One round at `now`, carried out at once.
fn round(strategy: &mut dyn AllocationStrategy, layout: &mut Layout, now: Instant) -> Vec<Move> {
    let limits = Limits { moves_per_round_max: 1_000, in_flight_max: 1_000 };
    let mut ledger = Ledger::new();
    let moves = ledger.round(strategy, &layout.view(now, 0), limits).to_vec();
    moves.iter().for_each(|m| layout.settle(now, m.shard, m.to));
    moves
}

/// Rounds until rest; returns the moves.
fn rest(strategy: &mut dyn AllocationStrategy, layout: &mut Layout) -> usize {
    let mut made = 0;
    for second in 0..100 {
        match round(strategy, layout, at(second)).len() {
            0 => return made,
            moves => made += moves,
        }
    }
    panic!("never rests");
}

#[test]
fn a_caller_moves_to_those_it_calls() {
    let mut layout = talking(&[&[0], &[1, 2]], &[(0, 1, 1), (0, 2, 1), (1, 2, 1)]);
    assert_eq!((rest(&mut alone(1_000), &mut layout), homes(&layout)), (1, [1, 1, 1].to_vec()));
}

#[test]
fn one_that_is_called_moves_to_its_callers_or_they_to_it_if_it_may_not() {
    let both = || talking(&[&[0, 1], &[2]], &[(0, 2, 1), (1, 2, 1)]);
    let mut layout = both();
    assert_eq!((rest(&mut alone(1_000), &mut layout), homes(&layout)), (1, [0, 0, 0].to_vec()));
    let mut layout = both();
    let mut strategy = alone(1_000).without([ShardId(2)]);
    assert_eq!((rest(&mut strategy, &mut layout), homes(&layout)), (2, [1, 1, 1].to_vec()));
}

#[test]
fn of_two_that_would_meet_one_moves() {
    let edges = [(0, 1, 1), (0, 2, 3), (2, 3, 1)];
    let mut layout = talking(&[&[0, 1], &[2, 3]], &edges);
    assert_eq!((rest(&mut alone(2), &mut layout), homes(&layout)), (1, [1, 0, 1, 1].to_vec()));
}

#[test]
fn pairs_meet_within_a_tight_tolerance_and_stay() {
    // 0, 1, 2 talk to 3, 4, 5; shard 6 may not move.
    let mut layout = talking(&[&[0, 1, 2], &[3, 4, 5, 6]], &[(0, 3, 1), (1, 4, 1), (2, 5, 1)]);
    let mut strategy = alone(2).without([ShardId(6)]);
    assert_eq!(round(&mut strategy, &mut layout, at(0)).len(), 3);
    let at_home = homes(&layout);
    assert_eq!((cut(&layout), at_home[6]), (0, 1));
    assert!(at_home[..3].contains(&0) && at_home[..3].contains(&1), "{at_home:?}");
    (1..20).for_each(|second| assert_eq!(round(&mut strategy, &mut layout, at(second)), []));
}

/// Two nodes with so many shards; the first three of the one talk to the first three of the other.
fn three_pairs(first: u32, second: u32) -> Layout {
    let (one, other): (Vec<u32>, Vec<u32>) = ((0..first).collect(), (first..first + second).collect());
    talking(&[&one, &other], &[(0, first, 4), (1, first + 1, 4), (2, first + 2, 4)])
}

#[test]
fn exchanges_are_those_of_the_reference_and_swap_where_it_cannot() {
    // Shards of either node, tolerance, and what comes of it; all pairs meet.
    let rows = [
        ((10, 10), 2, (3, [9, 11])),
        ((10, 10), 1_000, (3, [9, 11])),
        // Orleans moves nothing here: one at a time, every move is too much. The third pair needs one in return.
        ((10, 10), 0, (4, [10, 10])),
        ((12, 10), 2, (3, [11, 11])),
        ((20, 10), 2, (3, [17, 13])),
    ];
    for ((first, second), tolerance, (moves, after)) in rows {
        let mut layout = three_pairs(first, second);
        let made = round(&mut alone(tolerance), &mut layout, at(0)).len();
        assert_eq!((cut(&layout), made, counts(&layout)), (0, moves, after.to_vec()), "{first}/{second}, {tolerance}");
    }
}

#[test]
fn a_chain_is_drawn_together() {
    // a, b, c, d are 10, 0, 11, 1; each node has ten shards.
    let (one, other): (Vec<u32>, Vec<u32>) = ((0..10).collect(), (10..20).collect());
    for (tolerance, moves, after) in [(1_000, 2, [8, 12]), (2, 3, [9, 11])] {
        let mut layout = talking(&[&one, &other], &[(0, 10, 5), (0, 11, 3), (1, 11, 2)]);
        let made = round(&mut alone(tolerance), &mut layout, at(0)).len();
        assert_eq!((cut(&layout), made, counts(&layout)), (0, moves, after.to_vec()), "{tolerance}");
    }
}

#[test]
fn what_has_just_come_stays_and_what_nobody_heeds_draws_nothing() {
    let mut layout = three_pairs(10, 10);
    (0..3).for_each(|shard| layout.settle(at(0), ShardId(shard), NodeIx(0)));
    (10..13).for_each(|shard| layout.settle(at(0), ShardId(shard), NodeIx(1)));
    let mut strategy = alone(2).cooling_down(Duration::from_secs(60));
    assert_eq!(round(&mut strategy, &mut layout, at(59)), []);
    assert_eq!(round(&mut strategy, &mut layout, at(60)).len(), 3);
    // They say a hundred times as much to others that nobody tracks.
    let mut layout = three_pairs(10, 10);
    assert_eq!(round(&mut alone(2).heeding(50, 5), &mut layout, at(0)), []);
    (0..20).for_each(|shard| layout.set_said(ShardId(shard), 400));
    assert_eq!(round(&mut alone(2), &mut layout, at(0)), []);
    assert_eq!(round(&mut alone(2).heeding(10, 4).gaining(11), &mut layout, at(0)), []);
    assert_eq!(round(&mut alone(2).heeding(10, 4), &mut layout, at(0)).len(), 3);
}

#[test]
fn a_leaving_node_neither_gives_nor_takes() {
    let mut layout = three_pairs(10, 10);
    layout.set_accepts(NodeIx(1), false);
    assert_eq!(round(&mut alone(1_000), &mut layout, at(0)), []);
}

#[test]
fn a_suspended_one_moves_nothing_and_reports_what_it_found() {
    let switch = Shared::new(Switch::new());
    let mut strategy =
        Repartitioning::new(LeastShard::default(), switch.clone()).cooling_down(Duration::ZERO).heeding(50, 4);
    let mut layout = three_pairs(10, 10);
    switch.change(|switch| switch.suspend(at(5)));
    assert_eq!(round(&mut strategy, &mut layout, at(4)), []);
    assert_eq!(switch.change(|switch| switch.report()), Report::default());
    assert_eq!(round(&mut strategy, &mut layout, at(5)).len(), 3);
    assert_eq!(strategy.report().cut_ppm, Some(1_000_000));
    assert_eq!(round(&mut strategy, &mut layout, at(6)), []);
    let report = strategy.report();
    assert_eq!((report.cut_ppm, report.cycles, report.moves, report.completed), (Some(0), 2, 3, 1));
}

#[test]
fn within_the_tolerance_the_inner_one_evens_nothing_out_and_beyond_it_does() {
    let strategy = || Repartitioning::new(LeastShard::default(), Switch::new());
    // Nobody talks: it is the inner strategy.
    let mut layout = talking(&[&[0, 1, 2], &[3]], &[]);
    assert_eq!((rest(&mut strategy(), &mut layout), counts(&layout)), (1, [2, 2].to_vec()));
    // Two apart is even enough, since 0 and 1 are where they belong.
    let mut layout = talking(&[&[0, 1, 2], &[3]], &[(0, 1, 1)]);
    assert_eq!(rest(&mut strategy(), &mut layout), 0);
    let mut layout = talking(&[&[0, 1, 2, 3, 4], &[]], &[(0, 1, 1)]);
    rest(&mut strategy(), &mut layout);
    assert_eq!(counts(&layout), [3, 2]);
}

#[test]
fn what_a_rule_takes_back_is_left_to_it() {
    let mut strategy = Repartitioning::new(Hash, Switch::new()).cooling_down(Duration::ZERO).tolerating(0, 10);
    let mut layout = talking(&[&[0, 2, 4], &[1, 3, 5]], &[(0, 1, 10), (2, 3, 10)]);
    let moves: Vec<usize> = (0..9).map(|second| round(&mut strategy, &mut layout, at(second)).len()).collect();
    assert_eq!(homes(&layout), [0, 1, 0, 1, 0, 1]);
    assert_eq!(moves[5..], [0, 0, 0, 0], "{moves:?}");
}

#[test]
fn loads_are_kept_even_where_loads_are_what_matters() {
    let loads = [50, 10, 10, 30, 50, 10, 10, 30];
    let mut layout = talking(&[&[0, 1, 2, 3], &[4, 5, 6, 7]], &[(0, 7, 5)]);
    loads.into_iter().zip(0..).for_each(|(load, shard)| layout.set_load(ShardId(shard), load));
    // A fifth of the mean of 100, or no shard. What follows is 30, against 10: alone it would make it 60.
    let mut strategy = alone(0).tolerating(200, 0).keeping_even(Balance::Loads);
    let moves = round(&mut strategy, &mut layout, at(0));
    assert_eq!((cut(&layout), moves.len()), (0, 2), "{moves:?}");
    let view = layout.view(T0, 0);
    let of_first = view.shards().filter(|shard| view.home(*shard) == Some(NodeIx(0)));
    assert_eq!(of_first.filter_map(|shard| view.load(shard)).sum::<u32>(), 100);
}
