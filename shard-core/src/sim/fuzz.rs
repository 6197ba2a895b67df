//! Fuzzing a strategy of your own: any bytes are a cluster, and the laws hold on it.
//!
//! A whole target, for cargo-fuzz or for libFuzzer alone (`fuzz/README.md` says how on stable Rust):
//!
//! ```ignore
//! #![no_main]
//!
//! use my_crate::MyStrategy;
//! use shard_core::sim::fuzz::check_strategy;
//!
//! libfuzzer_sys::fuzz_target!(|data: &[u8]| check_strategy(data, || MyStrategy::new()));
//! ```
//!
//! For a strategy that wants roles in its clusters, remembers, or has limits to state: [`check_laws`].

use super::laws::Laws;
use crate::allocation::AllocationStrategy;

/// Tries every law but that of movement on the cluster that `data` describes.
///
/// # Panics
/// If one is broken, with the [`Breach`](super::laws::Breach).
#[track_caller]
pub fn check_strategy<S: AllocationStrategy + 'static>(data: &[u8], make: impl Fn() -> S) {
    check_laws(data, &Laws::new(make));
}

/// Tries `laws` on the cluster that `data` describes.
///
/// ```
/// use shard_core::allocation::LeastShard;
/// use shard_core::sim::{fuzz::check_laws, laws::Laws};
///
/// check_laws(b"whatever a fuzzer finds", &Laws::new(LeastShard::default).movement(1));
/// ```
///
/// # Panics
/// If one is broken, with the [`Breach`](super::laws::Breach).
#[track_caller]
pub fn check_laws<S: AllocationStrategy + 'static, F: Fn() -> S>(data: &[u8], laws: &Laws<F>) {
    if let Err(breach) = laws.run_bytes(data) {
        panic!("{breach}");
    }
}
