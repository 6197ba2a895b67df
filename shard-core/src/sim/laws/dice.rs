//! Where generated worlds get their choices from: a seed, or the bytes of a fuzzer.

use crate::prng::Prng;

/// A source of choices.
pub(super) trait Dice {
    /// A number in `0..n`; zero if `n` is zero.
    fn below(&mut self, n: u64) -> u64;

    /// True in one of `n` cases.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 1 % n.max(1)
    }

    /// A number in `low..=high`.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }
}

impl Dice for Prng {
    fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { Self::below(self, n) }
    }
}

/// Choices out of bytes: one byte for a small range and four for a large one; zero when they are used up, so that short
/// inputs are plain worlds.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u64 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        u64::from(*first)
    }
}

impl Dice for Bytes<'_> {
    fn below(&mut self, n: u64) -> u64 {
        match n {
            0 | 1 => 0,
            2..=256 => self.byte() % n,
            _ => (0..4).fold(0, |number, _| number << 8 | self.byte()) % n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_choices_until_they_are_used_up() {
        let mut bytes = Bytes(&[7, 1, 0, 0, 2, 9]);
        assert_eq!((bytes.below(1), bytes.below(5), bytes.below(1 << 30)), (0, 2, 0x0100_0002));
        assert_eq!((bytes.between(3, 4), bytes.below(4), bytes.one_in(2)), (4, 0, false));
    }
}
