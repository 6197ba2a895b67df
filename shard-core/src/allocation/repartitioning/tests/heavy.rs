//! The vectors of the reference, corrected; a heap that holds; and how much of what is heaviest is found.

use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use crate::allocation::{Edge, HeavyKeys, HeavyPairs};
use crate::id::ShardId;
use crate::prng::Prng;

fn counted(capacity: usize, keys: &[u64]) -> HeavyKeys {
    let mut heavy = HeavyKeys::new(capacity);
    keys.iter().for_each(|key| heavy.add(*key, 1));
    heavy
}

fn tracked(heavy: &HeavyKeys) -> Vec<(u64, u32)> {
    let mut tracked: Vec<_> = heavy.iter().collect();
    tracked.sort_unstable();
    tracked
}

#[test]
fn what_is_counted_twice_counts_two() {
    assert_eq!(tracked(&counted(4, &[7, 7])), [(7, 2)]);
}

#[test]
fn the_least_goes_and_what_came_keeps_its_count() {
    assert_eq!(tracked(&counted(2, &[1, 1, 2, 3])), [(1, 2), (3, 1)]);
    // Orleans evicts 1 here, which counts two: its heap is out of order after the third step.
    let heavy = counted(2, &[1, 2, 1, 3, 3]);
    assert_eq!(tracked(&heavy), [(1, 2), (3, 2)]);
    assert_eq!(heavy.error(3), Some(0));
}

#[test]
fn what_is_removed_is_forgotten() {
    let mut heavy = counted(2, &[1, 1]);
    assert!(heavy.remove(1) && !heavy.remove(1));
    assert!(heavy.is_empty() && heavy.get(1).is_none());
}

#[test]
fn what_takes_a_removed_place_may_rise() {
    let mut heavy = HeavyKeys::new(16);
    [1, 10, 2, 3, 4, 11, 12, 13, 14, 5].into_iter().for_each(|count| heavy.add(u64::from(count), count));
    // In the four children of 10 is 11; the last one, a 5, takes its place and is less than 10.
    assert!(heavy.remove(11));
    heavy.check();
    assert_eq!(heavy.len(), 9);
}

#[test]
fn what_was_heavy_long_ago_gives_way() {
    let mut heavy = HeavyKeys::new(2);
    (1..=2).for_each(|key| heavy.add(key, 1_000));
    for _ in 0..10 {
        heavy.halve();
        (3..=4).for_each(|key| heavy.add(key, 20));
    }
    assert_eq!(tracked(&heavy).iter().map(|(key, _)| *key).collect::<Vec<_>>(), [3, 4]);
    (0..12).for_each(|_| heavy.halve());
    assert!(heavy.is_empty());
}

#[test]
fn cells_are_as_many_as_in_the_reference() {
    for (capacity, cells) in [(1, 8), (2, 16), (10, 64), (100, 1_024), (10_000, 65_536)] {
        assert_eq!(HeavyKeys::new(capacity).cells(), cells);
    }
}

#[test]
fn no_memory_is_taken_after_the_first() {
    let mut heavy = HeavyKeys::new(100);
    let before = heavy.bytes();
    let mut prng = Prng::new(1);
    for step in 0..20_000 {
        heavy.add(prng.below(1_000), 1 + prng.below(9) as u32);
        if step % 1_000 == 0 {
            heavy.halve();
        }
    }
    assert_eq!(heavy.bytes(), before);
    assert_eq!(HeavyKeys::new(10_000).bytes(), 673_216);
    for capacity in [64, 100, 10_000, 16_384] {
        let each = HeavyKeys::new(capacity).bytes() / capacity;
        assert!((60..=92).contains(&each), "{each} for each of {capacity}");
    }
}

/// Keys by rank, drawn with the probability of rank^-exponent.
fn zipf(keys: usize, exponent: f64, samples: usize, seed: u64) -> Vec<u64> {
    let mut sums: Vec<f64> = Vec::with_capacity(keys);
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += (rank as f64).powf(-exponent);
        sums.push(sum);
    }
    let mut prng = Prng::new(seed);
    let draw = |_| {
        let at = prng.below(1 << 53) as f64 / (1_u64 << 53) as f64 * sum;
        sums.partition_point(|end| *end <= at) as u64
    };
    (0..samples).map(draw).collect()
}

