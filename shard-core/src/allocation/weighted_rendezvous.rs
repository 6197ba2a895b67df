//! By the highest random weight.

use alloc::vec::Vec;
use core::cmp::Reverse;

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
/// What the first plan on a set of nodes finds is kept, two bytes per shard: later plans only compare.
#[derive(Clone, Debug, Default)]
pub struct WeightedRendezvous {
    cache: Cache,
}

/// The owners found last time, by position in `members`. It carries no meaning: it is found again without it.
#[derive(Clone, Debug, Default)]
struct Cache {
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

/// What a shard drew for a node, which stands at `at`.
#[derive(Clone, Copy, Debug)]
struct Draw {
    drawn: u64,
    member: Member,
    at: u16,
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

    /// Whether it comes before another: the smaller distance for the weight does. Compared crosswise, so whole numbers
    /// decide.
    fn is_before(&self, other: &Self) -> bool {
        let mine = self.distance() * u128::from(other.member.weight);
        let theirs = other.distance() * u128::from(self.member.weight);
        mine < theirs || (mine == theirs && self.is_greater(other))
    }
}

/// Which stream of draws this is.
const SHARDS: u64 = 0x7368_6172_6473_7264;

impl WeightedRendezvous {
    /// The strategy with nothing found yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { cache: Cache { members: Vec::new(), owners: Vec::new() } }
    }
}

/// The candidates in ascending order of their weights.
fn members(view: &ClusterView<'_>) -> Vec<Member> {
    let member = |ix: &NodeIx| {
        let node = view.node(*ix);
        Member { id: node.id.id, weight: node.capacity.max(1), ix: *ix }
    };
    let mut members: Vec<Member> = view.candidates().iter().map(member).collect();
    members.sort_unstable_by_key(|member| (member.weight, member.ix));
    members
}

/// The first in the shard's order. Of neighbours with equal weights the greatest draw is the first, so a logarithm is taken
/// per weight only.
fn first(shard: ShardId, members: impl Iterator<Item = (u16, Member)>) -> Option<Draw> {
    let key = mix(SHARDS, u64::from(shard.0));
    let (mut best, mut leader): (Option<Draw>, Option<Draw>) = (None, None);
    for (at, member) in members {
        let draw = Draw { drawn: mix(key, member.id.0), member, at };
        match leader {
            Some(led) if led.member.weight == member.weight => {
                if draw.is_greater(&led) {
                    leader = Some(draw);
                }
            }
            _ => {
                best = earlier(best, leader);
                leader = Some(draw);
            }
        }
    }
    earlier(best, leader)
}

fn earlier(best: Option<Draw>, other: Option<Draw>) -> Option<Draw> {
    match (best, other) {
        (Some(best), Some(other)) if other.is_before(&best) => Some(other),
        (best, other) => best.or(other),
    }
}

impl Cache {
    /// Finds the owners on the candidates of `view`. A shard whose owner is still there asks only those that are new.
    fn refresh(&mut self, view: &ClusterView<'_>) {
        let shards = view.shards().len();
        let members = members(view);
        if self.owners.len() == shards && members == self.members {
            return;
        }
        let former = core::mem::take(&mut self.members);
        let same = |a: &Member, b: &Member| (a.id, a.weight) == (b.id, b.weight);
        let now_at = |old: &Member| members.iter().position(|new| same(old, new)).map(|at| at as u16);
        let now_at: Vec<Option<u16>> = former.iter().map(now_at).collect();
        let all = || (0_u16..).zip(members.iter().copied());
        let fresh: Vec<_> = all().filter(|(_, new)| !former.iter().any(|old| same(old, new))).collect();
        self.owners.resize(shards, NOBODY);
        for (shard, owner) in view.shards().zip(&mut self.owners) {
            let kept = now_at.get(usize::from(*owner)).copied().flatten();
            let found = match kept {
                Some(at) => first(shard, fresh.iter().copied().chain([(at, members[usize::from(at)])])),
                None => first(shard, all()),
            };
            *owner = found.map_or(NOBODY, |draw| draw.at);
        }
        self.members = members;
    }
}

/// No candidate's position.
const NOBODY: u16 = u16::MAX;

impl AllocationStrategy for WeightedRendezvous {
    fn name(&self) -> &'static str {
        "weighted-rendezvous"
    }

    /// O(candidates log candidates), a logarithm per weight.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        first(request.shard, (0..).zip(members(view))).map(|draw| draw.member.ix)
    }

    /// Every shard whose owner is not the first in its order, in ascending order. O(shards + candidates log candidates). After nodes have
    /// come O(shards x new), after nodes have gone O(their shards x candidates), and O(shards x candidates) at first.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        self.cache.refresh(view);
        for (shard, owner) in view.shards().zip(&self.cache.owners) {
            let Some(member) = self.cache.members.get(usize::from(*owner)) else { continue };
            let strayed = view.home(shard).is_some_and(|home| home != member.ix);
            if strayed && plan.propose(shard, member.ix, Why::Rule) == Err(Rejected::BudgetSpent) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{boxed::Box, format};

    use super::super::tests::{T0, laws, node, planned, rest};
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
    fn the_laws_hold() {
        laws::hold(1, || Box::new(WeightedRendezvous::new()));
    }
}
