//! The policies by name.

use alloc::boxed::Box;

use super::lfu::Lfu;
use super::lru::Lru;
use super::mru::Mru;
use super::ordered::Ordered;
use super::policy::PassivationPolicy;
use super::random::Random;
use super::s3_fifo::S3Fifo;
use super::sieve::Sieve;
use super::slru::Slru;
use super::tiny_lfu::{TinyLfu, TinyLfuConfig};

/// A policy with its usual settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum PolicyChoice {
    /// [`Lru`].
    Lru,
    /// [`Slru`] with levels of 20 and 80 percent.
    Slru,
    /// [`Slru`] with four equal levels.
    S4Lru,
    /// [`Mru`].
    Mru,
    /// [`Lfu`] without ageing.
    Lfu,
    /// [`Lfu`] with dynamic ageing.
    AgeingLfu,
    /// [`Sieve`].
    Sieve,
    /// [`S3Fifo`]: the one that is taken if nothing is said. The page of the module has the figures.
    #[default]
    S3Fifo,
    /// [`Random`].
    Random,
    /// [`TinyLfu`] with a window of a hundredth.
    TinyLfu,
    /// [`TinyLfu`] with a window that climbs.
    ClimbingTinyLfu,
}

impl PolicyChoice {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::Lru,
        Self::Slru,
        Self::S4Lru,
        Self::Mru,
        Self::Lfu,
        Self::AgeingLfu,
        Self::Sieve,
        Self::S3Fifo,
        Self::Random,
        Self::TinyLfu,
        Self::ClimbingTinyLfu,
    ];

    /// Its name on command lines and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Slru => "slru",
            Self::S4Lru => "s4lru",
            Self::Mru => "mru",
            Self::Lfu => "lfu",
            Self::AgeingLfu => "lfu-ageing",
            Self::Sieve => "sieve",
            Self::S3Fifo => "s3-fifo",
            Self::Random => "random",
            Self::TinyLfu => "w-tinylfu",
            Self::ClimbingTinyLfu => "w-tinylfu-climbing",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }

    /// An instance with this limit; `seed` is for the one that draws.
    #[must_use]
    pub fn build(self, limit: u64, seed: u64) -> Box<dyn PassivationPolicy> {
        self.build_for(limit, None, seed)
    }

    /// The same, where the limit is one by weight and fits about so many entities: those that count uses are made for that
    /// many, and not for as many as the limit has units.
    #[must_use]
    pub fn build_for(self, limit: u64, entities: Option<u64>, seed: u64) -> Box<dyn PassivationPolicy> {
        let counting = |config: TinyLfuConfig| TinyLfu::new(TinyLfuConfig { entities, ..config }, limit);
        match self {
            Self::Lru => Box::new(Ordered::new(Lru, limit)),
            Self::Slru => Box::new(Ordered::new(Slru::default(), limit)),
            Self::S4Lru => Box::new(Ordered::new(Slru::new(&[0.25; 4]), limit)),
            Self::Mru => Box::new(Ordered::new(Mru, limit)),
            Self::Lfu => Box::new(Ordered::new(Lfu::new(), limit)),
            Self::AgeingLfu => Box::new(Ordered::new(Lfu::ageing(), limit)),
            Self::Sieve => Box::new(Ordered::new(Sieve::default(), limit)),
            Self::S3Fifo => Box::new(Ordered::new(S3Fifo::new(), limit)),
            Self::Random => Box::new(Ordered::new(Random::new(seed), limit)),
            Self::TinyLfu => Box::new(counting(TinyLfuConfig::default())),
            Self::ClimbingTinyLfu => Box::new(counting(TinyLfuConfig::climbing())),
        }
    }
}
