//! Shards of a group on different nodes.

use alloc::vec::Vec;

use shard_core::allocation::{AllocationStrategy, ClusterView, NodeIx, Plan, Rejected, Request, Why};
use shard_core::id::ShardId;

use crate::parts::fewest;

/// Keeps the shards of a group apart: the replicas of one thing, which must not be lost together. Use it with a shard
/// function that puts replica `r` of thing `t` on a shard of its own.
///
/// ```
/// use shard_core::id::ShardId;
/// use strategies_contrib::AntiAffinity;
///
/// // Three replicas each: shards 0, 1 and 2 are of one group, 3, 4 and 5 of the next.
/// let strategy = AntiAffinity::new(|shard: ShardId| Some(u64::from(shard.0 / 3)));
/// ```
///
/// With more shards in a group than there are candidates, nodes differ by one of the group at most. A shard moves only if
/// that brings its group further apart, and one at a time of each group: replicas should not all be on their way at once.
/// Shards of no group go where the fewest are, and stay.
#[derive(Clone, Debug)]
pub struct AntiAffinity<F> {
    group_of: F,
    /// Memory kept between calls; it carries no meaning from one to the next.
    groups: Vec<(u64, ShardId)>,
    members: Vec<u32>,
}

impl<F: Fn(ShardId) -> Option<u64> + Send> AntiAffinity<F> {
    /// `group_of` gives the group of a shard.
    #[must_use]
    pub const fn new(group_of: F) -> Self {
        Self { group_of, groups: Vec::new(), members: Vec::new() }
    }

    /// Counts the shards of one group on each node.
    fn count(&mut self, view: &ClusterView<'_>, group: impl Iterator<Item = ShardId>) {
        self.members.clear();
        self.members.resize(view.nodes().len(), 0);
        group.filter_map(|shard| view.home(shard)).for_each(|home| self.members[home.at()] += 1);
    }
}

impl<F: Fn(ShardId) -> Option<u64> + Send> AllocationStrategy for AntiAffinity<F> {
    fn name(&self) -> &'static str {
        "anti-affinity"
    }

    /// The node with the fewest of its group, then the one with the fewest shards. O(shards + candidates).
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let Some(group) = (self.group_of)(request.shard) else { return fewest(view, |_| true) };
        let own: Vec<ShardId> = view.shards().filter(|shard| (self.group_of)(*shard) == Some(group)).collect();
        self.count(view, own.into_iter());
        let members = &self.members;
        view.candidates().iter().copied().min_by_key(|ix| (members[ix.at()], view.count(*ix), *ix))
    }

    /// Group by group, one shard from the node with the most to the node with the fewest, if they differ by two or more.
    /// O(shards log shards + groups x nodes).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let mut groups = core::mem::take(&mut self.groups);
        groups.clear();
        groups.extend(view.shards().filter_map(|shard| Some(((self.group_of)(shard)?, shard))));
        groups.sort_unstable();
        for group in groups.chunk_by(|a, b| a.0 == b.0) {
            // The view does not say where a shard goes, so a group waits until all of it has arrived.
            if group.iter().any(|(_, shard)| plan.is_moving(*shard)) {
                continue;
            }
            self.count(view, group.iter().map(|(_, shard)| *shard));
            let members = |ix: &NodeIx| self.members[ix.at()];
            let to = view.candidates().iter().min_by_key(|ix| (members(ix), plan.count(**ix), **ix));
            let from = view.candidates().iter().max_by_key(|ix| (members(ix), plan.count(**ix), **ix));
            let (Some(from), Some(to)) = (from, to) else { break };
            if members(from) < members(to) + 2 {
                continue;
            }
            let shard = group.iter().find(|(_, shard)| view.home(*shard) == Some(*from));
            let moved = shard.map(|(_, shard)| plan.propose(*shard, *to, Why::Other("apart")));
            if moved == Some(Err(Rejected::BudgetSpent)) {
                break;
            }
        }
        self.groups = groups;
    }
}
