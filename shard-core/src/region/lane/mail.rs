//! How a message finds its entity.

use super::{Lane, LaneHost, Receipt};
use crate::collections::EntityId;
use crate::entity::{Bound, Fate, Reason};
use crate::id::{NodeKey, ShardId, Slot, Token};
use crate::machine::Rule;
use crate::region::stream::{IncomingOutput, Verdict};
use crate::shard::{Leaving, Mail, Origin, Phase};
use crate::time::Instant;

/// A message from a caller on this node.
#[derive(Debug)]
pub struct Tell<'a, M> {
    /// The entity.
    pub id: &'a str,
    /// [`crate::hash::entity`] of the id.
    pub hash: u64,
    /// Its shard; must belong to the lane.
    pub shard: ShardId,
    /// The message.
    pub message: M,
    /// The caller waits for a reply.
    pub ask: bool,
    /// After this it is of no use unless it has started.
    pub deadline: Option<Instant>,
}

/// A message from a stream of another process.
#[derive(Debug)]
pub struct Arrival<'a, M> {
    /// The sender.
    pub from: NodeKey,
    /// Its shard; must belong to the lane.
    pub shard: ShardId,
    /// The grant it names.
    pub token: Token,
    /// The opening it belongs to.
    pub attempt: u32,
    /// Its number.
    pub seq: u64,
    /// Whether it is the first of the opening.
    pub first: bool,
    /// The entity.
    pub id: &'a str,
    /// [`crate::hash::entity`] of the id.
    pub hash: u64,
    /// The message; or why its bytes are none of this build's messages.
    pub body: Result<M, Reason>,
}

/// What was last said to a sender whose mail is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    from: NodeKey,
    shard: ShardId,
    token: Token,
    attempt: u32,
    draining: bool,
    hint: Option<(NodeKey, Token)>,
}

impl<M> Lane<M> {
    /// Takes a message of a local caller on the way that is always right: to the entity if the shard is owned here and
    /// nothing is parked for it, else into the shard's stream. What becomes of it is told by a handler or by
    /// [`LaneHost::undelivered`].
    pub fn tell(&mut self, now: Instant, tell: Tell<'_, M>, host: &mut impl LaneHost<M>) {
        if self.doors[self.local(tell.shard)].direct {
            let origin = Origin::Here { ask: tell.ask, deadline: tell.deadline };
            self.deliver(now, tell.shard, tell.hash, tell.id, Mail { origin, message: tell.message }, host);
        } else {
            self.depart(now, tell, host);
        }
    }

    /// Takes a message of another process's stream (D3).
    pub fn arrive(&mut self, now: Instant, arrival: Arrival<'_, M>, host: &mut impl LaneHost<M>) {
        let Arrival { from, shard, token, attempt, seq, first, id, hash, body } = arrival;
        let (key, at) = (self.key(shard), self.local(shard));
        let settle_on_start = self.config.rules.on(Rule::SettleOnStart);
        let verdict = match self.shards[at].tenure.as_mut() {
            Some(tenure) => tenure.incoming.data(from, token, attempt, seq, first),
            None => Verdict::Refuse { draining: false },
        };
        if let Verdict::Refuse { draining } = verdict {
            let hint = self.shards[at].outgoing.as_ref().and_then(|outgoing| outgoing.home_after(token));
            // An opening comes as a row of frames: that it is refused is said once, and again if there is more to say.
            let refusal = Refusal { from, shard, token, attempt, draining, hint };
            if first || self.last_refusal != Some(refusal) {
                self.last_refusal = Some(refusal);
                host.receipt(from, Receipt::Refuse { key, token, attempt, draining, hint });
            }
        }
        if verdict != Verdict::Accept {
            if let Ok(message) = body {
                host.withdraw(message);
            }
            return;
        }
        match body {
            Ok(message) => {
                if !settle_on_start {
                    self.mark_taken(shard, from, seq);
                }
                self.deliver(now, shard, hash, id, Mail { origin: Origin::Stream { from, seq }, message }, host);
            }
            Err(reason) => self.reject(shard, from, seq, reason, host),
        }
    }

    /// A timer of the entity at `slot` came due.
    pub(super) fn deliver_timer(&mut self, now: Instant, slot: Slot, message: M, host: &mut impl LaneHost<M>) {
        if self
            .residents
            .get(slot)
            .is_some_and(|resident| resident.leaving == Leaving::No && resident.phase != Phase::Stopping)
        {
            self.used(now, slot);
            self.give(now, slot, Mail { origin: Origin::Timer, message }, host);
        }
    }

