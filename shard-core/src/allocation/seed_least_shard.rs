//! By count, as the seed system does it, with its defects.

use alloc::vec::Vec;

use super::first_few::FirstFew;
use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Rejected, Request, Why};
use crate::id::ShardId;
use crate::time::Instant;

/// The least-shard strategy of actor-ts, decision by decision. For comparison, and for clusters that shall behave as they
/// did; use [`LeastShard`](super::LeastShard) otherwise.
///
/// Its defects, kept: two nodes that are `threshold` apart count as uneven, so with the default of 1 shards are stopped and
/// given back to the same node for ever ([`hand_offs`](Self::hand_offs) tells which; as moves they make no sense, so
/// [`plan`](AllocationStrategy::plan) leaves them out and does rest); it takes from a node until `max_simultaneous` is spent,
/// not until counts are even; and shards on their way count for the node they leave and not against `max_simultaneous`,
/// so more than that can be under way.
///
/// Where the seed orders nodes by when they registered, this one orders them by address. A node's shards are taken in the
/// order in which they came to it, and by number where they came at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeedLeastShard {
    threshold: u32,
    max_simultaneous: usize,
}

impl SeedLeastShard {
    /// Moves begin when two nodes are `threshold` or more apart; a round takes `max_simultaneous` shards at most.
    #[must_use]
    pub const fn new(threshold: u32, max_simultaneous: usize) -> Self {
        Self { threshold, max_simultaneous }
    }

    /// The shards that the seed would take from their nodes now, in its order, whether or not they end up elsewhere.
    /// O(shards log `max_simultaneous` + nodes log nodes).
    #[must_use]
    pub fn hand_offs(&self, view: &ClusterView<'_>) -> Vec<ShardId> {
        self.taken(view, |shard| view.is_moving(shard))
    }

    fn taken(&self, view: &ClusterView<'_>, is_moving: impl Fn(ShardId) -> bool) -> Vec<ShardId> {
        // A shard on its way still counts where it was.
        let mut owned = alloc::vec![0_u32; view.nodes().len()];
        view.shards().filter_map(|shard| view.home(shard)).for_each(|home| owned[home.at()] += 1);
        let mut busiest: Vec<NodeIx> = view.candidates().to_vec();
        // Descending, and of equals the last first.
        busiest.sort_unstable_by_key(|ix| core::cmp::Reverse((owned[ix.at()], *ix)));
        let Some(least) = busiest.last().map(|ix| owned[ix.at()]).filter(|_| busiest.len() > 1) else {
            return Vec::new();
        };
        let mut rank = alloc::vec![None; view.nodes().len()];
        let giving = busiest.iter().take_while(|ix| owned[ix.at()] - least >= self.threshold);
        (0_u16..).zip(giving).for_each(|(place, ix)| rank[ix.at()] = Some(place));
        let mut few: FirstFew<(u16, Instant, ShardId)> = FirstFew::new(self.max_simultaneous);
        for shard in view.shards() {
            if let Some(rank) = view.home(shard).and_then(|home| rank[home.at()])
                && !is_moving(shard)
            {
                few.offer((rank, view.settled_at(shard), shard));
            }
        }
        few.into_sorted().into_iter().map(|(_, _, shard)| shard).collect()
    }
}

impl Default for SeedLeastShard {
    /// A threshold of 1 and 3 at a time.
    fn default() -> Self {
        Self::new(1, 3)
    }
}

impl AllocationStrategy for SeedLeastShard {
    fn name(&self) -> &'static str {
        "seed-least-shard"
    }

    /// O(candidates).
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        fewest(view, |ix| view.count(ix))
    }

    /// Each shard taken goes where the seed would place it once those before it have been placed; one that would come back
    /// to its node stays. It rests: a move makes counts more even, or as even with the shard at a lower address.
    /// O(shards log `max_simultaneous` + nodes log nodes + moves x candidates).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        for shard in self.taken(view, |shard| plan.is_moving(shard)) {
            let home = view.home(shard);
            let to = fewest(view, |ix| plan.count(ix) - u32::from(home == Some(ix)));
            let strayed = to.filter(|to| home != Some(*to));
            if strayed.is_some_and(|to| plan.propose(shard, to, Why::Count) == Err(Rejected::BudgetSpent)) {
                return;
            }
        }
    }
}

/// The candidate with the fewest, the lowest address first.
pub(super) fn fewest(view: &ClusterView<'_>, count: impl Fn(NodeIx) -> u32) -> Option<NodeIx> {
    view.candidates().iter().copied().min_by_key(|ix| (count(*ix), *ix))
}

#[cfg(test)]
mod tests {

    use super::super::tests::{T0, layout, placed, planned};
    use super::*;
    use crate::allocation::Layout;
    use crate::time::Duration;

    fn taken(strategy: SeedLeastShard, layout: &Layout) -> Vec<u32> {
        strategy.hand_offs(&layout.view(T0, 0)).iter().map(|shard| shard.0).collect()
    }

    /// A round of the seed: everything taken is placed again, one by one. Returns how many were taken, and how many of
    /// those came back to the same node.
    fn tick(strategy: SeedLeastShard, layout: &mut Layout, now: Instant) -> (usize, usize) {
        let shards = strategy.hand_offs(&layout.view(now, 0));
        let mut same = 0;
        for shard in &shards {
            let former = layout.view(now, 0).home(*shard);
            layout.free(*shard);
            let to = fewest(&layout.view(now, 0), |ix| layout.view(now, 0).count(ix)).unwrap();
            same += usize::from(former == Some(to));
            layout.settle(now, *shard, to);
        }
        (shards.len(), same)
    }

