//! How well hands keep tenants apart, calculated.
//!
//! Model: hands are drawn evenly and independently, as a good hash deals them. Only additions, multiplications and
//! divisions of positive numbers take part, so nothing cancels: small probabilities keep their digits (the published
//! table of Kubernetes to 14 of them), no logarithm is needed, and every target computes the same bits.

use core::fmt;
use core::ops::Deref;

/// The greatest hand that is calculated with. Dealt hands have 15 cards at most; hands of nodes may be greater.
const HAND_MAX: u32 = 64;

/// Decks and hands that nothing can be calculated for. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IsolationError {
    /// Cards of the deck.
    pub queues: u32,
    /// Cards of the hand.
    pub hand: u32,
}

impl fmt::Display for IsolationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queues, hand } = self;
        write!(
            f,
            "a hand of {hand} from {queues} queues: a hand has 1 to {HAND_MAX} cards, and no more than there are queues"
        )
    }
}

impl core::error::Error for IsolationError {}

/// Hands of `hand` cards from `queues`, and what becomes of a tenant's hand when others misbehave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Isolation {
    queues: u32,
    hand: u32,
}

impl Isolation {
    /// For hands of `hand` cards, 1 to 64, from `queues` queues (or nodes).
    ///
    /// # Errors
    /// If there are no such hands.
    pub const fn new(queues: u32, hand: u32) -> Result<Self, IsolationError> {
        if hand == 0 || hand > queues || hand > HAND_MAX {
            return Err(IsolationError { queues, hand });
        }
        Ok(Self { queues, hand })
    }

    /// Cards of the deck.
    #[must_use]
    pub const fn queues(&self) -> u32 {
        self.queues
    }

    /// Cards of a hand.
    #[must_use]
    pub const fn hand(&self) -> u32 {
        self.hand
    }

    /// How many different hands there are, in any order; `None`: more than 2^128.
    #[must_use]
    pub fn combinations(&self) -> Option<u128> {
        combinations(self.queues, self.hand)
    }

    /// The probability that a tenant (a mouse) has no queue to itself: every card of its hand is in the hand of at least
    /// one of `elephants` others. O(elephants x hand^2), less once nothing is left to cover.
    #[must_use]
    pub fn squished(&self, elephants: u32) -> f64 {
        self.free(elephants)[0]
    }

    /// The probability of each number of queues, `0..=hand`, that a tenant shares with none of `elephants` others. The
    /// first is [`squished`](Self::squished); the last is the probability that the tenant notices nothing at all. Cost as
    /// there.
    #[must_use]
    pub fn free(&self, elephants: u32) -> Distribution {
        // A Markov chain over the number of cards that are still free: it starts with all of them, and each elephant
        // covers some. It has hand + 1 states, where a chain over all cards covered would have one per queue.
        let hand = self.hand as usize;
        let mut now = [0.0; SIZE];
        now[hand] = 1.0;
        for _ in 0..elephants {
            let mut next = [0.0; SIZE];
            for free in 0..=hand {
                if now[free] > 0.0 {
                    let covered = Covered::new(self.queues, self.hand, free as u32);
                    covered.for_each(|(cards, probability)| next[free - cards as usize] += now[free] * probability);
                }
            }
            if next == now {
                break;
            }
            now = next;
        }
        // Rounding may carry a certainty beyond 1.
        now.iter_mut().for_each(|probability| *probability = probability.min(1.0));
        Distribution { of: now, len: hand + 1 }
    }

    /// The probability of each number of cards, `0..=hand`, that the hands of two tenants have in common: the
    /// hypergeometric law. O(hand).
    #[must_use]
    pub fn overlap(&self) -> Distribution {
        let mut of = [0.0; SIZE];
        Covered::new(self.queues, self.hand, self.hand)
            .for_each(|(cards, probability)| of[cards as usize] = probability);
        Distribution { of, len: self.hand as usize + 1 }
    }

    /// How many cards two hands have in common on average.
    #[must_use]
    pub fn shared_on_average(&self) -> f64 {
        f64::from(self.hand) * f64::from(self.hand) / f64::from(self.queues)
    }

    /// The same probability as [`squished`](Self::squished) for plain hashing, where every tenant has one of `queues`: what
    /// shuffle sharding is compared with. O(elephants).
    #[must_use]
    pub fn squished_by_plain_hashing(queues: u32, elephants: u32) -> f64 {
        Self::new(queues, 1).map_or(1.0, |plain| plain.squished(elephants))
    }

