//! What holds on any graph, and with strategies that even out within.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::allocation::{Rebalancing, Stats, Why};
use crate::prng::Prng;

/// Shards on nodes, and who talks to whom.
type Drawn = (Vec<u16>, Vec<(u32, u32, u32)>);

fn drawn() -> impl Strategy<Value = (usize, Drawn)> {
    (2..6_usize, 4..60_u32).prop_flat_map(|(nodes, shards)| {
        let homes = prop::collection::vec(0..nodes as u16, shards as usize);
        let edges = prop::collection::vec((0..shards, 0..shards, 0..50_u32), 0..120);
        (Just(nodes), (homes, edges))
    })
}

fn graph(nodes: usize, (homes, edges): &Drawn) -> Layout {
    let mut layout = layout(&std::vec![&[][..]; nodes]);
    layout.seats_for_test(homes);
    layout.set_edges(edges.iter().map(|(a, b, weight)| edge(*a, *b, *weight)).collect());
    layout
}

fn spread(layout: &Layout) -> u32 {
    let counts = counts(layout);
    counts.iter().max().unwrap() - counts.iter().min().unwrap()
}

proptest! {
    #[test]
    fn less_and_less_is_cut_and_nothing_gets_less_even((nodes, drawn) in drawn(), tolerance in 0..5_u32) {
        let mut layout = graph(nodes, &drawn);
        let mut strategy = alone(tolerance);
        for second in 0..200 {
            let (cut_before, spread_before) = (cut(&layout), spread(&layout));
            let moves = round(&mut strategy, &mut layout, at(second));
            prop_assert!(moves.iter().all(|m| m.why == Why::Affinity));
            prop_assert_eq!(counts(&layout).iter().sum::<u32>() as usize, drawn.0.len());
            prop_assert!(spread(&layout) <= spread_before.max(tolerance), "{} to {}", spread_before, spread(&layout));
            if moves.is_empty() {
                prop_assert_eq!(round(&mut strategy, &mut layout, at(1_000)), []);
                return Ok(());
            }
            prop_assert!(cut(&layout) < cut_before, "{} to {} by {:?}", cut_before, cut(&layout), moves);
        }
        prop_assert!(false, "never rests");
    }

    #[test]
    fn one_that_counts_within_comes_to_rest_too((nodes, drawn) in drawn()) {
        let mut layout = graph(nodes, &drawn);
        let mut strategy = Repartitioning::new(LeastShard::default(), Switch::new()).cooling_down(Duration::ZERO);
        rest(&mut strategy, &mut layout);
        // A tenth of the mean is less than two.
        prop_assert!(spread(&layout) <= 2);
        (0..50).for_each(|second| assert_eq!(round(&mut strategy, &mut layout, at(1_000 + second)), []));
    }

    #[test]
    fn loads_and_memory_are_kept_even_too((nodes, drawn) in drawn(), seed: u64) {
        for balance in [Balance::Loads, Balance::Memory] {
            let mut layout = graph(nodes, &drawn);
            let mut prng = Prng::new(seed);
            (0..drawn.0.len() as u32).for_each(|shard| layout.set_load(ShardId(shard), prng.below(100) as u32));
            let stats = |memory_used| Stats { memory_used, ..Stats::default() };
            (0..nodes as u16).for_each(|ix| layout.set_stats(NodeIx(ix), Some(stats(1 + prng.below(1 << 30)))));
            let mut strategy = alone(1).keeping_even(balance);
            let before = cut(&layout);
            rest(&mut strategy, &mut layout);
            prop_assert!(cut(&layout) <= before);
        }
    }
}

/// Groups of three shards that are dealt over the nodes, four fifths of what they say among themselves.
fn traffic(pairs: &mut HeavyPairs, prng: &mut Prng, shards: u64, grouped: bool) {
    pairs.halve();
    for _ in 0..4_000 {
        let from = prng.below(shards);
        let friend = if prng.chance(4, 5) && grouped { from / 3 * 3 + prng.below(3) } else { prng.below(shards) };
        pairs.add(ShardId(from as u32), ShardId(friend.min(shards - 1) as u32), 1);
    }
}

/// A thousand rounds of two seconds with traffic that is drawn anew each time; returns the moves by reason.
fn thousand_rounds(strategy: &mut dyn AllocationStrategy, grouped: bool) -> (Layout, BTreeMap<Why, Vec<u64>>) {
    let shards = 96_u32;
    let dealt: Vec<Vec<u32>> = (0..6).map(|node| (node..shards).step_by(6).collect()).collect();
    let mut layout = layout(&dealt.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let (mut pairs, mut prng) = (HeavyPairs::new(400, shards), Prng::new(7));
    let mut last: BTreeMap<ShardId, (Why, u64)> = BTreeMap::new();
    let mut made: BTreeMap<Why, Vec<u64>> = BTreeMap::new();
    for second in (0..2_000).step_by(2) {
        traffic(&mut pairs, &mut prng, u64::from(shards), grouped);
        layout.set_edges(pairs.edges());
        pairs.said().for_each(|(shard, said)| layout.set_said(shard, said));
        if second == 500 {
            // Somebody comes, so there is something to even out.
            let mut nodes = layout.view(T0, 0).nodes().to_vec();
            nodes.push(super::super::super::tests::node(99, "h:99"));
            layout.set_nodes(nodes);
        }
        for m in round(strategy, &mut layout, at(second)) {
            if let Some((why, when)) = last.insert(m.shard, (m.why, second)) {
                assert!(why == m.why || second - when >= 60, "{m:?} at {second}, and for {why} at {when}");
            }
            made.entry(m.why).or_default().push(second);
        }
    }
    (layout, made)
}

#[test]
fn nobody_undoes_what_the_other_did() {
    let strategies = || -> [Box<dyn AllocationStrategy>; 2] {
        let loads = Rebalancing::new(LeastShard::default(), Switch::new());
        [
            Box::new(Repartitioning::new(LeastShard::default(), Switch::new())),
            Box::new(Repartitioning::new(loads, Switch::new()).keeping_even(Balance::Memory)),
        ]
    };
    for mut strategy in strategies() {
        let (layout, made) = thousand_rounds(&mut *strategy, true);
        let cut_permille =
            cut(&layout) * 1_000 / layout.view(T0, 0).edges().iter().map(|it| u64::from(it.weight)).sum::<u64>();
        let moves: BTreeMap<Why, usize> = made.iter().map(|(why, all)| (*why, all.len())).collect();
        // Most of it at once and when somebody comes; later on what is drawn both ways alike, less and less often.
        let late = made.values().flatten().filter(|second| **second >= 1_000).count();
        assert!(cut_permille < 200 && moves[&Why::Affinity] < 170 && late < 25, "{cut_permille}, {moves:?}, {late}");
    }
    for mut strategy in strategies() {
        let (_, made) = thousand_rounds(&mut *strategy, false);
        // The windows are short, so that chance at times looks like more; and nobody moves anything back.
        let (by_chance, others) = made.iter().partition::<BTreeMap<_, _>, _>(|(why, _)| **why == Why::Affinity);
        assert!(by_chance.values().map(|all| all.len()).sum::<usize>() < 20, "{made:?}");
        assert!(others.values().copied().flatten().all(|second| (500..900).contains(second)), "{made:?}");
    }
}
