//! The times of the protocol, and the inequalities that make it safe.
//!
//! `rho` bounds the *rate* error of every clock: each runs within `[1 - rho, 1 + rho]` of real time. `kappa` is
//! `(1 + rho) / (1 - rho)`: two clocks that start together and read the same later are that factor apart at most.

use core::fmt;

use crate::time::Duration;

/// Clocks that may be wrong by half or more can be compared with nothing.
const RATE_ERROR_BELOW: u32 = 500;

/// The times that the machines obey. Take [`Timing::lan`], [`Timing::fast`] or [`Timing::wan`] and change what must
/// differ; whoever builds a node from it calls [`Timing::check`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timing {
    /// rho, the bound on each clock's rate error, in parts per thousand.
    pub rate_error_permille: u32,
    /// H: how often a region sends a heartbeat.
    pub heartbeat: Duration,
    /// D: how long a region lives on after *sending* a heartbeat that was acknowledged.
    pub session: Duration,
    /// W: how long a coordinator waits after processing a heartbeat before it takes the session for dead. At least D kappa.
    pub wait: Duration,
    /// G: how long before its session's end a region starts no handler any more.
    pub margin: Duration,
    /// T_c: how long a coordinator reigns after *sending* a round that a majority granted.
    pub reign: Duration,
    /// T_v: how long a voter keeps its word after granting. At least T_c kappa.
    pub lease: Duration,
    /// Q: how long a voter is silent after its start. At least T_c kappa.
    pub silence: Duration,
    /// R: how often a coordinator renews its reign.
    pub renew: Duration,
    /// The stagger between campaigns of voters of neighbouring ranks.
    pub stagger: Duration,
    /// How long a candidate waits for a majority before it releases what it has.
    pub candidacy: Duration,
    /// T_evid: how long a new coordinator waits for the voters' lists before it makes do without (E3). Longer than a round
    /// trip; it costs nothing in the good case, because the votes themselves carry the lists.
    pub evidence: Duration,
    /// How long entities may take to stop when their shard moves, before it is dropped by force at its owner.
    pub drain: Duration,
}

impl Timing {
    /// Defaults for a local network: a crashed node's shards live again after 3.1 s.
    #[must_use]
    pub const fn lan() -> Self {
        Self {
            rate_error_permille: 10,
            heartbeat: Duration::from_millis(500),
            session: Duration::from_millis(3_000),
            wait: Duration::from_millis(3_061),
            margin: Duration::from_millis(250),
            reign: Duration::from_millis(1_200),
            lease: Duration::from_millis(1_225),
            silence: Duration::from_millis(1_225),
            renew: Duration::from_millis(250),
            stagger: Duration::from_millis(60),
            candidacy: Duration::from_millis(120),
            evidence: Duration::from_millis(100),
            drain: Duration::from_millis(5_000),
        }
    }

    /// For processes of one rack, or one machine, that are never starved of the processor: a crashed node's shards live
    /// again after 1.3 s.
    #[must_use]
    pub const fn fast() -> Self {
        Self {
            rate_error_permille: 10,
            heartbeat: Duration::from_millis(200),
            session: Duration::from_millis(1_200),
            wait: Duration::from_millis(1_225),
            margin: Duration::from_millis(100),
            reign: Duration::from_millis(450),
            lease: Duration::from_millis(460),
            silence: Duration::from_millis(460),
            renew: Duration::from_millis(100),
            stagger: Duration::from_millis(30),
            candidacy: Duration::from_millis(60),
            evidence: Duration::from_millis(50),
            drain: Duration::from_millis(2_000),
        }
    }

    /// For wide networks, and for busy machines where a process may not run for a second: a crashed node's shards live again
    /// after 12.5 s.
    #[must_use]
    pub const fn wan() -> Self {
        Self {
            rate_error_permille: 20,
            heartbeat: Duration::from_millis(2_000),
            session: Duration::from_millis(12_000),
            wait: Duration::from_millis(12_500),
            margin: Duration::from_millis(1_000),
            reign: Duration::from_millis(5_000),
            lease: Duration::from_millis(5_210),
            silence: Duration::from_millis(5_210),
            renew: Duration::from_millis(1_000),
            stagger: Duration::from_millis(250),
            candidacy: Duration::from_millis(1_000),
            evidence: Duration::from_millis(500),
            drain: Duration::from_millis(30_000),
        }
    }

    /// How long the shards of a node that died may be without one, when everybody else is well: what a caller has to be
    /// patient for if its messages shall ride it out (L4). The coordinator's own node included.
    #[must_use]
    pub fn failover(&self) -> Duration {
        self.wait + self.lease + self.stagger * 3
    }

    /// Says so if callers that wait for `ask` do not ride out the loss of a node (L4).
    #[must_use]
    pub fn impatient(&self, ask: Duration) -> Option<TimingError> {
        let figures = TimingFigures::Span { value: ask, least: self.failover() };
        (ask < self.failover()).then_some(TimingError { rule: "L4", name: "ask", figures })
    }

