//! Filters by version and by zone.

use alloc::string::String;
use alloc::vec::Vec;

use super::{ClusterView, Filter, NodeIx, ZoneIx};

/// Admits nodes by the version of the application they run: Orleans' ways to be compatible, and to select among those.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VersionMatch {
    /// Nodes of that version.
    Exactly(u64),
    /// Nodes of that version or a newer one, which can read what older ones wrote.
    AtLeast(u64),
    /// Of the candidates, those of the newest version among them.
    Newest,
    /// Of the candidates, those of the oldest version among them.
    Oldest,
}

impl VersionMatch {
    /// The versions admitted; O(candidates).
    fn bounds(self, view: &ClusterView<'_>) -> Option<(u64, u64)> {
        let versions = || view.candidates().iter().map(|ix| view.node(*ix).version);
        Some(match self {
            Self::Exactly(version) => (version, version),
            Self::AtLeast(version) => (version, u64::MAX),
            Self::Newest => (versions().max()?, u64::MAX),
            Self::Oldest => (0, versions().min()?),
        })
    }
}

impl Filter for VersionMatch {
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool {
        let version = view.node(node).version;
        self.bounds(view).is_some_and(|(least, most)| (least..=most).contains(&version))
    }

    fn select(&self, view: &ClusterView<'_>, admitted: &mut Vec<NodeIx>) {
        let Some((least, most)) = self.bounds(view) else { return };
        let within = |ix: &NodeIx| (least..=most).contains(&view.node(*ix).version);
        admitted.extend(view.candidates().iter().copied().filter(within));
    }
}

/// Admits the nodes of some zones, by their names or by a view's numbers for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InZones {
    numbers: Vec<ZoneIx>,
    names: Vec<String>,
}

impl InZones {
    /// The nodes of `zones`. In a live cluster a zone's number is its place among the names of all zones, so it changes when
    /// zones come and go: use [`named`](Self::named) there.
    pub fn new(zones: impl IntoIterator<Item = ZoneIx>) -> Self {
        Self { numbers: zones.into_iter().collect(), names: Vec::new() }
    }

    /// The nodes whose operators call their zone one of `names`.
    pub fn named<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { numbers: Vec::new(), names: names.into_iter().map(Into::into).collect() }
    }
}

impl Filter for InZones {
    /// O(zones).
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool {
        let node = view.node(node);
        self.numbers.contains(&node.zone) || self.names.contains(&node.zone_name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{T0, layout, placed};
    use super::*;
    use crate::allocation::{AllocationStrategy, Layout, LeastShard};

    /// Nodes of the versions and zones given.
    fn nodes(given: &[(u64, u16)]) -> Layout {
        let mut layout = layout(&alloc::vec![&[][..]; given.len()]);
        let mut nodes = layout.view(T0, 0).nodes().to_vec();
        for (node, (version, zone)) in nodes.iter_mut().zip(given) {
            (node.version, node.zone) = (*version, ZoneIx(*zone));
        }
        layout.set_nodes(nodes);
        layout
    }

    fn admitted(filter: &impl Filter, layout: &Layout) -> Vec<u16> {
        let (view, mut admitted) = (layout.view(T0, 0), Vec::new());
        filter.select(&view, &mut admitted);
        let one_by_one = view.candidates().iter().copied().filter(|ix| filter.admits(&view, *ix));
        assert_eq!(admitted, one_by_one.collect::<Vec<_>>());
        admitted.iter().map(|ix| ix.0).collect()
    }

    #[test]
    fn versions_are_compatible_as_in_orleans() {
        let layout = nodes(&[(1, 0), (2, 0), (3, 0), (3, 0)]);
        let cases: [(VersionMatch, &[u16]); 6] = [
            (VersionMatch::Exactly(2), &[1]),
            (VersionMatch::Exactly(9), &[]),
            (VersionMatch::AtLeast(2), &[1, 2, 3]),
            (VersionMatch::AtLeast(0), &[0, 1, 2, 3]),
            (VersionMatch::Newest, &[2, 3]),
            (VersionMatch::Oldest, &[0]),
        ];
        cases.iter().for_each(|(filter, expected)| assert_eq!(admitted(filter, &layout), *expected, "{filter:?}"));
        assert_eq!(admitted(&VersionMatch::Newest, &nodes(&[])), []);
    }

    #[test]
    fn the_newest_are_those_among_the_nodes_that_are_left() {
        let mut layout = nodes(&[(1, 0), (2, 0), (3, 0)]);
        layout.set_accepts(NodeIx(2), false);
        assert_eq!(admitted(&VersionMatch::Newest, &layout), [1]);
    }

    #[test]
    fn zones_are_admitted() {
        let layout = nodes(&[(0, 0), (0, 1), (0, 2), (0, 1)]);
        assert_eq!(admitted(&InZones::new([ZoneIx(1), ZoneIx(7)]), &layout), [1, 3]);
        let mut strategy = LeastShard::default().only(InZones::new([ZoneIx(2)]));
        assert_eq!(placed(&mut strategy, &layout, 0).as_deref(), Some("h:12"));
        let (mut layout, mut named) = (layout.clone(), layout.view(T0, 0).nodes().to_vec());
        named.iter_mut().zip(["west", "east", "", "west"]).for_each(|(node, zone)| node.zone_name = zone.into());
        layout.set_nodes(named);
        assert_eq!(admitted(&InZones::named(["west", "north"]), &layout), [0, 3]);
    }
}
