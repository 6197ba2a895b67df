//! What a policy costs: nanoseconds per touch and per create at the cap, which picks somebody, with a thousand, a hundred
//! thousand and ten million tracked; and bytes for each.
//!
//! `cargo bench -p shard-core --bench passivation`; a number after `--` is the most to track. Ten million take a minute.
//!
//! Budget: a create with LRU at a cap of a million in under a microsecond. Whoever is touched is drawn at random, so at
//! ten million nearly every touch misses the processor's caches: that is what is measured. The least of many batches, for
//! on a machine that others use too, a mean measures the others.

use std::hint::black_box;
use std::time::Instant;

use shard_core::passivation::{PassivationPolicy, PolicyChoice};
use shard_core::prng::{Prng, mix};

const CALLS: usize = 4_096;
const BATCHES: u64 = 200;

/// Nanoseconds per call of the quickest and of the middle batch.
fn time(mut batch: impl FnMut(u64)) -> (f64, f64) {
    let one = |number| {
        let began = Instant::now();
        batch(number);
        began.elapsed().as_nanos() as f64 / CALLS as f64
    };
    let mut times: Vec<f64> = (0..BATCHES).map(one).collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}

fn main() {
    let most = std::env::args().skip(1).find_map(|it| it.parse().ok()).unwrap_or(10_000_000);
    println!("{:>20} {:>10} {:>17} {:>17} {:>6}", "policy", "tracked", "touch, ns: least", "create: least", "bytes");
    println!("{:>20} {:>10} {:>17} {:>17} {:>6}", "", "", "(median)", "(median)", "each");
    for tracked in [1_000, 100_000, 1_000_000, 10_000_000].into_iter().filter(|it| *it <= most) {
        for choice in PolicyChoice::ALL {
            measure(choice, tracked);
        }
    }
}

fn measure(choice: PolicyChoice, tracked: u32) {
    let mut policy = choice.build(u64::from(tracked), 1);
    (0..tracked).for_each(|index| policy.created(index, mix(1, index.into()), 1, &mut |_| ()));
    let mut prng = Prng::new(7);
    let mut draw = || prng.below(tracked.into()) as u32;
    // As many touches as there are entities, so that no order is that of memory.
    (0..tracked).for_each(|_| policy.touched(draw()));
    let indices: Vec<u32> = (0..CALLS * BATCHES as usize).map(|_| draw()).collect();
    let touch = time(|number| {
        let from = number as usize * CALLS;
        indices[from..from + CALLS].iter().for_each(|index| policy.touched(black_box(*index)));
    });
    // A newcomer takes the place that was vacated last, as in a slab.
    let (mut free, mut next) = (tracked, u64::from(tracked));
    let create = time(|_| {
        for _ in 0..CALLS {
            next += 1;
            free = churn(&mut *policy, free, mix(1, next), tracked);
        }
    });

    let bytes = policy.bytes() as f64 / f64::from(tracked);
    let [touch, create] = [touch, create].map(|(least, median)| format!("{least:.1} ({median:.1})"));
    println!("{:>20} {tracked:>10} {touch:>17} {create:>17} {bytes:>6.1}", choice.name());
}

/// A creation at the cap and the burial that follows; the place that is free now.
fn churn(policy: &mut dyn PassivationPolicy, free: u32, hash: u64, tracked: u32) -> u32 {
    let mut picked = free;
    policy.created(black_box(free), hash, 1, &mut |index| picked = index);
    policy.removed(picked);
    debug_assert!(policy.census().held() <= u64::from(tracked));
    picked
}
