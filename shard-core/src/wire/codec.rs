//! Messages as bytes.
//!
//! Control messages go through postcard: there are few of them, and their shape grows. Stream messages are written by
//! hand, in fixed width and little-endian: they are the bulk, and encoding one costs a copy. Both formats are pinned by
//! golden bytes; a change of either is a new [`crate::wire::link::PROTOCOL`].
//!
//! ```text
//! Data      1 flags key token attempt u32 seq u64 entity tag u16 body ..      flags: 1 first, 2 ask
//! Taken     2 key token upto u64
//! Closed    3 key token upto u64 beyond u64 ..
//! Refuse    4 flags key token attempt u32 [node token]                        flags: 1 draining, 2 hint follows
//! Rejected  5 key token seq u64 reason u8 tag u16
//! Reply     6 key seq u64 tag u16 body ..
//! Ended     7 key seq u64
//! key = kind u32, shard u32   token = counter u64, node u64, number u32   node = id u64, incarnation u64
//! entity = length u8, text; from 255 bytes on: 255, length u32, text
//! ```
//!
//! Decoding borrows, allocates nothing but `Closed`'s list, and never panics. Each message has exactly one encoding.

mod reader;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::fmt;

use self::reader::Reader;
use crate::id::{NodeKey, ShardKey, Token};
use crate::wire::{Control, ReplyFate, Stream, StreamRef};

pub(super) const DATA: u8 = 1;
pub(super) const TAKEN: u8 = 2;
pub(super) const CLOSED: u8 = 3;
pub(super) const REFUSE: u8 = 4;
pub(super) const REJECTED: u8 = 5;
pub(super) const REPLY: u8 = 6;
pub(super) const ENDED: u8 = 7;

/// What a peer's bytes lack to be a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CodecError {
    /// They end too early.
    Truncated,
    /// No message has this kind.
    UnknownKind {
        /// The kind.
        kind: u8,
    },
    /// A field has a value that nothing writes.
    BadField {
        /// The field.
        field: &'static str,
    },
    /// They go on behind the message.
    Trailing,
    /// They are no control message.
    NoControl,
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the message ends too early"),
            Self::UnknownKind { kind } => write!(f, "unknown kind of message {kind}"),
            Self::BadField { field } => write!(f, "the field `{field}` of a message is malformed"),
            Self::Trailing => f.write_str("the message goes on behind its end"),
            Self::NoControl => f.write_str("not a control message"),
        }
    }
}

impl core::error::Error for CodecError {}

/// Appends a control message.
pub fn encode_control(out: &mut Vec<u8>, message: &Control) {
    struct Tail<'a>(&'a mut Vec<u8>);
    impl Extend<u8> for Tail<'_> {
        fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
            self.0.extend(bytes);
        }
    }
    postcard::to_extend(message, Tail(out)).expect("a control message is plain data and a vector has no end");
}

/// Reads a control message.
///
/// # Errors
/// The bytes are not exactly one control message.
pub fn decode_control(bytes: &[u8]) -> Result<Control, CodecError> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(CodecError::Trailing),
        Err(_) => Err(CodecError::NoControl),
    }
}

/// All of a [`Stream::Data`] but its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHead<'a> {
    /// The shard.
    pub key: ShardKey,
    /// The grant the sender believes in.
    pub token: Token,
    /// Which opening of the route this belongs to.
    pub attempt: u32,
    /// Its number in the stream.
    pub seq: u64,
    /// The first message of its attempt.
    pub first: bool,
    /// The sender waits for a reply.
    pub ask: bool,
    /// The entity.
    pub entity: &'a str,
    /// The wire tag of the body.
    pub tag: u16,
}

/// Appends a data message up to its body: the caller appends that.
#[inline]
pub fn encode_data_head(out: &mut Vec<u8>, head: &DataHead<'_>) {
    let mut fixed = [0; 42];
    fixed[0] = DATA;
    fixed[1] = u8::from(head.first) | u8::from(head.ask) << 1;
    fixed[2..10].copy_from_slice(&key_bytes(head.key));
    fixed[10..30].copy_from_slice(&token_bytes(head.token));
    fixed[30..34].copy_from_slice(&head.attempt.to_le_bytes());
    fixed[34..42].copy_from_slice(&head.seq.to_le_bytes());
    out.reserve(fixed.len() + 7 + head.entity.len());
    out.extend_from_slice(&fixed);
    match u8::try_from(head.entity.len()) {
        Ok(length) if length < u8::MAX => out.push(length),
        _ => {
            let length = u32::try_from(head.entity.len()).expect("no entity id reaches 4 GiB");
            out.push(u8::MAX);
            out.extend_from_slice(&length.to_le_bytes());
        }
    }
    out.extend_from_slice(head.entity.as_bytes());
    out.extend_from_slice(&head.tag.to_le_bytes());
}

