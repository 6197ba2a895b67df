//! By the highest random weight.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Rejected, Request, Why};
use crate::id::{NodeId, ShardId};
use crate::prng::mix;
use crate::shuffle::log2::{FRACTION_BITS, log2};

/// Every shard ranks the nodes by a draw of its own, weighted by their capacities, and belongs to the first: weighted
/// rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005).
///
/// A node that comes takes its share, one that goes gives its own away, and one whose capacity changes gains or loses the
/// difference; no other shard moves, which is the least possible. Nodes are known by their [`NodeId`], so after a restart
/// of everything shards are where they were, without a store. Loads are as even as chance makes them: with 50 shards to a
/// node the greatest is a fifth above the mean.
///
/// What the first plan on a set of nodes finds is kept, two bytes per shard: later plans only compare, and when nodes change
/// only what their change can have changed is drawn again.
#[derive(Clone, Debug, Default)]
pub struct WeightedRendezvous {
    field: Field,
    found: Found,
}

/// The candidates, ready for a draw. It carries no meaning: it is made again without the former one.
#[derive(Clone, Debug, Default)]
struct Field {
    /// In the order of the view.
    listed: Vec<Member>,
    /// In ascending order of the weights, then as listed.
    members: Vec<Member>,
    /// Per member: what it brings into a draw.
    keys: Vec<u64>,
    /// Where each run of members of one weight ends.
    ends: Vec<usize>,
}

/// The owners found last time, by position in `members`. It carries no meaning: it is found again without it.
#[derive(Clone, Debug, Default)]
struct Found {
    members: Vec<Member>,
    owners: Vec<u16>,
}

/// A candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Member {
    id: NodeId,
    weight: u32,
    ix: NodeIx,
}

/// What a shard drew for the member at `at`.
#[derive(Clone, Copy, Debug)]
struct Draw {
    drawn: u64,
    at: usize,
    member: Member,
}

impl Draw {
    /// Whether it comes before one of the same weight.
    fn is_greater(&self, other: &Self) -> bool {
        (self.drawn, Reverse(self.member.id)) > (other.drawn, Reverse(other.member.id))
    }

    /// Minus the logarithm of the drawn fraction: 64 whole bits minus that of a number of 64 bits; of zero, that of one.
    fn distance(&self) -> u128 {
        u128::from((64 << FRACTION_BITS) - log2(self.drawn.max(1)))
    }

    /// The distance or less, for a fiftieth of the time: minus the logarithm of a fraction is at least what it lacks to be
    /// one, times log2(e), which is more than 369/256.
    const fn distance_at_least(&self) -> u128 {
        (((!self.drawn >> (64 - FRACTION_BITS)) * 369) >> 8) as u128
    }

    /// The one that comes first: the smaller distance for the weight does. Compared crosswise, so whole numbers decide.
    /// `near` is the distance of the first one, if it is known, and will be that of the result.
    fn or_earlier(self, other: Self, near: &mut Option<u128>) -> Self {
        if self.member.weight == other.member.weight {
            if !other.is_greater(&self) {
                return self;
            }
            *near = None;
            return other;
        }
        let mine = *near.get_or_insert_with(|| self.distance());
        let (weight, other_weight) = (u128::from(self.member.weight), u128::from(other.member.weight));
        if other.distance_at_least() * weight > mine * other_weight {
            return self;
        }
        let theirs = other.distance();
        let order = (theirs * weight).cmp(&(mine * other_weight));
        if order.is_lt() || (order.is_eq() && other.is_greater(&self)) {
            *near = Some(theirs);
            return other;
        }
        self
    }
}

/// Which streams of draws these are.
const SHARDS: u64 = 0x7368_6172_6473_7264;
const NODES: u64 = 0x6e6f_6465_7372_6476;

