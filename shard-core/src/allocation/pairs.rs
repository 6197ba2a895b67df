//! Moves decided on paper, node to node, before it is known which shards make them.

use alloc::vec::Vec;

use super::{ClusterView, NodeIx, Plan, Why};

/// Memory kept between rounds; it carries no meaning from one to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    /// Per node: how many shards it could still give.
    movable: Vec<u32>,
    /// Who gives to whom: one pair per move.
    pairs: Vec<(NodeIx, NodeIx)>,
    /// Per node: the next of its pairs.
    next: Vec<usize>,
}

impl Pairs {
    pub(super) const fn new() -> Self {
        Self { movable: Vec::new(), pairs: Vec::new(), next: Vec::new() }
    }

    /// Forgets the last round and counts what every node could give. O(shards).
    pub(super) fn begin(&mut self, view: &ClusterView<'_>, plan: &Plan<'_>) {
        self.pairs.clear();
        self.movable.clear();
        self.movable.resize(view.nodes().len(), 0);
        for shard in view.shards() {
            if let Some(home) = view.home(shard)
                && !plan.is_moving(shard)
            {
                self.movable[home.at()] += 1;
            }
        }
    }

    /// How many pairs there are.
    pub(super) const fn len(&self) -> usize {
        self.pairs.len()
    }

    /// How many more shards a node can give: one whose count is all arrivals has nothing to give before they have arrived.
    pub(super) fn movable(&self, ix: NodeIx) -> u32 {
        self.movable[ix.at()]
    }

    /// Lets `from`, which can give one more, give one to `to`.
    pub(super) fn push(&mut self, from: NodeIx, to: NodeIx) {
        self.movable[from.at()] -= 1;
        self.pairs.push((from, to));
    }

    /// Finds a shard for every pair: the lowest numbers first, and moves come out in the order of their shards.
    /// O(shards + pairs log pairs).
    pub(super) fn propose(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>, why: Why) {
        // Stable: each giver serves its takers in the order in which they were found.
        self.pairs.sort_by_key(|(from, _)| *from);
        self.next.clear();
        self.next.resize(view.nodes().len(), usize::MAX);
        for (at, (from, _)) in self.pairs.iter().enumerate().rev() {
            self.next[from.at()] = at;
        }
        let mut left = self.pairs.len();
        for shard in view.shards() {
            if left == 0 {
                return;
            }
            let Some(home) = view.home(shard) else { continue };
            let next = &mut self.next[home.at()];
            let Some(&(from, to)) = self.pairs.get(*next) else { continue };
            if from == home && !plan.is_moving(shard) && plan.propose(shard, to, why).is_ok() {
                *next += 1;
                left -= 1;
            }
        }
    }
}
