//! The table of shards: who owns what, what is wanted, who asked.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{Ending, Output, Place, Stage, member::COMMANDS_MAX, reign::Reign};
#[cfg(any(test, feature = "sim"))]
use crate::{
    id::Term,
    machine::{Mark, Sort},
};
use crate::{
    id::{NodeKey, ShardKey, Token},
    machine::Outbox,
    time::{Duration, Instant},
    wire::{Command, Control, Home, Owned},
};

/// Nodes that wait for one shard's home. Further ones ask again by their own timers.
const ASKERS_MAX: usize = 64;

/// One shard that has an owner, or is about to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Entry {
    owner: NodeKey,
    token: Token,
    /// The number, in the owner's session, of the last command about the shard.
    last_command: u64,
    stage: Stage,
    /// The tenure before this one ended by its owner's own drop, in this reign (D9).
    closed: bool,
}

/// A shard without an owner that was asked for, or had one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
struct Vacancy {
    /// The last tenure ended by its owner's own drop, in this reign (D9).
    closed: bool,
}

/// All shards in use. A shard is in `entries` or in `vacant`, never in both.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Table {
    entries: BTreeMap<ShardKey, Entry>,
    vacant: BTreeMap<ShardKey, Vacancy>,
    /// Who waits for a home that is not confirmed yet.
    asked: BTreeMap<ShardKey, Vec<NodeKey>>,
    /// Grants of this reign.
    grants: u32,
}

impl Table {
    pub(super) fn owner(&self, key: ShardKey) -> Option<NodeKey> {
        self.entries.get(&key).map(|entry| entry.owner)
    }

    pub(super) fn last_command(&self, key: ShardKey) -> u64 {
        self.entries.get(&key).map_or(0, |entry| entry.last_command)
    }

    pub(super) fn draining(&self, key: ShardKey) -> bool {
        matches!(self.entries.get(&key), Some(Entry { stage: Stage::Draining { .. }, .. }))
    }

    /// Whether a claim says something that the table does not know: a shard without an entry, or a grant confirmed.
    pub(super) fn news(&self, claim: &Owned) -> bool {
        let unconfirmed = |entry: &Entry| entry.stage == Stage::Granting && entry.token == claim.token;
        self.entries.get(&claim.key).is_none_or(unconfirmed) || self.asked.contains_key(&claim.key)
    }

    /// Enters a shard that its node holds already.
    pub(super) fn adopt(&mut self, owner: NodeKey, claim: Owned) {
        let closed = self.vacant.remove(&claim.key).unwrap_or_default().closed;
        let entry = Entry { owner, token: claim.token, last_command: 0, stage: Stage::Held, closed };
        self.entries.insert(claim.key, entry);
    }

    pub(super) fn overdue(&self, now: Instant) -> Vec<ShardKey> {
        let over = |entry: &Entry| matches!(entry.stage, Stage::Draining { until } if now >= until);
        self.entries.iter().filter(|(_, entry)| over(entry)).map(|(key, _)| *key).collect()
    }

    pub(super) fn next_overdue(&self) -> Option<Instant> {
        let until = |entry: &Entry| match entry.stage {
            Stage::Draining { until } => Some(until),
            _ => None,
        };
        self.entries.values().filter_map(until).min()
    }

    /// Shards that are wanted and have no owner, in order.
    pub(super) fn homeless(&self) -> impl Iterator<Item = ShardKey> {
        self.vacant.keys().copied()
    }

    pub(super) fn first_asker(&self, key: ShardKey) -> Option<NodeKey> {
        self.asked.get(&key).and_then(|askers| askers.first().copied())
    }

    /// Every shard that has an owner, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let place = |(key, entry): (&ShardKey, &Entry)| Place {
            key: *key,
            owner: entry.owner,
            token: entry.token,
            stage: entry.stage,
        };
        self.entries.iter().map(place)
    }

    pub(super) fn place(&self, key: ShardKey) -> Option<Place> {
        self.entries.get(&key).map(|entry| Place { key, owner: entry.owner, token: entry.token, stage: entry.stage })
    }

    fn asks(&mut self, key: ShardKey, asker: NodeKey) {
        let askers = self.asked.entry(key).or_default();
        if askers.len() < ASKERS_MAX && !askers.contains(&asker) {
            askers.push(asker);
        }
    }

    #[cfg(any(test, feature = "sim"))]
    pub(super) fn each_mark(&mut self, term: Term, f: &mut dyn FnMut(Mark<'_>)) {
        f(Mark::Grants(term, &mut self.grants));
        for entry in self.entries.values_mut() {
            f(Mark::Token(&mut entry.token));
            f(Mark::Number(entry.owner, Sort::Command, &mut entry.last_command));
            f(Mark::Remark(&mut entry.closed));
            if let Stage::Draining { until } = &mut entry.stage {
                f(Mark::Deadline(until));
            }
        }
        self.vacant.values_mut().for_each(|vacancy| f(Mark::Remark(&mut vacancy.closed)));
    }
}

