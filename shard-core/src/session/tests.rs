//! Facts about the session, one verb at a time.

use alloc::{string::String, vec, vec::Vec};

use super::*;
use crate::{
    id::{Incarnation, NodeId, ShardId},
    machine::Machine,
    time::Duration,
    wire::{Ack, Command, DirectoryEntry, Heartbeat, Owned},
};

const ME: NodeKey = node(1);
const CHIEF: NodeKey = node(9);
const START: u64 = 5_000;

const fn node(id: u64) -> NodeKey {
    NodeKey { id: NodeId(id), incarnation: Incarnation(7) }
}

fn term(counter: u64) -> Term {
    Term { counter, node: CHIEF }
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(START + millis)
}

fn shard(number: u32) -> ShardKey {
    ShardKey { kind: Kind(3), shard: ShardId(number) }
}

fn token(number: u32) -> Token {
    Token { counter: 1, node: CHIEF.id, number }
}

fn grant(number: u32) -> Command {
    Command::Grant { key: shard(number), token: token(number) }
}

/// One session with the default times: H 0.5 s, D 3 s, G 0.25 s.
struct Desk {
    session: Session,
}

impl Desk {
    fn new() -> Self {
        let config = SessionConfig {
            me: ME,
            address: String::from("here:1"),
            facts: Facts::default(),
            timing: Timing::lan(),
            rules: Rules::all(),
        };
        Self { session: Session::new(at(0), config) }
    }

    /// Registered with a reign, first heartbeat sent at 0 and acknowledged.
    fn live() -> Self {
        let mut desk = Self::new();
        desk.hear(0, announce(1));
        desk.beat(0);
        desk.hear(10, ack(1, 1, &[]));
        desk
    }

    fn say(&mut self, millis: u64, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.session.handle(at(millis), input, &mut out);
        out
    }

    fn hear(&mut self, millis: u64, message: Control) -> Vec<Output> {
        self.say(millis, Input::Heard { from: CHIEF, to: ME, message })
    }

    fn expire(&mut self, millis: u64) -> Vec<Output> {
        let mut out = Vec::new();
        self.session.expire(at(millis), &mut out);
        out
    }

    fn beat(&mut self, millis: u64) -> Heartbeat {
        let out = self.expire(millis);
        beats(&out).pop().unwrap_or_else(|| panic!("no heartbeat in {out:?}"))
    }
}

fn beats(out: &[Output]) -> Vec<Heartbeat> {
    let beat = |output: &Output| match output {
        Output::Send { message: Control::Heartbeat(beat), .. } => Some(beat.clone()),
        _ => None,
    };
    out.iter().filter_map(beat).collect()
}

fn ack(session: u64, sequence: u64, commands: &[Command]) -> Control {
    Control::Ack(full_ack(session, sequence, 1, commands))
}

fn announce(counter: u64) -> Control {
    Control::Announce { term: term(counter), committed: 0 }
}

fn full_ack(session: u64, sequence: u64, first: u64, commands: &[Command]) -> Ack {
    Ack {
        term: term(1),
        session,
        sequence,
        first,
        commands: commands.to_vec(),
        report_seen: 1,
        directory: None,
        open: true,
        clock: 0,
        committed: 0,
        farewell: false,
    }
}

#[test]
fn a_node_that_knows_nobody_asks_the_voters_and_sends_no_heartbeat() {
    let mut desk = Desk::new();
    assert_eq!(desk.expire(0), [Output::AskVoters]);
    assert_eq!(desk.session.deadline(), Some(at(500)));
    assert_eq!(desk.expire(499), []);
    assert_eq!(desk.expire(500), [Output::AskVoters]);
}

#[test]
fn a_node_without_an_ack_for_two_beats_asks_the_voters() {
    let mut desk = Desk::live();
    for millis in [500, 1_000] {
        assert_eq!(desk.expire(millis).len(), 1, "a heartbeat only");
    }
    assert_eq!(desk.expire(1_010), [Output::AskVoters]);
}

