//! The control machines of one process, composed: election, session, allocator and planner. One per node.
//!
//! # Why
//! Each machine is proved and tested alone; somebody must carry what one says to the others, in the right order, and that
//! must not be written anew by every host. [`Node`] is that carrier. It owns no socket and no lane: it speaks to peers by
//! [`Output::Send`], to lanes by [`Output::Order`] and [`Output::All`].
//!
//! ```text
//!   peers' frames --> election --Elected, Lost,--> allocator <--Allocate, Drain-- planner (strategies)
//!                        ^  ^  Evidence, Confirmed  |    ^
//!                        |  +-LearnedCounter, ------+    | loopback: a node is its own coordinator's client
//!                        |                               v
//!                  voters' frames                     session --Own, Drain, Live, Halt--> lanes
//! ```
//!
//! # What it promises
//! - The reign is looked at before anything is decided under it: a reign that is over decides nothing.
//! - The barrier: a shard is reported as dropped, and a new session begun, only after every lane concerned has said so.
//! - A coordinator's own region ends before the voters hear that its reign is over, unless it resigned (E8).
//! - A directive counts only from the node of the term in force; a claim about a node only from that node.
//!
//! May import: region, coordinator, election, session, allocation, wire, and what lies below.

mod clocks;
mod config;
mod explain;
mod loads;
mod machine;
mod planner;
#[cfg(test)]
mod tests;
mod traffic;

use alloc::string::String;
use alloc::vec::Vec;

pub use config::{ConfigError, NodeConfig};
pub use explain::{Cause, Explanation, Fit, Held};
pub use machine::Node;

use crate::allocation::Stats;
use crate::id::{Kind, NodeId, NodeKey, ShardId, ShardKey, Term, Token};
use crate::machine::Notice;
use crate::region::lane::Order;
use crate::wire::{Control, Traffic};

/// Whom a frame is for: a node in whatever life it is met, or one life of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Peer {
    /// Whichever life the link reaches.
    Id(NodeId),
    /// This life only; dropped if the link reaches another.
    Key(NodeKey),
}

impl Peer {
    /// The node.
    #[must_use]
    pub const fn id(self) -> NodeId {
        match self {
            Self::Id(id) => id,
            Self::Key(key) => key.id,
        }
    }
}

/// What a node hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A control frame came.
    Heard {
        /// Who sent it, as its connection was authenticated.
        from: NodeKey,
        /// The life of this node that it was meant for.
        to: NodeKey,
        /// The message.
        message: Control,
    },
    /// A handshake named a process and where it listens.
    Met {
        /// The process.
        node: NodeKey,
        /// Its advertised address.
        address: String,
    },
    /// The answer to [`Output::NeedWall`]: milliseconds since 1970.
    Wall(u64),
    /// The wall clock, in milliseconds, read in the same moment as `now`. Said at every wake, before anything else, it lets
    /// the node notice that its machine was frozen; a stale one looks like that. Optional.
    Look {
        /// What it shows.
        wall: u64,
    },
    /// This node's resources were measured, for placement rules that look at them. Once a second or so; optional.
    Measured(Stats),
    /// A lane measured the loads of its shards ([`LaneHost::loads`](crate::region::lane::LaneHost::loads)).
    Loads {
        /// Its entity type.
        kind: Kind,
        /// Shards that it owns, with their loads.
        loads: Vec<(ShardId, u32)>,
    },
    /// Which shards of a type say what to whom, as entities on this node do. Every few seconds, if the strategy of the type
    /// looks at it ([`Needs::traffic`](crate::allocation::Needs)); optional.
    Traffic(Traffic),
    /// A lane dropped a shard.
    Dropped {
        /// The shard.
        key: ShardKey,
        /// The grant that ended.
        token: Token,
    },
    /// A lane has stopped everything, as [`Order::Halt`] asked.
    Halted {
        /// Its entity type.
        kind: Kind,
        /// Which lane.
        lane: u32,
    },
    /// A lane asks where a shard lives.
    Lookup {
        /// The shard.
        key: ShardKey,
    },
    /// If this node reigns, give the reign up in good order: a successor follows within a few round trips and nothing stops
    /// in between. Ignored otherwise, by the only voter, and while the reign is too young to know what came before it.
    Resign,
    /// Hand over all shards, but stay until `Leave`: the node's own mail needs its streams, links and the coordinator still.
    HandOver,
    /// Leave the cluster: hand over all shards, then [`Output::Farewell`]. A coordinator resigns first.
    Leave,
}

/// What a node orders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a control frame; it may be lost.
    Send {
        /// To whom.
        to: Peer,
        /// What.
        message: Control,
    },
    /// Answer with [`Input::Wall`].
    NeedWall,
    /// For the lane of the shard that the order names.
    Order {
        /// The entity type.
        kind: Kind,
        /// The order.
        order: Order,
    },
    /// For every lane of every type. `Halt` is answered by each with [`Input::Halted`].
    ///
    /// [`Order::Live`] must be in force in every lane before the outputs behind it are obeyed, by a flag that the lanes share,
    /// say: it may bring the end forward (E8), and what follows tells others of it.
    All(Order),
    /// That process listens there.
    Reach {
        /// The process.
        node: NodeKey,
        /// Where.
        address: String,
    },
    /// That process is gone for good: its link is over.
    Gone(NodeKey),
    /// A process has joined the cluster, as the directory says.
    NodeUp(NodeKey),
    /// A process has left it or lost its session.
    NodeDown(NodeKey),
    /// This node's session lives.
    Joined,
    /// This node's session ended before it was renewed.
    Lapsed,
    /// This node reigns.
    Elected(Term),
    /// Its reign is over.
    Deposed(Term),
    /// Most voters of this version run it, and the coordinator knows: the next version may be loaded (V5).
    VotersInForce {
        /// The version.
        version: u32,
    },
    /// The cluster uses another number of shards for a type.
    KindRefused {
        /// The type.
        kind: Kind,
        /// What the cluster uses.
        cluster: u32,
        /// What this node registered.
        node_shards: u32,
    },
    /// This node has left; the last output.
    Farewell,
    /// For the operator.
    Notice(Notice),
}
