//! Names and shards of the seed system, reproduced bit for bit.

use std::{collections::BTreeMap, num::NonZeroU32};

use shard_core::{
    hash::{self, ShardHash},
    id::ShardId,
    name::Name,
};

#[derive(serde::Deserialize)]
struct Vectors {
    shard_counts: Vec<u32>,
    vectors: Vec<Row>,
}

#[derive(serde::Deserialize)]
struct Row {
    id: String,
    name: String,
    shard: BTreeMap<String, u32>,
}

fn vectors() -> Vectors {
    let vectors: Vectors = serde_json::from_str(include_str!("data/entity-ids.json")).expect("the vectors parse");
    assert_eq!(vectors.vectors.len(), 200);
    vectors
}

#[test]
fn every_id_has_the_seed_systems_name() {
    for Row { id, name, .. } in vectors().vectors {
        let units: Vec<u16> = id.encode_utf16().collect();
        assert_eq!(Name::of(&id).to_string(), name, "{id:?}");
        assert_eq!(Name::of_utf16(&units).to_string(), name, "{id:?}");
        assert_eq!(Name::of(&id).len(), name.len(), "{id:?}");
        assert_eq!(Name::of_utf16(&units).len(), name.len(), "{id:?}");
    }
}

#[test]
fn every_id_has_the_seed_systems_shard() {
    let Vectors { shard_counts, vectors } = vectors();
    for Row { id, shard, .. } in vectors {
        assert_eq!(shard.len(), shard_counts.len());
        let units: Vec<u16> = id.encode_utf16().collect();
        for (count, expected) in shard {
            let count: NonZeroU32 = count.parse().expect("a shard count");
            assert_eq!(ShardHash::Fnv1aUtf16.shard(&id, count), ShardId(expected), "{id:?} of {count}");
            assert_eq!(hash::fnv1a_utf16_units(&units) % count, expected, "{id:?} of {count}");
        }
    }
}

#[test]
fn the_seed_systems_shards_of_long_and_odd_ids() {
    let shards = NonZeroU32::new(65_536).expect("not zero");
    let cases = [("x".repeat(10_000), 18_437), ("18446744073709551615".into(), 19_468), ("e\0f".into(), 18_866)];
    for (id, expected) in cases {
        assert_eq!(ShardHash::Fnv1aUtf16.shard(&id, shards), ShardId(expected), "{id:?}");
    }
}
