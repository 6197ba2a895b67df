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
    assert!(lock(&peer.state).end(ONE));
    say(&peer, TWO, 3);
    assert_eq!(heard(&peer, TWO), [2, 3]);
}

#[test]
fn a_late_answer_to_a_life_that_is_over_waits_for_nobody() {
    let peer = peers().of(ONE.id);
    say(&peer, ONE, 1);
    assert!(lock(&peer.state).end(ONE));
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
    assert!(lock(&peer.state).end(ONE));
    assert!(!lock(&peer.state).has_work());
    peers.control(crate::node::Peer::Key(TWO), &Control::WhoReigns);
    assert!(lock(&peer.state).has_work(), "the link is free for the next life");
}
