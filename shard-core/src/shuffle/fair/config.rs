//! How fair queues are set up, checked whole before anything is applied.

use core::fmt;

use crate::shuffle::dealer::{Dealer, DealerError};
use crate::shuffle::queue::Measure;
use crate::time::Duration;

/// How a [`FairQueues`](super::FairQueues) is set up. Built whole or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FairConfig {
    /// Deck and hand, which can be dealt; `None`: no queues, so a request runs at once or is rejected.
    pub(super) cards: Option<(u32, u32)>,
    pub(super) seats_max: u32,
    /// Seats that requests of one flow may have in use.
    pub(super) flow_seats_max: u32,
    pub(super) queue_length_max: u32,
    pub(super) guess: Duration,
    pub(super) measure: Measure,
}

/// Why there is no such configuration. The fault is the operator's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FairConfigError {
    /// No such hands can be dealt.
    Dealer(DealerError),
    /// There are no seats: nothing would ever run.
    NoSeats,
    /// Queues hold nothing. For no queues, say so: [`FairConfig::without_queues`].
    NoLength,
}

impl fmt::Display for FairConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dealer(error) => error.fmt(f),
            Self::NoSeats => f.write_str("no seats: nothing would ever run; give at least 1"),
            Self::NoLength => f.write_str("queues of length 0: give at least 1, or configure no queues"),
        }
    }
}

impl core::error::Error for FairConfigError {}

impl FairConfig {
    /// `queues` queues of at most `queue_length_max` requests, hands of `hand` of them, and `seats_max` seats in use at a
    /// time. A flow can have `hand x queue_length_max` requests waiting, and the whole set `queues x queue_length_max`.
    ///
    /// # Errors
    /// If one of the numbers is out of range.
    pub const fn new(queues: u32, hand: u32, queue_length_max: u32, seats_max: u32) -> Result<Self, FairConfigError> {
        if let Err(error) = Dealer::new(queues, hand) {
            return Err(FairConfigError::Dealer(error));
        }
        if queue_length_max == 0 {
            return Err(FairConfigError::NoLength);
        }
        if seats_max == 0 {
            return Err(FairConfigError::NoSeats);
        }
        let guess = Duration::from_millis(3);
        let (cards, flow_seats_max) = (Some((queues, hand)), u32::MAX);
        Ok(Self { cards, seats_max, flow_seats_max, queue_length_max, guess, measure: Measure::Work })
    }

    /// No queues: what finds no seat is rejected.
    ///
    /// # Errors
    /// If there are no seats.
    pub const fn without_queues(seats_max: u32) -> Result<Self, FairConfigError> {
        if seats_max == 0 {
            return Err(FairConfigError::NoSeats);
        }
        let guess = Duration::from_millis(3);
        let flow_seats_max = u32::MAX;
        Ok(Self { cards: None, seats_max, flow_seats_max, queue_length_max: 0, guess, measure: Measure::Work })
    }

    /// At most so many seats for the requests of one flow, however many are free; no such bound unless said otherwise, as in
    /// Kubernetes. Without it, a flow whose requests never end takes all seats while nobody else asks for any (kubernetes
    /// #115409), or all of those that others give back. With it, what waits behind such requests passes them by. In exchange,
    /// seats may be free while requests wait, and finding the next request takes O(queues x length) at worst.
    ///
    /// # Errors
    /// If that is none.
    pub const fn seats_per_flow(self, seats: u32) -> Result<Self, FairConfigError> {
        if seats == 0 {
            return Err(FairConfigError::NoSeats);
        }
        Ok(Self { flow_seats_max: seats, ..self })
    }

    /// How long a request is guessed to run before it has run; 3 ms unless said otherwise, as in Kubernetes. What was
    /// guessed wrong is put right when it finishes.
    #[must_use]
    pub const fn guessing(self, guess: Duration) -> Self {
        Self { guess, ..self }
    }

    /// What makes one queue better than another; the work waiting, unless said otherwise.
    #[must_use]
    pub const fn measured_by(self, measure: Measure) -> Self {
        Self { measure, ..self }
    }

    pub(super) fn queues(&self) -> usize {
        self.cards.map_or(0, |(queues, _)| queues as usize)
    }

    /// How many requests of one flow may wait: all that its hand's queues hold. None without queues.
    #[must_use]
    pub fn waiting_max(&self) -> u32 {
        self.cards.map_or(0, |(_, hand)| hand.saturating_mul(self.queue_length_max))
    }
}
