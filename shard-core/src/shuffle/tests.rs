//! Properties of hands, held against slow twins.

use core::num::NonZeroU32;
use std::{collections::BTreeSet, vec, vec::Vec};

use super::*;
use crate::prng::Prng;
use crate::time::Instant;

/// A hand by the other formulation: each digit picks among the cards that are left.
fn picked(mut hash: u64, deck: u32, hand: u32) -> Vec<u32> {
    let mut left: Vec<u32> = (0..deck).collect();
    let mut pick = |_| {
        let at = hash % left.len() as u64;
        hash /= left.len() as u64;
        left.remove(at as usize)
    };
    (0..hand).map(&mut pick).collect()
}

#[test]
fn cards_are_picked_from_those_left() {
    let mut prng = Prng::new(5);
    for _ in 0..20_000 {
        let hand = prng.between(1, 15) as u32;
        let deck = prng.between(u64::from(hand), 200) as u32;
        let Ok(dealer) = Dealer::new(deck, hand) else { continue };
        for hash in [prng.next_u64(), u64::MAX - prng.below(9), prng.below(u64::from(deck) + 2)] {
            assert_eq!(*dealer.deal(hash), picked(hash, deck, hand), "{hash} of {deck}/{hand}");
        }
    }
}

#[test]
fn dividing_by_multiplying_is_exact_at_the_edges() {
    // The greatest decks, where quotients are likeliest to be off by one, at multiples of the deck and their neighbours.
    for (deck, hand) in
        [(DECK_MAX, 2), (DECK_MAX - 1, 2), (1 << 20, 3), ((1 << 20) - 1, 3), (32_767, 4), (3, 2), (2, 1)]
    {
        let dealer = Dealer::new(deck, hand).expect("legal");
        for step in 0..200 {
            let multiple = (u64::MAX / u64::from(deck) - step) * u64::from(deck);
            for hash in [multiple - 1, multiple, multiple.saturating_add(1)] {
                let (first, left) = (hash % u64::from(deck), hash / u64::from(deck));
                assert_eq!(u64::from(dealer.deal(hash)[0]), first, "{hash} of {deck}");
                let second = left % u64::from(deck - 1);
                let expected = second + u64::from(second >= first);
                assert!(hand == 1 || u64::from(dealer.deal(hash)[1]) == expected, "{hash} of {deck}");
            }
        }
    }
}

/// How often each set of cards is dealt, indexed by its cards read as digits.
fn counts(deck: u32, hand: u32, hashes: u64) -> Vec<u16> {
    let dealer = Dealer::new(deck, hand).expect("legal");
    let mut counts = vec![0; (deck as usize).pow(hand)];
    for hash in 0..hashes {
        let mut cards = dealer.deal(hash).to_vec();
        cards.sort_unstable();
        counts[cards.iter().fold(0, |at, card| at * deck as usize + *card as usize)] += 1;
    }
    counts.retain(|count| *count > 0);
    counts
}

#[test]
fn every_hand_comes_up_equally_often() {
    // All ordered hands once: each set as often as it has orders.
    let all = counts(128, 3, 128 * 127 * 126);
    assert_eq!((all.len(), all.iter().all(|count| *count == 6)), (341_376, true));
    let all = counts(50, 4, 50 * 49 * 48 * 47);
    assert_eq!((all.len(), all.iter().all(|count| *count == 24)), (230_300, true));
    // Sixteen times as many hashes as there are hands, and some: nearly even.
    let some = counts(64, 3, 1 << 22);
    assert_eq!(some.len(), 41_664);
    assert!(some.iter().all(|count| (96..=102).contains(count)));
}

