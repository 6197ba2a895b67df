//! What a lane orders, written down: the cluster does it once the lane is no longer borrowed.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::event::Frame;
use super::links::{BYTES, Links};
use super::model::{Asker, Message};
use crate::collections::EntityId;
use crate::entity::{Fate, Reason, StopReason};
use crate::id::{NodeKey, ShardId, Slot, Token};
use crate::machine::Notice;
use crate::passivation::Pool;
use crate::region::lane::{DataHead, LaneHost, Life, Receipt};
use crate::wire::Stream;
use crate::wire::link::LinkSender;

#[derive(Debug)]
pub(super) enum Effect {
    Start(Slot, Life),
    Run(Slot, Message),
    Stop(Slot, StopReason),
    Cancel(Slot),
    Discard(Slot),
    Send(NodeKey, Frame),
    Lookup(ShardId),
    Undelivered(Message, Fate),
    Owned(ShardId),
    Lost(ShardId),
    Dropped(ShardId, Token),
    Loads(Vec<(ShardId, u32)>),
    Halted,
    Notice(Notice),
}

/// The host of every lane of one process.
pub(super) struct Hands<'a> {
    pub(super) me: NodeKey,
    pub(super) effects: &'a mut Vec<Effect>,
    /// The node's limit of entities awake, if it has one.
    pub(super) pool: Option<&'a mut Pool>,
    pub(super) links: &'a Links,
    /// Processes whose links had no room.
    pub(super) crowded: &'a mut BTreeSet<NodeKey>,
    /// A link's bound.
    pub(super) bytes_max: usize,
}

impl Hands<'_> {
    /// What this call has put on the link to that process already.
    fn pending(&self, node: NodeKey) -> usize {
        let to_it = |effect: &&Effect| matches!(effect, Effect::Send(to, Stream::Data { .. }) if *to == node);
        self.effects.iter().filter(to_it).count() * BYTES
    }
}

impl LaneHost<Message> for Hands<'_> {
    fn start(&mut self, slot: Slot, life: Life) {
        self.effects.push(Effect::Start(slot, life));
    }

    fn run(&mut self, slot: Slot, message: Message) {
        self.effects.push(Effect::Run(slot, message));
    }

    fn stop(&mut self, slot: Slot, why: StopReason) {
        self.effects.push(Effect::Stop(slot, why));
    }

    fn cancel(&mut self, slot: Slot) {
        self.effects.push(Effect::Cancel(slot));
    }

    fn discard(&mut self, slot: Slot) {
        self.effects.push(Effect::Discard(slot));
    }

    fn weigh(&mut self, _: &EntityId, _: &Message) -> Result<u32, Reason> {
        Ok(100)
    }

    fn can_transmit(&mut self, to: NodeKey) -> bool {
        let bytes = self.links.senders.get(&to).map_or(0, LinkSender::bytes) + self.pending(to);
        let room = bytes == 0 || bytes + BYTES <= self.bytes_max;
        if !room {
            self.crowded.insert(to);
        }
        room
    }

    fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &Message) {
        let DataHead { key, token, attempt, seq, first, ask } = head;
        let asker = if ask { Asker::There { from: self.me, shard: key.shard, seq } } else { Asker::Nobody };
        let body = Message { index: body.index, asker };
        let frame = Stream::Data { key, token, attempt, seq, first, ask, entity: String::from(id.as_str()), body };
        self.effects.push(Effect::Send(to, frame));
    }

    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>) {
        let frame = match receipt {
            Receipt::Taken { key, token, upto } => Stream::Taken { key, token, upto },
            Receipt::Closed { key, token, upto, beyond } => {
                Stream::Closed { key, token, upto, beyond: beyond.to_vec() }
            }
            Receipt::Refuse { key, token, attempt, draining, hint } => {
                Stream::Refuse { key, token, attempt, draining, hint }
            }
            Receipt::Rejected { key, token, seq, reason } => {
                let (reason, tag) = reason.to_wire();
                Stream::Rejected { key, token, seq, reason, tag }
            }
        };
        self.effects.push(Effect::Send(to, frame));
    }

    fn lookup(&mut self, shard: ShardId) {
        self.effects.push(Effect::Lookup(shard));
    }

    fn undelivered(&mut self, _: &EntityId, message: Message, fate: Fate) {
        self.effects.push(Effect::Undelivered(message, fate));
    }

    fn owned(&mut self, shard: ShardId, _: Token) {
        self.effects.push(Effect::Owned(shard));
    }

    fn lost(&mut self, shard: ShardId) {
        self.effects.push(Effect::Lost(shard));
    }

    fn dropped(&mut self, shard: ShardId, token: Token) {
        self.effects.push(Effect::Dropped(shard, token));
    }

    fn loads(&mut self, loads: &[(ShardId, u32)]) {
        self.effects.push(Effect::Loads(loads.to_vec()));
    }

    fn halted(&mut self) {
        self.effects.push(Effect::Halted);
    }

    fn pool<R>(&mut self, look: impl FnOnce(&mut Pool) -> R) -> Option<R> {
        self.pool.as_deref_mut().map(look)
    }

    fn notice(&mut self, notice: Notice) {
        self.effects.push(Effect::Notice(notice));
    }
}
