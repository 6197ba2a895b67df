//! The dialling end: keeps every unit until the peer has acknowledged it.

use alloc::collections::VecDeque;

use super::{LinkConfig, LinkFault, Unit, Welcome};
use crate::id::NodeKey;
use crate::machine::{Fixed, Outbox, Rule};
use crate::time::{Duration, Instant};

/// The sending end of one link.
///
/// The host dials when told to ([`expire`](Self::expire)), reports [`connected`](Self::connected), then writes what
/// [`write`](Self::write) hands out, first of all a `Ping` that completes the handshake.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkSender<U> {
    config: Fixed<LinkConfig>,
    peer: Option<NodeKey>,
    /// The number of the next frame pushed.
    next: u64,
    /// The last frame acknowledged.
    acked: u64,
    queue: VecDeque<Queued<U>>,
    /// `queue[..written]` went out on the present connection.
    written: usize,
    /// `queue[..sent]` went out on some connection: in doubt, should the peer die (K5). At least `written`.
    sent: usize,
    frames: u64,
    bytes: usize,
    line: Line,
    /// The pause after the next failure.
    pause: Duration,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Queued<U> {
    first: u64,
    frames: u64,
    bytes: usize,
    unit: U,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Line {
    Down { dial_at: Instant },
    Dialling { give_up_at: Instant },
    Up { connection: u64, probe_at: Instant, silent_at: Instant },
}

/// What the host must do now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SenderOrder {
    /// Dial the peer; answer with [`LinkSender::connected`] or [`LinkSender::failed`].
    Dial,
    /// Write a `Ping`, which the peer answers with an ack.
    Ping {
        /// On this connection.
        connection: u64,
    },
    /// Close this connection; the sender has already let go of it.
    Close {
        /// The connection.
        connection: u64,
    },
}

/// A pair of processes is over (K4). The units are in the order of pushing: all of `sent`, then all of `unsent`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerGone<U> {
    /// The process that is gone.
    pub old: NodeKey,
    /// Written at least once and not acknowledged: in doubt, never to be sent again (K5).
    pub sent: VecDeque<U>,
    /// Never written to any connection: surely not received (K5).
    pub unsent: VecDeque<U>,
}

/// No honest link counts so far.
const FRAMES_EVER: u64 = 1 << 62;

impl<U: Unit> LinkSender<U> {
    /// A link that dials at once. `peer`: whom it is for, if that is known.
    #[must_use]
    pub fn new(config: Fixed<LinkConfig>, peer: Option<NodeKey>) -> Self {
        let pause = config.dial_first;
        Self {
            config,
            peer,
            next: 1,
            acked: 0,
            queue: VecDeque::new(),
            written: 0,
            sent: 0,
            frames: 0,
            bytes: 0,
            line: Line::Down { dial_at: Instant::ZERO },
            pause,
        }
    }

    /// The process at the other end, as last known.
    #[must_use]
    pub fn peer(&self) -> Option<NodeKey> {
        self.peer
    }

    /// Says whom the next units are for, and whether this link can be to that process. Units are put on a link only
    /// while it can: if another life of the node answers, they come back as unsent.
    pub fn aim(&mut self, node: NodeKey) -> bool {
        *self.peer.get_or_insert(node) == node
    }

    /// The present connection.
    #[must_use]
    pub fn connection(&self) -> Option<u64> {
        match self.line {
            Line::Up { connection, .. } => Some(connection),
            Line::Down { .. } | Line::Dialling { .. } => None,
        }
    }

