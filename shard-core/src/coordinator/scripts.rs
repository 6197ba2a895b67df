//! The shortest harm that each rule prevents, step by step, over the real machines: one coordinator, two regions, one
//! shard. Each script runs with all rules (nothing may happen) and with its rule off (it must).

use super::world::{World, ms, shard, timing};
use crate::{
    machine::{Rule, Rules},
    session,
};

/// W and a bit, in milliseconds.
const OVER: u64 = 1_110;

/// What a script may break.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Harm {
    /// I1: two live owners.
    DoubleOwner,
    /// I7: a claim that the table gives to somebody else.
    Conflict,
}

fn harms(rules: Rules, script: fn(&mut World)) -> (bool, bool) {
    let mut world = World::new(rules, timing(), 2);
    script(&mut world);
    (world.owners_max > 1, world.conflicts > 0)
}

/// The harm happens without the rule, and neither harm happens with it.
fn proves(rule: Rule, harm: Harm, script: fn(&mut World)) {
    assert_eq!(harms(Rules::all(), script), (false, false), "all rules on, yet (double owner, conflict)");
    let (double, conflict) = harms(Rules::without(rule), script);
    let harmed = if harm == Harm::DoubleOwner { double } else { conflict };
    assert!(harmed, "{rule:?} off, and no {harm:?}");
}

/// A reign begins, its window passes without anybody, then both regions hear of it.
fn begin(w: &mut World) {
    w.elect(0);
    w.pass(OVER);
    w.announce(0);
    w.announce(1);
    w.mail.clear();
}

#[test]
fn a_wait_without_the_drift_factor_ends_before_a_slow_owner_does() {
    proves(Rule::DriftFactor, Harm::DoubleOwner, |w| {
        begin(w);
        w.rounds(0);
        w.rounds(1);
        let grant = w.grant(0, 0);
        w.deliver_all(&grant);
        w.rounds(0);
        // The coordinator's clock runs 5 % fast, the owner's 5 % slow.
        for _ in 0..49 {
            w.tick(21, &[19, 21]);
            w.expire_coordinator(0);
            let beats = w.beat(1);
            w.deliver_all(&beats);
            let acks = w.for_region(1);
            w.deliver_all(&acks);
            let grant = w.grant(0, 1);
            w.deliver_all(&grant);
        }
    });
}

#[test]
fn validity_from_receipt_outlives_the_coordinators_wait() {
    proves(Rule::ValidityFromSend, Harm::DoubleOwner, |w| {
        begin(w);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        w.for_region(0);
        let late = w.grant(0, 0);
        w.pass(OVER);
        w.deliver_all(&late);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
    });
}

#[test]
fn an_ack_for_the_process_before_fits_the_process_after() {
    proves(Rule::Incarnation, Harm::DoubleOwner, |w| {
        begin(w);
        let old_beats = w.beat(0);
        w.crash(0);
        w.deliver_all(&old_beats);
        let from = w.seats[0].key;
        let to = crate::id::NodeKey { incarnation: crate::id::Incarnation(1), ..w.regions[0].key };
        w.mail.clear();
        w.tell(0, super::Input::Allocate { key: shard(0), to });
        w.expire_coordinator(0);
        let old_grant = w.take(from, to);
        w.pass(OVER);
        w.announce(0);
        w.beat(0);
        w.deliver_all(&old_grant);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
    });
}

#[test]
fn a_grant_of_an_older_term_is_obeyed_beside_a_newer_one() {
    proves(Rule::TermOfCommands, Harm::DoubleOwner, |w| {
        begin(w);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        w.for_region(0);
        let old_grant = w.grant(0, 0);
        begin(w);
        w.rounds(0);
        w.deliver_all(&old_grant);
        // Its report would show the shard: it stays in the post.
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
    });
}

