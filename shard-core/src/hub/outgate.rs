//! How a lane's orders leave it: to other nodes' lanes, to control, to listeners.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::vec::Vec;

use super::clock;
use super::events::Event;
use super::peers::{BODY_MAX, Peer};
use super::region::Region;
use super::shared::{Shared, count};
use crate::collections::EntityId;
use crate::entity::{Fate, NoReply, Reason, Wire};
use crate::id::{NodeKey, ShardId, ShardKey, Token};
use crate::machine::Notice;
use crate::node;
use crate::region::lane::{DataHead, Receipt};
use crate::wire::{Stream, codec};

/// The common part of every lane's host.
pub(super) struct Outgate<M> {
    pub(super) shared: Arc<Shared>,
    pub(super) region: Arc<Region<M>>,
    pub(super) lane: u32,
    /// Peers written to of late.
    known: Vec<(NodeKey, Arc<Peer>)>,
    scratch: Vec<u8>,
    /// Counted here and handed on once per batch, so that lanes do not fight for a cache line.
    pub(super) handled: u64,
    pub(super) sent: u64,
    /// Handlers are measured one by one for a while.
    pub(super) watch: bool,
    /// Shards whose streams changed without a message of a caller.
    pub(super) changed: Vec<ShardId>,
    message: PhantomData<M>,
}

/// Peers kept at hand.
const KNOWN: usize = 16;

impl<M: Wire> Outgate<M> {
    pub(super) fn new(shared: Arc<Shared>, region: Arc<Region<M>>, lane: u32) -> Self {
        Self {
            shared,
            region,
            lane,
            known: Vec::new(),
            scratch: Vec::new(),
            handled: 0,
            sent: 0,
            watch: false,
            changed: Vec::new(),
            message: PhantomData,
        }
    }

    pub(super) fn peer(&mut self, node: NodeKey) -> &Arc<Peer> {
        let at = match self.known.iter().position(|(known, _)| *known == node) {
            Some(at) => at,
            None => {
                if self.known.len() >= KNOWN {
                    self.known.remove(0);
                }
                self.known.push((node, self.shared.peers.of(node.id)));
                self.known.len() - 1
            }
        };
        &self.known[at].1
    }

    /// How long the message is on the wire, or why it cannot go there.
    pub(super) fn weigh(&mut self, id: &EntityId, message: &M) -> Result<u32, Reason> {
        self.scratch.clear();
        let scratch = &mut self.scratch;
        // `Serialize` is the user's code: a panic in it must not take the lane down.
        if catch_unwind(AssertUnwindSafe(|| message.encode(scratch))).is_err() {
            return Err(Reason::Garbled { tag: message.tag() });
        }
        // An id is the user's part of the frame as well, and may be long.
        let bytes = u32::try_from(self.scratch.len() + id.as_str().len()).unwrap_or(u32::MAX);
        let limit = BODY_MAX;
        if bytes > limit { Err(Reason::TooLarge { bytes, limit }) } else { Ok(bytes) }
    }

    pub(super) fn can_transmit(&mut self, to: NodeKey) -> bool {
        let peer = self.peer(to);
        if peer.takes(to) {
            return true;
        }
        let peer = Arc::clone(peer);
        self.shared.peers.poke(&peer);
        false
    }

    pub(super) fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &M) {
        self.sent += 1;
        let peer = Arc::clone(self.peer(to));
        peer.bulk(to, |out| {
            let DataHead { key, token, attempt, seq, first, ask } = head;
            let entity = id.as_str();
            let head = codec::DataHead { key, token, attempt, seq, first, ask, entity, tag: body.tag() };
            codec::encode_data_head(out, &head);
            body.encode(out);
        });
    }

    pub(super) fn receipt(&mut self, to: NodeKey, receipt: &Receipt<'_>) {
        let peer = Arc::clone(self.peer(to));
        let message = match *receipt {
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
        peer.bulk(to, |out| codec::encode(out, &message));
    }

    /// Hands on what was counted.
    pub(super) fn settle_counts(&mut self) {
        if self.handled > 0 {
            count(&self.shared.tallies.handled, std::mem::take(&mut self.handled));
        }
        if self.sent > 0 {
            count(&self.shared.tallies.sent, std::mem::take(&mut self.sent));
        }
    }

    pub(super) fn lookup(&mut self, shard: ShardId) {
        self.changed.push(shard);
        self.shared.input(node::Input::Lookup { key: self.key(shard) });
    }

    pub(super) fn undelivered(&mut self, id: &EntityId, message: M, fate: Fate) {
        let tally = match fate {
            Fate::NotRun(_) => &self.shared.tallies.not_run,
            Fate::InDoubt => &self.shared.tallies.in_doubt,
        };
        count(tally, 1);
        let tag = message.tag();
        if message.is_ask() {
            // The asker learns it from its own future.
            return match fate {
                Fate::NotRun(reason) => message.refuse(reason),
                Fate::InDoubt => message.complete(Err(NoReply::Disconnected)),
            };
        }
        self.shared.emit(Event::Undelivered { entity_type: self.region.name, id: id.clone(), tag, fate });
    }

    pub(super) fn dropped(&mut self, shard: ShardId, token: Token) {
        self.shared.input(node::Input::Dropped { key: self.key(shard), token });
    }

    pub(super) fn shard_lost(&mut self, shard: ShardId) {
        self.changed.push(shard);
        count(&self.shared.tallies.shards_lost, 1);
        let kind = self.region.kind;
        self.shared.stand(|standing| *standing.shards.entry(kind).or_insert(1) -= 1);
        self.shared.emit(Event::ShardLost { entity_type: self.region.name, shard });
    }

    pub(super) fn shard_gained(&mut self, shard: ShardId, token: Token) {
        count(&self.shared.tallies.shards_gained, 1);
        let kind = self.region.kind;
        self.shared.stand(|standing| *standing.shards.entry(kind).or_insert(0) += 1);
        self.shared.emit(Event::ShardGained { entity_type: self.region.name, shard, token });
    }

    pub(super) fn loads(&mut self, loads: &[(ShardId, u32)]) {
        let kind = self.region.kind;
        self.shared.input(node::Input::Loads { kind, loads: loads.to_vec() });
        let observed = self.region.observed.as_ref();
        if let Some(traffic) = observed.and_then(|observed| observed.report(clock::now(), kind)) {
            self.shared.input(node::Input::Traffic(traffic));
        }
    }

    pub(super) fn halted(&mut self) {
        self.shared.input(node::Input::Halted { kind: self.region.kind, lane: self.lane });
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.shared.emit(Event::Notice(notice));
    }

    fn key(&self, shard: ShardId) -> ShardKey {
        ShardKey { kind: self.region.kind, shard }
    }
}
