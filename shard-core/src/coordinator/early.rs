//! Early exit of the quarantine at the allocator: E4-E8 and resignation, each rule with its mutant.

use alloc::{vec, vec::Vec};

use super::desk::*;
use super::*;
use crate::{
    id::NodeKey,
    machine::Rule,
    wire::{Control, List},
};

/// A reign that has heard nothing yet, under `rules`; the voters store, but the test says when they confirm.
fn young(rules: Rules) -> Desk {
    let config = AllocatorConfig { me: ME, timing: Timing::lan(), rules, alone: false };
    let mut desk = Desk { allocator: Allocator::new(config), lists: vec![], confirm: false };
    desk.tell(0, Input::Elected { term: TERM });
    desk
}

fn evidence(desk: &mut Desk, complete: bool, carried: &[NodeKey]) -> Vec<Output> {
    desk.tell(1, Input::Evidence { term: TERM, complete, carried: carried.to_vec() })
}

fn confirm(desk: &mut Desk, millis: u64, version: u32) -> Vec<Output> {
    desk.tell(millis, Input::Confirmed { term: TERM, version })
}

fn list(version: u32, complete: bool, members: &[NodeKey]) -> List {
    List { term: TERM, version, complete, members: members.to_vec() }
}

fn acks(out: &[Output]) -> Vec<NodeKey> {
    let ack = |output: &Output| match output {
        Output::Send { to, message: Control::Ack(_) } => Some(*to),
        _ => None,
    };
    out.iter().filter_map(ack).collect()
}

#[test]
fn nobody_is_acknowledged_before_the_voters_know_of_it() {
    for rules in [Rules::all(), Rules::without(Rule::AckAfterConfirm)] {
        let (mut desk, mut a) = (young(rules), Pen::new(A));
        let early = desk.beat(0, &mut a);
        if !rules.on(Rule::AckAfterConfirm) {
            assert_eq!(acks(&early), [A]);
            continue;
        }
        assert_eq!((acks(&early), desk.lists.len()), (vec![], 0), "before the evidence nothing is listed");
        evidence(&mut desk, true, &[]);
        assert_eq!(desk.lists, [list(1, true, &[A])]);
        assert_eq!(acks(&desk.beat(10, &mut a)), []);
        let out = confirm(&mut desk, 12, 1);
        assert_eq!(acks(&out), [A], "as soon as the voters confirm");
        assert_eq!(ack_of(&out).sequence, 2, "and for its latest heartbeat");
        assert_eq!(acks(&desk.beat(20, &mut a)), [A]);
    }
}

#[test]
fn a_list_waits_for_the_one_under_way_and_then_names_all_who_came() {
    let mut desk = young(Rules::all());
    evidence(&mut desk, false, &[]);
    for id in 1..=5 {
        desk.beat(2, &mut Pen::new(node(id)));
    }
    assert_eq!(desk.lists, [list(1, false, &[])]);
    confirm(&mut desk, 3, 1);
    assert_eq!(desk.lists[1], list(2, false, &[1, 2, 3, 4, 5].map(node)));
    assert_eq!(acks(&confirm(&mut desk, 4, 2)).len(), 5);
}

#[test]
fn those_carried_over_stay_listed_until_they_register_or_w_has_passed() {
    for rules in [Rules::all(), Rules::without(Rule::CarryListed)] {
        let mut desk = young(rules);
        evidence(&mut desk, true, &[A, B]);
        let expected: &[NodeKey] = if rules.on(Rule::CarryListed) { &[A, B] } else { &[] };
        assert_eq!(desk.lists, [list(1, true, expected)], "E4");
    }
    let mut desk = young(Rules::all());
    evidence(&mut desk, true, &[A, B]);
    desk.confirm = true;
    confirm(&mut desk, 2, 1);
    desk.beat(OPEN - 1, &mut Pen::new(A));
    desk.expire(OPEN);
    assert_eq!(desk.lists.last(), Some(&list(2, true, &[A])), "E6: B never came");
}

#[test]
fn a_list_without_evidence_is_complete_after_w_only() {
    for rules in [Rules::all(), Rules::without(Rule::CompleteByEvidence)] {
        let mut desk = young(rules);
        desk.confirm = true;
        evidence(&mut desk, false, &[A]);
        assert_eq!(desk.lists[0].complete, !rules.on(Rule::CompleteByEvidence), "E4");
        desk.expire(OPEN);
        assert!(desk.lists.last().is_some_and(|list| list.complete));
    }
}