/// Appends a data message.
#[inline]
pub fn encode_data(out: &mut Vec<u8>, head: &DataHead<'_>, body: &[u8]) {
    encode_data_head(out, head);
    out.extend_from_slice(body);
}

/// Appends the answer to ask `seq` up to its body: the caller appends that.
#[inline]
pub fn encode_reply_head(out: &mut Vec<u8>, key: ShardKey, seq: u64, tag: u16) {
    out.push(REPLY);
    out.extend_from_slice(&key_bytes(key));
    out.extend_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(&tag.to_le_bytes());
}

/// Appends any stream message.
pub fn encode(out: &mut Vec<u8>, message: &StreamRef<'_>) {
    match message {
        Stream::Data { key, token, attempt, seq, first, ask, entity, body: (tag, body) } => {
            let (key, token, attempt, seq) = (*key, *token, *attempt, *seq);
            encode_data(out, &DataHead { key, token, attempt, seq, first: *first, ask: *ask, entity, tag: *tag }, body);
        }
        Stream::Taken { key, token, upto } => {
            put_tenure(out, TAKEN, *key, *token);
            out.extend_from_slice(&upto.to_le_bytes());
        }
        Stream::Closed { key, token, upto, beyond } => {
            put_tenure(out, CLOSED, *key, *token);
            out.extend_from_slice(&upto.to_le_bytes());
            out.extend(beyond.iter().flat_map(|seq| seq.to_le_bytes()));
        }
        Stream::Refuse { key, token, attempt, draining, hint } => {
            out.extend_from_slice(&[REFUSE, u8::from(*draining) | u8::from(hint.is_some()) << 1]);
            out.extend_from_slice(&key_bytes(*key));
            out.extend_from_slice(&token_bytes(*token));
            out.extend_from_slice(&attempt.to_le_bytes());
            if let Some((NodeKey { id, incarnation }, token)) = hint {
                out.extend_from_slice(&id.0.to_le_bytes());
                out.extend_from_slice(&incarnation.0.to_le_bytes());
                out.extend_from_slice(&token_bytes(*token));
            }
        }
        Stream::Rejected { key, token, seq, reason, tag } => {
            put_tenure(out, REJECTED, *key, *token);
            out.extend_from_slice(&seq.to_le_bytes());
            out.push(*reason);
            out.extend_from_slice(&tag.to_le_bytes());
        }
        Stream::Reply { key, seq, fate: ReplyFate::Answer((tag, body)) } => {
            encode_reply_head(out, *key, *seq, *tag);
            out.extend_from_slice(body);
        }
        Stream::Reply { key, seq, fate: ReplyFate::Ended } => {
            out.push(ENDED);
            out.extend_from_slice(&key_bytes(*key));
            out.extend_from_slice(&seq.to_le_bytes());
        }
    }
}

/// Reads a stream message; text and bodies are borrowed.
///
/// # Errors
/// The bytes are not exactly one stream message.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<StreamRef<'_>, CodecError> {
    let mut reader = Reader(bytes);
    let message = reader.message()?;
    if reader.0.is_empty() { Ok(message) } else { Err(CodecError::Trailing) }
}

fn put_tenure(out: &mut Vec<u8>, kind: u8, key: ShardKey, token: Token) {
    out.push(kind);
    out.extend_from_slice(&key_bytes(key));
    out.extend_from_slice(&token_bytes(token));
}

fn key_bytes(key: ShardKey) -> [u8; 8] {
    (u64::from(key.kind.0) | u64::from(key.shard.0) << 32).to_le_bytes()
}

fn token_bytes(token: Token) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&token.counter.to_le_bytes());
    bytes[8..16].copy_from_slice(&token.node.0.to_le_bytes());
    bytes[16..].copy_from_slice(&token.number.to_le_bytes());
    bytes
}
