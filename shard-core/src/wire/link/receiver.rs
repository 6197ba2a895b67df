//! The answering end: delivers each frame once, in order, and says how far it has come.

use alloc::collections::VecDeque;

use super::{Hello, Identity, LinkConfig, Refusal, Welcome};
use crate::id::NodeKey;
use crate::machine::{Fixed, Rule};
use crate::time::{Instant, soonest};

/// Processes declared gone that are remembered. Nodes restart one life at a time, so one would do but for long delays.
const DEAD_MAX: usize = 8;

/// The receiving end of the link from one node. Hosts keep one per [`crate::id::NodeId`] that has ever dialled.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkReceiver {
    config: Fixed<LinkConfig>,
    peer: Option<NodeKey>,
    /// Processes of this node that the coordinator declared gone, the last ones. One of them may live on for a while:
    /// it left and has not heard its farewell. What it sent was forgotten, so nothing of it may come in again.
    dead: VecDeque<NodeKey>,
    /// The number of the next frame to deliver.
    expected: u64,
    line: Option<Open>,
    /// A connection that was let in but has not yet shown that its dialler lives.
    pending: Option<(u64, NodeKey)>,
    /// Frames since the last ack.
    unacked: u64,
    ack_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Open {
    connection: u64,
    silent_at: Instant,
}

/// What to do with a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Arrival {
    /// Hand it on.
    Deliver,
    /// It was handed on before: drop it.
    Duplicate,
    /// Frames are missing before it: the connection is let go and must be closed (K2).
    Gap,
    /// It came over a former connection, or one that was never confirmed: drop it and close that one (K1).
    Stale,
}

/// What the first sign of life on a connection means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Confirmed {
    /// The connection counts from now on.
    Opened {
        /// The former process of this node, which is therefore gone (K4).
        gone: Option<NodeKey>,
        /// The connection it replaces, to be closed.
        replaced: Option<u64>,
    },
    /// It is the present connection already.
    Already,
    /// It is neither pending nor present: close it.
    Stale,
}

/// What the host must do now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReceiverOrder {
    /// Write an ack.
    Ack {
        /// On this connection.
        connection: u64,
        /// All frames up to here were delivered.
        upto: u64,
    },
    /// Close this connection: it was silent for too long.
    Close {
        /// The connection.
        connection: u64,
    },
}

impl LinkReceiver {
    /// A receiver that has heard nothing yet.
    #[must_use]
    pub fn new(config: Fixed<LinkConfig>) -> Self {
        Self {
            config,
            peer: None,
            dead: VecDeque::new(),
            expected: 1,
            line: None,
            pending: None,
            unacked: 0,
            ack_at: None,
        }
    }

    /// The process at the other end.
    #[must_use]
    pub fn peer(&self) -> Option<NodeKey> {
        self.peer
    }

    /// The present connection.
    #[must_use]
    pub fn connection(&self) -> Option<u64> {
        self.line.map(|line| line.connection)
    }

    /// A dialler introduces itself on `connection`. Nothing changes yet but that the connection is noted.
    ///
    /// # Errors
    /// It may not come in; tell it why and close.
    pub fn hello(&mut self, identity: &Identity, connection: u64, hello: &Hello) -> Result<Welcome, Refusal> {
        identity.admit(hello)?;
        if self.dead.contains(&hello.from) {
            return Err(Refusal::Gone { theirs: hello.from });
        }
        self.pending = Some((connection, hello.from));
        let expected = if self.peer == Some(hello.from) { self.expected } else { 1 };
        Ok(Welcome { node: identity.node, expected })
    }

    /// A dialler introduces itself on a connection beside that of its link. It changes nothing here, then or later: what comes
    /// on it counts while [`peer`](Self::peer) is still that process.
    ///
    /// # Errors
    /// It may not come in; tell it why and close.
    pub fn aside(&self, identity: &Identity, hello: &Hello) -> Result<Welcome, Refusal> {
        identity.admit(hello)?;
        if self.peer != Some(hello.from) {
            return Err(Refusal::NotMet { theirs: hello.from });
        }
        Ok(Welcome { node: identity.node, expected: self.expected })
    }