/// How many per cent of the `of` heaviest keys are tracked.
fn recall(stream: &[u64], capacity: usize, of: usize) -> usize {
    let mut exact: BTreeMap<u64, u32> = BTreeMap::new();
    stream.iter().for_each(|key| *exact.entry(*key).or_default() += 1);
    let mut counts: Vec<u32> = exact.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let heavy = counted(capacity, stream);
    // Of keys that count the same, any will do.
    let found = heavy.iter().filter(|(key, _)| exact[key] >= counts[of - 1]).count();
    found.min(of) * 100 / of
}

#[test]
fn the_heaviest_of_a_skewed_stream_are_found() {
    // A table of a tenth of the keys; less and less is lost as the skew grows.
    let found = [2, 4, 6, 8, 10, 12, 14, 16].map(|tenths| {
        let stream = zipf(1_000, f64::from(tenths) / 10.0, 20_000, 7);
        recall(&stream, 100, 50)
    });
    assert_eq!(found, RECALL);
    assert!(found[1..].iter().all(|found| *found == 100));
}

/// Per cent of the top 50 of 1,000 keys found with a table of 100, by the exponent in steps of 0.2.
const RECALL: [usize; 8] = [78, 100, 100, 100, 100, 100, 100, 100];

#[test]
fn a_removal_amid_a_stream_does_no_harm() {
    let mut heavy = HeavyKeys::new(100);
    for (at, key) in zipf(1_000, 0.5, 10_000, 3).into_iter().enumerate() {
        heavy.add(key, 1);
        if at == 8_000 {
            heavy.remove(key);
        }
    }
    heavy.check();
    assert_eq!(heavy.len(), 100);
}

#[test]
fn pairs_have_no_direction_and_come_in_order() {
    let mut pairs = HeavyPairs::new(8, 10);
    for (from, to, weight) in [(5, 2, 1), (2, 5, 3), (9, 0, 2), (4, 4, 7), (1, 10, 5)] {
        pairs.add(ShardId(from), ShardId(to), weight);
    }
    let edge = |a, b, weight| Edge::new(ShardId(a), ShardId(b), weight);
    assert_eq!(pairs.edges(), [edge(0, 9, 2), edge(2, 5, 4)]);
    let said: Vec<_> = pairs.said().map(|(shard, said)| (shard.0, said)).collect();
    assert_eq!(said, [(0, 2), (2, 4), (5, 4), (9, 2)]);
    pairs.halve();
    assert_eq!(pairs.edges(), [edge(0, 9, 1), edge(2, 5, 2)]);
    pairs.clear();
    assert_eq!(pairs.edges(), []);
}

proptest! {
    #[test]
    fn the_heap_holds_after_every_step(
        capacity in 1..40_usize,
        steps in prop::collection::vec((0..20_u8, 0..60_u64, 0..9_u32), 1..400),
    ) {
        let mut heavy = HeavyKeys::new(capacity);
        for (step, key, weight) in steps {
            let before = heavy.get(key);
            match step {
                0 => heavy.halve(),
                1..4 => { heavy.remove(key); }
                _ => heavy.add(key, weight),
            }
            heavy.check();
            prop_assert!(heavy.len() <= capacity);
            if let (4.., Some(before)) = (step, before) {
                prop_assert_eq!(heavy.get(key), Some(before + weight));
            }
        }
    }

    /// While there is room, it counts as a map does.
    #[test]
    fn with_room_for_all_it_is_exact(stream in prop::collection::vec((0..50_u64, 0..9_u32), 0..300)) {
        let (mut heavy, mut exact) = (HeavyKeys::new(50), BTreeMap::new());
        for (key, weight) in stream {
            heavy.add(key, weight);
            *exact.entry(key).or_default() += weight;
        }
        exact.retain(|_, weight| *weight > 0);
        prop_assert_eq!(tracked(&heavy), exact.into_iter().collect::<Vec<(u64, u32)>>());
    }

    /// Whatever is tracked counts no less than it weighs but for what its cell lost, and its error says by how much more.
    #[test]
    fn counts_less_their_errors_are_never_too_high(stream in prop::collection::vec(0..300_u64, 0..2_000)) {
        let heavy = counted(20, &stream);
        for (key, count) in heavy.iter() {
            let exact = stream.iter().filter(|own| **own == key).count() as u32;
            prop_assert!(count - heavy.error(key).unwrap_or(0) <= exact, "{}: {} of {}", key, count, exact);
        }
    }
}
