//! How a lane keeps to the limit of awake entities: it tells the policy what happens, and puts to sleep whom that picks.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::{Lane, LaneConfig, LaneHost};
use crate::entity::StopReason;
use crate::hash::spread;
use crate::id::Slot;
use crate::passivation::{
    Census, EVEN_EVERY, EVEN_SOON, Evened, LaneReport, Limit, PassivationPolicy, Setting, Wish, step_down,
};
use crate::shard::{Leaving, Phase};
use crate::time::{Duration, Instant};

/// So many may be stopping, though the limit were smaller.
const STOPPING_MIN: u64 = 64;
/// So long a lane keeps room for an entity heavier than its part of the limit after that one has gone to sleep.
const GIANT_KEPT: Duration = Duration::from_secs(60);

/// What a lane with a limit keeps.
#[derive(Debug)]
pub(super) struct Keeper {
    policy: Box<dyn PassivationPolicy>,
    limit: Limit,
    /// How much this lane may hold by what the pool says.
    share: u64,
    /// How much the policy may hold: the share, or more while what one entity has grown by is made up for in steps.
    allowed: u64,
    /// What each lane would have if all had the same.
    equal: u64,
    /// The heaviest entity, if it is heavier than that.
    giant: Option<Giant>,
    /// The node had no more to give when it was last asked.
    dry: bool,
    /// When the share is looked at again; `None`: nobody has been awake since it was given back.
    next: Option<Instant>,
    hits: u64,
    creations: u64,
    evictions: u64,
    /// What those counted who were picked since the share was last looked at.
    pressed: u64,
    /// Whom the policy picked; reused between calls.
    picked: Vec<u32>,
}

/// An entity heavier than the equal part of the limit. Without room of its own it would be put to sleep as often as it wakes.
#[derive(Clone, Copy, Debug)]
struct Giant {
    slot: Slot,
    weight: NonZeroU32,
    until: Instant,
}

