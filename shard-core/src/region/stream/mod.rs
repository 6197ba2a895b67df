//! Numbered shard streams: mail that survives the moves of its shard (rules D1-D11).
//!
//! One stream per (sending process, shard). The sender ([`Outgoing`]) keeps each message until its fate is known; the
//! owner ([`Incoming`], one per tenure, that is: per grant) forwards nothing, but says exactly which messages a handler
//! was started with. So a planned move loses, repeats and reorders nothing, and when a process dies its senders learn
//! which messages may have run.
//!
//! ```text
//!           Outgoing                                             Incoming
//!   Seek -- Home(node, token) --> Open --- Data first ---------> entry {attempt, expected}          (D2, D3)
//!    ^  ^                         |  |  <- Taken(upto) --------- handlers started                   (D4)
//!    |  |                         |  |  <- Refuse(draining) ---- draining, entry known
//!    |  |                         v  |
//!    |  |                        Wait|  <- Closed(upto, beyond)  the tenure ended in a living process (D5)
//!    |  +--- Closed: rest unsent --+-+                                                              (D6)
//!    +------ Refuse, not draining: nothing is there, after 3 ms                                     (D7)
//!    +------ owner gone: sent ones in doubt, the rest unsent                                        (D8, D9)
//!   Local <- Home(this node): the lane takes the messages out itself                                (D10)
//! ```
//!
//! Promises: per (sender, entity) order; at most one handler per message; every message gets one fate: taken, in doubt,
//! or not run with a reason. They rest on links that are FIFO while both processes live ([`crate::wire::link`]) and on
//! tenures that do not overlap. Both machines are pure; bodies stay where they are and outputs name them by number. May
//! import the wire, machine and ground floors.

mod incoming;
mod outgoing;
mod queue;
mod signals;
#[cfg(test)]
mod tests;

pub use incoming::{Incoming, IncomingOutput, Verdict};
pub use outgoing::Outgoing;
pub use queue::Entry;
pub use signals::{Bound, Full, GivenBack, OutgoingInput, OutgoingOutput};

use crate::machine::Rules;
use crate::time::Duration;

/// The bounds and times of streams, the same for all streams of a node.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// The first pause between two lookups; it doubles.
    pub retry_first: Duration,
    /// The longest pause between two lookups, and after repeated refusals.
    pub retry_last: Duration,
    /// How long to wait after a refusal before asking again (D7); doubles while the same grant refuses.
    pub refuse_pause: Duration,
    /// How often to ask for the home while the oldest message has been unsettled for so long (D9).
    pub ask_every: Duration,
    /// How long to wait for `Closed` once a later grant is known (D9).
    pub close_wait: Duration,
    /// How long a message may be unsettled: then it is unavailable if unsent, else in doubt.
    pub give_up_after: Duration,
    /// Unsettled messages at which [`Outgoing::push`] refuses. When a tenure ends, what its entities had waiting comes back beyond
    /// it: that was accepted already.
    pub messages_max: usize,
    /// Unsettled bytes at which [`Outgoing::push`] refuses.
    pub bytes_max: usize,
    /// Unanswered asks, unsettled ones included, at which [`Outgoing::push`] refuses another ask.
    pub asks_max: usize,
    /// Which rules are on.
    pub rules: Rules,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            retry_first: Duration::from_millis(20),
            retry_last: Duration::from_secs(1),
            refuse_pause: Duration::from_millis(3),
            ask_every: Duration::from_millis(150),
            close_wait: Duration::from_secs(2),
            give_up_after: Duration::from_secs(30),
            messages_max: 4_096,
            bytes_max: 1 << 20,
            asks_max: 4_096,
            rules: Rules::all(),
        }
    }
}
