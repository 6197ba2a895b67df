//! Rolling updates.

use super::filter::Narrow;
use super::held::Held;
use super::version_match::VersionMatch;
use super::{AllocationStrategy, ClusterView, Needs, NodeIx, Plan, Request};

/// While candidates run different versions, lets the inner strategy place on those of the newest and move shards among
/// those only: what has to move in a rolling update moves once, not to a node that is about to be replaced. What older
/// nodes have stays there until they leave. When all run the same version again, everything is as ever.
///
/// Akka's rule. (Its strategies move nothing at all meanwhile; here the new nodes are kept even among themselves, as they
/// fill up.)
#[derive(Clone, Debug)]
pub struct VersionAware<S> {
    inner: S,
    narrow: Narrow,
    held: Held,
}

impl<S> VersionAware<S> {
    /// `inner` decides among the newest.
    #[must_use]
    pub const fn new(inner: S) -> Self {
        Self { inner, narrow: Narrow::new(), held: Held::new() }
    }
}

impl<S: AllocationStrategy> AllocationStrategy for VersionAware<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(candidates), and what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.inner.place(&self.narrow.cut(view, &VersionMatch::Newest), request)
    }

    /// O(candidates), during an update O(shards), and what the inner plan costs.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let narrow = self.narrow.cut(view, &VersionMatch::Newest);
        if narrow.candidates().len() == view.candidates().len() {
            return self.inner.plan(view, plan);
        }
        let old = |home: NodeIx| view.is_candidate(home) && !narrow.is_candidate(home);
        let on_old = view.shards().filter(|shard| view.home(*shard).is_some_and(old));
        let narrow = self.held.hold(&narrow, on_old);
        self.inner.plan(&narrow, &mut plan.within(&narrow));
    }
}

#[cfg(test)]
mod tests {
    use std::{boxed::Box, vec::Vec};

    use super::super::tests::{T0, layout, placed, planned};
    use super::*;
    use crate::allocation::{Hash, Layout, LeastShard};

    fn versions(layout: &mut Layout, versions: &[u64]) {
        let mut nodes = layout.view(T0, 0).nodes().to_vec();
        nodes.iter_mut().zip(versions).for_each(|(node, version)| node.version = *version);
        layout.set_nodes(nodes);
    }

    #[test]
    fn in_an_update_shards_go_to_the_newest_and_stay_on_the_others() {
        let strategies: [Box<dyn AllocationStrategy>; 2] = [Box::new(LeastShard::default()), Box::new(Hash)];
        for inner in strategies {
            let mut strategy = VersionAware::new(inner);
            let mut layout = layout(&[&[0, 1, 2, 3], &[4, 5], &[]]);
            versions(&mut layout, &[1, 1, 2]);
            assert_eq!(placed(&mut strategy, &layout, 9).as_deref(), Some("h:12"));
            assert_eq!(planned(&mut strategy, &layout), []);
            // The newest takes nothing: the next newest it is.
            layout.set_accepts(NodeIx(2), false);
            versions(&mut layout, &[1, 2, 3]);
            layout.set_accepts(NodeIx(2), false);
            assert_eq!(placed(&mut strategy, &layout, 9).as_deref(), Some("h:11"));
        }
    }

    #[test]
    fn new_nodes_are_evened_out_among_themselves_and_all_when_it_is_over() {
        let mut strategy = VersionAware::new(LeastShard::default());
        let mut layout = layout(&[&[0, 1, 2, 3], &[4, 5, 6, 7], &[]]);
        versions(&mut layout, &[1, 2, 2]);
        assert_eq!(planned(&mut strategy, &layout), [(4, 2), (5, 2)]);
        versions(&mut layout, &[2, 2, 2]);
        let moves: Vec<_> = planned(&mut strategy, &layout);
        assert_eq!(moves, planned(&mut LeastShard::default(), &layout));
        assert_eq!(moves.len(), 2);
    }
}