    /// The fewest queues with which hands of `hand` cards squish a tenant with probability `target` at most under
    /// `elephants`; `None` if 2^26 don't suffice. Some 26 times the cost of [`squished`](Self::squished).
    #[must_use]
    pub fn queues_for(hand: u32, elephants: u32, target: f64) -> Option<Self> {
        let enough = |queues| Self::new(queues, hand).is_ok_and(|it| it.squished(elephants) <= target);
        let (mut few, mut many) = (hand, super::DECK_MAX);
        if !enough(many) {
            return None;
        }
        while few < many {
            let middle = few + (many - few) / 2;
            if enough(middle) { many = middle } else { few = middle + 1 }
        }
        Self::new(many, hand).ok()
    }
}

const SIZE: usize = HAND_MAX as usize + 1;

/// Probabilities of the numbers `0..len`; a slice of them by `Deref`. They add up to one, but for rounding.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Distribution {
    of: [f64; SIZE],
    len: usize,
}

impl Deref for Distribution {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.of[..self.len]
    }
}

impl Distribution {
    /// The number expected.
    #[must_use]
    pub fn mean(&self) -> f64 {
        (0..).zip(self.iter()).map(|(number, probability)| f64::from(number) * probability).sum()
    }
}

/// How many of `free` given cards a random hand covers: each possible number with its probability, ascending.
struct Covered {
    queues: u32,
    hand: u32,
    free: u32,
    next: u32,
    probability: f64,
}

impl Covered {
    fn new(queues: u32, hand: u32, free: u32) -> Self {
        // The fewest cards a hand can cover: those that don't fit among the others.
        let least = (hand + free).saturating_sub(queues);
        let probability = if least == 0 {
            // No card of the hand is one of the free ones.
            (0..free).map(|card| f64::from(queues - hand - card) / f64::from(queues - card)).product()
        } else {
            // All other cards are in the hand, and `least` of the free ones: choose(free, least) / choose(queues, hand).
            choices(free, least) / choices(queues, hand)
        };
        Self { queues, hand, free, next: least, probability }
    }
}

impl Iterator for Covered {
    type Item = (u32, f64);

    fn next(&mut self) -> Option<(u32, f64)> {
        let Self { queues, hand, free, next: cards, probability } = *self;
        if cards > hand.min(free) {
            return None;
        }
        // One card more: one of the free ones left instead of one of the others.
        let more = f64::from(free - cards) * f64::from(hand - cards);
        let others_left = (u64::from(queues) + u64::from(cards) + 1).saturating_sub(u64::from(free + hand)).max(1);
        let fewer = f64::from(cards + 1) * others_left as f64;
        self.probability = probability * (more / fewer);
        self.next += 1;
        Some((cards, probability))
    }
}

/// The binomial coefficient as a float; its arguments are small enough not to overflow.
fn choices(n: u32, k: u32) -> f64 {
    (0..k.min(n - k)).map(|at| f64::from(n - at) / f64::from(at + 1)).product()
}

/// How many hands of `hand` cards, in any order, there are in a deck of `queues`; zero if the hand is the greater one, and
/// `None` if there are 2^128 or more.
#[must_use]
pub fn combinations(queues: u32, hand: u32) -> Option<u128> {
    if hand > queues {
        return Some(0);
    }
    let mut hands = 1_u128;
    for at in 0..u128::from(hand.min(queues - hand)) {
        // Exact: what stands before the division is a multiple of at + 1. Dividing first what can be keeps it small.
        let (factor, by) = (u128::from(queues) - at, at + 1);
        let common = greatest_common_divisor(hands, by);
        hands = (hands / common).checked_mul(factor / (by / common))?;
    }
    Some(hands)
}

const fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// How many tenants at most can have hands of `hand` cards from `queues` such that no two share more than `overlap` of
/// them: the bound of Johnson and Schönheim. No scheme gets beyond it and few reach it. It saturates at 2^128 - 1.
#[must_use]
pub fn tenants_max(queues: u32, hand: u32, overlap: u32) -> u128 {
    if hand == 0 || hand > queues {
        return 0;
    }
    if overlap >= hand {
        // Every hand may then be dealt any number of times.
        return u128::MAX;
    }
    // From the inside out: floor(n/k floor((n-1)/(k-1) ...)), one factor per card that may not be shared and one more.
    (0..=overlap).rev().fold(1, |bound: u128, at| {
        bound.checked_mul(u128::from(queues - at)).map_or(u128::MAX, |bound| bound / u128::from(hand - at))
    })
}
