//! Placement by processors, memory and entities.

use alloc::vec::Vec;
use core::fmt;

use super::overload::{Expected, NotOverloaded};
use super::{AllocationStrategy, ClusterView, NodeIx, Request, Stats};
use crate::prng::Prng;

/// What counts how much; only their proportions matter. Each at most 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weights {
    /// The share of the processors in use.
    pub cpu: u8,
    /// The share of the memory in use.
    pub memory: u8,
    /// Having less memory than the node that has most.
    pub memory_limit: u8,
    /// Having more entities than others.
    pub entities: u8,
}

impl Default for Weights {
    /// 40, 40, 5 and 15: Orleans' defaults, whose two weights of memory in use and memory available (20 each) weigh one number.
    fn default() -> Self {
        Self { cpu: 40, memory: 40, memory_limit: 5, entities: 15 }
    }
}

/// A weight or margin beyond 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// Which.
    pub name: &'static str,
    /// What it was.
    pub value: u8,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}, and must be at most 100", self.name, self.value)
    }
}

impl core::error::Error for OutOfRange {}

/// Of the candidates that are not overloaded, draws as many as the root of their number, and takes the one with the best score
/// by processors, memory and entities; the node that asks, if it is nearly as good. Nothing moves, ever. While all are
/// overloaded, shards wait. Source: Orleans' resource-optimized placement.
///
/// What is different there: while all are overloaded, the first address gets everything; where nobody has an entity, the score is
/// no number; a node that has not reported yet gets nothing while others have; and between two reports everything goes to one
/// best node. Here such a node counts as the average of the drawn, and shards on their way count as entities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceOptimized {
    weights: Weights,
    margin: u8,
    overload: NotOverloaded,
}

/// The whole of a score.
const MILLION: u64 = 1_000_000;

impl ResourceOptimized {
    /// With these weights; and the node that asks is taken if its score is worse by `margin` hundredths at most.
    ///
    /// # Errors
    /// A weight or the margin is beyond 100.
    pub fn new(weights: Weights, margin: u8) -> Result<Self, OutOfRange> {
        let Weights { cpu, memory, memory_limit, entities } = weights;
        let all = [
            ("cpu", cpu),
            ("memory", memory),
            ("memory_limit", memory_limit),
            ("entities", entities),
            ("margin", margin),
        ];
        match all.into_iter().find(|(_, value)| *value > 100) {
            Some((name, value)) => Err(OutOfRange { name, value }),
            None => Ok(Self { weights, margin, overload: NotOverloaded::default() }),
        }
    }

    /// With another opinion of what is too much.
    #[must_use]
    pub const fn overloaded_when(self, overload: NotOverloaded) -> Self {
        Self { overload, ..self }
    }

    /// The score of a node, in millionths: 0 is the best, a million the worst. `entities` are those it has, of at most
    /// `entities_max` that any candidate has, and `limit_max` is the most memory that any may use.
    #[must_use]
    pub fn score(&self, stats: &Stats, entities: u128, entities_max: u128, limit_max: u64) -> u32 {
        let Weights { cpu, memory, memory_limit, entities: count } = self.weights;
        let sum = [cpu, memory, memory_limit, count].into_iter().map(u64::from).sum::<u64>().max(1);
        let part = |of: u128, whole: u128| match whole {
            0 => 0,
            _ => (of.min(whole) * u128::from(MILLION) / whole) as u64,
        };
        let mut score =
            u64::from(cpu) * part(stats.cpu_permille.into(), 1_000) + u64::from(count) * part(entities, entities_max);
        if stats.memory_limit > 0 {
            score += u64::from(memory) * part(stats.memory_used.into(), stats.memory_limit.into());
            score += u64::from(memory_limit) * (MILLION - part(stats.memory_limit.into(), limit_max.into()));
        }
        u32::try_from(score / sum).unwrap_or(u32::MAX)
    }
}

impl Default for ResourceOptimized {
    /// The weights' defaults and a margin of 5.
    fn default() -> Self {
        Self { weights: Weights::default(), margin: 5, overload: NotOverloaded::default() }
    }
}

/// The root of `n`, rounded up.
fn draws(n: usize) -> usize {
    let root = n.isqrt();
    root + usize::from(root * root < n)
}

impl AllocationStrategy for ResourceOptimized {
    fn name(&self) -> &'static str {
        "resource-optimized"
    }

    /// O(candidates).
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let stats = |ix: NodeIx| view.node(ix).stats;
        let fits = |ix: &NodeIx| stats(*ix).is_none_or(|stats| !self.overload.is_overloaded(&stats));
        let mut fit: Vec<NodeIx> = view.candidates().iter().copied().filter(fits).collect();
        let mut prng = Prng::new(request.seed);
        let drawn = draws(fit.len());
        for at in 0..drawn {
            let left = (fit.len() - at) as u64;
            fit.swap(at, at + prng.below(left) as usize);
        }
        // Overloaded ones are what others are compared with, too.
        let expected = Expected::new(view);
        let entities_max = view.candidates().iter().map(|ix| expected.of(view, *ix)).max().unwrap_or(0);
        let limits = view.candidates().iter().filter_map(|ix| stats(*ix)).map(|stats| stats.memory_limit);
        let limit_max = limits.max().unwrap_or(0);
        let score = |ix: NodeIx| Some(self.score(&stats(ix)?, expected.of(view, ix), entities_max, limit_max));
        let known: Vec<u32> = fit[..drawn].iter().filter_map(|ix| score(*ix)).collect();
        let average = known.iter().map(|score| u64::from(*score)).sum::<u64>() / known.len().max(1) as u64;
        let score = |ix: NodeIx| score(ix).map_or(average, u64::from);
        // Equals in the order drawn, but the one with fewer shards first: among those that never reported it is all there is.
        let best = fit[..drawn].iter().copied().min_by_key(|ix| (score(*ix), view.count(*ix)))?;
        let margin = u64::from(self.margin) * (MILLION / 100);
        let asker = request.asker.filter(|asker| fit.contains(asker));
        Some(asker.filter(|asker| score(*asker) <= score(best) + margin).unwrap_or(best))
    }
}

#[cfg(test)]
mod tests;