    /// Whether the peer is hard to reach: there is no connection and the last two dials failed. A mere break is not
    /// that; streams are told `LinkDown` when this turns true (D9).
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.connection().is_none() && self.pause > self.config.dial_first * 2
    }

    /// The last frame that the peer has, which may lie in the middle of a unit: what is before it in the unit that
    /// [`write`](Self::write) hands out need not be written again.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acked
    }

    /// Whether everything pushed has been acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Unacknowledged bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Queues `unit` behind everything pushed before. O(1).
    ///
    /// # Errors
    /// The link is at its bound; here is the unit again. A link that holds nothing takes a unit of any size.
    pub fn push(&mut self, unit: U) -> Result<(), U> {
        let over =
            self.bytes + unit.bytes() > self.config.bytes_max || self.frames + unit.frames() > self.config.frames_max;
        if over && !self.queue.is_empty() {
            return Err(unit);
        }
        self.answer(unit);
        Ok(())
    }

    /// Queues an answer to the peer (`Taken`, `Closed`, `Refuse`, `Reply`), whatever the bound says: losing one would
    /// break the stream, and there are never more of them than the peer keeps messages unsettled. O(1).
    pub fn answer(&mut self, unit: U) {
        let queued = Queued { first: self.next, frames: unit.frames(), bytes: unit.bytes(), unit };
        self.next += queued.frames;
        self.frames += queued.frames;
        self.bytes += queued.bytes;
        self.queue.push_back(queued);
    }

    /// The next unit to write to `connection`, with the number of its first frame; `None` when there is none or when
    /// that is not the present connection. It counts as written from here on, so that a write cut short is in doubt.
    pub fn write(&mut self, connection: u64) -> Option<(u64, &U)> {
        if self.connection() != Some(connection) {
            return None;
        }
        let queued = self.queue.get(self.written)?;
        self.written += 1;
        self.sent = self.sent.max(self.written);
        Some((queued.first, &queued.unit))
    }

    /// The peer let `connection` in. The host now writes a `Ping` and then what [`write`](Self::write) hands out.
    ///
    /// The same process as before: the link goes on where the peer says it stopped (K3). Another life of it, or one
    /// that has forgotten this link: the old pair is over, its units are returned, and numbers start anew (K4, K5).
    ///
    /// # Errors
    /// The peer is not who was dialled, or claims frames that were never sent: the line is down again.
    pub fn connected(
        &mut self,
        now: Instant,
        connection: u64,
        welcome: Welcome,
    ) -> Result<Option<PeerGone<U>>, LinkFault> {
        if welcome.expected > FRAMES_EVER {
            self.failed(now);
            return Err(LinkFault::Ahead { claimed: welcome.expected, written: self.acked });
        }
        let gone = match self.peer {
            Some(asked) if asked.id != welcome.node.id => {
                self.failed(now);
                return Err(LinkFault::WrongNode { asked, found: welcome.node });
            }
            Some(old) if old != welcome.node || welcome.expected <= self.acked => self.end_pair(old),
            _ => None,
        };
        self.peer = Some(welcome.node);
        if self.sent == 0 && self.acked == 0 {
            // Nothing was ever written, so the numbers are free: the peer may still count from an earlier sender of
            // this process, which it did not see end.
            self.number_from(welcome.expected);
        }
        if let Err(fault) = self.settle(welcome.expected.saturating_sub(1), &mut |_| ()) {
            self.failed(now);
            return Err(fault);
        }
        self.written = 0; // K3: all the rest is written again, in order, under the same numbers.
        self.pause = self.config.dial_first;
        self.line = Line::Up { connection, probe_at: now + self.config.probe, silent_at: now + self.config.silent };
        Ok(gone)
    }

    /// A dial failed or was refused.
    pub fn failed(&mut self, now: Instant) {
        self.line = Line::Down { dial_at: now + self.pause };
        self.pause = (self.pause * 2).min(self.config.dial_last);
    }

    /// `connection` broke. Of a former one: nothing (K1).
    pub fn disconnected(&mut self, now: Instant, connection: u64) {
        if self.connection() == Some(connection) {
            self.line = Line::Down { dial_at: now + self.pause };
        }
    }

    /// The peer has all frames up to `upto`; units it has whole go to `done`, to be recycled. An ack of a former
    /// connection is dropped (K1).
    ///
    /// # Errors
    /// The peer acknowledges what was not written: close the connection.
    pub fn acked(
        &mut self,
        now: Instant,
        connection: u64,
        upto: u64,
        done: &mut (impl Outbox<U> + ?Sized),
    ) -> Result<(), LinkFault> {
        let rules = self.config.rules;
        if self.connection() != Some(connection) && rules.on(Rule::LinkConnection) {
            return Ok(());
        }
        if let Line::Up { probe_at, silent_at, .. } = &mut self.line {
            *probe_at = now + self.config.probe;
            *silent_at = now + self.config.silent;
        }
        let result = self.settle(upto, done);
        if result.is_err() {
            self.disconnected(now, connection);
        }
        result
    }

    /// The coordinator says that process `node` is gone for good. Returns its units, if this link was to it; a
    /// connection still open must be closed by the host.
    pub fn gone(&mut self, now: Instant, node: NodeKey) -> Option<PeerGone<U>> {
        if self.peer != Some(node) {
            return None;
        }
        self.peer = None;
        self.line = Line::Down { dial_at: now + self.pause };
        let (sent, unsent) = self.reset();
        Some(PeerGone { old: node, sent, unsent })
    }

    /// What is due at `now`; call again until it answers `None`. Early calls change nothing.
    pub fn expire(&mut self, now: Instant) -> Option<SenderOrder> {
        match self.line {
            Line::Down { dial_at } if dial_at <= now => {
                self.line = Line::Dialling { give_up_at: now + self.config.silent };
                Some(SenderOrder::Dial)
            }
            Line::Dialling { give_up_at } if give_up_at <= now => {
                self.failed(now);
                None
            }
            Line::Up { connection, silent_at, .. } if silent_at <= now => {
                self.disconnected(now, connection);
                Some(SenderOrder::Close { connection })
            }
            Line::Up { connection, probe_at, silent_at } if probe_at <= now => {
                self.line = Line::Up { connection, probe_at: now + self.config.probe, silent_at };
                Some(SenderOrder::Ping { connection })
            }
            _ => None,
        }
    }

    /// When [`expire`](Self::expire) next has something to do.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        match self.line {
            Line::Down { dial_at } => dial_at,
            Line::Dialling { give_up_at } => give_up_at,
            Line::Up { probe_at, silent_at, .. } => probe_at.min(silent_at),
        }
    }

    /// K4: ends the pair with `old`. A mutant keeps its units for the next process instead.
    fn end_pair(&mut self, old: NodeKey) -> Option<PeerGone<U>> {
        if !self.config.rules.on(Rule::LinkForget) {
            (self.acked, self.sent) = (0, 0);
            self.number_from(1);
            return None;
        }
        let (sent, unsent) = self.reset();
        Some(PeerGone { old, sent, unsent })
    }

    fn reset(&mut self) -> (VecDeque<U>, VecDeque<U>) {
        let units = |queue: VecDeque<Queued<U>>| queue.into_iter().map(|queued| queued.unit).collect();
        let mut sent = core::mem::take(&mut self.queue);
        let unsent = sent.split_off(self.sent);
        (self.written, self.sent, self.frames, self.bytes) = (0, 0, 0, 0);
        if self.config.rules.on(Rule::LinkReset) {
            self.next = 1;
        }
        self.acked = self.next - 1;
        (units(sent), units(unsent))
    }

    fn number_from(&mut self, first: u64) {
        self.next = first.max(1);
        self.acked = self.next - 1;
        for queued in &mut self.queue {
            queued.first = self.next;
            self.next += queued.frames;
        }
    }

    /// Drops the units that end at or before `upto`.
    fn settle(&mut self, upto: u64, done: &mut (impl Outbox<U> + ?Sized)) -> Result<(), LinkFault> {
        let written = match self.sent.checked_sub(1).and_then(|last| self.queue.get(last)) {
            Some(last) => last.first + last.frames - 1,
            None => self.acked,
        };
        if upto > written {
            return Err(LinkFault::Ahead { claimed: upto, written });
        }
        self.acked = self.acked.max(upto);
        while let Some(front) = self.queue.front().filter(|front| front.first + front.frames <= upto + 1)
            && self.sent > 0
        {
            self.frames -= front.frames;
            self.bytes -= front.bytes;
            self.written = self.written.saturating_sub(1);
            self.sent -= 1;
            let Some(queued) = self.queue.pop_front() else { break };
            done.emit(queued.unit);
        }
        Ok(())
    }
}
