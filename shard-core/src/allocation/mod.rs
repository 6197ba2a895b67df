//! Who shall own a shard, and which shards should move.
//!
//! An [`AllocationStrategy`] sees a [`ClusterView`] and answers with a node, or proposes moves to a [`Plan`], which itself
//! keeps the limits: a strategy cannot move what is moving, to a node that takes nothing, or more than its budget. A
//! strategy decides nothing about safety: whoever it names, a shard is granted only when its former owner has dropped it
//! or is known to be dead. May import the ground floor, the contract and `shuffle`, which deals hands of nodes to tenants.
//!
//! What every strategy promises, ours and yours (`sim::laws` checks it): the same view and request give the same answer;
//! the order in which nodes joined does not matter; and on a view that nobody disturbs, plans come to rest: after
//! finitely many rounds there are no moves, and there never are any again.
//!
//! ```
//! use shard_core::allocation::{AllocationStrategy, ClusterView, NodeIx, Request};
//!
//! /// The node with the most room.
//! struct Roomiest;
//!
//! impl AllocationStrategy for Roomiest {
//!     fn name(&self) -> &'static str {
//!         "roomiest"
//!     }
//!     fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
//!         let room = |ix: &NodeIx| view.node(*ix).capacity.saturating_sub(view.count(*ix));
//!         view.candidates().iter().copied().max_by_key(room)
//!     }
//! }
//! let strategy = Roomiest.only(|view: &ClusterView<'_>, ix| view.node(ix).has_role("backend"));
//! ```
//!
//! | strategy | places | moves | for |
//! |---|---|---|---|
//! | [`LeastShard`] | where the fewest are | until counts are one apart | the default |
//! | [`TwoPhaseLeastShard`], [`ThresholdLeastShard`], [`SeedLeastShard`] | likewise | as Akka and actor-ts do | clusters that shall behave as they did |
//! | [`ZoneSpread`] | in the zone with the fewest | until zones and nodes are one apart | surviving the loss of a zone |
//! | [`WeightedMove`] | where most room is by count | load, within a budget | shards that differ in load |
//! | [`Rebalancing`] | the inner one's | load towards nodes with memory to spare | nodes that fill up unevenly |
//! | [`Repartitioning`] | the inner one's | what talks to each other onto one node | shards that call each other |
//! | [`WeightedRendezvous`] | by draw and capacity | what a change of nodes calls for | homes that outlive a full restart |
//! | [`ConsistentHashing`], [`Hash`](struct@Hash) | by ring, by number | what the rule names | owners that others compute too |
//! | [`TwoChoices`], [`ActivationCount`] | the better of a few drawn | nothing | very many nodes; nodes that warm up |
//! | [`ResourceOptimized`] | by processors, memory and entities | nothing | entities that differ in what they cost |
//! | [`Random`], [`PreferLocal`] | anywhere, near the caller | nothing, the inner one's | very many shards; one caller to a shard |
//! | [`Immovable`] | as the inner one | nothing | entities that are dear to wake |
//! | [`External`], [`Pins`] | where users or operators say | what they say, then the inner one's | control from outside |
//! | [`VersionAware`], [`ByTenant`] | among the newest, in the tenant's hand | the inner one's among these | rolling updates; tenants apart |
//! | [`ByRole`] | among the nodes of the shard's role | what strayed | nodes that are for different things |
//!
//! [`named`] makes those that need no arguments by their names.
//!
//! Filters narrow the candidates of any of them, through [`only`](AllocationStrategy::only) and
//! [`preferring`](AllocationStrategy::preferring): [`RequiredMatch`], [`PreferredMatch`], [`InZones`], [`VersionMatch`],
//! [`HasRole`], [`NotOverloaded`], closures, and a [`Chain`] of these.

mod by_role;
mod by_tenant;
mod chain;
mod choices;
mod consistent_hashing;
mod edges;
mod external;
mod filter;
mod first_few;
mod hash;
mod held;
mod immovable;
mod layout;
mod least_shard;
mod metadata_match;
mod named;
mod overload;
mod pairs;
mod pins;
mod plan;
mod random;
mod rebalancing;
mod repartitioning;
mod resource_optimized;
mod returning;
mod seed_least_shard;
mod shared;
mod smoothing;
mod switch;
#[cfg(test)]
mod tests;
mod threshold_least_shard;
mod two_phase;
mod version_aware;
mod version_match;
mod view;
mod weighted_move;
mod weighted_rendezvous;
mod zone_spread;

use alloc::boxed::Box;

