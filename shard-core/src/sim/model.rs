//! What every message met: an omniscient book, kept apart from everything that is tested.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use core::ops::Range;

use crate::entity::Fate;
use crate::id::{NodeKey, ShardId};

/// A simulated message: its number in the book.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Message {
    pub(super) index: u32,
    pub(super) asker: Asker,
}

/// Who waits for the reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Asker {
    Nobody,
    Here,
    There { from: NodeKey, shard: ShardId, seq: u64 },
}

#[derive(Debug)]
pub(super) struct Entry {
    sender: NodeKey,
    entity: usize,
    ask: bool,
    handled: bool,
    replied: bool,
    told: Option<Fate>,
    /// The process that sent it is gone.
    orphan: bool,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) entries: Vec<Entry>,
    /// The last message handled, per sender and entity.
    last: BTreeMap<(NodeKey, usize), u32>,
}

impl Model {
    pub(super) fn sent(&mut self, sender: NodeKey, entity: usize, ask: bool) -> Message {
        let index = self.entries.len() as u32;
        self.entries.push(Entry { sender, entity, ask, handled: false, replied: false, told: None, orphan: false });
        Message { index, asker: if ask { Asker::Here } else { Asker::Nobody } }
    }

    /// A handler starts with the message.
    pub(super) fn handled(&mut self, index: u32, entity: usize) -> Result<(), (&'static str, String)> {
        let entry = &mut self.entries[index as usize];
        if entry.entity != entity {
            return Err(("astray", format!("message {index} is for e{} and reached e{entity}", entry.entity)));
        }
        if entry.handled {
            return Err(("duplicated", format!("message {index} of {} to e{entity} is handled again", entry.sender)));
        }
        if let Some(Fate::NotRun(reason)) = entry.told {
            return Err((
                "told-not-run",
                format!(
                    "message {index} of {} to e{entity} runs after its sender was told it did not ({reason})",
                    entry.sender
                ),
            ));
        }
        entry.handled = true;
        let last = self.last.entry((entry.sender, entity)).or_insert(index);
        if *last > index {
            return Err((
                "reordered",
                format!("message {index} of {} to e{entity} is handled after message {last}", entry.sender),
            ));
        }
        *last = index;
        Ok(())
    }

    /// The sender is told a fate.
    pub(super) fn told(&mut self, index: u32, fate: Fate) -> Result<(), (&'static str, String)> {
        let entry = &mut self.entries[index as usize];
        let of = format!("message {index} of {} to e{}", entry.sender, entry.entity);
        if let Some(before) = entry.told {
            return Err(("two-fates", format!("{of} is told `{fate}` after `{before}`")));
        }
        if entry.replied {
            return Err(("two-fates", format!("{of} is told `{fate}` after its reply")));
        }
        if entry.handled && fate != Fate::InDoubt {
            return Err(("told-not-run", format!("{of} was handled and is told `{fate}`")));
        }
        entry.told = Some(fate);
        Ok(())
    }

    /// The sender of an ask gets its answer.
    pub(super) fn replied(&mut self, index: u32) -> Result<(), (&'static str, String)> {
        let entry = &mut self.entries[index as usize];
        if entry.replied || entry.told.is_some() || !entry.ask {
            return Err(("two-fates", format!("ask {index} of {} is answered after its fate was told", entry.sender)));
        }
        entry.replied = true;
        Ok(())
    }

    /// A process is gone, and with it everything that it had not heard of.
    pub(super) fn gone(&mut self, sender: NodeKey) {
        for entry in self.entries.iter_mut().filter(|entry| entry.sender == sender) {
            entry.orphan = true;
        }
    }

    /// Messages whose sender lives and has no fate to name.
    pub(super) fn open(&self) -> impl Iterator<Item = String> {
        let open = |entry: &Entry| {
            let settled = if entry.ask { entry.replied } else { entry.handled };
            !entry.orphan && !settled && entry.told.is_none()
        };
        self.entries.iter().enumerate().filter(move |(_, entry)| open(entry)).map(|(index, entry)| {
            let what = match (entry.ask, entry.handled) {
                (true, true) => "ask, handled, unanswered",
                (true, false) => "ask, not handled",
                (false, _) => "not handled",
            };
            format!("message {index} of {} to e{}: {what}", entry.sender, entry.entity)
        })
    }

    /// Entities of which one of these messages was not handled, or is not known to be.
    pub(super) fn entities_unserved(&self, sent: Range<usize>) -> BTreeSet<usize> {
        let unserved = |entry: &&Entry| !entry.handled || entry.told.is_some();
        self.entries[sent].iter().filter(unserved).map(|entry| entry.entity).collect()
    }

    /// How many met which fate.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for entry in &self.entries {
            match (entry.handled, entry.told) {
                (true, told) => {
                    totals.handled += 1;
                    totals.handled_in_doubt += u64::from(told.is_some());
                }
                (false, Some(Fate::NotRun(_))) => totals.not_run += 1,
                (false, Some(Fate::InDoubt)) => totals.in_doubt += 1,
                (false, None) => totals.orphaned += u64::from(entry.orphan),
            }
        }
        totals.in_doubt += totals.handled_in_doubt;
        totals
    }
}

/// How many messages met which fate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) handled: u64,
    pub(super) not_run: u64,
    pub(super) in_doubt: u64,
    pub(super) handled_in_doubt: u64,
    pub(super) orphaned: u64,
}

impl Totals {
    /// All that met a fate, each counted once.
    pub(super) fn sum(&self) -> u64 {
        self.handled + self.not_run + self.in_doubt - self.handled_in_doubt + self.orphaned
    }
}