    #[test]
    fn it_takes_what_the_seed_takes() {
        // (threshold, at a time, shards of each node, on their way) and the answer of the seed.
        type Case<'a> = (u32, usize, &'a [&'a [u32]], &'a [u32], &'a [u32]);
        let cases: [Case<'_>; 17] = [
            (1, 3, &[&[0, 1], &[2]], &[], &[0, 1]),
            (1, 3, &[&[0], &[1]], &[], &[]),
            (1, 3, &[&[0], &[]], &[], &[0]),
            // Of equals, the last is drained first.
            (0, 3, &[&[0], &[1]], &[], &[1, 0]),
            (2, 3, &[&[0, 1], &[2]], &[], &[]),
            (2, 3, &[&[0, 1, 2], &[3]], &[], &[0, 1, 2]),
            (1, 10, &[&[0, 1, 2, 3], &[]], &[], &[0, 1, 2, 3]),
            (1, 2, &[&[0, 1, 2, 3, 4], &[]], &[], &[0, 1]),
            (1, 10, &[&[0, 1, 2, 3], &[]], &[0, 1], &[2, 3]),
            // Five at once, where three were allowed.
            (1, 3, &[&[0, 1, 2, 3, 4], &[]], &[0, 1, 2], &[3, 4]),
            (5, 10, &[&[0, 1, 2], &[3, 4]], &[], &[]),
            (5, 10, &[&[0, 1, 2, 3, 4], &[]], &[], &[0, 1, 2, 3, 4]),
            (1, 3, &[&[0, 1, 2]], &[], &[]),
            (1, 10, &[&[0, 1, 2, 3], &[4, 5, 6, 7], &[]], &[], &[4, 5, 6, 7, 0, 1, 2, 3]),
            (1, 3, &[&[0, 1, 2, 3], &[4, 5, 6, 7], &[]], &[], &[4, 5, 6]),
            (1, 6, &[&[0, 1, 2, 3], &[4, 5, 6, 7], &[]], &[], &[4, 5, 6, 7, 0, 1]),
            (1, 0, &[&[0, 1, 2], &[]], &[], &[]),
        ];
        for (threshold, at_a_time, owned, moving, answer) in cases {
            let mut layout = layout(owned);
            moving.iter().for_each(|shard| layout.depart(ShardId(*shard), Some(NodeIx(1))));
            assert_eq!(taken(SeedLeastShard::new(threshold, at_a_time), &layout), answer, "{owned:?}");
        }
        let mut leaving = layout(&[&[0, 1, 2], &[3], &[]]);
        leaving.set_accepts(NodeIx(2), false);
        assert_eq!(taken(SeedLeastShard::new(1, 3), &leaving), [0, 1, 2]);
    }

    #[test]
    fn shards_are_taken_in_the_order_in_which_they_came() {
        let mut layout = layout(&[&[0, 1, 2, 3, 4, 5, 6, 7], &[]]);
        (0..8).for_each(|shard| layout.free(ShardId(shard)));
        for (seconds, shard) in (1..).zip([7, 3, 5]) {
            layout.settle(T0 + Duration::from_secs(seconds), ShardId(shard), NodeIx(0));
        }
        assert_eq!(taken(SeedLeastShard::default(), &layout), [7, 3, 5]);
    }

    #[test]
    fn it_places_as_the_seed_places() {
        let mut strategy = SeedLeastShard::default();
        assert_eq!(placed(&mut strategy, &layout(&[&[0, 1, 2], &[], &[3]]), 9).as_deref(), Some("h:11"));
        assert_eq!(placed(&mut strategy, &layout(&[&[0], &[1], &[2]]), 9).as_deref(), Some("h:10"));
    }

    #[test]
    fn two_nodes_with_three_shards_never_have_peace_in_the_seed() {
        let (strategy, mut layout) = (SeedLeastShard::default(), layout(&[&[0, 1], &[2]]));
        let ticks: Vec<_> =
            (1..=20).map(|second| tick(strategy, &mut layout, T0 + Duration::from_secs(second))).collect();
        // Forty hand-offs, all of them for nothing.
        assert!(ticks.iter().all(|tick| *tick == (2, 2)), "{ticks:?}");
        // As moves they make no sense, so this plan rests.
        assert_eq!(planned(&mut SeedLeastShard::default(), &layout), []);
    }

    #[test]
    fn sixty_four_shards_on_three_nodes_never_have_peace_in_the_seed_unless_the_threshold_is_two() {
        for (threshold, expected) in [(1, (180, 138)), (2, (42, 0))] {
            let all: Vec<u32> = (0..64).collect();
            let mut layout = layout(&[&all, &[], &[]]);
            let strategy = SeedLeastShard::new(threshold, 3);
            let ticks = (1..=60).map(|second| tick(strategy, &mut layout, T0 + Duration::from_secs(second)));
            let sum = ticks.fold((0, 0), |(all, same), tick| (all + tick.0, same + tick.1));
            assert_eq!(sum, expected, "threshold {threshold}");
        }
    }
}