/// The draw of a shard for a node, both by keys that are well mixed: one multiplication, since the first plan of a reign
/// makes one draw for every shard and node.
#[inline]
const fn draw(shard: u64, node: u64) -> u64 {
    (shard ^ node).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl WeightedRendezvous {
    /// The strategy with nothing found yet.
    #[must_use]
    pub const fn new() -> Self {
        let field = Field { listed: Vec::new(), members: Vec::new(), keys: Vec::new(), ends: Vec::new() };
        Self { field, found: Found { members: Vec::new(), owners: Vec::new() } }
    }
}

impl Field {
    /// Makes it that of the candidates of `view`, if these have changed. O(candidates), and O(candidates log candidates) after
    /// a change.
    fn follow(&mut self, view: &ClusterView<'_>) {
        let member = |ix: &NodeIx| {
            let node = view.node(*ix);
            Member { id: node.id.id, weight: node.capacity.max(1), ix: *ix }
        };
        let listed = || view.candidates().iter().map(member);
        if listed().eq(self.listed.iter().copied()) {
            return;
        }
        *self = Self::of(listed().collect());
    }

    fn of(listed: Vec<Member>) -> Self {
        let mut members = listed.clone();
        members.sort_unstable_by_key(|member| (member.weight, member.ix));
        let keys = members.iter().map(|member| mix(NODES, member.id.0)).collect();
        let ends = members
            .chunk_by(|a, b| a.weight == b.weight)
            .scan(0, |end, run| {
                *end += run.len();
                Some(*end)
            })
            .collect();
        Self { listed, members, keys, ends }
    }

    /// The first in the shard's order. Of equal weights the greatest draw is the first, so logarithms are taken only where a
    /// weight meets another.
    fn first(&self, key: u64) -> Option<Draw> {
        let mut begin = 0;
        let mut runs = self.ends.iter().map(|end| core::mem::replace(&mut begin, *end)..*end);
        let mut best = self.leader(key, runs.next()?);
        let mut near = None;
        for run in runs {
            best = best.or_earlier(self.leader(key, run), &mut near);
        }
        Some(best)
    }

    fn draw_at(&self, key: u64, at: usize) -> Draw {
        Draw { drawn: draw(key, self.keys[at]), at, member: self.members[at] }
    }

    /// The greatest draw of a run, which is not empty. (Maxima without branches, four at a time, take longer: the compiler makes
    /// vectors of them, and these have no product of 64 bits.)
    fn leader(&self, key: u64, run: Range<usize>) -> Draw {
        let (mut greatest, mut best) = (draw(key, self.keys[run.start]), run.start);
        for (at, node) in (run.start + 1..).zip(&self.keys[run.start + 1..run.end]) {
            let drawn = draw(key, *node);
            if drawn > greatest || (drawn == greatest && self.members[at].id < self.members[best].id) {
                (greatest, best) = (drawn, at);
            }
        }
        Draw { drawn: greatest, at: best, member: self.members[best] }
    }
}

/// What a shard brings into its draws.
const fn key(shard: ShardId) -> u64 {
    mix(SHARDS, shard.0 as u64)
}

/// Where each member of `from` is in `to`, at the first place if there are several.
fn places(from: &[Member], to: &[Member]) -> Vec<Option<u16>> {
    let mut sorted: Vec<((NodeId, u32), u16)> = to.iter().map(|it| (it.id, it.weight)).zip(0..).collect();
    sorted.sort_unstable();
    let place = |it: &Member| {
        let at = sorted.partition_point(|(other, _)| *other < (it.id, it.weight));
        sorted.get(at).filter(|(other, _)| *other == (it.id, it.weight)).map(|(_, at)| *at)
    };
    from.iter().map(place).collect()
}

impl Found {
    /// Finds the owners of so many shards in `field`. A shard whose owner is still there asks only those that are new.
    fn refresh(&mut self, field: &Field, shards: impl ExactSizeIterator<Item = ShardId>) {
        if self.owners.len() == shards.len() && field.members == self.members {
            return;
        }
        let former = core::mem::replace(&mut self.members, field.members.clone());
        let now_at = places(&former, &field.members);
        let known = places(&field.members, &former);
        let fresh: Vec<u16> = (0..).zip(&known).filter(|(_, was)| was.is_none()).map(|(at, _)| at).collect();
        // In the field of the fresh, members stand at other places.
        let fresh_field = Field::of(fresh.iter().map(|at| field.members[usize::from(*at)]).collect());
        self.owners.resize(shards.len(), NOBODY);
        for (shard, owner) in shards.zip(&mut self.owners) {
            let kept = now_at.get(usize::from(*owner)).copied().flatten();
            let key = key(shard);
            *owner = match (kept, fresh_field.first(key)) {
                (Some(at), None) => at,
                (Some(at), Some(best)) => {
                    let best = Draw { at: usize::from(fresh[best.at]), ..best };
                    field.draw_at(key, usize::from(at)).or_earlier(best, &mut None).at as u16
                }
                (None, _) => field.first(key).map_or(NOBODY, |draw| draw.at as u16),
            };
        }
    }
}
/// No candidate's position.
const NOBODY: u16 = u16::MAX;

impl AllocationStrategy for WeightedRendezvous {
    fn name(&self) -> &'static str {
        "weighted-rendezvous"
    }

    /// O(candidates), a logarithm for some of the different weights.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.field.follow(view);
        self.field.first(key(request.shard)).map(|draw| draw.member.ix)
    }

    /// Every shard whose owner is not the first in its order, in ascending order. O(shards + candidates). After nodes have
    /// come O(shards x new), after nodes have gone O(their shards x candidates), and O(shards x candidates) at first.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        self.field.follow(view);
        self.found.refresh(&self.field, view.shards());
        for (shard, owner) in view.shards().zip(&self.found.owners) {
            let Some(member) = self.found.members.get(usize::from(*owner)) else { continue };
            let strayed = view.home(shard).is_some_and(|home| home != member.ix);
            if strayed && plan.propose(shard, member.ix, Why::Rule) == Err(Rejected::BudgetSpent) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::super::tests::{T0, node, planned, rest};
    use super::*;
    use crate::allocation::Layout;

    const SHARDS: u32 = 4_000;

    /// Nodes by their ids and capacities, and every shard where it belongs.
    fn settled(capacities: &[(u64, u32)]) -> Layout {
        let mut layout = Layout::new(SHARDS);
        set(&mut layout, capacities);
        let mut strategy = WeightedRendezvous::new();
        for shard in (0..SHARDS).map(ShardId) {
            let to = strategy.place(&layout.view(T0, 0), &Request::new(shard, 0)).unwrap();
            layout.settle(T0, shard, to);
        }
        layout
    }

    fn set(layout: &mut Layout, capacities: &[(u64, u32)]) {
        let mut nodes: Vec<_> = capacities.iter().map(|(id, _)| node(*id, &format!("h:{}", 10 + id))).collect();
        nodes.iter_mut().zip(capacities).for_each(|(node, (_, capacity))| node.capacity = *capacity);
        layout.set_nodes(nodes);
    }

    fn counts(layout: &Layout) -> Vec<u32> {
        let view = layout.view(T0, 0);
        view.candidates().iter().map(|ix| view.count(*ix)).collect()
    }

    #[test]
    fn shards_follow_the_capacities() {
        let counts = counts(&settled(&[(0, 1), (1, 1), (2, 2), (3, 4)]));
        for (count, expected) in counts.iter().zip([500_u32, 500, 1_000, 2_000]) {
            assert!(count.abs_diff(expected) < 100, "{counts:?}");
        }
    }

    #[test]
    fn who_comes_takes_its_share_and_nothing_else_moves() {
        let mut strategy = WeightedRendezvous::new();
        let mut layout = settled(&[(0, 1), (1, 1), (2, 2), (3, 4)]);
        assert_eq!(planned(&mut strategy, &layout), []);
        set(&mut layout, &[(0, 1), (1, 1), (2, 2), (3, 4), (4, 2)]);
        let moves = planned(&mut strategy, &layout);
        assert!(moves.iter().all(|(_, to)| *to == 4) && moves.len().abs_diff(800) < 100, "{}", moves.len());
        assert_eq!(rest(&mut strategy, &mut layout), moves.len());
        // What is kept from plan to plan changes no answer.
        assert_eq!(planned(&mut WeightedRendezvous::new(), &layout), []);
    }

    #[test]
    fn who_gains_capacity_gains_the_difference_and_nothing_else_moves() {
        let mut strategy = WeightedRendezvous::new();
        let mut layout = settled(&[(0, 1), (1, 1), (2, 2), (3, 4)]);
        assert_eq!(planned(&mut strategy, &layout), []);
        set(&mut layout, &[(0, 1), (1, 3), (2, 2), (3, 4)]);
        let moves = planned(&mut strategy, &layout);
        assert!(moves.iter().all(|(_, to)| *to == 1) && moves.len().abs_diff(700) < 100, "{}", moves.len());
        rest(&mut strategy, &mut layout);
        set(&mut layout, &[(0, 1), (1, 1), (2, 2), (3, 4)]);
        // As many go back, each to where it was.
        assert_eq!(planned(&mut strategy, &layout).len(), moves.len());
        rest(&mut strategy, &mut layout);
        assert_eq!(counts(&layout), counts(&settled(&[(0, 1), (1, 1), (2, 2), (3, 4)])));
    }

    #[test]
    fn what_one_leaves_is_spread_over_the_others() {
        let mut strategy = WeightedRendezvous::new();
        let mut layout = settled(&[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
        assert_eq!(planned(&mut strategy, &layout), []);
        layout.set_accepts(NodeIx(2), false);
        let moves = planned(&mut strategy, &layout);
        assert_eq!(moves.len() as u32, layout.view(T0, 0).count(NodeIx(2)));
        assert!([0, 1, 3, 4].iter().all(|to| moves.iter().filter(|m| m.1 == *to).count().abs_diff(200) < 60));
    }

    #[test]
    fn draws_are_as_even_as_chance() {
        // A thousand nodes whose numbers follow each other, and two hundred shards to each.
        let members: Vec<Member> =
            (0..1_000).map(|n| Member { id: NodeId(n), weight: 1, ix: NodeIx(n as u16) }).collect();
        let field = Field::of(members);
        let mut counts = alloc::vec![0_u32; 1_000];
        (0..200_000).for_each(|shard| counts[field.first(key(ShardId(shard))).unwrap().at] += 1);
        // The sum of squares over the mean has a mean of 999 and a deviation of 45.
        let squares: u32 = counts.iter().map(|count| count.abs_diff(200).pow(2)).sum();
        assert!((850..1_150).contains(&(squares / 200)), "{}", squares / 200);
    }

    #[test]
    fn weights_that_all_differ_are_drawn_as_by_logarithms_alone() {
        let mut prng = crate::prng::Prng::new(3);
        let weight = |n: u64, prng: &mut crate::prng::Prng| Member {
            id: NodeId(n * 7),
            weight: 1 + prng.below(60) as u32,
            ix: NodeIx(n as u16),
        };
        let field = Field::of((0..90).map(|n| weight(n, &mut prng)).collect());
        for shard in (0..2_000).map(ShardId) {
            let draws = (0..90).map(|at| field.draw_at(key(shard), at));
            let slow = draws.min_by(|a, b| {
                let scaled = |a: &Draw, b: &Draw| a.distance() * u128::from(b.member.weight);
                scaled(a, b).cmp(&scaled(b, a)).then((b.drawn, a.member.id).cmp(&(a.drawn, b.member.id)))
            });
            assert_eq!(field.first(key(shard)).unwrap().at, slow.unwrap().at, "{shard:?}");
        }
    }
}
