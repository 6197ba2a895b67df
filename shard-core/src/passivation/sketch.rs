//! How often everybody was used, awake or not, in eight bytes each.

use alloc::{vec, vec::Vec};

const ROWS: usize = 4;
/// Counters of four bits in a word.
const COUNTERS: usize = 16;
const ODD: u64 = 0x1111_1111_1111_1111;
const HALVES: u64 = 0x7777_7777_7777_7777;
/// Odd numbers, one per row; with them the sketch counts as Akka's does, bit for bit.
const SEEDS: [u64; ROWS] = [0xc3a5_c85c_97cb_3127, 0xb492_b66f_be98_f273, 0x9ae1_6a3b_2f90_404f, 0xcbf2_9ce4_8422_2325];
/// A sketch for more entities than this is not made any wider: it takes 512 MB.
const CAPACITY_MAX: u64 = 1 << 26;

/// A count-min sketch of four rows of counters up to 15. All are halved when ten times as many uses have been counted as
/// there are entities that it is made for, so it knows the recent past.
///
/// It never counts too few between two halvings, short of 15. Counting and asking are O(1), four distant words; halving is
/// O(its size) every ten uses per entity, so O(1) amortised. Eight bytes for each entity that it is made for, rounded up to
/// a power of two; twice as many if it was made for more before.
///
/// Source: Cormode and Muthukrishnan, *An improved data stream summary*, 2005; Einziger, Friedman and Manes, *TinyLFU*, 2017.
#[derive(Clone, Debug)]
pub struct Sketch {
    /// Row after row.
    words: Vec<u64>,
    /// The sum of all counters, by row.
    sums: [u64; ROWS],
    counted: u64,
    halve_at: u64,
}

impl Sketch {
    /// Made for so many entities; nothing counted yet.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let width = width(capacity);
        Self { words: vec![0; ROWS * words(width)], sums: [0; ROWS], counted: 0, halve_at: capacity.saturating_mul(10) }
    }

    /// Counts a use of whoever has this fingerprint, a well-mixed part of its hash.
    pub fn count(&mut self, fingerprint: u32) {
        let mut counted = false;
        for row in 0..ROWS {
            let (at, shift) = self.counter(row, fingerprint);
            if self.words[at] >> shift & 15 != 15 {
                self.words[at] += 1 << shift;
                self.sums[row] += 1;
                counted = true;
            }
        }
        if counted {
            self.counted += 1;
            if self.counted == self.halve_at {
                self.halve();
            }
        }
    }

    /// About how often it was used lately, 15 at most.
    #[must_use]
    pub fn frequency(&self, fingerprint: u32) -> u32 {
        let counter = |row| {
            let (at, shift) = self.counter(row, fingerprint);
            (self.words[at] >> shift & 15) as u32
        };
        (0..ROWS).map(counter).min().unwrap_or(0)
    }

    /// Made for so many entities from now on; what was counted is kept. A narrower row adds up the counters that fall
    /// together, a wider one copies them, so it still never counts too few.
    pub fn resize(&mut self, capacity: u64) {
        let (before, mut after) = (words(self.width()), words(width(capacity)));
        if after < before && 2 * after >= before {
            // Wide enough, and a limit that wavers about a power of two adds nothing up.
            after = before;
        }
        self.halve_at = capacity.saturating_mul(10);
        if before != after {
            let old = core::mem::replace(&mut self.words, vec![0; ROWS * after]);
            for (row, old) in old.chunks_exact(before).enumerate() {
                let new = &mut self.words[row * after..][..after];
                for at in 0..before.max(after) {
                    new[at % after] = sum(if at < before { new[at % after] } else { 0 }, old[at % before]);
                }
                self.sums[row] = new.iter().map(|word| total(*word)).sum();
            }
        }
        if self.halve_at > 0 && self.counted >= self.halve_at {
            self.halve();
            // Many halvings may be due after a great change; more than this one would forget what is to be kept.
            self.counted = self.counted.min(self.halve_at - 1);
        }
    }

    /// The bytes allocated.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Counters in a row: a power of two, but a word holds at least [`COUNTERS`].
    const fn width(&self) -> usize {
        self.words.len() / ROWS * COUNTERS
    }

    #[inline]
    fn counter(&self, row: usize, fingerprint: u32) -> (usize, u32) {
        let seed = SEEDS[row];
        let mixed = (fingerprint.cast_signed() as u64).wrapping_add(seed).wrapping_mul(seed);
        let column = mixed.wrapping_add(mixed >> 32) as u32 as usize & (self.width() - 1);
        (row * words(self.width()) + column / COUNTERS, (column % COUNTERS * 4) as u32)
    }

    fn halve(&mut self) {
        let rows = words(self.width());
        for (row, words) in self.words.chunks_exact_mut(rows).enumerate() {
            let odd: u64 = words.iter().map(|word| u64::from((word & ODD).count_ones())).sum();
            words.iter_mut().for_each(|word| *word = *word >> 1 & HALVES);
            self.sums[row] = (self.sums[row] - odd) / 2;
        }
        // Copies of counters add to the sums but are no uses.
        self.counted = self.sums.into_iter().max().unwrap_or(0).min(self.counted / 2);
    }
}

