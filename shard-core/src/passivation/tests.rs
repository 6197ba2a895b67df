//! Every policy against its twin, scripts that can be read, and the published figures.

mod golden;
mod scripts;

use std::vec::Vec;

use super::twins::Twin;
use super::*;
use crate::prng::{Prng, mix};

const INDICES: u64 = 24;

/// The hash of an index: all fingerprints differ and no ghost loses its slot.
fn hash(index: u32) -> u64 {
    u64::from(index) << 32
}

#[test]
fn every_policy_picks_whom_its_twin_picks() {
    for choice in PolicyChoice::ALL {
        for seed in 0..60 {
            let mut prng = Prng::new(mix(seed, choice as u64));
            let by_weight = seed % 3 == 2;
            let limit = prng.below(30);
            let mut policy = choice.build(limit, seed);
            let mut twin = Twin::new(choice, limit, seed);
            for step in 0..1_500 {
                let (index, act) = (prng.below(INDICES).min(prng.below(INDICES)) as u32, prng.below(64));
                let weight = if by_weight { prng.below(6) as u32 } else { 1 };
                let (mut picked, place) = (Vec::new(), (choice.name(), seed, step));
                let mut pick = |index| picked.push(index);
                let expected = match act {
                    0..40 => {
                        policy.created(index, hash(index), weight, &mut pick);
                        twin.created(index, hash(index), weight)
                    }
                    40..50 => {
                        policy.touched(index);
                        twin.touched(index);
                        Vec::new()
                    }
                    50 | 51 => {
                        policy.stopping(index);
                        twin.stopping(index);
                        Vec::new()
                    }
                    52..58 => {
                        policy.removed(index);
                        twin.removed(index);
                        Vec::new()
                    }
                    58 => {
                        policy.pinned(index);
                        twin.pinned(index);
                        Vec::new()
                    }
                    59..62 => {
                        policy.unpinned(index, hash(index), &mut pick);
                        twin.unpinned(index)
                    }
                    62 => {
                        policy.weighed(index, weight, &mut pick);
                        twin.weighed(index, weight)
                    }
                    _ => {
                        let limit = prng.below(30);
                        policy.limit_changed(limit, &mut pick);
                        twin.limit_changed(limit)
                    }
                };
                assert_eq!(picked, expected, "{place:?}");
                let census = policy.census();
                let weights = [census.awake, census.pinned, census.stopping].map(|tally| tally.weight);
                assert_eq!(weights, twin.weights(), "{place:?}");
                // Those who stop are gone soon; for some calls they linger and count apart.
                if prng.chance(1, 4) {
                    picked.iter().for_each(|index| {
                        policy.removed(*index);
                        twin.removed(*index);
                    });
                }
            }
        }
    }
}

#[test]
fn what_is_held_never_exceeds_the_limit_by_more_than_the_pinned_and_the_newest() {
    for choice in PolicyChoice::ALL {
        let (mut policy, mut prng) = (choice.build(20, 1), Prng::new(5));
        for _ in 0..20_000 {
            let index = prng.below(100) as u32;
            let mut gone = Vec::new();
            policy.created(index, hash(index), 1, &mut |index| gone.push(index));
            gone.iter().for_each(|index| policy.removed(*index));
            assert!(policy.census().held() <= 20, "{}", choice.name());
            assert_eq!(policy.census().stopping, Tally::default());
        }
        assert_eq!(policy.census().held(), 20, "{}", choice.name());
    }
}

#[test]
fn bytes_for_each_entity_tracked_are_as_stated() {
    let stated = |choice| match choice {
        PolicyChoice::Random => 25.0,
        PolicyChoice::S3Fifo => 36.0,
        PolicyChoice::TinyLfu | PolicyChoice::ClimbingTinyLfu => 36.0,
        _ => 16.0,
    };
    let entities = 1 << 16;
    for choice in PolicyChoice::ALL {
        let mut policy = choice.build(entities, 1);
        // From the greatest index down, so that no vector has grown beyond its need.
        (0..entities as u32).rev().for_each(|index| policy.created(index, hash(index), 1, &mut |_| ()));
        // What an instance takes whoever is in it is no entity's.
        let each = (policy.bytes() as f64 - choice.build(1, 1).bytes() as f64) / entities as f64;
        assert!(each <= stated(choice) + 0.2, "{}: {each}", choice.name());
    }
}