    /// Something was read on `connection` after its `Hello`: its dialler has our `Welcome`, so it is alive and the
    /// connection takes over. Only this may switch to a new life of the node (K4). Call it for the first frame; for
    /// later ones it changes nothing.
    pub fn confirm(&mut self, now: Instant, connection: u64) -> Confirmed {
        if self.connection() == Some(connection) {
            return Confirmed::Already;
        }
        let Some((_, from)) = self.pending.filter(|pending| pending.0 == connection) else { return Confirmed::Stale };
        self.pending = None;
        let gone = self.peer.filter(|peer| *peer != from);
        if self.peer != Some(from) && self.config.rules.on(Rule::LinkReset) {
            self.expected = 1;
        }
        self.peer = Some(from);
        let replaced = self.connection();
        self.line = Some(Open { connection, silent_at: now + self.config.silent });
        (self.unacked, self.ack_at) = (0, None);
        Confirmed::Opened { gone, replaced }
    }

    /// Frame number `seq` was read on `connection`.
    pub fn frame(&mut self, now: Instant, connection: u64, seq: u64) -> Arrival {
        if !self.hear(now, connection) && self.config.rules.on(Rule::LinkConnection) {
            return Arrival::Stale;
        }
        if seq > self.expected && self.config.rules.on(Rule::LinkGap) {
            self.line = None;
            self.ack_at = None;
            return Arrival::Gap;
        }
        // Repeated frames are acknowledged as well: their sender has not seen the first ack.
        self.unacked += 1;
        self.ack_at.get_or_insert(now + self.config.ack_delay);
        if seq < self.expected {
            return Arrival::Duplicate;
        }
        self.expected = seq + 1;
        Arrival::Deliver
    }

    /// The frame `seq` that was just to be delivered could not be kept: it is to come again. The host closes the connection.
    pub fn give_back(&mut self, seq: u64) {
        if seq + 1 == self.expected {
            self.expected = seq;
            (self.line, self.ack_at) = (None, None);
        }
    }

    /// A `Ping` was read on `connection`: an ack is due at once.
    pub fn ping(&mut self, now: Instant, connection: u64) {
        if self.hear(now, connection) {
            self.ack_at = Some(now);
        }
    }

    /// Something else was read on `connection`. Says whether it is the present one.
    pub fn hear(&mut self, now: Instant, connection: u64) -> bool {
        match &mut self.line {
            Some(line) if line.connection == connection => {
                line.silent_at = now + self.config.silent;
                true
            }
            _ => false,
        }
    }

    /// `connection` broke. Of a former one: nothing.
    pub fn disconnected(&mut self, connection: u64) {
        if self.pending.is_some_and(|pending| pending.0 == connection) {
            self.pending = None;
        }
        if self.connection() == Some(connection) {
            (self.line, self.ack_at) = (None, None);
        }
    }

    /// The coordinator says that process `node` is gone for good: it is not let in any more. Says whether this link was
    /// from it; its connection must be closed then.
    pub fn gone(&mut self, node: NodeKey) -> bool {
        if !self.dead.contains(&node) {
            if self.dead.len() == DEAD_MAX {
                self.dead.pop_front();
            }
            self.dead.push_back(node);
        }
        self.pending = self.pending.filter(|pending| pending.1 != node);
        let ours = self.peer == Some(node);
        if ours {
            let (pending, dead) = (self.pending, core::mem::take(&mut self.dead));
            *self = Self { pending, dead, ..Self::new(self.config.clone()) };
        }
        ours
    }

    /// What is due at `now`: an ack after 32 frames or 5 ms, or the end of a silent connection. Call it after each read
    /// and at [`deadline`](Self::deadline), until it answers `None`. Early calls change nothing.
    pub fn expire(&mut self, now: Instant) -> Option<ReceiverOrder> {
        let Open { connection, silent_at } = self.line?;
        if self.unacked >= self.config.ack_frames || self.ack_at.is_some_and(|at| at <= now) {
            (self.unacked, self.ack_at) = (0, None);
            return Some(ReceiverOrder::Ack { connection, upto: self.expected - 1 });
        }
        if silent_at <= now {
            self.disconnected(connection);
            return Some(ReceiverOrder::Close { connection });
        }
        None
    }

    /// When [`expire`](Self::expire) next has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        soonest(self.ack_at, self.line.map(|line| line.silent_at))
    }
}
