//! The contract: push effects, pull time.
//!
//! Every machine has the same three verbs, so one simulator, one fuzzer and one model checker drive them all. `handle`
//! never fails: what is hostile or stale is dropped with a [`Notice`]. `expire` is harmless when early. While a verb runs
//! the machine is borrowed, so an outbox cannot call back in. May import the ground floor only.

#[cfg(feature = "alloc")]
mod fixed;
#[cfg(all(feature = "alloc", any(test, feature = "sim")))]
mod mark;
mod notice;
mod rule;
mod timing;

#[cfg(feature = "alloc")]
pub use fixed::Fixed;
#[cfg(all(feature = "alloc", any(test, feature = "sim")))]
pub(crate) use mark::instants;
#[cfg(all(feature = "alloc", any(test, feature = "sim")))]
pub use mark::{Mark, Sort};
pub use notice::Notice;
pub use rule::{Rule, Rules};
pub use timing::{Timing, TimingError, TimingFigures};

use crate::time::Instant;

/// A pure state machine.
pub trait Machine {
    /// What it hears.
    type Input;
    /// What it orders, in the order the effects must happen.
    type Output;

    /// Takes one input at `now`.
    fn handle(&mut self, now: Instant, input: Self::Input, out: &mut (impl Outbox<Self::Output> + ?Sized));

    /// Does what is due at `now`; an early call changes nothing.
    fn expire(&mut self, now: Instant, out: &mut (impl Outbox<Self::Output> + ?Sized));

    /// When [`expire`](Self::expire) next has something to do.
    fn deadline(&self) -> Option<Instant>;
}

/// Where outputs go: a closure pushes, a `Vec` batches, a `VecDeque` lets the host poll.
pub trait Outbox<T> {
    /// Takes one output.
    fn emit(&mut self, item: T);
}

impl<T, F: FnMut(T)> Outbox<T> for F {
    fn emit(&mut self, item: T) {
        self(item);
    }
}

#[cfg(feature = "alloc")]
impl<T> Outbox<T> for alloc::vec::Vec<T> {
    fn emit(&mut self, item: T) {
        self.push(item);
    }
}

#[cfg(feature = "alloc")]
impl<T> Outbox<T> for alloc::collections::VecDeque<T> {
    fn emit(&mut self, item: T) {
        self.push_back(item);
    }
}
