//! What one life of a node is told is not for the next.

use super::*;
use crate::id::Incarnation;
use crate::time::Instant;
use crate::wire::link::{PROTOCOL, Welcome};
use std::string::ToString;

const ONE: NodeKey = NodeKey { id: NodeId(2), incarnation: Incarnation(1) };
const TWO: NodeKey = NodeKey { id: NodeId(2), incarnation: Incarnation(2) };

fn peers() -> Peers {
    let node = NodeKey { id: NodeId(1), incarnation: Incarnation(1) };
    let identity = Identity { cluster: "test".to_string(), protocol: PROTOCOL, node, address: String::new() };
    Peers::new(identity, LinkConfig::default())
}

fn say(peer: &Peer, to: NodeKey, what: u8) {
    peer.bulk(to, |out| out.push(what));
}

/// The last byte of each frame that would be written to `node` now.
fn heard(peer: &Peer, node: NodeKey) -> Vec<u8> {
    let mut state = lock(&peer.state);
    assert!(state.link.connected(Instant::ZERO, 9, Welcome { node, expected: 1 }).is_ok());
    state.seal();
    let mut bytes = Vec::new();
    while let Some((_, batch)) = state.link.write(9) {
        bytes.extend(batch.bytes.iter().copied());
    }
    let mut said = Vec::new();
    let mut rest = &bytes[..];
    while let Some((head, _)) = rest.split_first_chunk::<4>() {
        let end = 4 + u32::from_le_bytes(*head) as usize;
        said.extend(rest[..end].last().copied());
        rest = &rest[end..];
    }
    said
}

#[test]
fn what_waits_for_the_next_life_goes_before_what_is_said_to_it_later() {
    let peer = peers().of(ONE.id);
    say(&peer, ONE, 1);
    say(&peer, TWO, 2);
    peer.end(ONE);
    say(&peer, TWO, 3);
    assert_eq!(heard(&peer, TWO), [2, 3]);
}

#[test]
fn a_late_answer_to_a_life_that_is_over_waits_for_nobody() {
    let peer = peers().of(ONE.id);
    say(&peer, ONE, 1);
    peer.end(ONE);
    say(&peer, ONE, 2);
    assert!(!lock(&peer.state).has_work(), "nobody would ever take it, and no node could leave");
    say(&peer, TWO, 3);
    say(&peer, ONE, 4);
    assert_eq!(heard(&peer, TWO), [3]);
}

#[test]
fn control_frames_for_one_life_are_not_read_by_the_next() {
    let peers = peers();
    let peer = peers.of(ONE.id);
    peers.control(crate::node::Peer::Key(ONE), &Control::WhoReigns);
    assert!(lock(&peer.state).has_work());
    peer.end(ONE);
    assert!(!lock(&peer.state).has_work());
    peers.control(crate::node::Peer::Key(TWO), &Control::WhoReigns);
    assert!(lock(&peer.state).has_work(), "the link is free for the next life");
}

#[test]
fn nobody_dials_a_life_that_is_over() {
    let peer = peers().of(ONE.id);
    assert!(!peer.takes(ONE));
    assert!(peer.is_owed());
    peer.end(ONE);
    assert!(!peer.is_owed(), "its lanes hear that it is gone");
    assert!(!peer.takes(ONE));
    assert!(!peer.is_owed(), "nor for a lane that has not heard it yet");
    assert!(!peer.takes(TWO));
    peer.end(ONE);
    assert!(!peer.opened(ONE));
    assert!(peer.is_owed(), "the next life is waited for still");
    assert!(peer.opened(TWO), "and announced once");
    assert!(!peer.opened(TWO));
}

#[test]
fn one_who_takes_no_answers_is_not_listened_to_until_it_does() {
    let peer = peers().of(ONE.id);
    let body = std::vec![0; BODY_MAX as usize];
    while !peer.is_full() {
        peer.bulk(ONE, |out| out.extend_from_slice(&body));
    }
    assert!(!peer.is_deaf(), "it is full long before");
    (0..DEAF_BYTES / body.len()).for_each(|_| peer.bulk(TWO, |out| out.extend_from_slice(&body)));
    assert!(peer.is_deaf(), "what waits for its next life counts as well");
    peer.end(TWO);
    peer.bulk(ONE, |out| out.push(0));
    assert!(!peer.is_deaf());
}

fn hello(id: u64) -> Hello {
    let from = NodeKey { id: NodeId(id), incarnation: Incarnation(1) };
    Hello { cluster: "test".to_string(), protocol: PROTOCOL, from, to: None, address: String::new(), aside: false }
}

#[test]
fn strangers_claim_only_so_many_ids() {
    let peers = peers();
    let ids = 2..2 + PEERS_MAX as u64;
    assert!(ids.clone().all(|id| peers.admit(&hello(id)).is_ok()));
    assert_eq!(peers.admit(&hello(ids.end)).err(), Some(Refusal::TooManyNodes { known: PEERS_MAX }));
    assert!(peers.admit(&hello(2)).is_ok(), "who is known comes back");
}

#[test]
fn a_stranger_goes_with_its_last_connection_and_one_that_was_confirmed_stays() {
    let peers = peers();
    let (first, second) = (peers.admit(&hello(7)).unwrap(), peers.admit(&hello(7)).unwrap());
    peers.forget_stranger(first);
    assert!(Arc::ptr_eq(&peers.admit(&hello(7)).unwrap(), &second), "while one is open, both are one link");
    peers.forget_stranger(second);
    assert_eq!(peers.all().len(), 0);

    let confirmed = peers.admit(&hello(7)).unwrap();
    confirmed.confirm();
    peers.forget_stranger(confirmed);
    assert_eq!(peers.all().len(), 1);
    for id in 100..100 + PEERS_MAX as u64 * 2 {
        let stranger = peers.admit(&hello(id)).expect("no place is taken for good");
        peers.forget_stranger(stranger);
    }
}
