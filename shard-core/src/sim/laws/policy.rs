//! The contract of passivation policies, tried on one.

use alloc::{boxed::Box, collections::BTreeMap, format, string::String, vec::Vec};

use crate::passivation::{Census, PassivationPolicy, Setting, Tally};
use crate::prng::{Prng, mix};

/// Places that acts are about: few, so that every state of one is reached.
const PLACES: u64 = 24;
const ACTS: usize = 1_500;

/// Tries a passivation policy with so many random lives of a lane, each from its own seed: it picks only who is in the order,
/// each once, and nobody on a touch; what it holds fits the limit as far as it may pick; whoever is too heavy goes itself, and
/// nobody for its sake; its census is exact; and the same
/// calls pick the same entities.
///
/// ```
/// use shard_core::passivation::{Lru, Ordered};
///
/// shard_core::sim::laws::check_policy(|setting| Box::new(Ordered::new(Lru, setting.limit)), 20);
/// ```
///
/// # Panics
/// If the policy breaks its contract: with the seed, the act and what was found.
pub fn check_policy(make: impl Fn(&Setting) -> Box<dyn PassivationPolicy>, seeds: u64) {
    for seed in 0..seeds {
        let one = try_policy(&make, seed).unwrap_or_else(|breach| panic!("seed {seed}: {breach}"));
        let other = try_policy(&make, seed).unwrap_or_else(|breach| panic!("seed {seed}, once more: {breach}"));
        assert_eq!(one, other, "seed {seed}: the same calls picked others the second time");
    }
}

/// Whom it picked, in order.
fn try_policy(make: &impl Fn(&Setting) -> Box<dyn PassivationPolicy>, seed: u64) -> Result<Vec<u32>, String> {
    let mut prng = Prng::new(mix(seed, 0x9a55));
    let by_weight = seed % 3 == 2;
    let limit = prng.below(30);
    let mut policy = make(&Setting { limit, entities: by_weight.then_some(limit / 3), seed });
    let mut lane = Lane { limit, places: BTreeMap::new() };
    let mut all = Vec::new();
    for act in 0..ACTS {
        let (index, kind) = (prng.below(PLACES).min(prng.below(PLACES)) as u32, prng.below(64));
        let (hash, weight) = (mix(seed, index.into()), if by_weight { 1 + prng.below(6) as u32 } else { 1 });
        let mut picked = Vec::new();
        let mut pick = |index| picked.push(index);
        let name = match kind {
            0..40 => {
                policy.created(index, hash, weight, &mut pick);
                lane.places.entry(index).or_insert((State::Awake, weight));
                "created"
            }
            40..50 => {
                policy.touched(index);
                "touched"
            }
            50 | 51 => {
                policy.stopping(index);
                lane.turn(index, State::Awake, State::Stopping);
                lane.turn(index, State::Pinned, State::Stopping);
                "stopping"
            }
            52..57 => {
                policy.removed(index);
                lane.places.remove(&index);
                "removed"
            }
            57..59 => {
                policy.pinned(index);
                lane.turn(index, State::Awake, State::Pinned);
                "pinned"
            }
            59..62 => {
                policy.unpinned(index, hash, &mut pick);
                lane.turn(index, State::Pinned, State::Awake);
                "unpinned"
            }
            62 => {
                // Now and then one says that it is a giant.
                let weight = if by_weight && prng.chance(1, 4) { 40 } else { weight };
                policy.weighed(index, weight, &mut pick);
                lane.places.entry(index).and_modify(|place| place.1 = weight);
                "weighed"
            }
            _ => {
                lane.limit = prng.below(30);
                policy.limit_changed(lane.limit, &mut pick);
                "limit_changed"
            }
        };
        let said = |breach: String| format!("act {act}, {name}({index}): {breach}");
        if matches!(name, "touched" | "stopping" | "removed" | "pinned") && !picked.is_empty() {
            return Err(said(format!("{picked:?} picked by a call that picks nobody")));
        }
        let breach = lane.spared(index, &picked).filter(|_| matches!(name, "created" | "weighed" | "unpinned"));
        breach.map_or(Ok(()), Err).map_err(said)?;
        picked.iter().try_for_each(|index| lane.pick(*index)).map_err(said)?;
        lane.judge(&*policy).map_err(said)?;
        all.extend_from_slice(&picked);
        // Some linger while they stop, and mail comes for them meanwhile.
        if prng.chance(1, 4) {
            lane.places.retain(|index, place| {
                if place.0 == State::Stopping {
                    policy.removed(*index);
                }
                place.0 != State::Stopping
            });
        }
    }
    Ok(all)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Awake,
    Pinned,
    Stopping,
}

/// What a lane knows.
struct Lane {
    limit: u64,
    places: BTreeMap<u32, (State, u32)>,
}

impl Lane {
    fn turn(&mut self, index: u32, from: State, to: State) {
        self.places.entry(index).and_modify(|place| {
            if place.0 == from {
                place.0 = to;
            }
        });
    }

    fn pick(&mut self, index: u32) -> Result<(), String> {
        match self.places.get_mut(&index) {
            Some(place @ (State::Awake, _)) => place.0 = State::Stopping,
            Some((state, _)) => return Err(format!("{index} picked, which is {state:?}")),
            None => return Err(format!("{index} picked, where nobody lives")),
        }
        Ok(())
    }

    /// Whoever would not fit alone with the pinned is picked itself, and nobody for its sake.
    fn spared(&self, index: u32, picked: &[u32]) -> Option<String> {
        let (State::Awake, weight) = *self.places.get(&index)? else { return None };
        if self.tally(State::Pinned).weight + u64::from(weight) <= self.limit || picked == [index] {
            return None;
        }
        let others = picked.iter().any(|other| *other != index);
        let what = if others { "others were picked for its sake" } else { "it was not picked" };
        Some(format!("it weighs {weight} and fits no limit of {}, but {what}: {picked:?}", self.limit))
    }

