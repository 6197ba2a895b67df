//! Other systems' rules in the same simulator, as nearly as switches make them: for comparison, never for use.

use crate::machine::{Rule, Rules};

/// By which rules the nodes of a run give shards out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Protocol {
    /// Ours.
    #[default]
    SingleOwner,
    /// A coordinator that does not hear in time that a shard has stopped gives it to the next node all the same, as
    /// actor-ts does at its handoff timeout.
    ForcedTimeout,
    /// Besides, whoever reaches nobody greater leads: no majority is asked, no lease has to run out, and a new leader gives
    /// out at once whatever nobody around it has. So do leaders by gossip that down what they cannot reach, where neither a
    /// quorum nor a lease stops them.
    GossipLeader,
}

impl Protocol {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::SingleOwner, Self::ForcedTimeout, Self::GossipLeader];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SingleOwner => "single-owner",
            Self::ForcedTimeout => "forced-timeout",
            Self::GossipLeader => "gossip-leader",
        }
    }

    /// The one with that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|protocol| protocol.name() == name)
    }

    /// The rules that its nodes keep.
    pub(super) const fn rules(self) -> Rules {
        let ours = Rules::all();
        match self {
            Self::SingleOwner => ours,
            Self::ForcedTimeout => ours.and_without(Rule::NoForcedHandoff),
            Self::GossipLeader => ours
                .and_without(Rule::NoForcedHandoff)
                .and_without(Rule::Majority)
                .and_without(Rule::VoterSilence)
                .and_without(Rule::Quarantine),
        }
    }
}