impl Keeper {
    pub(super) fn new(config: &LaneConfig, limit: Limit) -> Self {
        let lane = u64::from(config.lane);
        // Without a pool each lane has its part of the limit for ever.
        let share = limit.at_most.get().div_ceil(u64::from(config.lanes.get()));
        let seed = spread(config.me.incarnation.0 ^ u64::from(config.kind.0) ^ lane << 32);
        let entities = limit.each.map(|each| share / u64::from(each.get()));
        let policy = limit.policy.build(&Setting { limit: 0, entities, seed });
        Self {
            policy,
            limit,
            share,
            allowed: 0,
            equal: share,
            giant: None,
            dry: false,
            next: None,
            hits: 0,
            creations: 0,
            evictions: 0,
            pressed: 0,
            picked: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, index: u32) {
        self.hits += 1;
        self.policy.touched(index);
    }

    /// It is being stopped, for whatever reason.
    pub(super) fn stopping(&mut self, index: u32) {
        self.policy.stopping(index);
    }

    pub(super) fn removed(&mut self, index: u32) {
        self.policy.removed(index);
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.next
    }

    fn report(&self) -> LaneReport {
        LaneReport {
            census: self.policy.census(),
            hits: self.hits,
            creations: self.creations,
            evictions: self.evictions,
            bytes: self.policy.bytes() as u64,
        }
    }

    /// Sees to it that the lane has room for `more`, if the node has.
    fn reach(&mut self, now: Instant, lane: u32, more: u64, pool: impl FnOnce(u32, u64) -> Option<u64>) {
        let first = self.next.is_none();
        if first {
            self.next = Some(now + EVEN_EVERY);
        }
        let need = self.policy.census().held() + more;
        if need > self.share && !self.dry || first {
            let wanted = if first { need } else { need - self.share };
            self.share = pool(lane, wanted).unwrap_or(self.share);
            self.dry = need > self.share;
            self.allow(if first { self.share } else { self.share.max(self.allowed) });
        }
    }

    fn allow(&mut self, allowed: u64) {
        if allowed != self.allowed {
            self.allowed = allowed;
            self.policy.limit_changed(allowed, &mut |index| self.picked.push(index));
        }
    }

    /// The entity at `slot` counts `weight` from now on: remembers the heaviest that exceeds an equal part.
    fn notice_giant(&mut self, now: Instant, slot: Slot, weight: NonZeroU32) {
        if u64::from(weight.get()) > self.equal {
            if self.giant.is_none_or(|giant| giant.weight <= weight || giant.slot == slot) {
                self.giant = Some(Giant { slot, weight, until: now + GIANT_KEPT });
            }
        } else if self.giant.is_some_and(|giant| giant.slot == slot) {
            self.giant = None;
        }
    }

    /// One entity has grown by so much: if it fits, others go for it, but not all at once.
    fn make_up_for(&mut self, now: Instant, weight: NonZeroU32, grown: u64) {
        let census = self.policy.census();
        let held = census.held() + grown;
        if held > self.allowed && census.pinned.weight + u64::from(weight.get()) <= self.share {
            self.allow(step_down(held).max(self.allowed));
            let soon = now + EVEN_SOON;
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
    }
}

impl<M> Lane<M> {
    /// Who is awake, pinned and stopping, if the type has a limit.
    #[must_use]
    pub fn census(&self) -> Option<Census> {
        Some(self.keeper.as_ref()?.policy.census())
    }

    /// How much this lane may hold now, if the type has a limit.
    #[must_use]
    pub fn share(&self) -> Option<u64> {
        Some(self.keeper.as_ref()?.allowed)
    }

    /// An entity says what it weighs from now on. A limit by weight takes note of it, and the shard's load if that is its
    /// entities' weight. O(1), amortised.
    pub fn weighed(&mut self, now: Instant, slot: Slot, weight: NonZeroU32, host: &mut impl LaneHost<M>) {
        let Some(before) = self.residents.get(slot).map(|resident| resident.weight) else { return };
        self.reweigh(slot, weight);
        let lane = self.config.lane;
        let keeper = self.keeper.as_mut().filter(|keeper| keeper.limit.each.is_some());
        let (Some(keeper), Some(resident)) = (keeper, self.residents.get(slot)) else { return };
        let leaves = resident.leaving == Leaving::Evicted || resident.phase == Phase::Stopping;
        let grown = if leaves { 0 } else { u64::from(weight.get().saturating_sub(before.get())) };
        keeper.notice_giant(now, slot, weight);
        keeper.reach(now, lane, grown, |lane, wanted| host.pool(|pool| pool.more(lane, wanted)));
        keeper.make_up_for(now, weight, grown);
        keeper.policy.weighed(slot.index, weight.get(), &mut |index| keeper.picked.push(index));
        self.evict(now, host);
        self.admit(now, host);
    }

    /// An entity is not to be put to sleep, neither for idleness nor for room, until it says otherwise or its life ends.
    /// Nothing happens if it has been picked already.
    pub fn pin(&mut self, now: Instant, slot: Slot, pinned: bool, host: &mut impl LaneHost<M>) {
        let Some(resident) = self.residents.get_mut(slot) else { return };
        if resident.pinned == pinned || resident.leaving != Leaving::No || resident.phase == Phase::Stopping {
            return;
        }
        resident.pinned = pinned;
        let hash = resident.hash;
        if pinned {
            self.sleepers.remove(slot.index);
        } else {
            self.sleepers.touch(now, slot.index);
        }
        let Some(keeper) = &mut self.keeper else { return };
        if pinned {
            keeper.policy.pinned(slot.index);
        } else {
            keeper.policy.unpinned(slot.index, hash, &mut |index| keeper.picked.push(index));
        }
        self.evict(now, host);
        self.admit(now, host);
    }

    /// What an entity weighs until it says so.
    pub(super) fn usual_weight(&self) -> NonZeroU32 {
        self.config.passivation.limit.map_or(NonZeroU32::MIN, |limit| limit.weight())
    }

    /// Whether one more may be woken: not while as many are being stopped as the lane may hold, or as its equal part of the
    /// limit; for their last hooks take longer than new entities come.
    pub(super) fn has_room_to_wake(&self) -> bool {
        self.keeper.as_ref().is_none_or(|keeper| {
            let stopping = keeper.policy.census().stopping;
            u64::from(stopping.count) < STOPPING_MIN || stopping.weight < keeper.share.max(keeper.equal)
        })
    }

    /// A life began at `slot`.
    pub(super) fn keep(&mut self, now: Instant, slot: Slot, host: &mut impl LaneHost<M>) {
        let lane = self.config.lane;
        let (Some(keeper), Some(resident)) = (&mut self.keeper, self.residents.get(slot)) else { return };
        let (hash, weight) = (resident.hash, keeper.limit.weight());
        keeper.creations += 1;
        keeper.notice_giant(now, slot, weight);
        let weight = weight.get();
        keeper.reach(now, lane, u64::from(weight), |lane, wanted| host.pool(|pool| pool.more(lane, wanted)));
        keeper.policy.created(slot.index, hash, weight, &mut |index| keeper.picked.push(index));
        self.evict(now, host);
    }

    /// The entity at `slot`, whose former life has failed or was to end, has begun another one.
    pub(super) fn keep_again(&mut self, now: Instant, slot: Slot, host: &mut impl LaneHost<M>) {
        if let Some(keeper) = &mut self.keeper {
            keeper.policy.removed(slot.index);
            self.keep(now, slot, host);
        }
    }

    /// Looks whether the lane's share is still right, if it is time.
    pub(super) fn even(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        let (lane, Some(keeper)) = (self.config.lane, &mut self.keeper) else { return };
        if keeper.next.is_none_or(|next| now < next) {
            return;
        }
        if let Some(giant) = &mut keeper.giant {
            if self.residents.get(giant.slot).is_some_and(|resident| resident.weight == giant.weight) {
                giant.until = now + GIANT_KEPT;
            } else if giant.until <= now {
                keeper.giant = None;
            }
        }
        let report = keeper.report();
        if report.census == Census::default() && keeper.giant.is_none() {
            host.pool(|pool| pool.give_back(lane, report));
            keeper.next = None;
            return;
        }
        let held = report.census.held();
        let least = keeper.giant.map_or(0, |giant| u64::from(giant.weight.get()));
        let want = (held + core::mem::take(&mut keeper.pressed)).max(least);
        let as_before = Evened { share: keeper.share, equal: keeper.equal, more: false };
        let evened = host.pool(|pool| pool.even(lane, Wish { want, least }, report)).unwrap_or(as_before);
        let allowed = evened.share.max(step_down(held).min(keeper.allowed));
        let more = evened.more || allowed > evened.share;
        keeper.next = Some(now + if more { EVEN_SOON } else { EVEN_EVERY });
        (keeper.share, keeper.equal, keeper.dry) = (evened.share, evened.equal, false);
        keeper.allow(allowed);
        self.evict(now, host);
    }

    /// Puts to sleep whom the policy picked: at once who is idle, the others when the mail that they have now is handled. What
    /// comes later is for their next life.
    fn evict(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        let Some(keeper) = &mut self.keeper else { return };
        if keeper.picked.is_empty() {
            return;
        }
        let mut picked = core::mem::take(&mut keeper.picked);
        let by_weight = keeper.limit.each.is_some();
        let (mut evictions, mut pressed) = (0, 0);
        for index in picked.drain(..) {
            let Some(slot) = self.residents.at(index) else { continue };
            let Some(resident) = self.residents.get(slot) else { continue };
            // A policy of a user's own may pick whom it should not.
            if resident.pinned || resident.leaving == Leaving::Evicted {
                continue;
            }
            evictions += 1;
            pressed += if by_weight { u64::from(resident.weight.get()) } else { 1 };
            let free = resident.is_free();
            self.residents.leave(slot, Leaving::Evicted);
            self.sleepers.remove(index);
            if free {
                self.stop(now, slot, StopReason::Evicted, host);
            }
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.evictions += evictions;
            keeper.pressed += pressed;
            keeper.picked = picked;
        }
    }
}
