//! The owner's rules, one by one.

use alloc::vec::Vec;

use super::{config, key, token};
use crate::machine::{Rule, Rules};
use crate::region::stream::{Incoming, IncomingOutput, Verdict};

const REFUSE: Verdict = Verdict::Refuse { draining: false };

fn tenure(rules: Rules) -> Incoming {
    Incoming::new(config(rules), token(1))
}

/// A tenure that has accepted `count` messages of n1.1 under attempt 1.
fn fed(rules: Rules, count: u64) -> Incoming {
    let mut tenure = tenure(rules);
    for seq in 1..=count {
        assert_eq!(tenure.data(key(1, 1), token(1), 1, seq, seq == 1), Verdict::Accept);
    }
    tenure
}

fn closed(tenure: Incoming) -> Vec<IncomingOutput> {
    let mut out = Vec::new();
    tenure.close(true, &mut out);
    out
}

#[test]
fn data_counts_only_under_exactly_this_grant() {
    let mut tenure = tenure(Rules::all());
    assert_eq!(tenure.data(key(1, 1), token(2), 1, 1, true), REFUSE);
    assert_eq!(tenure.data(key(1, 1), token(0), 1, 1, true), REFUSE);
    assert_eq!(tenure.data(key(1, 1), token(1), 1, 1, true), Verdict::Accept);
}

#[test]
fn a_sender_without_entry_must_begin_with_the_first_of_an_attempt() {
    let mut tenure = tenure(Rules::all());
    assert_eq!(tenure.data(key(1, 1), token(1), 1, 2, false), REFUSE);
    assert_eq!(tenure.data(key(1, 1), token(1), 2, 2, true), Verdict::Accept);
    assert_eq!(tenure.data(key(1, 1), token(1), 2, 2, true), Verdict::Duplicate);
}

#[test]
fn other_attempts_are_dropped_silently() {
    let mut tenure = fed(Rules::all(), 2);
    assert_eq!(tenure.data(key(1, 1), token(1), 2, 3, false), Verdict::Drop);
    assert_eq!(tenure.data(key(1, 1), token(1), 2, 1, true), Verdict::Duplicate);
    assert_eq!(tenure.data(key(1, 1), token(1), 1, 3, false), Verdict::Drop);
    assert_eq!(tenure.data(key(1, 1), token(1), 2, 3, false), Verdict::Accept);
}

#[test]
fn draining_promises_closed_only_to_those_it_knows() {
    let mut tenure = fed(Rules::all(), 1);
    tenure.drain();
    assert_eq!(tenure.data(key(1, 1), token(1), 1, 2, false), Verdict::Refuse { draining: true });
    assert_eq!(tenure.data(key(2, 1), token(1), 1, 1, true), REFUSE);
    assert_eq!(closed(tenure), [IncomingOutput::Closed { to: key(1, 1), upto: 0, beyond: Vec::new() }]);
}

#[test]
fn taken_tells_the_prefix_that_handlers_started() {
    let mut tenure = fed(Rules::all(), 4);
    let mut out = Vec::new();
    tenure.started(key(1, 1), 2);
    tenure.flush(&mut out);
    assert_eq!(out, []);
    tenure.started(key(1, 1), 1);
    assert!(tenure.owes());
    tenure.flush(&mut out);
    tenure.flush(&mut out);
    assert_eq!(out, [IncomingOutput::Taken { to: key(1, 1), upto: 2 }]);
}

#[test]
fn a_gap_counts_as_taken_and_is_not_listed() {
    let mut tenure = fed(Rules::all(), 2);
    assert_eq!(tenure.data(key(1, 1), token(1), 1, 9, false), Verdict::Accept);
    assert_eq!(tenure.data(key(1, 1), token(1), 1, 1 << 60, false), Verdict::Accept);
    tenure.started(key(1, 1), 2);
    tenure.started(key(1, 1), 9);
    let beyond = [2, 9].into();
    assert_eq!(closed(tenure.clone()), [IncomingOutput::Closed { to: key(1, 1), upto: 0, beyond }]);
    tenure.started(key(1, 1), 1);
    let upto = (1 << 60) - 1;
    assert_eq!(closed(tenure), [IncomingOutput::Closed { to: key(1, 1), upto, beyond: Vec::new() }]);
}

#[test]
fn a_sender_that_is_gone_is_forgotten() {
    let mut tenure = fed(Rules::all(), 1);
    tenure.started(key(1, 1), 1);
    tenure.peer_gone(key(1, 1));
    assert!(!tenure.owes());
    tenure.started(key(1, 1), 1);
    assert_eq!(closed(tenure), []);
}

#[test]
fn hostile_numbers_do_no_harm() {
    let mut tenure = tenure(Rules::all());
    for seq in [u64::MAX, 0, u64::MAX, 1] {
        tenure.data(key(1, 1), token(1), 1, seq, true);
        tenure.started(key(1, 1), seq);
    }
    tenure.data(key(2, 1), token(1), 1, 0, true);
    tenure.data(key(2, 1), token(1), 1, u64::MAX, true);
    tenure.started(key(2, 1), u64::MAX);
    assert_eq!(closed(tenure).len(), 2);
}

#[test]
fn each_mutant_of_the_owner_breaks_its_rule() {
    let mut unchecked = tenure(Rules::without(Rule::DataToken));
    assert_eq!(unchecked.data(key(1, 1), token(7), 1, 1, true), Verdict::Accept);

    let mut unchecked = fed(Rules::without(Rule::DataAttempt), 1);
    assert_eq!(unchecked.data(key(1, 1), token(1), 0, 2, false), Verdict::Accept);

    let mut unchecked = tenure(Rules::without(Rule::DataEntry));
    assert_eq!(unchecked.data(key(1, 1), token(1), 1, 5, false), Verdict::Accept);

    let mut partial = fed(Rules::without(Rule::ClosedBeyond), 2);
    partial.started(key(1, 1), 2);
    assert_eq!(closed(partial), [IncomingOutput::Closed { to: key(1, 1), upto: 0, beyond: Vec::new() }]);

    assert_eq!(closed(fed(Rules::without(Rule::ClosedAlways), 2)), []);
    assert!(fed(Rules::without(Rule::SettleOnStart), 1).owes());
}
