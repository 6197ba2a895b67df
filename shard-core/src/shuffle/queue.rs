//! Which queue of a hand takes the next request.
//!
//! The rules are those of Kubernetes' API Priority and Fairness: look at every queue of the hand, starting one card
//! further with every request, and take the first of those with the least waiting. Without the rotation, flows whose
//! hands overlap in their first cards were served unevenly (kubernetes #105160).

use core::fmt;

use crate::time::{Duration, nanos};

/// Work in seat-seconds, in units of 1e-8: what a request holds, times how long.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Work(pub u64);

impl Work {
    /// None.
    pub const ZERO: Self = Self(0);
    /// One seat for one second.
    pub const SEAT_SECOND: Self = Self(100_000_000);

    /// What a request that holds `seats` for `time` takes, to the nearest unit; it saturates.
    #[must_use]
    pub fn of(seats: u32, time: Duration) -> Self {
        let units = (u128::from(nanos(time)) * u128::from(seats) + 5) / 10;
        Self(u64::try_from(units).unwrap_or(u64::MAX))
    }

    /// What a request is guessed to take: `initial_seats` for `guess` (Kubernetes: 3 ms), and then `final_seats` for
    /// `extra`.
    #[must_use]
    pub fn of_request(initial_seats: u32, guess: Duration, final_seats: u32, extra: Duration) -> Self {
        Self(Self::of(initial_seats, guess).0.saturating_add(Self::of(final_seats, extra).0))
    }
}

/// What waits in one queue; what is being served is not counted, or a queue whose long request is nearly done would look
/// worse than it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// Requests.
    pub requests: u32,
    /// Their work.
    pub work: Work,
}

/// What makes one queue better than another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// Fewer requests waiting: the glossary's rule, and Kubernetes' own until 2021.
    #[default]
    Length,
    /// Less work waiting: Kubernetes' rule since. The same as the length if all requests are alike.
    Work,
}

/// Chooses queues. It carries the count of requests that the rotation needs, and nothing else.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct QueueChooser {
    by_work: bool,
    enqueues: u64,
}

impl QueueChooser {
    /// One that goes by `measure`.
    #[must_use]
    pub const fn new(measure: Measure) -> Self {
        Self { by_work: matches!(measure, Measure::Work), enqueues: 0 }
    }

    /// The shortest queue.
    #[must_use]
    pub const fn shortest() -> Self {
        Self::new(Measure::Length)
    }

    /// The queue with the least work.
    #[must_use]
    pub const fn least_work() -> Self {
        Self::new(Measure::Work)
    }

    /// The queue of `hand` that takes the next request; `None` if the hand is empty. Call it once per request, also for
    /// one that is rejected afterwards: the scan starts one card further each time. O(hand).
    pub fn choose(&mut self, hand: &[u32], mut queue: impl FnMut(u32) -> Waiting) -> Option<u32> {
        let start = self.enqueues;
        self.enqueues = self.enqueues.wrapping_add(1);
        if self.by_work {
            choose(hand, start, |card| queue(card).work)
        } else {
            choose(hand, start, |card| queue(card).requests)
        }
    }
}

/// The card of `hand` with the least `load`, whatever that is; of equals, the first one met from position `start`, modulo
/// the hand's size, onwards and around. `None` if the hand is empty. Asks for each load once.
pub fn choose<L: Ord>(hand: &[u32], start: u64, mut load: impl FnMut(u32) -> L) -> Option<u32> {
    let start = start.checked_rem(hand.len() as u64)? as usize;
    // `min_by_key` keeps the first of equals.
    hand[start..].iter().chain(&hand[..start]).copied().min_by_key(|card| load(*card))
}

/// When a request is turned away rather than queued.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueueBounds {
    /// Seats that may be in use at once.
    pub seats_max: u32,
    /// Requests that may wait in one queue. A flow may therefore have as many waiting as its hand has cards, times this.
    pub queue_length_max: u32,
}

/// The chosen queue is full and every seat is taken. The caller's flow sends faster than it is served: tell it to try
/// again later. Nothing was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFull;

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("every queue of this flow is full and every seat is taken: try again later")
    }
}

impl core::error::Error for QueueFull {}

impl QueueBounds {
    /// Whether a request may join the chosen queue, with `waiting` requests in it and `seats_in_use` of the whole set. Only
    /// a full queue under a full house turns away.
    ///
    /// # Errors
    /// [`QueueFull`], if both bounds are reached.
    pub const fn check(&self, seats_in_use: u32, waiting: u32) -> Result<(), QueueFull> {
        if seats_in_use >= self.seats_max && waiting >= self.queue_length_max { Err(QueueFull) } else { Ok(()) }
    }
}