#[test]
fn a_lapsed_session_under_the_same_number_obeys_its_old_commands_again() {
    proves(Rule::SessionBump, Harm::DoubleOwner, |w| {
        begin(w);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        w.for_region(0);
        w.tell(0, super::Input::Allocate { key: shard(0), to: w.regions[0].key });
        w.drain(0, ms(100));
        w.expire_coordinator(0);
        let both = w.for_region(0);
        w.deliver_all(&both);
        w.lanes_drain(0);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        // The coordinator hears beats until the end; no ack comes through, so the session lapses.
        for _ in 0..110 {
            let beats = w.beat(0);
            w.deliver_all(&beats);
            w.for_region(0);
        }
        w.rounds(0);
        w.deliver_all(&both);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
    });
}

#[test]
fn heartbeats_kept_over_a_lapse_harm_nobody_while_the_session_number_grows() {
    // Defence in depth: the number on the ack covers it. The script of the rule above must stay harmless.
    let script = |w: &mut World| {
        begin(w);
        w.rounds(0);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        w.for_region(0);
        let late = w.grant(0, 0);
        w.pass(OVER);
        w.expire_region(0);
        w.deliver_all(&late);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
    };
    assert_eq!(harms(Rules::without(Rule::ForgetSent), script), (false, false));
}

#[test]
fn a_session_that_expired_unborn_is_made_anew_and_its_old_grant_fits() {
    proves(Rule::DeadSessions, Harm::DoubleOwner, |w| {
        begin(w);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        w.for_region(0);
        let late = w.grant(0, 0);
        w.pass(OVER);
        w.rounds(0);
        w.deliver_all(&late);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
    });
}

#[test]
fn a_drain_that_takes_too_long_is_not_given_away() {
    proves(Rule::NoForcedHandoff, Harm::DoubleOwner, |w| {
        begin(w);
        w.rounds(0);
        w.tell(0, super::Input::Allocate { key: shard(0), to: w.regions[0].key });
        w.drain(0, ms(20));
        let beats = w.beat(0);
        w.deliver_all(&beats);
        let both = w.for_region(0);
        w.pass(30);
        w.deliver_all(&both);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
    });
}

#[test]
fn a_new_coordinator_that_does_not_wait_grants_what_is_still_on_its_way() {
    proves(Rule::Quarantine, Harm::DoubleOwner, |w| {
        begin(w);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        w.for_region(0);
        let late = w.grant(0, 0);
        w.elect(0);
        w.mail.clear();
        w.announce(1);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&late);
        w.deliver_all(&grant);
    });
}

#[test]
fn a_grant_taken_while_dead_comes_to_life_under_the_next_reign() {
    proves(Rule::GrantOnlyWhileLive, Harm::DoubleOwner, |w| {
        begin(w);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        w.for_region(0);
        let late = w.grant(0, 0);
        w.pass(OVER);
        w.deliver_all(&late);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.elect(0);
        w.mail.clear();
        w.announce(0);
        w.rounds(0);
        w.deliver_all(&grant);
    });
}

#[test]
fn a_heartbeat_sent_before_the_election_is_no_report_of_this_reign() {
    proves(Rule::HeartbeatTerm, Harm::Conflict, |w| {
        begin(w);
        w.rounds(0);
        w.rounds(1);
        let grant = w.grant(0, 0);
        w.deliver_all(&grant);
        let old = w.beat(0);
        w.deliver_all(&old);
        w.drain(0, ms(100));
        w.expire_coordinator(0);
        let drain = w.for_region(0);
        w.deliver_all(&drain);
        w.lanes_drain(0);
        w.rounds(0);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
        assert_eq!(w.owner(0), Some(1));
        w.elect(0);
        w.mail.clear();
        w.announce(1);
        w.rounds(1);
        w.deliver_all(&old);
    });
}

