//! The least often used goes first.

use super::ordered::Order;
use super::rings::Rings;

/// Uses are counted up to here, so every priority in force is among [`RINGS`] consecutive numbers, a ring for each.
const USES_MAX: u16 = 255;
const RINGS: u16 = 256;

/// Least frequently used, with or without dynamic ageing; among equals the one that came to its count first.
///
/// Without ageing, what was popular once stays: right for popularity that never changes. With ageing, a count starts from
/// the priority of whoever went last, so old fame is overtaken. Uses beyond 255 count no more; the most popular are then in
/// order of use. Touch: one relinking; victim: a search in a bitmap of four words. 16 bytes for each entity tracked
/// (20 while the table grows) and eight thousand for each instance.
///
/// Source: Arlitt et al., *Evaluating content management techniques for Web proxy caches*, 2000 (LFU-DA); Shah, Mitra and
/// Matani, *An O(1) algorithm for implementing the LFU cache eviction scheme*, 2010.
#[derive(Clone, Debug, Default)]
pub struct Lfu {
    ageing: bool,
    /// The priority of whoever was picked last; zero without ageing. All priorities are `age..=age + USES_MAX`.
    age: u64,
    /// Which rings may have members.
    occupied: [u64; RINGS as usize / 64],
}

impl Lfu {
    /// Counts that never age.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With dynamic ageing.
    #[must_use]
    pub fn ageing() -> Self {
        Self { ageing: true, ..Self::default() }
    }

    fn place(&mut self, rings: &mut Rings, index: u32, uses: u16) {
        rings.set_bits(index, uses);
        let ring = ((self.age + u64::from(uses)) % u64::from(RINGS)) as u16;
        self.occupied[usize::from(ring / 64)] |= 1 << (ring % 64);
        rings.put(index, ring);
    }

    /// The ring of the lowest priority that has members; forgets the empty ones that it passes.
    fn lowest(&mut self, rings: &Rings) -> Option<u16> {
        let start = (self.age % u64::from(RINGS)) as u16;
        let mut from = start;
        loop {
            let word = usize::from(from / 64);
            let ahead = self.occupied[word] >> (from % 64);
            if ahead != 0 {
                let ring = from + ahead.trailing_zeros() as u16;
                if rings.tally(ring).count > 0 {
                    return Some(ring);
                }
                self.occupied[word] &= !(1 << (ring % 64));
            } else if self.occupied.iter().all(|word| *word == 0) {
                return None;
            } else {
                from = (from / 64 + 1) * 64 % RINGS;
            }
        }
    }
}

impl Order for Lfu {
    fn rings(&self) -> u16 {
        RINGS
    }

    fn enter(&mut self, rings: &mut Rings, index: u32, _: u64) {
        self.place(rings, index, 1);
    }

    fn touch(&mut self, rings: &mut Rings, index: u32) {
        let uses = (rings.bits(index) + 1).min(USES_MAX);
        self.place(rings, index, uses);
    }

    fn victim(&mut self, rings: &mut Rings) -> Option<u32> {
        let ring = self.lowest(rings)?;
        if self.ageing {
            self.age += (u64::from(ring) + u64::from(RINGS) - self.age % u64::from(RINGS)) % u64::from(RINGS);
        }
        rings.oldest(ring)
    }
}
