//! How mail of this node's callers leaves for other nodes, and how it comes back when a tenure here ends.
//!
//! Each shard that is not served here has one [`Outgoing`] stream, made when it is first needed. The stream keeps every
//! message until its fate is known and says by number what shall happen; this file looks the numbers up and does it.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;

use super::{DataHead, Lane, LaneHost, Tell};
use crate::collections::EntityId;
use crate::entity::{Bound, Fate, Reason};
use crate::id::{NodeKey, ShardId, Token};
use crate::machine::{Machine, Notice};
use crate::region::stream::{self, GivenBack, Outgoing, OutgoingInput, OutgoingOutput};
use crate::shard::{Mail, Origin};
use crate::time::Instant;
use crate::wire::Home;

/// Mail that an ending tenure gave back.
pub(super) type Returned<M> = GivenBack<EntityId, M>;

/// Keeps the mail of local callers out of a life that ended; mail of streams is still kept by its sender.
pub(super) fn keep_returned<M>(
    returned: &mut Vec<Returned<M>>,
    id: &EntityId,
    mail: Mail<M>,
    host: &mut impl LaneHost<M>,
) {
    match mail.origin {
        Origin::Here { ask, deadline } => {
            returned.push(GivenBack { entity: id.clone(), body: mail.message, ask, bytes: 0, deadline });
        }
        Origin::Stream { .. } => host.withdraw(mail.message),
        Origin::Timer => {}
    }
}

/// What speaks against hearing from a process again.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Their links are down.
    unreachable: BTreeSet<NodeKey>,
    /// They have no session.
    absent: BTreeSet<NodeKey>,
}

impl Doubts {
    /// Of each kind. Whoever is forgotten is merely waited for until the question's deadline.
    const MAX: usize = 4_096;

    /// True: now both speak against it.
    fn link(&mut self, node: NodeKey, up: bool) -> bool {
        Self::note(&mut self.unreachable, node, !up) && self.absent.contains(&node)
    }

    /// True: now both speak against it.
    fn member(&mut self, node: NodeKey, present: bool) -> bool {
        Self::note(&mut self.absent, node, !present) && self.unreachable.contains(&node)
    }

    fn forget(&mut self, node: NodeKey) {
        self.unreachable.remove(&node);
        self.absent.remove(&node);
    }

    fn note(set: &mut BTreeSet<NodeKey>, node: NodeKey, doubted: bool) -> bool {
        if !doubted {
            set.remove(&node);
        } else if set.len() < Self::MAX {
            set.insert(node);
        }
        doubted
    }
}

impl<M> Lane<M> {
    /// A message for a shard that is not served here, or behind others that are parked for it.
    pub(super) fn depart(&mut self, now: Instant, tell: Tell<'_, M>, host: &mut impl LaneHost<M>) {
        let Tell { id, shard, message, ask, deadline, .. } = tell;
        let id = EntityId::from(id);
        let bytes = match host.weigh(&id, &message) {
            Ok(bytes) => bytes as usize,
            Err(reason) => return host.undelivered(&id, message, Fate::NotRun(reason)),
        };
        let at = self.local(shard);
        let mut outputs = mem::take(&mut self.scratch);
        let refused = self.outgoing(at).push(now, id, message, bytes, ask, deadline, &mut outputs).err();
        self.obey(now, at, outputs, host);
        if let Some(full) = refused {
            let bound = match full.bound {
                stream::Bound::Messages | stream::Bound::Bytes => Bound::Shard,
                stream::Bound::Asks => Bound::Asks,
            };
            host.undelivered(&full.entity, full.body, Fate::NotRun(Reason::Full(bound)));
        }
    }

    /// D4, at the sender.
    pub fn taken(
        &mut self,
        now: Instant,
        from: NodeKey,
        shard: ShardId,
        token: Token,
        upto: u64,
        host: &mut impl LaneHost<M>,
    ) {
        self.hear(now, shard, OutgoingInput::Taken { from, token, upto }, host);
    }

