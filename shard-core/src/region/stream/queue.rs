//! The messages of one stream whose fate is open, in the order of their numbers.

use alloc::collections::VecDeque;

use crate::time::Instant;

/// One message that a sender keeps.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Entry<E, B> {
    /// Its number in the stream.
    pub seq: u64,
    /// The entity it is for.
    pub entity: E,
    /// The message.
    pub body: B,
    /// Its sender waits for a reply.
    pub ask: bool,
    /// What it counts against the stream's bound.
    pub bytes: usize,
    /// If it is still unsent by then, it is not run at all.
    pub deadline: Option<Instant>,
    /// When its fate is declared if it is still open.
    pub(super) give_up_at: Instant,
}

/// Entries in ascending order of `seq`. Those sent to the present home are always a prefix.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Queue<E, B> {
    entries: VecDeque<Entry<E, B>>,
    sent: usize,
    pub(super) bytes: usize,
    pub(super) asks: usize,
    /// No unsent entry has a deadline before this.
    soonest: Option<Instant>,
}

impl<E, B> Queue<E, B> {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new(), sent: 0, bytes: 0, asks: 0, soonest: None }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn front(&self) -> Option<&Entry<E, B>> {
        self.entries.front()
    }

    /// The place of `seq`: at its distance from the front, unless something in between was taken out.
    pub(super) fn find(&self, seq: u64) -> Result<usize, usize> {
        let Some(front) = self.entries.front() else { return Err(0) };
        if let Some(guess) = seq.checked_sub(front.seq).and_then(|distance| usize::try_from(distance).ok())
            && self.entries.get(guess).is_some_and(|entry| entry.seq == seq)
        {
            return Ok(guess);
        }
        self.entries.binary_search_by_key(&seq, |entry| entry.seq)
    }

    pub(super) fn get(&self, seq: u64) -> Option<&Entry<E, B>> {
        self.find(seq).ok().and_then(|index| self.entries.get(index))
    }

    pub(super) fn is_sent(&self, index: usize) -> bool {
        index < self.sent
    }

    pub(super) fn any_sent(&self) -> bool {
        self.sent > 0
    }

    pub(super) fn push_back(&mut self, entry: Entry<E, B>) {
        self.count(&entry);
        self.entries.push_back(entry);
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<Entry<E, B>> {
        let entry = if index == 0 { self.entries.pop_front() } else { self.entries.remove(index) }?;
        if index < self.sent {
            self.sent -= 1;
        }
        self.bytes -= entry.bytes;
        self.asks -= usize::from(entry.ask);
        Some(entry)
    }

    /// Marks the first unsent entry as sent and tells its number.
    pub(super) fn send_next(&mut self) -> Option<u64> {
        let entry = self.entries.get(self.sent)?;
        self.sent += 1;
        Some(entry.seq)
    }

    /// Marks everything from `index` on as unsent.
    pub(super) fn unsend_from(&mut self, index: usize) {
        if index < self.sent {
            self.sent = index;
            self.look_for_soonest();
        }
    }

    /// When [`pop_expired`](Self::pop_expired) may find something.
    pub(super) fn expiry(&self) -> Option<Instant> {
        self.soonest.filter(|_| self.sent < self.entries.len())
    }

    /// Takes out an unsent entry whose deadline has passed.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<Entry<E, B>> {
        self.expiry().filter(|at| *at <= now)?;
        let unsent = self.entries.range(self.sent..);
        let found = unsent.enumerate().find(|(_, entry)| entry.deadline.is_some_and(|at| at <= now));
        let Some((offset, _)) = found else {
            self.look_for_soonest();
            return None;
        };
        self.remove(self.sent + offset)
    }

    fn look_for_soonest(&mut self) {
        self.soonest = self.entries.range(self.sent..).filter_map(|entry| entry.deadline).min();
    }

    fn count(&mut self, entry: &Entry<E, B>) {
        self.bytes += entry.bytes;
        self.asks += usize::from(entry.ask);
        self.soonest = crate::time::soonest(self.soonest, entry.deadline);
    }
}
