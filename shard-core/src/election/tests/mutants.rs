//! Each rule, in the shortest schedule that shows what it is for: with the rule on the invariant holds, with the rule off
//! the same schedule breaks it.

use super::bench::{Bench, FIRST};
use crate::machine::{Rule, Rules};
use crate::wire::Control;

/// The invariant holds with every rule on, and the schedule breaks it without `rule`.
fn needed(rule: Rule, broken: impl Fn(Rules) -> bool) {
    assert!(!broken(Rules::all()), "the protocol itself breaks its invariant");
    assert!(broken(Rules::without(rule)), "{} survives", rule.mutant());
}

#[test]
fn a_lease_without_the_drift_factor_lets_two_reign() {
    needed(Rule::DriftFactor, |rules| {
        let mut bench = Bench::new(rules);
        bench.elect_first();
        bench.pass([800, 1_200, 1_200]);
        bench.elect_second();
        bench.reigns() == 2
    });
}

#[test]
fn a_silence_without_the_drift_factor_lets_two_reign() {
    needed(Rule::DriftFactor, |rules| {
        let mut bench = Bench::new(rules);
        bench.elect_first();
        bench.crash(2);
        bench.pass([800, 1_200, 1_200]);
        bench.elect_second();
        bench.reigns() == 2
    });
}

#[test]
fn a_restarted_voter_that_is_not_silent_lets_two_reign() {
    needed(Rule::VoterSilence, |rules| {
        let mut bench = Bench::new(rules);
        bench.elect_first();
        bench.crash(2);
        bench.pass([60; 3]);
        bench.elect_second();
        bench.reigns() == 2
    });
}

#[test]
fn a_reign_that_counts_from_the_answer_lets_two_reign() {
    needed(Rule::ReignFromSend, |rules| {
        let mut bench = Bench::new(rules);
        bench.pass([FIRST; 3]);
        bench.act(0);
        bench.deliver(0, 2);
        bench.pass([100, 150, 150]);
        bench.deliver(2, 0);
        assert!(bench.reign(0).is_some());
        bench.pass([920, 1_380, 1_380]);
        bench.elect_second();
        bench.reigns() == 2
    });
}

#[test]
fn votes_of_two_rounds_added_up_let_two_reign() {
    needed(Rule::OneRound, |rules| {
        let mut bench = Bench::new(rules);
        bench.elect_first();
        bench.pass([250; 3]);
        bench.act(0);
        bench.deliver(0, 2);
        bench.pass([250; 3]);
        bench.act(0);
        bench.deliver(2, 0);
        bench.pass([950, 1_425, 1_425]);
        bench.elect_second();
        bench.reigns() == 2
    });
}

#[test]
fn a_late_release_of_a_former_candidacy_must_not_free_a_voter() {
    needed(Rule::ReleaseTerm, |rules| {
        let mut bench = Bench::new(rules);
        bench.pass([FIRST; 3]);
        bench.act(0);
        bench.deliver(0, 2);
        bench.pass([120; 3]);
        bench.act(0);
        bench.pass([60; 3]);
        bench.act(0);
        let request = |message: &Control| matches!(message, Control::LeaseRequest { .. });
        bench.deliver_if(0, 2, request);
        bench.deliver_if(2, 0, |message| matches!(message, Control::LeaseGranted { term, .. } if term.counter == 6));
        assert!(bench.reign(0).is_some());
        bench.deliver_if(0, 2, |message| matches!(message, Control::Release { .. }));
        bench.elect_second();
        bench.reigns() == 2
    });
}

#[test]
fn a_vote_for_a_former_life_must_not_count() {
    needed(Rule::Incarnation, |rules| {
        let mut bench = Bench::new(rules);
        bench.pass([FIRST; 3]);
        bench.act(0);
        bench.deliver(0, 2);
        let vote = bench.mail.pop().expect("voter 2 granted");
        bench.mail.clear();
        // The host's wall clock stands still, so the next life takes the same counter again.
        bench.crash(0);
        bench.pass([FIRST; 3]);
        bench.act(0);
        bench.mail = [vote].into();
        bench.deliver(2, 0);
        bench.elect_second();
        bench.reigns() == 2
    });
}

#[test]
fn a_lapsed_reign_must_not_come_back() {
    needed(Rule::ContiguousReign, |rules| {
        let mut bench = Bench::new(rules);
        let term = bench.elect_first();
        bench.pass([1_100; 3]);
        assert_eq!(bench.reign(0), None);
        bench.act(0);
        bench.settle(|_| true);
        bench.reign(0) == Some(term)
    });
}

#[test]
fn mail_that_waited_out_a_pause_must_not_bring_a_reign_back() {
    needed(Rule::AdvanceFirst, |rules| {
        let mut bench = Bench::new(rules);
        let term = bench.elect_first();
        bench.pass([500; 3]);
        bench.act(0);
        bench.deliver(0, 2);
        bench.pass([600; 3]);
        assert_eq!(bench.reign(0), None);
        bench.deliver(2, 0);
        bench.reign(0) == Some(term)
    });
}

#[test]
fn candidates_that_release_nothing_stall_the_next_election() {
    needed(Rule::ReleaseAlways, |rules| {
        let mut bench = Bench::new(rules);
        // Node 2 hears nobody for a while, so 0 and 1 have only each other; each has voted for itself.
        bench.pass([FIRST + 60; 3]);
        bench.act(0);
        bench.act(1);
        bench.settle(|letter| letter.to != 2 && letter.from.id.0 != 2);
        bench.run(500, |letter| letter.to != 2 && letter.from.id.0 != 2);
        bench.elections() == 0
    });
}

#[test]
fn a_failed_candidacy_that_keeps_its_promise_locks_the_coordinator_out() {
    needed(Rule::RestorePromise, |rules| {
        let mut bench = Bench::new(rules);
        bench.run(FIRST + 500, |_| true);
        assert!(bench.reign(0).is_some());
        bench.run(3_000, |letter| letter.to != 1 && letter.from.id.0 != 1);
        let term = bench.reign(0).expect("two of three voters are enough");
        bench.run(1_000, |_| true);
        let holder = bench.nodes[1].voter().and_then(|voter| voter.holder(bench.clocks[1]));
        assert_eq!(bench.reign(0), Some(term), "L3: a reigning coordinator ignores refusals");
        holder != Some(term)
    });
}