    /// D6.
    #[expect(clippy::too_many_arguments, reason = "they are the frame")]
    pub fn closed(
        &mut self,
        now: Instant,
        from: NodeKey,
        shard: ShardId,
        token: Token,
        upto: u64,
        beyond: &[u64],
        host: &mut impl LaneHost<M>,
    ) {
        self.hear(now, shard, OutgoingInput::Closed { from, token, upto, beyond: beyond.to_vec() }, host);
    }

    /// D7.
    #[expect(clippy::too_many_arguments, reason = "they are the frame")]
    pub fn refused(
        &mut self,
        now: Instant,
        from: NodeKey,
        shard: ShardId,
        token: Token,
        attempt: u32,
        draining: bool,
        hint: Option<(NodeKey, Token)>,
        host: &mut impl LaneHost<M>,
    ) {
        self.hear(now, shard, OutgoingInput::Refuse { from, token, attempt, draining, hint }, host);
    }

    /// The owner took the message but could not give it to its entity.
    pub fn rejected(&mut self, from: NodeKey, shard: ShardId, seq: u64, reason: Reason, host: &mut impl LaneHost<M>) {
        let at = self.local(shard);
        if let Some(entry) = self.shards[at].outgoing.as_mut().and_then(|outgoing| outgoing.answered(from, seq)) {
            host.undelivered(&entry.entity, entry.body, Fate::NotRun(reason));
        }
        self.settle_stream(at);
    }

    /// The owner answered the ask with number `seq`: here is the question, to be completed by the host; `None` if nobody
    /// waits for it any more.
    pub fn replied(&mut self, from: NodeKey, shard: ShardId, seq: u64) -> Option<M> {
        let at = self.local(shard);
        let entry = self.shards[at].outgoing.as_mut().and_then(|outgoing| outgoing.answered(from, seq));
        self.settle_stream(at);
        entry.map(|entry| entry.body)
    }

    pub(super) fn home(&mut self, now: Instant, shard: ShardId, home: Option<Home>, host: &mut impl LaneHost<M>) {
        // Word of a former home, on its way since before this node was granted the shard.
        let former = |home: &Home| {
            let tenure = self.shards[self.local(shard)].tenure.as_ref();
            tenure.is_some_and(|tenure| home.token < tenure.token)
        };
        if let Some(home) = home.filter(|home| !former(home)) {
            self.hear(now, shard, OutgoingInput::Home(home), host);
        }
    }

    pub(super) fn peer_gone(&mut self, now: Instant, node: NodeKey, host: &mut impl LaneHost<M>) {
        for at in 0..self.shards.len() {
            if let Some(tenure) = &mut self.shards[at].tenure {
                tenure.incoming.peer_gone(node);
            }
            self.hear_at(now, at, OutgoingInput::PeerGone { node }, host);
        }
        self.doubts.forget(node);
    }

    pub(super) fn link(&mut self, now: Instant, node: NodeKey, up: bool, host: &mut impl LaneHost<M>) {
        for at in 0..self.shards.len() {
            let input = if up { OutgoingInput::LinkUp { node } } else { OutgoingInput::LinkDown { node } };
            self.hear_at(now, at, input, host);
        }
        if self.doubts.link(node, up) {
            self.lost(now, node, host);
        }
    }

    pub(super) fn member(&mut self, now: Instant, node: NodeKey, present: bool, host: &mut impl LaneHost<M>) {
        let awaits = |state: &super::ShardState<M>| state.outgoing.as_ref().is_some_and(|stream| stream.awaits(node));
        if self.doubts.member(node, present) {
            self.lost(now, node, host);
        } else if !present && self.shards.iter().any(awaits) {
            // Nothing may be left to be written to it, and then nobody would notice that its link is down: ask for it.
            let _ = host.can_transmit(node);
        }
    }

    /// A process without a session whose link is down: what it took and has not answered is not waited for. It may live
    /// still, so its link is not given up.
    fn lost(&mut self, now: Instant, node: NodeKey, host: &mut impl LaneHost<M>) {
        for at in 0..self.shards.len() {
            self.hear_at(now, at, OutgoingInput::Lost { node }, host);
        }
    }

