//! Every policy once more, in a few obvious lines: lists that are searched from end to end.
//!
//! Tests and the fuzz target run a policy and its twin side by side; they must pick the same entities in the same order.

mod composite;
mod orders;

use alloc::{boxed::Box, vec, vec::Vec};

use composite::Composite;
use orders::{Chance, Frequent, Queues, Recent, Segments, Sweep};

use super::{HillClimb, PolicyChoice, Sketch};
use crate::prng::Prng;

/// An entity: its index, the upper half of its hash, and its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry(u32, u32, u64);

type List = Vec<Entry>;

/// What a twin must tell: who enters, who is used, who leaves without being asked, and who goes first.
trait Naive {
    fn enter(&mut self, entry: Entry);
    fn touch(&mut self, index: u32);
    fn leave(&mut self, index: u32);
    fn victim(&mut self) -> Option<u32>;
    fn lists(&mut self) -> Vec<&mut List>;
    fn resize(&mut self, _limit: u64) {}
}

/// A naive policy, with the calls of [`PassivationPolicy`](super::PassivationPolicy); it returns whom it picks.
pub struct Twin {
    limit: u64,
    parts: Parts,
    pinned: List,
    stopping: List,
}

enum Parts {
    Ordered(Box<dyn Naive>),
    Composite(Box<Composite>),
}

fn weight(list: &[Entry]) -> u64 {
    list.iter().map(|entry| entry.2).sum()
}

fn take(list: &mut List, index: u32) -> Option<Entry> {
    Some(list.remove(list.iter().position(|entry| entry.0 == index)?))
}

impl Twin {
    /// The twin of `choice`, built with the same limit and seed.
    #[must_use]
    pub fn new(choice: PolicyChoice, limit: u64, seed: u64) -> Self {
        let mut parts = match choice {
            PolicyChoice::Lru => Parts::Ordered(Box::new(Recent(vec![], false))),
            PolicyChoice::Mru => Parts::Ordered(Box::new(Recent(vec![], true))),
            PolicyChoice::Slru => Parts::Ordered(Box::new(Segments::new(&[0.2, 0.8]))),
            PolicyChoice::S4Lru => Parts::Ordered(Box::new(Segments::new(&[0.25; 4]))),
            PolicyChoice::Lfu => {
                Parts::Ordered(Box::new(Frequent { list: vec![], uses: vec![], age: 0, ageing: false }))
            }
            PolicyChoice::AgeingLfu => {
                Parts::Ordered(Box::new(Frequent { list: vec![], uses: vec![], age: 0, ageing: true }))
            }
            PolicyChoice::Sieve => Parts::Ordered(Box::new(Sweep { list: vec![], used: vec![], hand: 0 })),
            PolicyChoice::S3Fifo => Parts::Ordered(Box::new(Queues::default())),
            PolicyChoice::Random => Parts::Ordered(Box::new(Chance(vec![], Prng::new(seed)))),
            PolicyChoice::TinyLfu => Parts::Composite(Box::new(Composite::new(None, limit))),
            PolicyChoice::ClimbingTinyLfu => {
                Parts::Composite(Box::new(Composite::new(Some(HillClimb::default()), limit)))
            }
        };
        match &mut parts {
            Parts::Ordered(order) => order.resize(limit),
            Parts::Composite(composite) => composite.resize(limit),
        }
        Self { limit, parts, pinned: vec![], stopping: vec![] }
    }

    fn is_ordered(&mut self, index: u32) -> bool {
        self.lists().iter().any(|list| list.iter().any(|entry| entry.0 == index))
    }

    fn lists(&mut self) -> Vec<&mut List> {
        match &mut self.parts {
            Parts::Ordered(order) => order.lists(),
            Parts::Composite(composite) => {
                core::iter::once(&mut composite.window).chain(&mut composite.main.0).collect()
            }
        }
    }

    /// The limit.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The weights of those in order, pinned and stopping.
    pub fn weights(&mut self) -> [u64; 3] {
        [self.lists().iter().map(|list| weight(list)).sum(), weight(&self.pinned), weight(&self.stopping)]
    }

