//! Randomness that repeats: one `u64` seed, forked by label for every machine that needs its own.
//!
//! The generator is xoshiro256** 1.0, its state filled by SplitMix64 (Blackman and Vigna, <https://prng.di.unimi.it>).
//! It is not for secrets: node incarnations and session keys come from the host. May import the ground floor only.

use crate::hash;

/// A small deterministic generator: 32 bytes of state, no allocation, integers only, so every build draws alike.
///
/// A strategy or machine that carries one keeps it outside the part of its state that is compared and hashed.
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// The generator of `seed`; every seed is as good as any other, zero included.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let mut seed = seed;
        let mut state = [0; 4];
        let mut at = 0;
        while at < state.len() {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            state[at] = finish(seed);
            at += 1;
        }
        Self { state }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let drawn = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        drawn
    }

    /// A number in `0..n`, every one equally likely (Lemire's multiply-shift with rejection; no modulo bias).
    ///
    /// # Panics
    /// If `n` is zero: there is no such number.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no number is below zero");
        let refused = n.wrapping_neg() % n;
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(n);
            if wide as u64 >= refused {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A number in `low..=high`, every one equally likely.
    ///
    /// # Panics
    /// If `low` is above `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "the range is empty");
        match (high - low).checked_add(1) {
            Some(n) => low + self.below(n),
            None => self.next_u64(),
        }
    }

    /// True in `numerator` of `denominator` cases; always if the numerator is not the smaller one.
    ///
    /// # Panics
    /// If `denominator` is zero.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// One of `items`, every one equally likely; `None`, without a draw, if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() {
            return None;
        }
        items.get(self.below(items.len() as u64) as usize)
    }

    /// Puts `items` in a random order, every order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// A generator of its own for whatever `label` names. The parent is not disturbed, so forks may be taken in any
    /// order; the same label gives the same child until the parent draws.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        let [a, b, c, d] = self.state;
        let parent = finish(a ^ finish(b ^ finish(c ^ finish(d))));
        Self::new(parent ^ hash::entity(label))
    }
}

/// The seed of decision `number` under `seed`: for decisions that must not depend on which ones came before them.
#[inline]
#[must_use]
pub const fn mix(seed: u64, number: u64) -> u64 {
    finish(finish(seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// The finisher of SplitMix64: every bit of the input reaches every bit of the output.
const fn finish(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn seeding_is_splitmix64() {
        // First outputs of SplitMix64 for the seed 1234567, as published with its reference source.
        assert_eq!(Prng::new(1_234_567).state[..2], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn drawing_is_xoshiro256_starstar() {
        // First outputs of the reference source from the state 1, 2, 3, 4.
        let mut prng = Prng { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..5).map(|_| prng.next_u64()).collect();
        assert_eq!(drawn, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240, 1_216_172_134_540_287_360]);
    }

    #[test]
    fn below_is_even_and_in_range() {
        let mut prng = Prng::new(7);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[prng.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|n| n.abs_diff(10_000) < 400), "{counts:?}");
    }

    #[test]
    fn below_has_no_modulo_bias() {
        // With a plain modulo or multiply, the lower half of this range would come up twice as often.
        let n = (1 << 63) + (1 << 62);
        let mut prng = Prng::new(3);
        let low = (0..30_000).filter(|_| prng.below(n) < n / 3).count();
        assert!(low.abs_diff(10_000) < 400, "{low}");
    }

    #[test]
    fn forks_differ_by_label_and_do_not_depend_on_their_order() {
        let parent = Prng::new(1);
        let (mut lane, mut link) = (parent.fork("lane"), parent.fork("link"));
        assert_ne!(lane.next_u64(), link.next_u64());
        assert_eq!(parent.fork("link").state, Prng::new(1).fork("link").state);
        assert_ne!(parent.fork("lane").state, Prng::new(2).fork("lane").state);
    }

    #[test]
    fn chance_and_between_reach_their_ends() {
        let mut prng = Prng::new(9);
        assert!((0..100).all(|_| prng.chance(1, 1) && !prng.chance(0, 5)));
        let drawn: Vec<u64> = (0..200).map(|_| prng.between(4, 6)).collect();
        assert!([4, 5, 6].iter().all(|n| drawn.contains(n)) && drawn.iter().all(|n| (4..=6).contains(n)));
        prng.between(0, u64::MAX);
        assert_eq!(prng.pick::<u8>(&[]), None);
        assert_eq!(prng.pick(&[5]), Some(&5));
    }

    #[test]
    fn mixed_seeds_differ_by_seed_and_number() {
        let seeds: std::collections::BTreeSet<u64> =
            (0..100).flat_map(|seed| (0..100).map(move |n| mix(seed, n))).collect();
        assert_eq!(seeds.len(), 10_000);
    }

    #[test]
    fn shuffling_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Prng::new(4).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
