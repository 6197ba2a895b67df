//! What several strategies here need, for yours to use as well.

use alloc::vec::Vec;

use shard_core::allocation::{
    AllocationStrategy, ClusterView, Layout, Ledger, Limits, NodeIx, NodeView, Plan, Rejected, Why,
};
use shard_core::id::ShardId;

/// The candidate with the fewest shards, the lowest address first. O(candidates).
#[must_use]
pub fn fewest(view: &ClusterView<'_>, admitted: impl Fn(NodeIx) -> bool) -> Option<NodeIx> {
    view.candidates().iter().copied().filter(|ix| admitted(*ix)).min_by_key(|ix| (view.count(*ix), *ix))
}

/// Moves every shard that is not where a fixed rule wants it, in ascending order, while the plan has room. `None` from the
/// rule: the shard may stay where it is. False when the plan takes no more. O(shards).
pub fn fetch(
    view: &ClusterView<'_>,
    plan: &mut Plan<'_>,
    why: Why,
    mut desired: impl FnMut(ShardId) -> Option<NodeIx>,
) -> bool {
    for shard in view.shards() {
        let Some(home) = view.home(shard) else { continue };
        if plan.is_moving(shard) {
            continue;
        }
        if let Some(to) = desired(shard).filter(|to| *to != home)
            && plan.propose(shard, to, why) == Err(Rejected::BudgetSpent)
        {
            return false;
        }
    }
    true
}

/// Lets `inner` plan for the shards that are its own, on a copy of the view in which the others have no owner, so that it
/// cannot move them, while the counts still say what each node carries.
///
/// Without the copy, an inner strategy that balances would propose shards that an outer one has put in their place, and the
/// two would undo each other's moves for ever. O(shards + nodes), and what the inner plan costs.
pub fn plan_the_rest(
    inner: &mut dyn AllocationStrategy,
    ledger: &mut Ledger,
    view: &ClusterView<'_>,
    plan: &mut Plan<'_>,
    its_own: impl Fn(ShardId) -> bool,
) {
    if plan.budget() == 0 {
        return;
    }
    let mut rest = Layout::new(view.shards().len() as u32);
    // A filter around the outer strategy may leave candidates out; the copy must say the same. Both list nodes in the order
    // of their addresses, so that a `NodeIx` means the same node in both.
    let mut nodes: Vec<NodeView> = view.nodes().to_vec();
    for (ix, node) in (0..).map(NodeIx).zip(&mut nodes) {
        node.accepts = view.is_candidate(ix);
    }
    rest.set_nodes(nodes);
    for shard in view.shards() {
        let Some(home) = view.home(shard) else { continue };
        let moving = plan.is_moving(shard);
        if !moving && !its_own(shard) {
            continue;
        }
        rest.settle(view.now() - view.age(shard).unwrap_or_default(), shard, home);
        if moving {
            // Whoever limits what is under way sees it.
            rest.depart(shard, None);
        }
    }
    for shard in view.shards() {
        if let Some(load) = view.load(shard) {
            rest.set_load(shard, load);
        }
        if let Some(said) = view.said(shard) {
            rest.set_said(shard, said);
        }
    }
    rest.set_edges(view.edges().to_vec());
    let limits = Limits { moves_per_round_max: plan.budget(), in_flight_max: usize::MAX };
    let rest = rest.view(view.now(), view.seed()).with_counts(plan.counts());
    for wanted in ledger.round(inner, &rest, limits) {
        if plan.propose(wanted.shard, wanted.to, wanted.why) == Err(Rejected::BudgetSpent) {
            return;
        }
    }
}
