//! How the lives of entities begin and end; the picture is on the page of [`crate::shard`].

use super::{Lane, LaneHost, Life};
use crate::collections::EntityId;
use crate::entity::StopReason;
use crate::id::{ShardId, Slot};
use crate::machine::Notice;
use crate::shard::{Leaving, Phase};
use crate::time::{Duration, Instant};

/// What an entity wants after a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Live on.
    Stay,
    /// Stop after the mail already here.
    Passivate,
    /// Stop now; waiting mail goes to the next incarnation.
    Stop,
    /// The handler panicked or asked for a restart: the state is gone, start again after a pause.
    Failed,
}

/// Something due later for one life of an entity.
#[derive(Debug)]
pub(super) enum Timer<M> {
    /// A message to itself.
    Message(Slot, M),
    /// The end of the pause after a failure.
    Rest(Slot),
}

impl<M> Lane<M> {
    /// A handler that the host started through [`locate`](Self::locate) did not return at once.
    pub fn busy(&mut self, slot: Slot) {
        if let Some(resident) = self.residents.get_mut(slot)
            && resident.phase == Phase::Idle
        {
            resident.phase = Phase::Busy;
        }
    }

    /// The first hook of the entity at `slot` is done.
    pub fn started(&mut self, now: Instant, slot: Slot, ready: bool, host: &mut impl LaneHost<M>) {
        let Some(resident) = self.residents.get_mut(slot) else { return };
        if resident.phase != Phase::Starting {
            return;
        }
        if ready {
            resident.phase = Phase::Idle;
            // Whoever was picked or asked to go before it could take any mail takes what has come since.
            resident.due = u32::try_from(resident.waiting()).unwrap_or(u32::MAX);
            self.go_on(now, slot, host);
        } else {
            self.fail(now, slot, host);
        }
        self.admit(now, host);
    }

    /// The handler of the entity at `slot` has returned, or was lost with its state (`Next::Failed`).
    pub fn finished(&mut self, now: Instant, slot: Slot, next: Next, host: &mut impl LaneHost<M>) {
        let Some(resident) = self.residents.get_mut(slot) else { return };
        if !matches!(resident.phase, Phase::Busy | Phase::Idle) {
            return;
        }
        if next == Next::Failed {
            self.fail(now, slot, host);
            return self.admit(now, host);
        }
        resident.phase = Phase::Idle;
        match next {
            Next::Passivate => self.residents.leave(slot, Leaving::AfterMail),
            Next::Stop => self.residents.leave(slot, Leaving::Now),
            Next::Stay | Next::Failed => {}
        }
        if !self.failures.is_empty() {
            self.failures.remove(&slot.index);
        }
        self.release(now, slot);
        self.go_on(now, slot, host);
        self.admit(now, host);
    }

    /// The last hook of the entity at `slot` is done, or all of it was dropped by order; its state is gone.
    pub fn stopped(&mut self, now: Instant, slot: Slot, host: &mut impl LaneHost<M>) {
        let Some(resident) = self.residents.get(slot) else { return };
        let (id, hash, shard) = (resident.id.clone(), resident.hash, resident.shard);
        if self.is_ending(shard) {
            self.bury(now, slot, host);
            self.after_burial(now, shard, host);
            return self.admit(now, host);
        }
        self.residents.forget_timers(slot);
        let mail = self.residents.take_mail(slot);
        self.bury(now, slot, host);
        if !mail.is_empty() {
            // What came for the stopping entity goes to a fresh incarnation, each message with its sender.
            let fresh = self.wake(now, shard, hash, id, host);
            for mail in mail {
                self.residents.queue(fresh, mail);
            }
            self.seated(now, fresh);
        }
        self.admit(now, host);
    }

    /// A message to itself after `after`, as long as this life lasts. False: too many timers.
    pub fn schedule(&mut self, now: Instant, slot: Slot, after: Duration, message: M) -> bool {
        if self.timers.len() >= self.config.timers || self.residents.get(slot).is_none() {
            return false;
        }
        self.add_timer(now + after, Timer::Message(slot, message));
        true
    }

    /// Asks the entity `id` to stop once its mail is handled, as a caller may.
    pub fn passivate(&mut self, now: Instant, hash: u64, id: &str, host: &mut impl LaneHost<M>) {
        let Some(slot) = self.residents.find(hash, id) else { return };
        self.residents.leave(slot, Leaving::AfterMail);
        if self.residents.get(slot).is_some_and(|resident| resident.phase == Phase::Idle) {
            self.go_on(now, slot, host);
        }
        self.admit(now, host);
    }

