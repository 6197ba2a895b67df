//! How grants begin and end here, and the barrier: an end is reported only when nothing of it runs any more.

use super::{Lane, LaneHost, Receipt, Tenure};
use crate::entity::StopReason;
use crate::id::{NodeKey, ShardId, Slot, Token};
use crate::machine::Rule;
use crate::region::stream::{Incoming, IncomingOutput};
use crate::shard::Phase;
use crate::time::Instant;
use crate::wire::Home;

/// What control tells a lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Order {
    /// The shard is this node's under `token`.
    Own {
        /// The shard.
        shard: ShardId,
        /// The grant.
        token: Token,
    },
    /// Stop its entities, then drop it and say `dropped`; by force at `deadline`.
    Drain {
        /// The shard.
        shard: ShardId,
        /// The grant.
        token: Token,
        /// When force is used.
        deadline: Instant,
        /// The whole node leaves; its entities are told so.
        leaving: bool,
    },
    /// The session lives: handlers may start before `until`.
    Live {
        /// The end less the margin.
        until: Instant,
    },
    /// The session is over: drop everything, then say `halted`.
    Halt,
    /// The cluster counts the shards of this type otherwise, so nothing that is kept can be told where to go: it was not
    /// run.
    Refused,
    /// The coordinator's word on where a shard lives.
    Home {
        /// The shard.
        shard: ShardId,
        /// Its home, if it has one.
        home: Option<Home>,
    },
    /// That process is gone for good.
    PeerGone(NodeKey),
    /// The link to that process is up or down.
    Link {
        /// The process.
        node: NodeKey,
        /// Whether frames reach it.
        up: bool,
    },
    /// The coordinator counts that process out, or in again. Out, and with its link down, it will not answer any more.
    Member {
        /// The process.
        node: NodeKey,
        /// Whether it has a session.
        present: bool,
    },
    /// The link to that process takes messages again, as [`LaneHost::can_transmit`] said it did not.
    Room(NodeKey),
}

impl Order {
    /// The shard it concerns, if it concerns one.
    #[must_use]
    pub const fn shard(&self) -> Option<ShardId> {
        match self {
            Self::Own { shard, .. } | Self::Drain { shard, .. } | Self::Home { shard, .. } => Some(*shard),
            Self::Live { .. }
            | Self::Halt
            | Self::Refused
            | Self::PeerGone(_)
            | Self::Link { .. }
            | Self::Member { .. }
            | Self::Room(_) => None,
        }
    }
}

impl<M> Lane<M> {
    /// Obeys control.
    pub fn order(&mut self, now: Instant, order: Order, host: &mut impl LaneHost<M>) {
        match order {
            Order::Own { shard, token } => self.own(now, shard, token, host),
            Order::Drain { shard, token, deadline, leaving } => {
                let why = if leaving { StopReason::NodeLeaving } else { StopReason::Handoff };
                self.drain(now, shard, token, (deadline, why), host);
            }
            Order::Live { until } => {
                if !self.halting {
                    self.live_until = until;
                    self.resume(now, host);
                }
            }
            Order::Halt => self.halt(now, host),
            Order::Refused => self.abandon_streams(now, host),
            Order::Home { shard, home } => self.home(now, shard, home, host),
            Order::PeerGone(node) => {
                self.last_refusal = None;
                self.peer_gone(now, node, host);
            }
            Order::Link { node, up } => {
                self.last_refusal = None;
                self.link(now, node, up, host);
            }
            Order::Member { node, present } => self.member(now, node, present, host),
            Order::Room(node) => self.room(now, node, host),
        }
        self.admit(now, host);
    }

    fn own(&mut self, now: Instant, shard: ShardId, token: Token, host: &mut impl LaneHost<M>) {
        let at = self.local(shard);
        if self.halting || self.shards[at].tenure.as_ref().is_some_and(|tenure| tenure.token >= token) {
            return;
        }
        debug_assert!(self.shards[at].tenure.is_none(), "a shard is granted anew only after its drop");
        self.shards[at].tenure = Some(Tenure {
            token,
            drain: None,
            activations: 0,
            incoming: Incoming::new(self.config.stream.clone(), token),
        });
        self.meter_owned(now, at);
        host.owned(shard, token);
        self.refresh_direct(at);
        if self.shards[at].outgoing.is_some() {
            // Older mail of this node may still be with the former owner: its stream decides when it may come here. The
            // former owner's `Closed` is on its way if it dropped the shard; the coordinator's word says if it did not. And
            // a stream that keeps nothing must not go on to a former owner with what comes while this tenure drains.
            let home = Home { node: self.config.me, token, closed: true };
            self.home(now, shard, Some(home), host);
        }
    }

