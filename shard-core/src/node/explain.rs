//! Why a shard is where it is.

use alloc::vec::Vec;
use core::fmt;

use crate::allocation::Why;
use crate::coordinator::Stage;
use crate::id::{NodeId, ShardId, Token};
use crate::time::Duration;

/// What the coordinator knows of one shard: who has it and why, and which nodes could. Its text is one line.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The shard.
    pub shard: ShardId,
    /// The name of the strategy that this coordinator asks for the type.
    pub strategy: &'static str,
    /// Who has it; `None`: nobody, which is as it should be for a shard that nobody has asked for.
    pub tenure: Option<Held>,
    /// What its owner last said that it is used ([`LoadBy`](crate::region::lane::LoadBy)).
    pub load: Option<u32>,
    /// The nodes of the cluster that registered the type, in the order of their ids, and whether they could be given it.
    pub nodes: Vec<(NodeId, Fit)>,
}

/// Who has a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Held {
    /// The owner.
    pub owner: NodeId,
    /// Its grant.
    pub token: Token,
    /// How far the grant is.
    pub stage: Stage,
    /// For how long the coordinator has known of it. Not longer than its reign.
    pub age: Duration,
    /// Why there.
    pub cause: Cause,
    /// Where it goes next, if it is being moved to a node that is known already, and why.
    pub next: Option<(NodeId, Why)>,
}

/// Why a shard is where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// Its owner had it when this reign began; why is not known any more.
    Found,
    /// It had no owner and the strategy placed it there.
    Placed {
        /// Who asked for it, if it was a node: it had mail for the shard.
        asker: Option<NodeId>,
    },
    /// It was moved.
    Moved {
        /// From there.
        from: NodeId,
        /// What for.
        why: Why,
    },
}

/// Whether a node could be given a shard, as far as the coordinator's rules go. Filters of the strategy come on top.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Fit {
    /// It could.
    Candidate,
    /// It hosts nothing of the type: it only sends.
    OnlySends,
    /// It counts the shards of the type otherwise.
    CountsOtherwise,
    /// It leaves.
    Leaving,
    /// The coordinator's answers seem not to reach it.
    Deaf,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found => f.write_str("found there when this reign began"),
            Self::Placed { asker: None } => f.write_str("placed"),
            Self::Placed { asker: Some(asker) } => write!(f, "placed as {asker} asked for it"),
            Self::Moved { from, why } => write!(f, "moved from {from} for its {why}"),
        }
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Candidate => "could have it",
            Self::OnlySends => "only sends",
            Self::CountsOtherwise => "counts shards otherwise",
            Self::Leaving => "leaves",
            Self::Deaf => "seems not to hear",
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tenure {
            None => write!(f, "{} is nobody's", self.shard)?,
            Some(Held { owner, token, stage, age, cause, next }) => {
                let stage = match stage {
                    Stage::Granting => "is being granted to",
                    Stage::Held => "is on",
                    Stage::Draining { .. } => "drains on",
                };
                write!(f, "{} {stage} {owner} since {} s ({token}), {cause}", self.shard, age.as_secs())?;
                if let Some((to, why)) = next {
                    write!(f, ", and goes to {to} for its {why}")?;
                }
            }
        }
        write!(f, "; strategy {}", self.strategy)?;
        if let Some(load) = self.load {
            write!(f, "; load {load}")?;
        }
        for (node, fit) in &self.nodes {
            write!(f, "; {node} {fit}")?;
        }
        Ok(())
    }
}
