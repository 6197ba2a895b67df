//! Small traces with the answers that Akka's own tests expect, and some of our own.

use std::vec::Vec;

use super::super::*;
use super::hash;
use crate::prng::Prng;

/// A policy and who is awake in it; who was picked is gone at once.
struct Stage {
    policy: std::boxed::Box<dyn PassivationPolicy>,
    awake: Vec<u32>,
}

impl Stage {
    fn new(policy: impl PassivationPolicy + 'static) -> Self {
        Self { policy: std::boxed::Box::new(policy), awake: Vec::new() }
    }

    /// Uses each; whom that picked.
    fn touch(&mut self, indices: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut picked = Vec::new();
        for index in indices {
            let before = picked.len();
            // Fingerprints that are well mixed, as hashes are.
            let hash = hash(index.wrapping_mul(0x9e37_79b9));
            if self.awake.contains(&index) {
                self.policy.touched(index);
            } else {
                self.awake.push(index);
                self.policy.created(index, hash, 1, &mut |index| picked.push(index));
            }
            self.bury(&picked[before..]);
        }
        picked
    }

    fn limit(&mut self, limit: u64) -> Vec<u32> {
        let mut picked = Vec::new();
        self.policy.limit_changed(limit, &mut |index| picked.push(index));
        self.bury(&picked);
        picked
    }

    fn bury(&mut self, gone: &[u32]) {
        gone.iter().for_each(|index| self.policy.removed(*index));
        self.awake.retain(|index| !gone.contains(index));
    }
}

fn range(from: u32, to: u32) -> Vec<u32> {
    (from..=to).collect()
}

#[test]
fn the_least_recently_used_go_first() {
    let mut stage = Stage::new(Ordered::new(Lru, 10));
    assert_eq!(stage.touch(1..=20), range(1, 10));
    assert_eq!(stage.limit(5), range(11, 15));
    assert_eq!(stage.limit(3), [16, 17]);
}

#[test]
fn the_most_recently_used_go_first() {
    let mut stage = Stage::new(Ordered::new(Mru, 10));
    assert_eq!(stage.touch(1..=20), range(10, 19));
    assert_eq!(stage.limit(5), [20, 9, 8, 7, 6]);
}

#[test]
fn segments_let_down_their_oldest() {
    // Limits 2 and 3.
    let mut stage = Stage::new(Ordered::new(Slru::new(&[0.4, 0.6]), 5));
    assert_eq!(stage.touch(1..=6), [1]);
    // 2, 3, 4 rise; 1 is new, and 5 is the oldest below.
    assert_eq!(stage.touch([2, 3, 4, 1]), [5]);
    assert_eq!(stage.touch([1]), []);
    // Level 0 holds 6 and 2; 5 and 7 are new.
    assert_eq!(stage.touch([5, 7]), [6, 2]);
}

#[test]
fn the_least_often_used_go_first() {
    let mut stage = Stage::new(Ordered::new(Lfu::new(), 10));
    let picked: Vec<u32> =
        (1..=20).flat_map(|id| stage.touch(core::iter::repeat_n(id, (id as usize - 1) % 4 + 1))).collect();
    assert_eq!(picked, [1, 5, 9, 13, 2, 6, 10, 17, 14, 18]);
    assert_eq!(stage.limit(5), [3, 7, 11, 15, 19]);
}

#[test]
fn ageing_overtakes_old_fame() {
    let old = |lfu| {
        let mut stage = Stage::new(Ordered::new(lfu, 3));
        stage.touch(core::iter::repeat_n(1, 6));
        stage.touch((2..40).flat_map(|id| [id, id]));
        stage.awake.contains(&1)
    };
    assert_eq!((old(Lfu::new()), old(Lfu::ageing())), (true, false));
}

#[test]
fn the_hand_of_sieve_passes_those_who_were_used() {
    // The example of the paper: seven places, A B C D E F G from new to old, where A, B and G were used.
    let mut stage = Stage::new(Ordered::new(Sieve::default(), 7));
    stage.touch([7, 6, 5, 4, 3, 2, 1]);
    stage.touch([1, 2, 7]);
    // H takes the place of F, for G was used; then A is used, and D is next when I comes.
    assert_eq!(stage.touch([8, 1, 9]), [6, 5]);
    assert_eq!(stage.touch([2, 10, 11, 12]), [4, 3, 8]);
}

