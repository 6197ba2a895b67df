//! Places with generations.

use alloc::vec::Vec;

use crate::id::Slot;

/// Places per chunk: a power of two, so that the chunk is a shift and the place in it a mask.
const CHUNK: usize = 1_024;
/// No place: the end of the free list.
const NONE: u32 = u32::MAX;

/// Values in places that are reused, each tenant with a generation of its own: a [`Slot`] kept too long finds nothing,
/// never the next tenant.
///
/// Places stand in chunks of 1,024. The first chunk grows by doubling, for a small slab's sake; after it, growth
/// allocates a chunk and copies nothing. The lowest overhead is four bytes a place, and `T`'s discriminant. Memory is
/// kept until the slab is dropped.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    chunks: Vec<Vec<Place<T>>>,
    /// The place vacated last: the next one to be given out, since it is still warm.
    vacant: u32,
    len: u32,
}

#[derive(Clone, Debug)]
struct Place<T> {
    /// Of the tenant, or of the next one.
    generation: u32,
    content: Content<T>,
}

#[derive(Clone, Debug)]
enum Content<T> {
    Tenant(T),
    /// The next vacant place.
    Vacant(u32),
}

impl<T> Slab<T> {
    /// An empty slab; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: Vec::new(), vacant: NONE, len: 0 }
    }

    /// How many tenants there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives `value` a place: the one vacated last, or a new one.
    ///
    /// # Panics
    /// If all of 2^32 - 1 places are taken.
    pub fn insert(&mut self, value: T) -> Slot {
        let index = if self.vacant == NONE { self.build() } else { self.vacant };
        let place = self.place_mut(index).expect("the free list names places that exist");
        let Content::Vacant(next) = place.content else { unreachable!("the free list names vacant places") };
        let slot = Slot { index, generation: place.generation };
        place.content = Content::Tenant(value);
        self.vacant = next;
        self.len += 1;
        slot
    }

    /// Takes the tenant of `slot` out; `None` if it has gone already.
    pub fn remove(&mut self, slot: Slot) -> Option<T> {
        let vacant = self.vacant;
        let place = self.place_mut(slot.index)?;
        if place.generation != slot.generation || matches!(place.content, Content::Vacant(_)) {
            return None;
        }
        let Content::Tenant(value) = core::mem::replace(&mut place.content, Content::Vacant(vacant)) else {
            return None;
        };
        // A place that has had 2^32 tenants is given up, rather than let an old slot find a new tenant.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.vacant = slot.index;
        }
        self.len -= 1;
        Some(value)
    }

    /// The tenant of `slot`, if it has not gone.
    #[inline]
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<&T> {
        match self.place(slot.index)? {
            Place { generation, content: Content::Tenant(value) } if *generation == slot.generation => Some(value),
            _ => None,
        }
    }

    /// The tenant of `slot`, if it has not gone, to change.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        match self.place_mut(slot.index)? {
            Place { generation, content: Content::Tenant(value) } if *generation == slot.generation => Some(value),
            _ => None,
        }
    }

    /// Whoever lives at `index` now; for tables that forget an index when its tenant goes.
    #[inline]
    #[must_use]
    pub fn at(&self, index: u32) -> Option<&T> {
        match &self.place(index)?.content {
            Content::Tenant(value) => Some(value),
            Content::Vacant(_) => None,
        }
    }

    /// Whoever lives at `index` now, to change.
    #[inline]
    #[must_use]
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        match &mut self.place_mut(index)?.content {
            Content::Tenant(value) => Some(value),
            Content::Vacant(_) => None,
        }
    }

    /// The slot of whoever lives at `index` now.
    #[inline]
    #[must_use]
    pub fn slot(&self, index: u32) -> Option<Slot> {
        match self.place(index)? {
            Place { generation, content: Content::Tenant(_) } => Some(Slot { index, generation: *generation }),
            Place { .. } => None,
        }
    }

    /// Every tenant in the order of their places; O(most tenants there ever were at once).
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        (0..).zip(self.chunks.iter().flatten()).filter_map(|(index, place)| match &place.content {
            Content::Tenant(value) => Some((Slot { index, generation: place.generation }, value)),
            Content::Vacant(_) => None,
        })
    }

    /// The same, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut T)> {
        (0..).zip(self.chunks.iter_mut().flatten()).filter_map(|(index, place)| match &mut place.content {
            Content::Tenant(value) => Some((Slot { index, generation: place.generation }, value)),
            Content::Vacant(_) => None,
        })
    }

    #[inline]
    fn place(&self, index: u32) -> Option<&Place<T>> {
        self.chunks.get(index as usize / CHUNK)?.get(index as usize % CHUNK)
    }

    #[inline]
    fn place_mut(&mut self, index: u32) -> Option<&mut Place<T>> {
        self.chunks.get_mut(index as usize / CHUNK)?.get_mut(index as usize % CHUNK)
    }

    /// Adds a vacant place at the end.
    fn build(&mut self) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(if self.chunks.is_empty() { Vec::new() } else { Vec::with_capacity(CHUNK) });
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut().expect("one was just made sure of");
        let index = u32::try_from(before + chunk.len()).ok().filter(|index| *index != NONE);
        let index = index.expect("fewer than 2^32 - 1 places are enough");
        chunk.push(Place { generation: 0, content: Content::Vacant(NONE) });
        index
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::BTreeMap, vec::Vec};

    #[test]
    fn a_slot_never_finds_the_next_tenant() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index, first.index);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.get(first), None);
        assert_eq!(
            (slab.get(second), slab.at(second.index), slab.slot(0)),
            (Some(&"second"), Some(&"second"), Some(second))
        );
    }

    #[test]
    fn a_place_that_ran_out_of_generations_is_given_up() {
        let mut slab = Slab::new();
        slab.insert(0);
        slab.chunks[0][0].generation = u32::MAX;
        let last = Slot { index: 0, generation: u32::MAX };
        assert_eq!(slab.remove(last), Some(0));
        assert_eq!(slab.insert(1).index, 1);
        assert_eq!(slab.remove(last), None);
        assert_eq!((slab.get(last), slab.len()), (None, 1));
    }

    #[test]
    fn growth_moves_no_tenant_of_a_full_chunk() {
        let mut slab = Slab::new();
        (0..CHUNK as u32).for_each(|n| assert_eq!(slab.insert(n).index, n));
        let before: *const u32 = slab.at(7).unwrap();
        (0..5_000).for_each(|n| assert_eq!(slab.insert(n).index as usize, CHUNK + n as usize));
        assert_eq!(before, core::ptr::from_ref(slab.at(7).unwrap()));
        assert_eq!(slab.iter().map(|(slot, _)| slot.index).collect::<Vec<_>>(), (0..6_024).collect::<Vec<_>>());
    }

    #[test]
    fn a_boxed_tenant_costs_no_discriminant_beyond_its_place() {
        assert_eq!(size_of::<Place<[u32; 15]>>(), 68);
        assert!(size_of::<Place<(std::boxed::Box<u8>, u32)>>() <= 24);
    }

    proptest! {
        #[test]
        fn behaves_as_a_map_of_slots(steps in prop::collection::vec((any::<bool>(), 0..16_usize), 0..300)) {
            let (mut slab, mut twin, mut given) = (Slab::new(), BTreeMap::new(), Vec::<Slot>::new());
            for (value, (insert, which)) in steps.into_iter().enumerate() {
                if insert || given.is_empty() {
                    let slot = slab.insert(value);
                    prop_assert_eq!(twin.insert((slot.index, slot.generation), value), None);
                    given.push(slot);
                } else {
                    // Slots removed before are tried again: they must find nothing.
                    let slot = given[given.len() - 1 - which % given.len()];
                    prop_assert_eq!(slab.get(slot), twin.get(&(slot.index, slot.generation)));
                    prop_assert_eq!(slab.remove(slot), twin.remove(&(slot.index, slot.generation)));
                }
                prop_assert_eq!(slab.len(), twin.len());
            }
            let live: Vec<_> = slab.iter().map(|(slot, value)| ((slot.index, slot.generation), *value)).collect();
            prop_assert_eq!(&live, &twin.into_iter().collect::<Vec<_>>());
            let changed: Vec<_> = slab.iter_mut().map(|(slot, value)| ((slot.index, slot.generation), *value)).collect();
            prop_assert_eq!(live, changed);
        }
    }
}
