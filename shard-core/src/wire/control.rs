//! What control machines say to each other.
//!
//! Authority: a directive ([`Control::Announce`], [`Control::Ack`], [`Control::Dead`], [`Control::Home`],
//! [`Control::KindRefused`]) counts only with the receiver's current term and from that term's node; a claim about a node
//! ([`Control::Heartbeat`]) counts only from that node. The envelope names both ends by [`NodeKey`].

use alloc::{boxed::Box, string::String, vec::Vec};

use super::Facts;
use crate::allocation::{Edge, Stats};
use crate::id::{Kind, NodeKey, ShardId, ShardKey, Term, Token};
use crate::time::Duration;

/// One control message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Control {
    /// Candidate or coordinator to voter: lend me the reign for this round.
    LeaseRequest {
        /// The candidate's term.
        term: Term,
        /// Which of its rounds.
        round: u64,
        /// The version of the voters that it is sent under (V3).
        config: u32,
        /// Whom the reign may acknowledge, if the voter is not known to hold it (E4). A candidate sends none (E2).
        list: Option<List>,
    },
    /// Voter: lent, for T_v from now.
    LeaseGranted {
        /// The term asked for.
        term: Term,
        /// The round asked for.
        round: u64,
        /// The version of the voters that this voter runs (V4).
        config: u32,
        /// The list that the voter holds now; none: it restarted, or never held one. Its members are left out if it is of
        /// the very term asked for: that coordinator knows them.
        stored: Option<List>,
    },
    /// Voter: not lent; someone else holds it or a greater term was promised.
    LeaseRefused {
        /// The term asked for.
        term: Term,
        /// The greatest term promised.
        promised: Term,
        /// The version of the voters that this voter runs (V7).
        config: u32,
    },
    /// A term is given up for good: the voter is free again.
    Release {
        /// The term.
        term: Term,
        /// How it came to its end.
        exit: Exit,
    },
    /// A node without an ack asks a voter who reigns.
    WhoReigns,
    /// The voter's answer: a hint, never a directive.
    Reign {
        /// The term it last granted and still holds granted.
        term: Term,
        /// Where that coordinator listens, as far as the voter knows; empty: unknown.
        address: String,
    },
    /// Coordinator to a node: I reign, register with me.
    Announce {
        /// The reign.
        term: Term,
        /// The newest version of the voters that is known to be in force (V5).
        committed: u32,
    },
    /// Region to a would-be coordinator: I know a greater term.
    Nack {
        /// The greater term.
        max_term: Term,
    },
    /// Region to coordinator: I am alive and this is what I own.
    Heartbeat(Heartbeat),
    /// Coordinator to region: heartbeat counted, and these commands stand.
    Ack(Ack),
    /// Coordinator to region: that session is over.
    Dead {
        /// The reign that says so.
        term: Term,
        /// The session that is over.
        session: u64,
    },
    /// Coordinator to region: the cluster uses another number of shards for this type, you host nothing of it.
    KindRefused {
        /// The reign that says so.
        term: Term,
        /// The type.
        kind: Kind,
        /// What the cluster uses.
        cluster: u32,
        /// What the node registered.
        node_shards: u32,
    },
    /// Region to coordinator: where does this shard live?
    Lookup {
        /// The shard.
        key: ShardKey,
    },
    /// Coordinator to region: there (or not yet anywhere).
    Home {
        /// The reign that says so.
        term: Term,
        /// The shard.
        key: ShardKey,
        /// Its home, if it has one that has confirmed it.
        home: Option<Home>,
    },
}

/// How a term came to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Exit {
    /// It never reigned: the voter takes back its promise (L2).
    NeverReigned,
    /// It reigned, and ran out or was deposed.
    Reigned,
    /// It was given up in good order, with every session listed: the next campaign need not wait for a late renewal.
    Resigned,
}

/// Whom a reign may have acknowledged: the processes whose sessions a later one must hear of before it may grant what they
/// did not report (early exit, E1-E10). Kept by the voters, from memory alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct List {
    /// The reign that keeps it.
    pub term: Term,
    /// Grows with every change within the reign; the first is 1.
    pub version: u32,
    /// Nobody else can have a live session. False: the reign itself does not know all of those before it.
    pub complete: bool,
    /// The processes, sorted. The coordinator's own is missing: its region ends with the reign (E8).
    pub members: Vec<NodeKey>,
}

/// Where a shard lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Home {
    /// The owner.
    pub node: NodeKey,
    /// Its grant.
    pub token: Token,
    /// The former tenure ended by its owner's own drop in this reign, so its owner has sent `Closed` to its senders.
    /// False: it ended by a session's or a reign's end, or this reign does not know (D9).
    pub closed: bool,
}

