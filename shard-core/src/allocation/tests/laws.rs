//! The laws of the page of this floor, held to one strategy over random clusters whose moves take their time.

use super::*;

/// How many rounds in a row without moves are rest.
const QUIET: usize = 12;

/// Panics unless the strategies that `make` makes keep every law: they are alike and answer alike whatever the order in
/// which nodes are given, name candidates only, come to rest while moves arrive early and late, stay at rest, and make
/// `moves_per_shard` moves per shard at most on the way there.
pub(in crate::allocation) fn hold(moves_per_shard: usize, make: impl Fn() -> Box<dyn AllocationStrategy>) {
    for seed in 0..150 {
        let mut prng = Prng::new(seed);
        let (mut layout, mut twin) = clusters(&mut prng);
        let shards = layout.view(T0, 0).shards().len();
        let limits = Limits { moves_per_round_max: 1 + prng.below(12) as usize, in_flight_max: 20 };
        let (mut strategy, mut ledger, mut other_ledger) = (make(), Ledger::new(), Ledger::new());
        let (mut quiet, mut made) = (0, 0);
        for round in 1_u64.. {
            assert!(round < 2_000, "seed {seed}: never rests");
            let now = T0 + Duration::from_secs(1_000 + 60 * round);
            let requests = (0..shards as u32).map(|shard| Request::new(ShardId(shard), prng.next_u64()));
            for request in requests.collect::<Vec<_>>() {
                if layout.view(now, round).home(request.shard).is_some() {
                    continue;
                }
                let to = strategy.place(&layout.view(now, round), &request);
                assert_eq!(to, make().place(&twin.view(now, round), &request), "seed {seed}: {request:?}");
                let Some(to) = to else { continue };
                assert!(layout.view(now, round).is_candidate(to), "seed {seed}: {to:?} is no candidate");
                [&mut layout, &mut twin].into_iter().for_each(|layout| layout.settle(now, request.shard, to));
            }
            let moves = ledger.round(&mut *strategy, &layout.view(now, round), limits).to_vec();
            let same = other_ledger.round(&mut *make(), &twin.view(now, round), limits);
            assert_eq!(moves, same, "seed {seed}: the same view, another answer");
            made += moves.len();
            assert!(made <= moves_per_shard * shards, "seed {seed}: {made} moves of {shards} shards");
            for layout in [&mut layout, &mut twin] {
                moves.iter().for_each(|m| layout.depart(m.shard, Some(m.to)));
            }
            let view = layout.view(now, round);
            let still = view.in_flight() == 0;
            let arrived: Vec<_> = view.shards().filter(|shard| view.is_moving(*shard) && prng.chance(1, 2)).collect();
            let arrived: Vec<_> = arrived.into_iter().map(|shard| (shard, view.counted(shard).unwrap())).collect();
            for (shard, to) in arrived {
                [&mut layout, &mut twin].into_iter().for_each(|layout| layout.settle(now, shard, to));
            }
            quiet = if moves.is_empty() && still { quiet + 1 } else { 0 };
            if quiet == QUIET {
                break;
            }
        }
    }
}

/// The same random cluster twice, its nodes given in two orders.
fn clusters(prng: &mut Prng) -> (Layout, Layout) {
    let (count, shards) = (1 + prng.below(8), 1 + prng.below(90) as u32);
    let (zones, versions) = (1 + prng.below(3), 1 + prng.below(6) / 4);
    let mut nodes: Vec<_> = (0..count)
        .map(|n| NodeView {
            zone: ZoneIx(prng.below(zones) as u16),
            version: prng.below(versions),
            capacity: 1 + prng.below(4) as u32,
            up_since: T0 + Duration::from_secs(prng.below(2_000)),
            accepts: prng.chance(5, 6),
            stats: prng.chance(1, 2).then(|| Stats { entities: prng.below(1_000) as u32, ..Stats::default() }),
            ..node(n, &format!("h:{}", 10 + n))
        })
        .collect();
    let mut layout = Layout::new(shards);
    layout.set_nodes(nodes.clone());
    prng.shuffle(&mut nodes);
    let mut twin = Layout::new(shards);
    twin.set_nodes(nodes);
    let crowded = 1 + prng.below(count);
    let loaded = prng.chance(1, 2);
    for shard in (0..shards).map(ShardId) {
        let (settled, heaviest) = (T0 + Duration::from_secs(prng.below(900)), 1 + prng.below(100));
        let load = prng.below(heaviest) as u32;
        let home = prng.chance(9, 10).then(|| NodeIx(prng.below(crowded) as u16));
        let to = prng.chance(1, 8).then(|| prng.chance(1, 2).then(|| NodeIx(prng.below(count) as u16)));
        for layout in [&mut layout, &mut twin] {
            home.into_iter().for_each(|home| layout.settle(settled, shard, home));
            to.into_iter().for_each(|to| layout.depart(shard, to));
            if loaded {
                layout.set_load(shard, load);
            }
        }
    }
    (layout, twin)
}
