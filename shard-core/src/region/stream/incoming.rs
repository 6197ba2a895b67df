//! The owner's side of a shard's streams during one tenure: D3, D4, D5, D11.

use alloc::vec::Vec;

use crate::id::{NodeKey, Token};
use crate::machine::{Fixed, Outbox, Rule};

use super::StreamConfig;

/// What an owner knows of its senders under one grant. Made when the shard goes live, closed when it ends.
///
/// The lane asks it about each message ([`data`](Self::data)), tells it when handlers start
/// ([`started`](Self::started)), and flushes it once per turn ([`flush`](Self::flush)).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Incoming {
    config: Fixed<StreamConfig>,
    token: Token,
    draining: bool,
    /// Sorted by sender.
    senders: Vec<(NodeKey, Sender)>,
    /// How many senders are owed a `Taken`.
    owed: usize,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Sender {
    attempt: u32,
    /// The next number to come.
    expected: u64,
    /// Everything up to here is taken, or was settled elsewhere.
    cum: u64,
    /// Taken ones above `cum`, ascending; no more than the sender keeps unsettled.
    beyond: Vec<u64>,
    /// Ranges above `cum` that will never come because they were settled elsewhere, ascending.
    gaps: Vec<(u64, u64)>,
    owed: bool,
}

/// What to do with a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// Into its entity's mailbox.
    Accept,
    /// It is there already: drop it.
    Duplicate,
    /// Answer `Refuse`.
    Refuse {
        /// `Closed` will follow.
        draining: bool,
    },
    /// It belongs to a former attempt: drop it silently.
    Drop,
}

/// What to tell a sender.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IncomingOutput {
    /// `Taken`: handlers have started for everything up to `upto`.
    Taken {
        /// The sender.
        to: NodeKey,
        /// The last of the prefix.
        upto: u64,
    },
    /// `Closed`: the tenure is over.
    Closed {
        /// The sender.
        to: NodeKey,
        /// The last of the prefix taken.
        upto: u64,
        /// Those taken beyond it, ascending.
        beyond: Vec<u64>,
    },
}

impl Incoming {
    /// The tenure under `token` begins; no sender is known.
    #[must_use]
    pub fn new(config: Fixed<StreamConfig>, token: Token) -> Self {
        Self { config, token, draining: false, senders: Vec::new(), owed: 0 }
    }

    /// The grant.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// From here on nothing is accepted any more.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Judges a message of sender `from` (D3). O(log senders); allocates only for a new sender.
    pub fn data(&mut self, from: NodeKey, token: Token, attempt: u32, seq: u64, first: bool) -> Verdict {
        let rules = self.config.rules;
        if token != self.token && rules.on(Rule::DataToken) {
            return Verdict::Refuse { draining: false };
        }
        let place = self.senders.binary_search_by_key(&from, |(key, _)| *key);
        let known = place.ok().map(|index| self.senders[index].1.attempt);
        match known {
            Some(known) if (first && attempt > known) || attempt == known => {}
            Some(_) if rules.on(Rule::DataAttempt) => return Verdict::Drop,
            None if !first && rules.on(Rule::DataEntry) => return Verdict::Refuse { draining: false },
            Some(_) | None => {}
        }
        if self.draining {
            return Verdict::Refuse { draining: known.is_some() };
        }
        let index = place.unwrap_or_else(|index| {
            self.senders.insert(index, (from, Sender::new(attempt, seq)));
            index
        });
        let sender = &mut self.senders[index].1;
        sender.attempt = attempt;
        if !sender.accept(seq) {
            return Verdict::Duplicate;
        }
        if !rules.on(Rule::SettleOnStart) {
            self.started(from, seq);
        }
        Verdict::Accept
    }

    /// A handler was started with message `seq` of `from`, or it was rejected for good (D4). O(log senders); in order
    /// per sender it is O(1) more.
    pub fn started(&mut self, from: NodeKey, seq: u64) {
        let Ok(index) = self.senders.binary_search_by_key(&from, |(key, _)| *key) else { return };
        let sender = &mut self.senders[index].1;
        if sender.take(seq) && !sender.owed {
            sender.owed = true;
            self.owed += 1;
        }
    }

    /// Whether [`flush`](Self::flush) has something to say.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.owed > 0
    }

    /// One `Taken` for each sender of whom more was taken since the last flush. A `Rejected` must go out before the
    /// `Taken` that covers it.
    pub fn flush(&mut self, out: &mut (impl Outbox<IncomingOutput> + ?Sized)) {
        if self.owed == 0 {
            return;
        }
        self.owed = 0;
        for (to, sender) in self.senders.iter_mut().filter(|(_, sender)| sender.owed) {
            sender.owed = false;
            out.emit(IncomingOutput::Taken { to: *to, upto: sender.cum });
        }
    }

    /// The tenure ends, after the last handler was started: one `Closed` for each sender (D5). They go out before any
    /// later `Refuse`, and before the coordinator hears of the drop; then the mailboxes are discarded. `lapsed`: the
    /// session ended, rather than a drain; the rule is the same.
    pub fn close(self, lapsed: bool, out: &mut (impl Outbox<IncomingOutput> + ?Sized)) {
        let rules = self.config.rules;
        if lapsed && !rules.on(Rule::ClosedAlways) {
            return;
        }
        for (to, sender) in self.senders {
            let beyond = if rules.on(Rule::ClosedBeyond) { sender.beyond } else { Vec::new() };
            out.emit(IncomingOutput::Closed { to, upto: sender.cum, beyond });
        }
    }

    /// A sender's process is gone: forget it (D11). Its mail that was accepted may still run.
    pub fn peer_gone(&mut self, node: NodeKey) {
        if let Ok(index) = self.senders.binary_search_by_key(&node, |(key, _)| *key) {
            let (_, sender) = self.senders.remove(index);
            self.owed -= usize::from(sender.owed);
        }
    }
}

impl Sender {
    fn new(attempt: u32, seq: u64) -> Self {
        let cum = seq.saturating_sub(1);
        Self { attempt, expected: seq, cum, beyond: Vec::new(), gaps: Vec::new(), owed: false }
    }

    /// D3: whether `seq` is new. What is missing before it was settled elsewhere and counts as taken.
    fn accept(&mut self, seq: u64) -> bool {
        if seq < self.expected {
            return false;
        }
        if seq > self.expected {
            self.gaps.push((self.expected, seq - 1));
            self.advance();
        }
        self.expected = seq.saturating_add(1);
        true
    }

    /// Marks `seq` as taken. Says whether `cum` grew.
    fn take(&mut self, seq: u64) -> bool {
        if seq <= self.cum || seq >= self.expected {
            return false;
        }
        if seq > self.cum + 1 {
            if let Err(place) = self.beyond.binary_search(&seq) {
                self.beyond.insert(place, seq);
            }
            return false;
        }
        self.cum = seq;
        self.advance();
        true
    }

    /// Lets `cum` run over what is taken or missing right behind it.
    fn advance(&mut self) {
        let (mut taken, mut missing) = (0, 0);
        loop {
            if self.beyond.get(taken) == Some(&(self.cum + 1)) {
                self.cum += 1;
                taken += 1;
            } else if let Some((_, last)) = self.gaps.get(missing).filter(|gap| gap.0 == self.cum + 1) {
                self.cum = *last;
                missing += 1;
            } else {
                break;
            }
        }
        self.beyond.drain(..taken);
        self.gaps.drain(..missing);
    }
}
