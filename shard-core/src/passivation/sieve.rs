//! A hand sweeps from old to new and takes whom nobody used since it last passed.

use super::ordered::Order;
use super::rings::Rings;

/// SIEVE: newcomers queue up; a touch sets a bit and moves nobody; a hand walks from the oldest to the newest, clears the
/// bits it finds, takes the first without one and waits there.
///
/// As good as far heavier policies where some are popular and many come once. A loop over more than the limit defeats it
/// as it does LRU. Touch: one store, the cheapest of all. 16 bytes for each entity tracked, 20 while the table grows.
/// A pick is O(1) amortised, but one pick walks past everybody if all were used since the hand came by: some ten
/// nanoseconds for each, a tenth of a second for ten million in one lane.
///
/// Source: Zhang, Yang, Yue, Vigfusson and Rashmi, *SIEVE is simpler than LRU*, NSDI 2024.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sieve {
    /// Where the hand looks next; `None`: at the oldest.
    hand: Option<u32>,
}

impl Order for Sieve {
    fn rings(&self) -> u16 {
        1
    }

    fn enter(&mut self, rings: &mut Rings, index: u32, _: u64) {
        rings.set_bits(index, 0);
        rings.put(index, 0);
    }

    #[inline]
    fn touch(&mut self, rings: &mut Rings, index: u32) {
        rings.set_bits(index, 1);
    }

    fn victim(&mut self, rings: &mut Rings) -> Option<u32> {
        loop {
            let at = self.hand.or_else(|| rings.oldest(0))?;
            if rings.bits(at) == 0 {
                // The hand moves on when the victim leaves.
                self.hand = Some(at);
                return Some(at);
            }
            rings.set_bits(at, 0);
            self.hand = rings.newer_than(at);
        }
    }

    fn leaving(&mut self, rings: &Rings, index: u32) {
        if self.hand == Some(index) {
            self.hand = rings.newer_than(index);
        }
    }
}
