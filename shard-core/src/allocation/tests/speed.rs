//! How long the greatest clusters take.

use super::*;

/// A million shards with loads on the first 800 of 1,000 nodes, in ten zones.
fn million() -> Layout {
    let mut layout = Layout::new(1_000_000);
    let node = |n: u64| NodeView { zone: ZoneIx((n % 10) as u16), ..node(n, &format!("h:{}", 1_000 + n)) };
    layout.set_nodes((0..1_000).map(node).collect());
    for shard in 0..1_000_000 {
        layout.settle(T0, ShardId(shard), NodeIx((shard % 800) as u16));
        layout.set_load(ShardId(shard), 1 + shard.wrapping_mul(0x9e37_79b9) % 100);
    }
    layout
}

#[test]
fn a_million_loaded_shards_on_a_thousand_nodes_are_planned_in_a_moment() {
    let layout = million();
    let mut ledger = Ledger::new();
    let limits = Limits { moves_per_round_max: 1_000, in_flight_max: 1_000 };
    // Those that count or weigh have 100 ms; the factor is for machines that are busy with other things.
    let strategies: [(Box<dyn AllocationStrategy>, usize); 5] = [
        (Box::new(SeedLeastShard::new(1, 1_000)), 1_000),
        (Box::new(TwoPhaseLeastShard::new(1_000, 1_000)), 1_000),
        (Box::new(ThresholdLeastShard::new(20, 1_000)), 20),
        (Box::new(ZoneSpread::new()), 1_000),
        (Box::new(WeightedMove::new().cooling_down(Duration::ZERO)), 1_000),
    ];
    for (mut strategy, expected) in strategies {
        let start = Clock::now();
        let moves = ledger.round(&mut *strategy, &layout.view(T0, 0), limits).len();
        std::println!("{}: {moves} moves in {:?}", strategy.name(), start.elapsed());
        assert_eq!(moves, expected, "{}", strategy.name());
        assert!(start.elapsed() < Duration::from_secs(1), "{}: {:?}", strategy.name(), start.elapsed());
    }
    // Those that hash have to look at every shard, and rendezvous at every node for each, once.
    let hashing: [(Box<dyn AllocationStrategy>, u64); 2] =
        [(Box::new(ConsistentHashing::default()), 5), (Box::new(WeightedRendezvous::new()), 60)];
    for (mut strategy, seconds) in hashing {
        let start = Clock::now();
        let moves = ledger.round(&mut *strategy, &layout.view(T0, 0), limits).len();
        let first = start.elapsed();
        assert_eq!(ledger.round(&mut *strategy, &layout.view(T0, 0), limits).len(), moves);
        std::println!("{}: {moves} moves in {first:?}, then in {:?}", strategy.name(), start.elapsed() - first);
        assert!(start.elapsed() < Duration::from_secs(seconds), "{}: {:?}", strategy.name(), start.elapsed());
    }
}
