//! The controller that says when a pool has a worker too many.

use core::num::NonZeroU32;

/// The weights of error, sum and change, in thousandths: 0.433, 0.468, 0.480.
const PROPORTIONAL: i64 = 433;
const INTEGRAL: i64 = 468;
const DERIVATIVE: i64 = 480;
/// Errors are counted in millionths of a message per worker.
const SCALE: u64 = 1_000_000;
/// No error is taken for greater than a million messages per worker, no sum for greater than a thousand times that: so nothing
/// can wrap. Nothing hangs on how great they are, only on their sign.
const ERROR_MAX: i64 = 1_000_000 * SCALE as i64;
const SUM_MAX: i64 = 1_000 * ERROR_MAX;

/// A PID controller with set point zero, as Orleans has it: looked at every half second, it says whether one idle worker may go.
///
/// With `e` the mean number of messages that wait for a worker, negated, `I` the sum of all `e` so far and `d` the change of `e`
/// since the last look, the signal is `u = 0.433 e + 0.468 I + 0.480 d`. A look with `u < 0` is an idle cycle, any other begins to
/// count anew; after as many as configured one worker that is idle goes. If `n` were idle, `I` shrinks to `(n - 1) / n` of itself,
/// so after the last of them it is zero.
///
/// # The sign
/// A backlog makes `e` negative, so it is *load* that arms removal, not the lack of it: `I` is negative after any look that found
/// somebody waiting, and stays so until removals have spent it. What one would expect is the reverse. It does no harm, since only
/// a worker that is idle at the look is removed, one at a time: while there is load, none is idle. But a pool whose looks never
/// found anybody waiting keeps all the workers that it made, be they idle for days. Our choice: the signal is kept as it is, so that the
/// numbers are those of Orleans and what is known of its pools holds here. What it leaves behind is bounded by `at_most`, and
/// a worker is small; one that holds something costly ends itself with [`Context::stop`](crate::entity::Context::stop).
///
/// Integers only: errors in millionths (rounded away from zero), signals in billionths. Each call is O(1).
///
/// ```
/// use shard_core::workers::Controller;
/// let mut controller = Controller::new(core::num::NonZeroU32::MIN);
/// assert_eq!(controller.look(8, 4).per_billion(), -2_762_000_000); // two wait for each of four
/// assert!(controller.is_due());
/// controller.removed(4);
/// assert_eq!(controller.look(0, 3).per_billion(), 258_000_000); // 0.468 (-2 * 3 / 4) + 0.480 * 2
/// assert!(!controller.is_due());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Controller {
    error: i64,
    sum: i64,
    idle_cycles: u32,
    due: NonZeroU32,
}

impl Controller {
    /// One that is due after so many idle cycles at a stretch.
    #[must_use]
    pub const fn new(due: NonZeroU32) -> Self {
        Self { error: 0, sum: 0, idle_cycles: 0, due }
    }

    /// Looks: so many messages wait for so many workers. Without workers nobody waits.
    pub fn look(&mut self, waiting: u64, workers: u64) -> Signal {
        let mean = u128::from(waiting) * u128::from(SCALE);
        let mean = if workers == 0 { 0 } else { mean.div_ceil(u128::from(workers)) };
        let error = -i64::try_from(mean).unwrap_or(ERROR_MAX).min(ERROR_MAX);
        let change = error - self.error;
        self.sum = (self.sum + error).max(-SUM_MAX);
        self.error = error;
        let signal = Signal(PROPORTIONAL * error + INTEGRAL * self.sum + DERIVATIVE * change);
        self.idle_cycles = if signal.0 < 0 { self.idle_cycles.saturating_add(1) } else { 0 };
        signal
    }

    /// Whether an idle worker may go, if there is one.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.idle_cycles >= self.due.get()
    }

    /// One of `idle` idle workers goes.
    pub fn removed(&mut self, idle: u32) {
        let idle = i128::from(idle.max(1));
        let sum = i128::from(self.sum) * (idle - 1) / idle;
        // It only shrinks.
        self.sum = i64::try_from(sum).unwrap_or(self.sum);
        self.idle_cycles = 0;
    }

    /// Forgets all it saw: the last worker has gone.
    pub const fn forget(&mut self) {
        (self.error, self.sum, self.idle_cycles) = (0, 0, 0);
    }
}

/// What a look came to; below zero it was an idle cycle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Signal(i64);

impl Signal {
    /// In billionths.
    #[must_use]
    pub const fn per_billion(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn controller(due: u32) -> Controller {
        Controller::new(NonZeroU32::new(due).unwrap())
    }

    /// The signals of one worker with so many waiting, in thousandths, rounded.
    fn signals(waiting: &[u64]) -> Vec<i64> {
        let mut controller = controller(1);
        waiting.iter().map(|n| (controller.look(*n, 1).per_billion() - 500_000) / 1_000_000).collect()
    }

    #[test]
    fn the_vectors_of_orleans() {
        assert_eq!(controller(1).look(0, 3), Signal(0));
        let mut idle = controller(1);
        assert!((0..3).all(|_| idle.look(0, 1) == Signal(0)) && !idle.is_due());
        assert_eq!(signals(&[2, 2, 0, 0, 0]), [-2_762, -2_738, -912, -1_872, -1_872]);
        assert_eq!(signals(&[10, 5, 1, 0, 0]), [-13_810, -6_785, -6_001, -7_008, -7_488]);
    }

    #[test]
    fn the_vectors_again_in_floating_point_with_removals() {
        let (mut integers, mut prng) = (controller(1), crate::prng::Prng::new(7));
        let (mut before, mut sum) = (0.0, 0.0);
        for _ in 0..10_000 {
            let (waiting, workers) = (prng.below(50), prng.between(1, 8));
            let error = -(waiting as f64) / workers as f64;
            sum += error;
            let expected = 0.433 * error + 0.468 * sum + 0.480 * (error - before);
            before = error;
            let signal = integers.look(waiting, workers).per_billion() as f64 / 1e9;
            assert!((signal - expected).abs() < 1e-3, "{signal} {expected}");
            if integers.is_due() && prng.chance(1, 2) {
                let idle = prng.between(1, 8) as u32;
                integers.removed(idle);
                sum *= f64::from(idle - 1) / f64::from(idle);
            }
        }
    }

    #[test]
    fn load_arms_removal_and_removals_disarm_it() {
        let mut controller = controller(2);
        controller.look(8, 4);
        assert!(!controller.is_due(), "one idle cycle is not two");
        controller.look(0, 4);
        assert!(!controller.is_due(), "the backlog went: the change outweighs the sum once");
        controller.look(0, 4);
        controller.look(0, 4);
        assert!(controller.is_due());
        for idle in [4, 3, 2, 1] {
            controller.removed(idle);
            assert!(!controller.is_due());
            controller.look(0, 1);
            controller.look(0, 1);
            assert_eq!(controller.is_due(), idle > 1, "the sum is spent with the last");
        }
    }

    #[test]
    fn the_greatest_load_wraps_nothing() {
        let mut controller = controller(1);
        for _ in 0..5_000 {
            assert!(controller.look(u64::MAX, 1) < Signal(0));
        }
        assert_eq!(controller.sum, -SUM_MAX);
        controller.removed(u32::MAX);
        assert!(controller.sum < 0);
        controller.look(0, 0);
    }
}
