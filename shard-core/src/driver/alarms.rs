//! Alarms for an embedder's clock.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::task::Waker;

use crate::entity::Alarm;
use crate::time::Instant;

/// Wakers and their times: what a [`Clock`](crate::entity::Clock) needs for `wake_at` and `forget`, behind a lock of the
/// embedder's. Every operation is O(log n).
#[derive(Debug, Default)]
pub struct Alarms {
    by_time: BTreeMap<(Instant, u64), Waker>,
    by_number: BTreeMap<u64, Instant>,
    next: u64,
}

impl Alarms {
    /// Wakes `waker` once, by [`due`](Self::due), at `at` or later. Also says whether this alarm is now the first, so that
    /// whoever sleeps until [`next`](Self::next) must be roused.
    pub fn wake_at(&mut self, at: Instant, waker: &Waker) -> (Alarm, bool) {
        let number = self.next;
        self.next += 1;
        let first = self.next().is_none_or(|next| at < next);
        self.by_time.insert((at, number), waker.clone());
        self.by_number.insert(number, at);
        (Alarm(number), first)
    }

    /// The alarm is no longer needed, rung or not.
    pub fn forget(&mut self, alarm: Alarm) {
        if let Some(at) = self.by_number.remove(&alarm.0) {
            self.by_time.remove(&(at, alarm.0));
        }
    }

    /// Takes out the alarms whose time has come, earliest first. Wake them after the lock is released.
    #[must_use = "the wakers are to be woken"]
    pub fn due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(first) = self.by_time.first_entry() {
            if first.key().0 > now {
                break;
            }
            self.by_number.remove(&first.key().1);
            due.push(first.remove());
        }
        due
    }

    /// The time of the earliest alarm.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.by_time.keys().next().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_ring_in_order_of_time_once_and_not_when_forgotten() {
        let mut alarms = Alarms::default();
        let at = Instant::from_millis;
        let (late, first) = alarms.wake_at(at(20), Waker::noop());
        assert!(first);
        let (_, first) = alarms.wake_at(at(10), Waker::noop());
        assert!(first && !alarms.wake_at(at(10), Waker::noop()).1);
        assert_eq!(alarms.due(at(9)).len(), 0);
        assert_eq!((alarms.due(at(10)).len(), alarms.next()), (2, Some(at(20))));
        alarms.forget(late);
        assert_eq!((alarms.due(at(99)).len(), alarms.next()), (0, None));
    }
}
