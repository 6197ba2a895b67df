//! Evenly over zones, then by count.

use alloc::vec::Vec;

use super::pairs::Pairs;
use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why, ZoneIx};

/// Gives every zone as many shards as any other, at most one apart, and within a zone every node, at most one apart: the
/// loss of a zone takes no more than its share. A zone with fewer nodes has busier ones; zones without a candidate do not
/// count, so a zone that is lost is not waited for.
#[derive(Clone, Debug, Default)]
pub struct ZoneSpread {
    pairs: Pairs,
}

/// What a zone has, and who in it would give and take next.
#[derive(Clone, Copy, Debug, Default)]
struct Zone {
    shards: u32,
    giver: Option<(u32, NodeIx)>,
    taker: Option<(u32, NodeIx)>,
}

impl ZoneSpread {
    /// The strategy.
    #[must_use]
    pub const fn new() -> Self {
        Self { pairs: Pairs::new() }
    }
}

/// The zones of the candidates; who can give is known to `gives`.
fn zones(view: &ClusterView<'_>, counts: &[u32], gives: impl Fn(NodeIx) -> bool) -> Vec<Zone> {
    let mut zones = alloc::vec![Zone::default(); usize::from(view.zones())];
    for ix in view.candidates() {
        let (ZoneIx(zone), count) = (view.node(*ix).zone, counts[ix.at()]);
        let zone = &mut zones[usize::from(zone)];
        zone.shards += count;
        zone.taker = Some(zone.taker.map_or((count, *ix), |taker| taker.min((count, *ix))));
        if gives(*ix) {
            zone.giver = zone.giver.max(Some((count, *ix)));
        }
    }
    zones
}

/// The zone with the fewest shards, the lowest number first.
fn emptiest(zones: &[Zone]) -> Option<&Zone> {
    zones.iter().filter(|zone| zone.taker.is_some()).min_by_key(|zone| zone.shards)
}

/// Who gives to whom next, and what for; `None`: everything is even, or nobody who has too many can give.
fn next(zones: &[Zone]) -> Option<(NodeIx, NodeIx)> {
    let fullest = zones.iter().filter(|zone| zone.giver.is_some()).max_by_key(|zone| zone.shards)?;
    let emptiest = emptiest(zones)?;
    if fullest.shards >= emptiest.shards + 2 {
        return Some((fullest.giver?.1, emptiest.taker?.1));
    }
    let apart = |zone: &Zone| Some((zone.giver?.0 - zone.taker?.0, zone.giver?.1, zone.taker?.1));
    let (apart, from, to) = zones.iter().filter_map(apart).max_by_key(|(apart, ..)| *apart)?;
    (apart >= 2).then_some((from, to))
}

impl AllocationStrategy for ZoneSpread {
    fn name(&self) -> &'static str {
        "zone-spread"
    }

    /// In the zone with the fewest, on the node with the fewest, the lowest address first. O(candidates + zones).
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        let zones = zones(view, view.counts, |_| false);
        Some(emptiest(&zones)?.taker?.1)
    }

    /// The shards with the lowest numbers move, and moves come out in the order of their shards.
    /// O(shards + moves x (candidates + zones)).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        if plan.budget() == 0 {
            return;
        }
        self.pairs.begin(view, plan);
        let mut counts: Vec<u32> = plan.counts().to_vec();
        let zone = |ix: NodeIx| view.node(ix).zone;
        let mut across = false;
        while self.pairs.len() < plan.budget() {
            let Some((from, to)) = next(&zones(view, &counts, |ix| self.pairs.movable(ix) > 0)) else { break };
            across |= zone(from) != zone(to);
            counts[from.at()] -= 1;
            counts[to.at()] += 1;
            self.pairs.push(from, to);
        }
        self.pairs.propose(view, plan, if across { Why::Zone } else { Why::Count });
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::super::tests::{T0, layout, placed, planned, rest};
    use super::*;
    use crate::allocation::Layout;

    /// Nodes in the zones given, owning the shards given.
    fn zoned(owned: &[(u16, &[u32])]) -> Layout {
        let mut layout = layout(&owned.iter().map(|(_, shards)| *shards).collect::<Vec<_>>());
        let mut nodes = layout.view(T0, 0).nodes().to_vec();
        nodes.iter_mut().zip(owned).for_each(|(node, (zone, _))| node.zone = ZoneIx(*zone));
        layout.set_nodes(nodes);
        layout
    }

    #[test]
    fn a_shard_goes_to_the_emptiest_zone_and_its_emptiest_node() {
        let mut strategy = ZoneSpread::new();
        let layout = zoned(&[(0, &[0, 1]), (0, &[]), (1, &[2]), (2, &[3, 4])]);
        assert_eq!(placed(&mut strategy, &layout, 9).as_deref(), Some("h:12"));
        let tied = zoned(&[(0, &[0, 1]), (0, &[]), (1, &[2, 3])]);
        assert_eq!(placed(&mut strategy, &tied, 9).as_deref(), Some("h:11"));
        assert_eq!(placed(&mut strategy, &Layout::new(1), 0), None);
    }

    #[test]
    fn zones_are_evened_out_first_and_nodes_within_them_next() {
        let mut strategy = ZoneSpread::new();
        // Three nodes against one: by count it would be two each.
        let mut layout = zoned(&[(0, &[0, 1, 2, 3, 4]), (0, &[]), (0, &[5]), (1, &[6, 7])]);
        assert_eq!(planned(&mut strategy, &layout), [(0, 3), (1, 3), (2, 1)]);
        assert_eq!(rest(&mut strategy, &mut layout), 3);
        let counts = [0, 1, 2, 3].map(|ix| layout.view(T0, 0).count(NodeIx(ix)));
        assert_eq!(counts, [2, 1, 1, 4]);
    }

    #[test]
    fn a_zone_that_takes_nothing_is_not_waited_for() {
        let mut layout = zoned(&[(0, &[0, 1, 2]), (1, &[3]), (2, &[])]);
        layout.set_accepts(NodeIx(2), false);
        assert_eq!(planned(&mut ZoneSpread::new(), &layout), [(0, 1)]);
    }
}
