//! What needs no allocator: hash, names, generator, shuffle sharding.

use core::fmt::{self, Write};
use core::num::NonZeroU32;

use shard_core::hash::{self, ShardHash};
use shard_core::id::ShardId;
use shard_core::name::Name;
use shard_core::prng::Prng;
use shard_core::shuffle::{Dealer, Isolation, Member, Pick, Roster, ShardSize};

use crate::{Broken, check};

pub fn run() -> Result<(), Broken> {
    names()?;
    hashes()?;
    generator()?;
    hands()
}

fn names() -> Result<(), Broken> {
    // Some rows of shard-core/tests/data/entity-ids.json.
    for (id, name) in [("", "entity-"), ("user-42", "entity-user-42"), ("user/42", "entity-user~002F42")] {
        let mut text = Text::default();
        check(Name::of(id).write_to(&mut text).is_ok(), "a name fits")?;
        check(text.as_str() == name, "the name of an id")?;
        check(Name::of(id).len() == name.len(), "the length of a name")?;
    }
    // Half a pair of UTF-16 has a name too.
    let mut text = Text::default();
    check(write!(text, "{}", Name::of_utf16(&[0xD800])).is_ok(), "a name can be formatted")?;
    check(text.as_str() == "entity-~D800", "the name of half a pair")
}

fn hashes() -> Result<(), Broken> {
    let shards = NonZeroU32::new(64).ok_or("64 is not zero")?;
    check(hash::entity("") == 0x2D06_8005_38D3_94C2, "xxh3 of nothing")?;
    check(ShardHash::Fnv1aUtf16.shard("user-42", shards) == ShardId(43), "the seed system's shard of user-42")?;
    check(ShardHash::Fnv1aUtf16.shard("user/42", shards) == ShardId(1), "the seed system's shard of user/42")?;
    let shard = ShardHash::default().shard("user-42", shards);
    check(u64::from(shard.0) == hash::entity("user-42") % 64, "the default shard of user-42")
}

fn generator() -> Result<(), Broken> {
    let (mut one, mut other) = (Prng::new(42), Prng::new(42));
    check((0..100).all(|_| one.next_u64() == other.next_u64()), "equal seeds give equal numbers")?;
    check((0..1_000).all(|_| one.between(3, 9) >= 3), "numbers keep their bounds")
}

fn hands() -> Result<(), Broken> {
    // A row of shard-core/tests/data/shuffle-sharding.json, and of the table that Kubernetes publishes.
    let dealer = Dealer::new(128, 6).map_err(|_| "128 queues and hands of 6 are legal")?;
    check(*dealer.deal(81_985_529_216_486_895) == [111, 33, 73, 64, 85, 1], "the hand that Kubernetes deals")?;
    let isolation = Isolation::new(64, 8).map_err(|_| "64 queues and hands of 8 are legal")?;
    check((isolation.squished(4) - 4.886_697_053_040_446e-4).abs() < 1e-15, "isolation under four elephants")?;
    let mut members = [1, 2, 3, 4, 5, 6].map(|id| Member::new(id, id % 3));
    let roster = Roster::new(&mut members).map_err(|_| "ids differ")?;
    let mut picks = [Pick::default(); 6];
    let hand = roster.deal(42, ShardSize::Members(3), &mut picks).map_err(|_| "there is a pick per member")?;
    let zone = |pick: &Pick| roster.members()[pick.index()].zone;
    check(hand.len() == 3 && (0..3).all(|own| hand.iter().any(|pick| zone(pick) == own)), "one member of each zone")
}

/// A short text on the stack.
#[derive(Default)]
struct Text {
    bytes: [u8; 32],
    len: usize,
}

impl Text {
    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
