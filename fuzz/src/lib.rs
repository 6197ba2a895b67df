//! Fuzz bodies as ordinary functions; their corpora are replayed by `cargo test`.
//!
//! A body takes any bytes and panics if a promise is broken. `fuzz_targets/` hands each to libFuzzer (README.md says
//! how); `tests/corpora.rs` runs each over `corpora/<target>/` on stable, without a fuzzer.

mod names;
mod passivation;
mod rebalance;
mod shuffle;
mod wire;

pub use names::names;
pub use passivation::passivation;
pub use rebalance::rebalance;
pub use shuffle::shuffle;
pub use wire::wire;

/// A body: it takes any bytes, and panics if a promise is broken.
pub type Body = fn(&[u8]);

/// Every target: its name, which is that of its corpus as well, and its body.
pub const TARGETS: &[(&str, Body)] =
    &[("names", names), ("passivation", passivation), ("rebalance", rebalance), ("shuffle", shuffle), ("wire", wire)];
