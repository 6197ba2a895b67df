//! What an election is told when it is built, and never changes.

use alloc::vec::Vec;
use core::fmt;

use crate::id::{NodeId, NodeKey, Term};
use crate::machine::{Rule, Rules, Timing, TimingError};
use crate::time::{Duration, Instant, nanos};

/// A voter that was freed, or whose promise ran out, waits this long (plus its rank's stagger) before it campaigns, so
/// that a renewal that is merely late comes first.
const PAUSE: Duration = Duration::from_millis(10);

/// The version of the first set of voters that a cluster ever has. It is in force without proof: no node ever ran less.
pub(super) const FIRST_VERSION: u32 = 1;

/// Who votes, who this node is, and the times that all of them obey. Build it with [`ElectionConfig::new`].
#[derive(Clone, Debug)]
pub struct ElectionConfig {
    me: NodeKey,
    /// Sorted, so that every node gives a voter the same rank.
    voters: Vec<NodeId>,
    /// Which set of voters this is; the first is 1, and each differs from the one before by one voter (V2).
    version: u32,
    timing: Timing,
    rules: Rules,
    seed: u64,
    alone: bool,
}

impl ElectionConfig {
    /// A cluster whose coordinator is lent its reign by a majority of `voters`: one, three or five of them, in any order.
    /// `me` need not be a voter.
    ///
    /// # Errors
    /// What is wrong with the voters or the times; see [`ElectionConfigError`].
    pub fn new(me: NodeKey, voters: Vec<NodeId>, timing: Timing) -> Result<Self, ElectionConfigError> {
        Self::checked(me, voters, timing, &[1, 3, 5])
    }