    fn drain(
        &mut self,
        now: Instant,
        shard: ShardId,
        token: Token,
        (deadline, why): (Instant, StopReason),
        host: &mut impl LaneHost<M>,
    ) {
        let at = self.local(shard);
        let Some(tenure) = self.shards[at].tenure.as_mut() else { return };
        if tenure.token != token || tenure.drain.is_some() || self.halting {
            return;
        }
        tenure.drain = Some(why);
        tenure.incoming.drain();
        self.drains.set(u32::try_from(at).unwrap_or(u32::MAX), Some(deadline));
        self.refresh_direct(at);
        if !self.config.rules.on(Rule::DropBarrier) {
            host.dropped(shard, token);
        }
        for slot in self.residents.of_shard(shard) {
            self.end_life(now, slot, Some(why), host);
        }
        self.after_burial(now, shard, host);
    }

    pub(super) fn force_drains(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        while let Some(at) = self.drains.pop_due(now) {
            let at = at as usize;
            let shard = self.global(at);
            self.forced(shard, host);
            for slot in self.residents.of_shard(shard) {
                self.end_life(now, slot, None, host);
            }
            self.after_burial(now, shard, host);
        }
    }

    fn halt(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        self.live_until = Instant::ZERO;
        self.halting = true;
        for at in 0..self.shards.len() {
            // Those with an entry wait for the `Closed` that follows (D7): it says which of their messages were taken.
            if let Some(tenure) = &mut self.shards[at].tenure {
                tenure.incoming.drain();
            }
            self.refresh_direct(at);
        }
        for at in 0..self.shards.len() {
            for slot in self.residents.of_shard(self.global(at)) {
                self.end_life(now, slot, None, host);
            }
        }
        self.after_halt(now, host);
    }

    /// Begins the end of one life: a planned one runs the last hook, an unplanned one drops all at once.
    fn end_life(&mut self, now: Instant, slot: Slot, planned: Option<StopReason>, host: &mut impl LaneHost<M>) {
        let Some(phase) = self.residents.get(slot).map(|resident| resident.phase) else { return };
        match (phase, planned) {
            (Phase::Idle, Some(why)) => self.stop(now, slot, why, host),
            (Phase::Idle, None) => {
                host.discard(slot);
                self.bury(now, slot, host);
            }
            (Phase::Resting, _) => self.bury(now, slot, host),
            (_, Some(_)) => {} // its hook or handler ends by itself, or by force at the deadline
            (_, None) => host.cancel(slot),
        }
    }

    /// A life of the shard ended: perhaps it was the last that an ending tenure waited for.
    pub(super) fn after_burial(&mut self, now: Instant, shard: ShardId, host: &mut impl LaneHost<M>) {
        if self.halting {
            return self.after_halt(now, host);
        }
        let at = self.local(shard);
        let state = &self.shards[at];
        let Some(tenure) = &state.tenure else { return };
        if tenure.drain.is_some() && state.residents == 0 {
            let token = tenure.token;
            self.end_tenure(now, at, false, host);
            if self.config.rules.on(Rule::DropBarrier) {
                host.dropped(shard, token);
            }
        }
    }

    fn after_halt(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        if !self.halting || !self.residents.is_empty() {
            return;
        }
        self.halting = false;
        self.stalled.clear();
        self.timers.clear();
        for at in 0..self.shards.len() {
            self.end_tenure(now, at, true, host);
        }
        host.halted();
    }

    /// The end of a tenure (D5): say what was taken, then let this node's own mail look for the next owner.
    fn end_tenure(&mut self, now: Instant, at: usize, lapsed: bool, host: &mut impl LaneHost<M>) {
        let shard = self.global(at);
        let key = self.key(shard);
        let place = u32::try_from(at).unwrap_or(u32::MAX);
        self.unflushed.remove(&place);
        self.drains.set(place, None);
        if let Some(tenure) = self.shards[at].tenure.take() {
            let token = tenure.token;
            tenure.incoming.close(lapsed, &mut |output| {
                if let IncomingOutput::Closed { to, upto, beyond } = output {
                    host.receipt(to, Receipt::Closed { key, token, upto, beyond: &beyond });
                }
            });
            host.lost(shard);
        }
        self.refresh_direct(at);
        self.give_back(now, at, host);
    }
}
