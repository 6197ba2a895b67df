//! Shuffle sharding against the vectors: Kubernetes' hands, hashes, checks and published probabilities.
//!
//! Public issues of the systems that this is measured against are named at the tests that show that we don't share them, here
//! and beside the code. Those without a test, and why:
//! - kubernetes enhancements #933 (an elephant that spreads over many identities): no library can tell one tenant from many
//!   by a hash; the module's page says so, and `FlowKey::hash` takes any pair of texts as the identity.
//! - cortex #3571 and loki #6174 (a query of death walks from one querier to the next): shown in whole clusters, by
//!   `poison_kills_its_hand_and_harms_as_many_as_calculated` in sim.rs.
//! - mimir #1765 (readers learn of a greater shard after writers): an order of roll-out; `Roster::lookback` says it, and the
//!   test of lookback shows that the greater size is a superset.
//! - cortex #3601, dskit #283, #856 and #1086, loki #22167 and #22912 (caches of shards that grow or miss): there is no cache;
//!   a hand is computed in microseconds from a roster (benches/shuffle.rs).
//! - envoy #14663, #15375, #45682, #17013 (where the policy lives): selection only; who asks and what follows is outside.

use serde::Deserialize;
use shard_core::shuffle::{
    self, Advice, Dealer, DealerError, HAND_MAX, Isolation, Measure, QueueBounds, QueueChooser, QueueFull, SeatWarning,
    Waiting, Work, choose, required_bits,
};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Vectors {
    dealer: Vec<Deal>,
    flow_hash: Vec<Flow>,
    validation: Vec<Validation>,
    max_deck_per_hand: BTreeMap<u32, u32>,
    isolation_published: Vec<Cell>,
    isolation_extra: Vec<Cell>,
    overlap: Vec<Overlap>,
    queue_choice: Vec<Choice>,
}

#[derive(Deserialize)]
struct Deal {
    hash: String,
    deck: u32,
    hand: u32,
    cards: Vec<u32>,
}

#[derive(Deserialize)]
struct Flow {
    schema: String,
    distinguisher: String,
    hash: String,
    deck128_hand6: Vec<u32>,
    deck64_hand8: Vec<u32>,
}

#[derive(Deserialize)]
struct Validation {
    deck: i64,
    hand: i64,
    required_bits: Option<u32>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Cell {
    hand: u32,
    queues: u32,
    elephants: u32,
    exact: String,
}

#[derive(Deserialize)]
struct Overlap {
    n: u32,
    k: u32,
    combinations: String,
    p_overlap: Vec<String>,
}

#[derive(Deserialize)]
struct Choice {
    hand: Vec<u32>,
    work: Vec<u64>,
    enqueues_before: u64,
    chosen: u32,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("data/shuffle-sharding.json")).expect("the vectors parse")
}

fn dealer(deck: u32, hand: u32) -> Dealer {
    Dealer::new(deck, hand).unwrap_or_else(|error| panic!("{deck}/{hand}: {error}"))
}

fn assert_close(got: f64, exact: &str, digits: i32, what: &str) {
    let exact: f64 = exact.parse().expect("a number");
    let off = (got - exact).abs() / exact.abs().max(f64::MIN_POSITIVE);
    assert!(got == exact || off < 10_f64.powi(-digits), "{what}: {got:e} for {exact:e}, off by {off:e}");
}

#[test]
fn every_hand_is_the_one_kubernetes_deals() {
    let deals = vectors().dealer;
    assert_eq!(deals.len(), 124);
    for Deal { hash, deck, hand, cards } in deals {
        let (dealer, hash) = (dealer(deck, hand), hash.parse().expect("64 bits"));
        assert_eq!(*dealer.deal(hash), cards, "{hash} of {deck}/{hand}");
        assert_eq!(dealer.cards(hash).collect::<Vec<_>>(), cards, "{hash} of {deck}/{hand}, one by one");
        let mut called = Vec::new();
        dealer.deal_each(hash, |card| called.push(card));
        assert_eq!(called, cards, "{hash} of {deck}/{hand}, called back");
    }
}

#[cfg(feature = "sha256")]
#[test]
fn every_flow_has_the_hash_and_the_hands_that_kubernetes_gives_it() {
    let flows = vectors().flow_hash;
    assert_eq!(flows.len(), 10);
    for Flow { schema, distinguisher, hash, deck128_hand6, deck64_hand8 } in flows {
        let got = shuffle::kubernetes_flow_hash(&schema, &distinguisher);
        assert_eq!(got.to_string(), hash, "{schema:?}, {distinguisher:?}");
        assert_eq!(*dealer(128, 6).deal(got), deck128_hand6);
        assert_eq!(*dealer(64, 8).deal(got), deck64_hand8);
    }
}

