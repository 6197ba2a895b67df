//! Three queues: a short one that filters, a long one that keeps, and the ghosts of those who went.

use alloc::{vec, vec::Vec};

use super::ordered::Order;
use super::rings::{Rings, reach};

const SMALL: u16 = 0;
const MAIN: u16 = 1;
/// Uses are counted in two bits.
const USES_MAX: u16 = 3;

/// S3-FIFO: newcomers pass through a small queue of a tenth of the limit. Who was used twice meanwhile moves to the main
/// queue; who was not goes and leaves a ghost, and whoever has a ghost enters the main queue directly. In the main queue
/// the oldest goes, unless it was used: then it takes another turn for each use, three at most.
///
/// Resists scans, and is quick to drop what comes once. A touch is one store. For each entity tracked: 16 bytes, 4 for its
/// fingerprint and 8 to 16 for ghosts, of which there are nine for every ten awake.
///
/// A pick is O(1) amortised, but one pick walks three times past everybody in the main queue if all were used thrice since
/// their turn.
///
/// A ghost is known by half of its hash, so one newcomer in some millions is taken for another; and when five ghosts fall
/// on one bucket of four, the oldest is forgotten early.
///
/// Source: Yang, Zhang, Qiu, Yue and Vigfusson, *FIFO queues are all you need for cache eviction*, SOSP 2023.
#[derive(Clone, Debug, Default)]
pub struct S3Fifo {
    small_max: u64,
    /// By index: the upper half of the hash.
    fingerprints: Vec<u32>,
    ghosts: Ghosts,
}

impl S3Fifo {
    /// Queues without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Order for S3Fifo {
    fn rings(&self) -> u16 {
        2
    }

    fn enter(&mut self, rings: &mut Rings, index: u32, hash: u64) {
        let (at, fingerprint) = (index as usize, (hash >> 32) as u32);
        reach(&mut self.fingerprints, at, 0);
        self.fingerprints[at] = fingerprint;
        let known = self.ghosts.take(fingerprint);
        rings.set_bits(index, 0);
        rings.put(index, if known { MAIN } else { SMALL });
        self.ghosts.serve(rings.census().awake.count);
    }

    #[inline]
    fn touch(&mut self, rings: &mut Rings, index: u32) {
        rings.set_bits(index, (rings.bits(index) + 1).min(USES_MAX));
    }

    fn victim(&mut self, rings: &mut Rings) -> Option<u32> {
        loop {
            let small = rings.oldest(SMALL).filter(|_| rings.tally(SMALL).weight >= self.small_max);
            if let Some(oldest) = small.or_else(|| rings.oldest(SMALL).filter(|_| rings.tally(MAIN).count == 0)) {
                if rings.bits(oldest) < 2 {
                    self.ghosts.leave(self.fingerprints[oldest as usize]);
                    return Some(oldest);
                }
                rings.set_bits(oldest, 0);
                rings.put(oldest, MAIN);
            } else {
                let oldest = rings.oldest(MAIN)?;
                let uses = rings.bits(oldest);
                if uses == 0 {
                    return Some(oldest);
                }
                rings.set_bits(oldest, uses - 1);
                rings.touch(oldest);
            }
        }
    }

    fn resize(&mut self, limit: u64) {
        self.small_max = (limit / 10).max(1);
    }

    fn bytes(&self) -> usize {
        self.fingerprints.capacity() * size_of::<u32>() + self.ghosts.slots.capacity() * size_of::<u64>()
    }
}

/// Slots per bucket.
const BUCKET: usize = 4;
const SLOTS_MIN: usize = 64;

/// Fingerprints of the last who went.
#[derive(Clone, Debug, Default)]
struct Ghosts {
    /// Buckets of four; a slot is a fingerprint above the number of its going, zero if empty.
    slots: Vec<u64>,
    /// How many ghosts there have been.
    gone: u32,
    /// How long each is remembered: while fewer than so many have come after it.
    kept: u32,
}

impl Ghosts {
    /// So many are awake; room for as many ghosts is made, by doubling. Of most, for when those return who leave with their
    /// shards, what is remembered is still worth something.
    fn serve(&mut self, awake: u32) {
        self.kept = self.kept.max((u64::from(awake) * 9 / 10) as u32);
        let wanted = (awake as usize).next_power_of_two().max(SLOTS_MIN);
        if wanted > self.slots.len() {
            let before = core::mem::replace(&mut self.slots, vec![0; wanted]);
            for slot in before.into_iter().filter(|slot| *slot != 0) {
                self.store(slot);
            }
        }
    }

    /// Another one went.
    fn leave(&mut self, fingerprint: u32) {
        self.gone = self.gone.checked_add(1).unwrap_or(1);
        self.take(fingerprint);
        self.store(u64::from(fingerprint) << 32 | u64::from(self.gone));
    }

    /// Whether it went lately; its ghost is laid to rest.
    fn take(&mut self, fingerprint: u32) -> bool {
        let (gone, kept) = (self.gone, self.kept);
        let is_it = |slot: &&mut u64| **slot != 0 && (**slot >> 32) as u32 == fingerprint;
        let Some(slot) = self.bucket(fingerprint).iter_mut().find(is_it) else { return false };
        gone.wrapping_sub(core::mem::take(slot) as u32) < kept
    }

    /// In place of the oldest of its bucket.
    fn store(&mut self, ghost: u64) {
        let gone = self.gone;
        let age = |slot: &u64| if *slot == 0 { u32::MAX } else { gone.wrapping_sub(*slot as u32) };
        if let Some(slot) = self.bucket((ghost >> 32) as u32).iter_mut().max_by_key(|slot| age(slot)) {
            *slot = ghost;
        }
    }

    fn bucket(&mut self, fingerprint: u32) -> &mut [u64] {
        if self.slots.is_empty() {
            return &mut [];
        }
        let at = (fingerprint as usize * BUCKET) & (self.slots.len() - 1);
        &mut self.slots[at..at + BUCKET]
    }
}
