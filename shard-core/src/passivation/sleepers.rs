//! The order in which a lane's entities would fall asleep.

use alloc::vec::Vec;

use crate::collections::Recency;
use crate::time::{Duration, Instant};

/// The entities of one lane by their last touch, oldest first. All operations are O(1).
#[derive(Clone, Debug, Default)]
pub struct Sleepers {
    order: Recency,
    touched: Vec<Instant>,
    idle: Option<Duration>,
}

impl Sleepers {
    /// With the idle window of the type, if it has one.
    #[must_use]
    pub fn new(idle: Option<Duration>) -> Self {
        Self { order: Recency::default(), touched: Vec::new(), idle }
    }

    /// Marks `index` as the most recently used; takes it in if it is new.
    #[inline]
    pub fn touch(&mut self, now: Instant, index: u32) {
        let at = index as usize;
        if at >= self.touched.len() {
            self.touched.resize((at + 1).next_power_of_two().max(64), Instant::ZERO);
        }
        self.touched[at] = now;
        self.order.insert(index);
    }

    /// Takes `index` out of the order.
    pub fn remove(&mut self, index: u32) {
        self.order.remove(index);
    }

    /// The least recently used.
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        self.order.oldest()
    }

    /// The oldest, if its idle window has passed.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<u32> {
        let oldest = self.order.oldest()?;
        (now >= self.touched[oldest as usize] + self.idle?).then_some(oldest)
    }

    /// When the oldest falls asleep.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        Some(self.touched[self.order.oldest()? as usize] + self.idle?)
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
}