#[test]
fn validation_is_that_of_kubernetes_in_its_order() {
    let rows = vectors().validation;
    assert_eq!(rows.len(), 34);
    for Validation { deck, hand, required_bits: bits, error } in rows {
        // A negative number can't be said; zero breaks the same rule.
        let (deck, hand) = (u32::try_from(deck).unwrap_or(0), u32::try_from(hand).unwrap_or(0));
        assert_eq!(required_bits(deck, hand), bits, "{deck}/{hand}");
        let got = Dealer::new(deck, hand).err().map(|error| match error {
            DealerError::NotPositive { .. } => "not_positive",
            DealerError::HandExceedsDeck { .. } => "hand_exceeds_deck",
            DealerError::DeckTooLarge { .. } => "deck_too_large",
            DealerError::TooMuchEntropy { .. } => "entropy",
        });
        assert_eq!(got, error.as_deref(), "{deck}/{hand}");
    }
}

#[test]
fn the_first_broken_rule_is_the_one_told() {
    assert_eq!(Dealer::new(0, 0), Err(DealerError::NotPositive { deck: 0, hand: 0 }));
    // Too great a hand and a deck too great: the hand is told.
    let (deck, hand) = (1 << 27, (1 << 27) + 1);
    assert_eq!(Dealer::new(deck, hand), Err(DealerError::HandExceedsDeck { deck, hand }));
    // Too great a deck and too much entropy: the deck is told.
    assert_eq!(Dealer::new(deck, 3), Err(DealerError::DeckTooLarge { deck }));
    // kubernetes #83665: asking for the bits is no error, dealing with too many is.
    assert_eq!(required_bits(512, 8), Some(72));
    assert_eq!(Dealer::new(512, 8), Err(DealerError::TooMuchEntropy { bits: 72 }));
}

#[test]
fn the_largest_decks_are_those_of_kubernetes() {
    let decks = vectors().max_deck_per_hand;
    assert_eq!(decks.len(), HAND_MAX);
    for (hand, deck) in decks {
        assert!(Dealer::new(deck, hand).is_ok(), "{deck}/{hand}");
        assert!(Dealer::new(deck + 1, hand).is_err(), "{}/{hand}", deck + 1);
    }
    assert!((16..=64).all(|hand| Dealer::new(hand, hand).is_err()), "no hand has 16 cards");
}

/// The last column of the published table, which the vectors leave out: under 16 elephants.
const UNDER_SIXTEEN: [(u32, u32, &str); 11] = [
    (12, 32, "0.9935089607656024"),
    (10, 32, "0.9753101519027554"),
    (10, 64, "0.49999929150089345"),
    (9, 64, "0.4282314876454858"),
    (8, 64, "0.35935114681123076"),
    (8, 128, "0.02746173137155063"),
    (7, 128, "0.02406157386340147"),
    (7, 256, "0.0006709661542533682"),
    (6, 256, "0.0008895654642000348"),
    (6, 512, "2.26025764343413e-05"),
    (6, 1024, "4.517408062903668e-07"),
];

#[test]
fn isolation_is_what_kubernetes_publishes() {
    let Vectors { isolation_published, isolation_extra, .. } = vectors();
    assert_eq!(isolation_published.len() + UNDER_SIXTEEN.len(), 33);
    let squished = |queues, hand, elephants| Isolation::new(queues, hand).expect("a hand").squished(elephants);
    for (cells, digits) in [(isolation_published, 14), (isolation_extra, 13)] {
        for Cell { hand, queues, elephants, exact } in cells {
            let what = format!("{hand} of {queues} under {elephants}");
            assert_close(squished(queues, hand, elephants), &exact, digits, &what);
        }
    }
    for (hand, queues, exact) in UNDER_SIXTEEN {
        assert_close(squished(queues, hand, 16), exact, 14, &format!("{hand} of {queues} under 16"));
    }
}

#[test]
fn overlaps_follow_the_hypergeometric_law() {
    for Overlap { n, k, combinations, p_overlap } in vectors().overlap {
        let isolation = Isolation::new(n, k).expect("a hand");
        assert_eq!(isolation.combinations().map(|it| it.to_string()), Some(combinations));
        let overlap = isolation.overlap();
        assert_eq!(overlap.len(), p_overlap.len());
        for (got, exact) in overlap.iter().zip(p_overlap) {
            assert_close(*got, &exact, 13, &format!("overlap of {k} of {n}"));
        }
        assert!((overlap.mean() - isolation.shared_on_average()).abs() < 1e-12);
    }
}