#[test]
fn a_hint_makes_the_node_introduce_itself_unless_it_is_registered_there() {
    let mut desk = Desk::live();
    assert_eq!(desk.say(20, Input::CoordinatorIs { term: term(1) }), []);
    let other = Term { counter: 1, node: node(8) };
    let reign = Control::Reign { term: other, address: String::new() };
    assert_eq!(desk.hear(20, reign), [Output::Send { to: node(8), message: Control::WhoReigns }]);
    assert_eq!(desk.session.term(), Some(term(1)));
}

#[test]
fn the_report_is_sent_until_its_version_was_seen() {
    let mut desk = Desk::new();
    let kind = KindReport { kind: Kind(3), shards: 8, hosts: true };
    desk.say(0, Input::Registered(kind));
    desk.hear(0, announce(1));
    let first = desk.beat(0);
    assert_eq!(first.report.expect("a first beat has a report").kinds, [kind]);
    assert_eq!(first.report_version, 2);
    desk.hear(1, ack(1, 1, &[]));
    assert!(desk.beat(500).report.is_some(), "version 1 was seen, not 2");
    desk.hear(501, Control::Ack(Ack { report_seen: 2, ..full_ack(1, 2, 1, &[]) }));
    assert_eq!(desk.beat(1_000).report, None);
}

#[test]
fn the_session_counts_from_the_sending_of_the_heartbeat() {
    let mut desk = Desk::new();
    desk.hear(0, announce(1));
    desk.beat(0);
    let out = desk.hear(2_000, ack(1, 1, &[grant(0)]));
    assert_eq!(
        out,
        [
            Output::Joined { session: 1 },
            Output::Live { until: at(2_750) },
            Output::Own { key: shard(0), token: token(0) }
        ]
    );
    assert_eq!(desk.session.valid_until(), Some(at(3_000)));
    assert_eq!(desk.session.owns(at(2_999), shard(0)), Some(token(0)));
    assert_eq!(desk.session.owns(at(3_000), shard(0)), None);
}

#[test]
fn an_ack_that_comes_too_late_applies_nothing() {
    let mut desk = Desk::new();
    desk.hear(0, announce(1));
    desk.beat(0);
    assert_eq!(desk.hear(3_000, ack(1, 1, &[grant(0)])), []);
    assert_eq!(desk.session.owned(), []);
    let beat = desk.beat(3_000);
    assert_eq!(beat.applied, 0, "G1: the counter does not move either");
    assert_eq!(desk.hear(3_001, ack(1, beat.sequence, &[grant(0)])).len(), 3);
}

#[test]
fn an_ack_sent_again_without_a_heartbeat_carries_commands_but_no_time() {
    let mut desk = Desk::live();
    assert_eq!(desk.hear(500, ack(1, 1, &[grant(0)])), [Output::Own { key: shard(0), token: token(0) }]);
    assert_eq!(desk.session.valid_until(), Some(at(3_000)));
}

#[test]
fn a_lapse_happens_once_and_the_next_session_waits_for_the_lanes() {
    let mut desk = Desk::live();
    desk.hear(20, ack(1, 1, &[grant(0)]));
    let out = desk.expire(3_000);
    assert_eq!(
        out[..3],
        [Output::StopAll { session: 1 }, Output::Lapsed { session: 1 }, Output::Notice(Notice::SessionLapsed)]
    );
    assert_eq!(beats(&out), []);
    assert_eq!(desk.session.number(), 2);
    for millis in [3_001, 9_000] {
        assert_eq!(desk.say(millis, Input::LanesStopped { session: 2 }), [], "not the session that was asked about");
        assert_eq!(beats(&desk.expire(millis)), [], "no heartbeat before the barrier");
    }
    desk.say(9_001, Input::LanesStopped { session: 1 });
    let beat = desk.beat(9_001);
    assert_eq!((beat.session, beat.applied), (2, 0));
    assert_eq!(beat.report.expect("a new session reports").owned, []);
}

