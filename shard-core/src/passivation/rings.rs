//! Several orders of use over the same places, and who stands where.

use alloc::{vec, vec::Vec};

use super::policy::{Census, Tally};

/// What stands in a node's `ring` if it is in none: nobody lives there.
const ABSENT: u16 = u16::MAX;
const STOPPING: u16 = u16::MAX - 1;
const PINNED: u16 = u16::MAX - 2;

/// What policies are made of: doubly linked rings threaded through one node of 16 bytes per place, each place in one ring
/// at most. A node also keeps the weight of its entity and 16 bits for the policy's own use.
///
/// Every operation is O(1); only the frame's admission of a newcomer allocates, amortised.
#[derive(Clone, Debug)]
pub struct Rings {
    /// First a sentinel per ring, then the places: place `index` is node `rings + index`.
    nodes: Vec<Node>,
    /// By ring.
    tallies: Vec<Tally>,
    census: Census,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    older: u32,
    newer: u32,
    weight: u32,
    ring: u16,
    bits: u16,
}

const NOBODY: Node = Node { older: 0, newer: 0, weight: 0, ring: ABSENT, bits: 0 };

impl Rings {
    /// So many empty rings.
    ///
    /// # Panics
    /// If there are more than 1,024: a policy that wants so many wants something else.
    #[must_use]
    pub fn new(rings: u16) -> Self {
        assert!(rings <= 1_024, "rings are few");
        let sentinel = |ring| Node { older: u32::from(ring), newer: u32::from(ring), ring, ..NOBODY };
        Self {
            nodes: (0..rings).map(sentinel).collect(),
            tallies: vec![Tally::default(); usize::from(rings)],
            census: Census::default(),
        }
    }

    /// Who is awake, pinned and stopping.
    #[must_use]
    pub const fn census(&self) -> Census {
        self.census
    }

