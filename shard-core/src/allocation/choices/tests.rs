//! What Orleans tests, and what slow starts and old reports do.

use std::{format, vec, vec::Vec};

use super::super::tests::{T0, layout, node};
use super::*;
use crate::allocation::Layout;
use crate::allocation::Stats;
use crate::id::ShardId;

const OVERLOADED: Stats = Stats { cpu_permille: 1_000, memory_used: 0, memory_limit: 0, entities: 0 };

fn reporting(entities: u32) -> Option<Stats> {
    Some(Stats { entities, ..Stats::default() })
}

fn with_stats(stats: &[Option<Stats>]) -> Layout {
    let mut layout = layout(&vec![&[][..]; stats.len()]);
    (0..).map(NodeIx).zip(stats).for_each(|(ix, stats)| layout.set_stats(ix, *stats));
    layout
}

/// How often each node is the answer, over a hundred seeds.
fn answers(strategy: &mut dyn AllocationStrategy, layout: &Layout) -> Vec<u32> {
    let view = layout.view(T0 + Duration::from_secs(5), 0);
    let mut counts = vec![0; view.nodes().len()];
    let place = |seed| strategy.place(&view, &Request::new(ShardId(0), seed));
    (0..100).filter_map(place).for_each(|ix| counts[ix.at()] += 1);
    counts
}

#[test]
fn known_nodes_come_first_and_overloaded_ones_never() {
    let mut strategy = ActivationCount::default();
    let cases: [(&[Option<Stats>], &[u32]); 6] = [
        (&[None], &[100]),
        (&[reporting(7), None], &[100, 0]),
        (&[Some(OVERLOADED)], &[0]),
        (&[Some(OVERLOADED), Some(OVERLOADED)], &[0, 0]),
        (&[Some(OVERLOADED), None], &[0, 100]),
        // Two are drawn of two.
        (&[reporting(7), reporting(6)], &[0, 100]),
    ];
    for (stats, expected) in cases {
        assert_eq!(answers(&mut strategy, &with_stats(stats)), expected, "{stats:?}");
    }
    let full = Stats { memory_used: 91, memory_limit: 100, ..Stats::default() };
    assert_eq!(answers(&mut strategy, &with_stats(&[Some(full), reporting(9)])), [0, 100]);
    let mut careless = strategy.overloaded_above(1_000, 1_000);
    assert_eq!(answers(&mut careless, &with_stats(&[Some(full), reporting(9)])), [100, 0]);
}

#[test]
fn a_new_node_fills_up_as_in_the_elastic_tests_of_orleans() {
    let mut layout = Layout::new(9_000);
    let mut nodes = vec![node(0, "h:10"), node(1, "h:11")];
    layout.set_nodes(nodes.clone());
    let (mut strategy, mut next) = (ActivationCount::default(), 0);
    let mut add = |layout: &mut Layout, shards: u32| {
        for shard in next..next + shards {
            // Reports come once in fifty placements, with an entity to a shard.
            if shard % 50 == 0 {
                let counts: Vec<u32> = layout.view(T0, 0).counts.to_vec();
                (0..).map(NodeIx).zip(counts).for_each(|(ix, count)| layout.set_stats(ix, reporting(count)));
            }
            let request = Request::new(ShardId(shard), mix(3, u64::from(shard)));
            let to = strategy.place(&layout.view(T0, 0), &request).unwrap();
            layout.settle(T0, ShardId(shard), to);
        }
        next += shards;
        layout.view(T0, 0).counts.to_vec()
    };
    let near = |counts: &[u32], mean: u32| assert!(counts.iter().all(|n| n.abs_diff(mean) <= 300), "{counts:?}");
    near(&add(&mut layout, 2_000), 1_000);
    nodes.push(node(2, "h:12"));
    layout.set_nodes(nodes);
    near(&add(&mut layout, 4_000), 2_000);
    near(&add(&mut layout, 3_000), 3_000);
}

