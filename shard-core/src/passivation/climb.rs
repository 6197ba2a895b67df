//! A window that finds its size by trying.

/// Hill climbing: after so many uses the rate of hits is compared with the one before; the share goes on in the direction
/// that helped, or turns round, by steps that shrink until the rate changes much again.
///
/// O(1), 80 bytes an instance. Source: Einziger, Eytan, Friedman and Manes, *Adaptive software cache management*,
/// Middleware 2018.
#[derive(Clone, Debug)]
pub struct HillClimb {
    /// A step is taken after the limit times this many uses.
    multiplier: f64,
    step: f64,
    /// A change of the rate that restarts full steps.
    restart: f64,
    decay: f64,
    next: f64,
    before: f64,
    every: u64,
    uses: u64,
    hits: u64,
}

impl HillClimb {
    /// Steps of `step` at first, each after `multiplier` uses for each entity of the limit, shrinking by `decay` until the
    /// rate of hits changes by `restart`. The first step is downwards.
    #[must_use]
    pub const fn new(multiplier: f64, step: f64, restart: f64, decay: f64) -> Self {
        Self { multiplier, step, restart, decay, next: -step, before: 0.0, every: 0, uses: 0, hits: 0 }
    }

    /// The limit is this one now.
    pub(super) fn resize(&mut self, limit: u64) {
        self.every = (self.multiplier * limit as f64) as u64;
    }

    /// Somebody was used, who was awake (`hit`) or not.
    pub(super) const fn used(&mut self, hit: bool) {
        self.uses += 1;
        self.hits += hit as u64;
    }

    /// By how much the share of the window changes now; nothing between two steps.
    pub(super) fn step(&mut self) -> f64 {
        if self.every == 0 || self.uses < self.every {
            return 0.0;
        }
        let rate = self.hits as f64 / self.uses as f64;
        let change = rate - self.before;
        let step = if change >= 0.0 { self.next } else { -self.next };
        self.next = if change.abs() >= self.restart { self.step.copysign(step) } else { step * self.decay };
        (self.before, self.uses, self.hits) = (rate, 0, 0);
        step
    }
}

impl Default for HillClimb {
    /// Ten uses for each entity of the limit; steps of a sixteenth that shrink by a fiftieth; a twentieth restarts them.
    fn default() -> Self {
        Self::new(10.0, 0.0625, 0.05, 0.98)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenth_miss_takes_a_smaller_step_down() {
        let mut climb = HillClimb::new(2.0, 0.123, 0.8, 0.5);
        climb.resize(5);
        let mut expected = -0.123;
        for _ in 0..8 {
            for _ in 0..9 {
                climb.used(false);
                assert_eq!(climb.step(), 0.0);
            }
            climb.used(false);
            assert_eq!(climb.step(), expected);
            expected *= 0.5;
        }
    }

    #[test]
    fn it_turns_round_when_the_rate_falls_and_restarts_when_it_falls_much() {
        let mut climb = HillClimb::new(2.0, 0.4, 0.8, 0.5);
        climb.resize(10);
        let mut step = |hits| {
            (0..20).for_each(|at| climb.used(at < hits));
            climb.step()
        };
        assert_eq!([20, 10, 10, 18, 0, 10, 10].map(&mut step), [-0.4, 0.4, 0.2, 0.1, -0.05, -0.4, -0.2]);
    }
}
