//! What voters keep of reigns for their successors: E1-E3 and E9, each with its mutant, and resignation.

use std::vec;
use std::vec::Vec;

use super::bench::{Bench, FIRST, config, key};
use crate::election::{ElectionInput, ElectionOutput, Voter};
use crate::id::{NodeKey, Term};
use crate::machine::{Machine, Rule, Rules};
use crate::time::Instant;
use crate::wire::{Control, Exit, List};

fn list(term: Term, version: u32, members: &[u64]) -> List {
    List { term, version, complete: true, members: members.iter().map(|id| key(*id, 1)).collect() }
}

fn keys(ids: &[u64]) -> Vec<NodeKey> {
    ids.iter().map(|id| key(*id, 1)).collect()
}

/// What the node's reign was told of those before it.
fn evidence(bench: &Bench, node: usize) -> Option<(bool, Vec<NodeKey>)> {
    bench.said.iter().rev().find_map(|said| match said {
        (at, ElectionOutput::Evidence { complete, carried, .. }) if *at == node => Some((*complete, carried.clone())),
        _ => None,
    })
}

fn confirmed(bench: &Bench, node: usize) -> Vec<u32> {
    let version = |said: &(usize, ElectionOutput)| match said {
        (at, ElectionOutput::Confirmed { version, .. }) if *at == node => Some(*version),
        _ => None,
    };
    bench.said.iter().filter_map(version).collect()
}

/// Node 0 reigns, its evidence is decided, and every voter holds the list of nodes 7 and 8.
fn listed(rules: Rules) -> (Bench, Term) {
    let mut bench = Bench::new(rules);
    let term = bench.elect_first();
    bench.pass([100; 3]);
    bench.act(0);
    let lies = !rules.on(Rule::AmnesiaUnknown) || !rules.on(Rule::CandidateListless);
    assert_eq!(evidence(&bench, 0), Some((lies, vec![])), "nobody knew anything at the first boot");
    bench.handle(0, ElectionInput::Publish(list(term, 1, &[7, 8])));
    bench.settle(|_| true);
    assert_eq!(confirmed(&bench, 0), [1]);
    (bench, term)
}

/// The first coordinator is gone; node 1 asks those that `hears` names for their votes.
fn succeed(bench: &mut Bench, voters: &[u64]) {
    bench.pass([1_600; 3]);
    bench.mail.clear();
    bench.wall = 50;
    bench.act(1);
    let voters = voters.to_vec();
    bench.settle(move |letter| {
        let other = if letter.to == 1 { letter.from.id.0 } else { letter.to as u64 };
        voters.contains(&other)
    });
}

#[test]
fn a_round_carries_the_list_to_those_who_do_not_hold_it_and_nobody_else() {
    let (mut bench, term) = listed(Rules::all());
    bench.pass([250; 3]);
    bench.act(0);
    let request = |list| Control::LeaseRequest { term, round: 3, config: 1, list };
    assert!(bench.mail.iter().all(|letter| letter.message == request(None)), "{:?}", bench.mail[0].message);
    bench.settle(|_| true);
    bench.crash(2);
    bench.pass([1_600, 10, 1_600]);
    bench.clocks[0] = Instant::from_millis(FIRST + 351);
    bench.handle(
        0,
        ElectionInput::Heard {
            from: key(2, 2),
            message: Control::LeaseGranted { term, round: 3, config: 1, stored: None },
        },
    );
    bench.mail.clear();
    bench.pass([250, 0, 0]);
    bench.act(0);
    let lists = bench.mail.iter().map(|letter| matches!(letter.message, Control::LeaseRequest { list: Some(_), .. }));
    assert_eq!(lists.collect::<Vec<_>>(), [false, true], "the voter that forgot it gets it again");
}

#[test]
fn a_version_is_confirmed_by_a_majority_and_never_taken_back() {
    let (mut bench, term) = listed(Rules::all());
    bench.handle(0, ElectionInput::Publish(list(term, 2, &[6, 7, 8])));
    assert_eq!(confirmed(&bench, 0), [1], "its own vote is one of three");
    bench.deliver(0, 2);
    bench.deliver(2, 0);
    assert_eq!(confirmed(&bench, 0), [1, 2]);
    bench.mail.clear();
    let late = Control::LeaseGranted { term, round: 1, config: 1, stored: Some(list(term, 1, &[])) };
    bench.handle(0, ElectionInput::Heard { from: key(2, 1), message: late });
    bench.handle(0, ElectionInput::Publish(list(term, 1, &[])));
    assert_eq!(confirmed(&bench, 0), [1, 2]);
    assert!(bench.mail.is_empty(), "an older version is not published");
}

#[test]
fn a_list_counts_only_from_the_reign_that_keeps_it() {
    let (mut bench, term) = listed(Rules::all());
    let other = Term { counter: term.counter + 9, node: key(1, 1) };
    let message = Control::LeaseRequest { term, round: 9, config: 1, list: Some(list(other, 1, &[])) };
    bench.handle(2, ElectionInput::Heard { from: key(0, 1), message });
    assert_eq!(bench.nodes[2].voter().unwrap().list().map(|list| list.term), Some(term));
}

