//! Narrowing the candidates before a strategy sees them.

use alloc::vec::Vec;

use super::{AllocationStrategy, ClusterView, Needs, NodeIx, Plan, Rejected, Request, Why};
use crate::prng;

/// Says which nodes a strategy may use. Closures are filters. It must depend on its arguments alone.
pub trait Filter: Send {
    /// Whether `node` may be used. Asked once per candidate and call of the strategy.
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool;

    /// Adds to `admitted` every candidate that may be used. A filter that has to see all of them to know is faster with one
    /// of its own; what it adds that is no candidate is left out.
    fn select(&self, view: &ClusterView<'_>, admitted: &mut Vec<NodeIx>) {
        admitted.extend(view.candidates().iter().copied().filter(|ix| self.admits(view, *ix)));
    }
}

impl<F: Fn(&ClusterView<'_>, NodeIx) -> bool + Send> Filter for F {
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool {
        self(view, node)
    }
}

/// A strategy that uses admitted nodes and no others: see [`AllocationStrategy::only`].
#[derive(Clone, Debug)]
pub struct Only<S, F> {
    inner: S,
    filter: F,
    narrow: Narrow,
}

/// A strategy that uses admitted nodes while there are any: see [`AllocationStrategy::preferring`].
///
/// Shards placed elsewhere while there were none stay there, unless the inner strategy moves them.
#[derive(Clone, Debug)]
pub struct Preferring<S, F> {
    inner: S,
    filter: F,
    narrow: Narrow,
}

impl<S, F> Only<S, F> {
    pub(super) const fn new(inner: S, filter: F) -> Self {
        Self { inner, filter, narrow: Narrow::new() }
    }
}

impl<S: AllocationStrategy, F: Filter> AllocationStrategy for Only<S, F> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(candidates), and what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.inner.place(&self.narrow.cut(view, &self.filter), request)
    }

    /// First the shards that sit where the filter does not admit, each to where the inner strategy places it; then the
    /// inner strategy's moves. O(shards + moves x placing), and what the inner plan costs.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let narrow = self.narrow.cut(view, &self.filter);
        if narrow.candidates().is_empty() {
            return;
        }
        let mut plan = plan.within(&narrow);
        for shard in view.shards() {
            let misplaced = view.home(shard).is_some_and(|home| view.is_candidate(home) && !narrow.is_candidate(home));
            if !misplaced || plan.is_moving(shard) {
                continue;
            }
            if plan.budget() == 0 {
                return;
            }
            let request = Request::new(shard, prng::mix(view.seed(), u64::from(shard.0)));
            let to = self.inner.place(&narrow.with_counts(plan.counts()), &request);
            if to.is_some_and(|to| plan.propose(shard, to, Why::Filter) == Err(Rejected::BudgetSpent)) {
                return;
            }
        }
        self.inner.plan(&narrow, &mut plan);
    }
}

impl<S, F> Preferring<S, F> {
    pub(super) const fn new(inner: S, filter: F) -> Self {
        Self { inner, filter, narrow: Narrow::new() }
    }
}

impl<S: AllocationStrategy, F: Filter> AllocationStrategy for Preferring<S, F> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(candidates), and what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let narrow = self.narrow.cut(view, &self.filter);
        self.inner.place(if narrow.candidates().is_empty() { view } else { &narrow }, request)
    }

    /// The inner strategy's moves among the preferred nodes, or among all.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let narrow = self.narrow.cut(view, &self.filter);
        let view = if narrow.candidates().is_empty() { *view } else { narrow };
        self.inner.plan(&view, &mut plan.within(&view));
    }
}

/// The candidates that are left, in memory that is kept.
#[derive(Clone, Debug)]
pub(super) struct Narrow {
    list: Vec<NodeIx>,
    mask: Vec<bool>,
}

impl Narrow {
    pub(super) const fn new() -> Self {
        Self { list: Vec::new(), mask: Vec::new() }
    }

    pub(super) fn cut<'a>(&'a mut self, view: &ClusterView<'a>, filter: &impl Filter) -> ClusterView<'a> {
        self.list.clear();
        filter.select(view, &mut self.list);
        self.list.retain(|ix| view.is_candidate(*ix));
        self.list.sort_unstable();
        self.list.dedup();
        self.mask.clear();
        self.mask.resize(view.nodes().len(), false);
        self.list.iter().for_each(|ix| self.mask[ix.at()] = true);
        ClusterView { candidates: &self.list, candidate: &self.mask, ..*view }
    }
}
