//! What entities say of themselves as to being put to sleep.

use core::num::NonZeroU32;

use super::{Driver, Host, Seat};
use crate::id::Kind;
use crate::passivation::LimitReport;
use crate::time::Instant;

impl<M> Driver<M> {
    /// An entity says what it weighs from now on, of a limit by weight.
    pub fn weighed(&mut self, now: Instant, seat: Seat, weight: NonZeroU32, host: &mut (impl Host<M> + ?Sized)) {
        self.with_lane(now, seat.kind, seat.lane, host, |lane, stage| lane.weighed(now, seat.slot, weight, stage));
    }

    /// An entity is not to be put to sleep for idleness or for room until it says otherwise or its life ends.
    pub fn pin(&mut self, now: Instant, seat: Seat, pinned: bool, host: &mut (impl Host<M> + ?Sized)) {
        self.with_lane(now, seat.kind, seat.lane, host, |lane, stage| lane.pin(now, seat.slot, pinned, stage));
    }

    /// How the limit of a type goes on this node, at most a second old; `None`: it has none.
    pub fn limits(&mut self, kind: Kind) -> Option<LimitReport> {
        Some(self.region(kind)?.pool.as_ref()?.report())
    }

    /// Another limit for a type that has one; its lanes follow within a second. False: it has none.
    pub fn set_limit(&mut self, kind: Kind, limit: u64) -> bool {
        self.region(kind).and_then(|region| region.pool.as_mut()).map(|pool| pool.set_limit(limit)).is_some()
    }
}
