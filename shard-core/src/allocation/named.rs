//! Strategies by name, for configurations that are text.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::{
    ActivationCount, AllocationStrategy, ConsistentHashing, Hash, Immovable, LeastShard, PreferLocal, Random,
    Rebalancing, Repartitioning, ResourceOptimized, SeedLeastShard, Switch, ThresholdLeastShard, TwoChoices,
    TwoPhaseLeastShard, WeightedMove, WeightedRendezvous, ZoneSpread,
};

type Make = fn() -> Box<dyn AllocationStrategy>;

/// In the order of their names.
const KNOWN: &[(&str, Make)] = &[
    ("activation-count", || Box::new(ActivationCount::default())),
    ("consistent-hashing", || Box::new(ConsistentHashing::default())),
    ("hash", || Box::new(Hash)),
    ("immovable", || Box::new(Immovable::new(LeastShard::default()))),
    ("least-shard", || Box::new(LeastShard::default())),
    ("prefer-local", || Box::new(PreferLocal::new(Random))),
    ("random", || Box::new(Random)),
    ("rebalancing", || Box::new(Rebalancing::new(LeastShard::default(), Switch::new()))),
    ("repartitioning", || Box::new(Repartitioning::new(LeastShard::default(), Switch::new()))),
    ("resource-optimized", || Box::new(ResourceOptimized::default())),
    ("seed-least-shard", || Box::new(SeedLeastShard::default())),
    ("threshold-least-shard", || Box::new(ThresholdLeastShard::default())),
    ("two-choices", || Box::new(TwoChoices::default())),
    ("two-phase-least-shard", || Box::new(TwoPhaseLeastShard::default())),
    ("weighted-move", || Box::new(WeightedMove::default())),
    ("weighted-rendezvous", || Box::new(WeightedRendezvous::default())),
    ("zone-spread", || Box::new(ZoneSpread::default())),
];

/// The strategy that is called so, as its `default()` makes it; every one that needs no arguments has a name; those around
/// another are around [`LeastShard`], but for `prefer-local`. A strategy's
/// name is that of [`AllocationStrategy::name`].
///
/// ```
/// use shard_core::allocation::{AllocationStrategy, named};
///
/// assert_eq!(named("zone-spread")?.name(), "zone-spread");
/// let error = named("least-shards").err().unwrap();
/// assert!(error.to_string().starts_with("no strategy is called `least-shards`; there are activation-count, "));
/// # Ok::<(), shard_core::allocation::UnknownStrategy>(())
/// ```
///
/// # Errors
/// None is.
pub fn named(name: &str) -> Result<Box<dyn AllocationStrategy>, UnknownStrategy> {
    match KNOWN.binary_search_by_key(&name, |(known, _)| known) {
        Ok(at) => Ok(KNOWN[at].1()),
        Err(_) => Err(UnknownStrategy { name: name.into() }),
    }
}

/// The names that [`named`] knows, in byte order.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

/// No strategy is called so. The configuration is at fault.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnknownStrategy {
    /// What was asked for.
    pub name: String,
}

impl fmt::Display for UnknownStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no strategy is called `{}`; there are", self.name)?;
        names().enumerate().try_for_each(|(at, name)| write!(f, "{} {name}", if at == 0 { "" } else { "," }))
    }
}

impl core::error::Error for UnknownStrategy {}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_name_is_what_its_strategy_is_called() {
        let called: Vec<_> = KNOWN.iter().map(|(_, make)| make().name()).collect();
        assert_eq!(called, names().collect::<Vec<_>>());
        assert!(called.is_sorted() && names().all(|name| named(name).is_ok()));
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        for name in ["", "Hash", "least_shard"] {
            let text = named(name).err().unwrap().to_string();
            assert!(text.contains(&alloc::format!("`{name}`")) && names().all(|known| text.contains(known)), "{text}");
        }
    }
}
