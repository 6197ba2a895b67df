//! The sender's rules, one by one.

use alloc::{vec, vec::Vec};

use super::{config, key, token};
use crate::id::NodeKey;
use crate::machine::{Fixed, Machine, Rule, Rules};
use crate::region::stream::{Bound, GivenBack, Outgoing, OutgoingInput as In, OutgoingOutput as Out, StreamConfig};
use crate::time::Instant;
use crate::wire::Home;

type Stream = Outgoing<u8, u64>;

fn me() -> NodeKey {
    key(1, 1)
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn home(node: u64, number: u32, closed: bool) -> In {
    In::Home(Home { node: key(node, 1), token: token(number), closed })
}

fn push(stream: &mut Stream, body: u64) -> Vec<Out> {
    let mut out = Vec::new();
    stream.push(at(0), 1, body, 10, false, None, &mut out).unwrap();
    out
}

fn hear(stream: &mut Stream, now: u64, input: In) -> Vec<Out> {
    let mut out = Vec::new();
    stream.handle(at(now), input, &mut out);
    out
}

fn expire(stream: &mut Stream, now: u64) -> Vec<Out> {
    let mut out = Vec::new();
    stream.expire(at(now), &mut out);
    out
}

fn sent(node: u64, number: u32, attempt: u32, seq: u64, first: bool) -> Out {
    Out::Transmit { to: key(node, 1), token: token(number), attempt, seq, first }
}

fn closed(node: u64, number: u32, upto: u64, beyond: &[u64]) -> In {
    In::Closed { from: key(node, 1), token: token(number), upto, beyond: beyond.to_vec() }
}

fn refuse(number: u32, attempt: u32, draining: bool) -> In {
    In::Refuse { from: key(2, 1), token: token(number), attempt, draining, hint: None }
}

/// A stream open at n2.1 under grant 1, attempt 1, with messages 1, 2, 3 sent.
fn open(rules: Rules) -> Stream {
    let mut stream = Stream::new(config(rules), me());
    assert_eq!(push(&mut stream, 1), [Out::Lookup]);
    assert_eq!(push(&mut stream, 2), []);
    assert_eq!(hear(&mut stream, 0, home(2, 1, true)), [sent(2, 1, 1, 1, true), sent(2, 1, 1, 2, false)]);
    assert_eq!(push(&mut stream, 3), [sent(2, 1, 1, 3, false)]);
    stream
}

#[test]
fn a_lookup_is_repeated_with_doubling_pauses() {
    let mut stream = Stream::new(config(Rules::all()), me());
    push(&mut stream, 1);
    let mut asked = Vec::new();
    for now in 1..3_000 {
        if expire(&mut stream, now) == [Out::Lookup] {
            asked.push(now);
        }
    }
    assert_eq!(asked, [20, 60, 140, 300, 620, 1_260, 2_260]);
}

#[test]
fn taken_settles_the_prefix() {
    let mut stream = open(Rules::all());
    assert_eq!(hear(&mut stream, 1, In::Taken { from: key(2, 1), token: token(1), upto: 2 }), []);
    assert_eq!(stream.len(), 1);
    assert_eq!(hear(&mut stream, 1, In::Taken { from: key(2, 1), token: token(1), upto: 99 }), []);
    assert!(stream.is_idle());
    assert_eq!(stream.deadline(), None);
}

#[test]
fn what_another_process_or_grant_says_is_ignored() {
    let mut stream = open(Rules::all());
    for input in [
        In::Taken { from: key(2, 2), token: token(1), upto: 3 },
        In::Taken { from: key(2, 1), token: token(0), upto: 3 },
        closed(3, 1, 3, &[]),
        closed(2, 0, 3, &[]),
        refuse(1, 0, false),
        refuse(0, 1, false),
        home(3, 0, false),
        home(3, 1, false),
        In::PeerGone { node: key(2, 2) },
    ] {
        assert_eq!(hear(&mut stream, 1, input), []);
    }
    assert_eq!((stream.len(), stream.home()), (3, Some(key(2, 1))));
}

#[test]
fn closed_settles_what_was_taken_and_the_rest_goes_to_the_next_home() {
    let mut stream = open(Rules::all());
    assert_eq!(hear(&mut stream, 5, closed(2, 1, 0, &[2])), [Out::Lookup]);
    assert_eq!(hear(&mut stream, 6, home(2, 1, true)), []);
    assert_eq!(hear(&mut stream, 7, home(3, 2, true)), [sent(3, 2, 2, 1, true), sent(3, 2, 2, 3, false)]);
}

#[test]
fn a_home_known_beforehand_is_opened_on_closed() {
    let mut stream = open(Rules::all());
    assert_eq!(hear(&mut stream, 5, home(3, 2, true)), []);
    assert_eq!(hear(&mut stream, 6, closed(2, 1, 2, &[])), [sent(3, 2, 2, 3, true)]);
}

#[test]
fn a_draining_owner_is_waited_for() {
    let mut stream = open(Rules::all());
    assert_eq!(hear(&mut stream, 5, refuse(1, 1, true)), []);
    assert_eq!(push(&mut stream, 4), []);
    assert_eq!(hear(&mut stream, 5, refuse(1, 1, true)), []);
    assert_eq!(hear(&mut stream, 6, closed(2, 1, 3, &[])), [Out::Lookup]);
    assert_eq!(stream.len(), 1);
}

#[test]
fn a_refusal_is_followed_by_a_pause_that_grows() {
    let mut stream = open(Rules::all());
    assert_eq!(hear(&mut stream, 5, refuse(1, 1, false)), []);
    assert_eq!(expire(&mut stream, 7), []);
    assert_eq!(expire(&mut stream, 8), [Out::Lookup]);
    assert_eq!(hear(&mut stream, 9, home(2, 1, true)).len(), 3);
    assert_eq!(hear(&mut stream, 10, refuse(1, 1, false)), []);
    assert_eq!(hear(&mut stream, 10, refuse(1, 2, false)), []);
    assert_eq!(stream.deadline(), Some(at(16)));
}

#[test]
fn hints_only_go_up() {
    let hinted = |number| In::Refuse {
        from: key(2, 1),
        token: token(1),
        attempt: 1,
        draining: false,
        hint: Some((key(4, 1), token(number))),
    };
    assert_eq!(hear(&mut open(Rules::all()), 5, hinted(1)), []);
    assert_eq!(hear(&mut open(Rules::all()), 5, hinted(2)).len(), 3);
}

#[test]
fn what_was_sent_to_a_dead_owner_is_in_doubt_and_the_rest_goes_on() {
    let mut stream = open(Rules::all());
    hear(&mut stream, 5, refuse(1, 1, true));
    push(&mut stream, 4);
    let doubts = [1, 2, 3].map(|seq| Out::InDoubt { seq });
    assert_eq!(hear(&mut stream, 6, In::PeerGone { node: key(2, 1) }), [doubts.as_slice(), &[Out::Lookup]].concat());
    assert_eq!([1, 2, 3, 4].map(|seq| stream.take(seq).map(|entry| entry.body)), [Some(1), Some(2), Some(3), None]);
    assert_eq!(hear(&mut stream, 7, home(2, 1, true)), []);
    assert_eq!(hear(&mut stream, 7, home(3, 2, false)), [sent(3, 2, 2, 4, true)]);
}

#[test]
fn an_unreachable_owner_is_asked_about_and_given_up_after_two_seconds() {
    let mut stream = open(Rules::all());
    assert_eq!(expire(&mut stream, 149), []);
    assert_eq!(expire(&mut stream, 150), [Out::Lookup]);
    assert_eq!(hear(&mut stream, 151, home(3, 2, true)), []);
    assert_eq!(expire(&mut stream, 300), [Out::Lookup]);
    assert_eq!(hear(&mut stream, 301, home(3, 3, true)), []);
    assert_eq!(expire(&mut stream, 2_150), [Out::Lookup]);
    assert_eq!(expire(&mut stream, 2_151), [1, 2, 3].map(|seq| Out::InDoubt { seq }));
    assert_eq!(push(&mut stream, 4), [sent(3, 3, 2, 4, true)]);
}

#[test]
fn an_owner_that_ended_by_expiry_or_is_hard_to_reach_is_given_up_at_once() {
    assert_eq!(hear(&mut open(Rules::all()), 5, home(3, 2, false)).len(), 3);
    let mut stream = open(Rules::all());
    assert_eq!(hear(&mut stream, 5, In::LinkDown { node: key(2, 1) }), []);
    assert_eq!(hear(&mut stream, 6, home(3, 2, true)).len(), 3);
    let mut stream = open(Rules::all());
    assert_eq!(hear(&mut stream, 5, home(3, 2, true)), []);
    assert_eq!(hear(&mut stream, 6, In::LinkDown { node: key(2, 1) }).len(), 3);
}

#[test]
fn everything_has_a_fate_after_thirty_seconds() {
    let mut stream = open(Rules::all());
    hear(&mut stream, 5, refuse(1, 1, true));
    push(&mut stream, 4);
    let mut out = expire(&mut stream, 30_000);
    assert_eq!(out.pop(), Some(Out::Unavailable { seq: 4 }));
    assert_eq!(out, [1, 2, 3].map(|seq| Out::InDoubt { seq }));
}

#[test]
fn only_unsent_messages_expire() {
    let mut stream = open(Rules::all());
    let mut out = Vec::new();
    stream.push(at(0), 1, 4, 10, true, Some(at(50)), &mut out).unwrap();
    assert_eq!(expire(&mut stream, 60), []);
    assert_eq!(hear(&mut stream, 70, closed(2, 1, 2, &[])), [Out::Lookup]);
    assert_eq!(expire(&mut stream, 71), [Out::Expired { seq: 4 }]);
    assert_eq!(stream.take(4).map(|entry| entry.body), Some(4));
}

#[test]
fn an_expired_message_is_not_sent_by_an_opening_that_comes_late() {
    let mut stream = Stream::new(config(Rules::all()), me());
    stream.push(at(0), 1, 1, 10, false, Some(at(50)), &mut |_| ()).unwrap();
    assert_eq!(hear(&mut stream, 50, home(2, 1, true)), [Out::Expired { seq: 1 }]);
}

#[test]
fn an_ask_waits_for_its_reply_after_it_was_taken() {
    let mut stream = open(Rules::all());
    for body in 4..=6 {
        stream.push(at(0), 1, body, 10, true, Some(at(100)), &mut |_| ()).unwrap();
    }
    assert_eq!(stream.answered(key(2, 1), 6).map(|entry| entry.body), Some(6), "a reply may overtake its Taken");
    hear(&mut stream, 1, In::Taken { from: key(2, 1), token: token(1), upto: 6 });
    assert!(stream.is_empty() && !stream.is_idle());
    assert_eq!(stream.answered(key(3, 1), 4), None);
    assert_eq!(stream.answered(key(2, 1), 4).map(|entry| entry.body), Some(4));
    assert_eq!(stream.answered(key(2, 1), 4), None);
    assert_eq!(expire(&mut stream.clone(), 100), [Out::Overdue { seq: 5 }]);
    let mut lost = stream.clone();
    assert_eq!(hear(&mut lost, 2, In::Lost { node: key(3, 1) }), []);
    assert_eq!(hear(&mut lost, 2, In::Lost { node: key(2, 1) }), [Out::InDoubt { seq: 5 }], "though it may come back");
    assert_eq!(hear(&mut stream, 2, In::PeerGone { node: key(2, 1) }), [Out::InDoubt { seq: 5 },]);
    assert!(stream.take(5).is_some() && stream.is_idle());
}

#[test]
fn bounds_give_the_message_back() {
    let config = StreamConfig { messages_max: 3, bytes_max: 25, asks_max: 1, ..StreamConfig::default() };
    let mut stream = Stream::new(Fixed::new(config), me());
    let mut try_push = |bytes, ask| stream.push(at(0), 1, 7, bytes, ask, None, &mut |_| ()).map_err(|full| full.bound);
    assert_eq!(try_push(10, true), Ok(1));
    assert_eq!(try_push(16, false), Err(Bound::Bytes));
    assert_eq!(try_push(1, true), Err(Bound::Asks));
    assert_eq!(try_push(1, false), Ok(2));
    assert_eq!(try_push(1, false), Ok(3));
    assert_eq!(try_push(1, false), Err(Bound::Messages));
}

#[test]
fn a_full_link_holds_the_stream_until_there_is_room() {
    let mut stream = open(Rules::all());
    assert_eq!(hear(&mut stream, 1, In::Held { attempt: 1, seq: 2 }), []);
    assert_eq!([1, 2, 3].map(|seq| stream.is_sent(seq)), [true, false, false]);
    assert_eq!(push(&mut stream, 4), []);
    let rest = [2, 3, 4].map(|seq| sent(2, 1, 1, seq, false));
    assert_eq!(hear(&mut stream, 2, In::Room), rest);
    hear(&mut stream, 3, In::Held { attempt: 1, seq: 1 });
    assert_eq!(hear(&mut stream, 4, In::Room)[0], sent(2, 1, 1, 1, true), "the first mark is given again");
}

#[test]
fn a_local_home_hands_messages_out_and_takes_them_back_in_order() {
    let mut stream = open(Rules::all());
    hear(&mut stream, 5, closed(2, 1, 0, &[]));
    assert_eq!(hear(&mut stream, 6, home(1, 2, true)), [Out::OpenLocal { token: token(2) }]);
    let popped: Vec<_> = core::iter::from_fn(|| stream.pop_front()).collect();
    assert_eq!(popped.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(push(&mut stream, 4), [Out::OpenLocal { token: token(2) }]);
    let mut out = vec![];
    stream.give_back(at(7), popped.into_iter().skip(1).map(GivenBack::from).collect(), &mut out);
    assert_eq!(out, [Out::Lookup]);
    assert_eq!(stream.pop_front(), None);
    let rest = hear(&mut stream, 8, home(3, 3, true));
    assert_eq!(rest, [sent(3, 3, 3, 5, true), sent(3, 3, 3, 6, false), sent(3, 3, 3, 7, false)], "under new numbers");
    let order = [5, 6, 7].map(|seq| stream.message(seq).map(|entry| entry.body));
    assert_eq!(order, [2, 3, 4].map(Some));
}

#[test]
fn a_grant_that_has_not_arrived_here_is_asked_for_again() {
    let mut stream = Stream::new(config(Rules::all()), me());
    push(&mut stream, 1);
    hear(&mut stream, 1, home(1, 2, true));
    stream.refuse_local(at(1), &mut |_| ());
    assert_eq!(stream.pop_front(), None);
    assert_eq!(expire(&mut stream, 4), [Out::Lookup]);
    assert_eq!(hear(&mut stream, 5, home(1, 2, true)), [Out::OpenLocal { token: token(2) }]);
}

#[test]
fn early_calls_change_nothing() {
    let mut stream = open(Rules::all());
    let before = stream.clone();
    assert_eq!(expire(&mut stream, 100), []);
    assert_eq!(stream, before);
}

/// What a second owner would be sent, if a refusal of attempt 1 arrives after attempt 2 was accepted and taken.
fn sent_again_after_a_late_refusal(rules: Rules) -> Vec<Out> {
    let mut stream = Stream::new(config(rules), me());
    push(&mut stream, 1);
    push(&mut stream, 2);
    assert_eq!(hear(&mut stream, 1, home(2, 1, true)).len(), 2);
    hear(&mut stream, 2, refuse(1, 1, false));
    assert_eq!(hear(&mut stream, 5, home(2, 1, true)).len(), 2);
    hear(&mut stream, 6, refuse(1, 1, false));
    hear(&mut stream, 7, closed(2, 1, 2, &[]));
    hear(&mut stream, 8, home(3, 2, true))
}

#[test]
fn a_late_refusal_of_a_former_attempt_changes_nothing() {
    assert_eq!(sent_again_after_a_late_refusal(Rules::all()), []);
    assert_eq!(sent_again_after_a_late_refusal(Rules::without(Rule::DataAttempt)).len(), 2, "handled twice");
}

#[test]
fn each_mutant_of_the_sender_breaks_its_rule() {
    let mut stream = open(Rules::without(Rule::DrainingWaits));
    hear(&mut stream, 5, refuse(1, 1, true));
    assert_eq!(stream.home(), None);

    let mut stream = open(Rules::without(Rule::DataAttempt));
    hear(&mut stream, 5, refuse(1, 0, false));
    assert_eq!(stream.home(), None);

    let mut stream = open(Rules::without(Rule::NeverResendInDoubt));
    hear(&mut stream, 5, In::PeerGone { node: key(2, 1) });
    assert_eq!(hear(&mut stream, 6, home(3, 2, false)).len(), 3);
}