    /// Begins a life.
    pub(super) fn wake(
        &mut self,
        now: Instant,
        shard: ShardId,
        hash: u64,
        id: EntityId,
        host: &mut impl LaneHost<M>,
    ) -> Slot {
        let (at, weight) = (self.local(shard), self.usual_weight());
        let state = &mut self.shards[at];
        let tenure = state.tenure.as_mut().expect("entities wake only in a shard that is owned");
        tenure.activations += 1;
        let (token, activation) = (tenure.token, tenure.activations);
        state.residents += 1;
        state.weight += u64::from(weight.get());
        let slot = self.residents.create(hash, id.clone(), shard, activation, weight);
        self.sleepers.touch(now, slot.index);
        let live = self.may_start(now, host);
        if self.gate.is_some() {
            // It begins once it has a seat.
            self.rest(slot);
        } else if live {
            host.start(slot, Life { id, shard, token, activation });
        } else {
            self.withhold(slot);
        }
        self.keep(now, slot, host);
        slot
    }

    /// No first hook begins outside the session, for it may read what another owner is about to write: the entity rests
    /// until the session is renewed or ends.
    fn withhold(&mut self, slot: Slot) {
        self.rest(slot);
        self.stall(slot);
    }

    fn rest(&mut self, slot: Slot) {
        if let Some(resident) = self.residents.get_mut(slot) {
            resident.phase = Phase::Resting;
        }
    }

    pub(super) fn put_idle_to_sleep(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        while let Some(index) = self.sleepers.due(now) {
            let Some(slot) = self.residents.at(index) else {
                self.sleepers.remove(index);
                continue;
            };
            if self.residents.get(slot).is_some_and(|resident| resident.pinned) {
                self.sleepers.remove(index);
                continue;
            }
            // Busy all the while is use as well; and one that may not stop now is looked at again as late.
            self.sleepers.touch(now, index);
            if self.residents.get(slot).is_some_and(|resident| resident.is_free()) {
                self.stop(now, slot, StopReason::Idle, host);
            }
        }
    }

    /// Decides what an entity that has just become idle does next.
    pub(super) fn go_on(&mut self, now: Instant, slot: Slot, host: &mut impl LaneHost<M>) {
        let Some(resident) = self.residents.get(slot) else { return };
        let shard = resident.shard;
        if self.is_ending(shard) {
            let drain = self.shards[self.local(shard)].tenure.as_ref().and_then(|tenure| tenure.drain);
            let why = if self.halting { None } else { drain };
            return match why {
                Some(why) => self.stop(now, slot, why, host),
                None => {
                    host.discard(slot);
                    self.bury(now, slot, host);
                    self.after_burial(now, shard, host);
                }
            };
        }
        if resident.is_done() {
            let evicted = resident.leaving == Leaving::Evicted;
            return self.stop(now, slot, if evicted { StopReason::Evicted } else { StopReason::Asked }, host);
        }
        if resident.waiting() == 0 {
            return self.release(now, slot);
        }
        if !self.may_start(now, host) {
            return self.stall(slot);
        }
        if !self.seated(now, slot) {
            return;
        }
        if let Some(mail) = self.residents.next_mail(slot) {
            if let Some(resident) = self.residents.get_mut(slot) {
                resident.due = resident.due.saturating_sub(1);
            }
            self.recount(slot);
            self.run(slot, mail, host);
        }
    }

    pub(super) fn stall(&mut self, slot: Slot) {
        if let Some(resident) = self.residents.get_mut(slot)
            && !resident.stalled
        {
            resident.stalled = true;
            self.stalled.push(slot);
        }
    }

    /// The session was renewed: those that waited for it go on.
    pub(super) fn resume(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        for slot in core::mem::take(&mut self.stalled) {
            if let Some(resident) = self.residents.get_mut(slot) {
                resident.stalled = false;
                match resident.phase {
                    Phase::Idle => self.go_on(now, slot, host),
                    Phase::Resting => self.rested(now, slot, host),
                    Phase::Starting | Phase::Busy | Phase::Stopping => {}
                }
            }
        }
    }

