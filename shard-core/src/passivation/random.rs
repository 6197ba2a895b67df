//! Anybody goes.

use alloc::vec::Vec;

use super::ordered::Order;
use super::rings::{Rings, reach};
use crate::prng::Prng;

/// Everyone awake is equally likely to go: the floor that every other policy has to beat. On a loop it beats most.
///
/// Touch: nothing at all. 24 bytes for each entity tracked, 30 while tables grow. The same seed picks the same.
#[derive(Clone, Debug)]
pub struct Random {
    prng: Prng,
    members: Vec<u32>,
    /// By index: where among the members it stands.
    places: Vec<u32>,
}

impl Random {
    /// Draws from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { prng: Prng::new(seed), members: Vec::new(), places: Vec::new() }
    }
}

impl Order for Random {
    fn rings(&self) -> u16 {
        1
    }

    fn enter(&mut self, rings: &mut Rings, index: u32, _: u64) {
        rings.put(index, 0);
        let at = index as usize;
        reach(&mut self.places, at, 0);
        let last = self.members.len();
        self.places[at] = last as u32;
        reach(&mut self.members, last, index);
    }

    fn touch(&mut self, _: &mut Rings, _: u32) {}

    fn victim(&mut self, _: &mut Rings) -> Option<u32> {
        self.prng.pick(&self.members).copied()
    }

    fn leaving(&mut self, _: &Rings, index: u32) {
        let at = self.places[index as usize];
        self.members.swap_remove(at as usize);
        if let Some(moved) = self.members.get(at as usize) {
            self.places[*moved as usize] = at;
        }
    }

    fn bytes(&self) -> usize {
        (self.members.capacity() + self.places.capacity()) * size_of::<u32>()
    }
}
