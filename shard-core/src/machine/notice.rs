//! What a machine tells the operator: things it dropped, refused or saw, none of which changed its promises.

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
