//! The better of a few drawn.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::num::NonZeroU32;

use super::overload::{Expected, NotOverloaded};
use super::{AllocationStrategy, ClusterView, NodeIx, Request};
use crate::prng::{Prng, mix};
use crate::time::{Duration, nanos};

/// Draws two candidates and takes the one with fewer shards for its capacity: nearly as even as looking at all of them
/// (Mitzenmacher 2001), for a constant cost. Nothing moves, ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TwoChoices {
    slow_start: Duration,
}

impl TwoChoices {
    /// The strategy, without a slow start.
    #[must_use]
    pub const fn new() -> Self {
        Self { slow_start: Duration::ZERO }
    }

    /// A node that has been up for less than `slow_start` is passed over, the more often the newer it is: it warms up
    /// before it has its share.
    #[must_use]
    pub const fn slow_start(self, slow_start: Duration) -> Self {
        Self { slow_start }
    }
}

impl AllocationStrategy for TwoChoices {
    fn name(&self) -> &'static str {
        "two-choices"
    }

    /// O(1).
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let candidates = view.candidates();
        let mut prng = Prng::new(request.seed);
        let first = *prng.pick(candidates)?;
        if candidates.len() == 1 {
            return Some(first);
        }
        // One of the others: the last stands in for the first.
        let mut second = candidates[prng.below(candidates.len() as u64 - 1) as usize];
        if second == first {
            second = candidates[candidates.len() - 1];
        }
        let warm = |ix| is_warm(view, ix, self.slow_start, request.seed);
        match (warm(first), warm(second)) {
            (true, false) => Some(first),
            (false, true) => Some(second),
            _ => [first, second].into_iter().min_by(|a, b| by_room(view, *a, *b)),
        }
    }
}

/// The one that would have fewer shards for its capacity with one more, the lower address first.
pub(super) fn by_room(view: &ClusterView<'_>, a: NodeIx, b: NodeIx) -> Ordering {
    let with_one_more = |ix: NodeIx| u64::from(view.count(ix)) + 1;
    let capacity = |ix: NodeIx| u64::from(view.node(ix).capacity.max(1));
    (with_one_more(a) * capacity(b)).cmp(&(with_one_more(b) * capacity(a))).then(a.cmp(&b))
}

/// Whether a node is warm enough for the decision of `seed`.
fn is_warm(view: &ClusterView<'_>, ix: NodeIx, slow_start: Duration, seed: u64) -> bool {
    let node = view.node(ix);
    let age = view.now().since(node.up_since);
    age >= slow_start || Prng::new(mix(seed, node.id.id.0)).chance(nanos(age), nanos(slow_start))
}

/// Draws `k` of the nodes whose entities are known and which are not overloaded, and takes the one with the fewest
/// entities: Orleans' activation count, by shards. While there are none such, any node of which nothing is known; while all
/// are overloaded, none, and shards wait. Where nobody reports, shards are counted instead. Nothing moves, ever.
///
/// Reports are old when they are read, so a node is taken to have at least as many entities as its shards, the ones on their
/// way to it included, would have on the others on average. (Orleans adds to the last report; that would make an answer depend on those before
/// it. And with no reports it prefers the caller's node, for it counts nothing else.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActivationCount {
    choices: NonZeroU32,
    slow_start: Duration,
    overload: NotOverloaded,
}

impl ActivationCount {
    /// Draws `choices` nodes for a decision.
    #[must_use]
    pub const fn new(choices: NonZeroU32) -> Self {
        let overload = NotOverloaded::new(950, 900);
        Self { choices, slow_start: Duration::ZERO, overload }
    }

    /// A node that has been up for less than `slow_start` is passed over, the more often the newer it is, while there are
    /// others.
    #[must_use]
    pub const fn slow_start(self, slow_start: Duration) -> Self {
        Self { slow_start, ..self }
    }

    /// A node is overloaded above these thousandths of its processors and memory; 950 and 900 unless said otherwise. At
    /// 1,000 and more a node never is.
    #[must_use]
    pub const fn overloaded_above(self, cpu_permille: u16, memory_permille: u16) -> Self {
        Self { overload: NotOverloaded::new(cpu_permille, memory_permille), ..self }
    }
}

impl Default for ActivationCount {
    /// Two choices and no slow start.
    fn default() -> Self {
        Self::new(const { NonZeroU32::new(2).unwrap() })
    }
}

impl AllocationStrategy for ActivationCount {
    fn name(&self) -> &'static str {
        "activation-count"
    }

    /// O(candidates).
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let mut prng = Prng::new(request.seed);
        let stats = |ix: &NodeIx| view.node(*ix).stats;
        let candidates = || view.candidates().iter().copied();
        let fit = |ix: &NodeIx| stats(ix).is_some_and(|stats| !self.overload.is_overloaded(&stats));
        let mut drawn: Vec<NodeIx> = candidates().filter(fit).collect();
        if drawn.is_empty() {
            drawn = candidates().filter(|ix| stats(ix).is_none()).collect();
        }
        if drawn.iter().any(|ix| is_warm(view, *ix, self.slow_start, request.seed)) {
            drawn.retain(|ix| is_warm(view, *ix, self.slow_start, request.seed));
        }
        let choices = drawn.len().min(self.choices.get() as usize);
        for at in 0..choices {
            let left = (drawn.len() - at) as u64;
            drawn.swap(at, at + prng.below(left) as usize);
        }
        let expected = Expected::new(view);
        let load = |ix: &NodeIx| (expected.of(view, *ix), view.count(*ix), *ix);
        drawn[..choices].iter().copied().min_by_key(load)
    }
}

#[cfg(test)]
mod tests;
