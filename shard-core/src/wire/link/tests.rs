//! Links: rule by rule.

use alloc::{format, string::String, vec::Vec};

use super::*;
use crate::id::{Incarnation, NodeId};
use crate::machine::{Fixed, Rule};
use crate::time::Instant;

impl Unit for u64 {
    fn frames(&self) -> u64 {
        1
    }
    fn bytes(&self) -> usize {
        100
    }
}

/// A batch: its frames, by payload.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Batch(Vec<u64>);

impl Unit for Batch {
    fn frames(&self) -> u64 {
        self.0.len() as u64
    }
    fn bytes(&self) -> usize {
        self.0.len() * 100
    }
}

fn key(id: u64, incarnation: u64) -> NodeKey {
    NodeKey { id: NodeId(id), incarnation: Incarnation(incarnation) }
}

fn identity(node: NodeKey) -> Identity {
    Identity { cluster: String::from("shop"), protocol: PROTOCOL, node, address: String::from("10.0.0.1:7") }
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn config(rules: Rules) -> Fixed<LinkConfig> {
    Fixed::new(LinkConfig { rules, ..LinkConfig::default() })
}

fn up(sender: &mut LinkSender<u64>, connection: u64, node: NodeKey, expected: u64) -> Option<PeerGone<u64>> {
    sender.connected(at(0), connection, Welcome { node, expected }).unwrap()
}

fn write_all(sender: &mut LinkSender<u64>, connection: u64) -> Vec<(u64, u64)> {
    core::iter::from_fn(|| sender.write(connection).map(|(first, unit)| (first, *unit))).collect()
}

/// A receiver of n2.1 to which n1.1 is connected by connection 1.
fn receiver(rules: Rules) -> LinkReceiver {
    let mut receiver = LinkReceiver::new(config(rules));
    let welcome = receiver.hello(&identity(key(2, 1)), 1, &identity(key(1, 1)).hello(None));
    assert_eq!(welcome, Ok(Welcome { node: key(2, 1), expected: 1 }));
    assert_eq!(receiver.confirm(at(0), 1), Confirmed::Opened { gone: None, replaced: None });
    receiver
}

#[test]
fn the_same_process_gets_the_rest_again_under_the_same_numbers() {
    let mut sender = LinkSender::new(config(Rules::all()), None);
    for unit in 10..15 {
        sender.push(unit).unwrap();
    }
    assert_eq!(up(&mut sender, 1, key(2, 1), 1), None);
    assert_eq!(write_all(&mut sender, 1), [(1, 10), (2, 11), (3, 12), (4, 13), (5, 14)]);
    sender.acked(at(1), 1, 2, &mut |_| ()).unwrap();
    sender.disconnected(at(2), 1);
    assert_eq!(write_all(&mut sender, 1), []);
    assert_eq!(up(&mut sender, 2, key(2, 1), 4), None);
    assert_eq!(write_all(&mut sender, 2), [(4, 13), (5, 14)]);
}

#[test]
fn a_new_process_ends_the_pair_and_tells_doubtful_from_unsent() {
    let mut sender = LinkSender::new(config(Rules::all()), None);
    sender.push(10).unwrap();
    sender.push(11).unwrap();
    up(&mut sender, 1, key(2, 1), 1);
    write_all(&mut sender, 1);
    sender.acked(at(1), 1, 1, &mut |_| ()).unwrap();
    sender.push(12).unwrap();
    let gone = up(&mut sender, 2, key(2, 2), 1).unwrap();
    assert_eq!((gone.old, gone.sent.into(), gone.unsent.into()), (key(2, 1), Vec::from([11]), Vec::from([12])));
    sender.push(13).unwrap();
    assert_eq!(write_all(&mut sender, 2), [(1, 13)]);
}

#[test]
fn in_doubt_outlives_the_connection_that_wrote() {
    let mut sender = LinkSender::new(config(Rules::all()), None);
    sender.push(10).unwrap();
    up(&mut sender, 1, key(2, 1), 1);
    write_all(&mut sender, 1);
    sender.disconnected(at(0), 1);
    up(&mut sender, 2, key(2, 1), 1);
    let gone = sender.gone(at(0), key(2, 1)).unwrap();
    assert_eq!((gone.sent.len(), gone.unsent.len()), (1, 0));
}

#[test]
fn a_peer_that_forgot_the_link_ends_the_pair() {
    let mut sender = LinkSender::new(config(Rules::all()), None);
    sender.push(10).unwrap();
    sender.push(11).unwrap();
    up(&mut sender, 1, key(2, 1), 1);
    write_all(&mut sender, 1);
    sender.acked(at(0), 1, 1, &mut |_| ()).unwrap();
    assert!(up(&mut sender, 2, key(2, 1), 1).is_some_and(|gone| gone.sent == [11]));
}

#[test]
fn a_fresh_sender_takes_up_the_peers_count() {
    let mut sender = LinkSender::new(config(Rules::all()), None);
    sender.push(10).unwrap();
    assert_eq!(up(&mut sender, 1, key(2, 1), 8), None);
    assert_eq!(write_all(&mut sender, 1), [(8, 10)]);
}

#[test]
fn acks_of_a_former_connection_are_dropped() {
    let mut sender = LinkSender::new(config(Rules::all()), None);
    sender.push(10).unwrap();
    up(&mut sender, 1, key(2, 1), 1);
    write_all(&mut sender, 1);
    up(&mut sender, 2, key(2, 1), 1);
    sender.acked(at(0), 1, 1, &mut |_| ()).unwrap();
    assert!(!sender.is_empty());
}

#[test]
fn an_ack_of_what_was_not_written_closes_the_connection() {
    let mut sender = LinkSender::new(config(Rules::all()), None);
    up(&mut sender, 1, key(2, 1), 1);
    sender.push(10).unwrap();
    let fault = sender.acked(at(0), 1, 1, &mut |_| ()).unwrap_err();
    assert_eq!(format!("{fault}"), "the peer acknowledged frame 1, but only 0 were written");
    assert_eq!(sender.connection(), None);
}

#[test]
fn another_node_at_the_address_gets_nothing() {
    let mut sender = LinkSender::<u64>::new(config(Rules::all()), Some(key(2, 1)));
    let welcome = Welcome { node: key(3, 1), expected: 1 };
    let fault = sender.connected(at(0), 1, welcome).unwrap_err();
    assert_eq!(format!("{fault}"), "dialled n2.0001, but n3.0001 answered");
    assert_eq!(sender.connection(), None);
}

#[test]
fn a_full_link_gives_the_unit_back_but_takes_answers() {
    let config = Fixed::new(LinkConfig { bytes_max: 250, ..LinkConfig::default() });
    let mut sender = LinkSender::new(config, None);
    assert_eq!([sender.push(1), sender.push(2), sender.push(3)], [Ok(()), Ok(()), Err(3)]);
    sender.answer(4);
    assert_eq!(sender.bytes(), 300);
}

#[test]
fn a_batch_leaves_only_when_its_last_frame_is_acknowledged() {
    let mut sender = LinkSender::new(config(Rules::all()), None);
    sender.push(Batch([1, 2, 3].into())).unwrap();
    sender.push(Batch([4].into())).unwrap();
    sender.connected(at(0), 1, Welcome { node: key(2, 1), expected: 1 }).unwrap();
    assert_eq!(sender.write(1).map(|(first, _)| first), Some(1));
    assert_eq!(sender.write(1).map(|(first, _)| first), Some(4));
    let mut done = Vec::new();
    sender.acked(at(0), 1, 2, &mut done).unwrap();
    assert!(done.is_empty());
    sender.acked(at(0), 1, 3, &mut done).unwrap();
    assert_eq!(done, [Batch([1, 2, 3].into())]);
}

#[test]
fn dials_back_off_and_silence_closes() {
    let mut sender = LinkSender::<u64>::new(config(Rules::all()), None);
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        assert_eq!(sender.expire(now), Some(SenderOrder::Dial));
        assert_eq!(sender.expire(now), None);
        sender.failed(now);
        pauses.push(sender.deadline().since(now).as_millis());
        now = sender.deadline();
    }
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    assert!(sender.is_doubtful());
    sender.connected(at(0), 1, Welcome { node: key(2, 1), expected: 1 }).unwrap();
    assert!(!sender.is_doubtful());
    assert_eq!(sender.expire(at(999)), None);
    assert_eq!(sender.expire(at(1000)), Some(SenderOrder::Ping { connection: 1 }));
    assert_eq!(sender.expire(at(2999)), Some(SenderOrder::Ping { connection: 1 }));
    assert_eq!(sender.expire(at(3000)), Some(SenderOrder::Close { connection: 1 }));
    assert!(!sender.is_doubtful());
}

