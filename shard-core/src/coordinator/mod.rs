//! The coordinator: who holds which shard, for as long as this node reigns.
//!
//! # Why
//! Somebody must be the only one to grant shards. [`Allocator`] is that somebody's book-keeping: it adopts what live nodes
//! report, grants the rest, and takes a shard for free only when its owner said that it dropped it, or when the owner's
//! session waited W without a sign of life. There is no third path.
//!
//! # The parts
//! - [`Allocator`] is the machine ("A" in the protocol). It decides nothing about placement: `Allocate` and `Drain` are
//!   inputs, so its safety holds for every strategy. It lives inside one reign and forgets everything with it.
//! - The planner reads the allocator through its accessors (`view.rs`: nodes, candidates, table, what is wanted), asks a
//!   strategy, and answers with those inputs.
//!
//! ```text
//!            Allocate                   the owner's report shows it              Drain
//!   wanted ------------> Granting ---------------------------------> Held -----------------> Draining
//!     ^                     |                                          |                        |
//!     +---------------------+--------- absent from a report that applied every command ---------+
//!     +---------------------+--------- the owner's session expired, or a later one came --------+
//! ```
//! A first report in the quarantine enters its shards as Held (adoption). The quarantine ends W after the election, or as
//! soon as everyone has registered whom the voters' lists name (early exit, `roll.rs`).
//!
//! # What it promises
//! - The table is a superset of the truth: a live owner is always in it, under its own name.
//! - Nothing is granted that is in the table, nor before every session of former reigns has surely ended.
//! - Answers to heartbeats leave in the verb that heard them; commands leave in the next `expire`, which is due at once,
//!   so that a whole plan costs one message per node.
//! - Memory: one entry per shard in use; per node its report, at most 4,096 commands under way; per shard without a home
//!   at most 64 askers. When more than 65,536 sessions have ended in one reign it asks for a new term, which starts empty.
//!
//! | rule | where |
//! |---|---|
//! | G2 heartbeat's term | `Allocator::heartbeat` |
//! | window, conflicting claims, adoption | `Reign::admit` |
//! | dead sessions, lower sessions, growing sequence | `Reign::counts` |
//! | applied before free | `Reign::judge` |
//! | W from the heartbeat processed | `Reign::renew` |
//! | quarantine | `Reign::may_allocate` |
//! | early exit: E3, E4, E6, E7 | `roll.rs` |
//! | E5 ack after confirm | `Reign::acknowledge`, `Reign::confirmed` |
//! | resignation 2.1 | `Reign::resign`, `Roll::list` |
//! | one shard count per type | `reign/counts.rs` |
//! | dead sessions, one id on two processes | `reign/over.rs` |
//! | leaving, farewell | `Reign::send_off`, `Reign::farewell` |
//!
//! May import: wire, allocation, session (tests only), machine, ground.

mod allocator;
#[cfg(test)]
mod desk;
#[cfg(test)]
mod early;
mod member;
mod reign;
mod roll;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod swarm;
mod table;
#[cfg(test)]
mod tests;
mod view;
#[cfg(test)]
mod world;

use alloc::vec::Vec;

pub use allocator::Allocator;
pub use view::{NodeView, Place, Stage};

use crate::{
    id::{NodeKey, ShardKey, Term},
    machine::{Notice, Rules, Timing},
    time::Duration,
    wire::{Control, List},
};

/// What an allocator is built from.
#[derive(Clone, Debug)]
pub struct AllocatorConfig {
    /// This process.
    pub me: NodeKey,
    /// The protocol's times; checked by whoever builds the node.
    pub timing: Timing,
    /// The rules in force.
    pub rules: Rules,
    /// The configuration admits no other node, and an exclusive lock says that no former process lives: nobody's session
    /// has to be waited for.
    pub alone: bool,
}

/// What an allocator hears.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Input {
    /// This node's reign began.
    Elected {
        /// Its name.
        term: Term,
    },
    /// What the voters' lists say of former reigns: once per reign, soon after `Elected` (E3).
    Evidence {
        /// The reign.
        term: Term,
        /// Nobody but those named can have a live session.
        complete: bool,
        /// Processes that may have one.
        carried: Vec<NodeKey>,
    },
    /// The voters hold this version of the list, or a newer one: whoever stands in it may be acknowledged (E5).
    Confirmed {
        /// The reign.
        term: Term,
        /// The version.
        version: u32,
    },
    /// This version of the voters is in force: every node is told with its next ack (V5).
    Committed {
        /// The version.
        version: u32,
    },
    /// Give up the reign in good order: this node's own process is listed, then [`Output::Resigned`] (2.1). Ignored before
    /// the evidence is there.
    Resign,
    /// A reign of this node ended: everything is forgotten.
    Lost {
        /// Its name.
        term: Term,
    },
    /// All nodes known, this one included; replaces what was known.
    Peers(Vec<NodeKey>),
    /// A node was met: it is told who reigns. An older process of the same node id is forgotten.
    Met {
        /// The node.
        node: NodeKey,
    },
    /// A control message arrived. `Heartbeat`, `Nack`, `Lookup` and `WhoReigns` concern the allocator; others are ignored.
    Heard {
        /// Who sent it.
        from: NodeKey,
        /// The message.
        message: Control,
    },
    /// The planner places a shard. Ignored unless [`Allocator::placeable`] says that it may be placed there now.
    Allocate {
        /// The shard.
        key: ShardKey,
        /// Its new owner.
        to: NodeKey,
    },
    /// The planner takes a shard away from its owner. Ignored unless it has one and is not draining already.
    Drain {
        /// The shard.
        key: ShardKey,
        /// How long its entities may take to stop.
        within: Duration,
    },
}

/// What an allocator orders.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Output {
    /// Send a control message.
    Send {
        /// To whom.
        to: NodeKey,
        /// What.
        message: Control,
    },
    /// The list has changed: have the voters store it, and answer with [`Input::Confirmed`] (E4).
    Publish(List),
    /// The list that names this node's own process is confirmed: the reign may end, its region lives on.
    Resigned {
        /// The reign.
        term: Term,
    },
    /// A shard needs a place and may be placed. Said again for every lookup that finds it without one, and for all of them
    /// when the window closes.
    Wanted {
        /// The shard.
        key: ShardKey,
        /// Who asks for it; `None`: it had an owner.
        asker: Option<NodeKey>,
    },
    /// A tenure is over.
    Freed {
        /// The shard.
        key: ShardKey,
        /// Its owner until now.
        from: NodeKey,
        /// How it ended.
        how: Ending,
    },
    /// A node registered.
    Joined {
        /// The node.
        node: NodeKey,
    },
    /// A node's session is over, and no later one of the same process is known.
    Gone {
        /// The node.
        node: NodeKey,
    },
    /// Someone knows a term whose counter is not below ours: take a new term, beyond this counter. Until then nothing is
    /// granted.
    LearnedCounter(u64),
    /// For the operator.
    Notice(Notice),
}

/// How a tenure ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ending {
    /// Its owner dropped it and said so; it has sent `Closed` to its senders.
    Dropped,
    /// Its owner lapsed and came back with a later session.
    Lapsed,
    /// Its owner's session waited W without a sign of life.
    Expired,
}
