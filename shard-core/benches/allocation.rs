//! What every strategy costs: plans and placements on 100 nodes with 10,000 shards, and on 1,000 nodes with a million.
//!
//! `cargo bench -p shard-core --bench allocation`, or `-- hash weighted-move` for some of them.
//!
//! - first: the first plan of a reign, on shards that are where the strategy wants them;
//! - rest: the next ones, on the same;
//! - join: the first plan after one node has come;
//! - fifth: the first plan after a fifth of the nodes has come, which leaves work for several plans;
//! - crowd: the first plan when all shards are on a hundredth of the nodes;
//! - place: one shard without a home.
//!
//! And what it costs a node to observe that one shard called another (`heavy-pairs`), by how many pairs there are.
//!
//! Shards have loads, 10,000 pairs of them talk to each other, nodes stand in ten zones and are equally strong, and a plan takes 1,000 moves. Budget: strategies that
//! count or weigh plan a million shards within 100 ms. A minimum over runs: on a machine that others use too, a mean measures
//! the others.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant as Clock};

use shard_core::allocation::{
    ActivationCount, AllocationStrategy, ByTenant, ConsistentHashing, Edge, External, Hash, HeavyPairs, Homes, Layout,
    LeastShard, Ledger, Limits, NodeIx, NodeView, Orders, Pins, PreferLocal, Random, Repartitioning, Request,
    Returning, SeedLeastShard, Switch, ThresholdLeastShard, TwoChoices, TwoPhaseLeastShard, VersionAware, WeightedMove,
    WeightedRendezvous, ZoneIx, ZoneSpread,
};
use shard_core::id::{Incarnation, NodeId, NodeKey, ShardId};
use shard_core::prng::{Prng, mix};
use shard_core::shuffle::ShardSize;
use shard_core::time::Instant;

type Make = fn() -> Box<dyn AllocationStrategy>;

/// Everything built in, by the names of the types.
const STRATEGIES: &[(&str, Make)] = &[
    ("least-shard", || Box::new(LeastShard::new(1, BUDGET))),
    ("two-phase-least-shard", || Box::new(TwoPhaseLeastShard::new(BUDGET, 1_000))),
    ("threshold-least-shard", || Box::new(ThresholdLeastShard::new(20, BUDGET))),
    ("seed-least-shard", || Box::new(SeedLeastShard::new(1, BUDGET))),
    ("zone-spread", || Box::new(ZoneSpread::new())),
    ("weighted-move", || Box::new(WeightedMove::new())),
    ("weighted-rendezvous", || Box::new(WeightedRendezvous::new())),
    ("consistent-hashing", || Box::new(ConsistentHashing::default())),
    ("consistent-hashing, 100", || Box::new(ConsistentHashing::new(const { NonZeroU32::new(100).unwrap() }))),
    ("hash", || Box::new(Hash)),
    ("two-choices", || Box::new(TwoChoices::new())),
    ("activation-count", || Box::new(ActivationCount::default())),
    ("random", || Box::new(Random)),
    ("prefer-local", || Box::new(PreferLocal::new(LeastShard::new(1, BUDGET)))),
    ("external", || Box::new(External::new(LeastShard::new(1, BUDGET), Homes::new()))),
    ("pins", || Box::new(Pins::new(LeastShard::new(1, BUDGET), Orders::new()))),
    ("returning", || Box::new(Returning::new(LeastShard::new(1, BUDGET), []))),
    ("repartitioning", || Box::new(Repartitioning::new(LeastShard::new(1, BUDGET), Switch::new()).at_once(BUDGET))),
    ("version-aware", || Box::new(VersionAware::new(LeastShard::new(1, BUDGET)))),
    ("by-tenant", || {
        let tenant = |shard: ShardId| Some(mix(1, u64::from(shard.0 / 64)));
        Box::new(ByTenant::new(LeastShard::new(1, BUDGET), ShardSize::Members(8), tenant))
    }),
];

const BUDGET: usize = 1_000;
const LIMITS: Limits = Limits { moves_per_round_max: BUDGET, in_flight_max: BUDGET };
/// Long after everything has settled.
const NOW: Instant = Instant::from_nanos(3_600_000_000_000);

fn nodes(count: u64) -> Vec<NodeView> {
    let node = |n: u64| {
        let id = NodeKey { id: NodeId(mix(7, n)), incarnation: Incarnation(1) };
        let mut node = NodeView::new(id, format!("10.0.0.0:{}", 10_000 + n));
        node.zone = ZoneIx((n % 10) as u16);
        node
    };
    (0..count).map(node).collect()
}

