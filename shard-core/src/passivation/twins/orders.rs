//! The naive orders.

use alloc::{vec, vec::Vec};

use super::{Entry, List, Naive, take, weight};
use crate::prng::Prng;

/// Oldest first; the newest goes if so said.
pub(super) struct Recent(pub(super) List, pub(super) bool);

impl Naive for Recent {
    fn enter(&mut self, entry: Entry) {
        self.0.push(entry);
    }
    fn touch(&mut self, index: u32) {
        let entry = take(&mut self.0, index);
        self.0.extend(entry);
    }
    fn leave(&mut self, _: u32) {}
    fn victim(&mut self) -> Option<u32> {
        Some(if self.1 { self.0.last()? } else { self.0.first()? }.0)
    }
    fn lists(&mut self) -> Vec<&mut List> {
        vec![&mut self.0]
    }
}

/// Levels, shares, limits.
pub(super) struct Segments(pub(super) Vec<List>, Vec<f64>, Vec<u64>);

impl Segments {
    pub(super) fn new(shares: &[f64]) -> Self {
        Self(vec![vec![]; shares.len()], shares.to_vec(), vec![0; shares.len()])
    }
    fn shed(&mut self, level: usize) {
        while weight(&self.0[level]) > self.2[level] {
            let oldest = self.0[level].remove(0);
            self.0[level - 1].push(oldest);
        }
    }
    pub(super) fn weight(&self) -> u64 {
        self.0.iter().map(|list| weight(list)).sum()
    }
}

impl Naive for Segments {
    fn enter(&mut self, entry: Entry) {
        self.0[0].push(entry);
    }
    fn touch(&mut self, index: u32) {
        for level in 0..self.0.len() {
            if let Some(entry) = take(&mut self.0[level], index) {
                let next = (level + 1).min(self.0.len() - 1);
                self.0[next].push(entry);
                if next > level {
                    self.shed(next);
                }
                return;
            }
        }
    }
    fn leave(&mut self, _: u32) {}
    fn victim(&mut self) -> Option<u32> {
        (1..self.0.len()).rev().for_each(|level| self.shed(level));
        self.0.iter().find_map(|list| Some(list.first()?.0))
    }
    fn lists(&mut self) -> Vec<&mut List> {
        self.0.iter_mut().collect()
    }
    fn resize(&mut self, limit: u64) {
        let mut rest = limit;
        for level in 1..self.0.len() {
            self.2[level] = ((self.1[level] * limit as f64) as u64).min(rest);
            rest -= self.2[level];
        }
    }
}

/// In order of the last change of count; uses and priority by index.
pub(super) struct Frequent {
    pub(super) list: List,
    pub(super) uses: Vec<(u32, u64, u64)>,
    pub(super) age: u64,
    pub(super) ageing: bool,
}

impl Naive for Frequent {
    fn enter(&mut self, entry: Entry) {
        self.list.push(entry);
        self.uses.push((entry.0, 1, 1 + self.age));
    }
    fn touch(&mut self, index: u32) {
        let entry = take(&mut self.list, index);
        self.list.extend(entry);
        for (_, uses, priority) in self.uses.iter_mut().filter(|it| it.0 == index) {
            *uses = (*uses + 1).min(255);
            *priority = *uses + self.age;
        }
    }
    fn leave(&mut self, index: u32) {
        self.uses.retain(|it| it.0 != index);
    }
    fn victim(&mut self) -> Option<u32> {
        let priority = |entry: &&Entry| self.uses.iter().find(|it| it.0 == entry.0).map_or(0, |it| it.2);
        let victim = self.list.iter().min_by_key(priority)?;
        if self.ageing {
            self.age = priority(&victim);
        }
        Some(victim.0)
    }
    fn lists(&mut self) -> Vec<&mut List> {
        vec![&mut self.list]
    }
}

/// In order of creation; those used; how many stand before the hand.
pub(super) struct Sweep {
    pub(super) list: List,
    pub(super) used: Vec<u32>,
    pub(super) hand: usize,
}

