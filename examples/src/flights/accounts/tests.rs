//! Facts about the accounts.

use super::*;
use crate::flights::csv::Row;
use crate::flights::fold::sample;
use crate::flights::shelf::life;

/// A table of one aircraft with `rows` rows.
fn table(rows: u32) -> Table {
    let row = |number| Row { line: u64::from(number) + 1, aircraft: 0, number, flight: sample(number) };
    Table { rows: (1..=rows).map(row).collect(), tails: vec!["N1".into()], ..Table::default() }
}

fn delivered(node: u64, number: u32) -> Fate {
    Fate::Delivered { node, fence: life(number, 0), arrival: Arrival::Next }
}

/// The final state of an aircraft that took `rows` in that order and went through `lives`.
fn report(rows: &[u32], lives: &[u32]) -> Option<AircraftReport> {
    let mut logbook = Logbook { lives: lives.iter().map(|number| life(*number, 0)).collect(), ..Logbook::default() };
    for number in rows {
        logbook.take(*number, &sample(*number));
    }
    Some(AircraftReport { logbook, node: 1 })
}

fn run(fates: Vec<Option<Fate>>, report: Option<AircraftReport>, dead: &[u64]) -> Balance {
    let mut accounts = Accounts::new(fates.len());
    for (row, fate) in fates.iter().enumerate() {
        if let Some(fate) = fate {
            assert!(accounts.settle(row, fate.clone()));
        }
    }
    let table = table(u32::try_from(fates.len()).expect("few"));
    let balance = balance(&table, &accounts, &[report], &dead.iter().copied().collect());
    assert_eq!(balance.delivered + balance.lost(), fates.len() as u64, "every row is in exactly one place");
    balance
}

#[test]
fn all_rows_in_order_balance() {
    let fates = vec![Some(delivered(1, 1)), Some(delivered(1, 1)), Some(delivered(2, 2))];
    let balance = run(fates, report(&[1, 2, 3], &[1, 2]), &[]);
    assert_eq!(balance, Balance { delivered: 3, ..Balance::default() });
    assert!(balance.is_explained());
}

#[test]
fn state_that_died_with_its_node_is_lost_state_and_names_the_aircraft() {
    let fates = vec![Some(delivered(1, 1)), Some(delivered(2, 2)), Some(delivered(2, 2)), Some(delivered(3, 3))];
    let balance = run(fates, report(&[1, 4], &[1, 3]), &[2]);
    assert_eq!((balance.delivered, balance.lost_state, balance.silent), (2, 2, 0));
    assert_eq!(balance.bereft, BTreeMap::from([("N1".to_owned(), 2)]));
    assert!(balance.is_explained());
}

#[test]
fn what_a_lost_life_saw_come_wrongly_is_not_forgotten() {
    let wrong = |arrival| Some(Fate::Delivered { node: 2, fence: life(2, 0), arrival });
    let balance = run(vec![wrong(Arrival::Late), wrong(Arrival::Again)], report(&[], &[3]), &[2]);
    assert_eq!((balance.lost_state, balance.duplicated, balance.reordered), (2, 1, 1));
}

#[test]
fn state_that_vanished_while_its_node_lived_is_silent() {
    let balance = run(vec![Some(delivered(2, 2)), Some(delivered(3, 3))], report(&[2], &[3]), &[1]);
    assert_eq!((balance.silent, balance.lost_state), (1, 0));
    assert!(!balance.is_explained());
}

#[test]
fn a_row_missing_from_a_life_that_was_handed_over_is_silent_even_if_its_node_died_later() {
    let balance = run(vec![Some(delivered(2, 2)), Some(delivered(3, 3))], report(&[2], &[2, 3]), &[2]);
    assert_eq!((balance.silent, balance.lost_state), (1, 0));
    assert_eq!(balance.differences.len(), 1);
}

#[test]
fn a_row_without_a_fate_counts_by_the_final_state() {
    assert_eq!(run(vec![None, Some(delivered(1, 1))], report(&[2], &[1]), &[]).silent, 1);
    assert_eq!(run(vec![None, Some(delivered(1, 1))], report(&[1, 2], &[1]), &[]).delivered, 2);
}

#[test]
fn a_row_in_doubt_counts_as_delivered_if_the_aircraft_has_it() {
    let doubt = || Some(Fate::InDoubt("killed".into()));
    let balance = run(vec![doubt(), doubt()], report(&[2], &[1]), &[]);
    assert_eq!((balance.delivered, balance.in_doubt), (1, 1));
    assert_eq!(balance.reasons, BTreeMap::from([("in doubt: killed".to_owned(), 1)]));
    assert!(balance.is_explained());
}

#[test]
fn an_unsent_row_that_ran_is_a_difference() {
    let unsent = || Some(Fate::Unsent("no home".into()));
    let explained = run(vec![unsent()], report(&[], &[1]), &[]);
    assert_eq!(explained.unsent, 1);
    assert!(explained.is_explained());
    assert!(!run(vec![unsent()], report(&[1], &[1]), &[]).is_explained());
}

#[test]
fn a_row_that_ran_in_a_lost_life_and_again_is_a_duplicate() {
    let balance = run(vec![Some(delivered(2, 2))], report(&[1], &[3]), &[2]);
    assert_eq!((balance.delivered, balance.duplicated), (1, 1));
    assert!(!balance.is_explained());
}

#[test]
fn duplicates_and_disorder_that_the_aircraft_saw_are_counted_once() {
    let fates = || vec![Some(delivered(1, 1)), Some(delivered(1, 1))];
    let twice = run(fates(), report(&[1, 2, 2], &[1]), &[]);
    assert_eq!((twice.duplicated, twice.reordered, twice.differences.len()), (1, 0, 1));
    let swapped = run(fates(), report(&[2, 1], &[1]), &[]);
    assert_eq!((swapped.duplicated, swapped.reordered, swapped.differences.len()), (0, 1, 1));
}

#[test]
fn disorder_that_the_counters_miss_is_found_by_the_digest() {
    let mut report = report(&[1, 2], &[1]).expect("given");
    report.logbook.fold = Fold::of([&sample(2), &sample(1)]);
    let balance = run(vec![Some(delivered(1, 1)), Some(delivered(1, 1))], Some(report), &[]);
    assert_eq!((balance.reordered, balance.differences.len()), (1, 1));
}

#[test]
fn a_row_that_ran_in_an_earlier_life_than_its_forerunner_is_reordered() {
    let balance = run(vec![Some(delivered(2, 2)), Some(delivered(1, 1))], report(&[1, 2], &[1, 2]), &[]);
    assert_eq!(balance.reordered, 1);
}

#[test]
fn an_aircraft_that_does_not_answer_is_a_difference_and_its_rows_are_silent() {
    let balance = run(vec![Some(delivered(1, 1)), None], None, &[]);
    assert_eq!(balance.silent, 2);
    assert!(!balance.is_explained());
}

#[test]
fn a_row_that_is_not_in_the_file_is_a_difference() {
    let balance = run(vec![Some(delivered(1, 1))], report(&[1, 2], &[1]), &[]);
    assert!(!balance.is_explained());
}

#[test]
fn the_first_fate_of_a_row_counts() {
    let mut accounts = Accounts::new(1);
    assert!(accounts.settle(0, Fate::InDoubt("killed".into())));
    assert!(!accounts.settle(0, delivered(1, 1)));
    assert!(!accounts.settle(5, delivered(1, 1)), "no such row");
    assert_eq!(accounts.settled(), 1);
}
