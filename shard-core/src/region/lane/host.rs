//! What a lane orders from its host, one method per effect.
//!
//! Borrowed data goes out by reference: a body is encoded straight from the stream that keeps it. None of these may call
//! back into the lane; answers (`started`, `finished`, `stopped`) come as separate calls afterwards.

use crate::collections::EntityId;
use crate::entity::{Fate, Reason, StopReason};
use crate::id::{NodeKey, ShardId, ShardKey, Slot, Token};
use crate::machine::Notice;
use crate::passivation::Pool;

/// Which life of which entity a host is asked to begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Life {
    /// The entity.
    pub id: EntityId,
    /// Its shard.
    pub shard: ShardId,
    /// The grant it lives under.
    pub token: Token,
    /// Grows with every activation under the grant; the last part of the fence.
    pub activation: u32,
}

/// The head of one message on its way to another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHead {
    /// The shard.
    pub key: ShardKey,
    /// The grant the stream is open to.
    pub token: Token,
    /// The opening.
    pub attempt: u32,
    /// Its number.
    pub seq: u64,
    /// Whether it is the first of the attempt.
    pub first: bool,
    /// Whether a reply is awaited.
    pub ask: bool,
}

/// A stream message that carries no user data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Receipt<'a> {
    /// D4.
    Taken {
        /// The shard.
        key: ShardKey,
        /// The grant.
        token: Token,
        /// All up to this were taken.
        upto: u64,
    },
    /// D5.
    Closed {
        /// The shard.
        key: ShardKey,
        /// The grant that ended.
        token: Token,
        /// All up to this were taken.
        upto: u64,
        /// And these.
        beyond: &'a [u64],
    },
    /// D7.
    Refuse {
        /// The shard.
        key: ShardKey,
        /// The grant named.
        token: Token,
        /// The attempt named.
        attempt: u32,
        /// `Closed` follows.
        draining: bool,
        /// A later home.
        hint: Option<(NodeKey, Token)>,
    },
    /// Taken, but not runnable here.
    Rejected {
        /// The shard.
        key: ShardKey,
        /// The grant.
        token: Token,
        /// Its number.
        seq: u64,
        /// Why.
        reason: Reason,
    },
}

/// The host of one lane.
pub trait LaneHost<M> {
    /// Build the entity and run its first hook; answer with `started`.
    fn start(&mut self, slot: Slot, life: Life);
    /// Run one handler; answer with `finished`.
    fn run(&mut self, slot: Slot, message: M);
    /// Run the last hook and drop the state; answer with `stopped`.
    fn stop(&mut self, slot: Slot, why: StopReason);
    /// Drop whatever runs for this entity, and its state; answer with `stopped` once it is dropped.
    fn cancel(&mut self, slot: Slot);
    /// Drop the state of an entity that runs nothing. No answer.
    fn discard(&mut self, slot: Slot);
    /// Whether a handler or hook may still start. One call into the lane may start thousands, at an instant that
    /// was true at its beginning; this is asked before each of them, so that a session that ends meanwhile ends them. What
    /// may not start waits for the next [`Order::Live`](super::Order::Live), or for the end.
    fn may_start(&mut self) -> bool {
        true
    }
    /// How many bytes the message and the id it is for will be on the wire; or why it cannot go there.
    ///
    /// # Errors
    /// [`Reason::TooLarge`], or [`Reason::Garbled`] if it cannot be encoded.
    fn weigh(&mut self, id: &EntityId, message: &M) -> Result<u32, Reason>;
    /// Whether the link to that process takes a message now. If not, the message stays unsent, which it is worth much more
    /// than in doubt, and the host owes an [`Order::Room`](super::Order::Room) once the link does.
    fn can_transmit(&mut self, to: NodeKey) -> bool {
        let _ = to;
        true
    }
    /// Send one message to another node, in order with all else sent to it.
    fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &M);
    /// Send one receipt to another node, in order with all else sent to it.
    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>);
    /// Ask the coordinator where a shard lives.
    fn lookup(&mut self, shard: ShardId);
    /// A message of a caller on this node met its fate without an answer.
    fn undelivered(&mut self, id: &EntityId, message: M, fate: Fate);
    /// A message of another process's stream is not taken here: its sender holds it still and learns by a receipt what to
    /// do. Drop it without a word to its asker, who would take it for the end.
    fn withdraw(&mut self, message: M) {
        drop(message);
    }
    /// The shard is this node's from now on; for information.
    fn owned(&mut self, shard: ShardId, token: Token);
    /// The shard is this node's no more; for information, whatever ended it.
    fn lost(&mut self, shard: ShardId);
    /// Tell control what the shards are used, each of them once: those of this lane whose load is known. Only if
    /// [`LaneConfig::loads`](super::LaneConfig::loads) says so.
    fn loads(&mut self, loads: &[(ShardId, u32)]) {
        let _ = loads;
    }
    /// Tell control: the shard is dropped, nothing of it runs any more.
    fn dropped(&mut self, shard: ShardId, token: Token);
    /// Tell control: everything is dropped, nothing runs any more.
    fn halted(&mut self);
    /// Lends the pool that the lanes of the type on this node share, if the type has a limit. A host with one lane may do
    /// without: then each lane has its part of the limit for ever.
    fn pool<R>(&mut self, look: impl FnOnce(&mut Pool) -> R) -> Option<R> {
        let _ = look;
        None
    }
    /// For the operator.
    fn notice(&mut self, notice: Notice);
}
