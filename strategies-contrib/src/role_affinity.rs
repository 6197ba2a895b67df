//! The first shards of a type belong to nodes with a role.

use alloc::string::String;
use alloc::vec::Vec;

use shard_core::allocation::{
    AllocationStrategy, ClusterView, Layout, Ledger, Limits, Needs, NodeIx, NodeView, Plan, Rejected, Request, Why,
};
use shard_core::id::ShardId;

/// Shards below a number live on nodes with a role, and are fetched home when such a node joins; the others, and all of
/// them while no candidate has the role, go where the inner strategy wants them.
///
/// Use it with a shard function that gives the low shards a meaning, such as "coordinators of tenants".
///
/// ```
/// use shard_core::{allocation::LeastShard, id::ShardId};
/// use strategies_contrib::RoleAffinity;
///
/// let strategy = RoleAffinity::new("coordinator", ShardId(10), LeastShard::default());
/// ```
///
/// A pinned shard stays on the node that has it while that node has the role and is a candidate, so a second node with
/// the role gets new pinned shards and those that lost their home, but takes none away: movement is the least that the
/// rule asks for.
#[derive(Clone, Debug)]
pub struct RoleAffinity<S> {
    role: String,
    below: ShardId,
    inner: S,
    /// Memory kept between rounds; it carries no meaning from one to the next.
    ledger: Ledger,
}

impl<S: AllocationStrategy> RoleAffinity<S> {
    /// Pins the shards `0..below` to candidates with `role`.
    #[must_use]
    pub fn new(role: impl Into<String>, below: ShardId, inner: S) -> Self {
        Self { role: role.into(), below, inner, ledger: Ledger::new() }
    }

    /// Whether a pinned shard may stay on `ix`.
    fn suits(&self, view: &ClusterView<'_>, ix: NodeIx) -> bool {
        view.is_candidate(ix) && view.node(ix).has_role(&self.role)
    }

    /// The suitable node with the fewest shards, the lowest address first.
    fn home_of_pinned(&self, view: &ClusterView<'_>, count: impl Fn(NodeIx) -> u32) -> Option<NodeIx> {
        view.candidates().iter().copied().filter(|ix| self.suits(view, *ix)).min_by_key(|ix| (count(*ix), *ix))
    }

    /// Fetches pinned shards home. False when the plan takes no more.
    fn fetch_pinned(&self, view: &ClusterView<'_>, plan: &mut Plan<'_>) -> bool {
        for shard in view.shards().take_while(|shard| *shard < self.below) {
            let astray = view.home(shard).is_some_and(|home| !self.suits(view, home));
            if !astray || plan.is_moving(shard) {
                continue;
            }
            let Some(to) = self.home_of_pinned(view, |ix| plan.count(ix)) else { return true };
            if plan.propose(shard, to, Why::Role) == Err(Rejected::BudgetSpent) {
                return false;
            }
        }
        true
    }

    /// Lets the inner strategy plan on a copy of the view in which resting pinned shards have no owner, so that it cannot
    /// move them, while `plan`'s counts still say what each node carries. Without the copy, an inner strategy that balances
    /// would propose pinned shards for ever, and the two halves would undo each other's moves.
    fn plan_the_rest(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let rest = self.without_pinned(view, plan);
        let limits = Limits { moves_per_round_max: plan.budget(), in_flight_max: usize::MAX };
        let rest = rest.view(view.now(), view.seed()).with_counts(plan.counts());
        for wanted in self.ledger.round(&mut self.inner, &rest, limits) {
            if plan.propose(wanted.shard, wanted.to, wanted.why) == Err(Rejected::BudgetSpent) {
                return;
            }
        }
    }

    /// O(shards + nodes).
    fn without_pinned(&self, view: &ClusterView<'_>, plan: &Plan<'_>) -> Layout {
        let mut rest = Layout::new(u32::try_from(view.shards().len()).unwrap_or(u32::MAX));
        // A filter around this strategy may leave candidates out; the copy must say the same. Both list nodes in the order
        // of their addresses, so that a `NodeIx` means the same node in both.
        let mut nodes: Vec<NodeView> = view.nodes().to_vec();
        for (ix, node) in (0..).map(NodeIx).zip(&mut nodes) {
            node.accepts = view.is_candidate(ix);
        }
        rest.set_nodes(nodes);
        for shard in view.shards() {
            let Some(home) = view.home(shard) else { continue };
            let moving = plan.is_moving(shard);
            if shard < self.below && !moving {
                continue;
            }
            let settled = view.age(shard).map_or(view.now(), |age| view.now() - age);
            rest.settle(settled, shard, home);
            if moving {
                rest.depart(shard, None);
            }
            if let Some(load) = view.load(shard) {
                rest.set_load(shard, load);
            }
        }
        rest
    }
}

impl<S: AllocationStrategy> AllocationStrategy for RoleAffinity<S> {
    fn name(&self) -> &'static str {
        "role-affinity"
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(candidates), or what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        if request.shard < self.below
            && let Some(home) = self.home_of_pinned(view, |ix| view.count(ix))
        {
            return Some(home);
        }
        self.inner.place(view, request)
    }

    /// First the pinned shards that are not at home, in ascending order; then the inner strategy's moves of the others.
    /// O(shards + moves x candidates), and what the inner plan costs.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        if self.home_of_pinned(view, |_| 0).is_none() {
            self.inner.plan(view, plan);
        } else if self.fetch_pinned(view, plan) {
            self.plan_the_rest(view, plan);
        }
    }
}
