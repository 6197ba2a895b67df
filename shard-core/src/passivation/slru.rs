//! Segmented: who was used twice is safer than who was used once.

use alloc::{boxed::Box, vec};

use super::ordered::Order;
use super::rings::Rings;

/// Segmented least recently used: newcomers stand in level 0, a touch lifts to the next level, and a level that is full
/// lets its oldest down to the one below. The oldest of level 0 goes.
///
/// A scan passes through level 0 and leaves the other levels alone. Touch: two relinkings at most. 16 bytes for each entity
/// tracked, 20 while the table grows.
///
/// Source: Karedla, Love and Wherry, *Caching strategies to improve disk system performance*, 1994 (two levels); Huang et
/// al., *An analysis of Facebook photo caching*, 2013 (four).
#[derive(Clone, Debug)]
pub struct Slru(Levels);

impl Slru {
    /// With a share of the limit for each level, the lowest first; level 0 takes what the others leave. Without shares,
    /// there is one level.
    #[must_use]
    pub fn new(shares: &[f64]) -> Self {
        Self(Levels::new(0, shares))
    }
}

impl Default for Slru {
    /// Two levels: a fifth for newcomers.
    fn default() -> Self {
        Self::new(&[0.2, 0.8])
    }
}

impl Order for Slru {
    fn rings(&self) -> u16 {
        self.0.count()
    }

    fn enter(&mut self, rings: &mut Rings, index: u32, _: u64) {
        self.0.enter(rings, index);
    }

    fn touch(&mut self, rings: &mut Rings, index: u32) {
        self.0.touch(rings, index);
    }

    fn victim(&mut self, rings: &mut Rings) -> Option<u32> {
        self.0.victim(rings)
    }

    fn resize(&mut self, limit: u64) {
        self.0.resize(limit);
    }
}

/// The levels of a segmented order, in consecutive rings.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    first: u16,
    shares: Box<[f64]>,
    /// By level, in the limit's unit; that of level 0 is only what the others leave.
    limits: Box<[u64]>,
}

impl Levels {
    pub(super) fn new(first: u16, shares: &[f64]) -> Self {
        let shares: Box<[f64]> = if shares.is_empty() { Box::new([1.0]) } else { shares.into() };
        Self { first, limits: vec![0; shares.len()].into(), shares }
    }

    pub(super) fn count(&self) -> u16 {
        self.shares.len() as u16
    }

    pub(super) fn resize(&mut self, limit: u64) {
        let mut rest = limit;
        for (level, share) in self.shares.iter().enumerate().skip(1) {
            self.limits[level] = ((share * limit as f64) as u64).min(rest);
            rest -= self.limits[level];
        }
        self.limits[0] = rest;
    }

    pub(super) fn enter(&self, rings: &mut Rings, index: u32) {
        rings.put(index, self.first);
    }

    /// Lifts `index`, and lets the level that it entered shed its oldest.
    pub(super) fn touch(&self, rings: &mut Rings, index: u32) {
        let top = self.count() - 1;
        match rings.ring(index).map(|ring| ring - self.first) {
            Some(level) if level < top => {
                rings.put(index, self.first + level + 1);
                self.shed(rings, level + 1);
            }
            _ => rings.touch(index),
        }
    }

    /// The oldest of level 0 once no other level has more than its limit; if nobody is there, of the next one that has any.
    pub(super) fn victim(&self, rings: &mut Rings) -> Option<u32> {
        for level in (1..self.count()).rev() {
            self.shed(rings, level);
        }
        (0..self.count()).find_map(|level| rings.oldest(self.first + level))
    }

    /// The oldest of level 0.
    pub(super) fn candidate(&self, rings: &Rings) -> Option<u32> {
        rings.oldest(self.first)
    }

    pub(super) fn weight(&self, rings: &Rings) -> u64 {
        (0..self.count()).map(|level| rings.tally(self.first + level).weight).sum()
    }

    fn shed(&self, rings: &mut Rings, level: u16) {
        let ring = self.first + level;
        while rings.tally(ring).weight > self.limits[usize::from(level)] {
            let Some(oldest) = rings.oldest(ring) else { return };
            rings.put(oldest, ring - 1);
        }
    }
}
