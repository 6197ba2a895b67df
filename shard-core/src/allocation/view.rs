//! What a strategy sees.

use alloc::{string::String, vec::Vec};

use super::{edges::Edge, layout::Seat};
use crate::{
    id::{NodeKey, ShardId},
    time::{Duration, Instant},
};

/// A node of one view: `0..nodes().len()`, in the byte order of the addresses. Good for that view only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIx(pub u16);

impl NodeIx {
    /// As an index into slices that have one item per node.
    #[inline]
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// A zone of one view: `0..zones()`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ZoneIx(pub u16);

/// A node, as far as it matters to placement.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeView {
    /// The process.
    pub id: NodeKey,
    /// Where it listens. Nodes are ordered by its bytes.
    pub address: String,
    /// What it is for.
    pub roles: Vec<String>,
    /// Where it stands.
    pub zone: ZoneIx,
    /// What its operator calls that; empty: not said.
    pub zone_name: String,
    /// What the operator says about it.
    pub metadata: Vec<(String, String)>,
    /// The version of the application it runs; a greater one is newer.
    pub version: u64,
    /// How much it can carry, compared to other nodes. At least 1; 1 unless configured.
    pub capacity: u32,
    /// What it last said about its resources; a strategy must do without.
    pub stats: Option<Stats>,
    /// Since when it has been in the cluster.
    pub up_since: Instant,
    /// Whether it takes new shards: it hosts the type, is not leaving and not deaf.
    pub accepts: bool,
    /// The coordinator's answers seem not to reach it: it takes nothing until they do, and may be about to vanish. That is no
    /// departure.
    pub deaf: bool,
}

impl NodeView {
    /// A node that accepts, with nothing known about it.
    #[must_use]
    pub fn new(id: NodeKey, address: impl Into<String>) -> Self {
        Self {
            id,
            address: address.into(),
            roles: Vec::new(),
            zone: ZoneIx(0),
            zone_name: String::new(),
            metadata: Vec::new(),
            version: 0,
            capacity: 1,
            stats: None,
            up_since: Instant::ZERO,
            accepts: true,
            deaf: false,
        }
    }

    /// Whether `role` is one of its roles.
    #[must_use]
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|own| own == role)
    }

    /// The operator's value for `key`.
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }
}

/// A node's resources, as it reported them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stats {
    /// Share of its processors in use, in thousandths.
    pub cpu_permille: u16,
    /// Bytes of memory in use.
    pub memory_used: u64,
    /// Bytes of memory it may use; zero: not known.
    pub memory_limit: u64,
    /// Entities awake.
    pub entities: u32,
}

/// The nodes and shards of one entity type at one moment: a few slices, cheap to copy. Every look-up is O(1).
#[derive(Clone, Copy, Debug)]
pub struct ClusterView<'a> {
    pub(super) now: Instant,
    pub(super) seed: u64,
    pub(super) nodes: &'a [NodeView],
    pub(super) candidates: &'a [NodeIx],
    /// Per node: whether it is in `candidates`.
    pub(super) candidate: &'a [bool],
    pub(super) seats: &'a [Seat],
    pub(super) counts: &'a [u32],
    /// Per shard, or empty.
    pub(super) loads: &'a [u32],
    /// By their shards.
    pub(super) edges: &'a [Edge],
    /// Per shard, or empty.
    pub(super) said: &'a [u32],
    /// Per shard.
    pub(super) settled: &'a [Instant],
    pub(super) in_flight: usize,
    pub(super) zones: u16,
}

impl<'a> ClusterView<'a> {
    /// The moment.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Randomness for this view.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Every node, in the byte order of the addresses.
    #[must_use]
    pub const fn nodes(&self) -> &'a [NodeView] {
        self.nodes
    }

    /// One node.
    ///
    /// # Panics
    /// If `ix` is not of this view.
    #[inline]
    #[must_use]
    pub fn node(&self, ix: NodeIx) -> &'a NodeView {
        &self.nodes[ix.at()]
    }

    /// The nodes that may be given shards, in ascending order. A filter leaves some out.
    #[must_use]
    pub const fn candidates(&self) -> &'a [NodeIx] {
        self.candidates
    }

    /// Whether `ix` may be given shards.
    #[inline]
    #[must_use]
    pub fn is_candidate(&self, ix: NodeIx) -> bool {
        self.candidate.get(ix.at()).copied().unwrap_or(false)
    }

    /// Every shard, in ascending order.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = ShardId> + use<> {
        (0..self.seats.len() as u32).map(ShardId)
    }

    /// The owner of a shard, also while it is on its way elsewhere; `None`: nobody owns it, or there is no such shard.
    #[inline]
    #[must_use]
    pub fn home(&self, shard: ShardId) -> Option<NodeIx> {
        self.seats.get(shard.0 as usize)?.home()
    }

    /// Whether a shard is on its way elsewhere, or held where it is by an outer strategy.
    #[inline]
    #[must_use]
    pub fn is_moving(&self, shard: ShardId) -> bool {
        self.seats.get(shard.0 as usize).is_some_and(Seat::is_moving)
    }

    /// How many shards are on their way.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many shards a node has, or will have when the moves in flight are over: a moving shard counts where it goes.
    #[inline]
    #[must_use]
    pub fn count(&self, ix: NodeIx) -> u32 {
        self.counts.get(ix.at()).copied().unwrap_or(0)
    }

    /// What a shard weighs, as its owner reported it; `None`: not known.
    #[inline]
    #[must_use]
    pub fn load(&self, shard: ShardId) -> Option<u32> {
        self.loads.get(shard.0 as usize).copied()
    }

    /// Which shards talk to each other, as far as anybody observed it, in the order of their numbers; empty: not known.
    #[must_use]
    pub const fn edges(&self) -> &'a [Edge] {
        self.edges
    }

    /// What a shard says to all others, edges or not; `None`: not known.
    #[inline]
    #[must_use]
    pub fn said(&self, shard: ShardId) -> Option<u32> {
        self.said.get(shard.0 as usize).copied()
    }

    /// How long a shard has been with its owner; `None`: it has none.
    #[must_use]
    pub fn age(&self, shard: ShardId) -> Option<Duration> {
        self.home(shard)?;
        Some(self.now.since(*self.settled.get(shard.0 as usize)?))
    }

    /// When a shard came to its owner.
    pub(super) fn settled_at(&self, shard: ShardId) -> Instant {
        self.settled.get(shard.0 as usize).copied().unwrap_or(Instant::ZERO)
    }

    /// The node a shard counts for: where it goes if that is known, else where it is.
    #[inline]
    pub(super) fn counted(&self, shard: ShardId) -> Option<NodeIx> {
        self.seats.get(shard.0 as usize)?.counted()
    }

    /// Whether a shard is only said to be on its way, so that it stays.
    pub(super) fn is_held(&self, shard: ShardId) -> bool {
        self.seats.get(shard.0 as usize).is_some_and(Seat::is_held)
    }

    /// How many zones there are: one more than the greatest.
    #[must_use]
    pub const fn zones(&self) -> u16 {
        self.zones
    }

    /// The same view with other counts, such as those a plan leads to.
    #[must_use]
    pub const fn with_counts(self, counts: &'a [u32]) -> Self {
        Self { counts, ..self }
    }
}