#[test]
fn a_shorter_hand_begins_the_longer_one() {
    let mut prng = Prng::new(6);
    for _ in 0..1_000 {
        let (hash, deck) = (prng.next_u64(), prng.between(16, 64) as u32);
        let longest = (1..=15).rev().find_map(|hand| Dealer::new(deck, hand).ok()).expect("one is legal").deal(hash);
        for hand in 1..=longest.len() {
            assert_eq!(*Dealer::new(deck, hand as u32).expect("legal").deal(hash), longest[..hand]);
        }
    }
}

#[test]
fn keyed_hashes_keep_the_parts_and_the_keys_apart() {
    let key = FlowKey::new(1);
    assert_ne!(key.hash("ab", ""), key.hash("a", "b"));
    assert_ne!(key.hash("", "ab"), key.hash("ab", ""));
    assert_ne!(key.hash("a", "b"), FlowKey::new(2).hash("a", "b"));
    assert_ne!(key.hash("a", "b"), FlowKey::new(1 << 64).hash("a", "b"));
    assert_eq!(std::format!("{key:?}"), "FlowKey");
    // The same key and flow, the same hash, in every release: hands must not move.
    assert_eq!(FlowKey::new(0).hash("", ""), { FlowKey::new(0).hash("", "") });
}

fn members(nodes: u64, zones: u64) -> Vec<Member> {
    (0..nodes).map(|id| Member::new(id, id % zones)).collect()
}

/// The ids of a hand, in the order of preference.
fn hand(members: &[Member], tenant: u64, size: ShardSize) -> Vec<u64> {
    let (mut members, mut picks) = (members.to_vec(), vec![Pick::default(); members.len()]);
    let roster = Roster::new(&mut members).expect("ids differ");
    let picks = roster.deal(tenant, size, &mut picks).expect("room for all");
    picks.iter().map(|pick| roster.members()[pick.index()].id).collect()
}

fn of(members: u32) -> ShardSize {
    ShardSize::Members(members)
}

/// How many joined and how many left between two hands.
fn changes(before: &[u64], after: &[u64]) -> (usize, usize) {
    let only = |a: &[u64], b: &[u64]| a.iter().filter(|id| !b.contains(id)).count();
    (only(after, before), only(before, after))
}

#[test]
fn hands_are_the_same_whatever_the_order_of_the_members() {
    let mut prng = Prng::new(1);
    for tenant in 0..100 {
        let mut shuffled = members(30, 3);
        prng.shuffle(&mut shuffled);
        assert_eq!(hand(&shuffled, tenant, of(7)), hand(&members(30, 3), tenant, of(7)));
    }
}

#[test]
fn one_change_of_members_changes_a_hand_by_one_at_most() {
    let mut prng = Prng::new(2);
    for case in 0..400 {
        // Zones of any sizes, also none and tiny ones.
        let nodes = prng.between(1, 40);
        let zones = prng.between(1, 5);
        let before: Vec<_> = (0..nodes).map(|id| Member::new(id, prng.below(zones) * prng.below(2))).collect();
        let mut after = before.clone();
        let at = prng.below(nodes) as usize;
        match case % 4 {
            0 => after.push(Member::new(nodes, prng.below(zones + 1))),
            1 => drop(after.remove(at)),
            2 => after[at] = after[at].in_mode(Mode::ReadOnly, Instant::ZERO),
            _ => after[at] = after[at].weighing(NonZeroU32::new(5).expect("not zero"), Instant::ZERO),
        }
        for tenant in 0..50 {
            for size in [1, 3, 6, 10, 16, 60].map(of).into_iter().chain([ShardSize::PerZone(2), ShardSize::All]) {
                let (old, new) = (hand(&before, tenant, size), hand(&after, tenant, size));
                let (joined, left) = changes(&old, &new);
                assert!(joined <= 1 && left <= 1, "{size:?}: {old:?} became {new:?}");
                let concerned = after.iter().find(|member| !before.contains(member)).map_or(at as u64, |it| it.id);
                if !old.contains(&concerned) && !new.contains(&concerned) {
                    assert_eq!((joined, left), (0, 0), "{size:?}: {concerned} is in neither hand");
                }
            }
        }
    }
}

