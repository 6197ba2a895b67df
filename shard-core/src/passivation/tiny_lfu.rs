//! A window for newcomers, a main part for the tried, and a sketch that judges between them.

use alloc::vec::Vec;

use super::climb::HillClimb;
use super::policy::{Census, PassivationPolicy};
use super::rings::{Rings, reach};
use super::sketch::Sketch;
use super::slru::Levels;

const WINDOW: u16 = 0;
const MAIN: u16 = 1;

/// W-TinyLFU: newcomers enter a small window in order of use. Whoever falls out of it is compared with the next victim of
/// the main part, which is segmented: the one that a [`Sketch`] has seen more often stays, the other is picked. With a
/// [`HillClimb`] the window grows and shrinks as the hits advise.
///
/// Near the optimum on most traces: the sketch remembers whom the limit could not hold. A use counts in the sketch and
/// moves an entry: some eight distant words. For each entity tracked: 16 bytes, 4 for its fingerprint, and 8 to 16 for the
/// sketch at a limit by count, a megabyte at first if the limit is great; a quarter more while tables grow.
///
/// Without a window newcomers may be refused: their own creation picks them. With one, it has room for one entity at
/// least, whatever its share, if the limit has.
///
/// Source: Einziger, Friedman and Manes, *TinyLFU: a highly efficient cache admission policy*, 2017; the parts and numbers
/// are those of Akka's default strategy.
#[derive(Clone, Debug)]
pub struct TinyLfu {
    config: TinyLfuConfig,
    /// The share of the window now.
    share: f64,
    limit: u64,
    window_max: u64,
    rings: Rings,
    main: Levels,
    sketch: Option<Sketch>,
    /// For how many the sketch is made.
    made_for: u64,
    /// By index: the upper half of the hash.
    fingerprints: Vec<u32>,
}

/// How a [`TinyLfu`] is made up.
#[derive(Clone, Debug)]
pub struct TinyLfuConfig {
    /// The window's share of the limit at first; zero for no window.
    pub window: f64,
    /// The least that climbing makes of it.
    pub window_min: f64,
    /// The most.
    pub window_max: f64,
    /// Changes the window's share; `None` leaves it.
    pub climb: Option<HillClimb>,
    /// The shares of the main part's levels, the lowest first.
    pub main: Vec<f64>,
    /// Whether a sketch judges; else everyone is admitted.
    pub filter: bool,
    /// How many entities the sketch is made for; `None` for as many as the limit says, which is right if it counts heads.
    pub entities: Option<u64>,
    /// Whether a change of the limit empties the sketch, as Akka does, rather than keep what it knows.
    pub forgetful: bool,
}

/// Before more are awake than this, the sketch is made for no more: a megabyte.
const SKETCH_FIRST: u64 = 1 << 17;

impl Default for TinyLfuConfig {
    /// A hundredth for the window, which does not climb; main levels of 20 and 80 percent; a sketch that is kept.
    fn default() -> Self {
        Self {
            window: 0.01,
            window_min: 0.01,
            window_max: 1.0,
            climb: None,
            main: [0.2, 0.8].into(),
            filter: true,
            entities: None,
            forgetful: false,
        }
    }
}

impl TinyLfuConfig {
    /// The default with a window that climbs.
    #[must_use]
    pub fn climbing() -> Self {
        Self { climb: Some(HillClimb::default()), ..Self::default() }
    }
}

impl TinyLfu {
    /// Nobody is awake yet; the sketch is allocated.
    #[must_use]
    pub fn new(config: TinyLfuConfig, limit: u64) -> Self {
        let main = Levels::new(MAIN, &config.main);
        let made_for = config.entities.unwrap_or(limit).min(SKETCH_FIRST);
        let sketch = config.filter.then(|| Sketch::new(made_for));
        let mut policy = Self {
            share: config.window,
            limit: 0,
            window_max: 0,
            rings: Rings::new(MAIN + main.count()),
            main,
            sketch,
            made_for,
            fingerprints: Vec::new(),
            config,
        };
        policy.resize(limit);
        policy
    }

    /// The window's limit now.
    #[must_use]
    pub const fn window_limit(&self) -> u64 {
        self.window_max
    }

    fn resize(&mut self, limit: u64) {
        self.limit = limit;
        if let Some(climb) = &mut self.config.climb {
            climb.resize(self.config.entities.unwrap_or(limit));
        }
        self.divide();
    }

    /// For how many the sketch is to be made: as many as fit, but no more than twice as many as are awake, for a generous limit
    /// must not take memory for those who never come.
    fn capacity(&self) -> u64 {
        let census = self.rings.census();
        let awake = u64::from(census.awake.count) + u64::from(census.pinned.count);
        let fit = self.config.entities.unwrap_or(self.limit);
        fit.min((2 * awake).next_power_of_two().max(SKETCH_FIRST))
    }

    fn make_for(&mut self, capacity: u64) {
        self.made_for = capacity;
        match &mut self.sketch {
            Some(sketch) => sketch.resize(capacity),
            None => self.sketch = self.config.filter.then(|| Sketch::new(capacity)),
        }
    }

    /// Shares the limit out between window and main part.
    fn divide(&mut self) {
        let least = u64::from(self.config.window > 0.0);
        self.window_max = ((self.share * self.limit as f64) as u64).max(least).min(self.limit);
        self.main.resize(self.limit - self.window_max);
    }

    /// What the window may hold: its part, or what the pinned leave of the limit.
    fn window_room(&self) -> u64 {
        self.window_max.min(self.limit.saturating_sub(self.rings.census().pinned.weight))
    }

