//! The template keeps the laws: the test to copy along with it.

#[expect(unreachable_pub, reason = "the file is meant for a library")]
#[path = "../template/my_strategy.rs"]
mod my_strategy;

use my_strategy::MyStrategy;
use shard_core::sim::{fuzz::check_strategy, laws::Laws};

#[test]
fn my_strategy_keeps_the_laws() {
    // The number is your claim: how many times the least that must move does it move at most?
    Laws::new(MyStrategy::new).movement(2).check();
}

#[test]
fn my_strategy_can_be_fuzzed() {
    for length in 0..64 {
        let bytes: Vec<u8> = (0..length).map(|at: u8| at.wrapping_mul(length)).collect();
        check_strategy(&bytes, MyStrategy::new);
    }
}