#[test]
fn aws_figures_come_out() {
    // Route 53: 2,048 name servers, four to a zone: 730 billion hands.
    assert_eq!(shuffle::combinations(2_048, 4), Some(730_862_190_080));
    // A hundred workers, five to a customer: one hand is 0.0000013 % of the customers.
    let hundred = Isolation::new(100, 5).expect("a hand");
    assert!((100.0 * hundred.squished(1) - 0.0000013).abs() < 0.00000005);
    // Free queues of a mouse under 16 elephants, shipped defaults.
    let free = Isolation::new(128, 6).expect("a hand").free(16);
    let told = [0.0221, 0.1208, 0.2690, 0.3125, 0.1998, 0.0666, 0.0091];
    assert!(free.iter().zip(told).all(|(got, told)| (got - told).abs() < 5e-5), "{free:?}");
}

#[test]
fn plain_hashing_is_worse_at_the_same_number_of_queues() {
    let plain = |elephants| Isolation::squished_by_plain_hashing(128, elephants);
    assert!((plain(1) - 1.0 / 128.0).abs() < 1e-15);
    assert!((plain(16) - (1.0 - (127.0_f64 / 128.0).powi(16))).abs() < 1e-14);
    let dealt = Isolation::new(128, 6).expect("a hand");
    assert!([1, 4, 16].iter().all(|elephants| dealt.squished(*elephants) < plain(*elephants) / 5.0));
}

#[test]
fn the_queue_chosen_is_that_of_kubernetes() {
    let rows = vectors().queue_choice;
    assert_eq!(rows.len(), 15);
    for Choice { hand, work, enqueues_before, chosen } in rows {
        let at = |card: u32| hand.iter().position(|own| *own == card).expect("a card of the hand");
        assert_eq!(choose(&hand, enqueues_before, |card| work[at(card)]), Some(chosen), "{hand:?}, {work:?}");
        for measure in [Measure::Length, Measure::Work] {
            let mut chooser = QueueChooser::new(measure);
            let waiting = |card| Waiting { requests: work[at(card)] as u32, work: Work(work[at(card)]) };
            for _ in 0..enqueues_before {
                let _ = chooser.choose(&hand, waiting);
            }
            assert_eq!(chooser.choose(&hand, waiting), Some(chosen), "{measure:?}: {hand:?}, {work:?}");
        }
    }
}

/// kubernetes #105243, enhancements #2810: what runs is not counted, so a queue whose long request is nearly done is no
/// worse for it, and the caller says which measure counts.
#[test]
fn length_and_work_are_different_rules() {
    // One long request against three short ones.
    let queues = [Waiting { requests: 1, work: Work(900) }, Waiting { requests: 3, work: Work(300) }];
    let with = |mut chooser: QueueChooser| chooser.choose(&[0, 1], |card| queues[card as usize]);
    assert_eq!(with(QueueChooser::shortest()), Some(0));
    assert_eq!(with(QueueChooser::least_work()), Some(1));
    assert_eq!(QueueChooser::shortest().choose(&[], |_| Waiting::default()), None);
    // Full loads everywhere leave a choice all the same.
    assert_eq!(choose(&[7, 8], 0, |_| u64::MAX), Some(7));
}

#[test]
fn only_a_full_queue_under_a_full_house_turns_away() {
    let bounds = QueueBounds { seats_max: 10, queue_length_max: 50 };
    assert_eq!(bounds.check(10, 50), Err(QueueFull));
    assert_eq!(bounds.check(9, 50), Ok(()));
    assert_eq!(bounds.check(10, 49), Ok(()));
}

#[test]
fn work_counts_seat_seconds() {
    use std::time::Duration;
    // An ordinary request: one seat for the guess of three milliseconds.
    let guess = Duration::from_millis(3);
    assert_eq!(Work::of_request(1, guess, 0, Duration::ZERO), Work(300_000));
    assert_eq!(Work::of(1, Duration::from_secs(1)), Work::SEAT_SECOND);
    assert_eq!(Work::of_request(2, guess, 3, Duration::from_millis(10)), Work(600_000 + 3_000_000));
    assert_eq!(Work::of(u32::MAX, Duration::MAX), Work(u64::MAX));
    assert_eq!(Work::of(1, Duration::from_nanos(14)), Work(1), "to the nearest");
    assert_eq!(Work::of(1, Duration::from_nanos(15)), Work(2), "to the nearest");
}