    /// Like [`new`](Self::new), but two or four voters are allowed too: what a cluster passes through while its voters
    /// change. To stay there buys nothing: four voters survive the loss of one, as three do.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn during_change(me: NodeKey, voters: Vec<NodeId>, timing: Timing) -> Result<Self, ElectionConfigError> {
        Self::checked(me, voters, timing, &[1, 2, 3, 4, 5])
    }

    fn checked(
        me: NodeKey,
        mut voters: Vec<NodeId>,
        timing: Timing,
        counts: &[usize],
    ) -> Result<Self, ElectionConfigError> {
        voters.sort_unstable();
        if let Some(pair) = voters.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ElectionConfigError::DuplicateVoter { voter: pair[0] });
        }
        if !counts.contains(&voters.len()) {
            return Err(ElectionConfigError::VoterCount { count: voters.len() });
        }
        timing.check().map_err(ElectionConfigError::Timing)?;
        Ok(Self { me, voters, version: FIRST_VERSION, timing, rules: Rules::all(), seed: 0, alone: false })
    }

    /// Which set of voters this is: 1 for the first that the cluster ever had, and one more with each change.
    #[must_use]
    pub fn with_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// These settings with the voters of another.
    pub(super) fn with_voters_of(mut self, other: Self, version: u32) -> Self {
        (self.voters, self.version) = (other.voters, version);
        self
    }

    /// Whether a voter that runs this version listens to one who asks under `asked`: to its own and the next (V3, rule
    /// `NeighbourVersion`). An older one may have been replaced by a majority that this voter is not part of.
    pub(super) fn listens_to(&self, asked: u32) -> bool {
        let older = !self.on(Rule::NeighbourVersion) && asked.saturating_add(1) == self.version;
        asked == self.version || asked == self.version.saturating_add(1) || older
    }

    /// The seed of the jitter by which this node's campaigns avoid those of others. Two nodes should not share one.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The rules in force; only the simulator has others than [`Rules::all`].
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// A cluster that admits no other node, on a host that vouches (by an exclusive lock) that no former process of it
    /// still runs: this node is elected at once, without the silence after a start.
    ///
    /// # Errors
    /// [`ElectionConfigError::NotAlone`] if this node is not the only voter.
    pub fn alone(mut self) -> Result<Self, ElectionConfigError> {
        if self.voters != [self.me.id] {
            return Err(ElectionConfigError::NotAlone);
        }
        self.alone = true;
        Ok(self)
    }

    /// This process.
    #[must_use]
    pub const fn me(&self) -> NodeKey {
        self.me
    }

    /// The voters, ascending.
    #[must_use]
    pub fn voters(&self) -> &[NodeId] {
        &self.voters
    }

    /// Which set of voters this is.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Whether this node is one of the voters.
    #[must_use]
    pub fn votes(&self) -> bool {
        self.rank(self.me.id).is_some()
    }

    /// The times.
    #[must_use]
    pub const fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Whether this cluster admits no other node.
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        self.alone
    }

    /// Where `node` stands among the voters, if it is one: the place in the order of campaigns.
    #[must_use]
    pub fn rank(&self, node: NodeId) -> Option<usize> {
        self.voters.binary_search(&node).ok()
    }

    /// How many voters make a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        if self.on(Rule::Majority) { self.voters.len() / 2 + 1 } else { 1 }
    }

    /// The other voters, ascending.
    pub(super) fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.voters.iter().copied().filter(|voter| *voter != self.me.id)
    }

    pub(super) const fn on(&self, rule: Rule) -> bool {
        self.rules.on(rule)
    }

    /// T_v. S1 makes it longer than T_c by the clock-rate factor (rule `DriftFactor`).
    pub(super) fn lease(&self) -> Duration {
        if self.on(Rule::DriftFactor) { self.timing.lease } else { self.timing.reign }
    }

    /// Q. S2 makes it longer than T_c by the clock-rate factor (rule `DriftFactor`).
    pub(super) fn silence(&self) -> Duration {
        match (self.alone, self.on(Rule::DriftFactor)) {
            (true, _) => Duration::ZERO,
            (false, true) => self.timing.silence,
            (false, false) => self.timing.reign,
        }
    }

    /// Whether a vote for `theirs` is one for `mine`. A former life of this node may have used the same counter, so the
    /// incarnation counts (rule `Incarnation`).
    pub(super) fn same_term(&self, mine: Term, theirs: Term) -> bool {
        if self.on(Rule::Incarnation) {
            mine == theirs
        } else {
            (mine.counter, mine.node.id) == (theirs.counter, theirs.node.id)
        }
    }

    /// L1: when a node that boots now campaigns for the first time. A living coordinator renews every R, so one of its
    /// requests has come by then and has moved the campaign further off.
    pub(super) fn first_campaign(&self, now: Instant) -> Instant {
        if self.alone {
            return now;
        }
        now + self.silence() + self.timing.renew * 2 + self.stagger()
    }

    /// When a voter campaigns whose promise ends, or was given back, at `free_at`: in the order of ranks, so that the
    /// second voter normally votes for the first.
    pub(super) fn next_campaign(&self, now: Instant, free_at: Instant) -> Instant {
        free_at + PAUSE + self.stagger() + self.jitter(now)
    }

    /// When a voter campaigns that a coordinator freed by resigning: no late renewal has to be waited for.
    pub(super) fn after_resignation(&self, now: Instant) -> Instant {
        let rank = u32::try_from(self.rank(self.me.id).unwrap_or(0)).unwrap_or(0);
        now + Duration::from_millis(1) + self.timing.stagger / 4 * rank
    }

    fn stagger(&self) -> Duration {
        let rank = self.rank(self.me.id).unwrap_or(self.voters.len());
        self.timing.stagger * u32::try_from(rank).unwrap_or(u32::MAX)
    }

    /// A pure function of the seed and the moment (splitmix64's mixer), so no generator is part of the state. Two thirds
    /// of the stagger at most, so that the ranks keep their order.
    fn jitter(&self, now: Instant) -> Duration {
        let most = nanos(self.timing.stagger) / 3 * 2;
        let mut z = (self.seed ^ now.as_nanos()).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_nanos((z ^ (z >> 31)) % most.max(1))
    }
}

/// Why an [`ElectionConfig`] was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ElectionConfigError {
    /// The number of voters must be 1, 3 or 5; 2 and 4 only [during a change](ElectionConfig::during_change).
    VoterCount {
        /// How many there are.
        count: usize,
    },
    /// One voter is named twice, so it would count for two.
    DuplicateVoter {
        /// Which.
        voter: NodeId,
    },
    /// A node can only be alone if it is the only voter.
    NotAlone,
    /// The times break an inequality on which safety rests.
    Timing(TimingError),
}

impl fmt::Display for ElectionConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VoterCount { count } => write!(f, "there are {count} voters, but there must be 1, 3 or 5"),
            Self::DuplicateVoter { voter } => write!(f, "voter {voter} is named twice"),
            Self::NotAlone => f.write_str("a node that is alone must be the only voter"),
            Self::Timing(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ElectionConfigError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Timing(error) => Some(error),
            _ => None,
        }
    }
}