    fn tally(&self, state: State) -> Tally {
        let of = self.places.values().filter(|place| place.0 == state);
        of.fold(Tally::default(), |sum, place| Tally { count: sum.count + 1, weight: sum.weight + u64::from(place.1) })
    }

    fn judge(&self, policy: &dyn PassivationPolicy) -> Result<(), String> {
        let [awake, pinned, stopping] = [State::Awake, State::Pinned, State::Stopping].map(|state| self.tally(state));
        let (truth, census) = (Census { awake, pinned, stopping }, policy.census());
        if truth != census {
            return Err(format!("its census is {census:?}, but there are {truth:?}"));
        }
        if awake.count > 0 && truth.held() > self.limit {
            return Err(format!(
                "{} held under a limit of {}, and {} of them may be picked",
                truth.held(),
                self.limit,
                awake.count
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::string::ToString;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::passivation::{Lru, Order, Ordered, PolicyChoice, Rings};

    #[test]
    fn ours_keep_the_contract() {
        for choice in PolicyChoice::ALL {
            check_policy(|setting| choice.build_for(setting.limit, setting.entities, setting.seed), 30);
        }
    }

    /// What is wrong with a policy.
    #[derive(Clone, Copy, Debug)]
    enum Fault {
        PicksPinned,
        PicksTwice,
        KeepsAll,
        ForgetsWeights,
        SparesGiants,
        Wavers,
    }

    /// [`Lru`], but for its fault.
    #[derive(Debug)]
    struct Bad {
        fault: Fault,
        inner: Ordered<Lru>,
        pinned: Option<u32>,
    }

    impl PassivationPolicy for Bad {
        fn created(&mut self, index: u32, hash: u64, weight: u32, pick: &mut dyn FnMut(u32)) {
            if let (Fault::PicksPinned, Some(pinned)) = (self.fault, self.pinned.take()) {
                pick(pinned);
            }
            if matches!(self.fault, Fault::PicksTwice) {
                return self.inner.created(index, hash, weight, &mut |index| {
                    pick(index);
                    pick(index);
                });
            }
            self.inner.created(index, hash, weight, pick);
        }

        fn touched(&mut self, index: u32) {
            self.inner.touched(index);
        }

        fn stopping(&mut self, index: u32) {
            self.inner.stopping(index);
        }

        fn removed(&mut self, index: u32) {
            self.inner.removed(index);
        }

        fn weighed(&mut self, index: u32, weight: u32, pick: &mut dyn FnMut(u32)) {
            match self.fault {
                Fault::ForgetsWeights => {}
                Fault::SparesGiants if self.inner.rings().ring(index).is_some() => {
                    self.inner.pinned(index);
                    self.inner.weighed(index, weight, pick);
                    self.inner.unpinned(index, 0, pick);
                }
                _ => self.inner.weighed(index, weight, pick),
            }
        }

        fn pinned(&mut self, index: u32) {
            if self.inner.rings().ring(index).is_some() {
                self.pinned = Some(index);
            }
            self.inner.pinned(index);
        }

        fn unpinned(&mut self, index: u32, hash: u64, pick: &mut dyn FnMut(u32)) {
            self.pinned = None;
            self.inner.unpinned(index, hash, pick);
        }

        fn limit_changed(&mut self, limit: u64, pick: &mut dyn FnMut(u32)) {
            if !matches!(self.fault, Fault::KeepsAll) {
                self.inner.limit_changed(limit, pick);
            }
        }

        fn census(&self) -> Census {
            self.inner.census()
        }

        fn bytes(&self) -> usize {
            self.inner.bytes()
        }
    }

    /// Takes the newest or the oldest, by how many there have been in this process.
    #[derive(Debug)]
    struct Wavering;

    impl Order for Wavering {
        fn rings(&self) -> u16 {
            1
        }
        fn enter(&mut self, rings: &mut Rings, index: u32, _: u64) {
            rings.put(index, 0);
        }
        fn touch(&mut self, _: &mut Rings, _: u32) {}
        fn victim(&mut self, rings: &mut Rings) -> Option<u32> {
            static CALLS: AtomicU64 = AtomicU64::new(0);
            let call = CALLS.fetch_add(1, Ordering::Relaxed);
            if mix(call, 1).is_multiple_of(2) { rings.oldest(0) } else { rings.newest(0) }
        }
    }

    #[test]
    fn each_fault_is_found() {
        let faults = [
            (Fault::PicksPinned, "which is Pinned"),
            (Fault::PicksTwice, "which is Stopping"),
            (Fault::KeepsAll, "under a limit of"),
            (Fault::ForgetsWeights, "its census is"),
            (Fault::SparesGiants, "others were picked for its sake"),
            (Fault::Wavers, "picked others the second time"),
        ];
        for (fault, words) in faults {
            let make = |setting: &Setting| -> Box<dyn PassivationPolicy> {
                match fault {
                    Fault::Wavers => Box::new(Ordered::new(Wavering, setting.limit)),
                    _ => Box::new(Bad { fault, inner: Ordered::new(Lru, setting.limit), pinned: None }),
                }
            };
            let found = catch_unwind(AssertUnwindSafe(|| check_policy(make, 30))).expect_err("a fault");
            let text = found.downcast_ref::<String>().cloned().unwrap_or_else(|| "no text".to_string());
            assert!(text.contains(words), "{fault:?}: {text}");
        }
    }
}