impl Naive for Sweep {
    fn enter(&mut self, entry: Entry) {
        self.list.push(entry);
    }
    fn touch(&mut self, index: u32) {
        self.used.push(index);
    }
    fn leave(&mut self, index: u32) {
        self.used.retain(|used| *used != index);
        let at = self.list.iter().position(|entry| entry.0 == index);
        self.hand -= usize::from(at.is_some_and(|at| at < self.hand));
        // A hand whose entity was the newest begins anew at the oldest.
        if at.is_some_and(|at| at == self.hand && at + 1 == self.list.len()) {
            self.hand = 0;
        }
    }
    fn victim(&mut self) -> Option<u32> {
        loop {
            let at = self.list.get(self.hand)?.0;
            if !self.used.contains(&at) {
                return Some(at);
            }
            self.used.retain(|used| *used != at);
            self.hand = (self.hand + 1) % self.list.len();
        }
    }
    fn lists(&mut self) -> Vec<&mut List> {
        vec![&mut self.list]
    }
}

/// Small and main queue, uses by index, ghosts with the number of their going.
#[derive(Default)]
pub(super) struct Queues {
    queues: [List; 2],
    uses: Vec<(u32, u32)>,
    ghosts: Vec<(u32, usize)>,
    gone: usize,
    kept: usize,
    limit: u64,
}

impl Queues {
    fn uses(&mut self, index: u32) -> &mut u32 {
        &mut self.uses.iter_mut().find(|it| it.0 == index).expect("it is queued").1
    }
}

impl Naive for Queues {
    fn enter(&mut self, entry: Entry) {
        let ghost = self.ghosts.iter().position(|ghost| ghost.0 == entry.1).map(|at| self.ghosts.remove(at));
        let known = ghost.is_some_and(|ghost| self.gone - ghost.1 < self.kept);
        self.queues[usize::from(known)].push(entry);
        self.uses.push((entry.0, 0));
        self.kept = self.kept.max((self.queues[0].len() + self.queues[1].len()) * 9 / 10);
    }
    fn touch(&mut self, index: u32) {
        let uses = self.uses(index);
        *uses = (*uses + 1).min(3);
    }
    fn leave(&mut self, index: u32) {
        self.uses.retain(|it| it.0 != index);
    }
    fn victim(&mut self) -> Option<u32> {
        loop {
            let [small, main] = &self.queues;
            let from_small = !small.is_empty() && (weight(small) >= (self.limit / 10).max(1) || main.is_empty());
            let oldest = *self.queues[usize::from(!from_small)].first()?;
            let uses = *self.uses(oldest.0);
            if from_small && uses < 2 {
                self.gone += 1;
                self.ghosts.retain(|ghost| ghost.0 != oldest.1);
                self.ghosts.push((oldest.1, self.gone));
            }
            if uses < if from_small { 2 } else { 1 } {
                return Some(oldest.0);
            }
            self.queues[usize::from(!from_small)].remove(0);
            self.queues[1].push(oldest);
            *self.uses(oldest.0) = if from_small { 0 } else { uses - 1 };
        }
    }
    fn lists(&mut self) -> Vec<&mut List> {
        self.queues.iter_mut().collect()
    }
    fn resize(&mut self, limit: u64) {
        self.limit = limit;
    }
}

/// Anybody.
pub(super) struct Chance(pub(super) List, pub(super) Prng);

impl Naive for Chance {
    fn enter(&mut self, entry: Entry) {
        self.0.push(entry);
    }
    fn touch(&mut self, _: u32) {}
    fn leave(&mut self, index: u32) {
        // The last takes the place of the one that leaves; the frame takes that one from the end.
        if let Some(at) = self.0.iter().position(|entry| entry.0 == index) {
            let entry = self.0.swap_remove(at);
            self.0.push(entry);
        }
    }
    fn victim(&mut self) -> Option<u32> {
        Some(self.1.pick(&self.0)?.0)
    }
    fn lists(&mut self) -> Vec<&mut List> {
        vec![&mut self.0]
    }
}