    /// `span * kappa`, rounded up: what one clock must wait so that another has surely seen `span` pass.
    #[must_use]
    pub fn drifted(&self, span: Duration) -> Duration {
        let rho = u128::from(self.rate_error_permille.min(999));
        let nanos = (span.as_nanos() * (1000 + rho)).div_ceil(1000 - rho);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Checks S1-S3 and that nothing is zero. S4 (the margin covers the longest handler) and S5 (the clocks are as good
    /// as `rho`) speak of the world and cannot be checked here.
    ///
    /// # Errors
    /// The first inequality broken, with both numbers.
    pub fn check(&self) -> Result<(), TimingError> {
        let positive = [
            ("heartbeat", self.heartbeat),
            ("session", self.session),
            ("margin", self.margin),
            ("reign", self.reign),
            ("renew", self.renew),
            ("candidacy", self.candidacy),
            ("evidence", self.evidence),
            ("drain", self.drain),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, span)| span.is_zero()) {
            let figures = TimingFigures::Span { value: Duration::ZERO, least: Duration::from_nanos(1) };
            return Err(TimingError { rule: "not zero", name, figures });
        }
        if self.rate_error_permille >= RATE_ERROR_BELOW {
            let figures = TimingFigures::Permille { value: self.rate_error_permille, below: RATE_ERROR_BELOW };
            return Err(TimingError { rule: "S5", name: "rate_error_permille", figures });
        }
        let needs = [
            ("S1", "lease", self.lease, self.drifted(self.reign)),
            ("S2", "silence", self.silence, self.drifted(self.reign)),
            ("S3", "wait", self.wait, self.drifted(self.session)),
            ("margin below session", "session", self.session, self.margin + self.heartbeat),
        ];
        match needs.into_iter().find(|(_, _, value, least)| value < least) {
            Some((rule, name, value, least)) => Err(TimingError::span(rule, name, value, least)),
            None => Ok(()),
        }
    }

    /// The liveness inequalities that do not hold for round trips of `rtt` and timers of granularity `tick`: the cluster
    /// stays safe but may lose sessions or reigns without need.
    pub fn warnings(&self, rtt: Duration, tick: Duration) -> impl Iterator<Item = TimingError> {
        let stagger = self.stagger * 3;
        let rules = [
            ("L1", "session", self.session, self.margin + self.heartbeat * 4 + rtt + tick),
            ("L2", "reign", self.reign, self.renew * 3 + rtt + tick),
            (
                "L3",
                "session",
                self.session,
                self.margin + self.heartbeat + rtt * 6 + self.drifted(self.lease) + stagger + tick * 2,
            ),
        ];
        let broken = rules.into_iter().filter(|(_, _, value, least)| value < least);
        broken.map(|(rule, name, value, least)| TimingError::span(rule, name, value, least))
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::lan()
    }
}

/// One inequality that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimingError {
    /// The inequality, as the protocol numbers it.
    pub rule: &'static str,
    /// The setting that is wrong.
    pub name: &'static str,
    /// What it is, and what it must be.
    pub figures: TimingFigures,
}

/// What a setting is, and what it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TimingFigures {
    /// A time is too short.
    Span {
        /// What it is.
        value: Duration,
        /// What it must be at least.
        least: Duration,
    },
    /// A share is too great.
    Permille {
        /// What it is, in parts per thousand.
        value: u32,
        /// What it must be below.
        below: u32,
    },
}

impl TimingError {
    const fn span(rule: &'static str, name: &'static str, value: Duration, least: Duration) -> Self {
        Self { rule, name, figures: TimingFigures::Span { value, least } }
    }
}

impl fmt::Display for TimingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, name, figures } = self;
        match figures {
            TimingFigures::Span { value, least } => {
                write!(f, "`{name}` is {value:?} but must be at least {least:?} ({rule})")
            }
            TimingFigures::Permille { value, below } => {
                write!(f, "`{name}` is {value} but must be below {below} permille ({rule})")
            }
        }
    }
}

impl core::error::Error for TimingError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_safe_and_lively() {
        let timing = Timing::lan();
        assert_eq!(timing.check(), Ok(()));
        assert_eq!(timing.warnings(Duration::from_millis(10), Duration::from_millis(20)).count(), 0);
    }

    #[test]
    fn presets_are_safe_and_lively_where_they_are_meant_for() {
        let ms = Duration::from_millis;
        for (timing, rtt, tick) in [(Timing::fast(), ms(2), ms(5)), (Timing::wan(), ms(200), ms(50))] {
            assert_eq!(timing.check(), Ok(()));
            assert_eq!(timing.warnings(rtt, tick).collect::<std::vec::Vec<_>>(), []);
        }
        assert!(Timing::fast().warnings(ms(100), ms(50)).count() > 0, "not over a wide network");
    }

    #[test]
    fn callers_that_are_less_patient_than_a_failover_takes_are_told() {
        let ask = Duration::from_secs(5);
        assert_eq!(Timing::lan().impatient(ask), None);
        let text = std::format!("{}", Timing::wan().impatient(ask).expect("a wide network is slow"));
        assert_eq!(text, "`ask` is 5s but must be at least 18.46s (L4)");
    }

    #[test]
    fn a_wait_too_short_for_the_drift_is_refused_with_both_numbers() {
        let timing = Timing { wait: Duration::from_millis(3_000), ..Timing::lan() };
        let text = std::format!("{}", timing.check().unwrap_err());
        assert_eq!(text, "`wait` is 3s but must be at least 3.060606061s (S3)");
    }

    #[test]
    fn a_rate_error_too_great_is_refused_as_the_share_that_it_is() {
        let timing = Timing { rate_error_permille: 500, ..Timing::lan() };
        let text = std::format!("{}", timing.check().unwrap_err());
        assert_eq!(text, "`rate_error_permille` is 500 but must be below 500 permille (S5)");
        // Below it, the times are what does not fit.
        let timing = Timing { rate_error_permille: 499, ..Timing::lan() };
        assert_eq!(timing.check().map_err(|error| error.rule), Err("S1"));
    }
}
