//! Dealing a hand of distinct cards from a hash: the algorithm of Kubernetes' API Priority and Fairness, bit for bit.
//!
//! The hash is read as a number of mixed radix: its first digit, base `deck`, picks a card; the next, base `deck - 1`,
//! picks among the cards that are left; and so on. A hand of `k` cards is therefore the beginning of the hand of `k + 1`
//! from the same hash and deck. A deck with one card more deals quite other hands: for members that come and go, see
//! [`Roster`](super::Roster).

use core::fmt;
use core::ops::Deref;

use super::log2::{FRACTION_BITS, log2};

/// The greatest deck: 2^26 cards.
pub const DECK_MAX: u32 = 1 << 26;
/// The most cards that any legal hand has.
pub const HAND_MAX: usize = 15;
/// How many bits of a hash a hand may take. Four of 64 are kept back, so that among hands in order, no hand is dealt more
/// than 17/16 times as often as another.
pub const ENTROPY_BITS_MAX: u32 = 60;

/// Why there is no such dealer. The fault is in the configuration; checks run in the order of the variants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DealerError {
    /// The deck or the hand is empty. Give both at least one card.
    NotPositive {
        /// Cards of the deck.
        deck: u32,
        /// Cards of the hand.
        hand: u32,
    },
    /// The hand has more cards than the deck. Deal fewer, or add queues.
    HandExceedsDeck {
        /// Cards of the deck.
        deck: u32,
        /// Cards of the hand.
        hand: u32,
    },
    /// The deck has more than [`DECK_MAX`] cards.
    DeckTooLarge {
        /// Cards of the deck.
        deck: u32,
    },
    /// The hand takes more than [`ENTROPY_BITS_MAX`] bits of the hash. Deal fewer cards or use a smaller deck.
    TooMuchEntropy {
        /// What [`required_bits`] says.
        bits: u32,
    },
}

impl fmt::Display for DealerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPositive { deck, hand } => {
                write!(f, "a deck of {deck} and a hand of {hand}: both need at least one card")
            }
            Self::HandExceedsDeck { deck, hand } => {
                write!(f, "a hand of {hand} from a deck of {deck}: deal fewer cards or add queues")
            }
            Self::DeckTooLarge { deck } => write!(f, "a deck of {deck}: at most {DECK_MAX} cards make sense"),
            Self::TooMuchEntropy { bits } => {
                write!(
                    f,
                    "such hands take {bits} bits of a hash, of {ENTROPY_BITS_MAX}: deal fewer or use a smaller deck"
                )
            }
        }
    }
}

impl core::error::Error for DealerError {}

/// How many bits of a hash a hand takes: the binary logarithm of `deck`, times `hand`, rounded up; `None` if either is
/// zero. An upper bound, since later cards come from fewer. Whole numbers only: exact up to 128 bits, and beyond that to
/// one in 2^40.
#[must_use]
pub const fn required_bits(deck: u32, hand: u32) -> Option<u32> {
    if deck == 0 || hand == 0 {
        return None;
    }
    Some(match (deck as u128).checked_pow(hand) {
        Some(hands) => 128 - (hands - 1).leading_zeros(),
        None => {
            let bits = (log2(deck as u64) as u128 * hand as u128).div_ceil(1 << FRACTION_BITS);
            if bits > u32::MAX as u128 { u32::MAX } else { bits as u32 }
        }
    })
}

/// Deals hands of one size from one deck. It holds constants only: share it, copy it, call it from anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dealer {
    deck: u32,
    hand: u8,
    /// How many digits are read: one less than the hand if it is the whole deck, whose last card leaves no choice.
    digits: u8,
    /// For the first digit, whose dividend has 64 bits.
    first: Divider,
    /// For the others, whose dividends have 63 bits at most.
    others: [Divider; HAND_MAX],
}

/// Divides by multiplying (Granlund and Montgomery, PLDI 1994): a hand is one chain of divisions, and a processor's own
/// takes two to ten times as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Divider {
    multiplier: u64,
    shift: u8,
}

impl Divider {
    const UNUSED: Self = Self { multiplier: 0, shift: 0 };

    /// The ceiling of log2 of `by`, which is at least 2.
    const fn ceil_log2(by: u32) -> u32 {
        32 - (by - 1).leading_zeros()
    }

    /// For dividends of 64 bits: the multiplier has 65, of which the highest is left out.
    const fn wide(by: u32) -> Self {
        let log = Self::ceil_log2(by);
        let excess = ((1_u128 << log) - by as u128) << 64;
        Self { multiplier: (excess / by as u128 + 1) as u64, shift: log as u8 - 1 }
    }

    #[inline(always)]
    const fn divide_wide(self, dividend: u64) -> u64 {
        let high = ((self.multiplier as u128 * dividend as u128) >> 64) as u64;
        (((dividend - high) >> 1) + high) >> self.shift
    }

    /// For dividends below 2^63: the multiplier fits, and the rest is one multiplication and a shift.
    const fn narrow(by: u32) -> Self {
        let log = Self::ceil_log2(by);
        Self { multiplier: (1_u128 << (63 + log)).div_ceil(by as u128) as u64, shift: log as u8 - 1 }
    }

    #[inline(always)]
    const fn divide_narrow(self, dividend: u64) -> u64 {
        ((self.multiplier as u128 * dividend as u128) >> 64) as u64 >> self.shift
    }
}

