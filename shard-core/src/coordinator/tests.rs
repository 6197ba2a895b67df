//! Facts about the allocator, one verb at a time.

use alloc::{string::String, vec, vec::Vec};

use super::{
    desk::{
        A, B, Desk, KIND, ME, OPEN, Pen, TERM, ack_of, announce, at, dead, home, node, old_token, open, shard, token,
    },
    *,
};
use crate::{
    id::{Incarnation, Kind, ShardId},
    machine::Machine,
    wire::{Command, Facts, Home, KindReport},
};

#[test]
fn a_reign_announces_itself_to_all_nodes_known_and_later_to_each_one_met() {
    let config = AllocatorConfig { me: ME, timing: Timing::lan(), rules: Rules::all(), alone: false };
    let mut desk = Desk { allocator: Allocator::new(config), lists: vec![], confirm: true };
    assert_eq!(desk.tell(0, Input::Peers(vec![B, A])), []);
    assert_eq!(desk.tell(0, Input::Elected { term: TERM }), [announce(ME), announce(A), announce(B)]);
    assert_eq!(desk.tell(1, Input::Met { node: node(5) }), [announce(node(5))]);
    assert_eq!(desk.tell(1, Input::Peers(vec![B, node(6)])), [announce(node(6))]);
    assert_eq!(desk.hear(1, B, Control::WhoReigns), [announce(B)]);
}

#[test]
fn a_lost_reign_forgets_everything_and_answers_nothing() {
    let (mut desk, mut a, _) = open();
    desk.tell(OPEN, Input::Lost { term: Term { counter: 9, ..TERM } });
    assert_eq!(desk.allocator.term(), Some(TERM), "another reign's end");
    desk.tell(OPEN, Input::Lost { term: TERM });
    assert_eq!(desk.beat(OPEN, &mut a), []);
    assert_eq!(desk.lookup(OPEN, A, 0), []);
    assert_eq!((desk.allocator.deadline(), desk.allocator.nodes(at(OPEN)).count()), (None, 0));
}

#[test]
fn nothing_is_granted_before_the_window_closes_and_then_all_that_was_asked_for_is_wanted() {
    let mut desk = Desk::elected();
    let mut a = Pen::new(A);
    desk.beat(0, &mut a);
    assert_eq!(desk.lookup(10, B, 4), []);
    assert_eq!(desk.allocate(10, 4, A), None);
    desk.beat(2_500, &mut a);
    assert_eq!(desk.allocator.deadline(), Some(at(OPEN)));
    assert_eq!(desk.expire(OPEN - 1), []);
    let out = desk.expire(OPEN);
    assert_eq!(out[0], Output::Wanted { key: shard(4), asker: Some(B) });
    assert!(ack_of(&out).open, "and the nodes are told that the wait is over");
    let place = desk.allocate(OPEN, 4, A).expect("now it may be placed");
    assert_eq!((place.token, place.stage), (token(1), Stage::Granting));
}

#[test]
fn a_node_alone_starts_at_once() {
    let mut desk = Desk::with(true);
    let mut a = Pen::new(A);
    desk.beat(0, &mut a);
    assert_eq!(desk.lookup(0, A, 1), [Output::Wanted { key: shard(1), asker: Some(A) }]);
    assert!(desk.allocate(0, 1, A).is_some());
}

#[test]
fn inside_the_window_reports_are_adopted_with_their_tokens() {
    let mut desk = Desk::elected();
    let mut a = Pen::new(A);
    a.owns(shard(2), old_token(4));
    desk.lookup(0, B, 2);
    assert_eq!(ack_of(&desk.beat(1, &mut a)).report_seen, 2);
    let place = desk.allocator.place(shard(2)).expect("adopted");
    assert_eq!((place.owner, place.token, place.stage), (A, old_token(4), Stage::Held));
    let there = Home { node: A, token: old_token(4), closed: false };
    assert_eq!(desk.lookup(2, B, 2), [home(B, 2, Some(there))]);
}