#[test]
fn mail_after_a_pause_finds_the_session_over() {
    let mut desk = Desk::live();
    let late = desk.beat(500);
    let out = desk.hear(3_100, ack(1, late.sequence, &[grant(0)]));
    assert_eq!(out[0], Output::StopAll { session: 1 });
    assert_eq!(out[3], Output::Notice(Notice::Repeated { from: CHIEF }), "its ack names a session that is over");
    assert_eq!(desk.session.owned(), []);
}

#[test]
fn dead_ends_my_session_live_or_not_and_no_other() {
    let mut desk = Desk::new();
    desk.hear(0, announce(1));
    desk.beat(0);
    assert_eq!(desk.hear(1, Control::Dead { term: term(1), session: 2 }), []);
    let unborn = desk.hear(1, Control::Dead { term: term(1), session: 1 });
    assert_eq!(unborn, [Output::StopAll { session: 1 }]);
    desk.say(2, Input::LanesStopped { session: 1 });
    assert_eq!(beats(&desk.expire(2)), [], "a refused node asks once per H");
    assert_eq!(desk.beat(501).session, 2);
    desk.hear(502, ack(2, 2, &[]));
    let live = desk.hear(503, Control::Dead { term: term(1), session: 2 });
    assert!(live.contains(&Output::Lapsed { session: 2 }));
    assert!(!desk.session.is_live(at(503)));
}

#[test]
fn directives_count_only_from_the_node_of_the_greatest_term() {
    let mut desk = Desk::live();
    let before = desk.session.clone();
    let stale = [
        Control::Dead { term: term(1), session: 1 },
        ack(1, 1, &[grant(0)]),
        announce(5),
        Control::KindRefused { term: term(1), kind: Kind(3), cluster: 1, node_shards: 2 },
    ];
    for message in stale {
        let out = desk.say(20, Input::Heard { from: node(8), to: ME, message });
        assert!(matches!(out[..], [Output::Notice(_)]), "{out:?}");
    }
    assert_eq!(desk.session, before);
    assert!(desk.session.obeys(CHIEF, term(1)) && !desk.session.obeys(node(8), term(1)));
}

#[test]
fn mail_for_another_life_of_this_node_is_dropped() {
    let mut desk = Desk::live();
    let former = NodeKey { incarnation: Incarnation(6), ..ME };
    let out = desk.say(20, Input::Heard { from: CHIEF, to: former, message: ack(1, 1, &[grant(0)]) });
    assert_eq!(out, [Output::Notice(Notice::NotYours { from: CHIEF })]);
}

#[test]
fn a_greater_term_keeps_shards_and_time_and_gets_a_full_report_at_once() {
    let mut desk = Desk::live();
    desk.hear(20, ack(1, 1, &[grant(0)]));
    desk.beat(20);
    assert_eq!(desk.hear(30, announce(2)), []);
    assert_eq!(desk.session.deadline(), Some(at(30)));
    let beat = desk.beat(30);
    assert_eq!((beat.term, beat.session, beat.applied), (term(2), 1, 0));
    assert_eq!(beat.report.expect("a full report").owned, [Owned { key: shard(0), token: token(0) }]);
    assert_eq!(desk.session.owns(at(2_999), shard(0)), Some(token(0)));
    let old = desk.hear(40, ack(1, 2, &[]));
    assert_eq!(old, [Output::Notice(Notice::StaleTerm { from: CHIEF, term: term(1) })]);
}

#[test]
fn a_lower_term_is_told_of_the_greater_one() {
    let mut desk = Desk::new();
    desk.hear(0, announce(2));
    let nack = Output::Send { to: CHIEF, message: Control::Nack { max_term: term(2) } };
    assert_eq!(desk.hear(1, announce(1)), [nack]);
    assert_eq!(desk.hear(1, announce(2)), []);
}

