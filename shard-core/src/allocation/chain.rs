//! Several filters, one after another.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::{ClusterView, Filter, NodeIx};

/// A filter made of filters, each of which sees the candidates that those before it have left, in ascending order of the
/// numbers given. Without any it admits all.
///
/// ```
/// use shard_core::allocation::{AllocationStrategy, Chain, LeastShard, PreferredMatch, VersionMatch};
///
/// // Of the nodes that run version 3 or a newer one, those with a fast disk, if there are two.
/// let chain = Chain::new()
///     .with(1, VersionMatch::AtLeast(3))?
///     .with(2, PreferredMatch::new([("disk", "fast")], 2))?;
/// let strategy = LeastShard::default().only(chain);
/// # Ok::<(), shard_core::allocation::DuplicateOrder>(())
/// ```
#[derive(Default)]
pub struct Chain {
    /// In ascending order.
    filters: Vec<(i32, Box<dyn Filter>)>,
}

/// Two filters of a chain have the same number, so it is not known which comes first. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DuplicateOrder(pub i32);

impl fmt::Display for DuplicateOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two filters have the order {}", self.0)
    }
}

impl core::error::Error for DuplicateOrder {}

impl Chain {
    /// No filters.
    #[must_use]
    pub const fn new() -> Self {
        Self { filters: Vec::new() }
    }

    /// The same with one more filter, which comes after those of lower `order`, whenever they are added.
    ///
    /// # Errors
    /// If there is one of this order.
    pub fn with(mut self, order: i32, filter: impl Filter + 'static) -> Result<Self, DuplicateOrder> {
        match self.filters.binary_search_by_key(&order, |(own, _)| *own) {
            Ok(_) => Err(DuplicateOrder(order)),
            Err(at) => {
                self.filters.insert(at, (order, Box::new(filter)));
                Ok(self)
            }
        }
    }
}

impl Filter for Chain {
    /// O(what all the filters cost), as each depends on those before it.
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool {
        let mut admitted = Vec::new();
        self.select(view, &mut admitted);
        admitted.contains(&node)
    }

    /// O(filters x nodes), and what the filters cost.
    fn select(&self, view: &ClusterView<'_>, admitted: &mut Vec<NodeIx>) {
        let (mut left, mut mask) = (view.candidates().to_vec(), Vec::new());
        for (_, filter) in &self.filters {
            mask.clear();
            mask.resize(view.nodes().len(), false);
            left.iter().for_each(|ix| mask[ix.at()] = true);
            let mut next = Vec::new();
            filter.select(&ClusterView { candidates: &left, candidate: &mask, ..*view }, &mut next);
            next.retain(|ix| mask.get(ix.at()) == Some(&true));
            next.sort_unstable();
            next.dedup();
            left = next;
        }
        admitted.append(&mut left);
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.filters.iter().map(|(order, _)| order)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::tests::{T0, layout};
    use super::*;
    use crate::allocation::{InZones, VersionMatch, ZoneIx};

    fn admitted(chain: &Chain, layout: &crate::allocation::Layout) -> Vec<u16> {
        let mut admitted = Vec::new();
        chain.select(&layout.view(T0, 0), &mut admitted);
        admitted.iter().map(|ix| ix.0).collect()
    }

    #[test]
    fn filters_run_in_the_order_of_their_numbers_and_a_number_is_given_once() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let spy = |name: char| {
            let seen = Arc::clone(&seen);
            move |_: &ClusterView<'_>, _: NodeIx| {
                seen.lock().unwrap().push(name);
                true
            }
        };
        let layout = layout(&[&[]]);
        let chains = [[(1, 'a'), (2, 'b')], [(2, 'a'), (1, 'b')]];
        for (pair, expected) in chains.into_iter().zip([['a', 'b'], ['b', 'a']]) {
            let chain = pair.into_iter().try_fold(Chain::new(), |chain, (order, name)| chain.with(order, spy(name)));
            assert_eq!(admitted(&chain.unwrap(), &layout), [0]);
            assert_eq!(core::mem::take(&mut *seen.lock().unwrap()), expected);
        }
        let twice = Chain::new().with(0, spy('a')).unwrap().with(0, spy('b'));
        assert_eq!(twice.err(), Some(DuplicateOrder(0)));
    }

    #[test]
    fn each_filter_sees_what_those_before_it_have_left() {
        let mut layout = layout(&[&[], &[], &[], &[]]);
        let mut nodes = layout.view(T0, 0).nodes().to_vec();
        for (node, (version, zone)) in nodes.iter_mut().zip([(1, 0), (2, 0), (3, 1), (2, 0)]) {
            (node.version, node.zone) = (version, ZoneIx(zone));
        }
        layout.set_nodes(nodes);
        let zone = || InZones::new([ZoneIx(0)]);
        let newest_of_zone = Chain::new().with(2, VersionMatch::Newest).unwrap().with(1, zone()).unwrap();
        assert_eq!(admitted(&newest_of_zone, &layout), [1, 3]);
        let zone_of_newest = Chain::new().with(1, VersionMatch::Newest).unwrap().with(2, zone()).unwrap();
        assert_eq!(admitted(&zone_of_newest, &layout), []);
        assert_eq!(admitted(&Chain::new(), &layout), [0, 1, 2, 3]);
        assert!(newest_of_zone.admits(&layout.view(T0, 0), NodeIx(3)));
    }
}
