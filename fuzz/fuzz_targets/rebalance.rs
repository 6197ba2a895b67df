//! Hands the body `rebalance` to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shard_fuzz::rebalance(data));
