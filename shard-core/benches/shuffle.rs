//! What a hand costs, beside Go's figures for the original on a processor of the same family (AMD Zen 3, Go 1.19.8,
//! minimum of 2,000 batches of 2,000 hands). Budget: 20 ns for 128/6, and twice as fast as Go at 128/6, 64/8 and 16/15; hands
//! of one or two cards cost little but the call, there as here.
//!
//! `cargo bench -p shard-core --features sha256 --bench shuffle`
//!
//! A minimum over batches, as there: on a machine that others use too, a mean measures the others.

use std::hint::black_box;
use std::time::Instant;

use shard_core::shuffle::{Dealer, FlowKey, Isolation, Member, Pick, Roster, ShardSize, kubernetes_flow_hash};

/// Deck, hand, and Go's nanoseconds to deal into a slice.
const GO: &[(u32, u32, f64)] = &[
    (1, 1, 11.7),
    (8, 2, 15.7),
    (16, 4, 28.1),
    (64, 6, 44.1),
    (128, 6, 43.4),
    (512, 6, 41.9),
    (1_024, 6, 41.0),
    (256, 7, 50.4),
    (64, 8, 60.7),
    (32, 12, 97.9),
    (15, 15, 134.9),
    (16, 15, 140.5),
    (1 << 20, 3, 20.0),
    (1 << 26, 2, 15.7),
];

/// Nanoseconds per call: the least of so many batches of 2,000.
fn floor(batches: u32, mut work: impl FnMut(u64)) -> f64 {
    const CALLS: u64 = 2_000;
    let batch = |_| {
        let began = Instant::now();
        for call in 0..CALLS {
            work(black_box(call.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        }
        began.elapsed().as_nanos() as f64 / CALLS as f64
    };
    (0..batches).map(batch).fold(f64::INFINITY, f64::min)
}

fn main() {
    println!("{:>10} {:>5} {:>8} {:>8} {:>7}", "deck", "hand", "Go, ns", "here, ns", "times");
    for (deck, hand, go) in GO {
        let dealer = black_box(Dealer::new(*deck, *hand).expect("legal"));
        let here = floor(2_000, |hash| {
            // By reference: a hand is read where it was dealt, as Go's slice is.
            black_box(&dealer.deal(hash));
        });
        println!("{deck:>10} {hand:>5} {go:>8.1} {here:>8.1} {:>7.1}", go / here);
    }

    let (schema, tenant) = ("service-accounts", "system:serviceaccount:kube-system:default");
    let (key, dealer) = (FlowKey::new(1), Dealer::new(128, 6).expect("legal"));
    let sha = floor(500, |_| {
        black_box(kubernetes_flow_hash(black_box(schema), black_box(tenant)));
    });
    let keyed = floor(500, |_| {
        black_box(key.hash(black_box(schema), black_box(tenant)));
    });
    let both = floor(500, |_| {
        black_box(&dealer.deal(key.hash(black_box(schema), black_box(tenant))));
    });
    println!("flow hash of 16 + 41 bytes: SHA-256 {sha:.1} ns (Go: 410), keyed {keyed:.1} ns");
    println!("keyed flow hash and a hand of 128/6: {both:.1} ns (Go, SHA-256: 467)");

    for (nodes, zones, hand) in [(50, 1, 3), (100, 3, 9), (1_000, 3, 9), (1_000, 3, 300)] {
        let mut members: Vec<_> = (0..nodes).map(|id| Member::new(id, id % zones)).collect();
        let roster = Roster::new(&mut members).expect("ids differ");
        let mut picks = [Pick::default(); 300];
        let here = floor(20, |tenant| {
            black_box(roster.deal(tenant, ShardSize::Members(hand), &mut picks).map(<[Pick]>::len).ok());
        });
        println!("{hand} of {nodes} nodes in {zones} zones: {here:.0} ns");
    }
    let isolation = Isolation::new(128, 6).expect("a hand");
    let here = floor(20, |_| {
        black_box(black_box(isolation).squished(16));
    });
    println!("isolation of 128/6 under 16 elephants: {here:.0} ns");
}
