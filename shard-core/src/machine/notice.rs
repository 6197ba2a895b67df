//! What a machine tells the operator: things it dropped, refused or saw, none of which changed its promises.

use core::fmt;

use crate::id::{Kind, NodeKey, ShardKey, Term, Token};

/// Something worth a line in a log. Every variant says who is at fault; none needs an answer from the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// A peer sent a directive or claim under a term that is not in force; it was dropped.
    StaleTerm {
        /// Who sent it.
        from: NodeKey,
        /// The term it named.
        term: Term,
    },
    /// A peer claimed something that only another node may say; it was dropped.
    NotYours {
        /// Who sent it.
        from: NodeKey,
    },
    /// A frame was late or repeated and was dropped. Normal under load; many of them hint at a sick network.
    Repeated {
        /// Who sent it.
        from: NodeKey,
    },
    /// Two nodes registered one entity type with different shard counts; the second one hosts nothing of it.
    ShardCountMismatch {
        /// The node refused.
        node: NodeKey,
        /// The entity type.
        kind: Kind,
        /// The count the cluster uses.
        cluster: u32,
        /// The count the node asked for.
        node_shards: u32,
    },
    /// This node's session ended before it was renewed: its shards were dropped.
    SessionLapsed,
    /// This node's reign ended.
    ReignEnded {
        /// The reign.
        term: Term,
    },
    /// This node was asked to resign, but the voters did not confirm in time: it reigns on.
    ResignationFailed {
        /// The reign.
        term: Term,
    },
    /// A candidacy found no majority in time and was given up.
    CandidacyGivenUp {
        /// The term it used up.
        term: Term,
    },
    /// A drain passed its deadline; the shard was dropped by force at its owner.
    DrainForced {
        /// The shard.
        key: ShardKey,
        /// The grant that ended.
        token: Token,
    },
    /// A session report named a shard that the table gives to another node; the report was refused.
    ConflictingClaim {
        /// The reporter.
        from: NodeKey,
        /// The shard.
        key: ShardKey,
    },
    /// Two living processes have one node id, so the coordinator hears now the one and now the other. The younger one is
    /// refused: give it an id of its own.
    NodeIdClash {
        /// Who had the id first.
        older: NodeKey,
        /// Who is refused.
        younger: NodeKey,
    },
    /// The clocks of this node and a coordinator differ by more than half of what the timing allows.
    ClockStrays {
        /// The other process.
        of: NodeKey,
        /// Its clock is the faster one.
        faster: bool,
    },
    /// The clocks of this node and a coordinator differ by more than the timing allows: this node's session is over.
    ClockBroken {
        /// The other process.
        of: NodeKey,
        /// Its clock is the faster one.
        faster: bool,
    },
    /// The wall clock went ahead of this node's clock: its machine was frozen, or the wall clock was set. Reign and session
    /// are over.
    ClockJumped {
        /// By how many milliseconds.
        millis: u64,
    },
    /// A bound was hit and something was dropped or refused because of it.
    BoundHit {
        /// Which bound.
        what: &'static str,
    },
    /// A frame broke its protocol; the connection should be closed.
    Garbled {
        /// What was wrong.
        what: &'static str,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaleTerm { from, term } => write!(f, "{from} spoke under {term}, which is not in force: dropped"),
            Self::NotYours { from } => write!(f, "{from} claimed what only another node may say: dropped"),
            Self::Repeated { from } => write!(f, "a frame of {from} was late or repeated: dropped"),
            Self::ShardCountMismatch { node, kind, cluster, node_shards } => write!(
                f,
                "{node} registered type {:#x} with {node_shards} shards, but the cluster uses {cluster}: it hosts \
                 nothing of it",
                kind.0
            ),
            Self::SessionLapsed => f.write_str("this node's session ended before it was renewed"),
            Self::ReignEnded { term } => write!(f, "this node's reign {term} ended"),
            Self::ResignationFailed { term } => {
                write!(f, "the voters did not confirm in time that {term} resigns: this node reigns on")
            }
            Self::CandidacyGivenUp { term } => write!(f, "candidacy {term} found no majority in time"),
            Self::DrainForced { key, token } => {
                write!(f, "{key} ({token}) did not stop in time and was dropped by force")
            }
            Self::ConflictingClaim { from, key } => {
                write!(f, "{from} claims {key}, which belongs to another node: its report was refused")
            }
            Self::NodeIdClash { older, younger } => write!(
                f,
                "{older} and {younger} both live under one node id: the younger is refused, give it an id of its own"
            ),
            Self::ClockStrays { of, faster } => write!(
                f,
                "the clock of {of} is {} than this node's by more than half of what the timing allows: look after both \
                 before they differ by more",
                if *faster { "faster" } else { "slower" }
            ),
            Self::ClockBroken { of, faster } => write!(
                f,
                "the clock of {of} is {} than this node's by more than the timing allows: this node's session is over; mend \
                 the clock, or allow for more",
                if *faster { "faster" } else { "slower" }
            ),
            Self::ClockJumped { millis } => write!(
                f,
                "the wall clock went {millis} ms ahead of this node's clock: if its machine was frozen, others may have \
                 taken over, so its reign and session are over"
            ),
            Self::BoundHit { what } => write!(f, "a bound was hit ({what}): something was dropped or refused"),
            Self::Garbled { what } => write!(f, "a frame broke its protocol ({what}): dropped"),
        }
    }
}