#[test]
fn a_report_that_claims_anothers_shard_is_refused_as_a_whole() {
    let mut desk = Desk::elected();
    let (mut a, mut b) = (Pen::new(A), Pen::new(B));
    a.owns(shard(2), old_token(4));
    b.owns(shard(1), old_token(3));
    b.owns(shard(2), old_token(4));
    desk.beat(0, &mut a);
    let notice = Output::Notice(Notice::ConflictingClaim { from: B, key: shard(2) });
    assert_eq!(desk.beat(0, &mut b), [notice, dead(B, 1)]);
    assert_eq!(desk.allocator.place(shard(1)), None);
    assert_eq!(desk.beat(1, &mut b), [dead(B, 1)], "and it stays refused");
}

#[test]
fn after_the_window_a_first_report_must_be_empty() {
    let (mut desk, _, _) = open();
    let mut late = Pen::new(node(5));
    late.owns(shard(2), old_token(4));
    assert_eq!(desk.beat(OPEN, &mut late), [dead(node(5), 1)]);
    late.drops_all();
    late.beat.session = 2;
    assert_eq!(desk.beat(OPEN, &mut late)[0], Output::Joined { node: node(5) });
}

#[test]
fn those_who_asked_are_told_when_the_owners_report_shows_the_grant() {
    let (mut desk, mut a, _) = open();
    assert_eq!(desk.lookup(OPEN, B, 0), [Output::Wanted { key: shard(0), asker: Some(B) }]);
    desk.allocate(OPEN, 0, A);
    assert_eq!(desk.lookup(OPEN, A, 0), [], "granted is not there yet");
    desk.beat(OPEN, &mut a);
    a.owns(shard(0), token(1));
    a.beat.applied = 1;
    let out = desk.beat(OPEN + 1, &mut a);
    let there = Some(Home { node: A, token: token(1), closed: false });
    assert_eq!(out[..2], [home(B, 0, there), home(A, 0, there)]);
    desk.tell(OPEN + 2, Input::Drain { key: shard(0), within: Duration::from_secs(1) });
    assert_eq!(desk.lookup(OPEN + 2, B, 0), [home(B, 0, there)], "it still lives there while it drains");
}

/// A caller need not ask again for the successor of an owner that had died, though nobody knew it, when it asked.
#[test]
fn who_asked_for_a_shard_of_the_dead_is_told_of_its_next_home() {
    let (mut desk, mut a, mut b) = open();
    desk.settle(OPEN, 0, &mut a);
    let there = |node, number| Some(Home { node, token: token(number), closed: false });
    assert_eq!(desk.lookup(OPEN + 1, B, 0), [home(B, 0, there(A, 1))], "it seems to live");
    desk.beat(OPEN + 2_500, &mut b);
    assert_eq!(desk.lookup(OPEN + 2_500, B, 0), [home(B, 0, there(A, 1))]);
    desk.expire(OPEN + 3_061);
    let out = desk.settle(OPEN + 3_062, 0, &mut b);
    assert_eq!(out[..1], [home(B, 0, there(B, 2))], "{out:?}");
}

#[test]
fn what_does_not_exist_has_no_home() {
    let (mut desk, _, _) = open();
    assert_eq!(desk.lookup(OPEN, B, 8), [home(B, 8, None)]);
    let key = ShardKey { kind: Kind(99), shard: ShardId(0) };
    let none = Control::Home { term: TERM, key, home: None };
    assert_eq!(desk.hear(OPEN, B, Control::Lookup { key }), [Output::Send { to: B, message: none }]);
    assert_eq!(desk.allocate(OPEN, 8, A), None);
}

#[test]
fn a_dropped_shard_is_wanted_at_once_and_its_next_home_says_closed() {
    let (mut desk, mut a, mut b) = open();
    desk.settle(OPEN, 0, &mut a);
    desk.tell(OPEN, Input::Drain { key: shard(0), within: Duration::from_secs(1) });
    a.beat.applied = 2;
    a.drops_all();
    let out = desk.beat(OPEN + 1, &mut a);
    let freed = Output::Freed { key: shard(0), from: A, how: Ending::Dropped };
    assert_eq!(out[..2], [freed, Output::Wanted { key: shard(0), asker: None }]);
    desk.settle(OPEN + 1, 0, &mut b);
    let there = Home { node: B, token: token(2), closed: true };
    assert_eq!(desk.lookup(OPEN + 2, A, 0), [home(A, 0, Some(there))]);
}

