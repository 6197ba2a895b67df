//! One reign: the sessions registered in it. Their shards stand in `table.rs`.

mod counts;
mod over;

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use super::{
    AllocatorConfig, Ending, Output,
    member::{Member, Word, farewell_ack},
    roll::Roll,
    table::Table,
};
#[cfg(any(test, feature = "sim"))]
use crate::machine::{Mark, Sort};
use crate::{
    id::{Kind, NodeId, NodeKey, ShardKey, Term},
    machine::{Fixed, Notice, Outbox, Rule},
    time::{Duration, Instant},
    wire::{Control, Directory, DirectoryEntry, Heartbeat, Owned},
};

/// Sessions that ended in this reign and are remembered. None can be forgotten safely while the reign lasts: a process
/// may wake after any pause. So at this bound a new reign is asked for, which needs no memory of this one.
const DEAD_MAX: usize = 65_536;
/// Processes gone for good that the directory names, the latest ones. Whoever misses one keeps an idle link a bit longer.
const GONE_MAX: usize = 1_024;
/// Entity types in one cluster; further ones find no node that hosts them.
const KINDS_MAX: usize = 4_096;
/// The session number that stands for "never again": it left, or a newer process took its place.
const FOR_EVER: u64 = u64::MAX;

/// What one reign knows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Reign {
    pub(super) config: Fixed<AllocatorConfig>,
    pub(super) term: Term,
    /// The newest version of the voters that is known to be in force (V5).
    pub(super) committed: u32,
    /// Who may have a live session, and whether the quarantine is over.
    roll: Roll,
    /// A counter not below ours is known: nothing is granted any more, a new term will come.
    outdone: bool,
    pub(super) members: BTreeMap<NodeKey, Member>,
    /// When each member's session ends, soonest first: a thousand nodes must not be walked for every heartbeat.
    expiries: BTreeSet<(Instant, NodeKey)>,
    /// Node ids under which two processes live, and the one that had it first.
    clashes: BTreeMap<NodeId, NodeKey>,
    /// The last session that ended, of nodes that have none now.
    dead: BTreeMap<NodeKey, u64>,
    /// The shard counts in force. Read them with [`Reign::count`].
    kinds: BTreeMap<Kind, counts::Count>,
    pub(super) table: Table,
    /// Sessions begun in this reign.
    births: u64,
    directory_version: u64,
    gone: VecDeque<NodeKey>,
    /// New commands wait for the next `expire`.
    pub(super) flush_at: Option<Instant>,
}

/// What a heartbeat is worth, before its content is looked at.
enum Standing {
    /// The next one of a session known.
    Next,
    /// The first one of a session.
    First,
    /// Late or repeated.
    Stale,
    /// Of a session that is over.
    Over,
}

impl Reign {
    pub(super) fn new(now: Instant, term: Term, config: Fixed<AllocatorConfig>) -> Self {
        let opened = config.alone || !config.rules.on(Rule::Quarantine);
        Self {
            roll: Roll::new(config.me, now + wait(&config), opened),
            config,
            term,
            committed: 0,
            outdone: false,
            members: BTreeMap::new(),
            expiries: BTreeSet::new(),
            clashes: BTreeMap::new(),
            dead: BTreeMap::new(),
            kinds: BTreeMap::new(),
            table: Table::default(),
            births: 0,
            directory_version: 1,
            gone: VecDeque::new(),
            flush_at: None,
        }
    }

    /// A heartbeat of this very term.
    pub(super) fn heartbeat(
        &mut self,
        now: Instant,
        from: NodeKey,
        beat: Heartbeat,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) {
        if self.left(from, &beat) {
            return self.send(from, Control::Ack(farewell_ack(self.term, &beat)), out);
        }
        if self.clashes.get(&from.id).is_some_and(|older| *older != from) {
            // Its session is not renewed, and not ended either: what it owns may live until W.
            return self.refuse(from, beat.session, out);
        }
        match self.counts(from, &beat) {
            Standing::Over => return self.refuse(from, beat.session, out),
            Standing::Stale => return out.emit(Output::Notice(Notice::Repeated { from })),
            Standing::Next => {
                if let Some(key) = self.conflict(from, &beat) {
                    // The session known is left alone: only its own end or W ends it.
                    out.emit(Output::Notice(Notice::ConflictingClaim { from, key }));
                    return self.refuse(from, beat.session, out);
                }
                self.look_for_clash(from, out);
            }
            Standing::First => {
                if !self.admit(now, from, &beat, out) {
                    return;
                }
                self.renew(now, from, beat, out);
                return self.roll.registers(from);
            }
        }
        self.renew(now, from, beat, out);
    }