#[test]
fn the_newest_of_a_majoritys_lists_is_the_evidence() {
    let (mut bench, _) = listed(Rules::all());
    succeed(&mut bench, &[2]);
    assert_eq!(evidence(&bench, 1), Some((true, keys(&[7, 8]))), "with the votes, at once");
}

#[test]
fn without_a_majority_of_lists_the_evidence_is_incomplete_after_its_time() {
    for rules in [Rules::all(), Rules::without(Rule::ListMajority)] {
        let (mut bench, _) = listed(rules);
        bench.crash(2);
        succeed(&mut bench, &[2]);
        if rules.on(Rule::ListMajority) {
            assert_eq!(evidence(&bench, 1), None, "one voter forgot, so one list is not enough");
            bench.pass([100; 3]);
            bench.act(1);
            assert_eq!(evidence(&bench, 1), Some((false, keys(&[7, 8]))), "yet what it names is carried");
        } else {
            assert!(evidence(&bench, 1).is_some_and(|(complete, _)| complete), "`oneknown` kills the mutant");
        }
    }
}

#[test]
fn a_voter_that_forgot_everything_does_not_know_an_empty_list() {
    for rules in [Rules::all(), Rules::without(Rule::AmnesiaUnknown)] {
        let (mut bench, _) = listed(rules);
        bench.crash(1);
        bench.crash(2);
        bench.pass([0, 1_600, 1_600]);
        succeed(&mut bench, &[2]);
        let complete = evidence(&bench, 1).is_some_and(|(complete, _)| complete);
        assert_eq!(complete, !rules.on(Rule::AmnesiaUnknown), "E9");
    }
}

#[test]
fn a_candidate_does_not_wipe_the_lists() {
    for rules in [Rules::all(), Rules::without(Rule::CandidateListless)] {
        let (mut bench, term) = listed(rules);
        succeed(&mut bench, &[2]);
        let held = bench.nodes[2].voter().unwrap().list().map(|list| list.term);
        assert_eq!(held == Some(term), rules.on(Rule::CandidateListless), "E2");
    }
}

#[test]
fn an_older_list_never_takes_the_place_of_a_newer_one() {
    let (old, new) = (Term { counter: 5, node: key(0, 1) }, Term { counter: 6, node: key(1, 1) });
    for rules in [Rules::all(), Rules::without(Rule::ListGrows)] {
        let (mut voter, config) = (Voter::new(Instant::ZERO), config(2, 1, rules));
        for list in [list(new, 2, &[7]), list(new, 1, &[]), list(old, 9, &[])] {
            voter.store(list, &config);
        }
        assert_eq!(voter.list().is_some_and(|list| list.version == 2), rules.on(Rule::ListGrows), "E1");
        assert_eq!(
            voter.stored(old, &config).is_some_and(|list| list.members == keys(&[7])),
            rules.on(Rule::ListGrows)
        );
    }
}

/// Two voters hold lists of different age; the newer one names node 8.
#[test]
fn of_two_lists_the_newer_one_counts() {
    for (rule, carried) in
        [(None, keys(&[7, 8])), (Some(Rule::ListNewest), keys(&[7])), (Some(Rule::ListCarried), vec![])]
    {
        let rules = rule.map_or(Rules::all(), Rules::without);
        let (mut bench, term) = listed(rules);
        bench.handle(0, ElectionInput::Publish(list(term, 2, &[7])));
        bench.settle(|letter| letter.from.id.0 == 0);
        bench.handle(0, ElectionInput::Publish(list(term, 3, &[7, 8])));
        bench.settle(|letter| (letter.from.id.0, letter.to) == (0, 2));
        succeed(&mut bench, &[2]);
        assert_eq!(evidence(&bench, 1), Some((true, carried)), "{rule:?}");
    }
}

#[test]
fn who_resigns_frees_the_voters_at_once_and_rests() {
    let (mut bench, term) = listed(Rules::all());
    bench.handle(0, ElectionInput::Resign { term: Term { counter: term.counter + 1, ..term } });
    assert_eq!(bench.reign(0), Some(term), "that is another reign");
    bench.handle(0, ElectionInput::Resign { term });
    let lost = ElectionOutput::Lost { term, resigned: true };
    assert!(bench.said.iter().any(|(node, said)| (*node, said) == (0, &lost)));
    assert!(bench.nodes[0].deadline() >= Some(bench.clocks[0] + bench.nodes[0].config().timing().lease * 3));
    let release = Control::Release { term, exit: Exit::Resigned };
    assert_eq!(bench.mail.iter().map(|letter| letter.message == release).collect::<Vec<_>>(), [true, true]);
    bench.settle(|_| true);
    bench.run(40, |_| true);
    assert!(bench.reign(1).is_some(), "the next in rank follows within milliseconds");
    assert_eq!(evidence(&bench, 1), Some((true, keys(&[7, 8]))));
}
