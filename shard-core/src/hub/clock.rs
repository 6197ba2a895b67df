//! The node's clock, and the list of what waits for it.
//!
//! One list for a whole node: a runtime timer per ask would leave a sleeper behind for each. Entries are removed when their
//! owner no longer waits. Striped, because every ask passes here.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::vec::Vec;

use crate::entity::Alarm;
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

/// Wall time in milliseconds: input to the term counter and the jump guard.
#[must_use]
pub(super) fn wall_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// The time, and the wall clock in milliseconds if it could be read in the same moment: not if the thread was put aside in
/// between, or it would look like a jump.
pub(super) fn both() -> (Instant, Option<u64>) {
    let (before, wall, after) = (now(), wall_millis(), now());
    (after, (after.since(before) < Duration::from_millis(5)).then_some(wall))
}

const STRIPES: u64 = 16;
/// Alarms are coarse: all of one tick ring together.
const TICK: u64 = 4_000_000;

/// Wakers by the tick in which they ring. An entry is found again by its number, so an answered ask costs nothing later.
#[derive(Debug)]
pub(super) struct Alarms {
    stripes: [Mutex<BTreeMap<u64, Bucket>>; STRIPES as usize],
    next: AtomicU64,
    /// The earliest tick anyone waits for, as far as the ringing task knows.
    earliest: AtomicU64,
}

#[derive(Debug, Default)]
struct Bucket {
    wakers: Vec<Option<Waker>>,
    free: Vec<u32>,
}

/// An alarm's number: its stripe (4 bits), its place in the bucket (20 bits), its tick (40 bits: 139 years of uptime).
const PLACES: u64 = 1 << 20;

impl Alarms {
    pub(super) fn new() -> Self {
        Self {
            stripes: std::array::from_fn(|_| Mutex::new(BTreeMap::new())),
            next: AtomicU64::new(0),
            earliest: AtomicU64::new(u64::MAX),
        }
    }

    /// Adds an entry; true if the ringing task must look again. `None`: a million wait in that tick already, so `waker` is
    /// woken now, which only makes its owner look at the clock.
    pub(super) fn add(&self, at: Instant, waker: &Waker) -> (Option<Alarm>, bool) {
        let stripe = self.next.fetch_add(1, Ordering::Relaxed) % STRIPES;
        let tick = at.as_nanos().div_ceil(TICK);
        let place = {
            let mut buckets = self.stripe(stripe);
            let bucket = buckets.entry(tick).or_default();
            match bucket.free.pop() {
                Some(place) => {
                    bucket.wakers[place as usize] = Some(waker.clone());
                    place
                }
                None if bucket.wakers.len() as u64 >= PLACES => {
                    waker.wake_by_ref();
                    return (None, false);
                }
                None => {
                    bucket.wakers.push(Some(waker.clone()));
                    bucket.wakers.len() as u32 - 1
                }
            }
        };
        let sooner = self.earliest.fetch_min(tick, Ordering::AcqRel) > tick;
        (Some(Alarm(tick << 24 | u64::from(place) << 4 | stripe)), sooner)
    }

    pub(super) fn remove(&self, alarm: Alarm) {
        let (stripe, place, tick) = (alarm.0 % STRIPES, alarm.0 >> 4 & (PLACES - 1), alarm.0 >> 24);
        let mut buckets = self.stripe(stripe);
        if let Some(bucket) = buckets.get_mut(&tick)
            && let Some(entry) = bucket.wakers.get_mut(place as usize)
            && entry.take().is_some()
        {
            bucket.free.push(place as u32);
        }
    }

    /// Wakes all that are due and tells how long the next one waits.
    pub(super) fn ring(&self, now: Instant) -> Option<Duration> {
        self.earliest.store(u64::MAX, Ordering::Release);
        let mut next: Option<u64> = None;
        for stripe in 0..STRIPES {
            let mut due = Vec::new();
            {
                let mut buckets = self.stripe(stripe);
                while let Some(entry) = buckets.first_entry() {
                    let tick = *entry.key();
                    if tick * TICK <= now.as_nanos() {
                        due.extend(entry.remove().wakers);
                    } else if entry.get().wakers.len() == entry.get().free.len() {
                        entry.remove();
                    } else {
                        next = Some(next.map_or(tick, |next| next.min(tick)));
                        break;
                    }
                }
            }
            due.into_iter().flatten().for_each(Waker::wake);
        }
        let tick = next?;
        self.earliest.fetch_min(tick, Ordering::AcqRel);
        Some(Instant::from_nanos(tick.saturating_mul(TICK)).since(now))
    }

    fn stripe(&self, stripe: u64) -> std::sync::MutexGuard<'_, BTreeMap<u64, Bucket>> {
        self.stripes[(stripe % STRIPES) as usize].lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

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
        let (_, first) = alarms.add(Instant::from_millis(40), &waker);
        let (second, sooner) = alarms.add(Instant::from_millis(20), &waker);
        assert!(first && sooner);
        alarms.remove(second.expect("room for two"));
        assert_eq!(alarms.ring(Instant::from_millis(36)), Some(Duration::from_millis(4)));
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        assert_eq!(alarms.ring(Instant::from_millis(40)), None);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
