//! Reading stream messages.

use super::{CLOSED, CodecError, DATA, ENDED, REFUSE, REJECTED, REPLY, TAKEN};
use crate::id::{Incarnation, Kind, NodeId, NodeKey, ShardId, ShardKey, Token};
use crate::wire::{ReplyFate, Stream, StreamRef};

type Read<T> = Result<T, CodecError>;

/// What is left of a message.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn message(&mut self) -> Read<StreamRef<'a>> {
        let [kind] = self.take()?;
        Ok(match kind {
            DATA => {
                let flags = self.flags()?;
                let (key, token) = (self.key()?, self.token()?);
                let (attempt, seq) = (self.u32()?, self.u64()?);
                let (first, ask) = (flags & 1 != 0, flags & 2 != 0);
                Stream::Data { key, token, attempt, seq, first, ask, entity: self.entity()?, body: self.body()? }
            }
            TAKEN => Stream::Taken { key: self.key()?, token: self.token()?, upto: self.u64()? },
            CLOSED => {
                let (key, token, upto) = (self.key()?, self.token()?, self.u64()?);
                let (seqs, rest) = self.0.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err(CodecError::Truncated);
                }
                self.0 = rest;
                Stream::Closed { key, token, upto, beyond: seqs.iter().map(|seq| u64::from_le_bytes(*seq)).collect() }
            }
            REFUSE => {
                let flags = self.flags()?;
                let (key, token, attempt) = (self.key()?, self.token()?, self.u32()?);
                let hint = if flags & 2 == 0 { None } else { Some((self.node()?, self.token()?)) };
                Stream::Refuse { key, token, attempt, draining: flags & 1 != 0, hint }
            }
            REJECTED => {
                let (key, token, seq) = (self.key()?, self.token()?, self.u64()?);
                let [reason] = self.take()?;
                Stream::Rejected { key, token, seq, reason, tag: self.u16()? }
            }
            REPLY => {
                let (key, seq) = (self.key()?, self.u64()?);
                Stream::Reply { key, seq, fate: ReplyFate::Answer(self.body()?) }
            }
            ENDED => Stream::Reply { key: self.key()?, seq: self.u64()?, fate: ReplyFate::Ended },
            kind => return Err(CodecError::UnknownKind { kind }),
        })
    }

    fn take<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(CodecError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Read<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Read<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Read<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn flags(&mut self) -> Read<u8> {
        let [flags] = self.take()?;
        if flags < 4 { Ok(flags) } else { Err(CodecError::BadField { field: "flags" }) }
    }

    fn key(&mut self) -> Read<ShardKey> {
        Ok(ShardKey { kind: Kind(self.u32()?), shard: ShardId(self.u32()?) })
    }

    fn token(&mut self) -> Read<Token> {
        Ok(Token { counter: self.u64()?, node: NodeId(self.u64()?), number: self.u32()? })
    }

    fn node(&mut self) -> Read<NodeKey> {
        Ok(NodeKey { id: NodeId(self.u64()?), incarnation: Incarnation(self.u64()?) })
    }

    fn entity(&mut self) -> Read<&'a str> {
        const BAD: CodecError = CodecError::BadField { field: "entity" };
        let [short] = self.take()?;
        let length = if short < u8::MAX { u32::from(short) } else { self.u32()? };
        if short == u8::MAX && length < u32::from(u8::MAX) {
            return Err(BAD);
        }
        let length = usize::try_from(length).map_err(|_| CodecError::Truncated)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(CodecError::Truncated)?;
        self.0 = rest;
        core::str::from_utf8(text).map_err(|_| BAD)
    }

    /// The tag and all that is left.
    fn body(&mut self) -> Read<(u16, &'a [u8])> {
        let tag = self.u16()?;
        Ok((tag, core::mem::take(&mut self.0)))
    }
}
