//! The first few of many, without sorting the many.

use alloc::{collections::BinaryHeap, vec::Vec};

/// Keeps the `room` smallest keys offered. O(log room) for a key that is kept, O(1) for one that is not.
#[derive(Clone, Debug)]
pub(super) struct FirstFew<K> {
    room: usize,
    /// The greatest of the kept on top.
    kept: BinaryHeap<K>,
}

impl<K: Ord> FirstFew<K> {
    pub(super) const fn new(room: usize) -> Self {
        Self { room, kept: BinaryHeap::new() }
    }

    pub(super) fn offer(&mut self, key: K) {
        if self.kept.len() < self.room {
            self.kept.push(key);
        } else if let Some(mut last) = self.kept.peek_mut()
            && key < *last
        {
            *last = key;
        }
    }

    /// The kept, in ascending order.
    pub(super) fn into_sorted(self) -> Vec<K> {
        self.kept.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_those_of_a_sorted_list() {
        let mut prng = crate::prng::Prng::new(1);
        for room in 0..9 {
            let mut all: Vec<u64> = (0..30).map(|_| prng.below(20)).collect();
            let mut few = FirstFew::new(room);
            all.iter().for_each(|key| few.offer(*key));
            all.sort_unstable();
            assert_eq!(few.into_sorted(), all[..room]);
        }
    }
}
