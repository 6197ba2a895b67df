//! The heaviest keys of a stream, in memory that is fixed: space-saving with a filter in front.

use alloc::{vec, vec::Vec};
use core::cmp::Reverse;

use crate::allocation::Edge;
use crate::hash::spread;
use crate::id::ShardId;

/// Children of a place in the heap.
const ARITY: usize = 4;
/// Nothing there.
const NONE: u32 = u32::MAX;
/// More keys than anybody needs, and few enough to be numbered in 32 bits with room to spare.
const CAPACITY_MAX: usize = 1 << 24;

/// The pairs of shards that say most to each other, out of a stream of single messages: what a region observes and
/// [`Layout::set_edges`](crate::allocation::Layout::set_edges) is told.
///
/// Which of the two speaks does not matter, and what a shard says to itself does not count. See [`HeavyKeys`] for how it
/// counts, what it costs and how far it may be wrong.
///
/// Orleans, which observes single actors, keeps those that are where they belong in a Bloom filter and counts them as one, so
/// that they do not fill the table. Shards are few and all of them may be tracked, so there is nothing like it here.
///
/// ```
/// use shard_core::allocation::{Edge, HeavyPairs};
/// use shard_core::id::ShardId;
///
/// let mut pairs = HeavyPairs::new(10_000, 256);
/// pairs.add(ShardId(7), ShardId(3), 2);
/// pairs.add(ShardId(3), ShardId(7), 1);
/// pairs.add(ShardId(3), ShardId(3), 9);
/// assert_eq!(pairs.edges(), [Edge::new(ShardId(3), ShardId(7), 3)]);
/// assert_eq!(pairs.said().collect::<Vec<_>>(), [(ShardId(3), 3), (ShardId(7), 3)]);
/// ```
#[derive(Clone, Debug)]
pub struct HeavyPairs {
    keys: HeavyKeys,
    /// Per shard: what it says to others in all.
    said: Vec<u32>,
}

impl HeavyPairs {
    /// Nothing observed, and room for `capacity` pairs of `shards` shards. O(capacity + shards).
    #[must_use]
    pub fn new(capacity: usize, shards: u32) -> Self {
        Self { keys: HeavyKeys::new(capacity), said: vec![0; shards as usize] }
    }

    /// `weight` more from `source` to `destination`; nothing, if one of them does not exist. O(log capacity), without
    /// allocation.
    pub fn add(&mut self, source: ShardId, destination: ShardId, weight: u32) {
        let Edge { a, b, .. } = Edge::new(source, destination, weight);
        if a == b || b.0 as usize >= self.said.len() {
            return;
        }
        for end in [a, b] {
            let said = &mut self.said[end.0 as usize];
            *said = said.saturating_add(weight);
        }
        self.keys.add(u64::from(a.0) << 32 | u64::from(b.0), weight);
    }

    /// Everything counts half from now on, so that what was is forgotten. Once in a while, such as with every report.
    pub fn halve(&mut self) {
        self.keys.halve();
        self.said.iter_mut().for_each(|said| *said /= 2);
    }

    /// What is tracked now, in the order of the shards. O(pairs log pairs).
    #[must_use]
    pub fn edges(&self) -> Vec<Edge> {
        let edge = |(key, weight)| Edge::new(ShardId((key >> 32) as u32), ShardId(key as u32), weight);
        let mut edges: Vec<Edge> = self.keys.iter().map(edge).collect();
        edges.sort_unstable();
        edges
    }

    /// The shards that said anything to others, in their order, and how much: exact, also where pairs are too many to be
    /// tracked. For [`Layout::set_said`](crate::allocation::Layout::set_said).
    pub fn said(&self) -> impl Iterator<Item = (ShardId, u32)> {
        (0..).map(ShardId).zip(self.said.iter().copied()).filter(|(_, said)| *said > 0)
    }

    /// Forgets everything. O(capacity + shards).
    pub fn clear(&mut self) {
        self.keys.clear();
        self.said.fill(0);
    }
}

