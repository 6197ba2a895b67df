//! A store that checks fences, as a user's would be: what the newest life of an entity has been told is stored stays so,
//! although writes are on their way for seconds, answers get lost, and processes die or run on past their end (I8).
//!
//! The entities keep the recipe's rules, and each can be broken: claim before reading, in one statement (F1); write only
//! under the own claim and over the state that was read (F2); a new number with each activation (F3). One write at a time
//! (F4): a life whose answer got lost writes no more.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use super::cluster::Cluster;
use super::event::Event;
use super::marks::Mark;
use crate::entity::Fence;
use crate::id::Slot;
use crate::machine::Rule;
use crate::region::lane::Life;

/// How long a write may be on its way.
const LATE: u64 = 2_500_000_000;

/// What lives do with it, and its rows.
#[derive(Debug, Default)]
pub(super) struct Store {
    rows: BTreeMap<usize, Row>,
    /// By process, lane and slot.
    views: BTreeMap<Who, View>,
    writes: Vec<Write>,
}

/// A life: the number of its process, its lane and slot.
type Who = (u64, u32, usize, (u32, u32));

/// One entity's row. Its state counts the writes that it holds.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    fence: Fence,
    version: u64,
    state: u64,
    /// The greatest fence that wrote.
    written_by: Fence,
    /// The checker's own record: the greatest fence of a life that began. It does not depend on the rules in force.
    claimed: Fence,
}

/// What a life knows of its row.
#[derive(Clone, Copy, Debug)]
struct View {
    entity: usize,
    fence: Fence,
    version: u64,
    state: u64,
    /// A write is under way, or came to nothing: it writes no more.
    waits: bool,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    who: Who,
    view: View,
}

impl Cluster {
    fn who(&self, seat: usize, lane: usize, slot: Slot) -> Option<Who> {
        let process = self.seats[seat].process.as_ref()?;
        Some((seat as u64, process.life, lane, (slot.index, slot.generation)))
    }

    /// A life begins: it claims its row, and reads it.
    pub(super) fn claim(&mut self, seat: usize, lane: usize, slot: Slot, entity: usize, life: &Life) {
        let Some(who) = self.who(seat, lane, slot).filter(|_| self.options.store) else { return };
        let rules = self.options.rules();
        let activation = if rules.on(Rule::StoreActivation) { life.activation } else { 0 };
        let fence = Fence { token: life.token, activation: activation.into() };
        let row = self.store.rows.entry(entity).or_default();
        if fence < row.fence {
            self.mark(Mark::StoreRefused);
            if !self.clocks_are_broken {
                self.violated("fence-order", format!("a life of e{entity} claims under {fence:?} after a greater one"));
            }
            return;
        }
        row.claimed = row.claimed.max(fence);
        if rules.on(Rule::StoreClaim) {
            row.fence = fence;
        }
        let view = View { entity, fence, version: row.version, state: row.state, waits: false };
        self.store.views.insert(who, view);
    }

    /// A handler of that life writes, perhaps.
    pub(super) fn write(&mut self, seat: usize, lane: usize, slot: Slot) {
        let Some(who) = self.who(seat, lane, slot).filter(|_| self.options.store) else { return };
        let Some(view) = self.store.views.get_mut(&who).filter(|view| !view.waits) else { return };
        if !self.dice.store.chance(1, 3) {
            return;
        }
        view.waits = true;
        let write = Write { who, view: *view };
        let late = if self.dice.store.chance(1, 10) { LATE } else { 20_000_000 };
        let at = self.now + self.dice.store.below(late);
        self.store.writes.push(write);
        let number = self.store.writes.len() - 1;
        self.agenda.push(at, seat, 0, Event::Store { write: number });
    }

    /// A write reaches the store.
    pub(super) fn stored(&mut self, seat: usize, number: usize) {
        let Write { who, view } = self.store.writes[number];
        let View { entity, fence, version, state, .. } = view;
        let row = self.store.rows.entry(entity).or_default();
        let holds = (fence >= row.fence && version == row.version) || !self.options.rules().on(Rule::StoreCondition);
        if !holds {
            let newest = fence == row.claimed;
            self.mark(Mark::StoreRefused);
            if newest {
                self.violated(
                    "newest-refused",
                    format!("a write of e{entity} under {fence:?}, the newest claim, is refused"),
                );
            }
            return;
        }
        let (before, written_by) = (row.state, row.written_by);
        *row = Row {
            fence: row.fence.max(fence),
            version: row.version + 1,
            state: state + 1,
            written_by: fence,
            claimed: row.claimed,
        };
        if fence < written_by {
            self.violated("stale-write", format!("e{entity} is written under {fence:?} after {written_by:?}"));
        }
        if before != state {
            self.violated(
                "lost-update",
                format!("e{entity} had {before} writes, and is written over with {}", state + 1),
            );
        }
        // The answer, unless it gets lost.
        if self.dice.store.chance(9, 10) {
            let at = self.now + self.dice.store.below(20_000_000);
            self.agenda.push(at, seat, who.1, Event::StoreAnswer { write: number });
        }
    }

    /// The life hears that its write is stored.
    pub(super) fn store_answers(&mut self, number: usize) {
        let Write { who, view: View { fence, .. } } = self.store.writes[number];
        // A life that began anew in the same place has read what it needs.
        if let Some(view) = self.store.views.get_mut(&who).filter(|view| view.fence == fence) {
            view.waits = false;
            view.version += 1;
            view.state += 1;
        }
    }

    /// A life is over.
    pub(super) fn forget_life(&mut self, seat: usize, lane: usize, slot: Slot) {
        if let Some(who) = self.who(seat, lane, slot) {
            self.store.views.remove(&who);
        }
    }
}
