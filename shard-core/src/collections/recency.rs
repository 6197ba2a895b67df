//! Who was used last, and who longest ago.

use alloc::vec::Vec;

/// The sentinel's node: the place before the oldest and after the newest. Member `index` is node `index + 1`.
const RING: u32 = 0;
/// What stands in both links of a node that is no member.
const ABSENT: u32 = u32::MAX;

/// An exact order of use over small numbers, such as places in a slab: a doubly linked ring of eight bytes a place, up to
/// the greatest place it ever held. Every operation is O(1); only [`insert`](Self::insert) allocates, amortised.
#[derive(Clone, Debug, Default)]
pub struct Recency {
    nodes: Vec<Node>,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    older: u32,
    newer: u32,
}

impl Recency {
    /// An empty order; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: Vec::new(), len: 0 }
    }

    /// How many members it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `index` is a member.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        self.node(index).is_some()
    }

    /// Makes `index` the newest member, whether it was one or not.
    ///
    /// # Panics
    /// If `index` is one of the two greatest numbers, which no place has.
    pub fn insert(&mut self, index: u32) {
        if self.contains(index) {
            return self.touch(index);
        }
        assert!(index < ABSENT - 1, "the two greatest numbers are kept for the ring");
        if self.nodes.is_empty() {
            self.nodes.push(Node { older: RING, newer: RING });
        }
        let node = index + 1;
        if self.nodes.len() <= node as usize {
            self.nodes.resize(node as usize + 1, Node { older: ABSENT, newer: ABSENT });
        }
        self.link_newest(node);
        self.len += 1;
    }

    /// Makes `index` the newest member; if it is no member, nothing happens.
    #[inline]
    pub fn touch(&mut self, index: u32) {
        let Some(Node { older, newer }) = self.node(index) else { return };
        if newer != RING {
            self.join(older, newer);
            self.link_newest(index + 1);
        }
    }

    /// Takes `index` out; false if it was no member.
    pub fn remove(&mut self, index: u32) -> bool {
        let Some(Node { older, newer }) = self.node(index) else { return false };
        self.join(older, newer);
        self.nodes[index as usize + 1] = Node { older: ABSENT, newer: ABSENT };
        self.len -= 1;
        true
    }

    /// The member used longest ago.
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        self.nodes.first()?.newer.checked_sub(1)
    }

    /// The member used last.
    #[must_use]
    pub fn newest(&self) -> Option<u32> {
        self.nodes.first()?.older.checked_sub(1)
    }

    /// The next newer member than `index`; `None` for the newest and for what is no member.
    #[must_use]
    pub fn newer_than(&self, index: u32) -> Option<u32> {
        self.node(index)?.newer.checked_sub(1)
    }

    /// The next older member than `index`; `None` for the oldest and for what is no member.
    #[must_use]
    pub fn older_than(&self, index: u32) -> Option<u32> {
        self.node(index)?.older.checked_sub(1)
    }

    /// All members, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        core::iter::successors(self.oldest(), |index| self.newer_than(*index))
    }

    /// The links of a member.
    #[inline]
    fn node(&self, index: u32) -> Option<Node> {
        let node = *self.nodes.get((index as usize).checked_add(1)?)?;
        (node.newer != ABSENT).then_some(node)
    }

    fn join(&mut self, older: u32, newer: u32) {
        self.nodes[older as usize].newer = newer;
        self.nodes[newer as usize].older = older;
    }

    fn link_newest(&mut self, node: u32) {
        let newest = self.nodes[RING as usize].older;
        self.nodes[node as usize] = Node { older: newest, newer: RING };
        self.nodes[newest as usize].newer = node;
        self.nodes[RING as usize].older = node;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{vec, vec::Vec};

    #[test]
    fn the_least_recently_used_is_the_oldest() {
        let mut recency = Recency::new();
        [5, 0, 9].into_iter().for_each(|index| recency.insert(index));
        recency.touch(5);
        recency.touch(7);
        assert_eq!(recency.iter().collect::<Vec<_>>(), vec![0, 9, 5]);
        assert_eq!((recency.oldest(), recency.newest(), recency.len()), (Some(0), Some(5), 3));
        assert_eq!((recency.older_than(0), recency.older_than(5), recency.newer_than(7)), (None, Some(9), None));
        assert!(recency.remove(0) && !recency.remove(0));
        assert_eq!(recency.oldest(), Some(9));
    }

    #[test]
    fn an_empty_order_has_no_ends() {
        let mut recency = Recency::new();
        assert_eq!(
            (recency.oldest(), recency.newest(), recency.remove(0), recency.contains(u32::MAX)),
            (None, None, false, false)
        );
        recency.insert(3);
        recency.remove(3);
        assert_eq!((recency.oldest(), recency.newest(), recency.is_empty()), (None, None, true));
    }

    proptest! {
        #[test]
        fn behaves_as_a_list(steps in prop::collection::vec((0..3_u8, 0..12_u32), 0..300)) {
            let (mut recency, mut twin) = (Recency::new(), Vec::new());
            for (step, index) in steps {
                let member = twin.contains(&index);
                prop_assert_eq!(recency.contains(index), member);
                twin.retain(|other| *other != index || (step == 1 && !member));
                match step {
                    0 => recency.insert(index),
                    1 => recency.touch(index),
                    _ => prop_assert_eq!(recency.remove(index), member),
                }
                if step == 0 || (step == 1 && member) {
                    twin.push(index);
                }
                prop_assert_eq!(recency.iter().collect::<Vec<_>>(), twin.clone());
                prop_assert_eq!(recency.newest(), twin.last().copied());
                prop_assert_eq!(recency.len(), twin.len());
                if let [older, newer, ..] = *twin {
                    prop_assert_eq!(recency.older_than(newer), Some(older));
                }
            }
        }
    }
}
