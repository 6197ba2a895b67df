//! Frames: how a connection's bytes are cut, without touching a socket.
//!
//! ```text
//! frame   = length u32 | kind u8 | payload          length counts kind and payload; all numbers are little-endian
//! dialler -> answerer:  Hello, then Ping, Control and (Batch, Message ...) in any order
//! answerer -> dialler:  Welcome or Refused, then Ack ...
//! ```
//!
//! `Batch` numbers the [`Frame::Message`]s behind it, so a message costs five bytes of framing and a unit of messages can
//! be written again under another header without touching it. Control frames are not numbered: they may be lost, and are
//! written ahead of bulk.
//!
//! [`Decoder`] trusts nothing: each end accepts only what the other may say at that point, a length is compared with the
//! limit of its kind before a byte is kept for it, memory grows with the bytes that came and not with those announced,
//! and what breaks a rule is a [`FrameError`]. The `write_*` functions append to a caller's buffer.

mod decoder;
mod encode;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, Frame};
pub use encode::{
    skip, write_ack, write_batch, write_control, write_hello, write_message, write_ping, write_refused, write_welcome,
};

use core::fmt;

/// Opens the payload of `Hello` and `Welcome`, ahead of the protocol version, in every version there will ever be.
pub(crate) const MAGIC: [u8; 4] = *b"shrd";

/// Length and kind: what every frame costs beside its payload.
pub const HEAD: usize = 5;

/// Which end of the connection reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    /// The one that dialled: hears `Welcome`, `Refused`, `Ack`.
    Dialler,
    /// The one that answered: hears `Hello`, `Ping`, `Control`, `Batch`, `Message`.
    Answerer,
}

/// The greatest payload of each kind of frame, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameLimits {
    /// Of the handshake: all that a stranger can make us keep.
    pub handshake_max: usize,
    /// Of a stream message: 1 MiB for the user's part, and a kilobyte for ours.
    pub message_max: usize,
    /// Of a control message. The greatest one is the report of a node that owns very many shards, at some 25 bytes
    /// each: 16 MiB carry 600,000 of them, a single node of a large cluster that starts alone.
    pub control_max: usize,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self { handshake_max: 4 << 10, message_max: (1 << 20) + (1 << 10), control_max: 16 << 20 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Hello = 1,
    Welcome = 2,
    Refused = 3,
    Control = 4,
    Batch = 5,
    Message = 6,
    Ack = 7,
    Ping = 8,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        const ALL: [Kind; 8] = [
            Kind::Hello,
            Kind::Welcome,
            Kind::Refused,
            Kind::Control,
            Kind::Batch,
            Kind::Message,
            Kind::Ack,
            Kind::Ping,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Hello => "Hello",
            Self::Welcome => "Welcome",
            Self::Refused => "Refused",
            Self::Control => "Control",
            Self::Batch => "Batch",
            Self::Message => "Message",
            Self::Ack => "Ack",
            Self::Ping => "Ping",
        }
    }
}

/// What a peer did wrong. The connection is of no use any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FrameError {
    /// A frame is longer than its kind may be.
    TooLong {
        /// The length it announced.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A frame without a kind.
    Empty,
    /// No frame has this kind.
    UnknownKind {
        /// The kind.
        kind: u8,
    },
    /// A frame that this end does not hear at this point.
    Unexpected {
        /// The frame.
        frame: &'static str,
    },
    /// The peer does not speak this protocol at all.
    NotOurs,
    /// The peer speaks another version of it.
    Version {
        /// The peer's.
        theirs: u16,
        /// Ours.
        ours: u16,
    },
    /// The payload is not what its kind says.
    Malformed {
        /// The frame.
        frame: &'static str,
    },
    /// A message before any batch: it has no number.
    Unnumbered,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { length, limit } => write!(f, "a frame of {length} bytes, but at most {limit} may come"),
            Self::Empty => f.write_str("a frame without a kind"),
            Self::UnknownKind { kind } => write!(f, "unknown kind of frame {kind}"),
            Self::Unexpected { frame } => write!(f, "unexpected {frame} frame"),
            Self::NotOurs => f.write_str("the peer does not speak this protocol"),
            Self::Version { theirs, ours } => {
                write!(f, "wrong protocol version: the peer speaks {theirs}, this node {ours}")
            }
            Self::Malformed { frame } => write!(f, "malformed {frame} frame"),
            Self::Unnumbered => f.write_str("a message without a number"),
        }
    }
}

impl core::error::Error for FrameError {}