#[test]
fn commands_are_obeyed_in_order_and_once() {
    let mut desk = Desk::live();
    let behind_a_gap = Control::Ack(full_ack(1, 1, 2, &[grant(1)]));
    assert_eq!(desk.hear(20, behind_a_gap), []);
    assert_eq!(desk.hear(21, ack(1, 1, &[grant(0), grant(1)])).len(), 2);
    assert_eq!(desk.hear(22, ack(1, 1, &[grant(0), grant(1)])), []);
    assert_eq!(desk.hear(23, ack(1, 1, &[grant(0), grant(1), grant(2)])).len(), 1);
    assert_eq!(desk.beat(23).applied, 3);
}

#[test]
fn a_batch_of_mail_makes_one_heartbeat() {
    let mut desk = Desk::live();
    desk.hear(20, ack(1, 1, &[grant(0), grant(1)]));
    desk.hear(20, ack(1, 1, &[grant(0), grant(1), grant(2)]));
    assert_eq!(desk.session.deadline(), Some(at(20)));
    assert_eq!(desk.beat(20).report.expect("news").owned.len(), 3);
    assert_eq!(desk.expire(20), []);
    assert_eq!(desk.session.deadline(), Some(at(520)));
}

#[test]
fn a_draining_shard_stays_in_the_report_until_the_lanes_dropped_that_grant() {
    let mut desk = Desk::live();
    let within = Duration::from_millis(100);
    let out = desk.hear(20, ack(1, 1, &[grant(0), Command::Drain { key: shard(0), within }]));
    assert_eq!(out[1], Output::Drain { key: shard(0), token: token(0), deadline: at(120) });
    assert_eq!(desk.beat(20).report.expect("news").owned.len(), 1);
    desk.say(30, Input::Dropped { key: shard(0), token: token(5) });
    assert_eq!(desk.session.owned().len(), 1, "another grant's drop");
    desk.say(30, Input::Dropped { key: shard(0), token: token(0) });
    assert_eq!(desk.beat(30).report.expect("news").owned, []);
}

#[test]
fn only_a_greater_token_replaces_a_grant() {
    let mut desk = Desk::live();
    let again = |number| Command::Grant { key: shard(0), token: token(number) };
    desk.hear(20, ack(1, 1, &[again(5), again(4), again(6)]));
    assert_eq!(desk.session.owns(at(20), shard(0)), Some(token(6)));
}

#[test]
fn a_refused_type_is_passed_on_once_per_reign() {
    let mut desk = Desk::live();
    let refused = |counter| Control::KindRefused { term: term(counter), kind: Kind(3), cluster: 64, node_shards: 8 };
    assert_eq!(desk.hear(20, refused(1)), [], "not registered here");
    desk.say(20, Input::Registered(KindReport { kind: Kind(3), shards: 8, hosts: true }));
    let order = Output::KindRefused { kind: Kind(3), cluster: 64, node_shards: 8 };
    assert_eq!(desk.hear(21, refused(1)), core::slice::from_ref(&order));
    assert_eq!(desk.hear(22, refused(1)), []);
    desk.hear(23, announce(2));
    assert_eq!(desk.hear(24, refused(2)), [order]);
}

#[test]
fn a_newer_directory_is_passed_on_and_its_version_reported() {
    let mut desk = Desk::live();
    let nodes = vec![DirectoryEntry { node: ME, address: String::from("here:1") }];
    let directory = Directory { version: 4, nodes, gone: vec![] };
    let with = |directory| Control::Ack(Ack { directory: Some(directory), ..full_ack(1, 1, 1, &[]) });
    assert_eq!(desk.hear(20, with(directory.clone())), [Output::Directory(directory.clone())]);
    assert_eq!(desk.hear(21, with(directory)), []);
    assert_eq!(desk.beat(500).directory, 4);
}