#[test]
fn old_reports_do_not_drive_all_shards_to_one_node() {
    let mut layout = Layout::new(900);
    layout.set_nodes((0..4).map(|n| node(n, &format!("h:{}", 10 + n))).collect());
    (0..600).for_each(|shard| layout.settle(T0, ShardId(shard), NodeIx((shard % 3) as u16)));
    (0..3).for_each(|ix| layout.set_stats(NodeIx(ix), reporting(1_000)));
    layout.set_stats(NodeIx(3), reporting(0));
    let mut strategy = ActivationCount::new(const { NonZeroU32::new(4).unwrap() });
    for shard in 600..900 {
        let to = strategy.place(&layout.view(T0, 0), &Request::new(ShardId(shard), 1)).unwrap();
        layout.settle(T0, ShardId(shard), to);
    }
    // All four are drawn every time, and no report changes.
    assert!(layout.view(T0, 0).count(NodeIx(3)) < 260, "{:?}", layout.view(T0, 0).counts);
}

#[test]
fn two_choices_are_far_more_even_than_one() {
    let spread = |strategy: &mut dyn AllocationStrategy| {
        let mut layout = Layout::new(1_000);
        layout.set_nodes((0..20).map(|n| node(n, &format!("h:{}", 10 + n))).collect());
        for shard in 0..1_000 {
            let request = Request::new(ShardId(shard), mix(9, u64::from(shard)));
            let to = strategy.place(&layout.view(T0, 0), &request).unwrap();
            layout.settle(T0, ShardId(shard), to);
        }
        layout.view(T0, 0).counts.iter().max().copied().unwrap()
    };
    let (one, two) = (spread(&mut super::super::Random), spread(&mut TwoChoices::new()));
    assert!(one >= 60 && two <= 53, "{one} and {two}, of a mean of 50");
}

#[test]
fn two_choices_weigh_capacities() {
    let mut layout = layout(&[&[0, 1], &[2, 3, 4]]);
    let mut nodes = layout.view(T0, 0).nodes().to_vec();
    nodes[1].capacity = 2;
    layout.set_nodes(nodes);
    assert_eq!(answers(&mut TwoChoices::new(), &layout), [0, 100]);
    layout.set_accepts(NodeIx(1), false);
    assert_eq!(answers(&mut TwoChoices::new(), &layout), [100, 0]);
    layout.set_accepts(NodeIx(0), false);
    assert_eq!(answers(&mut TwoChoices::new(), &layout), [0, 0]);
}

#[test]
fn a_new_node_starts_slowly() {
    let mut layout = layout(&[&[0, 1], &[2, 3], &[]]);
    let mut nodes = layout.view(T0, 0).nodes().to_vec();
    // Answers are asked for after five seconds: the third node has been up for one, the others for five.
    nodes[2].up_since = T0 + Duration::from_secs(4);
    layout.set_nodes(nodes.clone());
    // Drawn in two of three cases, and then always better.
    assert!((55..80).contains(&answers(&mut TwoChoices::new(), &layout)[2]));
    assert!((55..80).contains(&answers(&mut TwoChoices::new().slow_start(Duration::from_secs(1)), &layout)[2]));
    let five = Duration::from_secs(5);
    // Taken in a fifth of these; where more are drawn, in a fifth of all.
    assert!((5..25).contains(&answers(&mut TwoChoices::new().slow_start(five), &layout)[2]));
    let mut all = ActivationCount::new(const { NonZeroU32::new(3).unwrap() }).slow_start(five);
    assert!((10..32).contains(&answers(&mut all, &layout)[2]));
    // Where all are new, somebody has to.
    nodes.iter_mut().for_each(|node| node.up_since = T0 + five);
    layout.set_nodes(nodes);
    assert_eq!(answers(&mut TwoChoices::new().slow_start(five), &layout).iter().sum::<u32>(), 100);
    assert_eq!(answers(&mut all, &layout).iter().sum::<u32>(), 100);
}
