//! What waits for the control task.
//!
//! Frames of peers are bounded, each peer's by itself: one that floods loses its own datagrams, which the protocol bears,
//! and nobody else's. What this node's own tasks say is never dropped: there is one lookup per shard, one answer per order.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::shared::ToControl;
use crate::id::{NodeId, NodeKey};
use crate::node::Input;
use crate::wire::Control;

/// Frames of one peer that wait, at most.
const FRAMES_PER_PEER: usize = 1_024;
/// Their bytes; one frame of any size that the link lets through fits.
const BYTES_PER_PEER: usize = 16 << 20;
/// Bytes of all peers' frames together.
const BYTES: usize = 256 << 20;

#[derive(Default)]
pub(super) struct ControlQueue {
    waiting: Vec<ToControl>,
    heard: BTreeMap<NodeId, Share>,
    bytes: usize,
}

/// What one peer has put in since control last looked.
#[derive(Clone, Copy, Default)]
struct Share {
    frames: usize,
    bytes: usize,
}

impl ControlQueue {
    pub(super) fn push(&mut self, message: ToControl) {
        self.waiting.push(message);
    }

    /// Takes a peer's frame of so many bytes. False: it is dropped, for too many wait.
    pub(super) fn hear(&mut self, from: NodeKey, to: NodeKey, message: Control, bytes: usize) -> bool {
        let share = self.heard.entry(from.id).or_default();
        let fits = share.frames < FRAMES_PER_PEER && (share.frames == 0 || share.bytes + bytes <= BYTES_PER_PEER);
        if !fits || self.bytes + bytes > BYTES {
            return false;
        }
        share.frames += 1;
        share.bytes += bytes;
        self.bytes += bytes;
        self.waiting.push(ToControl::Input(Input::Heard { from, to, message }));
        true
    }

    /// Takes all that waits, giving `empty` in exchange.
    pub(super) fn swap(&mut self, empty: &mut Vec<ToControl>) {
        std::mem::swap(&mut self.waiting, empty);
        self.heard.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Incarnation;

    fn key(id: u64) -> NodeKey {
        NodeKey { id: NodeId(id), incarnation: Incarnation(1) }
    }

    #[test]
    fn a_peer_that_floods_loses_its_own_frames_and_nobody_elses() {
        let mut queue = ControlQueue::default();
        let taken = (0..5_000).filter(|_| queue.hear(key(1), key(9), Control::WhoReigns, 1)).count();
        assert_eq!(taken, FRAMES_PER_PEER);
        assert!(queue.hear(key(2), key(9), Control::WhoReigns, BYTES_PER_PEER), "one frame of any size");
        assert!(!queue.hear(key(2), key(9), Control::WhoReigns, 1));
        let mut batch = Vec::new();
        queue.swap(&mut batch);
        assert_eq!(batch.len(), FRAMES_PER_PEER + 1);
        assert!(queue.hear(key(1), key(9), Control::WhoReigns, 1), "control has looked");
    }

    #[test]
    fn many_peers_together_are_bounded_too() {
        let mut queue = ControlQueue::default();
        let taken = (0..1_000).filter(|id| queue.hear(key(*id), key(9), Control::WhoReigns, BYTES_PER_PEER)).count();
        assert_eq!(taken, BYTES / BYTES_PER_PEER);
    }
}
