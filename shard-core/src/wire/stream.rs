//! What lanes say to each other: the messages of numbered shard streams (rules D1-D11).
//!
//! One stream per (sending process, shard). The sender keeps each message until its fate is known; the owner says exactly
//! which ones a handler took. All of these ride the reliable link, in order.

use alloc::{string::String, vec::Vec};

use crate::id::{NodeKey, ShardKey, Token};

/// One stream message with body `B` and entity name `E`. [`StreamRef`] is the same, borrowed from a read buffer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stream<B, E = String> {
    /// Mail for an entity.
    Data {
        /// The shard.
        key: ShardKey,
        /// The grant the sender believes in.
        token: Token,
        /// Which opening of the route this belongs to.
        attempt: u32,
        /// Its number in the stream.
        seq: u64,
        /// The first message of its attempt.
        first: bool,
        /// The sender waits for a reply under this number.
        ask: bool,
        /// The entity.
        entity: E,
        /// The message.
        body: B,
    },
    /// Handlers have started for every message up to `upto` (D4).
    Taken {
        /// The shard.
        key: ShardKey,
        /// The grant.
        token: Token,
        /// The last of the prefix.
        upto: u64,
    },
    /// The tenure is over; what was not taken was not run (D5).
    Closed {
        /// The shard.
        key: ShardKey,
        /// The grant that ended.
        token: Token,
        /// The last of the prefix taken.
        upto: u64,
        /// Those taken beyond it, ascending.
        beyond: Vec<u64>,
    },
    /// Not taken in: this process does not own the shard under that grant, or is draining it (D7).
    Refuse {
        /// The shard.
        key: ShardKey,
        /// The grant the sender named.
        token: Token,
        /// The attempt it named.
        attempt: u32,
        /// `Closed` will follow.
        draining: bool,
        /// A later home, if this process knows one.
        hint: Option<(NodeKey, Token)>,
    },
    /// Message `seq` was taken but could not be given to its entity; it did not run.
    Rejected {
        /// The shard.
        key: ShardKey,
        /// The grant.
        token: Token,
        /// Its number.
        seq: u64,
        /// Why, as [`crate::entity::Reason`] numbers it on the wire.
        reason: u8,
        /// The wire tag it carried, where the reason is about it.
        tag: u16,
    },
    /// The answer to the ask with number `seq`.
    Reply {
        /// The shard.
        key: ShardKey,
        /// The ask's number.
        seq: u64,
        /// The answer.
        fate: ReplyFate<B>,
    },
}

impl<B, E> Stream<B, E> {
    /// The shard it is about.
    #[must_use]
    pub fn key(&self) -> ShardKey {
        match self {
            Self::Data { key, .. }
            | Self::Taken { key, .. }
            | Self::Closed { key, .. }
            | Self::Refuse { key, .. }
            | Self::Rejected { key, .. }
            | Self::Reply { key, .. } => *key,
        }
    }
}

/// How an ask ended at the entity.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReplyFate<B> {
    /// Answered.
    Answer(B),
    /// The entity ended, or dropped the question.
    Ended,
}

/// One stream message whose text and bytes are borrowed from a frame; a body is its wire tag and its bytes.
pub type StreamRef<'a> = Stream<(u16, &'a [u8]), &'a str>;