    /// Where a heartbeat stands among the sessions of its node.
    fn counts(&self, from: NodeKey, beat: &Heartbeat) -> Standing {
        let rules = self.config.rules;
        // Dead sessions: commands of a session that expired may still be under way; the same session begun anew here
        // would make them fit.
        if rules.on(Rule::DeadSessions) && self.dead.get(&from).is_some_and(|dead| beat.session <= *dead) {
            return Standing::Over;
        }
        let Some(member) = self.members.get(&from) else { return Standing::First };
        if beat.session < member.session && rules.on(Rule::SessionGrows) {
            Standing::Over
        } else if beat.session != member.session {
            Standing::First
        } else if beat.sequence <= member.sequence && rules.on(Rule::SequenceGrows) {
            Standing::Stale
        } else {
            Standing::Next
        }
    }

    /// A shard that the heartbeat claims and the table gives to another node.
    fn conflict(&self, from: NodeKey, beat: &Heartbeat) -> Option<ShardKey> {
        let mut owned = beat.report.iter().flat_map(|report| &report.owned);
        owned.find(|owned| self.table.owner(owned.key).is_some_and(|owner| owner != from)).map(|owned| owned.key)
    }

    /// Begins a session, or refuses to. Its shards are adopted by [`Reign::judge`].
    fn admit(
        &mut self,
        now: Instant,
        from: NodeKey,
        beat: &Heartbeat,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) -> bool {
        // The first heartbeat of a session always carries its report, and is sent again with it until it is acknowledged.
        let Some(report) = &beat.report else {
            out.emit(Output::Notice(Notice::Garbled { what: "first heartbeat without a report" }));
            return false;
        };
        // A later session says that the one before is over, in the node's own words.
        let replaced = self.members.contains_key(&from);
        if replaced {
            self.end(now, from, Ending::Lapsed, out);
        }
        // Adoption window: what is not reported by its end may be granted, so nobody may claim it later.
        let open = self.roll.is_open(now) && !self.config.alone;
        let late = !report.owned.is_empty() && open && self.config.rules.on(Rule::AdoptionWindow);
        let conflict = self.conflict(from, beat);
        if late || conflict.is_some() {
            if let Some(key) = conflict.filter(|_| !late) {
                out.emit(Output::Notice(Notice::ConflictingClaim { from, key }));
            }
            self.bury(from, beat.session, out);
            if replaced {
                out.emit(Output::Gone { node: from });
            }
            self.refuse(from, beat.session, out);
            return false;
        }
        // A node that lapsed under this reign may hear nothing of us: it is given nothing until an ack of ours arrives.
        let lapsed = replaced || self.dead.remove(&from).is_some();
        let ack_due = if lapsed { now } else { now + self.patience() };
        self.births += 1;
        self.members.insert(from, Member::new(beat, ack_due, self.births));
        self.directory_version += 1;
        self.replaces_older(from, out);
        if !replaced {
            out.emit(Output::Joined { node: from });
        }
        true
    }

    /// Counts a heartbeat: W starts anew, then what it says is taken in, then it is acknowledged.
    fn renew(&mut self, now: Instant, from: NodeKey, beat: Heartbeat, out: &mut (impl Outbox<Output> + ?Sized)) {
        let expire_at = now + wait(&self.config);
        let patience = self.patience();
        let Some(member) = self.members.get_mut(&from) else { return };
        self.expiries.remove(&(member.expire_at, from));
        self.expiries.insert((expire_at, from));
        member.expire_at = expire_at;
        if member.address != beat.address {
            member.address.clone_from(&beat.address);
            self.directory_version += 1;
        }
        let obeyed = member.heard(now, patience, &beat);
        let (version, directory) = (beat.report_version, beat.directory);
        let (reported, leaving) = (beat.report.is_some(), member.leaving);
        if let Some(report) = beat.report {
            let news = version != member.report_version();
            member.reported(version, *report);
            self.register_kinds(from, out);
            if news && self.roll.is_open(now) {
                self.note_miscounts(from, out);
            }
        }
        // A heartbeat that says nothing new costs nothing per shard.
        if reported || obeyed {
            self.judge(now, from, out);
        }
        if reported || obeyed || leaving {
            self.send_off(now, from);
        }
        if self.farewell(now, from, version, out) {
            return;
        }
        self.acknowledge(now, from, directory, out);
    }

