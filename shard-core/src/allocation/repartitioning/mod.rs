//! Moves that bring together what talks to each other.

mod heavy;
#[cfg(test)]
mod tests;

pub use heavy::{HeavyKeys, HeavyPairs};