#[test]
fn a_drain_of_what_the_node_never_had_frees_it_once_it_was_obeyed() {
    let (mut desk, mut a, _) = open();
    desk.settle(OPEN, 0, &mut a);
    // It drops by itself; the drain crosses the report, so absence alone proves nothing.
    desk.tell(OPEN, Input::Drain { key: shard(0), within: Duration::from_secs(1) });
    a.drops_all();
    desk.beat(OPEN + 1, &mut a);
    assert!(desk.allocator.place(shard(0)).is_some());
    a.beat.applied = 2;
    a.beat.report = None;
    desk.beat(OPEN + 2, &mut a);
    assert_eq!(desk.allocator.place(shard(0)), None, "judged again without a new report");
}

#[test]
fn a_silent_session_expires_after_w_and_stays_dead() {
    let (mut desk, mut a, mut b) = open();
    desk.settle(OPEN, 0, &mut a);
    desk.beat(OPEN + 2_000, &mut b);
    assert_eq!(desk.allocator.deadline(), Some(at(OPEN)), "a flush is due");
    desk.expire(OPEN + 2_000);
    assert_eq!(desk.allocator.deadline(), Some(at(OPEN + 3_061)));
    let out = desk.expire(OPEN + 3_061);
    let freed = Output::Freed { key: shard(0), from: A, how: Ending::Expired };
    assert_eq!(out, [freed, Output::Wanted { key: shard(0), asker: None }, Output::Gone { node: A }]);
    assert_eq!(desk.beat(OPEN + 3_062, &mut a), [dead(A, 1)]);
    desk.settle(OPEN + 3_063, 0, &mut b);
    let there = Home { node: B, token: token(2), closed: false };
    assert_eq!(desk.lookup(OPEN + 3_064, A, 0), [home(A, 0, Some(there))]);
}

#[test]
fn a_later_session_frees_the_shards_of_the_one_before_and_gets_nothing_until_acks_reach_it() {
    let (mut desk, mut a, _) = open();
    desk.settle(OPEN, 0, &mut a);
    a.beat.session = 2;
    a.beat.applied = 0;
    a.drops_all();
    let seen = a.beat.ack_seen;
    let mut deaf = a.clone();
    deaf.beat.sequence += 1;
    let out = desk.hear(OPEN + 5, A, Control::Heartbeat(deaf.beat.clone()));
    assert_eq!(out[0], Output::Freed { key: shard(0), from: A, how: Ending::Lapsed });
    assert_eq!(desk.allocate(OPEN + 6, 0, A), None);
    assert_eq!(desk.allocator.candidates(at(OPEN + 6), KIND).count(), 1);
    deaf.beat.sequence += 1;
    assert!(seen < deaf.beat.sequence);
    desk.beat(OPEN + 7, &mut deaf);
    assert!(desk.allocate(OPEN + 8, 0, A).is_some());
}

#[test]
fn repeated_and_older_heartbeats_count_for_nothing() {
    let (mut desk, mut a, _) = open();
    desk.beat(OPEN, &mut a);
    let before = desk.allocator.clone();
    let again = Control::Heartbeat(a.beat.clone());
    let out = desk.hear(OPEN + 100, A, again);
    assert_eq!(out, [Output::Notice(Notice::Repeated { from: A })]);
    assert_eq!(desk.allocator, before);
}

#[test]
fn commands_are_repeated_until_obeyed_and_a_plan_costs_one_message_per_node() {
    let (mut desk, mut a, _) = open();
    for number in 0..3 {
        desk.allocate(OPEN, number, A);
    }
    assert_eq!(desk.allocator.in_flight(), 3);
    assert_eq!(desk.allocator.deadline(), Some(at(OPEN)));
    let out = desk.expire(OPEN);
    assert_eq!(out.len(), 1);
    let ack = ack_of(&out);
    assert_eq!((ack.sequence, ack.first, ack.commands.len()), (a.beat.sequence, 1, 3));
    let again = desk.beat(OPEN + 500, &mut a);
    assert_eq!((ack_of(&again).first, ack_of(&again).commands.len()), (1, 3));
    a.beat.applied = 2;
    let rest = desk.beat(OPEN + 1_000, &mut a);
    let grant = Command::Grant { key: shard(2), token: token(3) };
    assert_eq!((ack_of(&rest).first, &ack_of(&rest).commands[..]), (3, &[grant][..]));
}

