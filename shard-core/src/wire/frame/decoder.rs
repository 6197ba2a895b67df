//! Cutting a peer's bytes into frames.

use alloc::{string::String, vec::Vec};

use super::{End, FrameError, FrameLimits, HEAD, Kind, MAGIC};
use crate::id::{Incarnation, NodeId, NodeKey};
use crate::wire::link::{Hello, PROTOCOL, Welcome};

/// Room made for one read.
const READ: usize = 64 << 10;

/// One frame, borrowed from the decoder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// The dialler's introduction.
    Hello(Hello),
    /// The answerer's consent.
    Welcome(Welcome),
    /// The answerer's refusal, as text for a log.
    Refused(&'a str),
    /// A control message, encoded.
    Control(&'a [u8]),
    /// A numbered message, encoded.
    Message {
        /// Its number.
        seq: u64,
        /// The message.
        bytes: &'a [u8],
    },
    /// All messages up to `upto` have arrived.
    Ack {
        /// The last of them.
        upto: u64,
    },
    /// A sign of life, to be answered with an ack.
    Ping,
}

/// Turns one direction of one connection into frames.
///
/// Feed it ([`feed`](Self::feed), or read into [`spare`](Self::spare) and [`filled`](Self::filled)), then take
/// [`next_frame`](Self::next_frame) until there is none. So it never holds more than one unfinished frame and one read.
#[derive(Debug)]
pub struct Decoder {
    limits: FrameLimits,
    end: End,
    open: bool,
    /// The number of the next message.
    seq: Option<u64>,
    broken: Option<FrameError>,
    /// `buffer[head..tail]` has come and was not yet handed out.
    buffer: Vec<u8>,
    head: usize,
    tail: usize,
}

impl Decoder {
    /// A decoder for what `end` reads, at the beginning of the connection: only the handshake is let in.
    #[must_use]
    pub fn new(end: End, limits: FrameLimits) -> Self {
        Self { limits, end, open: false, seq: None, broken: None, buffer: Vec::new(), head: 0, tail: 0 }
    }

    /// The handshake succeeded: everything but a handshake may come.
    pub fn open(&mut self) {
        self.open = true;
    }

    /// Takes bytes that came. Copies them once.
    pub fn feed(&mut self, chunk: &[u8]) {
        let tail = self.make_room(chunk.len());
        self.buffer[tail..tail + chunk.len()].copy_from_slice(chunk);
        self.tail += chunk.len();
    }

    /// Room to read into, at least 64 KiB.
    pub fn spare(&mut self) -> &mut [u8] {
        let tail = self.make_room(READ);
        &mut self.buffer[tail..]
    }

    /// `count` bytes were read into [`spare`](Self::spare).
    ///
    /// # Panics
    /// If that is more than there was room for.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.tail, "read more than there was room for");
        self.tail += count;
    }

    /// Whether a part of a frame has come and its rest has not.
    #[must_use]
    pub fn is_within_frame(&self) -> bool {
        self.head < self.tail
    }

    /// How many bytes of a frame have come whose rest has not.
    #[must_use]
    pub fn held(&self) -> usize {
        self.tail - self.head
    }

    /// The next whole frame, if it has come.
    ///
    /// # Errors
    /// The peer broke a rule; every later call says the same.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let (kind, from, to) = match self.cut() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.broken = Some(error);
                return Err(error);
            }
        };
        let seq = self.seq;
        let Self { buffer, broken, .. } = self;
        parse(kind, &buffer[from..to], seq).map(Some).inspect_err(|error| *broken = Some(*error))
    }

    /// Finds the next frame that is for the caller: its kind and where its payload lies.
    fn cut(&mut self) -> Result<Option<(Kind, usize, usize)>, FrameError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        loop {
            let Some(head) = self.buffer[self.head..self.tail].first_chunk::<HEAD>() else { return Ok(None) };
            let [a, b, c, d, kind] = *head;
            let length = (u32::from_le_bytes([a, b, c, d]) as usize).checked_sub(1).ok_or(FrameError::Empty)?;
            let kind = Kind::of(kind).ok_or(FrameError::UnknownKind { kind })?;
            self.admit(kind, length)?;
            let from = self.head + HEAD;
            let to = from + length;
            if to > self.tail {
                return Ok(None);
            }
            self.head = to;
            match kind {
                Kind::Batch => {
                    let first = Reader(&self.buffer[from..to]).last_number(kind)?;
                    self.seq = Some(first.checked_sub(1).ok_or(FrameError::Malformed { frame: kind.name() })?);
                }
                Kind::Message => {
                    let seq = self.seq.ok_or(FrameError::Unnumbered)?;
                    self.seq = Some(seq.checked_add(1).ok_or(FrameError::Malformed { frame: kind.name() })?);
                    return Ok(Some((kind, from, to)));
                }
                _ => return Ok(Some((kind, from, to))),
            }
        }
    }

    /// Whether this end hears such a frame now, and such a long one.
    fn admit(&self, kind: Kind, length: usize) -> Result<(), FrameError> {
        let heard = match (self.end, self.open) {
            (End::Answerer, false) => matches!(kind, Kind::Hello),
            (End::Answerer, true) => matches!(kind, Kind::Control | Kind::Batch | Kind::Message | Kind::Ping),
            (End::Dialler, false) => matches!(kind, Kind::Welcome | Kind::Refused),
            (End::Dialler, true) => matches!(kind, Kind::Ack),
        };
        if !heard {
            return Err(FrameError::Unexpected { frame: kind.name() });
        }
        let limit = match kind {
            Kind::Hello | Kind::Welcome | Kind::Refused => self.limits.handshake_max,
            Kind::Control => self.limits.control_max,
            Kind::Message => self.limits.message_max,
            Kind::Batch | Kind::Ack => 8,
            Kind::Ping => 0,
        };
        if length > limit {
            return Err(FrameError::TooLong { length: length as u64, limit: limit as u64 });
        }
        Ok(())
    }

    /// Makes the buffer reach `count` bytes beyond what has come, and says where they begin. What was handed out is
    /// overwritten; a buffer that one great frame has swollen is let go once it is empty.
    fn make_room(&mut self, count: usize) -> usize {
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
            if self.buffer.len() > READ * 16 {
                self.buffer = Vec::new();
            }
        } else if self.buffer.len() - self.tail < count {
            self.buffer.copy_within(self.head..self.tail, 0);
            (self.head, self.tail) = (0, self.tail - self.head);
        }
        if self.buffer.len() - self.tail < count {
            self.buffer.resize(self.tail + count, 0);
        }
        self.tail
    }
}

