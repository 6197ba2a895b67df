//! By count: the default.

use alloc::collections::BTreeSet;

use super::pairs::Pairs;
use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why};

/// Places a shard where the fewest are, the lowest address first, and moves shards from the busiest node to the least
/// busy one while their counts are too far apart.
///
/// It differs from the seed's strategy of the same name where that one never rests: a move is proposed only if it
/// improves the balance, so the giver must have two more than the taker, whatever the threshold; and the moves that are
/// still in flight count both against `max_simultaneous` and in the counts. With the default threshold, counts end at
/// most one apart.
#[derive(Clone, Debug)]
pub struct LeastShard {
    threshold: u32,
    max_simultaneous: usize,
    pairs: Pairs,
}

impl LeastShard {
    /// Moves begin when two nodes are `threshold` or more shards apart (1 means 2, since a smaller step improves
    /// nothing), and at most `max_simultaneous` shards are on their way at once, whoever sent them.
    #[must_use]
    pub const fn new(threshold: u32, max_simultaneous: usize) -> Self {
        Self { threshold, max_simultaneous, pairs: Pairs::new() }
    }
}

impl Default for LeastShard {
    /// A threshold of 1 and 3 moves at once, as in the seed.
    fn default() -> Self {
        Self::new(1, 3)
    }
}

impl AllocationStrategy for LeastShard {
    fn name(&self) -> &'static str {
        "least-shard"
    }

    /// O(candidates).
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        view.candidates().iter().copied().min_by_key(|ix| (view.count(*ix), *ix))
    }

    /// Two passes over the shards, or none if the counts are even; besides them O(moves x log nodes). The shards with the
    /// lowest numbers move, and moves come out in the order of their shards.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let under_way = view.in_flight() + plan.moves().len();
        let room = self.max_simultaneous.saturating_sub(under_way).min(plan.budget());
        let step = self.threshold.max(2);
        let counts = || view.candidates().iter().map(|ix| plan.count(*ix));
        let (Some(most), Some(least)) = (counts().max(), counts().min()) else { return };
        if room == 0 || most - least < step {
            return;
        }
        self.pairs.begin(view, plan);
        self.pair(view, plan, step, room);
        self.pairs.propose(view, plan, Why::Count);
    }
}

impl LeastShard {
    /// Lets the busiest give one to the least busy, again and again, on paper.
    fn pair(&mut self, view: &ClusterView<'_>, plan: &Plan<'_>, step: u32, room: usize) {
        let mut order: BTreeSet<(u32, NodeIx)> = view.candidates().iter().map(|ix| (plan.count(*ix), *ix)).collect();
        while self.pairs.len() < room {
            let (Some(&(most, from)), Some(&(least, to))) = (order.last(), order.first()) else { return };
            if most - least < step {
                return;
            }
            order.remove(&(most, from));
            if self.pairs.movable(from) == 0 {
                continue;
            }
            order.remove(&(least, to));
            order.insert((most - 1, from));
            order.insert((least + 1, to));
            self.pairs.push(from, to);
        }
    }
}