/// A region's sign of life, and its claim about itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Heartbeat {
    /// The greatest term the region knows.
    pub term: Term,
    /// Which session of this incarnation; grows by one with every lapse.
    pub session: u64,
    /// Which heartbeat of the session.
    pub sequence: u64,
    /// The last command applied in this session.
    pub applied: u64,
    /// The sequence of the last heartbeat that was acknowledged: stalls if acks do not arrive.
    pub ack_seen: u64,
    /// The node wants to leave: drain it and let it go.
    pub leaving: bool,
    /// Nothing of the node's own is under way any more: once it is leaving and owns nothing, it may be released.
    pub settled: bool,
    /// Version of the node's report; grows whenever its shards or types change.
    pub report_version: u64,
    /// The report itself, sent until an ack has seen its version.
    pub report: Option<Box<Report>>,
    /// Its resources, as it last measured them.
    pub stats: Option<Stats>,
    /// What its shards are used, by type; a part of them at a time. Empty unless somebody looks at it.
    pub loads: Vec<KindLoads>,
    /// Which of its shards say what to whom. Nothing unless somebody looks at it.
    pub traffic: Option<Box<Traffic>>,
    /// The version of the directory the node holds.
    pub directory: u64,
    /// Where other nodes reach this node.
    pub address: String,
}

/// What shards of one type are used.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KindLoads {
    /// The type.
    pub kind: Kind,
    /// The shards with their loads, sorted.
    pub shards: Vec<(ShardId, u32)>,
}

/// Which shards of one type talk to each other, as entities on the node that says so do: about what was said in the last ten
/// seconds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Traffic {
    /// The type.
    pub kind: Kind,
    /// The pairs that say most; at most [`EDGES_MAX`](Self::EDGES_MAX), what is beyond does not count.
    pub edges: Vec<Edge>,
    /// What each shard of these pairs says or is told in all.
    pub said: Vec<(ShardId, u32)>,
}

impl Traffic {
    /// Pairs, at most.
    pub const EDGES_MAX: usize = 4_096;
}

/// What a node hosts and owns.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Report {
    /// What the operator says about it.
    pub facts: Facts,
    /// The types registered, sorted by kind.
    pub kinds: Vec<KindReport>,
    /// The shards owned, draining ones included, sorted by key.
    pub owned: Vec<Owned>,
}

/// One type registered on a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KindReport {
    /// The type.
    pub kind: Kind,
    /// Its number of shards.
    pub shards: u32,
    /// Whether the node hosts entities of it (false: it only sends to them).
    pub hosts: bool,
}

impl KindReport {
    /// Shards of one type, at most. A coordinator takes no note of types that are said to have more, or none: it keeps a little
    /// for each shard.
    pub const SHARDS_MAX: u32 = 1 << 20;
}

/// One shard owned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Owned {
    /// The shard.
    pub key: ShardKey,
    /// The grant.
    pub token: Token,
}

/// The coordinator's answer to a heartbeat.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ack {
    /// The reign.
    pub term: Term,
    /// The session counted.
    pub session: u64,
    /// The heartbeat counted.
    pub sequence: u64,
    /// The number of the first command below.
    pub first: u64,
    /// Commands `first`, `first + 1`, …: all that the region has not reported as applied.
    pub commands: Vec<Command>,
    /// The version of the region's report that the coordinator holds.
    pub report_seen: u64,
    /// The directory, if the region's version is older.
    pub directory: Option<Directory>,
    /// What the coordinator's clock showed when this left, in microseconds; stamped by whoever sends it.
    pub clock: u64,
    /// The reign knows of every shard that lives, and places those that do not.
    pub open: bool,
    /// The newest version of the voters that is known to be in force (V5).
    pub committed: u32,
    /// The node was leaving, owns nothing any more, and is released for good.
    pub farewell: bool,
}

/// One numbered order to a region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// The shard is yours.
    Grant {
        /// The shard.
        key: ShardKey,
        /// The grant.
        token: Token,
    },
    /// Stop its entities and drop it; by force when the time is up.
    Drain {
        /// The shard.
        key: ShardKey,
        /// How long its entities may take.
        within: Duration,
    },
}

/// Who is in the cluster and where; versioned within a reign.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Directory {
    /// Grows with every change within a reign.
    pub version: u64,
    /// The nodes with a session, sorted by key.
    pub nodes: Vec<DirectoryEntry>,
    /// Processes that are gone for good (left, or replaced by a newer incarnation), sorted; their links may be dropped.
    pub gone: Vec<NodeKey>,
}

/// One node of the directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DirectoryEntry {
    /// The process.
    pub node: NodeKey,
    /// Where it listens.
    pub address: String,
}
