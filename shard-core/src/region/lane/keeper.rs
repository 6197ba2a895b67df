//! How a lane keeps to the limit of awake entities: it tells the policy what happens, and puts to sleep whom that picks.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::{Lane, LaneConfig, LaneHost};
use crate::entity::StopReason;
use crate::hash::spread;
use crate::id::Slot;
use crate::passivation::{Census, EVEN_EVERY, EVEN_SOON, Evened, LaneReport, Limit, PassivationPolicy, Setting};
use crate::shard::{Leaving, Phase};
use crate::time::Instant;

/// So many may be stopping, though the limit were smaller.
const STOPPING_MIN: u64 = 64;

/// What a lane with a limit keeps.
#[derive(Debug)]
pub(super) struct Keeper {
    policy: Box<dyn PassivationPolicy>,
    limit: Limit,
    /// How much this lane may hold.
    share: u64,
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

    /// Sees to it that the lane has room for `weight` more, if the node has.
    fn reach(&mut self, now: Instant, lane: u32, weight: u64, pool: impl FnOnce(u32, u64) -> Option<u64>) {
        let first = self.next.is_none();
        if first {
            self.next = Some(now + EVEN_EVERY);
        }
        let need = self.policy.census().held() + weight;
        if need > self.share && !self.dry || first {
            let wanted = if first { need } else { need - self.share };
            self.share = pool(lane, wanted).unwrap_or(self.share);
            self.dry = need > self.share;
            self.policy.limit_changed(self.share, &mut |index| self.picked.push(index));
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
        Some(self.keeper.as_ref()?.share)
    }

    /// An entity says what it weighs from now on. A limit by weight takes note of it, and the shard's load if that is its
    /// entities' weight. O(1), amortised.
    pub fn weighed(&mut self, now: Instant, slot: Slot, weight: NonZeroU32, host: &mut impl LaneHost<M>) {
        self.reweigh(slot, weight);
        let lane = self.config.lane;
        let keeper = self.keeper.as_mut().filter(|keeper| keeper.limit.each.is_some());
        let (Some(keeper), Some(_)) = (keeper, self.residents.get(slot)) else { return };
        keeper.reach(now, lane, u64::from(weight.get()), |lane, wanted| host.pool(|pool| pool.more(lane, wanted)));
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

    /// Whether one more may be woken: not while as many are being stopped as may be awake, for their last hooks take longer
    /// than new entities come.
    pub(super) fn has_room_to_wake(&self) -> bool {
        self.keeper.as_ref().is_none_or(|keeper| {
            let stopping = keeper.policy.census().stopping;
            u64::from(stopping.count) < STOPPING_MIN || stopping.weight < keeper.share
        })
    }

    /// A life began at `slot`.
    pub(super) fn keep(&mut self, now: Instant, slot: Slot, host: &mut impl LaneHost<M>) {
        let lane = self.config.lane;
        let (Some(keeper), Some(resident)) = (&mut self.keeper, self.residents.get(slot)) else { return };
        let (hash, weight) = (resident.hash, keeper.limit.weight().get());
        keeper.creations += 1;
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
        let report = keeper.report();
        if report.census == Census::default() {
            host.pool(|pool| pool.give_back(lane, report));
            keeper.next = None;
            return;
        }
        let held = report.census.held();
        let want = held + core::mem::take(&mut keeper.pressed);
        let Evened { share, more } =
            host.pool(|pool| pool.even(lane, want, report)).unwrap_or(Evened { share: keeper.share, more: false });
        keeper.next = Some(now + if more { EVEN_SOON } else { EVEN_EVERY });
        keeper.dry = false;
        if share != keeper.share {
            keeper.share = share;
            keeper.policy.limit_changed(share, &mut |index| keeper.picked.push(index));
            self.evict(now, host);
        }
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