    /// Reports what was taken since the last call, one receipt per sender and shard. Call it after every batch.
    pub fn flush(&mut self, host: &mut impl LaneHost<M>) {
        while let Some(at) = self.unflushed.pop_first() {
            let key = self.key(self.global(at as usize));
            if let Some(tenure) = &mut self.shards[at as usize].tenure {
                let token = tenure.token;
                tenure.incoming.flush(&mut |output| {
                    if let IncomingOutput::Taken { to, upto } = output {
                        host.receipt(to, Receipt::Taken { key, token, upto });
                    }
                });
            }
        }
    }

    /// Brings mail to an entity of a shard that is owned here, waking it if it sleeps, or says that it may not wait.
    pub(super) fn deliver(
        &mut self,
        now: Instant,
        shard: ShardId,
        hash: u64,
        id: &str,
        mail: Mail<M>,
        host: &mut impl LaneHost<M>,
    ) {
        let slot = match self.residents.find(hash, id) {
            Some(slot) => {
                self.used(now, slot);
                slot
            }
            None if !self.has_room_to_wake() => {
                return self.turn_away(shard, &EntityId::from(id), mail, Bound::Stopping, host);
            }
            None if self.gate.is_some() => return self.wake_guarded(now, shard, hash, EntityId::from(id), mail, host),
            None => self.wake(now, shard, hash, EntityId::from(id), host),
        };
        self.give(now, slot, mail, host);
    }

    /// Mail comes for an entity that is here. That it is about to go changes nothing in that.
    fn used(&mut self, now: Instant, slot: Slot) {
        if self.residents.get(slot).is_some_and(|resident| resident.phase != Phase::Stopping) {
            self.touch(now, slot.index);
        }
    }

    fn give(&mut self, now: Instant, slot: Slot, mail: Mail<M>, host: &mut impl LaneHost<M>) {
        let live = self.may_start(now, host);
        let Some(resident) = self.residents.get_mut(slot) else { return };
        if resident.waiting() >= self.config.mailbox {
            return self.overflow(slot, mail, Bound::Entity, host);
        }
        if self.gate.is_some() {
            return self.give_guarded(now, slot, mail, host);
        }
        if resident.is_free() && live {
            return self.run(slot, mail, host);
        }
        if resident.phase == Phase::Idle {
            self.stall(slot);
        }
        self.residents.queue(slot, mail);
    }

    /// Starts a handler: the one place where mail is taken (D4).
    pub(super) fn run(&mut self, slot: Slot, mail: Mail<M>, host: &mut impl LaneHost<M>) {
        let Some(resident) = self.residents.get_mut(slot) else { return };
        resident.phase = Phase::Busy;
        let shard = resident.shard;
        let at = self.local(shard);
        self.doors[at].count();
        if let Origin::Stream { from, seq } = mail.origin {
            self.mark_taken(shard, from, seq);
        }
        host.run(slot, mail.message);
    }

    fn mark_taken(&mut self, shard: ShardId, from: NodeKey, seq: u64) {
        let at = self.local(shard);
        if let Some(tenure) = &mut self.shards[at].tenure {
            tenure.incoming.started(from, seq);
            if tenure.incoming.owes() {
                self.unflushed.insert(u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
    }

    /// Settles a message of a stream without running it, and says why.
    fn reject(&mut self, shard: ShardId, from: NodeKey, seq: u64, reason: Reason, host: &mut impl LaneHost<M>) {
        let key = self.key(shard);
        let Some(token) = self.shards[self.local(shard)].tenure.as_ref().map(|tenure| tenure.token) else { return };
        // The rejection goes first: the `Taken` that covers it would settle the message in silence.
        host.receipt(from, Receipt::Rejected { key, token, seq, reason });
        self.mark_taken(shard, from, seq);
    }

    pub(super) fn overflow(&mut self, slot: Slot, mail: Mail<M>, bound: Bound, host: &mut impl LaneHost<M>) {
        let Some(resident) = self.residents.get(slot) else { return };
        let (id, shard) = (resident.id.clone(), resident.shard);
        self.turn_away(shard, &id, mail, bound, host);
    }

    /// There is no room for the message: its sender is told, and it has not run.
    pub(super) fn turn_away(
        &mut self,
        shard: ShardId,
        id: &EntityId,
        mail: Mail<M>,
        bound: Bound,
        host: &mut impl LaneHost<M>,
    ) {
        let reason = Reason::Full(bound);
        match mail.origin {
            Origin::Here { .. } => host.undelivered(id, mail.message, Fate::NotRun(reason)),
            Origin::Stream { from, seq } => {
                self.reject(shard, from, seq, reason, host);
                host.withdraw(mail.message);
            }
            Origin::Timer => {
                host.notice(crate::machine::Notice::BoundHit { what: "mailbox, by the entity's own timer" });
            }
        }
    }
}
