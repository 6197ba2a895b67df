//! The greatest clusters: a plan is as long as it may be. How long it takes is told by the bench `allocation`.

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
fn plans_of_a_million_shards_on_a_thousand_nodes_are_full() {
    let layout = million();
    let mut ledger = Ledger::new();
    let limits = Limits { moves_per_round_max: 1_000, in_flight_max: 1_000 };
    let strategies: [(Box<dyn AllocationStrategy>, usize); 9] = [
        (Box::new(LeastShard::new(1, 1_000)), 1_000),
        (Box::new(Hash), 1_000),
        (Box::new(SeedLeastShard::new(1, 1_000)), 1_000),
        (Box::new(TwoPhaseLeastShard::new(1_000, 1_000)), 1_000),
        // As many as the threshold, whatever there is to do.
        (Box::new(ThresholdLeastShard::new(20, 1_000)), 20),
        (Box::new(ZoneSpread::new()), 1_000),
        (Box::new(WeightedMove::new().cooling_down(Duration::ZERO)), 1_000),
        (Box::new(ConsistentHashing::default()), 1_000),
        (Box::new(WeightedRendezvous::new()), 1_000),
    ];
    for (mut strategy, expected) in strategies {
        let moves = ledger.round(&mut *strategy, &layout.view(T0, 0), limits).to_vec();
        assert_eq!(moves.len(), expected, "{}", strategy.name());
        // What is kept between plans changes none.
        assert_eq!(ledger.round(&mut *strategy, &layout.view(T0, 0), limits), moves, "{}", strategy.name());
    }
}
