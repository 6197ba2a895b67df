//! The node's clock, and the list of what waits for it.
//!
//! One list for a whole node: a runtime timer per ask would leave a sleeper behind for each. Entries are removed when their
//! owner no longer waits. Striped, because every ask passes here.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use crate::time::{Duration, Instant};

/// Reads a clock that counts suspend.
#[must_use]
pub fn now() -> Instant {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "fuchsia")))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let reading = rustix::time::clock_gettime(CLOCK);
    let seconds = u64::try_from(reading.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(reading.tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds * 1_000_000_000 + nanos)
}

/// Wall time in milliseconds: input to the term counter only.
#[must_use]
pub fn wall_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

const STRIPES: usize = 16;

/// Wakers by the time they wait for.
#[derive(Debug)]
pub(super) struct Alarms {
    stripes: [Mutex<BTreeMap<(Instant, u64), Waker>>; STRIPES],
    next: AtomicU64,
    /// The earliest time anyone waits for, as far as the ringing task knows.
    earliest: AtomicU64,
    waiting: AtomicUsize,
}

/// Names one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AlarmKey(pub(super) Instant, pub(super) u64);

impl Alarms {
    pub(super) fn new() -> Self {
        Self {
            stripes: std::array::from_fn(|_| Mutex::new(BTreeMap::new())),
            next: AtomicU64::new(0),
            earliest: AtomicU64::new(u64::MAX),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Adds an entry; true if the ringing task must look again.
    pub(super) fn add(&self, at: Instant, waker: &Waker) -> (AlarmKey, bool) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.stripe(number).insert((at, number), waker.clone());
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let sooner = self.earliest.fetch_min(at.as_nanos(), Ordering::AcqRel) > at.as_nanos();
        (AlarmKey(at, number), sooner)
    }

    pub(super) fn remove(&self, key: AlarmKey) {
        if self.stripe(key.1).remove(&(key.0, key.1)).is_some() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Wakes all that are due and tells how long the next one waits.
    pub(super) fn ring(&self, now: Instant) -> Option<Duration> {
        self.earliest.store(u64::MAX, Ordering::Release);
        let mut next: Option<Instant> = None;
        for number in 0..STRIPES as u64 {
            let mut due = std::vec::Vec::new();
            {
                let mut stripe = self.stripe(number);
                while let Some(entry) = stripe.first_entry() {
                    let at = entry.key().0;
                    if at > now {
                        next = crate::time::soonest(next, Some(at));
                        break;
                    }
                    due.push(entry.remove());
                }
            }
            self.waiting.fetch_sub(due.len(), Ordering::Relaxed);
            due.into_iter().for_each(Waker::wake);
        }
        if let Some(at) = next {
            self.earliest.fetch_min(at.as_nanos(), Ordering::AcqRel);
        }
        next.map(|at| at.since(now))
    }

    fn stripe(&self, number: u64) -> std::sync::MutexGuard<'_, BTreeMap<(Instant, u64), Waker>> {
        let at = usize::try_from(number % STRIPES as u64).unwrap_or(0);
        self.stripes[at].lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Count(AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_removed_alarm_does_not_ring_and_due_ones_do() {
        let alarms = Alarms::new();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let (_, first) = alarms.add(Instant::from_millis(5), &waker);
        let (second, sooner) = alarms.add(Instant::from_millis(3), &waker);
        assert!(first && sooner);
        alarms.remove(second);
        assert_eq!(alarms.ring(Instant::from_millis(4)), Some(Duration::from_millis(1)));
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        assert_eq!(alarms.ring(Instant::from_millis(5)), None);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