    /// Answers the last heartbeat; if the voters do not know the session yet, as soon as they do (E5).
    fn acknowledge(&mut self, now: Instant, to: NodeKey, held: u64, out: &mut (impl Outbox<Output> + ?Sized)) {
        let safe = self.roll.may_acknowledge(to, self.config.rules);
        let word = self.word(now);
        let directory = (safe && held < self.directory_version).then(|| self.directory());
        let Some(member) = self.members.get_mut(&to) else { return };
        member.waiting = (!safe).then_some(held);
        if !safe {
            return;
        }
        member.urgent = false;
        out.emit(Output::Send { to, message: Control::Ack(member.ack(word, directory)) });
        if word.open {
            for (kind, cluster) in self.miscounts(to) {
                let (term, kind, node_shards) = (self.term, kind.kind, kind.shards);
                out.emit(Output::Send { to, message: Control::KindRefused { term, kind, cluster, node_shards } });
            }
        }
    }

    /// Compares what the table gives a node with what the node reports.
    fn judge(&mut self, now: Instant, from: NodeKey, out: &mut (impl Outbox<Output> + ?Sized)) {
        let Some(member) = self.members.get(&from) else { return };
        let careful = self.config.rules.on(Rule::AppliedBeforeFree);
        let mut dropped = Vec::new();
        for key in &member.holds {
            // Absent is not free: a grant may be on its way. Absent after the last command about it is.
            let settled = self.table.last_command(*key) <= member.applied || !careful;
            if member.claim(*key).is_none() && settled {
                dropped.push(*key);
            }
        }
        let claimed: Vec<Owned> = member.owned.iter().filter(|claim| self.table.news(claim)).copied().collect();
        for claim in claimed {
            if let Some(member) = self.members.get_mut(&from)
                && self.table.owner(claim.key).is_none()
            {
                member.holds.insert(claim.key);
                self.table.adopt(from, claim);
            }
            self.confirm(claim, out);
        }
        for key in dropped {
            self.free(now, key, Ending::Dropped, out);
        }
    }

    /// What a leaving node holds is drained, and what a node holds but may not host; a few at a time.
    fn send_off(&mut self, now: Instant, from: NodeKey) {
        const AT_ONCE: usize = 4;
        let Some(member) = self.members.get(&from) else { return };
        let (leaving, draining): (bool, usize) =
            (member.leaving, member.holds.iter().filter(|key| self.table.draining(**key)).count());
        let unwelcome = member.holds.iter().copied().filter(|key| !self.table.draining(*key));
        let open = self.roll.is_open(now);
        let unwelcome = unwelcome.filter(|key| leaving || (open && !self.hosts(from, *key)));
        let batch: Vec<_> = unwelcome.take(AT_ONCE.saturating_sub(draining)).collect();
        for key in batch {
            self.drain(now, key, self.config.timing.drain);
        }
    }

    /// A leaving node that owns nothing any more, and waits for nothing, is let go, for ever. Whether it was.
    fn farewell(
        &mut self,
        now: Instant,
        from: NodeKey,
        version: u64,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) -> bool {
        let Some(member) = self.members.get(&from) else { return false };
        let empty = member.owned.is_empty() && member.holds.is_empty() && member.report_version() == version;
        if !member.leaving || !member.settled || !empty {
            return false;
        }
        let ack = member.ack(Word { open: false, ..self.word(now) }, None);
        self.end(now, from, Ending::Dropped, out);
        self.bury_for_ever(from, out);
        out.emit(Output::Gone { node: from });
        self.send(from, Control::Ack(crate::wire::Ack { farewell: true, ..ack }), out);
        true
    }

    fn word(&self, now: Instant) -> Word {
        Word { term: self.term, open: self.roll.is_open(now), committed: self.committed }
    }

    pub(super) fn send(&self, to: NodeKey, message: Control, out: &mut (impl Outbox<Output> + ?Sized)) {
        out.emit(Output::Send { to, message });
    }

    /// A counter not below ours is about: tokens of ours might not be greater than those before, so nothing is granted
    /// until a new term is taken.
    pub(super) fn learn(&mut self, term: Term, out: &mut (impl Outbox<Output> + ?Sized)) {
        if term != self.term && term.counter >= self.term.counter {
            self.outdone = true;
            out.emit(Output::LearnedCounter(term.counter));
        }
    }

    /// The quarantine: before it is over, a shard that nobody reported may still be live under a former reign (L3). Nor
    /// does a reign on its way out place anything.
    pub(super) fn may_allocate(&self, now: Instant) -> bool {
        !self.outdone && !self.roll.is_resigning() && self.roll.is_open(now)
    }

    /// The voters' lists have been read.
    pub(super) fn evidence(&mut self, complete: bool, carried: Vec<NodeKey>) {
        self.roll.decided(complete, carried);
    }

