//! Who is put to sleep, and when.
//!
//! An idle entity costs its state and a slot; this floor decides whose state goes first. [`Passivation`] is what users
//! configure, [`Sleepers`] keeps the order of use: every operation O(1), no timer per entity, exact under a cap. May
//! import: collections, machine, ground.

mod sleepers;

pub use sleepers::Sleepers;

use core::num::NonZeroUsize;

use crate::time::Duration;

/// When entities are put to sleep without asking for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passivation {
    /// An entity that got no mail for this long is stopped. `None`: never for idleness.
    pub idle: Option<Duration>,
    /// At most so many entities of the type are awake on one node; one more puts the least recently used to sleep.
    /// `None`: no cap.
    pub at_most: Option<NonZeroUsize>,
}

impl Passivation {
    /// Never, unless the entity asks.
    #[must_use]
    pub const fn never() -> Self {
        Self { idle: None, at_most: None }
    }

    /// After `idle` without mail.
    #[must_use]
    pub const fn after(idle: Duration) -> Self {
        Self { idle: Some(idle), at_most: None }
    }

    /// The least recently used, whenever more than `cap` are awake on this node.
    #[must_use]
    pub const fn at_most(cap: NonZeroUsize) -> Self {
        Self { idle: None, at_most: Some(cap) }
    }

    /// The same, and after `idle` without mail as well.
    #[must_use]
    pub const fn and_after(self, idle: Duration) -> Self {
        Self { idle: Some(idle), at_most: self.at_most }
    }
}

impl Default for Passivation {
    /// Five minutes without mail, no cap.
    fn default() -> Self {
        Self::after(Duration::from_secs(300))
    }
}