/// Counters per row for so many entities: four for each.
fn width(capacity: u64) -> usize {
    4 * capacity.clamp(1, CAPACITY_MAX).next_power_of_two() as usize
}

/// Words for so many counters.
const fn words(width: usize) -> usize {
    width.div_ceil(COUNTERS)
}

/// Counter by counter, saturating.
fn sum(a: u64, b: u64) -> u64 {
    (0..COUNTERS).map(|at| at * 4).fold(0, |sum, shift| sum | ((a >> shift & 15) + (b >> shift & 15)).min(15) << shift)
}

/// All counters of a word.
fn total(word: u64) -> u64 {
    (0..COUNTERS).map(|at| word >> (at * 4) & 15).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thousandth_use_of_a_hundred_entities_halves_all_counts() {
        let mut sketch = Sketch::new(100);
        (0..999_u32).for_each(|n| sketch.count(mixed(n / 2)));
        assert_eq!(sketch.counted, 999);
        sketch.count(mixed(499));
        assert!((450..=500).contains(&sketch.counted), "{}", sketch.counted);
    }

    #[test]
    fn counts_end_at_fifteen_and_none_is_too_low() {
        let mut sketch = Sketch::new(100);
        (0..20).for_each(|_| sketch.count(7));
        (0..50_u32).for_each(|n| (0..n % 5).for_each(|_| sketch.count(mixed(n))));
        assert_eq!((sketch.frequency(7), sketch.counted), (15, 115));
        assert!((0..50).all(|n| sketch.frequency(mixed(n)) >= n % 5));
    }

    #[test]
    fn a_change_of_size_keeps_what_was_counted() {
        let mut sketch = Sketch::new(1_000);
        (0..500_u32).for_each(|n| (0..n % 7).for_each(|_| sketch.count(mixed(n))));
        for capacity in [300, 200, 5_000, 1_000] {
            sketch.resize(capacity);
            assert!((0..500).all(|n| sketch.frequency(mixed(n)) >= n % 7), "{capacity}");
            assert_eq!(sketch.counted, (0..500).map(|n| n % 7).sum());
        }
    }

    #[test]
    fn a_size_that_wavers_about_a_power_of_two_adds_nothing_up() {
        let mut sketch = Sketch::new(8_192);
        (0..500_u32).for_each(|n| sketch.count(mixed(n)));
        for capacity in [8_190, 8_194, 8_191, 8_193, 8_192].repeat(4) {
            sketch.resize(capacity);
        }
        assert!((0..500).all(|n| sketch.frequency(mixed(n)) <= 2), "counts only grow where uses are");
    }

    fn mixed(number: u32) -> u32 {
        number.wrapping_mul(0x9e37_79b9)
    }
}