#[test]
fn a_ghost_comes_back_into_the_main_queue_and_a_scan_passes() {
    let mut stage = Stage::new(Ordered::new(S3Fifo::new(), 10));
    stage.touch([1, 2, 1, 2, 1, 2]);
    // Nobody of a scan is used twice; the two are.
    stage.touch(100..200);
    assert!(stage.awake.contains(&1) && stage.awake.contains(&2));
    // 195 has gone lately if it is not awake: as a ghost it outlives those who come after it.
    let ghost = (100..200).rev().find(|id| !stage.awake.contains(id)).unwrap();
    stage.touch([ghost]);
    stage.touch(200..205);
    assert!(stage.awake.contains(&ghost), "{ghost} {:?}", stage.awake);
}

fn composed(window: f64, climb: Option<HillClimb>, main: &[f64], limit: u64) -> TinyLfu {
    let config = TinyLfuConfig {
        window,
        window_min: if window > 0.0 { 0.01 } else { 0.0 },
        climb,
        main: main.into(),
        forgetful: true,
        ..TinyLfuConfig::default()
    };
    TinyLfu::new(config, limit)
}

#[test]
fn a_window_and_a_sketch_decide_as_akka_has_it() {
    let mut stage = Stage::new(composed(0.2, None, &[0.25, 0.75], 20));
    assert_eq!(stage.touch(1..=40), range(17, 36));
    assert_eq!(stage.awake, [range(1, 16), range(37, 40)].concat());
    assert_eq!(stage.touch(1..=20), range(37, 40));
    (0..5).for_each(|_| assert_eq!(stage.touch(17..=20), []));
    assert_eq!(stage.touch(21..=24), range(1, 4));
    assert_eq!(stage.touch(25..=28), range(21, 24));
    assert_eq!(stage.limit(10), [25, 26, 17, 18, 19, 20, 5, 6, 7, 8]);
}

#[test]
fn without_a_window_newcomers_are_refused_until_they_are_known() {
    let mut stage = Stage::new(composed(0.0, None, &[1.0], 10));
    assert_eq!(stage.touch(1..=20), range(11, 20));
    assert_eq!(
        stage.touch((11..=20).flat_map(|id| [id; 5])),
        [11, 12, 13, 14, 15, 16, 17, 18, 19, 20].map(|id| id - 10)
    );
    assert_eq!(stage.touch([range(1, 10), range(1, 10)].concat()), [range(1, 10), range(1, 10)].concat());
}

/// A storm of pins found W-TinyLFU over its limit: whoever was pinned out of the window took no room of the main part.
#[test]
fn no_policy_holds_more_than_its_limit_while_it_may_pick_others() {
    for choice in PolicyChoice::ALL {
        for seed in 0..40 {
            let mut dice = Prng::new(seed);
            let mut limit = dice.between(1, 12);
            let mut policy = choice.build(limit, seed);
            let mut gone = Vec::new();
            for step in 0..600 {
                let (index, weight) = (dice.below(24) as u32, 1 + dice.below(3) as u32);
                let pick = &mut |index| gone.push(index);
                match dice.below(12) {
                    0 => policy.pinned(index),
                    1 => policy.unpinned(index, u64::from(index) << 32, pick),
                    2 => policy.weighed(index, weight, pick),
                    3 => {
                        limit = dice.between(1, 12);
                        policy.limit_changed(limit, pick);
                    }
                    4 | 5 => policy.touched(index),
                    _ => policy.created(index, u64::from(index) << 32, weight, pick),
                }
                for index in gone.drain(..) {
                    policy.removed(index);
                }
                let census = policy.census();
                let over = census.held() > limit && census.awake.count > 1;
                assert!(!over, "{}, seed {seed}, step {step}: {census:?} of {limit}", choice.name());
            }
        }
    }
}