/// Shards where the strategy wants them, on `count` nodes. Too slow to be asked for a million times, it plans them there.
fn settled(make: Make, count: u64, shards: u32) -> Layout {
    let mut layout = Layout::new(shards);
    layout.set_nodes(nodes(count));
    for shard in 0..shards {
        layout.settle(Instant::ZERO, ShardId(shard), NodeIx((u64::from(shard) % count) as u16));
        layout.set_load(ShardId(shard), 1 + shard.wrapping_mul(0x9e37_79b9) % 100);
    }
    // Four shards that follow each other talk, where a node has one of them.
    let talking = (0..shards).filter(|shard| shard % 4 != 3).take(10_000);
    layout.set_edges(talking.map(|shard| Edge::new(ShardId(shard), ShardId(shard + 1), 100)).collect());
    let (mut strategy, mut ledger) = (make(), Ledger::new());
    let limits = Limits { moves_per_round_max: usize::MAX, in_flight_max: usize::MAX };
    for _ in 0..100 {
        let moves = ledger.round(&mut *strategy, &layout.view(NOW, 0), limits).to_vec();
        if moves.is_empty() {
            break;
        }
        moves.iter().for_each(|m| layout.settle(Instant::ZERO, m.shard, m.to));
    }
    layout
}

/// The least of `runs`, of what `work` does with what `before` made.
fn least<T>(runs: u32, mut before: impl FnMut() -> T, mut work: impl FnMut(&mut T)) -> Duration {
    let run = |_| {
        let mut made = before();
        let began = Clock::now();
        work(&mut made);
        began.elapsed()
    };
    (0..runs).map(run).min().unwrap_or_default()
}

/// First, rest, join, fifth, crowd, place.
fn measure(make: Make, count: u64, shards: u32, runs: u32) -> [Duration; 6] {
    let layout = settled(make, count, shards);
    let mut ledger = Ledger::new();
    let mut plan = |strategy: &mut Box<dyn AllocationStrategy>, layout: &Layout| {
        black_box(ledger.round(&mut **strategy, &layout.view(NOW, 1), LIMITS).len());
    };
    let first = least(runs, make, |strategy| plan(strategy, &layout));
    let mut used = make();
    plan(&mut used, &layout);
    let rest = least(runs, || (), |()| plan(&mut used, &layout));
    // One that knows the cluster as it was meets it as it is.
    let mut after = |changed: &Layout| {
        let before = || {
            let mut strategy = make();
            plan(&mut strategy, &layout);
            strategy
        };
        let mut ledger = Ledger::new();
        least(runs, before, |strategy| {
            black_box(ledger.round(&mut **strategy, &changed.view(NOW, 1), LIMITS).len());
        })
    };
    let grown = |more: u64| {
        let mut grown = layout.clone();
        grown.set_nodes(nodes(count + more));
        grown
    };
    let mut crowded = layout.clone();
    for shard in 0..shards {
        crowded.settle(Instant::ZERO, ShardId(shard), NodeIx((u64::from(shard) % count.div_ceil(100)) as u16));
    }
    let [join, fifth, crowd] = [grown(1), grown(count / 5), crowded].map(|changed| after(&changed));
    let calls = if count > 100 { 50 } else { 500 };
    let view = layout.view(NOW, 1);
    let place = least(
        runs,
        || (),
        |()| {
            for shard in 0..calls {
                let request = Request::new(ShardId(shard), mix(1, u64::from(shard))).asked_by(NodeIx(3));
                black_box(used.place(&view, black_box(&request)));
            }
        },
    );
    [first, rest, join, fifth, crowd, place / calls]
}

/// One more call, seen by a node that tracks 10,000 pairs out of so many.
fn observe(pairs: u64) -> Duration {
    const CALLS: u32 = 1_000_000;
    let mut prng = Prng::new(7);
    // Half of the calls are those of a tenth of the pairs.
    let mut pair = || {
        let within = if prng.chance(1, 2) { pairs.div_ceil(10) } else { pairs };
        let pair = prng.below(within) as u32;
        (ShardId(pair % 1_024), ShardId(1_024 + pair / 1_024))
    };
    let calls: Vec<(ShardId, ShardId)> = (0..CALLS).map(|_| pair()).collect();
    let mut seen = HeavyPairs::new(10_000, 2_048);
    let all = least(5, || (), |()| calls.iter().for_each(|(from, to)| seen.add(black_box(*from), black_box(*to), 1)));
    all / CALLS
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if wanted.is_empty() || wanted.iter().any(|wanted| wanted == "heavy-pairs") {
        for pairs in [5_000, 100_000, 1_000_000] {
            println!("heavy-pairs, one call between {pairs} pairs of shards: {} ns", observe(pairs).as_nanos());
        }
        println!();
    }
    for (count, shards, runs) in [(100, 10_000, 20), (1_000, 1_000_000, 5)] {
        println!("{count} nodes, {shards} shards; plans in ms, placements in us");
        println!(
            "{:>24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "strategy", "first", "rest", "join", "fifth", "crowd", "place"
        );
        for (name, make) in STRATEGIES {
            if !(wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)) {
                continue;
            }
            let [first, rest, join, fifth, crowd, place] = measure(*make, count, shards, runs);
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            println!(
                "{name:>24} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.2}",
                ms(first),
                ms(rest),
                ms(join),
                ms(fifth),
                ms(crowd),
                ms(place) * 1e3
            );
        }
    }
}