    /// Begins the last hook of an idle entity. Like a handler it does not begin outside the session: then it waits for the
    /// renewal, the session's end, or force.
    pub(super) fn stop(&mut self, now: Instant, slot: Slot, why: StopReason, host: &mut impl LaneHost<M>) {
        if !self.may_start(now, host) {
            return self.stall(slot);
        }
        self.sleepers.remove(slot.index);
        self.release(now, slot);
        if let Some(resident) = self.residents.get_mut(slot) {
            resident.phase = Phase::Stopping;
            resident.leaving = Leaving::No;
            if let Some(keeper) = &mut self.keeper {
                keeper.stopping(slot.index);
            }
            host.stop(slot, why);
        }
    }

    /// The state is gone. In a shard that ends, so is the entity; else it rests and starts again with what waits.
    fn fail(&mut self, now: Instant, slot: Slot, host: &mut impl LaneHost<M>) {
        let Some(resident) = self.residents.get_mut(slot) else { return };
        let shard = resident.shard;
        resident.phase = Phase::Resting;
        self.release(now, slot);
        if self.is_ending(shard) {
            self.bury(now, slot, host);
            return self.after_burial(now, shard, host);
        }
        self.residents.forget_timers(slot);
        self.recount(slot);
        let failures = self.failures.entry(slot.index).or_insert(0);
        let pause = self.config.rest.saturating_mul(1 << (*failures).min(16)).min(self.config.rest_max);
        *failures = failures.saturating_add(1);
        self.add_timer(now + pause, Timer::Rest(slot));
    }

    /// After its pause an entity starts again, if mail waits; else its place is given up.
    pub(super) fn rested(&mut self, now: Instant, slot: Slot, host: &mut impl LaneHost<M>) {
        let Some(resident) = self.residents.get_mut(slot) else { return };
        if resident.phase != Phase::Resting {
            return;
        }
        let (shard, id, waits) = (resident.shard, resident.id.clone(), resident.waiting() > 0);
        let at = self.local(shard);
        if !waits {
            self.bury(now, slot, host);
            return self.after_burial(now, shard, host);
        }
        if !self.may_start(now, host) {
            return self.withhold(slot);
        }
        if !self.seated(now, slot) {
            return;
        }
        let Some(tenure) = self.shards[at].tenure.as_mut() else { return };
        tenure.activations += 1;
        let (token, activation) = (tenure.token, tenure.activations);
        let mut again = self.failures.contains_key(&slot.index);
        if let Some(resident) = self.residents.get_mut(slot) {
            resident.phase = Phase::Starting;
            resident.activation = activation;
            again |= resident.pinned || resident.leaving != Leaving::No;
            (resident.leaving, resident.pinned) = (Leaving::No, false);
        }
        self.reweigh(slot, self.usual_weight());
        host.start(slot, Life { id, shard, token, activation });
        if again {
            // What the former life weighed and pinned is over, and so is that it was picked.
            self.sleepers.touch(now, slot.index);
            self.keep_again(now, slot, host);
        }
    }

    /// Ends a life: its place is free. Mail of local callers goes back to the shard's stream when the tenure ends; mail of
    /// other processes is theirs still.
    pub(super) fn bury(&mut self, now: Instant, slot: Slot, host: &mut impl LaneHost<M>) {
        if let Some(gate) = &mut self.gate {
            gate.forget(now, slot.index);
        }
        self.sleepers.remove(slot.index);
        if let Some(keeper) = &mut self.keeper {
            keeper.removed(slot.index);
        }
        self.failures.remove(&slot.index);
        let Some((resident, mail)) = self.residents.remove(slot) else { return };
        let at = self.local(resident.shard);
        let state = &mut self.shards[at];
        state.residents -= 1;
        state.weight -= u64::from(resident.weight.get());
        for mail in mail {
            super::sender::keep_returned(&mut state.returned, &resident.id, mail, host);
        }
    }

    fn add_timer(&mut self, at: Instant, timer: Timer<M>) {
        self.timers.insert((at, self.next_timer), timer);
        self.next_timer += 1;
    }

    pub(super) fn fire_timers(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            match entry.remove() {
                Timer::Message(slot, message) => self.deliver_timer(now, slot, message, host),
                Timer::Rest(slot) => self.rested(now, slot, host),
            }
        }
    }

    pub(super) fn forced(&mut self, shard: ShardId, host: &mut impl LaneHost<M>) {
        let at = self.local(shard);
        if let Some(token) = self.shards[at].tenure.as_ref().map(|tenure| tenure.token) {
            host.notice(Notice::DrainForced { key: self.key(shard), token });
        }
    }
}