    /// What the main part may hold: what is pinned takes its room first.
    fn main_max(&self) -> u64 {
        (self.limit - self.window_max).saturating_sub(self.rings.census().pinned.weight)
    }

    fn count(&mut self, index: u32, hit: bool) {
        if let Some(sketch) = &mut self.sketch {
            sketch.count(self.fingerprints[index as usize]);
        }
        if let Some(climb) = &mut self.config.climb {
            climb.used(hit);
        }
    }

    /// Those who fall out of the window ask for admission.
    fn close_window(&mut self, pick: &mut dyn FnMut(u32)) {
        while self.rings.tally(WINDOW).weight > self.window_room() {
            let Some(candidate) = self.rings.oldest(WINDOW) else { return };
            if self.is_admitted(candidate) {
                self.main.enter(&mut self.rings, candidate);
                self.close_main(pick);
            } else {
                self.rings.pick(candidate);
                pick(candidate);
            }
        }
    }

    fn is_admitted(&self, candidate: u32) -> bool {
        if self.main.weight(&self.rings) + u64::from(self.rings.weight(candidate)) <= self.main_max() {
            return true;
        }
        let (Some(sketch), Some(victim)) = (&self.sketch, self.main.candidate(&self.rings)) else { return true };
        let frequency = |index: u32| sketch.frequency(self.fingerprints[index as usize]);
        frequency(candidate) > frequency(victim)
    }

    fn close_main(&mut self, pick: &mut dyn FnMut(u32)) {
        while self.main.weight(&self.rings) > self.main_max() {
            let Some(victim) = self.main.victim(&mut self.rings) else { return };
            self.rings.pick(victim);
            pick(victim);
        }
    }

    /// Moves the border between window and main part, if it is time. Nobody is picked: who no longer fits on one side
    /// goes to the other.
    fn adapt(&mut self) {
        let step = self.config.climb.as_mut().map_or(0.0, HillClimb::step);
        if step == 0.0 {
            return;
        }
        self.share = (self.share + step).clamp(self.config.window_min, self.config.window_max);
        self.divide();
        while step > 0.0 && self.main.weight(&self.rings) > self.main_max() {
            let Some(victim) = self.main.victim(&mut self.rings) else { return };
            self.rings.put(victim, WINDOW);
        }
        while step < 0.0 && self.rings.tally(WINDOW).weight > self.window_max {
            let Some(oldest) = self.rings.oldest(WINDOW) else { return };
            self.main.enter(&mut self.rings, oldest);
        }
    }

    fn enter(&mut self, index: u32, hash: u64, pick: &mut dyn FnMut(u32)) {
        let at = index as usize;
        reach(&mut self.fingerprints, at, 0);
        self.fingerprints[at] = (hash >> 32) as u32;
        self.count(index, false);
        self.rings.put(index, WINDOW);
        self.close_window(pick);
        // Whoever was pinned meanwhile has taken room of the main part.
        self.close_main(pick);
        self.adapt();
    }
}

impl PassivationPolicy for TinyLfu {
    fn created(&mut self, index: u32, hash: u64, weight: u32, pick: &mut dyn FnMut(u32)) {
        if !self.rings.is_absent(index) {
            return self.touched(index);
        }
        self.rings.admit(index, weight);
        if !self.rings.fits_alone(index, self.limit) {
            self.rings.pick(index);
            return pick(index);
        }
        if self.made_for >= SKETCH_FIRST && u64::from(self.rings.census().awake.count) > self.made_for {
            let capacity = self.capacity();
            if capacity > self.made_for {
                self.make_for(capacity);
            }
        }
        self.enter(index, hash, pick);
    }

    fn touched(&mut self, index: u32) {
        let Some(ring) = self.rings.ring(index) else { return };
        self.count(index, true);
        if ring == WINDOW {
            self.rings.touch(index);
        } else {
            self.main.touch(&mut self.rings, index);
        }
        self.adapt();
    }

    fn stopping(&mut self, index: u32) {
        if self.rings.ring(index).is_some() || self.rings.is_pinned(index) {
            self.rings.pick(index);
        }
    }

    fn removed(&mut self, index: u32) {
        self.rings.remove(index);
    }

    fn weighed(&mut self, index: u32, weight: u32, pick: &mut dyn FnMut(u32)) {
        self.rings.reweigh(index, weight);
        if self.rings.ring(index).is_some() && !self.rings.fits_alone(index, self.limit) {
            self.rings.pick(index);
            pick(index);
        }
        self.close_window(pick);
        self.close_main(pick);
    }

    fn pinned(&mut self, index: u32) {
        if self.rings.ring(index).is_some() {
            self.rings.pin(index);
        }
    }

    fn unpinned(&mut self, index: u32, hash: u64, pick: &mut dyn FnMut(u32)) {
        if self.rings.is_pinned(index) {
            if !self.rings.fits_alone(index, self.limit) {
                self.rings.pick(index);
                return pick(index);
            }
            self.enter(index, hash, pick);
        }
    }

    fn limit_changed(&mut self, limit: u64, pick: &mut dyn FnMut(u32)) {
        self.resize(limit);
        let capacity = self.capacity();
        if self.config.forgetful {
            self.sketch = None;
        }
        self.make_for(capacity);
        self.close_window(pick);
        self.close_main(pick);
    }

    fn census(&self) -> Census {
        self.rings.census()
    }

    fn bytes(&self) -> usize {
        self.rings.bytes()
            + self.fingerprints.capacity() * size_of::<u32>()
            + self.sketch.as_ref().map_or(0, Sketch::bytes)
    }
}
