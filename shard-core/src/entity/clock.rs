//! What a host lends to entities and references: a clock, the session, and the other types.

use alloc::sync::Arc;
use core::{any::Any, task::Waker};

use crate::time::Instant;

/// The host's clock, with alarms. It counts suspend, like every clock the machines are fed from.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Instant;

    /// Wakes `waker` once at `at` or soon after; the moment is a deadline of seconds, so coarse ticks will do.
    ///
    /// Every pending ask calls this: one list per node, not one runtime timer per call.
    fn wake_at(&self, at: Instant, waker: &Waker) -> Alarm;

    /// The alarm is no longer needed, rung or not. Asks are answered long before their deadline, so a host that keeps
    /// them all until then keeps millions.
    fn forget(&self, alarm: Alarm) {
        let _ = alarm;
    }
}

/// An alarm set with [`Clock::wake_at`], as its clock numbers them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Alarm(pub u64);

impl Alarm {
    /// No alarm: what a clock that can't forget returns. It is never handed to [`Clock::forget`].
    pub const NONE: Self = Self(u64::MAX);
}

/// Everything of its node that an entity can reach through its [`Context`](super::Context).
pub trait Services: Clock {
    /// Until when this node's session lasts if no further heartbeat is acknowledged. [`Instant::ZERO`] if it has none.
    fn session_until(&self) -> Instant;

    /// The references of an entity type registered (or proxied) on this node: an
    /// [`Entities<M>`](super::Entities) of its protocol, or `None`.
    fn registered(&self, name: &str) -> Option<Arc<dyn Any + Send + Sync>>;
}
