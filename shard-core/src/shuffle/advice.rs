//! Advice on the size of a hand, and a warning about hands that are too great.

use core::fmt;

use super::{Dealer, Isolation};

/// Which hand to deal from a number of queues, with what it costs.
///
/// A small hand is cheap to look at and shares little, so one elephant rarely covers it; a great one is hard to cover by a
/// single elephant, but a few elephants together soon cover nearly every queue. The best size therefore depends on how
/// many there are at once: half of the queues, which is best against one, is far from best against several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advice {
    /// The hand that squishes a mouse least often under the elephants asked for; of equals, the smallest.
    pub hand: Isolation,
    /// How many elephants it was asked for.
    pub elephants: u32,
    /// The hand that is best under four times as many.
    pub hand_for_more: Isolation,
}

impl Advice {
    /// Advice for `queues` under `elephants` that misbehave at the same time, among the hands that can be dealt; `None`
    /// if none can. It calculates every hand once: O(elephants).
    #[must_use]
    pub fn new(queues: u32, elephants: u32) -> Option<Self> {
        let hand = Self::best(queues, elephants)?;
        let hand_for_more = Self::best(queues, elephants.saturating_mul(4))?;
        Some(Self { hand, elephants, hand_for_more })
    }

    /// The hands that can be dealt from `queues`, the smallest first.
    pub fn hands(queues: u32) -> impl Iterator<Item = Isolation> {
        (1..=super::HAND_MAX as u32).filter_map(move |hand| {
            Dealer::new(queues, hand).ok()?;
            Isolation::new(queues, hand).ok()
        })
    }

    fn best(queues: u32, elephants: u32) -> Option<Isolation> {
        let hands = Self::hands(queues).map(|hand| (hand, hand.squished(elephants)));
        // What differs by rounding only is equal.
        let best = hands.reduce(|best, hand| if hand.1 < best.1 * (1.0 - 1e-9) { hand } else { best });
        best.map(|(hand, _)| hand)
    }

    /// How many of `tenants` are expected to have no queue left under the elephants asked for.
    #[must_use]
    pub fn tenants_squished(&self, tenants: u32) -> f64 {
        f64::from(tenants) * self.hand.squished(self.elephants)
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hand, elephants, hand_for_more: other } = self;
        let (few, many) = (*elephants, elephants.saturating_mul(4));
        write!(f, "deal {} of {}: ", hand.hand(), hand.queues())?;
        write!(f, "{:.3e} of the tenants have no queue left under {few} elephants, ", hand.squished(few))?;
        write!(f, "{:.3e} under {many}", hand.squished(many))?;
        if other == hand {
            return f.write_str("; no other hand is better under either");
        }
        write!(f, "; a hand of {} would make it {:.3e} and ", other.hand(), other.squished(few))?;
        write!(f, "{:.3e}", other.squished(many))
    }
}

/// One flow can hold so many seats that others starve, however the hands are dealt (kubernetes #115409).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeatWarning {
    /// Seats that one flow can hold: its hand times the width of its widest requests.
    pub seats_of_one_flow: u64,
    /// Seats there are.
    pub seats_max: u32,
}

impl SeatWarning {
    /// Warns if requests as wide as `width` seats in every queue of a `hand` take half of `seats_max` or more. Deal a
    /// smaller hand, narrow the requests, or raise the limit.
    #[must_use]
    pub const fn check(hand: u32, width: u32, seats_max: u32) -> Option<Self> {
        let seats_of_one_flow = hand as u64 * width as u64;
        let half = seats_max.div_ceil(2) as u64;
        if seats_of_one_flow < half { None } else { Some(Self { seats_of_one_flow, seats_max }) }
    }

    /// Whether one flow can hold every seat.
    #[must_use]
    pub const fn starves_others(&self) -> bool {
        self.seats_of_one_flow >= self.seats_max as u64
    }
}

impl fmt::Display for SeatWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seats_of_one_flow, seats_max } = self;
        let share = if self.starves_others() { "all" } else { "half or more" };
        write!(f, "one flow can hold {seats_of_one_flow} seats, {share} of the {seats_max} there are: ")?;
        f.write_str("deal a smaller hand, narrow the requests, or raise the limit")
    }
}