#[test]
fn as_few_hands_change_as_must() {
    // The least possible: k / (n + 1) members of each hand when one joins.
    let (before, after) = (members(64, 1), members(65, 1));
    let changed = |tenant| changes(&hand(&before, tenant, of(8)), &hand(&after, tenant, of(8))).0;
    let share = (0..10_000).map(changed).sum::<usize>() as f64 / 1e4;
    assert!((share - 8.0 / 65.0).abs() < 0.1 * 8.0 / 65.0, "{share}");
}

#[test]
fn a_greater_hand_holds_the_smaller_one_and_shrinking_gives_it_back() {
    for tenant in 0..100 {
        let all = hand(&members(31, 3), tenant, ShardSize::All);
        assert_eq!(all.len(), 31);
        for size in 1..40 {
            // cortex #5467: nine to ten changed three members.
            assert_eq!(hand(&members(31, 3), tenant, of(size)), all[..31.min(size as usize)]);
        }
    }
}

#[test]
fn a_zone_more_leaves_the_members_of_the_others() {
    // cortex #3299: one generator for all zones dealt the old ones anew.
    let two: Vec<_> = (0..40).map(|id| Member::new(id, id % 2)).collect();
    let three: Vec<_> = two.iter().copied().chain((40..60).map(|id| Member::new(id, 2))).collect();
    for tenant in 0..100 {
        let (before, after) = (hand(&two, tenant, ShardSize::PerZone(3)), hand(&three, tenant, ShardSize::PerZone(3)));
        assert!(before.iter().all(|id| after.contains(id)));
        assert_eq!(after.len(), 9);
        // With a size for all zones, old zones only give members up.
        let (before, after) = (hand(&two, tenant, of(6)), hand(&three, tenant, of(6)));
        assert!(after.iter().all(|id| before.contains(id) || *id >= 40));
    }
}

#[test]
fn zones_are_even_within_one_and_the_extras_rotate() {
    let mut extras = [0_u32; 3];
    for tenant in 0..3_000 {
        for (size, least) in [(3, 1), (4, 1), (10, 3)] {
            let mut per_zone = [0; 3];
            hand(&members(30, 3), tenant, of(size)).iter().for_each(|id| per_zone[(id % 3) as usize] += 1);
            assert!(per_zone.iter().all(|count| (least..=least + 1).contains(count)), "{per_zone:?}");
            if size == 4 {
                extras[per_zone.iter().position(|count| *count == 2).expect("one has two")] += 1;
            }
        }
    }
    // cortex #5489: the first zones always had the extras.
    assert!(extras.iter().all(|count| count.abs_diff(1_000) < 100), "{extras:?}");
}

#[test]
fn zero_is_all_and_unbalanced_zones_are_used_up() {
    // dskit #566: zones of 3, 2 and 1; size 6 gave five.
    let uneven: Vec<_> =
        [(1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 2)].map(|(id, zone)| Member::new(id, zone)).into();
    for tenant in 0..50 {
        for size in [ShardSize::All, of(0), ShardSize::PerZone(0), of(6), of(100), ShardSize::PerZone(3)] {
            assert_eq!(hand(&uneven, tenant, size).len(), 6, "{size:?}");
        }
        assert_eq!(hand(&uneven, tenant, of(5)).len(), 5);
        assert_eq!(hand(&uneven, tenant, ShardSize::PerZone(2)).len(), 5);
        assert!(hand(&[], tenant, of(3)).is_empty());
    }
}