fn parse(kind: Kind, payload: &[u8], seq: Option<u64>) -> Result<Frame<'_>, FrameError> {
    let malformed = FrameError::Malformed { frame: kind.name() };
    let mut reader = Reader(payload);
    match kind {
        Kind::Hello => {
            let protocol = reader.version()?;
            let hello = reader.hello(protocol).ok_or(malformed)?;
            if reader.0.is_empty() { Ok(Frame::Hello(hello)) } else { Err(malformed) }
        }
        Kind::Welcome => {
            reader.version()?;
            let node = reader.node().ok_or(malformed)?;
            Ok(Frame::Welcome(Welcome { node, expected: reader.last_number(kind)? }))
        }
        Kind::Refused => core::str::from_utf8(payload).map(Frame::Refused).map_err(|_| malformed),
        Kind::Control => Ok(Frame::Control(payload)),
        Kind::Message => Ok(Frame::Message { seq: seq.ok_or(FrameError::Unnumbered)?, bytes: payload }),
        Kind::Ack => Ok(Frame::Ack { upto: reader.last_number(kind)? }),
        Kind::Ping => Ok(Frame::Ping),
        Kind::Batch => Err(malformed),
    }
}

/// What is left of a payload.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number, and nothing after it.
    fn last_number(&mut self, kind: Kind) -> Result<u64, FrameError> {
        self.number().filter(|_| self.0.is_empty()).ok_or(FrameError::Malformed { frame: kind.name() })
    }

    fn version(&mut self) -> Result<u16, FrameError> {
        if self.take() != Some(MAGIC) {
            return Err(FrameError::NotOurs);
        }
        match self.take().map(u16::from_le_bytes) {
            Some(PROTOCOL) => Ok(PROTOCOL),
            Some(theirs) => Err(FrameError::Version { theirs, ours: PROTOCOL }),
            None => Err(FrameError::NotOurs),
        }
    }

    fn node(&mut self) -> Option<NodeKey> {
        Some(NodeKey { id: NodeId(self.number()?), incarnation: Incarnation(self.number()?) })
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.take().map(u16::from_le_bytes)?;
        let (text, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        core::str::from_utf8(text).ok()
    }

    fn hello(&mut self, protocol: u16) -> Option<Hello> {
        let from = self.node()?;
        let [how] = self.take()?;
        let to = match how {
            0 => None,
            1 | 2 => Some(self.node()?),
            _ => return None,
        };
        let (cluster, address) = (String::from(self.text()?), String::from(self.text()?));
        Some(Hello { cluster, protocol, from, to, address, aside: how == 2 })
    }
}