/// Nothing is better than nothing: with every hand squished for certain, the smallest is as good, and no certainty is more
/// than one.
#[test]
fn rounding_decides_nothing() {
    let advice = Advice::new(64, 100_000).expect("64 queues can be dealt from");
    assert_eq!(advice.hand.hand(), 1);
    assert!(Advice::hands(64).all(|hand| hand.squished(100_000) <= 1.0 && hand.squished(100_000) > 0.999_999));
}

#[test]
fn advice_depends_on_how_many_elephants_there_are() {
    // website #19319: half of the queues is best against one elephant only, and nearly worst against sixteen.
    let isolation = |hand| Isolation::new(64, hand).expect("a hand");
    let best = |elephants| Advice::new(64, elephants).expect("there are hands").hand.hand();
    assert_eq!(best(1), 10, "the greatest that can be dealt");
    assert!(isolation(32).squished(1) < isolation(10).squished(1));
    assert!(isolation(32).squished(16) > 0.999);
    assert!(best(1) > best(4) && best(4) > best(16), "{} {} {}", best(1), best(4), best(16));
    for elephants in [1, 4, 16] {
        let advised = isolation(best(elephants)).squished(elephants);
        assert!(Advice::hands(64).all(|hand| hand.squished(elephants) >= advised));
    }
    assert_eq!(Advice::new(0, 4), None);
}

#[test]
fn a_flow_that_could_take_every_seat_is_warned_about() {
    // kubernetes #115409: six queues of requests ten seats wide held all of sixty seats.
    let warning = SeatWarning::check(6, 10, 60).expect("a warning");
    assert!(warning.starves_others() && warning.to_string().contains("all of the 60"), "{warning}");
    let near = SeatWarning::check(6, 10, 120).expect("half is too near");
    assert!(!near.starves_others() && near.to_string().contains("half or more"), "{near}");
    assert_eq!(SeatWarning::check(6, 10, 121), None);
    assert!(SeatWarning::check(u32::MAX, u32::MAX, u32::MAX).is_some_and(|it| it.starves_others()));
}

#[test]
fn errors_say_what_to_do() {
    for (error, hint) in [
        (Dealer::new(0, 1).map(|_| ()).unwrap_err().to_string(), "at least one card"),
        (Dealer::new(2, 3).map(|_| ()).unwrap_err().to_string(), "fewer cards"),
        (Dealer::new(512, 8).map(|_| ()).unwrap_err().to_string(), "smaller deck"),
        (Isolation::new(3, 4).map(|_| ()).unwrap_err().to_string(), "no more than"),
    ] {
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn the_fewest_queues_for_a_target_are_found() {
    let enough = Isolation::queues_for(6, 4, 1e-5).expect("possible");
    assert!(enough.squished(4) <= 1e-5);
    let one_fewer = Isolation::new(enough.queues() - 1, 6).expect("a hand");
    assert!(one_fewer.squished(4) > 1e-5);
    assert_eq!(Isolation::queues_for(1, 1, 0.0), None);
}

#[test]
fn the_bound_on_tenants_is_that_of_johnson_and_schoenheim() {
    let bounds =
        [(20, 4, 2, 285), (20, 4, 1, 30), (12, 3, 1, 20), (8, 2, 1, 28), (50, 4, 1, 200), (2_048, 4, 2, 357_389_824)];
    for (queues, hand, overlap, bound) in bounds {
        assert_eq!(shuffle::tenants_max(queues, hand, overlap), bound, "{hand} of {queues}, {overlap} shared");
    }
    assert_eq!(shuffle::tenants_max(20, 4, 4), u128::MAX);
    assert_eq!(shuffle::tenants_max(3, 4, 1), 0);
    assert_eq!((shuffle::combinations(3, 4), shuffle::combinations(u32::MAX, 64)), (Some(0), None));
}

#[test]
fn the_greatest_deck_and_hand_are_calculated_too() {
    let greatest = Isolation::new(u32::MAX, 64).expect("a hand");
    assert!(greatest.squished(3) < 1e-300);
    assert!((greatest.free(3)[64] - 1.0).abs() < 1e-5);
    let whole = Isolation::new(64, 64).expect("a hand");
    assert_eq!((whole.squished(1), whole.squished(0)), (1.0, 0.0));
}
