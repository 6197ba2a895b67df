//! Consistent hashing with bounded loads.

use alloc::vec::Vec;

use shard_core::allocation::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why};
use shard_core::id::ShardId;
use shard_core::prng::mix;

use crate::parts::fetch;

/// Nodes and shards stand on a ring, and a shard belongs to the next node that has room, where room is an even share and
/// some percent more (Mirrokni, Thorup and Zadimoghaddam, 2016).
///
/// ```
/// use strategies_contrib::BoundedLoad;
///
/// // No node has more than a quarter above an even share.
/// let strategy = BoundedLoad::new(25);
/// ```
///
/// Any process that knows the nodes can tell who owns what, without asking. Its limits:
/// - **It moves more than it must.** A shard that finds its node full takes room on the next one, which may push another on.
///   The smaller the slack, the longer such chains. When an eleventh node joins ten with a thousand shards, 91 must move, and
///   115 do without slack, 99 with 25 %; in clusters of sixty shards and fewer, up to five times what must.
/// - It looks at counts only, not at loads, and knows nodes by their ids: one that comes back under a new id is another.
/// - A shard that finds no room goes to the next on the ring, not to the least busy, so counts differ up to the bound.
#[derive(Clone, Debug)]
pub struct BoundedLoad {
    slack_percent: u32,
    /// What was calculated last, and for which nodes; calculating it again would give the same.
    homes: Vec<NodeIx>,
    known: Vec<(NodeIx, u64)>,
}

/// Places on the ring per node: more make shares more even, and the ring slower to build.
const POINTS: u64 = 64;
/// Keeps shards and nodes from standing on the same places.
const SHARDS: u64 = 0x5a4d;

impl BoundedLoad {
    /// Nodes have room for `slack_percent` more than an even share, and for one shard at least.
    #[must_use]
    pub const fn new(slack_percent: u32) -> Self {
        Self { slack_percent, homes: Vec::new(), known: Vec::new() }
    }

    /// Where every shard belongs. O(nodes), or O((shards + nodes) log nodes) when the candidates are others than before.
    fn homes(&mut self, view: &ClusterView<'_>) -> &[NodeIx] {
        let shards = view.shards().len();
        let ids = view.candidates().iter().map(|ix| (*ix, view.node(*ix).id.id.0));
        if self.homes.len() == shards && self.known.iter().copied().eq(ids.clone()) {
            return &self.homes;
        }
        self.known.clear();
        self.known.extend(ids);
        self.homes.clear();
        if self.known.is_empty() {
            return &self.homes;
        }
        let mut ring: Vec<(u64, u64, NodeIx)> = Vec::new();
        for (ix, id) in &self.known {
            ring.extend((0..POINTS).map(|point| (mix(*id, point), *id, *ix)));
        }
        ring.sort_unstable();
        let nodes = self.known.len() as u64;
        // Rounded up: together the nodes have room for all.
        let room = (shards as u64 * u64::from(100 + self.slack_percent)).div_ceil(100 * nodes);
        let mut counts = alloc::vec![0_u64; view.nodes().len()];
        for shard in view.shards() {
            let place = mix(SHARDS, u64::from(shard.0));
            let first = ring.partition_point(|(point, ..)| *point < place);
            let next = ring[first..].iter().chain(&ring[..first]).find(|(.., ix)| counts[ix.at()] < room);
            let Some((.., ix)) = next else { break };
            counts[ix.at()] += 1;
            self.homes.push(*ix);
        }
        &self.homes
    }
}

impl AllocationStrategy for BoundedLoad {
    fn name(&self) -> &'static str {
        "bounded-load"
    }

    /// O(nodes) while the candidates stay the same.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.homes(view).get(request.shard.0 as usize).copied()
    }

    /// Every shard that is not where the ring has it. O(shards).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let homes = self.homes(view);
        fetch(view, plan, Why::Rule, |ShardId(shard)| homes.get(shard as usize).copied());
    }
}
