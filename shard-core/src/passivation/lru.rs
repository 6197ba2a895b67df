//! The least recently used goes first.

use super::ordered::Order;
use super::rings::Rings;

/// Least recently used: a touch makes the newest, the oldest goes.
///
/// Right where what was used lately is used again soon; a scan over more entities than the limit flushes it, and a loop
/// over them makes it miss always. Touch: one relinking, four distant words. 16 bytes for each entity tracked, 20 while the table grows.
///
/// Source: Sleator and Tarjan, *Amortized efficiency of list update and paging rules*, 1985, and older practice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lru;

impl Order for Lru {
    fn rings(&self) -> u16 {
        1
    }

    fn enter(&mut self, rings: &mut Rings, index: u32, _: u64) {
        rings.put(index, 0);
    }

    #[inline]
    fn touch(&mut self, rings: &mut Rings, index: u32) {
        rings.touch(index);
    }

    fn victim(&mut self, rings: &mut Rings) -> Option<u32> {
        rings.oldest(0)
    }
}
