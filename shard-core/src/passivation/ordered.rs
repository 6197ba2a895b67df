//! The frame that policies share: they order, it counts.

use core::fmt::Debug;

use super::policy::{Census, PassivationPolicy};
use super::rings::Rings;

/// What distinguishes one policy from another: where a newcomer stands, what a use changes, and who goes first.
///
/// Write one of your own, and [`Ordered`] makes a [`PassivationPolicy`] of it. Everybody who may be picked is in one of the
/// rings; pins, stopping and sums are the frame's.
pub trait Order: Debug + Send {
    /// How many rings it needs.
    fn rings(&self) -> u16;

    /// Puts a newcomer, or one just unpinned, into a ring; `hash` is that of its id.
    fn enter(&mut self, rings: &mut Rings, index: u32, hash: u64);

    /// A member of a ring was used.
    fn touch(&mut self, rings: &mut Rings, index: u32);

    /// Whoever goes first, a member of a ring; the frame picks it at once. `None` only if all rings are empty. If it names one
    /// that is in no ring, nobody is picked, and more stay awake than should. O(1), amortised.
    fn victim(&mut self, rings: &mut Rings) -> Option<u32>;

    /// A member is about to leave its ring: picked, pinned or gone.
    fn leaving(&mut self, rings: &Rings, index: u32) {
        let _ = (rings, index);
    }

    /// The limit is this one now, or from the beginning.
    fn resize(&mut self, limit: u64) {
        let _ = limit;
    }

    /// The bytes it has allocated besides the rings.
    fn bytes(&self) -> usize {
        0
    }
}

/// A policy made of an [`Order`]: room is made before a newcomer enters, so it is not picked by its own creation.
#[derive(Clone, Debug)]
pub struct Ordered<O> {
    order: O,
    rings: Rings,
    limit: u64,
}

impl<O: Order> Ordered<O> {
    /// Nobody is awake yet; allocates for the order only.
    #[must_use]
    pub fn new(mut order: O, limit: u64) -> Self {
        order.resize(limit);
        Self { rings: Rings::new(order.rings()), order, limit }
    }

    /// The rings, to look at.
    #[must_use]
    pub const fn rings(&self) -> &Rings {
        &self.rings
    }

    /// Picks until what is held and `more` fit the limit.
    fn make_room(&mut self, more: u32, pick: &mut dyn FnMut(u32)) {
        while self.rings.census().held() + u64::from(more) > self.limit {
            let Some(victim) = self.order.victim(&mut self.rings) else { return };
            if self.rings.ring(victim).is_none() {
                return; // an order that is wrong: whoever it names is not there to go
            }
            self.let_go(victim);
            pick(victim);
        }
    }

    /// A member of a ring begins to stop.
    fn let_go(&mut self, index: u32) {
        self.order.leaving(&self.rings, index);
        self.rings.pick(index);
    }
}

impl<O: Order> PassivationPolicy for Ordered<O> {
    fn created(&mut self, index: u32, hash: u64, weight: u32, pick: &mut dyn FnMut(u32)) {
        if !self.rings.is_absent(index) {
            return self.touched(index);
        }
        self.rings.admit(index, weight);
        if !self.rings.fits_alone(index, self.limit) {
            self.rings.pick(index);
            return pick(index);
        }
        self.make_room(weight, pick);
        self.order.enter(&mut self.rings, index, hash);
    }

    #[inline]
    fn touched(&mut self, index: u32) {
        if self.rings.ring(index).is_some() {
            self.order.touch(&mut self.rings, index);
        }
    }

    fn stopping(&mut self, index: u32) {
        if self.rings.ring(index).is_some() {
            self.let_go(index);
        } else if self.rings.is_pinned(index) {
            self.rings.pick(index);
        }
    }

    fn removed(&mut self, index: u32) {
        if self.rings.ring(index).is_some() {
            self.order.leaving(&self.rings, index);
        }
        self.rings.remove(index);
    }

    fn weighed(&mut self, index: u32, weight: u32, pick: &mut dyn FnMut(u32)) {
        self.rings.reweigh(index, weight);
        if self.rings.ring(index).is_some() && !self.rings.fits_alone(index, self.limit) {
            self.let_go(index);
            pick(index);
        }
        self.make_room(0, pick);
    }

    fn pinned(&mut self, index: u32) {
        if self.rings.ring(index).is_some() {
            self.order.leaving(&self.rings, index);
            self.rings.pin(index);
        }
    }

    fn unpinned(&mut self, index: u32, hash: u64, pick: &mut dyn FnMut(u32)) {
        if self.rings.is_pinned(index) {
            if !self.rings.fits_alone(index, self.limit) {
                self.rings.pick(index);
                return pick(index);
            }
            self.order.enter(&mut self.rings, index, hash);
            self.make_room(0, pick);
        }
    }

    fn limit_changed(&mut self, limit: u64, pick: &mut dyn FnMut(u32)) {
        self.limit = limit;
        self.order.resize(limit);
        self.make_room(0, pick);
    }

    fn census(&self) -> Census {
        self.rings.census()
    }

    fn bytes(&self) -> usize {
        self.rings.bytes() + self.order.bytes()
    }
}
