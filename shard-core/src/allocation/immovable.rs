//! Shards that stay.

use super::{AllocationStrategy, ClusterView, Needs, NodeIx, Request};

/// Places as the inner strategy does, and moves nothing: for types whose entities are dear to wake. A shard moves only when
/// its node leaves or is lost, or by what is put around it: an operator's orders ([`Pins`](super::Pins)) or a filter, both of
/// which move what they must. Orleans marks types immovable for its movers; here the type's strategy says so.
///
/// ```
/// use shard_core::allocation::{Immovable, LeastShard, Orders, Pins};
///
/// // Operators may move shards and empty nodes; nothing else does.
/// let strategy = Pins::new(Immovable::new(LeastShard::default()), Orders::default());
/// # let _ = strategy;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Immovable<S> {
    inner: S,
}

impl<S> Immovable<S> {
    /// `inner` places.
    #[must_use]
    pub const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: AllocationStrategy> AllocationStrategy for Immovable<S> {
    fn name(&self) -> &'static str {
        "immovable"
    }

    /// What the inner strategy needs to place.
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// What the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.inner.place(view, request)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{layout, planned};
    use super::*;
    use crate::allocation::LeastShard;

    #[test]
    fn nothing_moves_but_what_a_filter_around_it_moves() {
        let uneven = layout(&[&[0, 1, 2, 3, 4, 5], &[], &[6]]);
        assert_ne!(planned(&mut LeastShard::default(), &uneven), []);
        assert_eq!(planned(&mut Immovable::new(LeastShard::default()), &uneven), []);
        let elsewhere = |_: &ClusterView<'_>, ix: NodeIx| ix.0 != 2;
        assert_eq!(planned(&mut Immovable::new(LeastShard::default()).only(elsewhere), &uneven), [(6, 1)]);
    }
}
