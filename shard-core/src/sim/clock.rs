//! A clock that runs too fast or too slow.

use crate::time::Instant;

const MILLION: u128 = 1_000_000;

/// One node's clock: piecewise linear in real time, never back.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// Real and local time at the last change of the rate.
    real: u64,
    local: u64,
    /// Local nanoseconds per million real ones.
    rate: u64,
}

impl Clock {
    pub(super) fn new(phase: u64, rate: u64) -> Self {
        Self { real: 0, local: phase, rate }
    }

    pub(super) fn at(&self, real: u64) -> Instant {
        let passed = u128::from(real.saturating_sub(self.real)) * u128::from(self.rate) / MILLION;
        Instant::from_nanos(self.local + passed as u64)
    }

    /// The first real moment at which this clock shows `local`.
    pub(super) fn when(&self, local: Instant) -> u64 {
        let ahead = u128::from(local.as_nanos().saturating_sub(self.local));
        let real = (ahead * MILLION).div_ceil(u128::from(self.rate));
        self.real.saturating_add(u64::try_from(real).unwrap_or(u64::MAX))
    }

    /// Stands still until then.
    pub(super) fn freeze(&mut self, real: u64, until: u64) {
        self.local = self.at(real).as_nanos();
        self.real = until;
    }

    pub(super) fn run_at(&mut self, real: u64, rate: u64) {
        self.local = self.at(real).as_nanos();
        self.real = real;
        self.rate = rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_reached_at_the_moment_the_clock_names_and_not_before() {
        let mut clock = Clock::new(77, 950_000);
        clock.run_at(1_000_003, 1_050_000);
        for local in [2_000_000, 2_000_001, 5_000_007] {
            let real = clock.when(Instant::from_nanos(local));
            assert!(clock.at(real).as_nanos() >= local && clock.at(real - 1).as_nanos() < local);
        }
    }
}