#[test]
fn frames_come_once_in_order_and_a_gap_closes() {
    let mut receiver = receiver(Rules::all());
    let seen = [1, 2, 2, 3, 5, 4].map(|seq| receiver.frame(at(0), 1, seq));
    use Arrival::{Deliver, Duplicate, Gap, Stale};
    assert_eq!(seen, [Deliver, Deliver, Duplicate, Deliver, Gap, Stale]);
}

#[test]
fn acks_come_after_32_frames_or_5_ms() {
    let mut receiver = receiver(Rules::all());
    for seq in 1..=31 {
        receiver.frame(at(1), 1, seq);
        assert_eq!(receiver.expire(at(1)), None);
    }
    receiver.frame(at(1), 1, 32);
    assert_eq!(receiver.expire(at(1)), Some(ReceiverOrder::Ack { connection: 1, upto: 32 }));
    receiver.frame(at(2), 1, 33);
    assert_eq!(receiver.deadline(), Some(at(7)));
    assert_eq!(receiver.expire(at(6)), None);
    assert_eq!(receiver.expire(at(7)), Some(ReceiverOrder::Ack { connection: 1, upto: 33 }));
    receiver.ping(at(8), 1);
    assert_eq!(receiver.expire(at(8)), Some(ReceiverOrder::Ack { connection: 1, upto: 33 }));
    assert_eq!(receiver.expire(at(3008)), Some(ReceiverOrder::Close { connection: 1 }));
}

