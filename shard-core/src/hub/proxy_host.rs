//! The host of a lane whose type this node only sends to: it never owns a shard, so nothing ever runs.

use super::entity_host::{Owed, Ran};
use super::lane::Turns;
use super::outgate::Outgate;
use crate::collections::EntityId;
use crate::entity::{Fate, Reason, StopReason, Wire};
use crate::id::{NodeKey, ShardId, Slot, Token};
use crate::machine::Notice;
use crate::region::lane::{DataHead, LaneHost, Life, Next, Receipt};

pub(super) struct ProxyHost<M> {
    pub(super) out: Outgate<M>,
}

impl<M: Wire> LaneHost<M> for ProxyHost<M> {
    fn start(&mut self, _: Slot, _: Life) {
        self.never();
    }

    fn run(&mut self, _: Slot, message: M) {
        message.refuse(Reason::NoHome);
        self.never();
    }

    fn stop(&mut self, _: Slot, _: StopReason) {
        self.never();
    }

    fn cancel(&mut self, _: Slot) {
        self.never();
    }

    fn discard(&mut self, _: Slot) {
        self.never();
    }

    fn weigh(&mut self, id: &EntityId, message: &M) -> Result<u32, Reason> {
        self.out.weigh(id, message)
    }

    fn can_transmit(&mut self, to: NodeKey) -> bool {
        self.out.can_transmit(to)
    }

    fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &M) {
        self.out.transmit(to, head, id, body);
    }

    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>) {
        self.out.receipt(to, &receipt);
    }

    fn lookup(&mut self, shard: ShardId) {
        self.out.lookup(shard);
    }

    fn undelivered(&mut self, id: &EntityId, message: M, fate: Fate) {
        self.out.undelivered(id, message, fate);
    }

    fn withdraw(&mut self, message: M) {
        message.withdraw();
    }

    fn owned(&mut self, _: ShardId, _: Token) {
        self.never();
    }

    fn lost(&mut self, _: ShardId) {}

    fn dropped(&mut self, shard: ShardId, token: Token) {
        self.out.dropped(shard, token);
    }

    fn halted(&mut self) {
        self.out.halted();
    }

    fn notice(&mut self, notice: Notice) {
        self.out.notice(notice);
    }
}

impl<M: Wire> ProxyHost<M> {
    /// The coordinator grants shards only to nodes that host the type; if it ever did otherwise, the shard is handed back
    /// when its session ends.
    fn never(&mut self) {
        self.out.notice(Notice::Garbled { what: "a shard was granted to a node that only sends to its type" });
    }
}

impl<M: Wire> Turns<M> for ProxyHost<M> {
    fn turn(&mut self, _: Slot, message: M) -> Ran {
        message.refuse(Reason::NoHome);
        Ran::Wants(Next::Failed)
    }

    fn collect(&mut self) {}

    fn owed(&mut self) -> Option<Owed<M>> {
        None
    }

    fn out(&mut self) -> &mut Outgate<M> {
        &mut self.out
    }
}