#[test]
fn hands_overlap_as_the_hypergeometric_law_says_and_load_is_even() {
    let nodes = members(50, 1);
    let hands: Vec<_> = (0..2_000).map(|tenant| hand(&nodes, tenant, of(4))).collect();
    let mut shared = [0_u32; 5];
    for pair in hands.chunks(2).chain(hands[1..].chunks(2)).filter(|pair| pair.len() == 2) {
        shared[4 - changes(&pair[0], &pair[1]).0] += 1;
    }
    let pairs: u32 = shared.iter().sum();
    let law = Isolation::new(50, 4).expect("a hand").overlap();
    for (seen, expected) in shared.iter().zip(law.iter()) {
        assert!((f64::from(*seen) / f64::from(pairs) - expected).abs() < 0.03, "{shared:?} for {:?}", &*law);
    }
    // Neighbouring tenants share no more than others do (cortex #3090); 2,000 x 4 / 50 = 160 hands per node.
    let mut load = [0_u32; 50];
    hands.iter().flatten().for_each(|id| load[*id as usize] += 1);
    assert!(load.iter().all(|hands| hands.abs_diff(160) < 56), "{load:?}");
}

#[test]
fn weights_decide_how_often_a_member_is_dealt() {
    let mut nodes = members(10, 1);
    nodes[3] = nodes[3].weighing(NonZeroU32::new(3).expect("not zero"), Instant::ZERO);
    let first = (0..12_000).filter(|tenant| hand(&nodes, *tenant, of(1)) == [3]).count();
    // Three of twelve.
    assert!(first.abs_diff(3_000) < 200, "{first}");
}

#[test]
fn equal_weights_are_no_weights() {
    let heavy: Vec<_> = members(40, 3)
        .into_iter()
        .map(|it| it.weighing(NonZeroU32::new(7).expect("not zero"), Instant::ZERO))
        .collect();
    // The comparison by weighted scores, made to run by a member of another weight in a zone of its own.
    let odd = Member::new(99, 9).weighing(NonZeroU32::new(2).expect("not zero"), Instant::ZERO);
    let mixed: Vec<_> = heavy.iter().copied().chain([odd]).collect();
    for tenant in 0..200 {
        assert_eq!(hand(&heavy, tenant, of(9)), hand(&members(40, 3), tenant, of(9)));
        let scored: Vec<_> = hand(&mixed, tenant, ShardSize::PerZone(4)).into_iter().filter(|id| *id != 99).collect();
        let drawn = hand(&heavy, tenant, ShardSize::PerZone(4));
        assert_eq!(changes(&scored, &drawn), (0, 0));
    }
}

#[test]
fn a_twin_and_a_short_slice_are_told() {
    let mut twins = [Member::new(7, 0), Member::new(3, 0), Member::new(7, 1)];
    assert_eq!(Roster::new(&mut twins).err(), Some(RosterError { id: 7 }));
    let mut three = members(3, 1);
    let roster = Roster::new(&mut three).expect("ids differ");
    assert_eq!(roster.deal(1, of(2), &mut [Pick::default()]), Err(TooSmall { needed: 2 }));
    assert_eq!(roster.lookback(1, of(2), Instant::ZERO, &mut [Pick::default()]), Err(TooSmall { needed: 3 }));
}

fn lookback(members: &[Member], tenant: u64, size: ShardSize, since: Instant) -> BTreeSet<u64> {
    let (mut members, mut picks) = (members.to_vec(), vec![Pick::default(); members.len()]);
    let roster = Roster::new(&mut members).expect("ids differ");
    let picks = roster.lookback(tenant, size, since, &mut picks).expect("room for all");
    picks.iter().map(|pick| roster.members()[pick.index()].id).collect()
}

