//! Codec (stand-in until the measured one lands).
use alloc::vec::Vec;

use super::{Control, ReplyFate, Stream, StreamRef};
use crate::id::{NodeKey, ShardKey, Token};

/// The longest body.
pub const BODY_MAX: u32 = 1 << 20;

#[derive(serde::Serialize, serde::Deserialize)]
enum S<'a> {
    Data(ShardKey, Token, u32, u64, bool, bool, &'a str, u16, #[serde(borrow)] &'a [u8]),
    Taken(ShardKey, Token, u64),
    Closed(ShardKey, Token, u64, Vec<u64>),
    Refuse(ShardKey, Token, u32, bool, Option<(NodeKey, Token)>),
    Rejected(ShardKey, Token, u64, u8, u16),
    Reply(ShardKey, u64, Option<&'a [u8]>),
}
fn put(out: &mut Vec<u8>, s: &S<'_>) {
    let v = core::mem::take(out);
    *out = postcard::to_extend(s, v).expect("a vector takes everything");
}
/// Control.
pub fn encode_control(m: &Control, out: &mut Vec<u8>) {
    let v = core::mem::take(out);
    *out = postcard::to_extend(m, v).expect("a vector takes everything");
}
/// Control.
pub fn decode_control(b: &[u8]) -> Result<Control, &'static str> {
    postcard::from_bytes(b).map_err(|_| "garbled control message")
}
/// Data.
#[allow(clippy::too_many_arguments)]
pub fn encode_data(
    out: &mut Vec<u8>,
    key: ShardKey,
    token: Token,
    attempt: u32,
    seq: u64,
    first: bool,
    ask: bool,
    entity: &str,
    body: impl FnOnce(&mut Vec<u8>) -> u16,
) {
    let mut b = Vec::new();
    let tag = body(&mut b);
    put(out, &S::Data(key, token, attempt, seq, first, ask, entity, tag, &b));
}
/// Taken.
pub fn encode_taken(out: &mut Vec<u8>, key: ShardKey, token: Token, upto: u64) {
    put(out, &S::Taken(key, token, upto));
}
/// Closed.
pub fn encode_closed(out: &mut Vec<u8>, key: ShardKey, token: Token, upto: u64, beyond: &[u64]) {
    put(out, &S::Closed(key, token, upto, beyond.to_vec()));
}
/// Refuse.
pub fn encode_refuse(
    out: &mut Vec<u8>,
    key: ShardKey,
    token: Token,
    attempt: u32,
    draining: bool,
    hint: Option<(NodeKey, Token)>,
) {
    put(out, &S::Refuse(key, token, attempt, draining, hint));
}
/// Rejected.
pub fn encode_rejected(out: &mut Vec<u8>, key: ShardKey, token: Token, seq: u64, reason: u8, tag: u16) {
    put(out, &S::Rejected(key, token, seq, reason, tag));
}
/// No answer.
#[derive(Clone, Copy, Debug)]
pub enum ReplyFault {
    /// Ended.
    Ended,
    /// Undecodable.
    Undecodable,
}
/// Reply.
pub fn encode_reply(out: &mut Vec<u8>, key: ShardKey, seq: u64, answer: Result<&[u8], ReplyFault>) {
    put(out, &S::Reply(key, seq, answer.ok()));
}
/// Decodes.
pub fn decode(b: &[u8]) -> Result<StreamRef<'_>, &'static str> {
    let s: S<'_> = postcard::from_bytes(b).map_err(|_| "garbled stream message")?;
    Ok(match s {
        S::Data(key, token, attempt, seq, first, ask, entity, tag, body) => {
            Stream::Data { key, token, attempt, seq, first, ask, entity, body: (tag, body) }
        }
        S::Taken(key, token, upto) => Stream::Taken { key, token, upto },
        S::Closed(key, token, upto, beyond) => Stream::Closed { key, token, upto, beyond },
        S::Refuse(key, token, attempt, draining, hint) => Stream::Refuse { key, token, attempt, draining, hint },
        S::Rejected(key, token, seq, reason, tag) => Stream::Rejected { key, token, seq, reason, tag },
        S::Reply(key, seq, a) => {
            Stream::Reply { key, seq, fate: a.map_or(ReplyFate::Ended, |a| ReplyFate::Answer((0, a))) }
        }
    })
}
/// The answer's bytes.
pub fn answer(fate: ReplyFate<(u16, &[u8])>) -> Option<Vec<u8>> {
    match fate {
        ReplyFate::Answer((_, b)) => Some(b.to_vec()),
        ReplyFate::Ended => None,
    }
}