    pub(super) fn room(&mut self, now: Instant, node: NodeKey, host: &mut impl LaneHost<M>) {
        for at in 0..self.shards.len() {
            if self.shards[at].outgoing.as_ref().is_some_and(|outgoing| outgoing.home() == Some(node)) {
                self.hear_at(now, at, OutgoingInput::Room, host);
            }
        }
    }

    /// The end of a tenure here: what was not taken goes back to the front of the shard's stream, which looks for the next
    /// owner.
    pub(super) fn give_back(&mut self, now: Instant, at: usize, host: &mut impl LaneHost<M>) {
        let returned = mem::take(&mut self.shards[at].returned);
        if returned.is_empty() && self.shards[at].outgoing.is_none() {
            return;
        }
        let mut travels = Vec::with_capacity(returned.len());
        for mut mail in returned {
            match host.weigh(&mail.entity, &mail.body) {
                Ok(bytes) => {
                    mail.bytes = bytes as usize;
                    travels.push(mail);
                }
                // It could be told to an entity here, but no link would carry it: a frame that every reader refuses would
                // be sent again for ever.
                Err(reason) => host.undelivered(&mail.entity, mail.body, Fate::NotRun(reason)),
            }
        }
        let mut outputs = mem::take(&mut self.scratch);
        self.outgoing(at).give_back(now, travels, &mut outputs);
        self.obey(now, at, outputs, host);
    }

    pub(super) fn expire_streams(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        let due: Vec<u32> = core::iter::from_fn(|| self.streams.pop_due(now)).collect();
        for at in due {
            let at = at as usize;
            if let Some(outgoing) = &mut self.shards[at].outgoing {
                let mut outputs = mem::take(&mut self.scratch);
                outgoing.expire(now, &mut outputs);
                self.obey(now, at, outputs, host);
            }
        }
    }

    /// The host is about to end: whatever runs is dropped, and every message of this node's callers that no handler took
    /// gets its last fate.
    pub fn abandon(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        self.live_until = Instant::ZERO;
        self.halting = true;
        for at in 0..self.shards.len() {
            for slot in self.residents.of_shard(self.global(at)) {
                host.cancel(slot);
                self.bury(now, slot, host);
            }
            for mail in mem::take(&mut self.shards[at].returned) {
                host.undelivered(&mail.entity, mail.body, Fate::NotRun(Reason::Stopping));
            }
        }
        self.abandon_streams(now, host);
    }

    /// Everything that is kept for other nodes gets its last fate.
    pub(super) fn abandon_streams(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        for at in 0..self.shards.len() {
            if let Some(outgoing) = &mut self.shards[at].outgoing {
                let mut outputs = mem::take(&mut self.scratch);
                outgoing.abandon(&mut outputs);
                self.obey(now, at, outputs, host);
            }
        }
    }