/// The heaviest keys of a stream of weighted keys, as far as a fixed amount of memory tells: filtered space-saving
/// (Homem and Carvalho 2010), on which Orleans builds, with a heap that holds after every step and with ageing.
///
/// A key that is tracked counts exactly from then on. One that is not is counted in a cell that it shares with others; when
/// the cell reaches the least count tracked, it takes that one's place with the cell's count, which is too high by at most
/// [`error`](Self::error). So no count is too low by more than what its cell forgot, and a key that is heavier than the
/// least tracked count is tracked.
///
/// Memory is all taken by [`new`](Self::new): 60 to 92 bytes a key (10,000 keys: 673 kB). Every operation is O(log capacity)
/// unless its line says otherwise.
#[derive(Clone, Debug)]
pub struct HeavyKeys {
    slots: Vec<Slot>,
    /// Slots, the least count at the top, and of equals the one with the greater error.
    heap: Vec<u32>,
    /// Slots by the hash of their keys, with linear probing.
    index: Vec<u32>,
    /// What keys without a slot count, by their hash.
    cells: Vec<u32>,
    capacity: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u64,
    count: u32,
    error: u32,
    /// Where in the heap.
    place: u32,
}

impl HeavyKeys {
    /// Nothing counted, and room for `capacity` keys, at least one. O(capacity).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, CAPACITY_MAX);
        Self {
            slots: Vec::with_capacity(capacity),
            heap: Vec::with_capacity(capacity),
            index: vec![NONE; (2 * capacity).next_power_of_two()],
            cells: vec![0; (6 * capacity + 1).next_power_of_two()],
            capacity,
        }
    }

    /// `weight` more of `key`.
    pub fn add(&mut self, key: u64, weight: u32) {
        if weight == 0 {
            return;
        }
        if let Some(slot) = self.find(key) {
            let it = &mut self.slots[slot as usize];
            it.count = it.count.saturating_add(weight);
            let place = it.place as usize;
            self.settle(place);
            return;
        }
        if self.slots.len() < self.capacity {
            self.insert(Slot { key, count: weight, error: 0, place: 0 });
            return;
        }
        let least = self.slots[self.heap[0] as usize];
        let cell = self.cell(key);
        let estimate = self.cells[cell];
        let count = estimate.saturating_add(weight);
        if count < least.count {
            self.cells[cell] = count;
            return;
        }
        let left = self.cell(least.key);
        self.cells[left] = least.count;
        self.take_out(self.heap[0]);
        self.insert(Slot { key, count, error: estimate, place: 0 });
    }

    /// What `key` weighs; `None`: it is not tracked.
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u32> {
        self.find(key).map(|slot| self.slots[slot as usize].count)
    }

    /// By how much the weight of `key` may be too high.
    #[must_use]
    pub fn error(&self, key: u64) -> Option<u32> {
        self.find(key).map(|slot| self.slots[slot as usize].error)
    }

    /// Forgets `key`, and what its cell has counted. False: it was not tracked.
    pub fn remove(&mut self, key: u64) -> bool {
        let Some(slot) = self.find(key) else { return false };
        let cell = self.cell(key);
        self.cells[cell] = 0;
        self.take_out(slot);
        true
    }

    /// Everything counts half from now on; what counted one is forgotten. O(capacity).
    pub fn halve(&mut self) {
        self.cells.iter_mut().for_each(|cell| *cell /= 2);
        for slot in &mut self.slots {
            (slot.count, slot.error) = (slot.count / 2, slot.error / 2);
        }
        self.slots.retain(|slot| slot.count > 0);
        self.index.fill(NONE);
        self.heap.clear();
        for slot in 0..self.slots.len() as u32 {
            self.heap.push(slot);
            self.slots[slot as usize].place = slot;
            self.enter(slot);
        }
        // Halves that are equal may stand in another order than the wholes.
        (0..self.heap.len()).rev().for_each(|place| self.sink(place));
    }

    /// The keys tracked and their weights, in no order that means anything.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u32)> {
        self.slots.iter().map(|slot| (slot.key, slot.count))
    }

    /// How many keys are tracked.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no key is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Forgets everything. O(capacity).
    pub fn clear(&mut self) {
        self.slots.clear();
        self.heap.clear();
        self.index.fill(NONE);
        self.cells.fill(0);
    }

    fn cell(&self, key: u64) -> usize {
        spread(key) as usize & (self.cells.len() - 1)
    }

    /// Gives a key a slot, which must be free.
    fn insert(&mut self, slot: Slot) {
        let (number, place) = (self.slots.len() as u32, self.heap.len());
        self.slots.push(Slot { place: place as u32, ..slot });
        self.heap.push(number);
        self.enter(number);
        self.rise(place);
    }

    /// Frees a slot; the last one takes its number, and the last of the heap its place.
    fn take_out(&mut self, slot: u32) {
        self.leave(slot);
        let place = self.slots[slot as usize].place as usize;
        self.heap.swap_remove(place);
        if let Some(moved) = self.heap.get(place) {
            self.slots[*moved as usize].place = place as u32;
            // What stood at the end of the heap may be less than what stood above here.
            self.settle(place);
        }
        let last = self.slots.len() as u32 - 1;
        if slot != last {
            let at = self.index_of(last);
            self.index[at] = slot;
            self.heap[self.slots[last as usize].place as usize] = slot;
        }
        self.slots.swap_remove(slot as usize);
    }
}