impl Dealer {
    /// A dealer of `hand` cards from a deck of `deck`.
    ///
    /// # Errors
    /// If there is no such hand, or a hash of 64 bits does not carry it evenly: [`DealerError`] says which rule is broken.
    pub const fn new(deck: u32, hand: u32) -> Result<Self, DealerError> {
        let Some(bits) = required_bits(deck, hand) else { return Err(DealerError::NotPositive { deck, hand }) };
        if hand > deck {
            return Err(DealerError::HandExceedsDeck { deck, hand });
        }
        if deck > DECK_MAX {
            return Err(DealerError::DeckTooLarge { deck });
        }
        // A deck of two cards or more takes a bit per card at least, so this also bounds the hand.
        if bits > ENTROPY_BITS_MAX {
            return Err(DealerError::TooMuchEntropy { bits });
        }
        let digits = if hand == deck { hand - 1 } else { hand };
        let first = if digits > 0 { Divider::wide(deck) } else { Divider::UNUSED };
        let mut others = [Divider::UNUSED; HAND_MAX];
        let mut at = 1;
        while at < digits {
            others[at as usize] = Divider::narrow(deck - at);
            at += 1;
        }
        Ok(Self { deck, hand: hand as u8, digits: digits as u8, first, others })
    }

    /// Cards of the deck.
    #[must_use]
    pub const fn deck(&self) -> u32 {
        self.deck
    }

    /// Cards of a hand.
    #[must_use]
    pub const fn hand(&self) -> u32 {
        self.hand as u32
    }

    /// The hand of `hash`: distinct cards below the deck's number, in the order dealt. Allocates nothing;
    /// O(hand^2) steps of a cycle or so.
    #[inline]
    #[must_use]
    pub fn deal(&self, hash: u64) -> Hand {
        let mut cards = [0; HAND_MAX];
        // A length that the compiler knows lets it unroll the loops and keep the digits in registers.
        match self.hand {
            1 => self.fill::<1>(hash, &mut cards),
            2 => self.fill::<2>(hash, &mut cards),
            3 => self.fill::<3>(hash, &mut cards),
            4 => self.fill::<4>(hash, &mut cards),
            5 => self.fill::<5>(hash, &mut cards),
            6 => self.fill::<6>(hash, &mut cards),
            7 => self.fill::<7>(hash, &mut cards),
            8 => self.fill::<8>(hash, &mut cards),
            9 => self.fill::<9>(hash, &mut cards),
            10 => self.fill::<10>(hash, &mut cards),
            11 => self.fill::<11>(hash, &mut cards),
            12 => self.fill::<12>(hash, &mut cards),
            13 => self.fill::<13>(hash, &mut cards),
            14 => self.fill::<14>(hash, &mut cards),
            _ => self.fill::<15>(hash, &mut cards),
        }
        Hand { cards, len: self.hand }
    }

    /// [`deal`](Self::deal), card by card into `card`, in the order dealt.
    #[inline]
    pub fn deal_each(&self, hash: u64, card: impl FnMut(u32)) {
        self.deal(hash).iter().copied().for_each(card);
    }

    /// The hand of `hash` as an iterator, for callers who may stop early: each card costs its own division only.
    #[must_use]
    pub const fn cards(&self, hash: u64) -> Cards<'_> {
        Cards { dealer: self, left: hash, ranks: [0; HAND_MAX], dealt: 0 }
    }

    fn fill<const N: usize>(&self, hash: u64, cards: &mut [u32; HAND_MAX]) {
        let mut ranks = [0; N];
        let mut left = hash;
        for (at, rank) in ranks.iter_mut().enumerate() {
            (*rank, left) = self.digit(at, left);
        }
        for at in 0..N {
            cards[at] = card(ranks[at], &ranks[..at]);
        }
    }

    /// Digit number `at`, and what is left of the hash.
    #[inline(always)]
    fn digit(&self, at: usize, left: u64) -> (u32, u64) {
        if at >= usize::from(self.digits) {
            return (0, left);
        }
        let quotient = if at == 0 { self.first.divide_wide(left) } else { self.others[at].divide_narrow(left) };
        // Both fit: a remainder is below the deck's number, which has 27 bits.
        let base = self.deck - at as u32;
        ((left as u32).wrapping_sub((quotient as u32).wrapping_mul(base)), quotient)
    }
}

/// The card of a rank among those not dealt yet, given the ranks dealt before it, the latest last.
#[inline(always)]
fn card(rank: u32, earlier: &[u32]) -> u32 {
    earlier.iter().rev().fold(rank, |card, earlier| card + u32::from(card >= *earlier))
}

/// A hand: up to [`HAND_MAX`] distinct cards, in the order dealt; a slice of them by `Deref`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hand {
    cards: [u32; HAND_MAX],
    len: u8,
}

impl Deref for Hand {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.cards[..usize::from(self.len)]
    }
}

impl fmt::Debug for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

/// The cards of one hand, dealt when asked for: see [`Dealer::cards`].
#[derive(Clone, Debug)]
pub struct Cards<'a> {
    dealer: &'a Dealer,
    left: u64,
    ranks: [u32; HAND_MAX],
    dealt: usize,
}

impl Iterator for Cards<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.dealt == usize::from(self.dealer.hand) {
            return None;
        }
        let (rank, left) = self.dealer.digit(self.dealt, self.left);
        let card = card(rank, &self.ranks[..self.dealt]);
        self.ranks[self.dealt] = rank;
        self.left = left;
        self.dealt += 1;
        Some(card)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::from(self.dealer.hand) - self.dealt;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Cards<'_> {}
