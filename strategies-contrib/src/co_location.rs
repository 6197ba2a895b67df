//! What talks to each other on one node.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use shard_core::allocation::{AllocationStrategy, ClusterView, Ledger, Needs, NodeIx, Plan, Rejected, Request, Why};
use shard_core::id::ShardId;

use crate::parts::plan_the_rest;

/// Keeps all shards of a group on one node, and lets the inner strategy choose the node, and have the shards of no group.
///
/// ```
/// use shard_core::{allocation::LeastShard, id::ShardId};
/// use strategies_contrib::CoLocation;
///
/// // Orders and their payments: even shards of one type, odd shards for what belongs to them.
/// let strategy = CoLocation::new(LeastShard::default(), |shard: ShardId| Some(u64::from(shard.0 / 2)));
/// ```
///
/// A group gathers where most of it is. Groups are not moved to balance nodes: that would take all of a group at once, and
/// a group without a node is placed where the inner strategy says, so new groups fill the emptier nodes.
#[derive(Clone, Debug)]
pub struct CoLocation<S, F> {
    inner: S,
    group_of: F,
    /// Memory kept between rounds; it carries no meaning from one to the next.
    ledger: Ledger,
}

impl<S: AllocationStrategy, F: Fn(ShardId) -> Option<u64> + Send> CoLocation<S, F> {
    /// `group_of` gives the group of a shard.
    #[must_use]
    pub const fn new(inner: S, group_of: F) -> Self {
        Self { inner, group_of, ledger: Ledger::new() }
    }
}

/// The candidate that has most of these shards, the lowest address first. What is on its way does not count.
fn gathering(view: &ClusterView<'_>, group: impl Iterator<Item = ShardId>) -> Option<NodeIx> {
    let mut members: BTreeMap<NodeIx, u32> = BTreeMap::new();
    let resting = group.filter(|shard| !view.is_moving(*shard)).filter_map(|shard| view.home(shard));
    resting.filter(|home| view.is_candidate(*home)).for_each(|home| *members.entry(home).or_default() += 1);
    members.into_iter().max_by_key(|(ix, members)| (*members, core::cmp::Reverse(*ix))).map(|(ix, _)| ix)
}

impl<S: AllocationStrategy, F: Fn(ShardId) -> Option<u64> + Send> AllocationStrategy for CoLocation<S, F> {
    fn name(&self) -> &'static str {
        "co-location"
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(shards), and what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let with_its_group = (self.group_of)(request.shard)
            .and_then(|group| gathering(view, view.shards().filter(|shard| (self.group_of)(*shard) == Some(group))));
        with_its_group.or_else(|| self.inner.place(view, request))
    }

    /// First the shards that are not with their group, then the inner strategy's moves of those without one.
    /// O(shards log shards), and what the inner plan costs.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let group_of = &self.group_of;
        let mut groups: Vec<_> = view.shards().filter_map(|shard| Some((group_of(shard)?, shard))).collect();
        groups.sort_unstable();
        for group in groups.chunk_by(|a, b| a.0 == b.0) {
            let Some(to) = gathering(view, group.iter().map(|(_, shard)| *shard)) else { continue };
            for (_, shard) in group {
                let astray = view.home(*shard).is_some_and(|home| home != to) && !plan.is_moving(*shard);
                if astray && plan.propose(*shard, to, Why::Affinity) == Err(Rejected::BudgetSpent) {
                    return;
                }
            }
        }
        plan_the_rest(&mut self.inner, &mut self.ledger, view, plan, |shard| group_of(shard).is_none());
    }
}