#[test]
fn commands_under_way_to_one_node_are_bounded() {
    let mut desk = Desk::with(true);
    let mut a = Pen::new(A).shards(10_000);
    desk.beat(0, &mut a);
    let placed = (0..10_000).filter(|number| desk.allocate(0, *number, A).is_some()).count();
    assert_eq!(placed, 4_096);
    assert_eq!(ack_of(&desk.expire(0)).commands.len(), 1_024);
    a.beat.applied = 1_024;
    assert_eq!(ack_of(&desk.beat(1, &mut a)).first, 1_025);
    assert!(desk.allocate(1, 9_999, A).is_some());
}

#[test]
fn heartbeats_of_other_terms_create_nothing() {
    let mut desk = Desk::elected();
    let mut a = Pen::new(A);
    a.beat.term = Term { counter: 9, ..TERM };
    assert_eq!(desk.beat(0, &mut a), [announce(A)]);
    a.beat.term = Term { counter: 10, node: node(3) };
    assert_eq!(desk.beat(0, &mut a), [Output::LearnedCounter(10), announce(A)], "as high a counter, another node");
    a.beat.term = Term { counter: 12, node: node(3) };
    assert_eq!(desk.beat(0, &mut a), [Output::LearnedCounter(12)]);
    assert_eq!(desk.allocator.nodes(at(0)).count(), 0);
}

#[test]
fn whoever_learns_of_a_counter_not_below_its_own_grants_nothing_more() {
    let (mut desk, _, _) = open();
    let nack = |counter| Control::Nack { max_term: Term { counter, node: node(3) } };
    assert_eq!(desk.hear(OPEN, A, nack(9)), []);
    assert!(desk.allocate(OPEN, 0, A).is_some());
    assert_eq!(desk.hear(OPEN, A, nack(11)), [Output::LearnedCounter(11)]);
    assert_eq!(desk.allocate(OPEN, 1, A), None);
    assert!(!desk.allocator.may_allocate(at(OPEN)));
}

#[test]
fn what_a_node_may_say_of_itself_is_bounded() {
    let mut desk = Desk::elected();
    let mut a = Pen::new(A).shards(KindReport::SHARDS_MAX + 1);
    a.report().facts.roles = alloc::vec!["backend".into(); 99];
    desk.beat(1, &mut a);
    assert_eq!(desk.allocator.kinds().count(), 0, "a coordinator keeps a little for each shard of a type");
    assert_eq!(desk.allocator.nodes(at(1)).map(|node| node.facts.clone()).collect::<Vec<_>>(), [Facts::default()]);
    let mut a = a.shards(8);
    a.report().facts = Facts { roles: alloc::vec!["backend".into()], ..Facts::default() };
    desk.beat(2, &mut a);
    assert_eq!(desk.allocator.kinds().collect::<Vec<_>>(), [(KIND, 8)]);
    assert_eq!(desk.allocator.nodes(at(2)).map(|node| node.facts.roles.len()).collect::<Vec<_>>(), [1]);
}

/// What is said of a node that counts 64 shards where the cluster counts 8, or the other way round.
fn miscount(node: NodeKey, cluster: u32, node_shards: u32) -> (Output, Output) {
    let refused = Control::KindRefused { term: TERM, kind: KIND, cluster, node_shards };
    let notice = Notice::ShardCountMismatch { node, kind: KIND, cluster, node_shards };
    (Output::Send { to: node, message: refused }, Output::Notice(notice))
}

#[test]
fn the_first_shard_count_of_a_new_type_is_in_force_and_others_host_nothing() {
    let (mut desk, mut a, _) = open();
    let mut c = Pen::new(node(3)).shards(64);
    let out = desk.beat(OPEN, &mut c);
    let (refused, notice) = miscount(node(3), 8, 64);
    assert!(out.last() == Some(&refused) && out.contains(&notice));
    assert!(desk.beat(OPEN + 1, &mut c).contains(&refused), "said again, for it may be lost");
    desk.beat(OPEN + 1, &mut a);
    assert_eq!(desk.allocator.candidates(at(OPEN + 1), KIND).map(|node| node.node).collect::<Vec<_>>(), [A, B]);
}