#[test]
fn only_a_dialler_that_heard_the_welcome_replaces_another_process() {
    let mut receiver = receiver(Rules::all());
    receiver.frame(at(0), 1, 1);
    let welcome = receiver.hello(&identity(key(2, 1)), 2, &identity(key(1, 2)).hello(None)).unwrap();
    assert_eq!(welcome.expected, 1);
    assert_eq!(receiver.frame(at(0), 1, 2), Arrival::Deliver);
    assert_eq!(receiver.frame(at(0), 2, 1), Arrival::Stale);
    assert_eq!(receiver.confirm(at(0), 2), Confirmed::Opened { gone: Some(key(1, 1)), replaced: Some(1) });
    assert_eq!(receiver.frame(at(0), 2, 1), Arrival::Deliver);
    assert_eq!(receiver.frame(at(0), 1, 3), Arrival::Stale);
}

#[test]
fn every_refusal_names_both_sides() {
    let here = identity(key(2, 1));
    let there = identity(key(1, 1));
    let said = |hello: &Hello| format!("{}", here.admit(hello).unwrap_err());
    let hello = there.hello(None);
    assert_eq!(here.admit(&hello), Ok(()));
    assert_eq!(here.admit(&there.hello(Some(key(2, 7)))), Ok(()));
    assert_eq!(
        said(&Hello { cluster: String::from("bank"), ..hello.clone() }),
        "wrong cluster: the dialler belongs to \"bank\", this node to \"shop\""
    );
    assert_eq!(
        said(&Hello { protocol: 9, ..hello.clone() }),
        "wrong protocol version: the dialler speaks 9, this node 4"
    );
    assert_eq!(said(&there.hello(Some(key(3, 1)))), "wrong node: the dialler wants n3.0001, this is n2.0001");
    assert_eq!(said(&here.hello(None)), "self-connection: n2.0001 dialled its own address");
    assert_eq!(
        said(&Hello { from: key(2, 2), ..hello }),
        "wrong incarnation: n2.0002 bears the id of this node, which is n2.0001"
    );
}

#[test]
fn mutant_link_gap_accepted_delivers_out_of_order() {
    let mut receiver = receiver(Rules::without(Rule::LinkGap));
    assert_eq!(receiver.frame(at(0), 1, 3), Arrival::Deliver);
}

#[test]
fn mutant_link_not_reset_drops_the_new_processes_frames() {
    let mut receiver = receiver(Rules::without(Rule::LinkReset));
    receiver.frame(at(0), 1, 1);
    receiver.hello(&identity(key(2, 1)), 2, &identity(key(1, 2)).hello(None)).unwrap();
    receiver.confirm(at(0), 2);
    assert_eq!(receiver.frame(at(0), 2, 1), Arrival::Duplicate);
}

#[test]
fn mutant_link_resends_to_new_process_is_seen_at_the_link() {
    let mut sender = LinkSender::new(config(Rules::without(Rule::LinkForget)), None);
    sender.push(10).unwrap();
    up(&mut sender, 1, key(2, 1), 1);
    write_all(&mut sender, 1);
    assert_eq!(up(&mut sender, 2, key(2, 2), 1), None);
    assert_eq!(write_all(&mut sender, 2), [(1, 10)]);
}

#[test]
fn mutant_link_former_connection_accepted_takes_its_frames() {
    let mut receiver = receiver(Rules::without(Rule::LinkConnection));
    assert_eq!(receiver.frame(at(0), 9, 1), Arrival::Deliver);
}

#[test]
fn a_process_declared_gone_is_not_let_in_again() {
    // It left and has not heard its farewell yet. Were it let in anew, its frames would count from one and run twice.
    let mut receiver = receiver(Rules::all());
    assert_eq!(receiver.frame(at(1), 1, 1), Arrival::Deliver);
    assert!(receiver.gone(key(1, 1)));
    let again = receiver.hello(&identity(key(2, 1)), 2, &identity(key(1, 1)).hello(None));
    assert_eq!(again, Err(Refusal::Gone { theirs: key(1, 1) }));
    let next = receiver.hello(&identity(key(2, 1)), 3, &identity(key(1, 2)).hello(None));
    assert_eq!(next, Ok(Welcome { node: key(2, 1), expected: 1 }));
}

#[test]
fn a_frame_that_could_not_be_kept_comes_again() {
    let mut receiver = receiver(Rules::all());
    assert_eq!(receiver.frame(at(1), 1, 1), Arrival::Deliver);
    assert_eq!(receiver.frame(at(1), 1, 2), Arrival::Deliver);
    receiver.give_back(2);
    assert_eq!(receiver.connection(), None, "its host closes the connection");
    let welcome = receiver.hello(&identity(key(2, 1)), 2, &identity(key(1, 1)).hello(None));
    assert_eq!(welcome, Ok(Welcome { node: key(2, 1), expected: 2 }));
    receiver.confirm(at(2), 2);
    assert_eq!(receiver.frame(at(2), 2, 2), Arrival::Deliver);
}
