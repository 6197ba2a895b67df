//! Shuffle sharding: hands are distinct and in range, longer ones begin with shorter ones, and one change of members
//! changes a hand by one member at most.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use shard_core::shuffle::{Dealer, ENTROPY_BITS_MAX, Isolation, Member, Mode, Pick, Roster, ShardSize, required_bits};
use shard_core::time::Instant;

/// The bytes are a hash (8), a deck (4), a hand (1), a size (1), a change (3), and then members of two bytes each.
pub fn shuffle(bytes: &[u8]) {
    let Some((hash, rest)) = bytes.split_first_chunk::<8>() else { return };
    let Some((deck, rest)) = rest.split_first_chunk::<4>() else { return };
    let Some(([hand, size, change @ ..], rest)) = rest.split_first_chunk::<5>() else { return };
    let hash = u64::from_le_bytes(*hash);
    deal(hash, u32::from_le_bytes(*deck), u32::from(*hand));
    let (members, _) = rest.as_chunks::<2>();
    change_members(hash, u32::from(*size), *change, &members[..members.len().min(64)]);
}

fn deal(hash: u64, deck: u32, hand: u32) {
    let legal =
        required_bits(deck, hand).is_some_and(|bits| bits <= ENTROPY_BITS_MAX) && hand <= deck && deck <= 1 << 26;
    let dealer = Dealer::new(deck, hand);
    assert_eq!(dealer.is_ok(), legal, "{deck}/{hand}");
    let Ok(dealer) = dealer else { return };
    let cards = dealer.deal(hash);
    assert_eq!(cards.len(), hand as usize);
    assert!(cards.iter().all(|card| *card < deck), "{cards:?} of {deck}");
    assert_eq!(cards.iter().collect::<BTreeSet<_>>().len(), cards.len(), "{cards:?} of {deck}");
    assert!(dealer.cards(hash).eq(cards.iter().copied()), "one by one: {cards:?} of {deck}");
    if let Ok(shorter) = Dealer::new(deck, hand - 1) {
        assert_eq!(*shorter.deal(hash), cards[..cards.len() - 1], "{deck}/{hand}");
    }
    let isolation = Isolation::new(deck, hand).expect("every hand dealt can be calculated");
    let probabilities = [isolation.squished(1), isolation.squished(3)];
    assert!(probabilities.iter().all(|it| (0.0..=1.0 + 1e-12).contains(it)), "{probabilities:?}");
    assert!(probabilities[0] <= probabilities[1] * (1.0 + 1e-12), "{probabilities:?}");
}

/// A member by its bytes: zone and weight from the second, its id from its place in the list.
fn member(id: u64, [mode, place]: [u8; 2]) -> Member {
    let weight = NonZeroU32::new(u32::from(place >> 4) + 1).expect("at least one");
    let mode = if mode % 8 == 7 { Mode::ReadOnly } else { Mode::Active };
    Member::new(id, u64::from(place % 5)).weighing(weight, Instant::ZERO).in_mode(mode, Instant::ZERO)
}

fn change_members(tenant: u64, size: u32, [which, a, b]: [u8; 3], members: &[[u8; 2]]) {
    let before: Vec<Member> = (0..).zip(members).map(|(id, bytes)| member(id, *bytes)).collect();
    let mut after = before.clone();
    let at = usize::from(which) % (members.len() + 1);
    if at == members.len() {
        after.push(member(at as u64, [a, b]));
    } else if b % 2 == 0 {
        after.remove(at);
    } else {
        after[at] = member(at as u64, [a, b]);
        // A change of zone is a member that leaves and one that joins.
        after[at].zone = before[at].zone;
    }
    for size in [ShardSize::Members(size), ShardSize::PerZone(size % 8), ShardSize::All] {
        let (old, new) = (hand(&before, tenant, size), hand(&after, tenant, size));
        assert!(old.difference(&new).count() <= 1 && new.difference(&old).count() <= 1, "{old:?} became {new:?}");
    }
    let (longer, shorter) = (ShardSize::Members(size + 2), ShardSize::Members(size + 1));
    assert!(hand(&before, tenant, shorter).is_subset(&hand(&before, tenant, longer)));
    assert!(hand(&before, tenant, shorter).len() <= size as usize + 1);
}

fn hand(members: &[Member], tenant: u64, size: ShardSize) -> BTreeSet<u64> {
    let (mut members, mut picks) = (members.to_vec(), vec![Pick::default(); members.len()]);
    let roster = Roster::new(&mut members).expect("ids are places in a list");
    let picks = roster.deal(tenant, size, &mut picks).expect("there is a pick per member");
    let hand: BTreeSet<u64> = picks.iter().map(|pick| roster.members()[pick.index()].id).collect();
    assert_eq!(hand.len(), picks.len(), "members of a hand are distinct");
    let readers = |id: &u64| roster.members().iter().any(|member| member.id == *id && member.mode == Mode::ReadOnly);
    assert!(!hand.iter().any(readers), "read-only members are in no hand");
    hand
}
