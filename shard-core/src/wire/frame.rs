//! Frames on a connection (stand-in until the fuzzed one lands).

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::link::{Hello, Welcome};
use crate::id::{Incarnation, NodeId, NodeKey};

/// One frame.
#[derive(Debug)]
pub enum Frame<'a> {
    /// Introduction.
    Hello(Hello),
    /// Consent.
    Welcome(Welcome),
    /// Refusal.
    Refused(String),
    /// Control.
    Control(&'a [u8]),
    /// Numbers the bulk frames behind it.
    Batch {
        /// The first.
        first: u64,
    },
    /// Bulk.
    Bulk(&'a [u8]),
    /// Ack.
    Ack {
        /// Up to here.
        upto: u64,
    },
    /// Ping.
    Ping,
}

/// Takes chunks, gives frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    at: usize,
}

fn put(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    body(out);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

fn key(out: &mut Vec<u8>, k: NodeKey) {
    out.extend_from_slice(&k.id.0.to_le_bytes());
    out.extend_from_slice(&k.incarnation.0.to_le_bytes());
}

/// Hello.
pub fn encode_hello(out: &mut Vec<u8>, h: &Hello) {
    put(out, 1, |out| {
        out.extend_from_slice(&h.protocol.to_le_bytes());
        key(out, h.from);
        out.push(u8::from(h.to.is_some()));
        key(out, h.to.unwrap_or_default());
        out.extend_from_slice(&(h.cluster.len() as u16).to_le_bytes());
        out.extend_from_slice(h.cluster.as_bytes());
        out.extend_from_slice(h.address.as_bytes());
    });
}
/// Welcome.
pub fn encode_welcome(out: &mut Vec<u8>, w: &Welcome) {
    put(out, 2, |out| {
        key(out, w.node);
        out.extend_from_slice(&w.expected.to_le_bytes());
    });
}
/// Refused.
pub fn encode_refused(out: &mut Vec<u8>, why: &str) {
    put(out, 3, |out| out.extend_from_slice(why.as_bytes()));
}
/// Control.
pub fn encode_control(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    put(out, 4, body);
}
/// Batch.
pub fn encode_batch(out: &mut Vec<u8>, first: u64) {
    put(out, 5, |out| out.extend_from_slice(&first.to_le_bytes()));
}
/// Bulk.
pub fn encode_bulk(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    put(out, 6, body);
}
/// Ack.
pub fn encode_ack(out: &mut Vec<u8>, upto: u64) {
    put(out, 7, |out| out.extend_from_slice(&upto.to_le_bytes()));
}
/// Ping.
pub fn encode_ping(out: &mut Vec<u8>) {
    put(out, 8, |_| {});
}

fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?))
}
fn key_at(b: &[u8], at: usize) -> Option<NodeKey> {
    Some(NodeKey { id: NodeId(u64_at(b, at)?), incarnation: Incarnation(u64_at(b, at + 8)?) })
}
fn text(b: &[u8]) -> Option<String> {
    core::str::from_utf8(b).ok().map(ToString::to_string)
}

impl Decoder {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends.
    pub fn feed(&mut self, chunk: &[u8]) {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        self.buffer.extend_from_slice(chunk);
    }
    /// Whether a part of a frame waits.
    #[must_use]
    pub fn is_within_a_frame(&self) -> bool {
        self.at < self.buffer.len()
    }
    /// The next frame.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, &'static str> {
        let rest = &self.buffer[self.at..];
        let Some(head) = rest.get(..4) else { return Ok(None) };
        let len = u32::from_le_bytes(head.try_into().unwrap_or_default()) as usize;
        if len == 0 || len > (1 << 20) + 4096 {
            return Err("frame length");
        }
        let Some(frame) = rest.get(4..4 + len) else { return Ok(None) };
        self.at += 4 + len;
        let (kind, b) = (frame[0], &frame[1..]);
        let bad = "garbled frame";
        Ok(Some(match kind {
            1 => {
                let protocol = u16::from_le_bytes(b.get(..2).and_then(|b| b.try_into().ok()).ok_or(bad)?);
                let from = key_at(b, 2).ok_or(bad)?;
                let some = *b.get(18).ok_or(bad)? == 1;
                let to = key_at(b, 19).ok_or(bad)?;
                let n = u16::from_le_bytes(b.get(35..37).and_then(|b| b.try_into().ok()).ok_or(bad)?) as usize;
                let cluster = text(b.get(37..37 + n).ok_or(bad)?).ok_or(bad)?;
                let address = text(&b[37 + n..]).ok_or(bad)?;
                Frame::Hello(Hello { cluster, protocol, from, to: some.then_some(to), address })
            }
            2 => Frame::Welcome(Welcome { node: key_at(b, 0).ok_or(bad)?, expected: u64_at(b, 16).ok_or(bad)? }),
            3 => Frame::Refused(text(b).ok_or(bad)?),
            4 => Frame::Control(b),
            5 => Frame::Batch { first: u64_at(b, 0).ok_or(bad)? },
            6 => Frame::Bulk(b),
            7 => Frame::Ack { upto: u64_at(b, 0).ok_or(bad)? },
            8 => Frame::Ping,
            _ => return Err(bad),
        }))
    }
}
