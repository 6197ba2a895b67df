//! Moves, and the limits they keep.

use alloc::vec::Vec;
use core::fmt;

use super::{
    AllocationStrategy,
    view::{ClusterView, NodeIx},
};
use crate::id::ShardId;

/// How many moves there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// In one plan.
    pub moves_per_round_max: usize,
    /// At once, those of earlier plans that are still on their way included.
    pub in_flight_max: usize,
}

impl Default for Limits {
    /// A hundred of each: some five hundred shards a second, if entities stop within 200 ms.
    fn default() -> Self {
        Self { moves_per_round_max: 100, in_flight_max: 100 }
    }
}

/// One move.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Move {
    /// The shard.
    pub shard: ShardId,
    /// Its owner.
    pub from: NodeIx,
    /// Its next owner, if it still accepts by then.
    pub to: NodeIx,
    /// What for.
    pub why: Why,
}

/// What a move is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Why {
    /// The counts of shards were uneven.
    Count,
    /// The loads were uneven.
    Load,
    /// A fixed rule names another node.
    Rule,
    /// A filter does not admit the node it is on.
    Filter,
    /// Another zone needs it.
    Zone,
    /// Another node has the role it asks for.
    Role,
    /// It belongs near what it talks to.
    Affinity,
    /// Its node runs an old version.
    Version,
    /// A reason of a strategy of your own.
    Other(&'static str),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "count",
            Self::Load => "load",
            Self::Rule => "rule",
            Self::Filter => "filter",
            Self::Zone => "zone",
            Self::Role => "role",
            Self::Affinity => "affinity",
            Self::Version => "version",
            Self::Other(why) => why,
        })
    }
}

/// Why a proposal was not taken into the plan. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejected {
    /// The plan is full, or as many moves are in flight as may be. Every later proposal will be rejected too.
    BudgetSpent,
    /// It has no owner to be moved from, or does not exist.
    NoHome,
    /// It is on its way already, or was proposed in this plan.
    AlreadyMoving,
    /// The destination takes no shards.
    NotACandidate,
    /// The destination owns it.
    AlreadyThere,
}

/// What the coordinator keeps from one plan to the next, so that planning allocates little: the moves of the last round.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    moves: Vec<Move>,
    counts: Vec<u32>,
    /// One bit per shard: proposed in this round.
    proposed: Vec<u64>,
    budget: usize,
    /// By [`Rejected`]: how often, in this round.
    refused: [u32; 5],
    misled: u32,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub const fn new() -> Self {
        Self { moves: Vec::new(), counts: Vec::new(), proposed: Vec::new(), budget: 0, refused: [0; 5], misled: 0 }
    }

    /// Asks `strategy` for one round of moves on `view`. O(shards / 64 + nodes), and what the strategy costs.
    pub fn round<S: AllocationStrategy + ?Sized>(
        &mut self,
        strategy: &mut S,
        view: &ClusterView<'_>,
        limits: Limits,
    ) -> &[Move] {
        self.moves.clear();
        self.counts.clear();
        self.counts.extend_from_slice(view.counts);
        self.proposed.clear();
        self.proposed.resize(view.seats.len().div_ceil(64), 0);
        self.budget = limits.moves_per_round_max.min(limits.in_flight_max.saturating_sub(view.in_flight()));
        self.refused = [0; 5];
        self.misled = 0;
        strategy.plan(view, &mut Plan { view: *view, whole: *view, ledger: self });
        &self.moves
    }

    /// The moves of the last round, in the order proposed.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// How many proposals of the last round were not taken for the reason `why`.
    #[must_use]
    pub const fn refused(&self, why: Rejected) -> u32 {
        self.refused[why as usize]
    }

    /// How many proposals of the last round were for shards on their way that rested in the view given to
    /// [`Plan::within`]: the strategy planned on a copy that is not true. They were not taken.
    #[must_use]
    pub const fn misled(&self) -> u32 {
        self.misled
    }
}

/// The moves of one round, in the making. It holds the laws: whatever a strategy proposes, only what is sound gets in.
#[derive(Debug)]
pub struct Plan<'a> {
    /// What the strategy sees.
    view: ClusterView<'a>,
    /// What there is: a view that a strategy made for itself may be wrong.
    whole: ClusterView<'a>,
    ledger: &'a mut Ledger,
}

impl Plan<'_> {
    /// How many more moves fit.
    #[must_use]
    pub fn budget(&self) -> usize {
        self.ledger.budget
    }

    /// The moves so far.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.ledger.moves
    }

    /// How many shards a node will have when everything in flight and everything proposed so far is over.
    #[inline]
    #[must_use]
    pub fn count(&self, ix: NodeIx) -> u32 {
        self.ledger.counts.get(ix.at()).copied().unwrap_or(0)
    }

    /// [`count`](Self::count) of every node; with [`ClusterView::with_counts`], a view of the cluster after this plan.
    #[must_use]
    pub fn counts(&self) -> &[u32] {
        &self.ledger.counts
    }

    /// Whether a shard is on its way, or was proposed in this plan.
    #[inline]
    #[must_use]
    pub fn is_moving(&self, shard: ShardId) -> bool {
        self.view.is_moving(shard) || self.is_proposed(shard)
    }

    /// Proposes to move `shard` to `to`. O(1).
    ///
    /// # Errors
    /// If the move would break a limit or makes no sense; the plan is as it was.
    pub fn propose(&mut self, shard: ShardId, to: NodeIx, why: Why) -> Result<(), Rejected> {
        let judged = self.judge(shard, to);
        let from = judged.inspect_err(|why| self.ledger.refused[*why as usize] += 1)?;
        self.ledger.budget -= 1;
        self.ledger.counts[from.at()] -= 1;
        self.ledger.counts[to.at()] += 1;
        self.ledger.proposed[shard.0 as usize / 64] |= 1 << (shard.0 % 64);
        self.ledger.moves.push(Move { shard, from, to, why });
        Ok(())
    }

    /// The node that `shard` would leave for `to`, if it may.
    fn judge(&mut self, shard: ShardId, to: NodeIx) -> Result<NodeIx, Rejected> {
        if self.ledger.budget == 0 {
            return Err(Rejected::BudgetSpent);
        }
        let from = self.view.home(shard).and(self.whole.home(shard)).ok_or(Rejected::NoHome)?;
        if self.is_moving(shard) {
            return Err(Rejected::AlreadyMoving);
        }
        if self.whole.is_moving(shard) {
            self.ledger.misled += 1;
            return Err(Rejected::AlreadyMoving);
        }
        if !(self.view.is_candidate(to) && self.whole.is_candidate(to)) {
            return Err(Rejected::NotACandidate);
        }
        if from == to {
            return Err(Rejected::AlreadyThere);
        }
        Ok(from)
    }

    /// The same plan for a strategy that shall see `view` only: what it proposes must keep to the candidates of `view`.
    pub fn within<'b>(&'b mut self, view: &ClusterView<'b>) -> Plan<'b> {
        Plan { view: *view, whole: self.whole, ledger: self.ledger }
    }

    #[inline]
    fn is_proposed(&self, shard: ShardId) -> bool {
        self.ledger.proposed.get(shard.0 as usize / 64).is_some_and(|bits| bits >> (shard.0 % 64) & 1 == 1)
    }
}
