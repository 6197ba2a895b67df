//! The most recently used goes first.

use super::ordered::Order;
use super::rings::Rings;

/// Most recently used: the newest goes, except for the newcomer whose creation asks for room.
///
/// Right for loops over more entities than the limit, of which it keeps a fixed part awake; bad for nearly all else. Touch:
/// one relinking. 16 bytes for each entity tracked, 20 while the table grows.
///
/// Source: Chou and DeWitt, *An evaluation of buffer management strategies for relational database systems*, 1985.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mru;

impl Order for Mru {
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
        rings.newest(0)
    }
}
