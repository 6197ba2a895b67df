//! The reliable link: what one process sends another arrives in order and once, while both live (rules K1-K5).
//!
//! Connections are one-way. Node A dials B and writes its numbered frames; on the same socket B answers with the
//! handshake and with cumulative acks, nothing else. What B has to say rides a connection that B dialled. So a pair of
//! nodes is two links, each a FIFO of its own: a [`LinkSender`] at the dialling end, a [`LinkReceiver`] at the other.
//!
//! ```text
//!  A: LinkSender                                      B: LinkReceiver
//!     Down --dial--> Dialling --- Hello(A, cluster) ---> checked; Welcome(B, expected) noted as pending
//!     Up  <---------------------- Welcome --------------
//!     Up  ------- Ping, at once: "I heard you" --------> confirmed: only now does the connection count (K1, K4)
//!     Up  ------- frames expected, expected + 1, ... --> delivered once, in order (K2)
//!     Up  <---------------------- Ack(upto) ------------
//! ```
//!
//! - A connection that breaks costs nothing: the sender keeps what was not acknowledged and writes it again (K3).
//! - A peer in a new life ends the pair: what was never written is *not sent*, the rest is *in doubt* (K4, K5).
//! - The third step of the handshake is there because a `Hello` may be read long after its process died. Nothing is
//!   written behind a `Hello` before its `Welcome`, so whatever follows proves that the dialler is alive.
//! - No timer here decides ownership or loss; they only choose when to dial, to probe and to close.
//!
//! Generic over the [`Unit`] that is kept until it is acknowledged: adapters keep batches of encoded frames, simulators
//! single frames. May import the machine and ground floors.

mod handshake;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use handshake::{Hello, Identity, PROTOCOL, Refusal, Welcome};
pub use receiver::{Arrival, Confirmed, LinkReceiver, ReceiverOrder};
pub use sender::{LinkSender, PeerGone, SenderOrder};

use core::fmt;

use crate::id::NodeKey;
use crate::machine::Rules;
use crate::time::Duration;

/// What a [`LinkSender`] keeps until it is acknowledged: one or more whole frames.
pub trait Unit {
    /// How many numbers it takes: its frames, at least one.
    fn frames(&self) -> u64;
    /// What it counts against the bound, in bytes.
    fn bytes(&self) -> usize;
}

/// The bounds and times of links.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Unacknowledged bytes at which [`LinkSender::push`] refuses. 4 MiB: what a 10 Gbit link holds in 3 ms.
    pub bytes_max: usize,
    /// Unacknowledged frames at which [`LinkSender::push`] refuses.
    pub frames_max: u64,
    /// The pause before the first redial.
    pub dial_first: Duration,
    /// The longest pause between dials; each failure doubles up to it.
    pub dial_last: Duration,
    /// A sender that has heard nothing for so long sends a probe.
    pub probe: Duration,
    /// A connection that was silent for so long is closed, and a dial without an answer is given up.
    pub silent: Duration,
    /// Frames after which an ack is due.
    pub ack_frames: u64,
    /// How long a frame may wait for its ack otherwise.
    pub ack_delay: Duration,
    /// Which rules are on.
    pub rules: Rules,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            bytes_max: 4 << 20,
            frames_max: 65_536,
            dial_first: Duration::from_millis(50),
            dial_last: Duration::from_secs(2),
            probe: Duration::from_secs(1),
            silent: Duration::from_secs(3),
            ack_frames: 32,
            ack_delay: Duration::from_millis(5),
            rules: Rules::all(),
        }
    }
}

/// The peer broke the protocol of links; the connection was dropped and must be closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkFault {
    /// Another node answers at this address.
    WrongNode {
        /// Who was dialled.
        asked: NodeKey,
        /// Who answered.
        found: NodeKey,
    },
    /// The peer acknowledged, or expects, frames beyond those sent.
    Ahead {
        /// The last frame the peer says it has.
        claimed: u64,
        /// The last frame written.
        written: u64,
    },
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongNode { asked, found } => write!(f, "dialled {asked}, but {found} answered"),
            Self::Ahead { claimed, written } => {
                write!(f, "the peer acknowledged frame {claimed}, but only {written} were written")
            }
        }
    }
}

impl core::error::Error for LinkFault {}
