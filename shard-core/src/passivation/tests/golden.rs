//! The loop of Akka's simulator: 1,000,000 entities in turn, ten times, over 10 regions of 10 shards that may have 50,000
//! awake each. Its figures are published with exact counts; a policy that differs in any decision misses them.

use std::vec;
use std::vec::Vec;

use super::super::*;

const ENTITIES: u32 = 1_000_000;
const SHARDS: usize = 100;
const REGIONS: usize = 10;
const PER_REGION: u64 = 50_000;

#[test]
fn lru_on_the_loop() {
    assert_eq!(run(10, |limit| Ordered::new(Lru, limit)), (10_000_000, 9_500_000));
}

#[test]
fn mru_on_the_loop() {
    assert_eq!(run(10, |limit| Ordered::new(Mru, limit)), (5_500_000, 5_000_000));
}

#[test]
fn slru_on_the_loop() {
    assert_eq!(run(10, |limit| Ordered::new(Slru::default(), limit)), (10_000_000, 9_500_000));
}

#[test]
fn tiny_lfu_on_the_loop() {
    let config = TinyLfuConfig { forgetful: true, ..TinyLfuConfig::default() };
    assert_eq!(run(10, |limit| TinyLfu::new(config.clone(), limit)), (5_576_284, 5_076_284));
}

#[test]
fn climbing_tiny_lfu_on_the_loop() {
    let config = TinyLfuConfig { forgetful: true, ..TinyLfuConfig::climbing() };
    assert_eq!(run(10, |limit| TinyLfu::new(config.clone(), limit)), (5_576_284, 5_076_284));
}

/// Activations and passivations with one instance per shard.
fn run<P: PassivationPolicy>(turns: u32, new: impl Fn(u64) -> P) -> (u64, u64) {
    let mut shards: Vec<Option<P>> = (0..SHARDS).map(|_| None).collect();
    let mut homes: Vec<Vec<usize>> = vec![Vec::new(); REGIONS];
    let mut awake: Vec<Vec<bool>> = vec![Vec::new(); SHARDS];
    let ids: Vec<Id> = ids(&mut awake);
    let (mut activations, mut passivations) = (0, 0);
    for _ in 0..turns {
        for Id { shard, index, fingerprint } in &ids {
            let shard = usize::from(*shard);
            if shards[shard].is_none() {
                shards[shard] = Some(new(PER_REGION));
                // The least loaded region, the first among equals; all its shards share the limit out anew.
                let region = (0..REGIONS).min_by_key(|region| homes[*region].len()).unwrap();
                homes[region].push(shard);
                let limit = PER_REGION / homes[region].len() as u64;
                for other in &homes[region] {
                    passivations += call(&mut awake[*other], shards[*other].as_mut().unwrap(), |policy, pick| {
                        policy.limit_changed(limit, pick);
                    });
                }
            }
            let policy = shards[shard].as_mut().unwrap();
            let awake = &mut awake[shard];
            if core::mem::replace(&mut awake[*index as usize], true) {
                policy.touched(*index);
            } else {
                activations += 1;
                passivations += call(awake, policy, |policy, pick| {
                    policy.created(*index, u64::from(*fingerprint) << 32, 1, pick);
                });
            }
        }
    }
    (activations, passivations)
}

/// Makes a call, and buries whom it picks; how many.
fn call<P: PassivationPolicy>(
    awake: &mut [bool],
    policy: &mut P,
    call: impl FnOnce(&mut P, &mut dyn FnMut(u32)),
) -> u64 {
    let mut picked = Vec::new();
    call(policy, &mut |index| picked.push(index));
    for index in &picked {
        awake[*index as usize] = false;
        policy.removed(*index);
    }
    picked.len() as u64
}

struct Id {
    shard: u8,
    /// In its shard.
    index: u32,
    fingerprint: u32,
}

fn ids(awake: &mut [Vec<bool>]) -> Vec<Id> {
    let id = |number: u32| {
        // Java's hash of a string, and the mixing of Akka's sketch.
        let hash =
            std::format!("{number}").bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let shard = (hash.cast_signed() % SHARDS as i32).unsigned_abs() as u8;
        let mixed = (hash >> 15 ^ hash).wrapping_mul(0xd168_aaad);
        let mixed = (mixed >> 15 ^ mixed).wrapping_mul(0xaf72_3597);
        let places = &mut awake[usize::from(shard)];
        places.push(false);
        Id { shard, index: places.len() as u32 - 1, fingerprint: mixed >> 15 ^ mixed }
    };
    (1..=ENTITIES).map(id).collect()
}