pub use by_role::ByRole;
pub use by_tenant::ByTenant;
pub use chain::{Chain, DuplicateOrder};
pub use choices::{ActivationCount, TwoChoices};
pub use consistent_hashing::ConsistentHashing;
pub use edges::Edge;
pub use external::{External, Homes};
pub use filter::{Filter, Only, Preferring};
pub use hash::Hash;
pub use immovable::Immovable;
pub use layout::Layout;
pub use least_shard::LeastShard;
pub use metadata_match::{PreferredMatch, RequiredMatch};
pub use named::{UnknownStrategy, named, names};
pub use overload::{HasRole, NotOverloaded};
pub use pins::{Orders, Pins};
pub use plan::{Ledger, Limits, Move, Plan, Rejected, Why};
pub use random::{PreferLocal, Random};
pub use rebalancing::Rebalancing;
pub use repartitioning::{Balance, HeavyKeys, HeavyPairs, Repartitioning};
pub use resource_optimized::{OutOfRange, ResourceOptimized, Weights};
pub use returning::Returning;
pub use seed_least_shard::SeedLeastShard;
#[cfg(any(test, feature = "std"))]
pub use shared::Shared;
pub use shared::Source;
pub use smoothing::{DualModeKalman, PeakHold};
pub use switch::{Report, Switch};
pub use threshold_least_shard::ThresholdLeastShard;
pub use two_phase::TwoPhaseLeastShard;
pub use version_aware::VersionAware;
pub use version_match::{InZones, VersionMatch};
pub use view::{ClusterView, NodeIx, NodeView, Stats, ZoneIx};
pub use weighted_move::WeightedMove;
pub use weighted_rendezvous::WeightedRendezvous;
pub use zone_spread::ZoneSpread;

use crate::id::ShardId;

/// A placement rule. A coordinator starts a fresh one with every reign; what it remembers, it remembers by node id, since
/// a [`NodeIx`] is good for one view only.
///
/// It runs on the control path, so it may allocate, but not wait. Rule for its cost: O(shards + budget x nodes) a call.
pub trait AllocationStrategy: Send {
    /// What it is called in logs and plans.
    fn name(&self) -> &'static str;

    /// The node that shall own a shard which has none; `None`: no node can, ask again when the view changes. An answer
    /// that is no candidate counts as `None`.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx>;

    /// What it looks at that nodes gather only if somebody does. By default nothing. A strategy around another needs what that
    /// needs.
    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    /// Proposes moves, the most useful ones first. By default: none, ever.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let _ = (view, plan);
    }

    /// This strategy, among the nodes that `filter` admits and no others: without any, shards wait; and shards that sit
    /// on candidates it does not admit are moved.
    fn only<F: Filter>(self, filter: F) -> Only<Self, F>
    where
        Self: Sized,
    {
        Only::new(self, filter)
    }

    /// This strategy, among the nodes that `filter` admits, or among all while it admits none.
    fn preferring<F: Filter>(self, filter: F) -> Preferring<Self, F>
    where
        Self: Sized,
    {
        Preferring::new(self, filter)
    }
}

impl<S: AllocationStrategy + ?Sized> AllocationStrategy for Box<S> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        (**self).place(view, request)
    }

    fn needs(&self) -> Needs {
        (**self).needs()
    }

    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        (**self).plan(view, plan);
    }
}

/// What a strategy looks at that nodes gather only if the strategy of the type, as they have it, needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Needs {
    /// The shards' loads ([`ClusterView::load`]).
    pub loads: bool,
    /// Which shards talk to each other ([`ClusterView::edges`]). What a handler sends to another shard of its own type is observed,
    /// not what tasks send that it spawned, nor what goes to other types. It costs 50 to 110 ns a message (bench `allocation`).
    pub traffic: bool,
}

impl Needs {
    /// Nothing.
    pub const NOTHING: Self = Self { loads: false, traffic: false };

    /// Loads as well.
    #[must_use]
    pub const fn with_loads(self) -> Self {
        Self { loads: true, ..self }
    }

    /// Traffic as well.
    #[must_use]
    pub const fn with_traffic(self) -> Self {
        Self { traffic: true, ..self }
    }
}

/// A shard without a home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The shard.
    pub shard: ShardId,
    /// The node that asked first, if it is in the view.
    pub asker: Option<NodeIx>,
    /// Randomness for this decision alone, so that it does not depend on the decisions before it.
    pub seed: u64,
}

impl Request {
    /// A request for `shard` that nobody in particular made.
    #[must_use]
    pub const fn new(shard: ShardId, seed: u64) -> Self {
        Self { shard, asker: None, seed }
    }

    /// The same, made by `asker`.
    #[must_use]
    pub const fn asked_by(self, asker: NodeIx) -> Self {
        Self { asker: Some(asker), ..self }
    }
}