    /// See [`created`](super::PassivationPolicy::created).
    pub fn created(&mut self, index: u32, hash: u64, heavy: u32) -> Vec<u32> {
        if self.is_ordered(index) {
            self.touched(index);
            return vec![];
        }
        if self.pinned.iter().chain(&self.stopping).any(|entry| entry.0 == index) {
            return vec![];
        }
        let entry = Entry(index, (hash >> 32) as u32, u64::from(heavy));
        if weight(&self.pinned) + entry.2 > self.limit {
            self.stopping.push(entry);
            return vec![index];
        }
        let picked = if matches!(self.parts, Parts::Ordered(_)) { self.make_room(entry.2) } else { vec![] };
        self.enter(entry, picked)
    }

    fn enter(&mut self, entry: Entry, mut picked: Vec<u32>) -> Vec<u32> {
        let pinned = weight(&self.pinned);
        match &mut self.parts {
            Parts::Ordered(order) => order.enter(entry),
            Parts::Composite(composite) => {
                let gone = composite.enter(entry, pinned);
                picked.extend(gone.iter().map(|entry| entry.0));
                self.stopping.extend(gone);
            }
        }
        picked
    }

    fn make_room(&mut self, more: u64) -> Vec<u32> {
        let (pinned, mut picked) = (weight(&self.pinned), vec![]);
        if let Parts::Composite(composite) = &mut self.parts {
            let gone = composite.close(pinned);
            picked.extend(gone.iter().map(|entry| entry.0));
            self.stopping.extend(gone);
            return picked;
        }
        while self.weights()[..2].iter().sum::<u64>() + more > self.limit {
            let Parts::Ordered(order) = &mut self.parts else { break };
            let Some(victim) = order.victim() else { break };
            self.withdraw(victim).into_iter().for_each(|entry| self.stopping.push(entry));
            picked.push(victim);
        }
        picked
    }

    /// Takes `index` out of the order.
    fn withdraw(&mut self, index: u32) -> Option<Entry> {
        if let Parts::Ordered(order) = &mut self.parts {
            order.leave(index);
        }
        self.lists().into_iter().find_map(|list| take(list, index))
    }

    /// See [`touched`](super::PassivationPolicy::touched).
    pub fn touched(&mut self, index: u32) {
        let pinned = weight(&self.pinned);
        if self.is_ordered(index) {
            match &mut self.parts {
                Parts::Ordered(order) => order.touch(index),
                Parts::Composite(composite) => composite.touch(index, pinned),
            }
        }
    }

    /// See [`stopping`](super::PassivationPolicy::stopping).
    pub fn stopping(&mut self, index: u32) {
        let entry = self.withdraw(index).or_else(|| take(&mut self.pinned, index));
        self.stopping.extend(entry);
    }

    /// See [`removed`](super::PassivationPolicy::removed).
    pub fn removed(&mut self, index: u32) {
        self.withdraw(index);
        take(&mut self.pinned, index);
        take(&mut self.stopping, index);
    }

    /// See [`weighed`](super::PassivationPolicy::weighed).
    pub fn weighed(&mut self, index: u32, heavy: u32) -> Vec<u32> {
        let set = |list: &mut List| {
            list.iter_mut().filter(|entry| entry.0 == index).for_each(|entry| entry.2 = u64::from(heavy));
        };
        self.lists().into_iter().for_each(set);
        [&mut self.pinned, &mut self.stopping].into_iter().for_each(set);
        let mut picked = vec![];
        if self.is_ordered(index) && weight(&self.pinned) + u64::from(heavy) > self.limit {
            self.stopping(index);
            picked.push(index);
        }
        picked.extend(self.make_room(0));
        picked
    }

    /// See [`pinned`](super::PassivationPolicy::pinned).
    pub fn pinned(&mut self, index: u32) {
        let entry = self.withdraw(index);
        self.pinned.extend(entry);
    }

    /// See [`unpinned`](super::PassivationPolicy::unpinned).
    pub fn unpinned(&mut self, index: u32) -> Vec<u32> {
        let Some(entry) = take(&mut self.pinned, index) else { return vec![] };
        if weight(&self.pinned) + entry.2 > self.limit {
            self.stopping.push(entry);
            return vec![index];
        }
        let picked = self.enter(entry, vec![]);
        if matches!(self.parts, Parts::Ordered(_)) { self.make_room(0) } else { picked }
    }

    /// See [`limit_changed`](super::PassivationPolicy::limit_changed).
    pub fn limit_changed(&mut self, limit: u64) -> Vec<u32> {
        self.limit = limit;
        match &mut self.parts {
            Parts::Ordered(order) => order.resize(limit),
            Parts::Composite(composite) => {
                composite.sketch.resize(limit);
                composite.resize(limit);
            }
        }
        self.make_room(0)
    }
}
