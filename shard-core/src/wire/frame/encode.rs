//! Writing frames to the end of a buffer.

use alloc::vec::Vec;

use super::{HEAD, Kind, MAGIC};
use crate::id::NodeKey;
use crate::wire::link::{Hello, PROTOCOL, Welcome};

/// Longest cluster name and longest address that fit a `Hello`, in bytes; longer ones are cut.
const TEXT_MAX: usize = 1_024;

/// Appends a frame of `kind` whose payload `fill` appends. Gives the number of bytes it takes.
fn write(out: &mut Vec<u8>, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind as u8]);
    fill(out);
    let length = u32::try_from(out.len() - start - 4).expect("no frame reaches 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    HEAD + length as usize - 1
}

/// Appends the dialler's introduction.
pub fn write_hello(out: &mut Vec<u8>, hello: &Hello) -> usize {
    write(out, Kind::Hello, |out| {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&hello.protocol.to_le_bytes());
        put_node(out, hello.from);
        match hello.to {
            None => out.push(0),
            Some(to) => {
                out.push(if hello.aside { 2 } else { 1 });
                put_node(out, to);
            }
        }
        put_text(out, &hello.cluster);
        put_text(out, &hello.address);
    })
}

/// Appends the answerer's consent.
pub fn write_welcome(out: &mut Vec<u8>, welcome: &Welcome) -> usize {
    write(out, Kind::Welcome, |out| {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&PROTOCOL.to_le_bytes());
        put_node(out, welcome.node);
        out.extend_from_slice(&welcome.expected.to_le_bytes());
    })
}

/// Appends the answerer's refusal, with its text.
pub fn write_refused(out: &mut Vec<u8>, why: &str) -> usize {
    write(out, Kind::Refused, |out| out.extend_from_slice(cut(why).as_bytes()))
}

/// Appends a control frame; `fill` appends the message.
pub fn write_control(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) -> usize {
    write(out, Kind::Control, fill)
}

/// Appends the number of the first of the messages that follow.
pub fn write_batch(out: &mut Vec<u8>, first: u64) -> usize {
    write(out, Kind::Batch, |out| out.extend_from_slice(&first.to_le_bytes()))
}

/// Appends a numbered frame; `fill` appends the message.
#[inline]
pub fn write_message(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) -> usize {
    write(out, Kind::Message, fill)
}

/// Where frame number `count` begins in `frames`, which this module wrote: how much to leave out so as to leave out so many.
#[must_use]
pub fn skip(frames: &[u8], count: u64) -> usize {
    let mut at = 0;
    for _ in 0..count {
        let Some(Ok(length)) = frames.get(at..at + 4).map(<[u8; 4]>::try_from) else { break };
        at += 4 + u32::from_le_bytes(length) as usize;
    }
    at.min(frames.len())
}

/// Appends an acknowledgement of all messages up to `upto`.
pub fn write_ack(out: &mut Vec<u8>, upto: u64) -> usize {
    write(out, Kind::Ack, |out| out.extend_from_slice(&upto.to_le_bytes()))
}

/// Appends a sign of life.
pub fn write_ping(out: &mut Vec<u8>) -> usize {
    write(out, Kind::Ping, |_| ())
}

fn put_node(out: &mut Vec<u8>, node: NodeKey) {
    out.extend_from_slice(&node.id.0.to_le_bytes());
    out.extend_from_slice(&node.incarnation.0.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = cut(text);
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_MAX)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