#[test]
fn lookback_finds_every_member_of_every_hand_since() {
    const HOUR: u64 = 3_600_000;
    let mut prng = Prng::new(9);
    let mut sometimes = [0_u32; 2];
    for case in 0..60 {
        let zones = 1 + case % 3;
        let mut now: Vec<_> = (0..9 + 7 * (case % 4)).map(|id| Member::new(id, id % zones)).collect();
        let (mut next_id, mut size) = (1_000, 3);
        let mut hands: Vec<(u64, Vec<u64>)> = Vec::new();
        for at in (1..100).map(|step| step * HOUR / 12) {
            let event = prng.below(100);
            let victim = prng.below(now.len() as u64) as usize;
            let moment = Instant::from_millis(at);
            match event {
                0..40 => {
                    now.push(Member::new(next_id, prng.below(zones)).joined(moment));
                    next_id += 1;
                }
                40..55 if now.len() > 3 => drop(now.remove(victim)),
                55..65 => now[victim] = now[victim].in_mode(Mode::ReadOnly, moment),
                65..75 => now[victim] = now[victim].in_mode(Mode::Active, moment),
                75..80 => now[victim] = now[victim].weighing(NonZeroU32::new(4).expect("not zero"), moment),
                80..85 => size += 1,
                _ => {}
            }
            for tenant in 0..3 {
                hands.push((at, hand(&now, tenant, of(size))));
            }
            let start = Instant::from_millis(at.saturating_sub(HOUR));
            for tenant in 0..3 {
                let found = lookback(&now, tenant, of(size), start);
                let wanted = hands.iter().skip(tenant as usize).step_by(3).filter(|(then, _)| then + HOUR >= at);
                for id in wanted.flat_map(|(_, hand)| hand) {
                    let alive = now.iter().any(|member| member.id == *id);
                    assert!(!alive || found.contains(id), "case {case}: {id} was dealt since {start:?}");
                    sometimes[usize::from(alive)] += 1;
                }
                assert!(hand(&now, tenant, of(size)).iter().all(|id| found.contains(id)));
            }
        }
    }
    assert!(sometimes.iter().all(|count| *count > 0), "both the living and the dead were asked for");
}

#[test]
fn lookback_on_a_quiet_roster_is_the_hand_and_leaves_old_readers_out() {
    let mut nodes = members(30, 3);
    nodes[4] = nodes[4].in_mode(Mode::ReadOnly, Instant::from_millis(10));
    let later = Instant::from_millis(20);
    for tenant in 0..100 {
        let expected: BTreeSet<u64> = hand(&nodes, tenant, of(7)).into_iter().collect();
        assert_eq!(lookback(&nodes, tenant, of(7), later), expected);
        // cortex #5086, mimir #10531: no sharding means the whole roster.
        assert_eq!(lookback(&nodes, tenant, ShardSize::All, later).len(), 29);
        assert_eq!(lookback(&nodes, tenant, ShardSize::All, Instant::from_millis(10)).len(), 30);
        // mimir #11868, #13188, #14780: a hand that was shrunk is read at its former size.
        assert!(expected.is_subset(&lookback(&nodes, tenant, of(9), later)));
    }
}

#[test]
fn health_chooses_within_the_hand() {
    let order = [4, 1, 3, 9, 2, 5];
    let up = |down: &'static [u32]| move |member: &u32| !down.contains(member);
    let served =
        |down, mode| usable(&order, 2, mode, up(down)).map(|it| (it.is_spilled(), it.copied().collect::<Vec<_>>()));
    for mode in [WhenAllDown::Keep, WhenAllDown::Spill, WhenAllDown::Strict] {
        assert_eq!(served(&[], mode), Ok((false, vec![4, 1])));
        assert_eq!(served(&[4], mode), Ok((false, vec![1])), "a crash deals nobody else");
    }
    assert_eq!(served(&[4, 1], WhenAllDown::Keep), Ok((false, vec![4, 1])));
    assert_eq!(served(&[4, 1, 3], WhenAllDown::Spill), Ok((true, vec![9, 2])));
    assert_eq!(served(&[4, 1], WhenAllDown::Strict), Err(AllDown));
    assert_eq!(served(&[4, 1, 3, 9, 2, 5], WhenAllDown::Spill), Err(AllDown));
    assert_eq!(usable(&[] as &[u32], 2, WhenAllDown::Keep, |_| true).err(), Some(AllDown));
}
