//! As many shards as a node can carry, by a measure of your own.

use alloc::vec::Vec;

use shard_core::allocation::{AllocationStrategy, ClusterView, NodeIx, NodeView, Plan, Request, Why};
use shard_core::id::ShardId;

/// Gives each node shards in proportion to a capacity that you read off it: its metadata, its version, what it says about
/// its resources.
///
/// ```
/// use shard_core::allocation::NodeView;
/// use strategies_contrib::MetricCapacity;
///
/// // The operator writes `licences=12` in the metadata of a node; nodes without any get no shards.
/// let licences = |node: &NodeView| node.metadata("licences").and_then(|text| text.parse().ok()).unwrap_or(0);
/// let strategy = MetricCapacity::new(licences);
/// ```
///
/// A shard moves only if the giver is then still, for its capacity, at least as full as the taker has become; so moves come
/// to rest while the capacities stay the same. A measure that changes by the second makes shards move by the second: round
/// it. Nodes of capacity zero give away what they have.
#[derive(Clone, Debug)]
pub struct MetricCapacity<M> {
    measure: M,
    /// Memory kept between calls; it carries no meaning from one to the next.
    nodes: Vec<Load>,
}

/// A node's part of a plan in the making.
#[derive(Clone, Debug, Default)]
struct Load {
    capacity: u64,
    count: u64,
    /// What it could give, the lowest numbers last.
    movable: Vec<ShardId>,
}

impl Load {
    /// Whether giving a shard to `to` leaves this one fuller than `to` becomes, each for its capacity.
    fn should_give(&self, to: &Self) -> bool {
        to.capacity > 0 && self.count * to.capacity > (to.count + 1) * self.capacity
    }
}

impl<M: Fn(&NodeView) -> u32 + Send> MetricCapacity<M> {
    /// `measure` reads the capacity of a node.
    #[must_use]
    pub const fn new(measure: M) -> Self {
        Self { measure, nodes: Vec::new() }
    }

    /// The candidate that one more shard would fill the least.
    fn emptiest(&self, view: &ClusterView<'_>) -> Option<NodeIx> {
        let nodes = &self.nodes;
        let able = view.candidates().iter().copied().filter(|ix| nodes[ix.at()].capacity > 0);
        able.min_by(|a, b| {
            let (one, other) = (&nodes[a.at()], &nodes[b.at()]);
            ((one.count + 1) * other.capacity).cmp(&((other.count + 1) * one.capacity)).then(a.cmp(b))
        })
    }

    fn read(&mut self, view: &ClusterView<'_>, count: impl Fn(NodeIx) -> u32) {
        self.nodes.clear();
        self.nodes.extend((0..).map(NodeIx).zip(view.nodes()).map(|(ix, node)| Load {
            capacity: u64::from((self.measure)(node)),
            count: u64::from(count(ix)),
            movable: Vec::new(),
        }));
    }
}

impl<M: Fn(&NodeView) -> u32 + Send> AllocationStrategy for MetricCapacity<M> {
    fn name(&self) -> &'static str {
        "metric-capacity"
    }

    /// O(nodes).
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        self.read(view, |ix| view.count(ix));
        self.emptiest(view)
    }

    /// From the fullest node that has something to give to the one that it fills the least. O(shards + moves x candidates).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        self.read(view, |ix| plan.count(ix));
        for shard in (0..view.shards().len() as u32).rev().map(ShardId) {
            if let Some(home) = view.home(shard).filter(|_| !plan.is_moving(shard)) {
                self.nodes[home.at()].movable.push(shard);
            }
        }
        while plan.budget() > 0 {
            let Some(to) = self.emptiest(view) else { return };
            let nodes = &self.nodes;
            let willing =
                |ix: &NodeIx| !nodes[ix.at()].movable.is_empty() && nodes[ix.at()].should_give(&nodes[to.at()]);
            let from = view.candidates().iter().copied().filter(willing).max_by(|a, b| {
                let (one, other) = (&nodes[a.at()], &nodes[b.at()]);
                (one.count * other.capacity).cmp(&(other.count * one.capacity)).then(b.cmp(a))
            });
            let Some(from) = from else { return };
            let Some(shard) = self.nodes[from.at()].movable.pop() else { return };
            if plan.propose(shard, to, Why::Load).is_err() {
                return;
            }
            self.nodes[from.at()].count -= 1;
            self.nodes[to.at()].count += 1;
        }
    }
}
