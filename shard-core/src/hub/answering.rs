//! The way an answer takes back to the node that asked.

use std::boxed::Box;
use std::sync::Arc;
use std::vec::Vec;

use super::peers::BODY_MAX;
use super::shared::Shared;
use crate::entity::{AskFailure, ReplyPath};
use crate::id::{NodeKey, ShardKey};
use crate::wire::{ReplyFate, Stream, codec};

/// The way back to a node that asked.
pub(super) struct Answering {
    pub(super) shared: Arc<Shared>,
    pub(super) to: NodeKey,
    pub(super) key: ShardKey,
    pub(super) seq: u64,
}

impl ReplyPath for Answering {
    fn answer(self: Box<Self>, body: Result<Vec<u8>, AskFailure>) {
        let (key, seq) = (self.key, self.seq);
        let fate = match &body {
            Ok(bytes) if bytes.len() <= BODY_MAX as usize => ReplyFate::Answer((0, &bytes[..])),
            // An answer that is too long, or that its own type cannot encode, is none.
            Ok(_) | Err(_) => ReplyFate::Ended,
        };
        let peer = self.shared.peers.of(self.to.id);
        peer.bulk(self.to, |out| codec::encode(out, &Stream::Reply { key, seq, fate }));
    }
}
