//! What a pool of workers costs beside the handlers: nanoseconds to place a message and to take it up, by the number of workers.
//!
//! `cargo bench -p shard-core --bench workers`. The least of many batches, for on a machine that others use too, a mean measures
//! the others.

use std::hint::black_box;
use std::time::Instant;

use shard_core::workers::{Next, Pool, PoolConfig, WorkerNumber};

const CALLS: usize = 4_096;
const BATCHES: usize = 200;

/// Nanoseconds per call of the quickest and of the middle batch.
fn time(mut batch: impl FnMut()) -> (f64, f64) {
    let one = |_| {
        let began = Instant::now();
        batch();
        began.elapsed().as_nanos() as f64 / CALLS as f64
    };
    let mut times: Vec<f64> = (0..BATCHES).map(one).collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}

fn main() {
    println!("{:>8} {:>26} {:>26}", "workers", "the last one is idle, ns", "all are busy, ns");
    for workers in [1, 4, 16, 64, 256] {
        let config = PoolConfig { waiting_max: usize::MAX, ..PoolConfig::at_most(workers) };
        let mut pool = Pool::new(config, 1);
        let last = WorkerNumber(u64::from(workers));
        for number in 1..=last.0 {
            let _ = pool.offer(number);
            let _ = pool.next(WorkerNumber(number));
        }
        // Whoever is looked for is found last, or not at all.
        let idle = time(|| {
            for message in 0..CALLS as u64 {
                assert!(matches!(pool.next(last), Next::Wait));
                assert!(pool.offer(black_box(message)).is_ok());
                assert!(matches!(pool.next(last), Next::Run(_)));
            }
        });
        let busy = time(|| {
            for message in 0..CALLS as u64 {
                assert!(pool.offer(black_box(message)).is_ok());
                let number = WorkerNumber(message % last.0 + 1);
                black_box(&pool.next(number));
            }
        });
        println!("{workers:>8} {:>15.1} ({:>8.1}) {:>15.1} ({:>8.1})", idle.0, idle.1, busy.0, busy.1);
    }
}