/// What happens to shards inside a reign.
impl Reign {
    /// Whether `key` may be placed on `to` now: nobody owns it, the quarantine is over, and the node has a session, hosts
    /// the type with the shard count in force, does not leave, and is neither deaf nor behind with its commands.
    pub(super) fn placeable(&self, now: Instant, key: ShardKey, to: NodeKey) -> bool {
        let Some(member) = self.members.get(&to) else { return false };
        self.may_allocate(now)
            && self.table.owner(key).is_none()
            && self.table.grants < u32::MAX
            && self.hosts(to, key)
            && !member.leaving
            && !member.deaf(now)
            && member.commands.len() < COMMANDS_MAX
    }

    /// Whether the node hosts the shard's type with the count in force, and the shard exists.
    pub(super) fn hosts(&self, node: NodeKey, key: ShardKey) -> bool {
        let Some(member) = self.members.get(&node) else { return false };
        let Some(count) = self.count(key.kind) else { return false };
        key.shard.0 < count
            && member.kinds.iter().any(|kind| kind.kind == key.kind && kind.hosts && kind.shards == count)
    }

    /// The edge to Granting.
    pub(super) fn allocate(&mut self, now: Instant, key: ShardKey, to: NodeKey) {
        if !self.placeable(now, key, to) {
            return;
        }
        let Some(member) = self.members.get_mut(&to) else { return };
        self.table.grants += 1;
        let token = Token { counter: self.term.counter, node: self.term.node.id, number: self.table.grants };
        let last_command = member.order(Command::Grant { key, token });
        member.holds.insert(key);
        let closed = self.table.vacant.remove(&key).unwrap_or_default().closed;
        self.table.entries.insert(key, Entry { owner: to, token, last_command, stage: Stage::Granting, closed });
        self.flush_at = Some(now);
    }

    /// The edge to Draining.
    pub(super) fn drain(&mut self, now: Instant, key: ShardKey, within: Duration) {
        if self.is_resigning() {
            return;
        }
        let Some(entry) = self.table.entries.get_mut(&key) else { return };
        if matches!(entry.stage, Stage::Draining { .. }) {
            return;
        }
        let Some(member) = self.members.get_mut(&entry.owner) else { return };
        if member.commands.len() == COMMANDS_MAX {
            return;
        }
        entry.last_command = member.order(Command::Drain { key, within });
        entry.stage = Stage::Draining { until: now + within };
        self.flush_at = Some(now);
    }

    /// The edge to Held: the owner's report shows the grant. Those who asked are told.
    pub(super) fn confirm(&mut self, claim: Owned, out: &mut (impl Outbox<Output> + ?Sized)) {
        let Some(entry) = self.table.entries.get_mut(&claim.key) else { return };
        if entry.token != claim.token {
            return;
        }
        if entry.stage == Stage::Granting {
            entry.stage = Stage::Held;
        }
        let home = Home { node: entry.owner, token: entry.token, closed: entry.closed };
        for asker in self.table.asked.remove(&claim.key).unwrap_or_default() {
            self.answer(asker, claim.key, Some(home), out);
        }
    }

    /// The end of a tenure: the shard wants a new place at once.
    pub(super) fn free(&mut self, now: Instant, key: ShardKey, how: Ending, out: &mut (impl Outbox<Output> + ?Sized)) {
        let Some(entry) = self.table.entries.remove(&key) else { return };
        if let Some(member) = self.members.get_mut(&entry.owner) {
            member.holds.remove(&key);
        }
        out.emit(Output::Freed { key, from: entry.owner, how });
        if self.exists(key) {
            self.table.vacant.insert(key, Vacancy { closed: how == Ending::Dropped });
            if self.may_allocate(now) {
                out.emit(Output::Wanted { key, asker: None });
            }
        }
    }

    /// Somebody asks where a shard lives. A shard that drains still lives at its owner.
    pub(super) fn lookup(
        &mut self,
        now: Instant,
        from: NodeKey,
        key: ShardKey,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) {
        match self.table.entries.get(&key) {
            Some(Entry { stage: Stage::Granting, .. }) => self.table.asks(key, from),
            Some(entry) => {
                let home = Home { node: entry.owner, token: entry.token, closed: entry.closed };
                // If it should have died, whoever asks is told of the next home without asking again.
                if self.members.get(&entry.owner).is_some_and(|owner| owner.deaf(now)) {
                    self.table.asks(key, from);
                }
                self.answer(from, key, Some(home), out);
            }
            None if self.exists(key) => {
                self.table.asks(key, from);
                self.table.vacant.entry(key).or_default();
                if self.may_allocate(now) {
                    out.emit(Output::Wanted { key, asker: Some(from) });
                }
            }
            None => self.answer(from, key, None, out),
        }
    }

    fn answer(&self, to: NodeKey, key: ShardKey, home: Option<Home>, out: &mut (impl Outbox<Output> + ?Sized)) {
        self.send(to, Control::Home { term: self.term, key, home }, out);
    }

    /// Whether a registered type has this shard.
    fn exists(&self, key: ShardKey) -> bool {
        self.count(key.kind).is_some_and(|count| key.shard.0 < count)
    }
}
