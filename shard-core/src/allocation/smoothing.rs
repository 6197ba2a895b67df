//! Measurements made calm before they are acted upon. Nothing here reads a clock or changes by being read.

use crate::time::{Duration, Instant};

/// Follows a rise at once and a fall slowly: half of what is left of a peak is gone after each half-life, however often it is
/// measured. The default where nodes measure themselves.
///
/// A node that is busy now is busy now; one that was busy a moment ago may be so again. Orleans' filter
/// ([`DualModeKalman`]) means the same, but follows a steep rise only from its calm mode, and its pace depends on how often
/// it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeakHold {
    half_life: Duration,
    /// When, and the value in fine units.
    last: Option<(Instant, u128)>,
}

/// Values are kept in units of a 65,536th, so that what many small steps lose does not add up.
const FINE: u32 = 16;

impl PeakHold {
    /// With that half-life; zero follows a fall at once as well.
    #[must_use]
    pub const fn new(half_life: Duration) -> Self {
        Self { half_life, last: None }
    }

    /// Takes in a measurement, and says what it is taken for. O(1).
    pub fn sample(&mut self, now: Instant, measured: u64) -> u64 {
        let measured = u128::from(measured) << FINE;
        let value = match self.last {
            Some((at, value)) if value > measured => measured + self.left(value - measured, now.since(at)),
            _ => measured,
        };
        self.last = Some((now, value));
        self.value()
    }

    /// What the last measurement was taken for; zero if there was none.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.last.map_or(0, |(_, value)| u64::try_from(value >> FINE).unwrap_or(u64::MAX))
    }

    /// What is left of `peak` after `span`: halved for each whole half-life, and for the rest by a cubic that differs from the
    /// power of two by less than a thousandth.
    fn left(&self, peak: u128, span: Duration) -> u128 {
        const ONE: u128 = 1 << 20;
        let (span, half) = (span.as_nanos(), self.half_life.as_nanos());
        if half == 0 {
            return 0;
        }
        let halves = u32::try_from(span / half).unwrap_or(u32::MAX);
        let part = ((span % half) << 20) / half;
        let slope = 726_817 - part * (251_899 - part * 49_370 / ONE) / ONE;
        let whole = peak.checked_shr(halves).unwrap_or(0);
        whole * (ONE - part * slope / ONE) / ONE
    }
}

/// Orleans' cooperative dual-mode Kalman filter, to the bit: a slow filter without process noise, and a fast one that takes over
/// when a measurement exceeds the slow one's value.
///
/// It is here for those who compare; see [`PeakHold`] for why it is not the default. Each sample counts as one step, however
/// long after the last.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DualModeKalman {
    slow: Scalar,
    fast: Scalar,
    is_fast: bool,
    value: f32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Scalar {
    value: f32,
    variance: f32,
}

impl Scalar {
    fn step(&mut self, measured: f32, noise: f32) -> f32 {
        let variance = self.variance + noise;
        let gain = variance / (variance + 1.0);
        self.value += gain * (measured - self.value);
        self.variance = (1.0 - gain) * variance;
        self.value
    }
}

/// The process noise of the fast filter.
const FAST: f32 = 0.01;

impl DualModeKalman {
    /// Nothing measured yet.
    #[must_use]
    pub const fn new() -> Self {
        let filter = Scalar { value: 0.0, variance: 1.0 };
        Self { slow: filter, fast: filter, is_fast: false, value: 0.0 }
    }

    /// Takes in a measurement, and says what it is taken for.
    pub fn sample(&mut self, measured: f32) -> f32 {
        let mut slow = self.slow.step(measured, 0.0);
        let mut fast = self.fast.step(measured, FAST);
        if measured > slow {
            if !self.is_fast {
                self.is_fast = true;
                self.fast = Scalar { value: measured, variance: 0.0 };
                fast = self.fast.step(measured, FAST);
            }
            self.value = fast;
        } else {
            if self.is_fast {
                self.is_fast = false;
                self.slow = self.fast;
                slow = self.slow.step(measured, 0.0);
            }
            self.value = slow;
        }
        self.value
    }

    /// What the last measurement was taken for.
    #[must_use]
    pub const fn value(&self) -> f32 {
        self.value
    }

    /// Whether the fast filter is in charge.
    #[must_use]
    pub const fn is_fast(&self) -> bool {
        self.is_fast
    }
}

impl Default for DualModeKalman {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn run(samples: &[f32]) -> Vec<(f32, bool)> {
        let mut filter = DualModeKalman::new();
        samples.iter().map(|sample| (filter.sample(*sample), filter.is_fast())).collect()
    }

    fn same(samples: &[f32], expected: &[(f32, bool)]) {
        for (found, expected) in run(samples).iter().zip(expected) {
            assert!(
                (found.0 - expected.0).abs() <= 1e-4 && found.1 == expected.1,
                "{samples:?}: {found:?}, {expected:?}"
            );
        }
    }

    #[test]
    fn the_filter_of_orleans_comes_out_as_it_was_computed() {
        const F: bool = true;
        const S: bool = false;
        same(&[0.0, 0.0, 100.0, 100.0], &[(0.0, S), (0.0, S), (100.0, F), (100.0, F)]);
        let fall = [80.0, 80.0, 80.0, 80.0, 80.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let values = [72.05943, 68.65232, 65.55285, 62.72115, 60.12397, 57.73333, 55.52552, 53.48036];
        let expected: Vec<_> = [(80.0, F); 5].into_iter().chain(values.map(|value| (value, S))).collect();
        same(&fall, &expected);
        same(
            &[10.0, 10.0, 10.0, 90.0, 10.0, 10.0, 10.0, 10.0],
            &[
                (10.0, F),
                (10.0, F),
                (10.0, F),
                (12.97818, F),
                (12.72115, S),
                (12.60859, S),
                (12.50496, S),
                (12.40926, S),
            ],
        );
        same(
            &[10.0, 20.0, 30.0, 40.0, 50.0, 40.0, 30.0, 20.0, 10.0],
            &[
                (10.0, F),
                (10.19513, F),
                (10.76287, F),
                (11.85128, F),
                (13.57169, F),
                (14.95178, F),
                (15.83324, F),
                (16.33579, S),
                (15.97544, S),
            ],
        );
        let step = run(&[20.0, 20.0, 20.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0]);
        assert!((step[8].0 - 42.828).abs() < 1e-3, "six seconds after it was saturated it says 43: {step:?}");
    }

    #[test]
    fn a_peak_is_seen_at_once_and_forgotten_by_half_lives_however_often_it_is_measured() {
        let second = |seconds: u64| Instant::from_millis(1_000 * seconds);
        let mut hold = PeakHold::new(Duration::from_secs(5));
        assert_eq!(hold.value(), 0);
        assert_eq!(hold.sample(second(1), 200), 200);
        assert_eq!(hold.sample(second(2), 1_000), 1_000);
        let mut often = hold;
        assert_eq!(hold.sample(second(7), 0), 500);
        assert_eq!(hold.sample(second(17), 0), 125);
        for tenth in 1..=50 {
            often.sample(Instant::from_millis(2_000 + 100 * tenth), 0);
        }
        assert!((498..=501).contains(&often.value()), "{}", often.value());
        assert_eq!(often.sample(second(1_000), 7), 7);
        assert_eq!(PeakHold::new(Duration::ZERO).sample(second(1), 9), 9);
    }

    #[test]
    fn reading_changes_nothing() {
        let mut filter = DualModeKalman::new();
        filter.sample(50.0);
        assert_eq!((filter.value(), filter.value()), (50.0, 50.0));
    }
}