#[test]
fn absent_is_not_free_while_a_grant_is_on_its_way() {
    proves(Rule::AppliedBeforeFree, Harm::DoubleOwner, |w| {
        begin(w);
        w.rounds(0);
        let late = w.grant(0, 0);
        let beats = w.beat(0);
        // A change of its own makes this beat carry a report.
        w.say(
            0,
            session::Input::Registered(crate::wire::KindReport { kind: crate::id::Kind(8), shards: 1, hosts: false }),
        );
        w.deliver_all(&beats);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        w.for_region(0);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
        w.deliver_all(&late);
    });
}

#[test]
fn an_older_heartbeat_of_the_same_session_claims_what_was_given_away() {
    proves(Rule::SequenceGrows, Harm::Conflict, |w| {
        begin(w);
        w.rounds(0);
        let grant = w.grant(0, 0);
        w.deliver_all(&grant);
        let old = w.beat(0);
        w.deliver_all(&old);
        w.drain(0, ms(100));
        w.expire_coordinator(0);
        let drain = w.for_region(0);
        w.deliver_all(&drain);
        w.lanes_drain(0);
        w.rounds(0);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
        assert_eq!(w.owner(0), Some(1));
        w.deliver_all(&old);
    });
}

#[test]
fn a_heartbeat_of_a_lower_session_does_not_replace_the_higher_one() {
    proves(Rule::SessionGrows, Harm::DoubleOwner, |w| {
        begin(w);
        // The very first heartbeat, which carries a report, is in the post twice.
        let old = w.beat(0);
        w.deliver_all(&old);
        let acks = w.for_region(0);
        w.deliver_all(&acks);
        // No ack comes for D: session 2 begins while session 1 is known.
        for _ in 0..101 {
            let beats = w.beat(0);
            w.deliver_all(&beats);
            w.for_region(0);
        }
        w.rounds(0);
        w.rounds(0);
        assert_eq!(w.regions[0].session.number(), 2);
        let late = w.grant(0, 0);
        assert!(!late.is_empty());
        w.deliver_all(&old);
        w.for_region(0);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
        w.deliver_all(&late);
    });
}

#[test]
fn a_paused_owner_looks_at_the_clock_before_it_registers_again() {
    proves(Rule::AdvanceFirst, Harm::DoubleOwner, |w| {
        begin(w);
        w.rounds(0);
        let grant = w.grant(0, 0);
        w.deliver_all(&grant);
        w.rounds(0);
        w.pass(OVER);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.elect(0);
        w.mail.clear();
        // The paused region wakes, and the first thing it finds is mail.
        w.announce(0);
        let beats = w.beat(0);
        w.deliver_all(&beats);
        let acks = w.for_region(0);
        w.deliver_all(&acks);
        w.deliver_all(&grant);
    });
}

#[test]
fn a_first_report_after_the_window_is_refused_before_it_can_conflict() {
    proves(Rule::AdoptionWindow, Harm::Conflict, |w| {
        begin(w);
        w.rounds(0);
        w.rounds(1);
        let grant = w.grant(0, 0);
        w.deliver_all(&grant);
        w.rounds(0);
        w.elect(0);
        w.mail.clear();
        w.announce(0);
        let late = w.beat(0);
        w.pass(OVER);
        w.announce(1);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
        w.deliver_all(&late);
    });
}

#[test]
fn the_next_session_is_silent_until_the_lanes_have_stopped() {
    proves(Rule::SessionBarrier, Harm::DoubleOwner, |w| {
        begin(w);
        w.rounds(0);
        let grant = w.grant(0, 0);
        w.deliver_all(&grant);
        w.rounds(0);
        w.rounds(1);
        // The coordinator buries the session early (a claim it refuses); the lanes are slow to notice.
        w.regions[0].prompt = false;
        let (from, to) = (w.seats[0].key, w.regions[0].key);
        let term = w.seats[0].allocator.term().expect("it reigns");
        let message = crate::wire::Control::Dead { term, session: 1 };
        w.deliver(&super::world::Mail { from, to, message });
        let beats = w.beat(0);
        w.deliver_all(&beats);
        w.rounds(1);
        let grant = w.grant(0, 1);
        w.deliver_all(&grant);
    });
}
