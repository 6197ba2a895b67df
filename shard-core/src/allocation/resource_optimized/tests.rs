//! Scores and draws beside the original, and what is mended.

use alloc::format;
use std::vec::Vec;

use super::*;
use crate::allocation::{Layout, NodeView};
use crate::id::{Incarnation, NodeId, NodeKey, ShardId};
use crate::time::Instant;

fn stats(cpu_permille: u16, memory_used: u64, memory_limit: u64, entities: u32) -> Option<Stats> {
    Some(Stats { cpu_permille, memory_used, memory_limit, entities })
}

fn cluster(nodes: &[Option<Stats>]) -> Layout {
    let mut layout = Layout::new(100);
    let node = |(at, stats): (usize, &Option<Stats>)| {
        let key = NodeKey { id: NodeId(at as u64 + 1), incarnation: Incarnation(1) };
        NodeView { stats: *stats, ..NodeView::new(key, format!("n{at:03}")) }
    };
    layout.set_nodes(nodes.iter().enumerate().map(node).collect());
    layout
}

fn place(strategy: &mut ResourceOptimized, layout: &Layout, seed: u64) -> Option<u16> {
    strategy.place(&layout.view(Instant::ZERO, seed), &Request::new(ShardId(0), seed)).map(|ix| ix.0)
}

/// Orleans' own rows: processors, memory used and available of the limit, entities, of the most memory and entities.
#[test]
fn scores_are_those_of_the_original() {
    let strategy = ResourceOptimized::default();
    let score = |cpu, used, limit, entities, limit_max, entities_max| {
        let stats = Stats { cpu_permille: cpu, memory_used: used, memory_limit: limit, entities: 0 };
        strategy.score(&stats, entities, entities_max, limit_max)
    };
    assert_eq!(score(0, 0, 1, 0, 1, 1), 0);
    assert_eq!(score(1_000, 1, 1, 1, 1, 1), 950_000);
    assert_eq!(score(500, 8, 16, 50, 32, 100), 500_000);
    assert_eq!(score(200, 8, 32, 100, 32, 100), 330_000);
    assert_eq!(score(800, 72, 80, 10, 320, 100), 732_500);
    assert_eq!(score(500, 0, 0, 0, 0, 0), 200_000, "no memory known, no entity anywhere: a number all the same");
}

#[test]
fn weights_and_margin_have_a_range() {
    let zeros = Weights { cpu: 0, memory: 0, memory_limit: 0, entities: 0 };
    assert!(ResourceOptimized::new(Weights { memory: 100, ..zeros }, 100).is_ok());
    assert_eq!(ResourceOptimized::new(zeros, 101), Err(OutOfRange { name: "margin", value: 101 }));
    let error = ResourceOptimized::new(Weights { cpu: 101, ..zeros }, 0).unwrap_err();
    assert_eq!(format!("{error}"), "`cpu` is 101, and must be at most 100");
    let all_zero = ResourceOptimized::new(zeros, 0).unwrap();
    assert_eq!(all_zero.score(&stats(1_000, 9, 9, 9).unwrap(), 9, 9, 9), 0);
}

#[test]
fn so_many_are_drawn() {
    let table = [(1, 1), (2, 2), (3, 2), (4, 2), (5, 3), (9, 3), (10, 4), (16, 4), (17, 5), (100, 10)];
    assert!(table.into_iter().all(|(nodes, drawn)| draws(nodes) == drawn));
}

#[test]
fn the_idle_one_of_two_gets_it_and_the_overloaded_one_never() {
    let (idle, busy) = (stats(100, 10, 100, 5), stats(900, 80, 100, 5));
    let mut strategy = ResourceOptimized::default();
    for seed in 0..50 {
        assert_eq!(place(&mut strategy, &cluster(&[busy, idle]), seed), Some(1));
        let over = [stats(951, 0, 100, 0), stats(0, 91, 100, 0), stats(949, 90, 100, 900)];
        assert_eq!(place(&mut strategy, &cluster(&over), seed), Some(2));
        assert_eq!(place(&mut strategy, &cluster(&over[..2]), seed), None, "all are overloaded: it waits");
    }
}

#[test]
fn one_that_has_not_reported_is_neither_shunned_nor_flooded() {
    let nodes = [stats(300, 10, 100, 5), stats(600, 10, 100, 5), None, stats(400, 10, 100, 5)];
    let mut layout = cluster(&nodes);
    let (mut strategy, mut counts) = (ResourceOptimized::default(), [0; 4]);
    for shard in 0..100 {
        let view = layout.view(Instant::ZERO, 0);
        let to = strategy.place(&view, &Request::new(ShardId(shard), shard.into())).unwrap();
        counts[to.at()] += 1;
        layout.settle(Instant::ZERO, ShardId(shard), to);
    }
    assert!(counts[2] > 5 && counts[2] < 60, "{counts:?}");
}

/// Between two reports a burst of placements spreads: shards that are on their way count.
#[test]
fn a_burst_does_not_go_to_one_node() {
    let mut layout = cluster(&[stats(300, 10, 100, 1_000); 4]);
    for shard in 0..40 {
        layout.settle(Instant::ZERO, ShardId(shard), NodeIx(shard as u16 % 4));
    }
    let mut counts = [0; 4];
    for shard in 40..100 {
        let view = layout.view(Instant::ZERO, 0);
        let to = ResourceOptimized::default().place(&view, &Request::new(ShardId(shard), shard.into())).unwrap();
        counts[to.at()] += 1;
        layout.settle(Instant::ZERO, ShardId(shard), to);
    }
    assert!(counts.iter().all(|count| (8..=22).contains(count)), "{counts:?}");
}

#[test]
fn the_asker_gets_it_within_the_margin() {
    let nodes = [stats(300, 10, 100, 5), stats(400, 10, 100, 5), stats(420, 10, 100, 5), stats(430, 10, 100, 5)];
    let layout = cluster(&nodes);
    let homes = |margin: u8, asker: u16| {
        let mut strategy = ResourceOptimized::new(Weights { entities: 0, ..Weights::default() }, margin).unwrap();
        let ask = |seed| {
            let view = layout.view(Instant::ZERO, seed);
            strategy.place(&view, &Request::new(ShardId(0), seed).asked_by(NodeIx(asker))).unwrap().0
        };
        (0..60).map(ask).collect::<Vec<_>>()
    };
    assert!(homes(100, 3).iter().all(|home| *home == 3));
    assert!(homes(10, 3).iter().all(|home| *home == 3));
    assert!(homes(0, 3).contains(&0));
}