    /// The bytes allocated: 16 for each place up to the greatest, 20 at most while they grow, and 32 for each ring.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.tallies.capacity() * size_of::<Tally>()
    }

    /// How many are in `ring`, and their weight.
    #[inline]
    #[must_use]
    pub fn tally(&self, ring: u16) -> Tally {
        self.tallies[usize::from(ring)]
    }

    /// The ring in which `index` is.
    #[inline]
    #[must_use]
    pub fn ring(&self, index: u32) -> Option<u16> {
        let ring = self.nodes.get(self.at(index))?.ring;
        (ring < PINNED).then_some(ring)
    }

    /// Whether nobody lives at `index`.
    #[must_use]
    pub fn is_absent(&self, index: u32) -> bool {
        self.nodes.get(self.at(index)).is_none_or(|node| node.ring == ABSENT)
    }

    /// Whether the entity at `index` is pinned.
    #[must_use]
    pub fn is_pinned(&self, index: u32) -> bool {
        self.nodes.get(self.at(index)).is_some_and(|node| node.ring == PINNED)
    }

    /// What the entity at `index` weighs; nothing, if nobody lives there.
    #[must_use]
    pub fn weight(&self, index: u32) -> u32 {
        self.nodes.get(self.at(index)).map_or(0, |node| node.weight)
    }

    /// The policy's own bits of a place that has been admitted.
    #[inline]
    #[must_use]
    pub fn bits(&self, index: u32) -> u16 {
        self.nodes[self.at(index)].bits
    }

    /// Changes them.
    #[inline]
    pub fn set_bits(&mut self, index: u32, bits: u16) {
        let at = self.at(index);
        self.nodes[at].bits = bits;
    }

    /// The member of `ring` that was put there longest ago.
    #[inline]
    #[must_use]
    pub fn oldest(&self, ring: u16) -> Option<u32> {
        self.index(self.nodes[usize::from(ring)].newer)
    }

    /// The member of `ring` that was put there last.
    #[inline]
    #[must_use]
    pub fn newest(&self, ring: u16) -> Option<u32> {
        self.index(self.nodes[usize::from(ring)].older)
    }

    /// The next newer member of the ring in which `index` is; `None` for the newest and for what is in no ring.
    #[inline]
    #[must_use]
    pub fn newer_than(&self, index: u32) -> Option<u32> {
        self.ring(index)?;
        self.index(self.nodes[self.at(index)].newer)
    }

    /// Whether what lives at `index` fits `limit` beside those who are pinned, if nobody else is awake.
    pub(super) fn fits_alone(&self, index: u32, limit: u64) -> bool {
        let weight = u64::from(self.weight(index));
        let pinned = self.census.pinned.weight - if self.is_pinned(index) { weight } else { 0 };
        pinned + weight <= limit
    }

    /// Prepares the place `index`, where nobody lives, for an entity of `weight`. It is in no ring until it is
    /// [`put`](Self::put) into one.
    ///
    /// # Panics
    /// If `index` is so great that no slab has it.
    pub(super) fn admit(&mut self, index: u32, weight: u32) {
        let at = self.at(index);
        assert!(at < ABSENT_LINK, "the greatest numbers are no places");
        reach(&mut self.nodes, at, NOBODY);
        self.nodes[at] = Node { weight, ..NOBODY };
    }

    /// Makes `index` the newest of `ring`, wherever it stood before.
    pub fn put(&mut self, index: u32, ring: u16) {
        if self.ring(index) == Some(ring) {
            return self.touch(index);
        }
        let weight = self.vacate(index);
        self.link_newest(index, ring);
        self.tallies[usize::from(ring)].add(weight);
        self.census.awake.add(weight);
    }

    /// Makes `index`, which is in a ring, the newest there; else nothing happens.
    #[inline]
    pub fn touch(&mut self, index: u32) {
        let at = self.at(index);
        let Some(&Node { older, newer, ring, .. }) = self.nodes.get(at).filter(|node| node.ring < PINNED) else {
            return;
        };
        if newer != u32::from(ring) {
            self.join(older, newer);
            self.link_newest(index, ring);
        }
    }

    /// Takes `index` out of its ring because it was picked.
    pub(super) fn pick(&mut self, index: u32) {
        let weight = self.vacate(index);
        self.census.stopping.add(weight);
        let at = self.at(index);
        self.nodes[at].ring = STOPPING;
    }

    /// Takes `index` out of its ring but counts it.
    pub(super) fn pin(&mut self, index: u32) {
        let weight = self.vacate(index);
        self.census.pinned.add(weight);
        let at = self.at(index);
        self.nodes[at].ring = PINNED;
    }

    /// Nobody lives at `index` any more.
    pub(super) fn remove(&mut self, index: u32) {
        if !self.is_absent(index) {
            self.vacate(index);
        }
    }

    /// The entity at `index` weighs something else.
    pub(super) fn reweigh(&mut self, index: u32, weight: u32) {
        let at = self.at(index);
        let Some(node) = self.nodes.get_mut(at).filter(|node| node.ring != ABSENT) else { return };
        let (ring, before) = (node.ring, u64::from(core::mem::replace(&mut node.weight, weight)));
        let part = match ring {
            PINNED => &mut self.census.pinned,
            STOPPING => &mut self.census.stopping,
            _ => {
                let tally = &mut self.tallies[usize::from(ring)];
                tally.weight = tally.weight - before + u64::from(weight);
                &mut self.census.awake
            }
        };
        part.weight = part.weight - before + u64::from(weight);
    }

    /// Takes `index` from wherever it stands; its weight.
    fn vacate(&mut self, index: u32) -> u32 {
        let at = self.at(index);
        let Node { older, newer, weight, ring, .. } = self.nodes[at];
        self.nodes[at].ring = ABSENT;
        match ring {
            ABSENT => {}
            STOPPING => self.census.stopping.subtract(weight),
            PINNED => self.census.pinned.subtract(weight),
            _ => {
                self.join(older, newer);
                self.tallies[usize::from(ring)].subtract(weight);
                self.census.awake.subtract(weight);
            }
        }
        weight
    }

    fn join(&mut self, older: u32, newer: u32) {
        self.nodes[older as usize].newer = newer;
        self.nodes[newer as usize].older = older;
    }

    fn link_newest(&mut self, index: u32, ring: u16) {
        let (at, sentinel) = (self.at(index), u32::from(ring));
        let newest = self.nodes[usize::from(ring)].older;
        let node = &mut self.nodes[at];
        (node.older, node.newer, node.ring) = (newest, sentinel, ring);
        self.nodes[newest as usize].newer = at as u32;
        self.nodes[usize::from(ring)].older = at as u32;
    }

    /// The node of a place.
    #[inline]
    fn at(&self, index: u32) -> usize {
        index as usize + self.tallies.len()
    }

    /// The place of a node, unless it is a sentinel.
    #[inline]
    fn index(&self, node: u32) -> Option<u32> {
        node.checked_sub(self.tallies.len() as u32)
    }
}

/// Makes `items` long enough to have a place `at`. They grow by a quarter at a time: so much of what is allocated is idle
/// at most, and an item is still moved only a few times.
pub(super) fn reach<T: Clone>(items: &mut Vec<T>, at: usize, vacant: T) {
    if at >= items.len() {
        if at >= items.capacity() {
            items.reserve_exact((at + 1 - items.len()).max(items.len() / 4));
        }
        items.resize(at + 1, vacant);
    }
}

/// Nodes are numbered in 32 bits.
const ABSENT_LINK: usize = u32::MAX as usize;
