//! What stays even while shards move towards each other, and how even.

use alloc::vec::Vec;

use crate::allocation::{ClusterView, NodeIx, Plan};
use crate::id::ShardId;

/// What a [`Repartitioning`](super::Repartitioning) keeps even: what the strategy within evens out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Balance {
    /// Shards, for strategies that count.
    #[default]
    Counts,
    /// Load for capacity, as [`WeightedMove`](crate::allocation::WeightedMove) does. Give it a cool-down: without one there are
    /// clusters in which the two keep each other busy for long.
    Loads,
    /// Load for capacity and memory, as [`Rebalancing`](crate::allocation::Rebalancing) does: by load alone unless every
    /// candidate reports the memory in use.
    Memory,
}

impl Balance {
    /// What a shard weighs.
    fn weight(self, view: &ClusterView<'_>, shard: ShardId) -> u64 {
        match self {
            Self::Counts => 1,
            Self::Loads | Self::Memory => view.load(shard).map_or(1, u64::from),
        }
    }

    /// What each node carries when everything in flight and planned is over. O(shards).
    fn carried(self, view: &ClusterView<'_>, plan: &Plan<'_>) -> Vec<u64> {
        let mut carried = alloc::vec![0_u64; view.nodes().len()];
        for shard in view.shards() {
            if let Some(ix) = view.counted(shard) {
                carried[ix.at()] += self.weight(view, shard);
            }
        }
        // What an outer strategy does not show was not weighed.
        for m in plan.moves().iter().filter(|m| view.home(m.shard) == Some(m.from)) {
            let weight = self.weight(view, m.shard);
            carried[m.from.at()] -= weight;
            carried[m.to.at()] += weight;
        }
        carried
    }

    /// How hot a unit of weight makes each node.
    fn factors(self, view: &ClusterView<'_>) -> Vec<u64> {
        let memory = |ix: NodeIx| view.node(ix).stats.map_or(0, |stats| stats.memory_used);
        let known = self == Self::Memory && view.candidates().iter().all(|ix| memory(*ix) > 0);
        let factor = |ix| {
            let capacity = u64::from(view.node(ix).capacity.max(1));
            match self {
                Self::Counts => 1,
                _ if known => memory(ix).clamp(1, 1 << 50) * (1 << 12) / capacity,
                _ => (1 << 32) / capacity,
            }
        };
        (0..view.nodes().len() as u16).map(|ix| factor(NodeIx(ix)).max(1)).collect()
    }
}

/// What every node carries when everything in flight and planned is over, and how far the hottest may be from the coldest.
#[derive(Debug)]
pub(super) struct Heats {
    balance: Balance,
    carried: Vec<u64>,
    factors: Vec<u64>,
    tolerance: u128,
}

impl Heats {
    /// Nodes may be `permille` thousandths of the mean apart, or as much as `shards` shards of mean weight if that is more.
    /// O(nodes) by count, else O(shards + nodes).
    pub(super) fn of(view: &ClusterView<'_>, plan: &Plan<'_>, balance: Balance, permille: u32, shards: u32) -> Self {
        let carried = match balance {
            Balance::Counts => plan.counts().iter().map(|count| u64::from(*count)).collect(),
            Balance::Loads | Balance::Memory => balance.carried(view, plan),
        };
        let mut heats = Self { balance, carried, factors: balance.factors(view), tolerance: 0 };
        let candidates = view.candidates();
        let total = candidates.iter().fold(0_u128, |sum, ix| sum.saturating_add(heats.heat(*ix)));
        let number: u128 = candidates.iter().map(|ix| u128::from(plan.count(*ix))).sum();
        let mean = total / (candidates.len().max(1) as u128);
        let share = mean / 1_000 * u128::from(permille) + mean % 1_000 * u128::from(permille) / 1_000;
        heats.tolerance = share.max(total.saturating_mul(u128::from(shards)) / number.max(1));
        heats
    }

    fn heat(&self, ix: NodeIx) -> u128 {
        u128::from(self.carried[ix.at()]) * u128::from(self.factors[ix.at()])
    }

    /// The least and the greatest of some nodes.
    fn range(&self, nodes: impl Iterator<Item = NodeIx>) -> Option<(u128, u128)> {
        nodes.map(|ix| self.heat(ix)).fold(None, |range, heat| {
            let (least, most) = range.unwrap_or((heat, heat));
            Some((least.min(heat), most.max(heat)))
        })
    }

    /// Whether all candidates are within the tolerance.
    pub(super) fn is_even(&self, view: &ClusterView<'_>) -> bool {
        self.range(view.candidates().iter().copied()).is_none_or(|(least, most)| most - least <= self.tolerance)
    }

    /// Between what two nodes must stay.
    pub(super) fn band(&self, view: &ClusterView<'_>, pair: [NodeIx; 2]) -> Band {
        if !self.is_even(view) {
            return Band::NoFurtherApart;
        }
        Band::WithOthers(self.range(view.candidates().iter().copied().filter(|ix| !pair.contains(ix))))
    }

    /// Whether the two may exchange these shards: one that goes from the first to the second, or one each way.
    pub(super) fn may(&self, view: &ClusterView<'_>, band: Band, pair: [NodeIx; 2], going: Going) -> bool {
        let [a, b] = pair.map(|ix| self.carried[ix.at()]);
        let (out, back) = going.weights(self.balance, view);
        let (new_a, new_b) = (a - out + back, b + out - back);
        let heat = |ix: NodeIx, carried: u64| u128::from(carried) * u128::from(self.factors[ix.at()]);
        let (new_a, new_b) = (heat(pair[0], new_a), heat(pair[1], new_b));
        let (low, high) = (new_a.min(new_b), new_a.max(new_b));
        match band {
            Band::NoFurtherApart => high - low <= self.heat(pair[0]).abs_diff(self.heat(pair[1])),
            Band::WithOthers(others) => {
                let (least, most) = others.unwrap_or((low, high));
                high.max(most) - low.min(least) <= self.tolerance
            }
        }
    }

    /// They have exchanged them.
    pub(super) fn exchange(&mut self, view: &ClusterView<'_>, [a, b]: [NodeIx; 2], going: Going) {
        let (out, back) = going.weights(self.balance, view);
        self.carried[a.at()] = self.carried[a.at()] - out + back;
        self.carried[b.at()] = self.carried[b.at()] + out - back;
    }

    /// Which of two carries more.
    pub(super) fn is_hotter(&self, a: NodeIx, b: NodeIx) -> bool {
        self.heat(a) > self.heat(b)
    }
}

/// What the heats of two nodes must keep to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Band {
    /// All are within the tolerance, and remain so; the least and the greatest of the others.
    WithOthers(Option<(u128, u128)>),
    /// They are not, and these two must not add to it.
    NoFurtherApart,
}

/// What a step moves: a shard of the first node, and one that takes its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Going {
    pub(super) out: ShardId,
    pub(super) back: Option<ShardId>,
}

impl Going {
    fn weights(self, balance: Balance, view: &ClusterView<'_>) -> (u64, u64) {
        (balance.weight(view, self.out), self.back.map_or(0, |back| balance.weight(view, back)))
    }
}
