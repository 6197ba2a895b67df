//! From hashes to places.

use hashbrown::HashTable;

use crate::hash::spread;

/// A hash index of places in a slab: some 5 to 10 bytes an entry, and no order that anyone can see.
///
/// It keeps no keys: callers say whether the place it proposes is the one they mean. Hashes are those of
/// [`crate::hash::entity`], unmixed; the index takes its buckets from other bits than shards do, so that the ids of one
/// shard do not crowd together.
#[derive(Clone, Debug, Default)]
pub struct Index {
    table: HashTable<u32>,
}

impl Index {
    /// An empty index; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { table: HashTable::new() }
    }

    /// How many places it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it knows none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The place with `hash` of which `eq` says that it is the one. Expected O(1), and seven of eight wrong places in a
    /// bucket's group are told apart without asking `eq`.
    #[inline]
    #[must_use]
    pub fn find(&self, hash: u64, mut eq: impl FnMut(u32) -> bool) -> Option<u32> {
        self.table.find(spread(hash), |index| eq(*index)).copied()
    }

    /// Adds the place `index`, which must not be there yet. Amortised O(1); when the table doubles, `rehash` is asked for
    /// the hash of every place in it.
    #[inline]
    pub fn insert(&mut self, hash: u64, index: u32, rehash: impl Fn(u32) -> u64) {
        self.table.insert_unique(spread(hash), index, |index| spread(rehash(*index)));
    }

    /// Forgets the place with `hash` of which `eq` says that it is the one, and returns it. Expected O(1).
    #[inline]
    pub fn remove(&mut self, hash: u64, mut eq: impl FnMut(u32) -> bool) -> Option<u32> {
        let entry = self.table.find_entry(spread(hash), |index| eq(*index)).ok()?;
        Some(entry.remove().0)
    }

    /// Forgets every place, and keeps the memory.
    pub fn clear(&mut self) {
        self.table.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::BTreeMap, vec::Vec};

    #[test]
    fn equal_hashes_are_told_apart_by_the_caller() {
        let mut index = Index::new();
        (0..3).for_each(|place| index.insert(7, place, |_| 7));
        assert_eq!(index.find(7, |place| place == 1), Some(1));
        assert_eq!(index.remove(7, |place| place == 1), Some(1));
        assert_eq!(index.find(7, |place| place == 1), None);
        assert_eq!((index.find(7, |place| place == 2), index.len()), (Some(2), 2));
    }

    #[test]
    fn ids_of_one_shard_do_not_crowd() {
        // With the low bits of the hash as they are, every one of these would land in the same group of buckets.
        let hashes: Vec<u64> = (0..4_096_u64).map(|n| n << 20 | 5).collect();
        let mut index = Index::new();
        (0..).zip(&hashes).for_each(|(place, hash)| index.insert(*hash, place, |place| hashes[place as usize]));
        let mut asked = 0;
        for (place, hash) in (0..).zip(&hashes) {
            let found = index.find(*hash, |candidate| {
                asked += 1;
                candidate == place
            });
            assert_eq!(found, Some(place));
        }
        assert!(asked < 2 * hashes.len(), "{asked} comparisons for {} look-ups", hashes.len());
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in prop::collection::vec((any::<bool>(), 0..40_u64), 0..300)) {
            let (mut index, mut twin, mut keys) = (Index::new(), BTreeMap::new(), Vec::<u64>::new());
            // Four keys share each hash.
            let hash = |key: u64| key / 4;
            for (insert, key) in steps {
                let found = index.find(hash(key), |place| keys[place as usize] == key);
                prop_assert_eq!(found, twin.get(&key).copied());
                if insert && found.is_none() {
                    let place = keys.len() as u32;
                    keys.push(key);
                    index.insert(hash(key), place, |place| hash(keys[place as usize]));
                    twin.insert(key, place);
                } else if !insert {
                    let removed = index.remove(hash(key), |place| keys[place as usize] == key);
                    prop_assert_eq!(removed, twin.remove(&key));
                }
                prop_assert_eq!(index.len(), twin.len());
            }
        }
    }
}
