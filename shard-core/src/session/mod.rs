//! A node's session: the one lease that all its shards ride on.
//!
//! # Why
//! A shard may be served only while its node can prove that nobody else was given it. One renewable session per node is
//! that proof: the coordinator counts W from each heartbeat it processed, the node counts D from each heartbeat it *sent*
//! (L2), and W is longer than D by the worst drift of two clocks. Whatever is lost, late or paused only shortens the
//! node's side.
//!
//! # The machine
//! ```text
//!                 Ack of a beat still good                  valid_until passes, or Dead{mine}
//!   waiting  ------------------------------->  live  ------------------------------------------+
//!   (beats, owns nothing)                      (beats, owns what it was granted)               |
//!      ^                                                                                       v
//!      +------------------------------- LanesStopped ------------------------------------  stopping
//!                                                                                     (session + 1, silent)
//!   any of them: Announce of a greater term -> register there with a full report; shards and valid_until stay
//!   while this node reigns: valid_until is the reign's end, if that is sooner (E8)
//!   an Ack with farewell, while leaving and empty -> gone, for ever
//! ```
//!
//! # What it promises
//! - [`Session::owns`] is true for a shard on at most one node at any instant, if every node and every coordinator keeps
//!   these rules and the clocks are as good as `rho`.
//! - Lapses happen once per session (G3), whatever wakes the machine: it looks at the clock first in every verb.
//! - Orders to lanes come in the order in which they must happen: `Live` before `Own`, `StopAll` before anything of the
//!   next session.
//! - Heartbeats leave from `expire` only; a change moves the deadline to now, so a host that reads a batch of mail before
//!   it calls `expire` sends one heartbeat for all of it.
//!
//! | rule | where |
//! |---|---|
//! | advance first, G3 | `Session::advance`, `Session::lapse` |
//! | L2 validity from send | `Session::beat`, `Session::extend` |
//! | L4 commands of this term only | `Session::acked` |
//! | G1 grants only while live | `Session::acked` |
//! | E8 own region clipped | `machine/end.rs` |
//! | session barrier | `Session::lapse`, `Session::beats` |
//! | incarnation | `Session::heard` |
//!
//! May import: wire, machine, ground.

mod machine;
#[cfg(test)]
mod tests;

use alloc::string::String;

pub use machine::Session;

use crate::{
    allocation::Stats,
    id::{Kind, NodeKey, ShardKey, Term, Token},
    machine::{Notice, Rules, Timing},
    time::Instant,
    wire::{Control, Directory, Facts, KindReport},
};

/// What a session is built from.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// This process.
    pub me: NodeKey,
    /// Where other nodes reach it.
    pub address: String,
    /// What its operator says about it.
    pub facts: Facts,
    /// The protocol's times; checked by whoever builds the node.
    pub timing: Timing,
    /// The rules in force.
    pub rules: Rules,
}

/// What a session hears.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Input {
    /// A control message arrived. `Announce`, `Ack`, `Dead`, `KindRefused` and `Reign` concern the session; others are
    /// ignored.
    Heard {
        /// Who sent it.
        from: NodeKey,
        /// The process that it was meant for, as its envelope says.
        to: NodeKey,
        /// The message.
        message: Control,
    },
    /// An entity type was registered on this node, or its registration changed.
    Registered(KindReport),
    /// This node's resources were measured; the next heartbeats say so.
    Measured(Stats),
    /// The lanes dropped a shard: no handler of it runs or will start.
    Dropped {
        /// The shard.
        key: ShardKey,
        /// The grant that ended.
        token: Token,
    },
    /// Every lane has stopped what [`Output::StopAll`] named.
    LanesStopped {
        /// The session that the order named.
        session: u64,
    },
    /// This node wants to leave, but has mail of its own under way: hand its shards over, and wait for `Leave`.
    HandOver,
    /// This node wants to leave the cluster: hand its shards over, then say [`Output::Farewell`].
    Leave,
    /// This node reigns, and does so until then unless the reign is renewed: its own region, which no list names, must not
    /// outlive it (E8). Said again with each renewal.
    Reigns {
        /// The end of the reign.
        until: Instant,
    },
    /// This node's clock did not measure what the session is counted by: it ends now.
    GiveUp,
    /// This node's reign is over.
    ReignOver {
        /// It resigned: the region is listed like any other and lives on. Otherwise it lapses now.
        resigned: bool,
    },
    /// Somebody says who reigns. A hint: it makes the session introduce itself there, nothing more.
    CoordinatorIs {
        /// The reign.
        term: Term,
    },
}

/// What a session orders.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Output {
    /// Send a control message.
    Send {
        /// To whom.
        to: NodeKey,
        /// What.
        message: Control,
    },
    /// No ack came for 2H: send `WhoReigns` to a voter, the next one each time.
    AskVoters,
    /// The first acknowledgement of this session came: the node may be given shards.
    Joined {
        /// The session.
        session: u64,
    },
    /// Handlers may start until then: later than the last one said, except when this node has just begun to reign.
    Live {
        /// G before the session's end.
        until: Instant,
    },
    /// The shard is ours: take mail for it.
    Own {
        /// The shard.
        key: ShardKey,
        /// The grant; greater than that of any tenure before.
        token: Token,
    },
    /// Stop the shard's entities and answer [`Input::Dropped`]; by force at the deadline. May be repeated.
    Drain {
        /// The shard.
        key: ShardKey,
        /// The grant that ends.
        token: Token,
        /// When the time is up.
        deadline: Instant,
    },
    /// The session is over: every lane must drop every shard, then answer [`Input::LanesStopped`]. Until then the node
    /// sends no heartbeat.
    StopAll {
        /// The session that ended.
        session: u64,
    },
    /// A live session ended; for the host's information, follows its [`Output::StopAll`].
    Lapsed {
        /// The session that ended.
        session: u64,
    },
    /// The cluster uses another number of shards for this type: the node hosts nothing of it. Once per reign and count.
    KindRefused {
        /// The type.
        kind: Kind,
        /// What the cluster uses.
        cluster: u32,
        /// What this node registered.
        node_shards: u32,
    },
    /// This version of the voters is in force (V5). Said once.
    Committed {
        /// The version.
        version: u32,
    },
    /// A newer directory of the cluster.
    Directory(Directory),
    /// This node left: it owns nothing and never will again. The last output.
    Farewell,
    /// For the operator.
    Notice(Notice),
}
