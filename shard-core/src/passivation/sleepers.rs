//! The order in which a lane's entities fall asleep for want of mail.

use alloc::vec::Vec;

use crate::collections::Recency;
use crate::time::{Duration, Instant};

/// How much of the idle window an entity may keep its place in the order though it is used: a 64th.
const SLACK: u32 = 64;

/// The entities of one lane by their last touch, oldest first. All operations are O(1).
///
/// The order is exact to a 64th of the window: a touch within that time of the last change of order writes one word instead
/// of relinking four distant ones. Nobody falls asleep early by it; some do late by as much. Without a window, nothing is
/// kept.
#[derive(Clone, Debug, Default)]
pub struct Sleepers {
    order: Recency,
    uses: Vec<Use>,
    idle: Option<Duration>,
    /// How long a place in the order is good for.
    slack: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    touched: Instant,
    /// Until when a touch need not change the order; zero for what is not in it.
    placed_until: Instant,
}

impl Sleepers {
    /// For a type whose entities fall asleep after `idle` without mail, or never.
    #[must_use]
    pub fn new(idle: Option<Duration>) -> Self {
        // A window of nothing would put a busy entity to sleep again and again within one call.
        let idle = idle.map(|idle| idle.max(Duration::from_nanos(1)));
        Self { order: Recency::default(), uses: Vec::new(), idle, slack: idle.unwrap_or_default() / SLACK }
    }

    /// Marks `index` as the most recently used; takes it in if it is new.
    #[inline]
    pub fn touch(&mut self, now: Instant, index: u32) {
        if self.idle.is_none() {
            return;
        }
        let at = index as usize;
        if at >= self.uses.len() {
            let none = Use { touched: Instant::ZERO, placed_until: Instant::ZERO };
            self.uses.resize((at + 1).next_power_of_two().max(64), none);
        }
        let seen = &mut self.uses[at];
        seen.touched = now;
        if now >= seen.placed_until {
            seen.placed_until = now + self.slack;
            self.order.insert(index);
        }
    }

    /// Takes `index` out of the order.
    pub fn remove(&mut self, index: u32) {
        if self.order.remove(index) {
            self.uses[index as usize].placed_until = Instant::ZERO;
        }
    }

    /// The oldest, if its idle window has passed.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<u32> {
        let oldest = self.order.oldest()?;
        (now >= self.uses[oldest as usize].touched + self.idle?).then_some(oldest)
    }

    /// When the oldest falls asleep.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        Some(self.uses[self.order.oldest()? as usize].touched + self.idle?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_falls_asleep_first_and_a_touch_saves_it() {
        let mut sleepers = Sleepers::new(Some(Duration::from_secs(10)));
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        sleepers.touch(at(0), 7);
        sleepers.touch(at(1), 3);
        assert_eq!(sleepers.deadline(), Some(at(10)));
        sleepers.touch(at(9), 7);
        assert_eq!(sleepers.due(at(10)), None);
        assert_eq!(sleepers.due(at(11)), Some(3));
        sleepers.remove(3);
        assert_eq!(sleepers.deadline(), Some(at(19)));
    }

    #[test]
    fn nobody_falls_asleep_early_though_the_order_is_not_quite_exact() {
        let mut sleepers = Sleepers::new(Some(Duration::from_secs(64)));
        sleepers.touch(at(1_000), 7);
        sleepers.touch(at(1_100), 3);
        sleepers.touch(at(1_900), 7);
        assert_eq!(sleepers.deadline(), Some(at(65_900)));
        assert_eq!(sleepers.due(at(65_899)), None);
        assert_eq!(sleepers.due(at(65_900)), Some(7));
        sleepers.remove(7);
        assert_eq!(sleepers.due(at(65_900)), Some(3));
        sleepers.remove(3);
        sleepers.touch(at(1_950), 3);
        assert_eq!(sleepers.deadline(), Some(at(65_950)));
    }

    #[test]
    fn without_a_window_nothing_is_kept() {
        let mut none = Sleepers::new(None);
        none.touch(at(1), 1);
        assert_eq!((none.due(at(1_000_000)), none.deadline()), (None, None));
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }
}