    /// The voters hold a version of the list: whoever stands in it may be acknowledged.
    pub(super) fn confirmed(&mut self, now: Instant, version: u32, out: &mut (impl Outbox<Output> + ?Sized)) {
        self.roll.confirmed(version);
        let waiting = self.members.iter().filter_map(|(node, member)| Some((*node, member.waiting?)));
        for (node, held) in waiting.collect::<Vec<_>>() {
            self.acknowledge(now, node, held, out);
        }
    }

    /// Begins to give the reign up in good order.
    pub(super) fn resign(&mut self, now: Instant) {
        self.roll.resign(now + self.config.timing.reign);
    }

    pub(super) fn is_resigning(&self) -> bool {
        self.roll.is_resigning()
    }

    /// What follows from all that was heard: the quarantine may be over, the list may have changed, a resignation may have
    /// come to its end. Last in every verb.
    pub(super) fn call_the_roll(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        let rules = self.config.rules;
        if self.roll.opens(now, rules) {
            for key in self.table.homeless() {
                out.emit(Output::Wanted { key, asker: self.table.first_asker(key) });
            }
            // From now on whoever is not in the directory is out of the cluster; and a coordinator that left its reign to
            // this one waits for the word.
            self.directory_version += 1;
            for node in self.members.keys() {
                self.note_miscounts(*node, out);
            }
            self.members.values_mut().for_each(|member| member.urgent = true);
            self.flush_at = Some(now);
        }
        if self.roll.resigns_in_vain(now) {
            out.emit(Output::Notice(Notice::ResignationFailed { term: self.term }));
        }
        if let Some(list) = self.roll.list(self.term, self.members.keys().copied(), rules) {
            out.emit(Output::Publish(list));
        }
        if self.roll.has_resigned(rules) {
            out.emit(Output::Resigned { term: self.term });
        }
    }

    pub(super) fn roll_deadline(&self) -> Option<Instant> {
        self.roll.deadline()
    }

    pub(super) fn expiry_deadline(&self) -> Option<Instant> {
        let sessions = self.expiries.first().map(|(at, _)| *at);
        if self.config.rules.on(Rule::NoForcedHandoff) {
            return sessions;
        }
        crate::time::soonest(sessions, self.table.next_overdue())
    }

    /// Sends the commands that came since the last flush, under the last heartbeat's number: that extends nothing.
    pub(super) fn flush(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.flush_at.is_none_or(|at| now < at) {
            return;
        }
        self.flush_at = None;
        let word = self.word(now);
        for (to, member) in &mut self.members {
            if member.urgent && self.roll.may_acknowledge(*to, self.config.rules) {
                member.urgent = false;
                out.emit(Output::Send { to: *to, message: Control::Ack(member.ack(word, None)) });
            }
        }
    }

    pub(super) fn directory(&self) -> Directory {
        let entry =
            |(node, member): (&NodeKey, &Member)| DirectoryEntry { node: *node, address: member.address.clone() };
        let mut gone: Vec<_> = self.gone.iter().copied().collect();
        gone.sort_unstable();
        Directory { version: self.directory_version, nodes: self.members.iter().map(entry).collect(), gone }
    }

    /// Without a new ack seen for that long, a node counts as deaf.
    fn patience(&self) -> Duration {
        self.config.timing.heartbeat * 3
    }

    #[cfg(any(test, feature = "sim"))]
    pub(super) fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        self.table.each_mark(self.term, f);
        self.roll.each_mark(self.term, f);
        f(Mark::Term(&mut self.term));
        f(Mark::Aside(&mut self.directory_version));
        f(Mark::Aside(&mut self.births));
        self.flush_at.iter_mut().for_each(|at| f(Mark::Deadline(at)));
        self.members.iter_mut().for_each(|(node, member)| member.each_mark(*node, f));
        self.expiries = self.members.iter().map(|(node, member)| (member.expire_at, *node)).collect();
        self.dead.iter_mut().for_each(|(node, session)| f(Mark::Number(*node, Sort::Session, session)));
        self.dead.retain(|_, session| *session > 0);
    }
}

/// W; only D if the drift factor is switched off.
fn wait(config: &AllocatorConfig) -> Duration {
    if config.rules.on(Rule::DriftFactor) { config.timing.wait } else { config.timing.session }
}

/// All processes of the node of `node`.
fn every_life(node: NodeKey) -> core::ops::RangeInclusive<NodeKey> {
    use crate::id::Incarnation;
    NodeKey { incarnation: Incarnation(0), ..node }..=NodeKey { incarnation: Incarnation(u64::MAX), ..node }
}