#[test]
fn a_leaving_node_says_so_and_is_silent_after_its_farewell() {
    let mut desk = Desk::live();
    desk.hear(20, ack(1, 1, &[grant(0)]));
    desk.say(20, Input::Leave);
    let beat = desk.beat(20);
    assert!(beat.leaving);
    let farewell = |sequence| Control::Ack(Ack { farewell: true, ..full_ack(1, sequence, 2, &[]) });
    assert!(!desk.hear(21, farewell(beat.sequence)).contains(&Output::Farewell), "it still owns a shard");
    desk.say(30, Input::Dropped { key: shard(0), token: token(0) });
    let beat = desk.beat(30);
    assert_eq!(desk.hear(31, farewell(beat.sequence)).last(), Some(&Output::Farewell));
    assert_eq!(desk.session.deadline(), None);
    assert_eq!(desk.expire(9_000), []);
    assert_eq!(desk.hear(9_000, announce(4)), []);
}

#[test]
fn of_too_many_heartbeats_under_way_the_oldest_and_the_newest_still_count() {
    let mut desk = Desk::live();
    let newest = (0..500).map(|shards| {
        desk.say(20 + shards, Input::Registered(KindReport { kind: Kind(3), shards: shards as u32, hosts: true }));
        desk.beat(20 + shards).sequence
    });
    let newest = newest.last().expect("many");
    desk.hear(600, ack(1, 2, &[]));
    assert_eq!(desk.session.valid_until(), Some(at(3_020)));
    desk.hear(600, ack(1, newest, &[]));
    assert_eq!(desk.session.valid_until(), Some(at(3_519)));
}

#[test]
fn an_early_expire_changes_nothing() {
    let mut desk = Desk::live();
    let before = desk.session.clone();
    assert_eq!(desk.expire(499), []);
    assert_eq!(desk.session, before);
}

#[test]
fn a_session_shifted_in_time_behaves_the_same() {
    let (mut desk, mut shifted) = (Desk::live(), Desk::live());
    let day = Duration::from_secs(86_400);
    shifted.session.each_instant(&mut |instant| *instant = *instant + day);
    assert_eq!(shifted.session.deadline(), desk.session.deadline().map(|deadline| deadline + day));
    for millis in [500, 1_000, 1_010, 3_000] {
        let mut out = Vec::new();
        shifted.session.expire(at(millis) + day, &mut out);
        assert_eq!(out, desk.expire(millis));
    }
}

#[test]
fn the_own_region_of_a_coordinator_rides_on_its_reign() {
    let mut desk = Desk::live();
    assert_eq!(desk.session.valid_until(), Some(at(3_000)));
    assert_eq!(desk.say(20, Input::Reigns { until: at(1_200) }), [Output::Live { until: at(950) }]);
    assert_eq!(desk.say(20, Input::Reigns { until: at(1_200) }), [], "said once");
    assert_eq!(desk.say(300, Input::Reigns { until: at(1_450) }), [Output::Live { until: at(1_200) }]);
    assert!(desk.session.is_live(at(1_449)) && !desk.session.is_live(at(1_450)));
    let out = desk.expire(1_450);
    assert!(out.contains(&Output::StopAll { session: 1 }), "the reign ran out, and the region with it: {out:?}");
}

#[test]
fn a_reign_that_ends_takes_the_own_region_with_it_unless_it_resigned() {
    let mut desk = Desk::live();
    desk.say(20, Input::Reigns { until: at(1_200) });
    let out = desk.say(30, Input::ReignOver { resigned: true });
    assert_eq!(out, [Output::Live { until: at(2_750) }], "listed like any other, it is as good as its session");
    desk.say(40, Input::Reigns { until: at(1_240) });
    let out = desk.say(50, Input::ReignOver { resigned: false });
    assert!(out.contains(&Output::StopAll { session: 1 }) && !desk.session.is_live(at(50)));
    assert_eq!(desk.say(60, Input::ReignOver { resigned: false }), [], "it has nothing left to lose");
}

#[test]
fn an_ack_in_the_last_moment_of_a_reign_brings_nobody_to_life() {
    let mut desk = Desk::new();
    desk.hear(0, announce(1));
    desk.beat(0);
    desk.say(5, Input::Reigns { until: at(10) });
    assert_eq!(desk.hear(10, ack(1, 1, &[grant(0)])), []);
    assert_eq!(desk.session.owns(at(10), shard(0)), None);
}
