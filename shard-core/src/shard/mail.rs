//! One message on its way to an entity of this node.

use crate::id::NodeKey;
use crate::time::Instant;

/// A message that waits for its entity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail<M> {
    /// Where it came in.
    pub origin: Origin,
    /// The message.
    pub message: M,
}

/// Where a message came in, which decides what becomes of it if it is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// From a caller on this node: it goes back to this node's own stream.
    Here {
        /// The caller waits for a reply.
        ask: bool,
        /// When the caller stops waiting.
        deadline: Option<Instant>,
    },
    /// From a stream of another process, which still holds it: it is settled when the handler starts.
    Stream {
        /// The sender.
        from: NodeKey,
        /// Its number.
        seq: u64,
    },
    /// From the entity itself, by a timer: it ends with the incarnation.
    Timer,
}
