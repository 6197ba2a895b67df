//! One entity type of a driver: its lanes, and what they see of the rest.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::{Event, Host, Seat};
use crate::entity::{EntityId, Fate, Reason, StopReason};
use crate::hash::{self, ShardHash};
use crate::id::{Kind, NodeKey, ShardId, ShardKey, Slot, Token};
use crate::machine::Notice;
use crate::node::Input;
use crate::passivation::Pool;
use crate::region::lane::{DataHead, Lane, LaneHost, Life, Receipt};

/// One type.
#[derive(Debug)]
pub(super) struct Region<M> {
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    pub(super) shards: NonZeroU32,
    pub(super) hash: ShardHash,
    pub(super) lanes: Vec<Lane<M>>,
    /// What of the limit is whose, if there is one.
    pub(super) pool: Option<Pool>,
}

impl<M> Region<M> {
    /// Hash, shard and lane of an id.
    #[inline]
    pub(super) fn place(&self, id: &str) -> (u64, ShardId, u32) {
        let hash = hash::entity(id);
        let shard = self.hash.shard_hashed(id, hash, self.shards);
        (hash, shard, self.lane_of(shard))
    }

    #[inline]
    pub(super) fn lane_of(&self, shard: ShardId) -> u32 {
        match self.lanes.len() {
            1 => 0,
            lanes => shard.0 % lanes as u32,
        }
    }

    pub(super) fn each_lane<H: Host<M> + ?Sized>(
        &mut self,
        inbox: &mut VecDeque<Input>,
        host: &mut H,
        mut call: impl FnMut(&mut Lane<M>, &mut Stage<'_, H>),
    ) {
        let Self { kind, lanes, pool, .. } = self;
        for (lane, core) in (0..).zip(lanes) {
            call(core, &mut Stage { kind: *kind, lane, host, inbox, pool: pool.as_mut() });
        }
    }
}

/// What a lane sees of the driver: effects go on to the host, answers for control wait in the inbox.
pub(super) struct Stage<'a, H: ?Sized> {
    pub(super) kind: Kind,
    pub(super) lane: u32,
    pub(super) host: &'a mut H,
    pub(super) inbox: &'a mut VecDeque<Input>,
    pub(super) pool: Option<&'a mut Pool>,
}

impl<H: ?Sized> Stage<'_, H> {
    #[inline]
    fn seat(&self, slot: Slot) -> Seat {
        Seat { kind: self.kind, lane: self.lane, slot }
    }

    fn key(&self, shard: ShardId) -> ShardKey {
        ShardKey { kind: self.kind, shard }
    }
}

impl<M, H: Host<M> + ?Sized> LaneHost<M> for Stage<'_, H> {
    fn start(&mut self, slot: Slot, life: Life) {
        self.host.start(self.seat(slot), life);
    }

    fn run(&mut self, slot: Slot, message: M) {
        self.host.run(self.seat(slot), message);
    }

    fn stop(&mut self, slot: Slot, why: StopReason) {
        self.host.stop(self.seat(slot), why);
    }

    fn cancel(&mut self, slot: Slot) {
        self.host.cancel(self.seat(slot));
    }

    fn discard(&mut self, slot: Slot) {
        self.host.discard(self.seat(slot));
    }

    fn weigh(&mut self, _: &EntityId, message: &M) -> Result<u32, Reason> {
        self.host.weigh(self.kind, message)
    }

    fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &M) {
        self.host.transmit(to, head, id, body);
    }

    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>) {
        self.host.receipt(to, receipt);
    }

    fn lookup(&mut self, shard: ShardId) {
        self.inbox.push_back(Input::Lookup { key: self.key(shard) });
    }

    fn undelivered(&mut self, id: &EntityId, message: M, fate: Fate) {
        self.host.undelivered(self.kind, id, message, fate);
    }

    fn withdraw(&mut self, message: M) {
        self.host.withdraw(message);
    }

    fn owned(&mut self, shard: ShardId, token: Token) {
        self.host.event(Event::Owned { key: self.key(shard), token });
    }

    fn lost(&mut self, shard: ShardId) {
        self.host.event(Event::Lost { key: self.key(shard) });
    }

    fn dropped(&mut self, shard: ShardId, token: Token) {
        self.inbox.push_back(Input::Dropped { key: self.key(shard), token });
    }

    fn loads(&mut self, loads: &[(ShardId, u32)]) {
        self.inbox.push_back(Input::Loads { kind: self.kind, loads: loads.to_vec() });
    }

    fn halted(&mut self) {
        self.inbox.push_back(Input::Halted { kind: self.kind, lane: self.lane });
    }

    fn pool<R>(&mut self, look: impl FnOnce(&mut Pool) -> R) -> Option<R> {
        self.pool.as_deref_mut().map(look)
    }

    fn notice(&mut self, notice: Notice) {
        self.host.event(Event::Notice(notice));
    }
}