#[test]
fn whoever_owns_shards_outweighs_a_node_that_registered_first_with_another_count() {
    let mut desk = Desk::elected();
    let (mut wrong, mut owner) = (Pen::new(A).shards(64), Pen::new(B));
    owner.owns(shard(3), old_token(1));
    let early = [desk.beat(0, &mut wrong), desk.beat(1, &mut owner), desk.beat(2, &mut wrong)].concat();
    let (refused, notice) = miscount(A, 8, 64);
    assert!(!early.contains(&refused) && !early.contains(&notice), "another owner may still come");
    assert_eq!(ack_of(&desk.beat(2_500, &mut owner)).commands, [], "what it owns stays where it is");
    desk.beat(2_500, &mut wrong);

    assert!(desk.expire(OPEN).contains(&notice), "when the reign is open, it is said");
    assert!(desk.beat(OPEN, &mut wrong).contains(&refused));
    assert_eq!(desk.allocator.candidates(at(OPEN), KIND).map(|node| node.node).collect::<Vec<_>>(), [B]);
}

#[test]
fn of_two_owners_with_different_counts_the_second_is_drained_when_the_reign_is_open() {
    let mut desk = Desk::elected();
    let (mut a, mut b) = (Pen::new(A), Pen::new(B).shards(64));
    a.owns(shard(2), old_token(1));
    b.owns(shard(3), old_token(2));
    for millis in [0, 2_500] {
        desk.beat(millis, &mut a);
        assert_eq!(ack_of(&desk.beat(millis, &mut b)).commands, []);
    }
    desk.expire(OPEN);
    b.report();
    let out = desk.beat(OPEN, &mut b);
    // What it holds from before is in the table all the same.
    let within = Timing::lan().drain;
    assert_eq!(ack_of(&out).commands, [Command::Drain { key: shard(3), within }]);
    assert_eq!(desk.allocator.candidates(at(OPEN), KIND).map(|node| node.node).collect::<Vec<_>>(), [A]);
}

#[test]
fn a_leaving_node_is_drained_four_at_a_time_and_let_go_for_ever() {
    let (mut desk, mut a, _) = open();
    for number in 0..6 {
        desk.settle(OPEN, number, &mut a);
    }
    a.beat.leaving = true;
    let out = desk.beat(OPEN + 1, &mut a);
    assert_eq!(ack_of(&out).commands.len(), 4);
    assert_eq!(desk.allocate(OPEN + 1, 7, A), None);
    a.beat.applied += 4;
    a.report().owned.drain(..4);
    let out = desk.beat(OPEN + 2, &mut a);
    assert_eq!((ack_of(&out).commands.len(), ack_of(&out).farewell), (2, false));
    a.beat.applied += 2;
    a.drops_all();
    let out = desk.beat(OPEN + 3, &mut a);
    assert!(ack_of(&out).farewell && out.contains(&Output::Gone { node: A }));
    assert_eq!(desk.allocator.directory().expect("it reigns").gone, [A]);
    let again = desk.beat(OPEN + 4, &mut a);
    assert!(ack_of(&again).farewell, "the first one was lost");
    a.beat.leaving = false;
    a.beat.session = 5;
    assert_eq!(desk.beat(OPEN + 5, &mut a), [dead(A, 5)], "it never comes back");
}

#[test]
fn a_newer_process_sends_the_expired_older_one_to_the_gone() {
    let (mut desk, _, _) = open();
    desk.expire(OPEN + 4_000);
    let mut newer = Pen::new(NodeKey { incarnation: Incarnation(1), ..A });
    desk.beat(OPEN + 4_000, &mut newer);
    assert_eq!(desk.allocator.directory().expect("it reigns").gone, [A]);
    assert!(desk.allocator.place(shard(0)).is_none());
}