/// The heap.
impl HeavyKeys {
    fn rank(&self, place: usize) -> (u32, Reverse<u32>) {
        let slot = &self.slots[self.heap[place] as usize];
        (slot.count, Reverse(slot.error))
    }

    fn settle(&mut self, place: usize) {
        if !self.rise(place) {
            self.sink(place);
        }
    }

    /// Towards the top; whether it moved.
    fn rise(&mut self, mut place: usize) -> bool {
        let from = place;
        while place > 0 {
            let above = (place - 1) / ARITY;
            if self.rank(place) >= self.rank(above) {
                break;
            }
            self.swap(place, above);
            place = above;
        }
        place != from
    }

    /// Away from the top.
    fn sink(&mut self, mut place: usize) {
        loop {
            let below = place * ARITY + 1..(place * ARITY + 1 + ARITY).min(self.heap.len());
            let Some(least) = below.min_by_key(|below| self.rank(*below)) else { return };
            if self.rank(place) <= self.rank(least) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            self.slots[self.heap[place] as usize].place = place as u32;
        }
    }
}

/// The index: half of it is free at least, so that probes end soon.
impl HeavyKeys {
    fn home(&self, key: u64) -> usize {
        spread(key) as usize & (self.index.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.index.len() - 1)
    }

    fn find(&self, key: u64) -> Option<u32> {
        let mut at = self.home(key);
        loop {
            let slot = self.index[at];
            if slot == NONE {
                return None;
            }
            if self.slots[slot as usize].key == key {
                return Some(slot);
            }
            at = self.after(at);
        }
    }

    fn index_of(&self, slot: u32) -> usize {
        let mut at = self.home(self.slots[slot as usize].key);
        while self.index[at] != slot {
            at = self.after(at);
        }
        at
    }

    fn enter(&mut self, slot: u32) {
        let mut at = self.home(self.slots[slot as usize].key);
        while self.index[at] != NONE {
            at = self.after(at);
        }
        self.index[at] = slot;
    }

    /// Closes the gap, so that no probe ends too soon.
    fn leave(&mut self, slot: u32) {
        let mut gap = self.index_of(slot);
        let mut at = gap;
        loop {
            at = self.after(at);
            let slot = self.index[at];
            if slot == NONE {
                break;
            }
            let home = self.home(self.slots[slot as usize].key);
            let mask = self.index.len() - 1;
            // It may go back as far as its home.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.index[gap] = slot;
                gap = at;
            }
        }
        self.index[gap] = NONE;
    }
}

#[cfg(test)]
impl HeavyKeys {
    /// That the heap is in order and that slots, heap and index say the same.
    pub(super) fn check(&self) {
        assert_eq!(self.slots.len(), self.heap.len());
        for place in 0..self.heap.len() {
            assert_eq!(self.slots[self.heap[place] as usize].place as usize, place);
            assert!(
                place == 0 || self.rank((place - 1) / ARITY) <= self.rank(place),
                "{place} is less than its parent"
            );
        }
        for (number, slot) in (0..).zip(&self.slots) {
            assert_eq!(self.find(slot.key), Some(number));
        }
        assert_eq!(self.index.iter().filter(|slot| **slot != NONE).count(), self.slots.len());
    }

    pub(super) const fn cells(&self) -> usize {
        self.cells.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        let small = self.heap.capacity() + self.index.capacity() + self.cells.capacity();
        self.slots.capacity() * size_of::<Slot>() + small * size_of::<u32>()
    }
}