    /// Messages of this node's callers that are kept in streams, over all shards.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.shards.iter().filter_map(|state| state.outgoing.as_ref()).map(|outgoing| outgoing.len()).sum()
    }

    fn outgoing(&mut self, at: usize) -> &mut Outgoing<EntityId, M> {
        let (config, me) = (&self.config.stream, self.config.me);
        self.shards[at].outgoing.get_or_insert_with(|| Box::new(Outgoing::new(config.clone(), me)))
    }

    fn hear(&mut self, now: Instant, shard: ShardId, input: OutgoingInput, host: &mut impl LaneHost<M>) {
        self.hear_at(now, self.local(shard), input, host);
    }

    fn hear_at(&mut self, now: Instant, at: usize, input: OutgoingInput, host: &mut impl LaneHost<M>) {
        let Some(outgoing) = &mut self.shards[at].outgoing else { return };
        let mut outputs = mem::take(&mut self.scratch);
        outgoing.handle(now, input, &mut outputs);
        self.obey(now, at, outputs, host);
    }

    /// Does what a stream ordered.
    fn obey(&mut self, now: Instant, at: usize, mut outputs: Vec<OutgoingOutput>, host: &mut impl LaneHost<M>) {
        let shard = self.global(at);
        let key = self.key(shard);
        for output in outputs.drain(..) {
            match output {
                OutgoingOutput::Transmit { to, attempt, seq, .. } if !host.can_transmit(to) => {
                    if let Some(outgoing) = &mut self.shards[at].outgoing {
                        outgoing.handle(now, OutgoingInput::Held { attempt, seq }, &mut |_| {});
                    }
                }
                OutgoingOutput::Transmit { to, token, attempt, seq, first } => {
                    if let Some(outgoing) = &self.shards[at].outgoing
                        && outgoing.is_sent(seq)
                        && let Some(entry) = outgoing.message(seq)
                    {
                        let head = DataHead { key, token, attempt, seq, first, ask: entry.ask };
                        host.transmit(to, head, &entry.entity, &entry.body);
                    }
                }
                OutgoingOutput::Lookup => host.lookup(shard),
                OutgoingOutput::OpenLocal { token } => self.open_local(now, at, token, host),
                OutgoingOutput::InDoubt { seq } | OutgoingOutput::Overdue { seq } => {
                    self.fate(at, seq, Fate::InDoubt, host);
                }
                OutgoingOutput::Unavailable { seq } => {
                    self.fate(at, seq, Fate::NotRun(Reason::Unavailable), host);
                }
                OutgoingOutput::Expired { seq } => self.fate(at, seq, Fate::NotRun(Reason::Expired), host),
            }
        }
        self.scratch = outputs;
        self.settle_stream(at);
    }

    /// This node is the home: what is parked goes to its entities, in order, unless the tenure is ending or over.
    fn open_local(&mut self, now: Instant, at: usize, token: Token, host: &mut impl LaneHost<M>) {
        let shard = self.global(at);
        let serves = match &self.shards[at].tenure {
            Some(tenure) if tenure.token == token => {
                if tenure.drain.is_some() || self.halting {
                    return; // its end gives the stream back
                }
                true
            }
            _ => false,
        };
        if !serves {
            let mut outputs = Vec::new();
            if let Some(outgoing) = &mut self.shards[at].outgoing {
                outgoing.refuse_local(now, &mut outputs);
            }
            if !outputs.is_empty() {
                self.obey(now, at, outputs, host);
            }
            return;
        }
        while let Some(entry) = self.shards[at].outgoing.as_mut().and_then(|outgoing| outgoing.pop_front()) {
            let hash = crate::hash::entity(entry.entity.as_str());
            let origin = Origin::Here { ask: entry.ask, deadline: entry.deadline };
            let mail = Mail { origin, message: entry.body };
            self.deliver(now, shard, hash, entry.entity.as_str(), mail, host);
        }
    }

    fn fate(&mut self, at: usize, seq: u64, fate: Fate, host: &mut impl LaneHost<M>) {
        match self.shards[at].outgoing.as_mut().and_then(|outgoing| outgoing.take(seq)) {
            Some(entry) => host.undelivered(&entry.entity, entry.body, fate),
            None => host.notice(Notice::BoundHit { what: "a fate told twice" }),
        }
    }

    /// After every change of a stream: is the fast door open, and is there a deadline?
    fn settle_stream(&mut self, at: usize) {
        let index = u32::try_from(at).unwrap_or(u32::MAX);
        let deadline = self.shards[at].outgoing.as_ref().and_then(|outgoing| outgoing.deadline());
        self.streams.set(index, deadline);
        self.refresh_direct(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Incarnation, NodeId};

    #[test]
    fn a_process_is_lost_when_both_speak_against_it_in_either_order() {
        let node = |id| NodeKey { id: NodeId(id), incarnation: Incarnation(1) };
        let mut doubts = Doubts::default();
        assert!(!doubts.link(node(1), false) && doubts.member(node(1), false));
        assert!(!doubts.member(node(2), false) && doubts.link(node(2), false));
        assert!(!doubts.link(node(1), true) && !doubts.member(node(1), false), "it can be reached");
        assert!(doubts.link(node(1), false), "again");
        assert!(!doubts.member(node(1), true) && !doubts.link(node(1), false), "it is in the cluster");
        doubts.forget(node(2));
        assert!(!doubts.link(node(2), false));
    }
}