#[test]
fn the_quarantine_ends_when_everyone_has_registered() {
    for rules in [Rules::all(), Rules::without(Rule::OpenWhenHeard)] {
        let (mut desk, mut a, mut b) = (young(rules), Pen::new(A), Pen::new(B));
        desk.confirm = true;
        desk.lookup(0, A, 3);
        a.owns(shard(1), old_token(1));
        desk.beat(0, &mut a);
        desk.lookup(0, A, 3);
        evidence(&mut desk, true, &[A, B]);
        assert_eq!(desk.allocator.may_allocate(at(5)), !rules.on(Rule::OpenWhenHeard), "E7: B is missing");
        if rules.on(Rule::OpenWhenHeard) {
            b.owns(shard(2), old_token(2));
            let out = desk.beat(6, &mut b);
            assert!(desk.allocator.may_allocate(at(6)));
            assert!(out.contains(&Output::Wanted { key: shard(3), asker: Some(A) }), "{out:?}");
            let told = desk.expire(6);
            assert_eq!(acks(&told), [A, B], "and the nodes are told at once");
            assert!(ack_of(&told).open);
            let places = desk.allocator.places().map(|place| (place.key, place.owner));
            assert_eq!(
                places.collect::<Vec<_>>(),
                [(shard(1), A), (shard(2), B)],
                "adopted before anything is granted"
            );
        }
    }
}

#[test]
fn without_evidence_the_quarantine_lasts_w() {
    let mut desk = young(Rules::all());
    desk.confirm = true;
    evidence(&mut desk, false, &[A]);
    desk.beat(2, &mut Pen::new(A));
    assert!(!desk.allocator.may_allocate(at(OPEN - 1)));
    assert!(desk.allocator.may_allocate(at(OPEN)));
}

#[test]
fn after_the_quarantine_nobody_may_claim_a_shard_any_more() {
    let (mut desk, mut a) = (young(Rules::all()), Pen::new(A));
    desk.confirm = true;
    evidence(&mut desk, true, &[]);
    a.owns(shard(1), old_token(1));
    assert_eq!(desk.beat(5, &mut a), [dead(A, 1)]);
}

#[test]
fn the_own_region_is_acknowledged_at_once_and_never_listed() {
    let mut desk = young(Rules::all());
    let out = desk.beat(0, &mut Pen::new(ME));
    assert_eq!(acks(&out), [ME]);
    evidence(&mut desk, true, &[ME]);
    assert_eq!(desk.lists, [list(1, true, &[])], "E8");
    assert!(desk.allocator.may_allocate(at(2)));
}

#[test]
fn who_resigns_is_listed_first_and_places_nothing_meanwhile() {
    let (mut desk, mut a) = (young(Rules::all()), Pen::new(A));
    desk.tell(0, Input::Resign);
    evidence(&mut desk, true, &[]);
    confirm(&mut desk, 2, 1);
    assert!(desk.lists.iter().all(|list| !list.members.contains(&ME)), "too young to know what came before it");
    desk.beat(3, &mut a);
    confirm(&mut desk, 3, 2);
    desk.settle(3, 0, &mut a);
    let out = desk.tell(4, Input::Resign);
    assert_eq!(out, []);
    assert_eq!(desk.lists.last(), Some(&list(3, true, &[A, ME])));
    assert!(!desk.allocator.may_allocate(at(4)));
    desk.tell(5, Input::Drain { key: shard(0), within: Duration::from_secs(1) });
    assert_eq!(desk.allocator.place(shard(0)).map(|place| place.stage), Some(Stage::Held));
    assert_eq!(acks(&desk.beat(6, &mut a)), [A], "heartbeats are acknowledged all the same");
    assert!(confirm(&mut desk, 7, 3).contains(&Output::Resigned { term: TERM }));
}

#[test]
fn a_resignation_that_is_not_confirmed_in_time_is_given_up() {
    let mut desk = young(Rules::all());
    evidence(&mut desk, true, &[]);
    confirm(&mut desk, 2, 1);
    desk.tell(4, Input::Resign);
    assert_eq!(desk.lists.last(), Some(&list(2, true, &[ME])));
    assert_eq!(desk.expire(1_204), [Output::Notice(Notice::ResignationFailed { term: TERM })]);
    assert!(desk.allocator.may_allocate(at(1_204)), "it reigns on");
    let out = confirm(&mut desk, 1_205, 2);
    assert_eq!((out, desk.lists.last()), (vec![], Some(&list(3, true, &[]))), "and is a list of its own again");
}

#[test]
fn the_mutants_of_a_resignation_skip_the_list_or_the_confirmation() {
    let mut unlisted = young(Rules::without(Rule::ResignListed));
    evidence(&mut unlisted, true, &[]);
    confirm(&mut unlisted, 2, 1);
    assert_eq!(unlisted.tell(3, Input::Resign), [Output::Resigned { term: TERM }]);
    let mut hasty = young(Rules::without(Rule::ResignConfirmed));
    evidence(&mut hasty, true, &[]);
    confirm(&mut hasty, 2, 1);
    assert!(hasty.tell(3, Input::Resign).contains(&Output::Resigned { term: TERM }));
}
