//! The rows of Akka's tests, as a table.

use std::vec::Vec;

use super::super::tests::{T0, layout, node, placed, planned};
use super::*;
use crate::allocation::{Layout, Ledger, Limits};
use crate::time::Duration;

/// Shards 1, 2, 3 and so on, dealt to the first node, then to the second, and so on. (Shard 0 has no home.)
fn dealt(counts: &[u32]) -> Layout {
    let mut next = 1;
    let owned: Vec<Vec<u32>> = counts
        .iter()
        .map(|count| {
            next += count;
            (next - count..next).collect()
        })
        .collect();
    layout(&owned.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn counts(layout: &Layout) -> Vec<u32> {
    let view = layout.view(T0, 0);
    view.candidates().iter().map(|ix| view.count(*ix)).collect()
}

/// Plans a round and carries it out; returns the shards moved, in the order of their proposals.
fn round(strategy: TwoPhaseLeastShard, layout: &mut Layout, second: u64) -> Vec<u32> {
    let limits = Limits { moves_per_round_max: usize::MAX, in_flight_max: usize::MAX };
    let now = T0 + Duration::from_secs(second);
    let moves = Ledger::new().round(&mut { strategy }, &layout.view(now, 0), limits).to_vec();
    moves.iter().for_each(|m| layout.settle(now, m.shard, m.to));
    moves.iter().map(|m| m.shard.0).collect()
}

fn numbers(ranges: &[core::ops::RangeInclusive<u32>]) -> Vec<u32> {
    ranges.iter().cloned().flatten().collect()
}

const UNLIMITED: (usize, u32) = (1_000, 1_000);

/// Rows that come one after another on one cluster: (returned, counts after).
type Rounds<'a> = &'a [(&'a [core::ops::RangeInclusive<u32>], &'a [u32])];

#[test]
fn rows_2_to_13_15_to_19_and_24_to_27() {
    let cases: [((usize, u32), &[u32], Rounds<'_>); 19] = [
        (UNLIMITED, &[1, 2, 0], &[(&[2..=2], &[1, 1, 1])]),
        (UNLIMITED, &[2, 0, 0], &[(&[1..=1], &[1, 1, 0])]),
        (UNLIMITED, &[1, 1, 0], &[(&[], &[1, 1, 0])]),
        (UNLIMITED, &[3, 0, 0], &[(&[1..=2], &[1, 1, 1])]),
        // Those of the node with the higher address come first; the set is the same.
        (UNLIMITED, &[4, 4, 0], &[(&[5..=5, 1..=1], &[3, 3, 2])]),
        (UNLIMITED, &[4, 4, 2], &[(&[1..=1], &[3, 4, 3])]),
        (UNLIMITED, &[5, 5, 0], &[(&[6..=6, 1..=1], &[4, 4, 2]), (&[2..=2], &[3, 4, 3])]),
        (
            UNLIMITED,
            &[50, 0, 50],
            &[(&[51..=66, 1..=16], &[34, 32, 34]), (&[17..=17], &[33, 33, 34]), (&[], &[33, 33, 34])],
        ),
        ((3, 1_000), &[1, 9, 0], &[(&[2..=4], &[2, 6, 2])]),
        ((5, 300), &[1, 9, 0], &[(&[2..=4], &[2, 6, 2])]),
        // Where Akka and Pekko differ, Akka is followed: the most loaded sheds first.
        (
            (1, 1_000),
            &[0, 1, 3, 4],
            &[(&[5..=5], &[1, 1, 3, 3]), (&[6..=6], &[2, 1, 3, 2]), (&[2..=2], &[2, 2, 2, 2]), (&[], &[2, 2, 2, 2])],
        ),
        ((1, 1_000), &[0, 1, 2, 5, 7], &[(&[9..=9], &[1, 1, 2, 5, 6])]),
        ((3, 1_000), &[0, 0, 3, 5], &[(&[4..=6], &[2, 1, 3, 2])]),
        (UNLIMITED, &[0, 0, 0, 1], &[(&[], &[0, 0, 0, 1])]),
        ((20, 100), &[10, 10, 10, 0], &[(&[21..=22, 11..=11], &[10, 9, 8, 3])]),
        (
            (20, 100),
            &[100, 100, 0],
            &[
                (&[101..=120], &[100, 80, 20]),
                (&[1..=20], &[80, 80, 40]),
                (&[121..=133, 21..=27], &[73, 67, 60]),
                (&[28..=33], &[67, 67, 66]),
                (&[], &[67, 67, 66]),
            ],
        ),
        (UNLIMITED, &[1, 1, 1, 1, 6], &[(&[5..=8], &[2, 2, 2, 2, 2])]),
        // One may always move, even where the share allows none.
        ((20, 0), &[4, 0], &[(&[1..=1], &[3, 1]), (&[2..=2], &[2, 2])]),
        ((0, 1_000), &[4, 0], &[(&[1..=1], &[3, 1])]),
    ];
    for ((absolute, relative), start, rounds) in cases {
        let mut layout = dealt(start);
        for (second, (returned, after)) in (1..).zip(rounds) {
            let moved = round(TwoPhaseLeastShard::new(absolute, relative), &mut layout, second);
            assert_eq!((moved, counts(&layout)), (numbers(returned), after.to_vec()), "{start:?}, round {second}");
        }
    }
}

#[test]
fn row_1_the_least_is_given_the_next() {
    assert_eq!(placed(&mut TwoPhaseLeastShard::default(), &dealt(&[1, 1, 0]), 3).as_deref(), Some("h:12"));
}

#[test]
fn row_14_one_round_at_a_time() {
    let mut layout = dealt(&[10, 0, 0]);
    [2, 3].iter().for_each(|shard| layout.depart(ShardId(*shard), None));
    assert_eq!(planned(&mut TwoPhaseLeastShard::new(1_000, 1_000), &layout), []);
}

/// Five shards on each of two nodes and none on a third, whose nodes are changed.
fn changed(change: impl Fn(&mut Vec<crate::allocation::NodeView>)) -> Layout {
    let mut layout = dealt(&[5, 5, 0]);
    let mut nodes = layout.view(T0, 0).nodes().to_vec();
    change(&mut nodes);
    layout.set_nodes(nodes);
    layout
}

#[test]
fn rows_20_and_21_a_cluster_that_is_not_calm_is_left_alone() {
    let mut strategy = TwoPhaseLeastShard::new(1_000, 1_000);
    assert_eq!(planned(&mut strategy, &changed(|_| ())).len(), 2);
    let mut updating = changed(|nodes| nodes[1].version = 1);
    assert_eq!(planned(&mut strategy, &updating), []);
    updating.depart(ShardId(1), None);
    assert_eq!(planned(&mut strategy, &updating), []);
    let cut_off = changed(|nodes| (nodes[1].accepts, nodes[1].deaf) = (false, true));
    assert_eq!(planned(&mut strategy, &cut_off), []);
}

#[test]
fn row_22_differs_because_a_node_that_joins_is_not_seen_before_it_has_joined() {
    // What comes closest is a node that takes nothing. It is as good as absent.
    let mut joining = changed(|nodes| nodes.push(node(9, "h:19")));
    joining.set_accepts(NodeIx(3), false);
    let moves: Vec<_> = planned(&mut TwoPhaseLeastShard::new(1_000, 1_000), &joining);
    assert_eq!(moves, [(6, 2), (1, 2)]);
}

#[test]
fn row_23_nodes_come_in_the_order_of_their_suitability() {
    // Two of the newer version with 1 and 2 shards, one of the older with none, and one that leaves.
    let mut layout = dealt(&[0, 1, 2, 0, 0]);
    let mut nodes = layout.view(T0, 0).nodes().to_vec();
    (0..3).for_each(|at| nodes[at].version = 1);
    layout.set_nodes(nodes);
    layout.set_accepts(NodeIx(4), false);
    let mut order = Vec::new();
    while let Some(ix) = most_suitable(&layout.view(T0, 0)) {
        order.push(ix.0);
        layout.set_accepts(ix, false);
    }
    // The one that leaves comes last in Akka, and not at all here.
    assert_eq!(order, [0, 1, 2, 3]);
}

#[test]
fn without_limits_two_rounds_even_out_any_twenty_nodes() {
    let mut prng = crate::prng::Prng::new(7);
    for _ in 0..200 {
        let start: Vec<u32> = (0..=prng.below(20)).map(|_| prng.below(21) as u32).collect();
        let mut layout = dealt(&start);
        (1..=2).for_each(|second| drop(round(TwoPhaseLeastShard::new(1_000, 1_000), &mut layout, second)));
        let ended = counts(&layout);
        assert!(ended.iter().max().unwrap() - ended.iter().min().unwrap() <= 1, "{start:?} to {ended:?}");
    }
}

#[test]
fn with_limits_twenty_rounds_even_out_twenty_nodes() {
    let mut prng = crate::prng::Prng::new(8);
    for _ in 0..200 {
        let start: Vec<u32> = [0; 20].iter().map(|_| prng.below(21) as u32).collect();
        let strategy = TwoPhaseLeastShard::new(6 + prng.below(7) as usize, 50 + prng.below(951) as u32);
        let mut layout = dealt(&start);
        (1..=20).for_each(|second| drop(round(strategy, &mut layout, second)));
        let ended = counts(&layout);
        assert!(ended.iter().max().unwrap() - ended.iter().min().unwrap() <= 1, "{start:?} to {ended:?}");
    }
}