#[test]
fn the_directory_goes_to_those_who_hold_an_older_one() {
    let mut desk = Desk::elected();
    let mut a = Pen::new(A);
    a.beat.directory = 0;
    let out = desk.beat(0, &mut a);
    let directory = ack_of(&out).directory.clone().expect("it had none");
    assert_eq!(directory.nodes.len(), 1);
    a.beat.directory = directory.version;
    assert_eq!(ack_of(&desk.beat(1, &mut a)).directory, None);
    a.beat.address = String::from("elsewhere");
    let moved = desk.beat(2, &mut a);
    assert_eq!(ack_of(&moved).directory.as_ref().map(|d| d.nodes[0].address.as_str()), Some("elsewhere"));
}

#[test]
fn when_too_many_sessions_ended_a_new_term_is_asked_for_once() {
    let mut desk = Desk::elected();
    desk.confirm = false;
    for id in 0..65_537 {
        desk.beat(0, &mut Pen::new(node(100 + id)));
    }
    let out = desk.expire(4_000);
    let asked = out.iter().filter(|output| **output == Output::LearnedCounter(TERM.counter));
    assert_eq!(asked.count(), 1);
    assert!(!desk.allocator.may_allocate(at(4_000)));
}

#[test]
fn askers_of_one_shard_are_bounded() {
    let (mut desk, mut a, _) = open();
    for id in 0..200 {
        desk.lookup(OPEN, node(id), 0);
    }
    let told = desk.settle(OPEN, 0, &mut a);
    let homes = told.iter().filter(|output| matches!(output, Output::Send { message: Control::Home { .. }, .. }));
    assert_eq!(homes.count(), 64);
}

#[test]
fn an_early_expire_changes_nothing_and_a_shifted_reign_behaves_the_same() {
    let (mut desk, mut a, _) = open();
    desk.settle(OPEN, 0, &mut a);
    desk.tell(OPEN, Input::Drain { key: shard(0), within: Duration::from_secs(1) });
    desk.expire(OPEN);
    let before = desk.allocator.clone();
    assert_eq!(desk.expire(OPEN + 3_060), []);
    assert_eq!(desk.allocator, before);
    let mut shifted = desk.allocator.clone();
    let day = Duration::from_secs(86_400);
    shifted.each_instant(&mut |instant| *instant = *instant + day);
    let mut out = Vec::new();
    shifted.expire(at(OPEN + 3_061) + day, &mut out);
    desk.confirm = false;
    let mut expected = desk.expire(OPEN + 3_061);
    expected.push(Output::Publish(desk.lists.pop().expect("the sessions are over")));
    assert_eq!(out, expected);
}

#[test]
fn a_leaving_node_with_mail_under_way_is_kept_until_it_is_settled() {
    let (mut desk, mut a, _) = open();
    a.beat.leaving = true;
    a.beat.settled = false;
    let out = desk.beat(OPEN + 1, &mut a);
    assert!(!ack_of(&out).farewell, "its streams still need the coordinator");
    a.beat.settled = true;
    let out = desk.beat(OPEN + 2, &mut a);
    assert!(ack_of(&out).farewell);
}

#[test]
fn two_processes_under_one_node_id_are_told_apart_from_a_restart_and_the_younger_is_refused() {
    let (mut desk, mut old, _) = open();
    let young_key = NodeKey { incarnation: Incarnation(8), ..A };
    let mut young = Pen::new(young_key);
    desk.beat(OPEN + 1, &mut young);
    let clash = Output::Notice(Notice::NodeIdClash { older: A, younger: young_key });
    for millis in [2, 3] {
        assert!(!desk.beat(OPEN + millis, &mut old).contains(&clash), "frames of a dead process may be late");
    }
    assert!(desk.beat(OPEN + 4, &mut old).contains(&clash));
    assert_eq!(desk.beat(OPEN + 5, &mut young), [dead(young_key, 1)]);
    assert_eq!(
        desk.allocator.nodes(at(OPEN + 5)).count(),
        3,
        "what it owns may live until W, so it is kept until then"
    );
    desk.beat(OPEN + 3_000, &mut old);
    desk.expire(OPEN + 3_070);
    assert_eq!(desk.beat(OPEN + 3_071, &mut young), [dead(young_key, 1)]);
    // The older one goes: the younger may come.
    desk.expire(OPEN + 9_000);
    young.beat.session = 2;
    assert_eq!(ack_of(&desk.beat(OPEN + 9_001, &mut young)).session, 2);
}
