//! What a driver orders from its host, one method per effect.

use alloc::string::String;

use crate::entity::{EntityId, Fate, Reason, StopReason};
use crate::id::{Kind, NodeKey, ShardKey, Slot, Term, Token};
use crate::machine::Notice;
use crate::node::Peer;
use crate::region::lane::{DataHead, Life, Receipt};
use crate::wire::Control;

/// One life of one entity on this node, as driver and host name it to each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seat {
    /// Its type.
    pub kind: Kind,
    /// The lane it lives in; 0 unless the type has several.
    pub lane: u32,
    /// Its place within the lane.
    pub slot: Slot,
}

/// Does what a [`Driver`](super::Driver) orders. No method may call the driver: answers are separate calls afterwards.
///
/// The seven orders about entities come for a seat one after another, never two at once: after `start`, `run` or `stop`
/// the next is `cancel`, or comes after the answer.
pub trait Host<M> {
    /// Build the entity and run its first hook; answer with [`Driver::started`](super::Driver::started).
    fn start(&mut self, seat: Seat, life: Life);
    /// Run one handler; answer with [`Driver::finished`](super::Driver::finished).
    fn run(&mut self, seat: Seat, message: M);
    /// Run the last hook and drop the state; answer with [`Driver::stopped`](super::Driver::stopped).
    fn stop(&mut self, seat: Seat, why: StopReason);
    /// Drop whatever runs for this entity, and its state; answer with [`Driver::stopped`](super::Driver::stopped) once it
    /// is dropped. Nothing of it may run after the answer: the next owner may start.
    fn cancel(&mut self, seat: Seat);
    /// Drop the state of an entity that runs nothing. No answer.
    fn discard(&mut self, seat: Seat);

    /// How many bytes the message will be on the wire.
    ///
    /// # Errors
    /// It cannot go there: [`Reason::TooLarge`].
    fn weigh(&mut self, kind: Kind, message: &M) -> Result<u32, Reason>;
    /// Send a control frame; it may be lost. The other side calls [`Driver::receive`](super::Driver::receive).
    fn control(&mut self, to: Peer, message: Control);
    /// Send one message, in order with all else but control sent to that process, over a link that loses nothing while
    /// both processes live. The other side calls [`Driver::arrive`](super::Driver::arrive).
    fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &M);
    /// Send one receipt, in the same order. The other side calls [`Driver::receipt`](super::Driver::receipt).
    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>);
    /// That process listens there.
    fn reach(&mut self, node: NodeKey, address: String);
    /// That process is gone for good: its link may be dropped.
    fn gone(&mut self, node: NodeKey);

    /// A message of a caller on this node met its fate without a handler's answer.
    fn undelivered(&mut self, kind: Kind, id: &EntityId, message: M, fate: Fate);
    /// A message of another process is not taken here: drop it without a word to its asker, for its sender holds it still.
    fn withdraw(&mut self, message: M) {
        drop(message);
    }
    /// The wall clock: milliseconds since 1970, or anything that grows from one life of this node to the next.
    fn wall(&mut self) -> u64;
    /// Something happened; nothing is owed.
    fn event(&mut self, event: Event);
}

/// What a driver tells the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// This node's session lives.
    Joined,
    /// This node's session ended before it was renewed: its shards are dropped.
    Lapsed,
    /// This node reigns.
    Elected(Term),
    /// Its reign is over.
    Deposed(Term),
    /// A process has joined the cluster.
    NodeUp(NodeKey),
    /// A process has left the cluster or lost its session.
    NodeDown(NodeKey),
    /// The shard is this node's.
    Owned {
        /// The shard.
        key: ShardKey,
        /// The grant.
        token: Token,
    },
    /// The shard is this node's no more, whatever ended it.
    Lost {
        /// The shard.
        key: ShardKey,
    },
    /// Most voters of this version run it: the next version may be loaded.
    VotersInForce {
        /// The version.
        version: u32,
    },
    /// The cluster uses another number of shards for a type: this node hosts nothing of it.
    KindRefused {
        /// The type.
        kind: Kind,
        /// What the cluster uses.
        cluster: u32,
        /// What this node registered.
        node_shards: u32,
    },
    /// This node has left the cluster as it was asked to; it sends and hosts nothing any more.
    Farewell,
    /// Something was dropped, refused or seen.
    Notice(Notice),
}
