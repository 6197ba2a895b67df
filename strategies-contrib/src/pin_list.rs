//! Shards where an operator wants them.

use alloc::collections::BTreeMap;
use alloc::string::String;

use shard_core::allocation::{AllocationStrategy, ClusterView, Ledger, Needs, NodeIx, Plan, Request, Why};
use shard_core::id::ShardId;

use crate::parts::{fetch, plan_the_rest};

/// Puts single shards on nodes that are named by address, and lets the inner strategy have the others, and also the pinned
/// ones while their node is not there or takes none.
///
/// ```
/// use shard_core::{allocation::LeastShard, id::ShardId};
/// use strategies_contrib::PinList;
///
/// let strategy = PinList::new(LeastShard::default())
///     .pin(ShardId(7), "10.0.0.1:7000")
///     .pin(ShardId(8), "10.0.0.1:7000");
/// ```
#[derive(Clone, Debug)]
pub struct PinList<S> {
    inner: S,
    pins: BTreeMap<ShardId, String>,
    /// Memory kept between rounds; it carries no meaning from one to the next.
    ledger: Ledger,
}

impl<S: AllocationStrategy> PinList<S> {
    /// No pins yet.
    #[must_use]
    pub const fn new(inner: S) -> Self {
        Self { inner, pins: BTreeMap::new(), ledger: Ledger::new() }
    }

    /// Pins a shard to the node that listens at `address`. A later pin of the same shard replaces the former.
    #[must_use]
    pub fn pin(mut self, shard: ShardId, address: impl Into<String>) -> Self {
        self.pins.insert(shard, address.into());
        self
    }
}

/// The candidate to which a shard is pinned. O(log pins + log nodes).
fn pinned(pins: &BTreeMap<ShardId, String>, view: &ClusterView<'_>, shard: ShardId) -> Option<NodeIx> {
    let address = pins.get(&shard)?.as_bytes();
    // Nodes are in the byte order of their addresses; two may have the same one while one replaces the other.
    let first = view.nodes().partition_point(|node| node.address.as_bytes() < address);
    let same = (first..view.nodes().len()).take_while(|at| view.nodes()[*at].address.as_bytes() == address);
    same.map(|at| NodeIx(at as u16)).find(|ix| view.is_candidate(*ix))
}

impl<S: AllocationStrategy> AllocationStrategy for PinList<S> {
    fn name(&self) -> &'static str {
        "pin-list"
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(log pins + log nodes), or what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        pinned(&self.pins, view, request.shard).or_else(|| self.inner.place(view, request))
    }

    /// First the pinned shards that are elsewhere, then the inner strategy's moves of what is not pinned to a node that is
    /// there. O(shards x (log pins + log nodes)), and what the inner plan costs.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let pins = &self.pins;
        if fetch(view, plan, Why::Rule, |shard| pinned(pins, view, shard)) {
            let its_own = |shard| pinned(pins, view, shard).is_none();
            plan_the_rest(&mut self.inner, &mut self.ledger, view, plan, its_own);
        }
    }
}
