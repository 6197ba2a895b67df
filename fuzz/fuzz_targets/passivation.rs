//! Hands the body `passivation` to libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| shard_fuzz::passivation(data));
