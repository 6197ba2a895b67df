//! How fast rows may go: as many as a rate allows since it was set, and never a burst to catch up on a pause.

use std::time::{Duration, Instant};

/// How long a pause may be made up for.
const CATCH_UP: Duration = Duration::from_millis(100);

/// A rate of rows.
pub(crate) struct Pace {
    rate: Option<u32>,
    /// When the next row may go.
    next: Instant,
}

impl Pace {
    /// A pace of `rate` rows per second from `now` on; none means no limit.
    pub(crate) fn new(rate: Option<u32>, now: Instant) -> Self {
        Self { rate, next: now }
    }

    /// Sets another rate; rows already let through still count.
    pub(crate) fn set(&mut self, rate: Option<u32>, now: Instant) {
        if self.rate != rate {
            *self = Self::new(rate, now);
        }
    }

    /// Whether one more row may go at `now`; if so, it is counted.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let Some(rate) = self.rate else { return true };
        if self.next > now {
            return false;
        }
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(self.next);
        self.next = self.next.max(earliest) + Duration::from_secs(1) / rate;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(pace: &mut Pace, now: Instant) -> usize {
        (0..10_000).take_while(|_| pace.take(now)).count()
    }

    #[test]
    fn no_rate_is_no_limit() {
        let now = Instant::now();
        assert_eq!(count(&mut Pace::new(None, now), now), 10_000);
    }

    #[test]
    fn rows_go_at_the_rate() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(1_000), start);
        let through: usize = (0..100).map(|tick| count(&mut pace, start + Duration::from_millis(10) * tick)).sum();
        assert!((990..=1_000).contains(&through), "{through} rows in a second");
    }

    #[test]
    fn a_long_pause_is_not_made_up_for() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(1_000), start);
        let through = count(&mut pace, start + Duration::from_secs(60));
        assert!(through <= 101, "{through} rows at once");
    }

    #[test]
    fn another_rate_holds_from_then_on() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(1), start);
        assert_eq!(count(&mut pace, start), 1);
        pace.set(Some(1), start);
        assert_eq!(count(&mut pace, start), 0, "the same rate changes nothing");
        pace.set(None, start);
        assert_eq!(count(&mut pace, start), 10_000);
    }
}
