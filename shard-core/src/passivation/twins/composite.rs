//! The naive composition.

use alloc::vec;

use super::orders::Segments;
use super::{Entry, HillClimb, List, Naive, Sketch, take, weight};

/// Window and main part; sketch and climb are the policy's own, which have tests of theirs.
pub(super) struct Composite {
    pub(super) window: List,
    pub(super) main: Segments,
    pub(super) sketch: Sketch,
    climb: Option<HillClimb>,
    share: f64,
    limit: u64,
}

impl Composite {
    pub(super) fn new(climb: Option<HillClimb>, limit: u64) -> Self {
        let main = Segments::new(&[0.2, 0.8]);
        Self { window: vec![], main, sketch: Sketch::new(limit), climb, share: 0.01, limit }
    }
    fn window_max(&self) -> u64 {
        ((self.share * self.limit as f64) as u64).max(1).min(self.limit)
    }
    fn window_room(&self, pinned: u64) -> u64 {
        self.window_max().min(self.limit.saturating_sub(pinned))
    }
    fn main_max(&self, pinned: u64) -> u64 {
        (self.limit - self.window_max()).saturating_sub(pinned)
    }
    pub(super) fn resize(&mut self, limit: u64) {
        self.limit = limit;
        self.main.resize(limit - self.window_max());
        self.climb.iter_mut().for_each(|climb| climb.resize(limit));
    }
    pub(super) fn enter(&mut self, entry: Entry, pinned: u64) -> List {
        self.count(entry, false);
        self.window.push(entry);
        let gone = self.close(pinned);
        self.adapt(pinned);
        gone
    }
    pub(super) fn touch(&mut self, index: u32, pinned: u64) {
        if let Some(entry) = take(&mut self.window, index) {
            self.window.push(entry);
            self.count(entry, true);
        } else if let Some(entry) = self.main.0.iter().flatten().find(|entry| entry.0 == index).copied() {
            self.main.touch(index);
            self.count(entry, true);
        }
        self.adapt(pinned);
    }
    fn count(&mut self, entry: Entry, hit: bool) {
        self.sketch.count(entry.1);
        self.climb.iter_mut().for_each(|climb| climb.used(hit));
    }
    pub(super) fn close(&mut self, pinned: u64) -> List {
        let mut gone = self.close_window(pinned);
        gone.extend(self.close_main(pinned));
        gone
    }
    fn close_window(&mut self, pinned: u64) -> List {
        let mut gone = vec![];
        while weight(&self.window) > self.window_room(pinned) {
            let candidate = self.window.remove(0);
            let fits = self.main.weight() + candidate.2 <= self.main_max(pinned);
            let frequency = |entry: &Entry| self.sketch.frequency(entry.1);
            if fits || self.main.0[0].first().is_none_or(|victim| frequency(&candidate) > frequency(victim)) {
                self.main.enter(candidate);
                gone.extend(self.close_main(pinned));
            } else {
                gone.push(candidate);
            }
        }
        gone
    }
    fn close_main(&mut self, pinned: u64) -> List {
        let mut gone = vec![];
        while self.main.weight() > self.main_max(pinned) {
            let Some(victim) = self.main.victim() else { break };
            gone.extend(self.main.lists().into_iter().find_map(|list| take(list, victim)));
        }
        gone
    }
    fn adapt(&mut self, pinned: u64) {
        let step = self.climb.as_mut().map_or(0.0, HillClimb::step);
        if step == 0.0 {
            return;
        }
        self.share = (self.share + step).clamp(0.01, 1.0);
        self.main.resize(self.limit - self.window_max());
        if step > 0.0 {
            let moved = self.close_main(pinned);
            self.window.extend(moved);
        } else {
            while weight(&self.window) > self.window_max() {
                let oldest = self.window.remove(0);
                self.main.enter(oldest);
            }
        }
    }
}
