//! By lot, and near whoever asks.

use super::{AllocationStrategy, ClusterView, Needs, NodeIx, Plan, Request};
use crate::prng::Prng;

/// Any candidate, each equally likely: Orleans' former default. Nothing moves, ever. Fair where there are very many shards
/// (the greatest of 50 to a node is a third above the mean), and nobody has to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Random;

impl AllocationStrategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    /// Drawn from the request's seed alone. O(1).
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        Prng::new(request.seed).pick(view.candidates()).copied()
    }
}

/// The node that asked first, if it is a candidate; else wherever the inner strategy places: Orleans' strategy of this name
/// is that over [`Random`].
///
/// Moves are those of the inner strategy, which does not know who asked: over one that moves by count, shards are near
/// their first caller only until counts are uneven.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PreferLocal<S> {
    inner: S,
}

impl<S> PreferLocal<S> {
    /// `inner` decides where nobody asked, or somebody who takes no shards.
    #[must_use]
    pub const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: AllocationStrategy> AllocationStrategy for PreferLocal<S> {
    fn name(&self) -> &'static str {
        "prefer-local"
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(1), or what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let asker = request.asker.filter(|asker| view.is_candidate(*asker));
        asker.or_else(|| self.inner.place(view, request))
    }

    /// The inner strategy's moves.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        self.inner.plan(view, plan);
    }
}

#[cfg(test)]
mod tests {

    use super::super::tests::{T0, layout};
    use super::*;
    use crate::allocation::LeastShard;
    use crate::id::ShardId;

    #[test]
    fn the_lot_is_fair_and_the_same_for_the_same_seed() {
        let mut layout = layout(&[&[], &[], &[], &[]]);
        layout.set_accepts(NodeIx(1), false);
        let place = |seed| Random.place(&layout.view(T0, 0), &Request::new(ShardId(0), seed)).unwrap();
        let mut counts = [0_u32; 4];
        (0..3_000).for_each(|seed| counts[place(seed).at()] += 1);
        assert!(counts[1] == 0 && [0, 2, 3].iter().all(|at| counts[*at].abs_diff(1_000) < 150), "{counts:?}");
        assert_eq!(place(7), place(7));
    }

    #[test]
    fn who_asks_is_given_the_shard_while_it_takes_any() {
        let mut strategy = PreferLocal::new(LeastShard::default());
        let mut layout = layout(&[&[], &[0, 1, 2]]);
        let request = Request::new(ShardId(9), 0);
        assert_eq!(strategy.place(&layout.view(T0, 0), &request.asked_by(NodeIx(1))), Some(NodeIx(1)));
        assert_eq!(strategy.place(&layout.view(T0, 0), &request), Some(NodeIx(0)));
        layout.set_accepts(NodeIx(1), false);
        assert_eq!(strategy.place(&layout.view(T0, 0), &request.asked_by(NodeIx(1))), Some(NodeIx(0)));
    }
}
