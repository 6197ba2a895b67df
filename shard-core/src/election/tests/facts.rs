//! Small facts about voters, candidates and their configuration.

use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::bench::{Bench, FIRST, config, drifting, key};
use crate::election::{
    Answer, Campaign, Election, ElectionConfig, ElectionConfigError, ElectionInput, ElectionOutput, Voter,
};
use crate::id::{NodeId, NodeKey, Term};
use crate::machine::{Fixed, Machine, Notice, Rules, Timing};
use crate::time::{Duration, Instant};
use crate::wire::{Control, Exit};

const fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

const fn term(counter: u64, node: u64) -> Term {
    Term { counter, node: key(node, 1) }
}

fn ids(ids: &[u64]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

#[test]
fn a_voter_lends_to_one_node_until_the_lease_has_passed() {
    let (mut voter, config) = (Voter::new(at(0)), config(2, 1, Rules::all()));
    assert_eq!(voter.ask(at(10), term(5, 0), &config), Answer::Granted { until: at(1_510) });
    assert_eq!(voter.ask(at(1_509), term(9, 1), &config), Answer::Refused { promised: term(5, 0) });
    assert_eq!(voter.ask(at(1_510), term(9, 1), &config), Answer::Granted { until: at(3_010) });
    assert_eq!(voter.ask(at(9_000), term(5, 0), &config), Answer::Refused { promised: term(9, 1) });
}

#[test]
fn a_voter_says_nothing_before_its_silence_ends() {
    let (mut voter, config) = (Voter::new(at(100)), config(2, 1, Rules::all()));
    assert_eq!(voter.ask(at(99), term(5, 0), &config), Answer::Silence);
    assert!(!voter.speaks(at(99)) && voter.speaks(at(100)));
    assert!(matches!(voter.ask(at(100), term(5, 0), &config), Answer::Granted { .. }));
}

#[test]
fn no_two_nodes_get_one_counter_from_a_voter() {
    let (mut voter, config) = (Voter::new(at(0)), config(2, 1, Rules::all()));
    voter.ask(at(0), term(5, 0), &config);
    assert!(voter.release(term(5, 0), true, &config));
    let other = term(5, 1);
    assert!(other > term(5, 0));
    assert_eq!(voter.ask(at(1), other, &config), Answer::Refused { promised: term(5, 0) });
    let next_life = Term { counter: 5, node: key(0, 2) };
    assert_eq!(voter.ask(at(1), next_life, &config), Answer::Refused { promised: term(5, 0) });
}

#[test]
fn a_term_that_never_reigned_takes_its_promise_back_and_one_that_reigned_keeps_it() {
    let (mut voter, config) = (Voter::new(at(0)), config(2, 1, Rules::all()));
    voter.ask(at(0), term(5, 0), &config);
    voter.ask(at(2_000), term(7, 1), &config);
    assert!(voter.release(term(7, 1), false, &config));
    assert!(!voter.release(term(7, 1), false, &config), "a repeated release changes nothing");
    assert!(matches!(voter.ask(at(2_001), term(5, 0), &config), Answer::Granted { .. }));
    assert!(voter.release(term(5, 0), true, &config));
    assert_eq!(voter.ask(at(2_002), term(4, 1), &config), Answer::Refused { promised: term(5, 0) });
}

#[test]
fn a_voter_tells_who_reigns_while_its_lease_runs() {
    let mut bench = Bench::new(Rules::all());
    let term = bench.elect_first();
    let from = key(9, 1);
    bench.handle(2, ElectionInput::Heard { from, message: Control::WhoReigns });
    assert_eq!(bench.mail[0].to, 9);
    assert_eq!(bench.mail[0].message, Control::Reign { term, address: String::new() });
    bench.pass([0, 0, 1_500]);
    bench.mail.clear();
    bench.handle(2, ElectionInput::Heard { from, message: Control::WhoReigns });
    bench.handle(1, ElectionInput::Heard { from, message: Control::WhoReigns });
    assert!(bench.mail.is_empty(), "who lends to nobody has nothing to say");
}

#[test]
fn a_reign_counts_from_the_round_and_is_renewed() {
    let mut bench = Bench::new(Rules::all());
    let term = bench.elect_first();
    assert_eq!(bench.nodes[0].valid_until(), Some(at(FIRST + 1_000)));
    bench.pass([250; 3]);
    bench.act(0);
    assert_eq!(bench.mail.len(), 2);
    bench.deliver(0, 2);
    bench.pass([40; 3]);
    bench.deliver(2, 0);
    assert_eq!(bench.nodes[0].valid_until(), Some(at(FIRST + 1_250)));
    assert_eq!(bench.nodes[0].reigning(at(FIRST + 1_249)), Some(term));
    assert_eq!(bench.nodes[0].reigning(at(FIRST + 1_250)), None);
}

#[test]
fn nobody_hears_that_a_reign_is_over_before_what_it_kept_alive_has_stopped() {
    let mut bench = Bench::new(Rules::all());
    let term = bench.elect_first();
    bench.pass([1_000; 3]);
    let mut out = Vec::new();
    bench.nodes[0].expire(bench.clocks[0], &mut out);
    let ended = ElectionOutput::Notice(Notice::ReignEnded { term });
    assert_eq!(out, [ElectionOutput::Lost { term, resigned: false }, ended]);
    assert_eq!(bench.nodes[0].voter().unwrap().holder(bench.clocks[0]), Some(term), "nor does its own voter");
    // A vote that comes late is not given back yet either.
    let from = |node, message| ElectionInput::Heard { from: key(node, 1), message };
    out.clear();
    let late = Control::LeaseGranted { term, round: 1, config: 1, stored: None };
    bench.nodes[0].handle(bench.clocks[0], from(1, late.clone()), &mut out);
    assert_eq!(out, []);

    bench.nodes[0].handle(bench.clocks[0], ElectionInput::Stopped { term }, &mut out);
    let release = |to| ElectionOutput::Send { to: NodeId(to), message: Control::Release { term, exit: Exit::Reigned } };
    assert_eq!(out, [release(1), release(2)]);
    assert_eq!(bench.nodes[0].voter().unwrap().holder(bench.clocks[0]), None, "its own voter is free as well");
    out.clear();
    bench.nodes[0].handle(bench.clocks[0], from(1, late), &mut out);
    assert_eq!(out, [release(1)]);
}

#[test]
fn a_candidate_gives_way_to_a_greater_counter_and_a_coordinator_does_not() {
    let mut bench = Bench::new(Rules::all());
    bench.pass([FIRST; 3]);
    bench.act(0);
    let (mine, promised) = (bench.nodes[0].campaign().unwrap().term().unwrap(), term(50, 1));
    let refusal =
        ElectionInput::Heard { from: key(1, 1), message: Control::LeaseRefused { term: mine, promised, config: 1 } };
    bench.mail.clear();
    bench.handle(0, refusal.clone());
    assert_eq!(bench.nodes[0].campaign().unwrap().term(), None);
    assert!(
        bench.mail.iter().all(|letter| letter.message == Control::Release { term: mine, exit: Exit::NeverReigned })
    );
    assert_eq!(bench.mail.len(), 2);

    let mut bench = Bench::new(Rules::all());
    let mine = bench.elect_first();
    bench.handle(0, refusal);
    assert_eq!(bench.reign(0), Some(mine), "L3");
}

#[test]
fn the_next_term_is_greater_than_any_counter_heard_of() {
    let mut bench = Bench::new(Rules::all());
    bench.pass([FIRST; 3]);
    bench.handle(
        0,
        ElectionInput::Heard { from: key(9, 1), message: Control::Announce { term: term(77, 1), committed: 0 } },
    );
    bench.act(0);
    assert_eq!(bench.nodes[0].campaign().unwrap().term(), Some(term(78, 0)));
}

#[test]
fn a_regions_nack_deposes_only_if_it_names_a_greater_term() {
    let mut bench = Bench::new(Rules::all());
    let mine = bench.elect_first();
    let nack = |max_term| ElectionInput::Heard { from: key(9, 1), message: Control::Nack { max_term } };
    bench.handle(0, nack(term(1, 1)));
    bench.handle(0, nack(mine));
    assert_eq!(bench.reign(0), Some(mine));
    bench.handle(0, nack(term(mine.counter, 1)));
    assert_eq!(bench.reign(0), None);
}

#[test]
fn a_counter_learnt_costs_the_reign_and_brings_a_greater_term_at_once() {
    let mut bench = Bench::new(Rules::all());
    let mine = bench.elect_first();
    bench.handle(0, ElectionInput::LearnedCounter(mine.counter - 1));
    assert_eq!(bench.reign(0), Some(mine));
    bench.handle(0, ElectionInput::LearnedCounter(mine.counter + 3));
    assert_eq!(bench.reign(0), None);
    bench.act(0);
    bench.settle(|_| true);
    assert_eq!(bench.reign(0), Some(term(mine.counter + 4, 0)));
}

#[test]
fn who_steps_down_lets_another_reign() {
    let mut bench = Bench::new(Rules::all());
    bench.run(FIRST + 1, |_| true);
    bench.handle(0, ElectionInput::StepDown);
    bench.settle(|_| true);
    bench.run(130, |_| true);
    assert!(bench.reign(1).is_some(), "the next rank, after its stagger");
    assert_eq!(bench.elections(), 2);
}

#[test]
fn a_vote_for_an_abandoned_term_is_given_back() {
    let mut bench = Bench::new(Rules::all());
    bench.pass([FIRST; 3]);
    bench.act(0);
    let mine = bench.nodes[0].campaign().unwrap().term().unwrap();
    bench.pass([120; 3]);
    bench.act(0);
    bench.deliver_if(0, 2, |message| matches!(message, Control::Release { .. }));
    bench.deliver_if(0, 2, |message| matches!(message, Control::LeaseRequest { .. }));
    assert_eq!(bench.nodes[2].voter().unwrap().holder(bench.clocks[2]), Some(mine), "the request outran its release");
    bench.deliver(2, 0);
    bench.deliver_if(0, 2, |message| *message == Control::Release { term: mine, exit: Exit::NeverReigned });
    assert_eq!(bench.nodes[2].voter().unwrap().holder(bench.clocks[2]), None);
}

#[test]
fn a_vote_given_meanwhile_beats_the_answer_to_the_wall_question() {
    let mut bench = Bench::new(Rules::all());
    bench.pass([FIRST + 60; 3]);
    let mut out = Vec::new();
    bench.nodes[1].expire(bench.clocks[1], &mut out);
    assert_eq!(out, [ElectionOutput::NeedWall]);
    bench.act(0);
    bench.deliver(0, 1);
    bench.handle(1, ElectionInput::Start { wall: 5 });
    assert!(matches!(bench.nodes[1].campaign(), Some(Campaign::Idle { .. })));
}

#[test]
fn an_unanswered_wall_question_is_asked_again() {
    let mut node = Election::new(at(0), config(0, 1, Rules::all()));
    for _ in 0..3 {
        let mut out = Vec::new();
        node.expire(node.deadline().unwrap(), &mut out);
        assert_eq!(out, [ElectionOutput::NeedWall]);
    }
}

#[test]
fn frames_in_anothers_name_and_absurd_counters_are_dropped_with_a_notice() {
    let mut bench = Bench::new(Rules::all());
    bench.pass([FIRST; 3]);
    let before = bench.nodes[2].clone();
    let heard = |from: NodeKey, message| ElectionInput::Heard { from, message };
    bench.handle(2, heard(key(1, 1), Control::LeaseRequest { term: term(5, 0), round: 1, config: 1, list: None }));
    bench.handle(2, heard(key(1, 1), Control::Release { term: term(5, 0), exit: Exit::Reigned }));
    bench.handle(2, heard(key(1, 1), Control::Announce { term: term(u64::MAX, 1), committed: 0 }));
    bench.handle(2, ElectionInput::LearnedCounter(u64::MAX));
    assert!(bench.mail.is_empty());
    let not_yours = ElectionOutput::Notice(Notice::NotYours { from: key(1, 1) });
    assert_eq!(bench.said.iter().filter(|(_, output)| *output == not_yours).count(), 2);
    assert_eq!(bench.said.len(), 4);
    let mut learnt = before;
    learnt.handle(bench.clocks[2], ElectionInput::LearnedCounter(5), &mut Vec::new());
    assert_eq!(bench.nodes[2], learnt, "only an honest counter was remembered");

    bench.act(0);
    let mine = bench.nodes[0].campaign().unwrap().term().unwrap();
    bench.handle(0, heard(key(9, 1), Control::LeaseGranted { term: mine, round: 1, config: 1, stored: None }));
    assert_eq!(bench.reign(0), None, "a stranger has no vote");
}

#[test]
fn one_voter_that_is_alone_reigns_at_once_and_stays() {
    let alone = ElectionConfig::new(key(0, 1), ids(&[0]), Timing::lan()).unwrap().alone().unwrap();
    let mut node = Election::new(at(7), Fixed::new(alone));
    let mut out = Vec::new();
    node.expire(at(7), &mut out);
    node.handle(at(7), ElectionInput::Start { wall: 1_000 }, &mut out);
    assert_eq!(out, [ElectionOutput::NeedWall, ElectionOutput::Elected { term: term(1_000, 0) }]);
    out.clear();
    for _ in 0..20 {
        let due = node.deadline().unwrap();
        node.expire(due, &mut out);
        assert_eq!(node.reigning(due), Some(term(1_000, 0)));
    }
    let evidence = ElectionOutput::Evidence { term: term(1_000, 0), complete: false, carried: vec![] };
    assert_eq!(out, [evidence], "it talks to nobody, and after a restart it knows nothing");
}

#[test]
fn three_of_five_votes_make_a_reign() {
    let five = ElectionConfig::new(key(0, 1), ids(&[0, 1, 2, 3, 4]), Timing::lan()).unwrap();
    let mut node = Election::new(at(0), Fixed::new(five));
    let (now, mut out) = (node.deadline().unwrap(), Vec::new());
    node.expire(now, &mut out);
    node.handle(now, ElectionInput::Start { wall: 7 }, &mut out);
    assert_eq!(out.len(), 1 + 4, "one request to each other voter");
    let message = Control::LeaseGranted { term: term(7, 0), round: 1, config: 1, stored: None };
    for voter in [3, 3] {
        node.handle(now, ElectionInput::Heard { from: key(voter, 1), message: message.clone() }, &mut out);
        assert_eq!(node.reigning(now), None, "a vote that comes twice counts once");
    }
    node.handle(now, ElectionInput::Heard { from: key(1, 1), message }, &mut out);
    assert_eq!(node.reigning(now), Some(term(7, 0)));
}

#[test]
fn one_voter_that_is_not_alone_is_silent_first() {
    let single = ElectionConfig::new(key(0, 1), ids(&[0]), Timing::lan()).unwrap();
    let node = Election::new(at(0), Fixed::new(single));
    assert_eq!(node.deadline(), Some(at(1_225 + 500)));
}

#[test]
fn who_does_not_vote_never_campaigns() {
    let guest = ElectionConfig::new(key(9, 1), ids(&[0, 1, 2]), Timing::lan()).unwrap();
    let mut node = Election::new(at(0), Fixed::new(guest));
    let mut out = Vec::new();
    node.handle(at(0), ElectionInput::Start { wall: 3 }, &mut out);
    node.handle(at(0), ElectionInput::StepDown, &mut out);
    let message = Control::LeaseRequest { term: term(5, 0), round: 1, config: 1, list: None };
    node.handle(at(0), ElectionInput::Heard { from: key(0, 1), message }, &mut out);
    node.expire(at(1_000_000), &mut out);
    assert_eq!((node.deadline(), out), (None, vec![]));
}

#[test]
fn bad_voters_and_bad_times_are_refused() {
    let refused = |voters: &[u64]| ElectionConfig::new(key(0, 1), ids(voters), Timing::lan()).err();
    assert_eq!(refused(&[]), Some(ElectionConfigError::VoterCount { count: 0 }));
    assert_eq!(refused(&[0, 1]), Some(ElectionConfigError::VoterCount { count: 2 }));
    assert_eq!(refused(&[0, 1, 0]), Some(ElectionConfigError::DuplicateVoter { voter: NodeId(0) }));
    assert_eq!(refused(&[4, 3, 2, 1, 0]), None);
    let changing = |voters: &[u64]| ElectionConfig::during_change(key(0, 1), ids(voters), Timing::lan());
    assert_eq!(changing(&[0, 1]).unwrap().majority(), 2);
    assert_eq!(changing(&[3, 2, 1, 0]).unwrap().majority(), 3);
    assert!(changing(&[0, 1, 2, 3, 4, 5]).is_err());
    let alone = ElectionConfig::new(key(0, 1), ids(&[1]), Timing::lan()).unwrap().alone();
    assert!(matches!(alone, Err(ElectionConfigError::NotAlone)));
    let short = Timing { lease: Duration::from_millis(1), ..Timing::lan() };
    let error = ElectionConfig::new(key(0, 1), ids(&[0]), short).unwrap_err();
    assert!(error.to_string().contains("S1"), "{error}");
}

#[test]
fn nothing_depends_on_where_the_clock_began() {
    // The one visitor reaches every instant: a machine shifted through it acts as one that started later.
    const LATER: Duration = Duration::from_millis(123_456);
    let single = Fixed::new(
        ElectionConfig::new(key(0, 1), ids(&[0]), Timing { stagger: Duration::ZERO, ..drifting() }).unwrap(),
    );
    let mut early = Election::new(at(0), single.clone());
    let mut late = Election::new(at(0) + LATER, single);
    for _ in 0..12 {
        let mut shifted = early.clone();
        shifted.each_instant(&mut |instant| *instant = *instant + LATER);
        assert_eq!(shifted, late);
        let due = early.deadline().unwrap();
        for (node, now) in [(&mut early, due), (&mut late, due + LATER)] {
            node.expire(now, &mut Vec::new());
            node.handle(now, ElectionInput::Start { wall: 9 }, &mut Vec::new());
        }
    }
    assert!(early.valid_until().is_some());
}
