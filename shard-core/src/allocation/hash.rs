//! By number: the seed system's default.

use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Rejected, Request, Why};

/// Shard `n` belongs to candidate `n % candidates`, in the byte order of the addresses. Every node can tell the owner
/// without asking, but when a node comes or goes nearly all shards move: from three nodes to four, three of four.
///
/// Differs from the seed: it orders by bytes, not by locale, and its moves keep the plan's budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hash;

impl AllocationStrategy for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }

    /// O(1).
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let candidates = view.candidates();
        let at = (request.shard.0 as usize).checked_rem(candidates.len())?;
        candidates.get(at).copied()
    }

    /// Every shard whose owner is not the one the rule names, in ascending order. O(shards).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        for (shard, desired) in view.shards().zip(view.candidates().iter().copied().cycle()) {
            let strayed = view.home(shard).is_some_and(|home| home != desired);
            if strayed && plan.propose(shard, desired, Why::Rule) == Err(Rejected::BudgetSpent) {
                return;
            }
        }
    }
}
