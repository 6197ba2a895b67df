//! The members that hands are dealt from, in the one order in which their input cannot matter.

use core::fmt;
use core::num::NonZeroU32;

use crate::time::Instant;

/// What may be asked of a member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// It takes new data: it is dealt into hands.
    #[default]
    Active,
    /// It serves what it has and takes nothing new: it is in no hand, but [`Roster::lookback`] finds it.
    ReadOnly,
}

/// A node or queue that hands are dealt from, by lasting ids: others that come and go don't rename it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Member {
    /// Which one: unique in a roster, and the same for as long as it means the same.
    pub id: u64,
    /// Where it stands, by a lasting id as well; hands are spread over zones evenly.
    pub zone: u64,
    /// How often it is dealt, compared to others of its zone.
    pub weight: NonZeroU32,
    /// What may be asked of it.
    pub mode: Mode,
    /// Since when it has been a member. A member that comes back with empty hands is a new one.
    pub since: Instant,
    /// Since when it has had its mode.
    pub changed: Instant,
    /// Since when it has had its weight and zone.
    pub placed: Instant,
}

impl Member {
    /// An active member of weight 1 that has always been there.
    #[must_use]
    pub const fn new(id: u64, zone: u64) -> Self {
        let always = Instant::ZERO;
        Self { id, zone, weight: NonZeroU32::MIN, mode: Mode::Active, since: always, changed: always, placed: always }
    }

    /// The same with another weight since `placed`.
    #[must_use]
    pub const fn weighing(self, weight: NonZeroU32, placed: Instant) -> Self {
        Self { weight, placed, ..self }
    }

    /// The same, a member since `since`.
    #[must_use]
    pub const fn joined(self, since: Instant) -> Self {
        Self { since, changed: since, placed: since, ..self }
    }

    /// The same in another mode since `changed`.
    #[must_use]
    pub const fn in_mode(self, mode: Mode, changed: Instant) -> Self {
        Self { mode, changed, ..self }
    }
}

/// Two members have one id. The fault is the caller's: give every member its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RosterError {
    /// The id.
    pub id: u64,
}

impl fmt::Display for RosterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two members have the id {}: give every member its own", self.id)
    }
}

impl core::error::Error for RosterError {}

/// Members, sorted by zone and id. Whatever order they came in, hands are the same.
#[derive(Clone, Copy, Debug)]
pub struct Roster<'a> {
    pub(super) members: &'a [Member],
    /// All weights are equal, so the cheap comparison of draws decides as the one of weighted scores would.
    pub(super) even: bool,
    /// Nobody is read-only, so counting a zone's active members is reading its length.
    all_active: bool,
}

impl<'a> Roster<'a> {
    /// The roster of `members`, which are sorted in place. O(n log n).
    ///
    /// # Errors
    /// If two members have one id.
    pub fn new(members: &'a mut [Member]) -> Result<Self, RosterError> {
        members.sort_unstable_by_key(|member| member.id);
        if let Some(twins) = members.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(RosterError { id: twins[0].id });
        }
        members.sort_unstable_by_key(|member| (member.zone, member.id));
        let even = members.windows(2).all(|pair| pair[0].weight == pair[1].weight);
        let all_active = members.iter().all(|member| member.mode == Mode::Active);
        Ok(Self { members, even, all_active })
    }

    /// Every member, sorted by zone and id: what a [`Pick`](super::Pick) points into.
    #[must_use]
    pub const fn members(&self) -> &'a [Member] {
        self.members
    }

    /// How many members of a zone hands are dealt from.
    pub(super) fn active(&self, zone: &[Member]) -> usize {
        if self.all_active { zone.len() } else { zone.iter().filter(|member| member.mode == Mode::Active).count() }
    }

    /// The members of each zone, with the number of the first; zones ascend.
    pub(super) fn zones(&self) -> impl Iterator<Item = (usize, &'a [Member])> + Clone + use<'a> {
        let members = self.members;
        let mut start = 0;
        core::iter::from_fn(move || {
            let rest = &members[start..];
            let zone = rest.first()?.zone;
            // Zones are few and long: halving beats walking.
            let run = &rest[..rest.partition_point(|member| member.zone == zone)];
            let first = start;
            start += run.len();
            Some((first, run))
        })
    }
}
