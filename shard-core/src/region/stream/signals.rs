//! What the sender's side of a stream hears and orders, and how it refuses.

use alloc::vec::Vec;
use core::fmt;

use super::Entry;
use crate::id::{NodeKey, Token};
use crate::time::Instant;
use crate::wire::Home;

/// What a stream hears.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OutgoingInput {
    /// The coordinator's answer to a lookup, unless the shard has no home yet.
    Home(Home),
    /// The owner started handlers for every message up to `upto`.
    Taken {
        /// The process that says so.
        from: NodeKey,
        /// Its grant.
        token: Token,
        /// The last of the prefix.
        upto: u64,
    },
    /// The owner's tenure ended.
    Closed {
        /// The process that says so.
        from: NodeKey,
        /// Its grant.
        token: Token,
        /// The last of the prefix taken.
        upto: u64,
        /// Those taken beyond it.
        beyond: Vec<u64>,
    },
    /// A message was not let in.
    Refuse {
        /// The process that says so.
        from: NodeKey,
        /// The grant named by the message.
        token: Token,
        /// The attempt named by the message.
        attempt: u32,
        /// `Closed` will follow.
        draining: bool,
        /// A later home, if the refuser knows one.
        hint: Option<(NodeKey, Token)>,
    },
    /// A process is gone for good, as a link or the coordinator says.
    PeerGone {
        /// The process.
        node: NodeKey,
    },
    /// A process is hard to reach: dials fail. A mere break that is mended at once is not worth telling.
    LinkDown {
        /// The process.
        node: NodeKey,
    },
    /// A process can be reached again.
    LinkUp {
        /// The process.
        node: NodeKey,
    },
    /// A process will not answer any more, as far as anybody can tell: it has no session and cannot be reached. What it
    /// took and has not answered is in doubt.
    Lost {
        /// The process.
        node: NodeKey,
    },
    /// The link did not take message `seq`, or gave it back unsent (K5): it and all after it are unsent again, and
    /// nothing is transmitted before `Room` or another opening. What was ordered before and is not
    /// [`is_sent`](super::Outgoing::is_sent) any more must not be encoded.
    Held {
        /// The attempt under which it was to be transmitted.
        attempt: u32,
        /// The message.
        seq: u64,
    },
    /// The link has room again. Told after all earlier outputs of this stream have been dealt with.
    Room,
}

/// What a stream orders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OutgoingOutput {
    /// Put message `seq` on the link to `to`, behind all ordered before; if it has no room, answer `Held`.
    Transmit {
        /// The owner.
        to: NodeKey,
        /// Its grant.
        token: Token,
        /// The present attempt.
        attempt: u32,
        /// The message.
        seq: u64,
        /// The first of its attempt.
        first: bool,
    },
    /// Ask the coordinator for the shard's home.
    Lookup,
    /// This node is the home under `token`: take the messages out with [`pop_front`](super::Outgoing::pop_front),
    /// or answer with [`refuse_local`](super::Outgoing::refuse_local) if that grant is not here (yet).
    OpenLocal {
        /// The grant.
        token: Token,
    },
    /// Message `seq` may or may not have run and is never sent again (D8). For an ask that was taken: its reply will
    /// not come. [`take`](super::Outgoing::take) it.
    InDoubt {
        /// The message.
        seq: u64,
    },
    /// Message `seq` was not run: no owner could be reached in time. [`take`](super::Outgoing::take) it.
    Unavailable {
        /// The message.
        seq: u64,
    },
    /// Message `seq` was not run: its deadline passed. [`take`](super::Outgoing::take) it.
    Expired {
        /// The message.
        seq: u64,
    },
    /// Ask `seq` was taken, but its deadline passed without a reply. [`take`](super::Outgoing::take) it.
    Overdue {
        /// The message.
        seq: u64,
    },
}

/// A message that was delivered on this node and not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenBack<E, B> {
    /// The entity.
    pub entity: E,
    /// The message.
    pub body: B,
    /// Its sender waits for a reply.
    pub ask: bool,
    /// What it counts against the stream's bound.
    pub bytes: usize,
    /// If it is still unsent by then, it is not run at all.
    pub deadline: Option<Instant>,
}

impl<E, B> From<Entry<E, B>> for GivenBack<E, B> {
    fn from(Entry { entity, body, ask, bytes, deadline, .. }: Entry<E, B>) -> Self {
        Self { entity, body, ask, bytes, deadline }
    }
}

/// Which bound of a stream is reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bound {
    /// [`super::StreamConfig::messages_max`].
    Messages,
    /// [`super::StreamConfig::bytes_max`].
    Bytes,
    /// [`super::StreamConfig::asks_max`].
    Asks,
}

/// A message that the stream did not take; here it is again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Full<E, B> {
    /// The bound.
    pub bound: Bound,
    /// The entity it was for.
    pub entity: E,
    /// The message.
    pub body: B,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Messages => "the stream to the shard holds too many messages",
            Self::Bytes => "the stream to the shard holds too many bytes",
            Self::Asks => "too many asks to the shard are unanswered",
        })
    }
}
