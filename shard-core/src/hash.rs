//! Hashes that mean the same on every node and in every release.
//!
//! A shard comes from one hash of the entity's id; tables on one node use other bits of it ([`spread`]), or all ids of a
//! shard would fall on the same buckets. Nothing here allocates. May import the ground floor only.

use core::num::NonZeroU32;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::id::{Kind, ShardId};

/// The hash of an entity id: XXH3 with 64 bits and seed 0 over its UTF-8, in O(length).
#[inline]
#[must_use]
pub fn entity(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

/// The same for an id as UTF-16. Well-formed text hashes as its `str` does; a lone surrogate, which no `str` can hold,
/// counts with its three bytes of WTF-8. Slower than [`entity`] for short ids.
#[must_use]
pub fn entity_utf16(units: &[u16]) -> u64 {
    let mut hasher = Xxh3::new();
    for item in char::decode_utf16(units.iter().copied()) {
        match item {
            Ok(char) => hasher.update(char.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => {
                let unit = lone.unpaired_surrogate();
                hasher.update(&[
                    0xe0 | (unit >> 12) as u8,
                    0x80 | (unit >> 6 & 0x3f) as u8,
                    0x80 | (unit & 0x3f) as u8,
                ]);
            }
        }
    }
    hasher.digest()
}

/// The seed system's hash, bit for bit, before its modulo: 32-bit FNV-1a over UTF-16 code units, read as a signed number
/// and made positive. The empty id keeps the unsigned basis, as the seed does.
#[inline]
#[must_use]
pub fn fnv1a_utf16(id: &str) -> u32 {
    // Code units of ASCII are its bytes; that spares nearly every real id the decoding.
    if id.is_ascii() { fnv1a(id.bytes().map(u16::from)) } else { fnv1a(id.encode_utf16()) }
}

/// [`fnv1a_utf16`] of code units, for ids with lone surrogates.
#[must_use]
pub fn fnv1a_utf16_units(units: &[u16]) -> u32 {
    fnv1a(units.iter().copied())
}

fn fnv1a(units: impl Iterator<Item = u16>) -> u32 {
    const BASIS: u32 = 2_166_136_261;
    let mut units = units.peekable();
    if units.peek().is_none() {
        return BASIS;
    }
    let hash = units.fold(BASIS, |hash, unit| (hash ^ u32::from(unit)).wrapping_mul(16_777_619));
    hash.cast_signed().unsigned_abs()
}

/// How nodes name an entity type to each other: the low 32 bits of [`entity`] of its name.
#[must_use]
pub fn kind(name: &str) -> Kind {
    Kind(entity(name) as u32)
}

/// Other bits of the same hash, for tables: one multiplication by an odd number and half a turn, so it loses nothing.
///
/// A shard is `hash % shards`, which for 64 shards fixes the six lowest bits of all its ids. A table that takes its
/// bucket from those bits puts a whole lane on a few chains (measured: four times slower at a million ids). Here the low
/// half depends on every bit of the input, and a 32-bit hash still fills both halves.
#[inline]
#[must_use]
pub const fn spread(hash: u64) -> u64 {
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// How ids become shards. Every node of a cluster must use the same one for a type.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum ShardHash {
    /// [`entity`] modulo the number of shards.
    #[default]
    Xxh3,
    /// The seed system's shards, bit for bit: [`fnv1a_utf16`] modulo the number of shards.
    Fnv1aUtf16,
    /// The user's function modulo the number of shards: co-location, or a number that is its own shard. It must depend
    /// on nothing but the id.
    Custom(fn(&str) -> u64),
}

impl ShardHash {
    /// The shard of `id`.
    #[inline]
    #[must_use]
    pub fn shard(&self, id: &str, shards: NonZeroU32) -> ShardId {
        match self {
            Self::Xxh3 => reduce(entity(id), shards),
            Self::Fnv1aUtf16 => ShardId(fnv1a_utf16(id) % shards),
            Self::Custom(hash) => reduce(hash(id), shards),
        }
    }

    /// The same for a caller who has already computed `entity_hash`, which must be [`entity`] of `id`; the default then
    /// costs one division.
    #[inline]
    #[must_use]
    pub fn shard_hashed(&self, id: &str, entity_hash: u64, shards: NonZeroU32) -> ShardId {
        match self {
            Self::Xxh3 => reduce(entity_hash, shards),
            Self::Fnv1aUtf16 | Self::Custom(_) => self.shard(id, shards),
        }
    }
}

#[inline]
fn reduce(hash: u64, shards: NonZeroU32) -> ShardId {
    ShardId((hash % u64::from(shards.get())) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, format, vec::Vec};

    const SIXTY_FOUR: NonZeroU32 = NonZeroU32::new(64).unwrap();

    #[test]
    fn the_default_is_xxh3_with_seed_zero() {
        // From the test vectors of the xxHash specification: the empty input.
        assert_eq!(entity(""), 0x2d06_8005_38d3_94c2);
        assert_eq!(ShardHash::default().shard("", SIXTY_FOUR), ShardId(0x02));
    }

    #[test]
    fn utf16_hashes_as_the_string_does() {
        for id in ["", "user-42", "cafe\u{301}", "日本語", "a👍b", &"x".repeat(1_000)] {
            assert_eq!(entity_utf16(&id.encode_utf16().collect::<Vec<_>>()), entity(id), "{id}");
        }
        assert_eq!(entity_utf16(&[0xd800]), xxh3_64(&[0xed, 0xa0, 0x80]));
        assert_ne!(entity_utf16(&[0xd800]), entity_utf16(&[0xdc00]));
    }

    #[test]
    fn seed_hash_of_lone_surrogates_and_of_nothing() {
        assert_eq!(fnv1a_utf16(""), 2_166_136_261);
        assert_eq!(fnv1a_utf16_units(&[]), 2_166_136_261);
        assert_eq!(fnv1a_utf16_units(&[0xd800]), 75_617_567);
        assert_eq!(fnv1a_utf16_units(&[0xdc00]), 75_204_895);
        assert_eq!(fnv1a_utf16_units(&[0xdfff, 0xd800]), 1_926_933_046);
    }

    #[test]
    fn a_shard_of_a_known_hash_is_the_shard_of_its_id() {
        let numeric = ShardHash::Custom(|id| id.parse().unwrap_or(0));
        for hash in [ShardHash::Xxh3, ShardHash::Fnv1aUtf16, numeric] {
            for id in ["", "7", "user-42", "日本語"] {
                assert_eq!(hash.shard_hashed(id, entity(id), SIXTY_FOUR), hash.shard(id, SIXTY_FOUR));
            }
        }
        assert_eq!(numeric.shard("70", SIXTY_FOUR), ShardId(6));
    }

    #[test]
    fn spread_bits_of_one_shard_fill_every_bucket() {
        let one_shard =
            (0..).map(|n| entity(&format!("user-{n}"))).filter(|hash| hash % 1024 == 5).take(1_000).collect::<Vec<_>>();
        let buckets: BTreeSet<u64> = one_shard.iter().map(|hash| spread(*hash) % 64).collect();
        let tags: BTreeSet<u64> = one_shard.iter().map(|hash| spread(*hash) >> 57).collect();
        assert_eq!(buckets.len(), 64);
        assert!(tags.len() > 120, "{}", tags.len());
    }
}