#[test]
fn lru_and_sieve_never_take_more_than_twenty_bytes_each() {
    for choice in [PolicyChoice::Lru, PolicyChoice::Sieve] {
        let mut policy = choice.build(u64::MAX, 1);
        for index in 0..100_000 {
            policy.created(index, hash(index), 1, &mut |_| ());
            let most = 20 * (index as usize + 1) + 64;
            assert!(policy.bytes() <= most, "{}: {} bytes for {}", choice.name(), policy.bytes(), index + 1);
        }
    }
}

#[test]
fn a_generous_limit_takes_no_memory_for_those_who_never_come() {
    for choice in PolicyChoice::ALL {
        let mut policy = choice.build(u64::MAX, 1);
        (0..1_000).for_each(|index| policy.created(index, hash(index), 1, &mut |_| ()));
        policy.limit_changed(100_000_000, &mut |_| ());
        assert!(policy.bytes() < 1_500_000, "{}: {}", choice.name(), policy.bytes());
        // And where they do come, the sketch is made for them.
        (1_000..400_000).for_each(|index| policy.created(index, hash(index), 1, &mut |_| ()));
        let sketched = matches!(choice, PolicyChoice::TinyLfu | PolicyChoice::ClimbingTinyLfu);
        assert!(!sketched || policy.bytes() > 400_000 * 28, "{}: {}", choice.name(), policy.bytes());
    }
}

#[test]
fn ghosts_outlive_the_shards_of_those_who_were_awake() {
    let mut policy = PolicyChoice::S3Fifo.build(1_000, 1);
    let mut awake = Vec::new();
    for index in 0..2_000 {
        awake.push(index);
        policy.created(index, hash(index), 1, &mut |gone| awake.retain(|it| *it != gone));
    }
    let gone: Vec<u32> = (0..2_000).filter(|index| !awake.contains(index)).collect();
    gone.iter().for_each(|index| policy.removed(*index));
    // All shards leave, and those who were awake come back with them.
    awake.iter().for_each(|index| policy.removed(*index));
    awake.iter().take(10).for_each(|index| policy.created(*index, hash(*index), 1, &mut |_| ()));
    // Those who went last before that are known still: more newcomers do not drive them out.
    let known: Vec<u32> = gone[gone.len() - 300..].to_vec();
    known.iter().for_each(|index| policy.created(*index, hash(*index), 1, &mut |_| ()));
    let mut driven = Vec::new();
    (3_000..5_000).for_each(|index| policy.created(index, hash(index), 1, &mut |index| driven.push(index)));
    let stay = known.iter().filter(|index| !driven.contains(index)).count();
    assert!(stay > 200, "{stay} of 300 were remembered");
}

/// Names one that is in no ring.
#[derive(Debug)]
struct Astray;

impl Order for Astray {
    fn rings(&self) -> u16 {
        1
    }
    fn enter(&mut self, rings: &mut Rings, index: u32, _: u64) {
        rings.put(index, 0);
    }
    fn touch(&mut self, _: &mut Rings, _: u32) {}
    fn victim(&mut self, _: &mut Rings) -> Option<u32> {
        Some(77)
    }
}

#[test]
fn an_order_that_goes_astray_holds_nobody_up() {
    let mut policy = Ordered::new(Astray, 2);
    (0..5).for_each(|index| policy.created(index, hash(index), 1, &mut |index| panic!("picked {index}")));
    assert_eq!(policy.census().awake.count, 5);
}

#[test]
fn a_pinned_entity_counts_and_stays() {
    for choice in PolicyChoice::ALL {
        let (mut policy, mut gone) = (choice.build(4, 1), Vec::new());
        (0..3).for_each(|index| policy.created(index, hash(index), 1, &mut |index| gone.push(index)));
        policy.pinned(1);
        (3..50).for_each(|index| policy.created(index, hash(index), 1, &mut |index| gone.push(index)));
        assert!(!gone.contains(&1), "{}", choice.name());
        assert_eq!(policy.census().pinned, Tally { count: 1, weight: 1 });
        policy.limit_changed(0, &mut |index| gone.push(index));
        assert_eq!((policy.census().held(), policy.census().stopping.count), (1, 49), "{}", choice.name());
        policy.unpinned(1, hash(1), &mut |index| gone.push(index));
        assert_eq!((policy.census().held(), gone.last()), (0, Some(&1)), "{}", choice.name());
    }
}
