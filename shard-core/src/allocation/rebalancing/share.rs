//! What each node carries, what it should, and how far the cluster is from that.

use alloc::vec::Vec;

use crate::allocation::{ClusterView, NodeIx, Plan};
use crate::id::ShardId;
use crate::shuffle::log2::{FRACTION_BITS, log2};

/// Binary digits after the point of loads and targets.
const POINT: u32 = 12;
/// Half a unit of load.
pub(super) const HALF: i64 = 1 << (POINT - 1);
/// Loads above do not count, so that nothing overflows.
const LOAD_MAX: u64 = 1 << 44;

/// What a shard weighs.
pub(super) fn weight(view: &ClusterView<'_>, shard: ShardId) -> u64 {
    view.load(shard).map_or(1, u64::from)
}

pub(super) fn fixed(load: u64) -> i64 {
    (load.min(LOAD_MAX) << POINT) as i64
}

/// Load and target of every node; those of nodes that are no candidates are zero.
#[derive(Debug)]
pub(super) struct Shares {
    loads: Vec<u64>,
    /// How much of all load a node shall carry, compared to others.
    strengths: Vec<u64>,
    targets: Vec<i64>,
    total: u64,
    candidates: usize,
}

impl Shares {
    pub(super) fn of(view: &ClusterView<'_>, plan: &Plan<'_>) -> Self {
        let mut loads = alloc::vec![0_u64; view.nodes().len()];
        for shard in view.shards() {
            if let Some(ix) = view.counted(shard) {
                loads[ix.at()] += weight(view, shard);
            }
        }
        for m in plan.moves().iter().filter(|m| view.home(m.shard) == Some(m.from)) {
            loads[m.from.at()] -= weight(view, m.shard);
            loads[m.to.at()] += weight(view, m.shard);
        }
        let memory = |ix: NodeIx| view.node(ix).stats.map_or(0, |stats| stats.memory_used);
        let known = view.candidates().iter().all(|ix| memory(*ix) > 0);
        let mut strengths = alloc::vec![0_u64; view.nodes().len()];
        let strength = |ix: NodeIx| {
            let capacity = u128::from(view.node(ix).capacity.max(1));
            (capacity << 64) / u128::from(if known { memory(ix) } else { 1 })
        };
        let greatest = view.candidates().iter().map(|ix| strength(*ix)).max().unwrap_or(0);
        let surplus_bits = (128 - greatest.leading_zeros()).saturating_sub(40);
        for ix in view.candidates() {
            strengths[ix.at()] = ((strength(*ix) >> surplus_bits) as u64).max(1);
        }
        (0..).map(NodeIx).zip(&mut loads).filter(|(ix, _)| !view.is_candidate(*ix)).for_each(|(_, load)| *load = 0);
        let total = loads.iter().sum::<u64>().min(LOAD_MAX);
        let all: u128 = strengths.iter().map(|strength| u128::from(*strength)).sum();
        let target = |own: &u64| ((u128::from(total) << POINT) * u128::from(*own) / all.max(1)) as i64;
        let targets = strengths.iter().map(target).collect();
        Self { loads, strengths, targets, total, candidates: view.candidates().len() }
    }

    /// How much more than its target a node has, in units of load with [`POINT`] binary digits after the point.
    pub(super) fn surplus(&self, ix: NodeIx) -> i64 {
        fixed(self.loads[ix.at()]) - self.targets[ix.at()]
    }

    /// So many millionths of each surplus.
    pub(super) fn parts(&self, ppm: u64) -> Vec<i64> {
        let part = |ix| (i128::from(self.surplus(ix)) * i128::from(ppm) / 1_000_000) as i64;
        (0..self.loads.len() as u16).map(|ix| part(NodeIx(ix))).collect()
    }

    pub(super) fn transfer(&mut self, from: NodeIx, to: NodeIx, weight: u64) {
        self.loads[from.at()] -= weight;
        self.loads[to.at()] += weight;
    }

    /// By how many millionths the entropy of load for strength falls short of the greatest; `None` if there is nothing to
    /// compare.
    pub(super) fn imbalance_ppm(&self) -> Option<u32> {
        if self.candidates < 2 || self.total == 0 {
            return None;
        }
        // Load for strength, each in at most 31 bits.
        let raw: Vec<u128> = self
            .loads
            .iter()
            .zip(&self.strengths)
            .map(|(n, s)| (u128::from(*n) << 60) / u128::from((*s).max(1)))
            .collect();
        let greatest = raw.iter().max().copied().unwrap_or(0);
        let over = (128 - greatest.leading_zeros()).saturating_sub(31);
        let pressures: Vec<u64> = raw.into_iter().map(|pressure| (pressure >> over) as u64).collect();
        let sum: u64 = pressures.iter().sum();
        let weighted: u128 = pressures.iter().filter(|p| **p > 0).map(|p| u128::from(*p) * u128::from(log2(*p))).sum();
        let entropy = u128::from(log2(sum.max(1))).saturating_sub(weighted / u128::from(sum.max(1)));
        let most = u128::from(log2(self.candidates as u64));
        debug_assert!(entropy <= most + (1 << (FRACTION_BITS / 2)), "nothing is more even than even");
        Some((most.saturating_sub(entropy) * 1_000_000 / most) as u32)
    }

    /// What is allowed of it: ten times as much for each power of ten of load above 100,000.
    pub(super) fn allowed_ppm(&self, base: u32) -> u32 {
        let powers = (self.total / 10_000).max(1).ilog10();
        base.saturating_mul(10_u32.saturating_pow(powers)).min(100_000)
    }

    /// The target of a node, in thousandths.
    #[cfg(test)]
    pub(super) fn target_milli(&self, ix: NodeIx) -> i64 {
        (self.targets[ix.at()] * 1_000 + HALF) >> POINT
    }
}
