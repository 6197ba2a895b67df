//! The session machine ("R" in the protocol).

mod end;
#[cfg(any(test, feature = "sim"))]
mod marks;

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use super::{Input, Output, SessionConfig};
use crate::{
    allocation::Stats,
    id::{Kind, NodeKey, ShardKey, Term, Token},
    machine::{Fixed, Machine, Notice, Outbox, Rule},
    time::{Instant, soonest},
    wire::{Ack, Command, Control, Heartbeat, KindReport, Owned, Report},
};

/// Heartbeats under way that are remembered. Beyond that each new one takes the place of the last: the oldest, whose ack
/// comes next, and the newest, whose ack is good for longest, both stay.
const SENT_MAX: usize = 128;

/// One node's session. See the module's page for its states.
///
/// Memory: the node's shards and types, and at most 128 heartbeats under way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session {
    config: Fixed<SessionConfig>,
    /// The greatest term heard of from its own node: the only one obeyed.
    max_term: Option<Term>,
    /// Which session of this incarnation.
    number: u64,
    /// The last heartbeat sent, in any session of this incarnation: it never starts over, so an ack cannot fit twice.
    sequence: u64,
    /// Heartbeats not acknowledged yet, oldest first.
    sent: VecDeque<Sent>,
    live: bool,
    /// The end of the session; in the past while not live.
    valid_until: Instant,
    /// The end of this node's own reign, while it has one (E8).
    reign_until: Option<Instant>,
    /// The coordinator obeyed knows of every shard that lives.
    open: bool,
    /// The session whose lanes are still stopping.
    stopping: Option<u64>,
    /// Sorted by key. Empty while not live (G1).
    owned: Vec<Owned>,
    /// Sorted by kind.
    kinds: Vec<KindReport>,
    /// The last command obeyed in this session and reign.
    applied: u64,
    ack_seen: u64,
    report_version: u64,
    /// The report that this reign's coordinator holds; zero: none.
    report_seen: u64,
    /// The directory of this reign that the node holds; zero: none.
    directory: u64,
    /// Refusals of this reign that were passed on already, one per type registered: (type, the cluster's count).
    refused: Vec<(Kind, u32)>,
    /// The newest version of the voters that a coordinator said to be in force.
    committed: u32,
    /// This node's resources, as they were last measured.
    stats: Option<Stats>,
    leaving: bool,
    /// Nothing of this node's own keeps it from being released.
    settled: bool,
    /// Left for good.
    gone: bool,
    next_beat_at: Instant,
    ask_at: Instant,
    /// No hint is followed before this.
    hint_at: Instant,
}

/// A heartbeat under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Sent {
    sequence: u64,
    /// D after it was sent: how long its ack keeps the session (L2).
    good_until: Instant,
}

impl Machine for Session {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Instant, input: Input, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.config.rules.on(Rule::AdvanceFirst) {
            self.advance(now, out);
        }
        if self.gone {
            return;
        }
        match input {
            Input::Heard { from, to, message } => self.heard(now, from, to, message, out),
            Input::Registered(kind) => self.registered(now, kind),
            Input::Measured(stats) => self.stats = Some(stats),
            Input::Dropped { key, token } => self.dropped(now, key, token),
            Input::LanesStopped { session } => {
                if self.stopping == Some(session) {
                    self.stopping = None;
                }
            }
            Input::HandOver => {
                if !self.leaving {
                    (self.leaving, self.settled) = (true, false);
                    self.next_beat_at = now;
                }
            }
            Input::Leave => {
                if !self.leaving || !self.settled {
                    (self.leaving, self.settled) = (true, true);
                    self.next_beat_at = now;
                }
            }
            Input::Reigns { until } => self.reigns(now, until, out),
            Input::ReignOver { resigned } => self.reign_over(now, resigned, out),
            Input::GiveUp if self.live => self.lapse(now, out),
            Input::GiveUp => {}
            Input::CoordinatorIs { term } => self.coordinator_is(now, term, out),
        }
    }

    fn expire(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        // Without the rule, a heartbeat that is due goes before the lapse that is due.
        if self.config.rules.on(Rule::AdvanceFirst) || self.beat_due(now).is_none() {
            self.advance(now, out);
        }
        if self.gone {
            return;
        }
        if let Some(term) = self.beat_due(now) {
            self.beat(now, term, out);
        }
        if now >= self.ask_at {
            self.ask_at = now + self.config.timing.heartbeat;
            out.emit(Output::AskVoters);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if self.gone {
            return None;
        }
        let lapse = self.live.then(|| self.ends_at());
        let beat = (self.beats() && self.max_term.is_some()).then_some(self.next_beat_at);
        soonest(soonest(lapse, beat), Some(self.ask_at))
    }
}

impl Session {
    /// A session that has not registered anywhere: it asks the voters at once. A restarted process builds a new one,
    /// with a new incarnation.
    #[must_use]
    pub fn new(now: Instant, config: SessionConfig) -> Self {
        Self {
            config: Fixed::new(config),
            max_term: None,
            number: 1,
            sequence: 0,
            sent: VecDeque::new(),
            live: false,
            valid_until: Instant::ZERO,
            reign_until: None,
            open: false,
            stopping: None,
            owned: Vec::new(),
            kinds: Vec::new(),
            applied: 0,
            ack_seen: 0,
            report_version: 1,
            report_seen: 0,
            directory: 0,
            refused: Vec::new(),
            committed: 0,
            stats: None,
            leaving: false,
            settled: true,
            gone: false,
            next_beat_at: now,
            ask_at: now,
            hint_at: Instant::ZERO,
        }
    }

    /// The grant under which this node may serve `key` at `now`; `None` if it may not.
    #[must_use]
    pub fn owns(&self, now: Instant, key: ShardKey) -> Option<Token> {
        let found = self.find(key).ok()?;
        self.is_live(now).then(|| self.owned[found].token)
    }

    /// Whether the session is acknowledged and not over at `now`.
    #[must_use]
    pub fn is_live(&self, now: Instant) -> bool {
        self.live && now < self.ends_at()
    }

    /// When the session ends if nothing renews it; `None` while not live.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        self.live.then(|| self.ends_at())
    }

    /// Whether the coordinator that this node obeys has said, in an ack, that it knows of every shard that lives.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The number of the session.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether this reign's coordinator holds the node's present report: its types and shards.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.report_seen == self.report_version
    }

    /// The reign that this node obeys.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.max_term
    }

    /// Whether a directive that names `term` and came from `from` counts: only the present reign's, only from its node.
    /// Whoever routes `Control::Home` asks this first.
    #[must_use]
    pub fn obeys(&self, from: NodeKey, term: Term) -> bool {
        self.max_term == Some(term) && from == term.node
    }

    /// The shards held, sorted by key; draining ones included.
    #[must_use]
    pub fn owned(&self) -> &[Owned] {
        &self.owned
    }

    /// Whether the node asked to leave.
    #[must_use]
    pub fn leaving(&self) -> bool {
        self.leaving
    }

    fn heard(
        &mut self,
        now: Instant,
        from: NodeKey,
        to: NodeKey,
        message: Control,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) {
        let me = self.config.me;
        // Numbers start over with a restart, so mail for the process before this one would look valid.
        if to != me && (self.config.rules.on(Rule::Incarnation) || to.id != me.id) {
            return out.emit(Output::Notice(Notice::NotYours { from }));
        }
        match message {
            Control::Announce { term, committed } => {
                self.announced(now, from, term, out);
                if self.obeys(from, term) {
                    self.in_force(committed, out);
                }
            }
            Control::Ack(ack) => self.acked(now, from, ack, out),
            Control::Dead { term, session } => {
                if !self.obeys(from, term) {
                    out.emit(Output::Notice(Notice::StaleTerm { from, term }));
                } else if session == self.number {
                    self.lapse(now, out);
                }
            }
            Control::KindRefused { term, kind, cluster, node_shards } => {
                if !self.obeys(from, term) {
                    out.emit(Output::Notice(Notice::StaleTerm { from, term }));
                } else if self.refused_anew(kind, cluster) {
                    out.emit(Output::KindRefused { kind, cluster, node_shards });
                }
            }
            Control::Reign { term, .. } => self.coordinator_is(now, term, out),
            // The other messages are for voters, coordinators and lanes.
            _ => {}
        }
    }

    /// Whether a refusal is of a type registered here, and was not passed on before: the coordinator repeats it with every
    /// ack.
    fn refused_anew(&mut self, kind: Kind, cluster: u32) -> bool {
        if !self.kinds.iter().any(|known| known.kind == kind) {
            return false;
        }
        match self.refused.binary_search_by_key(&kind, |refused| refused.0) {
            Ok(found) => core::mem::replace(&mut self.refused[found].1, cluster) != cluster,
            Err(at) => {
                self.refused.insert(at, (kind, cluster));
                true
            }
        }
    }

    /// The coordinator says which version of the voters is in force (V5).
    fn in_force(&mut self, version: u32, out: &mut (impl Outbox<Output> + ?Sized)) {
        if version > self.committed {
            self.committed = version;
            out.emit(Output::Committed { version });
        }
    }

    /// A hint names a reign that this node is not registered with: ask that node itself, so that it announces itself.
    /// Once per H: a candidate that has not won answers with a hint that names itself, and following that one at once
    /// would keep both talking as fast as the network goes.
    fn coordinator_is(&mut self, now: Instant, term: Term, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.max_term != Some(term) && now >= self.hint_at {
            self.hint_at = now + self.config.timing.heartbeat;
            out.emit(Output::Send { to: term.node, message: Control::WhoReigns });
        }
    }

    /// A coordinator says that it reigns.
    fn announced(&mut self, now: Instant, from: NodeKey, term: Term, out: &mut (impl Outbox<Output> + ?Sized)) {
        if from != term.node {
            return out.emit(Output::Notice(Notice::NotYours { from }));
        }
        match self.max_term {
            Some(max_term) if term < max_term => {
                out.emit(Output::Send { to: from, message: Control::Nack { max_term } });
            }
            Some(max_term) if term == max_term => {}
            _ => self.registers_with(now, term),
        }
    }

    /// The edge to another reign. Shards and the old end of the session stay: the new coordinator adopts them. Drains
    /// that the old one ordered go on in the lanes and end in `Dropped` as ever; here there is nothing to cancel.
    fn registers_with(&mut self, now: Instant, term: Term) {
        self.max_term = Some(term);
        self.sent.clear();
        self.applied = 0;
        self.report_seen = 0;
        self.directory = 0;
        self.refused.clear();
        self.next_beat_at = now;
        self.ask_at = now + self.config.timing.heartbeat * 2;
        self.open = false;
    }

    fn acked(&mut self, now: Instant, from: NodeKey, ack: Ack, out: &mut (impl Outbox<Output> + ?Sized)) {
        let rules = self.config.rules;
        // L4: what an older reign granted may have been granted again by a later one.
        if !self.obeys(from, ack.term) && rules.on(Rule::TermOfCommands) {
            return out.emit(Output::Notice(Notice::StaleTerm { from, term: ack.term }));
        }
        if ack.session != self.number {
            return out.emit(Output::Notice(Notice::Repeated { from }));
        }
        self.extend(now, ack.sequence, out);
        self.ack_seen = self.ack_seen.max(ack.sequence);
        self.open |= ack.open;
        self.in_force(ack.committed, out);
        self.report_seen = self.report_seen.max(ack.report_seen);
        self.ask_at = now + self.config.timing.heartbeat * 2;
        // G1: an ack that leaves the session dead applies no command and moves no counter.
        if self.is_live(now) || !rules.on(Rule::GrantOnlyWhileLive) {
            self.obey(now, ack.first, &ack.commands, out);
        }
        if let Some(directory) = ack.directory
            && directory.version > self.directory
        {
            self.directory = directory.version;
            out.emit(Output::Directory(directory));
        }
        if ack.farewell && self.leaving && self.owned.is_empty() {
            self.gone = true;
            self.live = false;
            self.valid_until = Instant::ZERO;
            self.sent.clear();
            out.emit(Output::Farewell);
        }
    }

    /// Obeys the commands that come next, in order. After a gap the rest waits: the coordinator sends all of them again.
    fn obey(&mut self, now: Instant, first: u64, commands: &[Command], out: &mut (impl Outbox<Output> + ?Sized)) {
        let Some(behind) = (self.applied + 1).checked_sub(first) else { return };
        let known = usize::try_from(behind).unwrap_or(usize::MAX).min(commands.len());
        for command in &commands[known..] {
            self.applied += 1;
            match *command {
                Command::Grant { key, token } => self.granted(now, key, token, out),
                Command::Drain { key, within } => {
                    if let Ok(found) = self.find(key) {
                        let token = self.owned[found].token;
                        out.emit(Output::Drain { key, token, deadline: now + within });
                    }
                    // The coordinator must learn soon that it was obeyed, most of all if there was nothing to drain.
                    self.next_beat_at = now;
                }
            }
        }
    }

    fn granted(&mut self, now: Instant, key: ShardKey, token: Token, out: &mut (impl Outbox<Output> + ?Sized)) {
        match self.find(key) {
            Ok(found) if token > self.owned[found].token => self.owned[found].token = token,
            Ok(_) => return,
            Err(at) => self.owned.insert(at, Owned { key, token }),
        }
        self.report_changed(now);
        out.emit(Output::Own { key, token });
    }

    fn dropped(&mut self, now: Instant, key: ShardKey, token: Token) {
        if let Ok(found) = self.find(key)
            && self.owned[found].token == token
        {
            self.owned.remove(found);
            self.report_changed(now);
        }
    }

    fn registered(&mut self, now: Instant, kind: KindReport) {
        match self.kinds.binary_search_by_key(&kind.kind, |known| known.kind) {
            Ok(found) if self.kinds[found] == kind => return,
            Ok(found) => self.kinds[found] = kind,
            Err(at) => self.kinds.insert(at, kind),
        }
        self.report_changed(now);
    }

    fn report_changed(&mut self, now: Instant) {
        self.report_version += 1;
        self.next_beat_at = now;
    }

    /// Whether heartbeats go out at all, apart from who would get them.
    fn beats(&self) -> bool {
        self.stopping.is_none() || !self.config.rules.on(Rule::SessionBarrier)
    }

    /// Whom a heartbeat is due to.
    fn beat_due(&self, now: Instant) -> Option<Term> {
        self.max_term.filter(|_| self.beats() && now >= self.next_beat_at)
    }

    fn beat(&mut self, now: Instant, term: Term, out: &mut (impl Outbox<Output> + ?Sized)) {
        let timing = &self.config.timing;
        self.sequence += 1;
        // What is past its time can extend nothing any more.
        self.sent.retain(|sent| sent.good_until > now);
        if self.sent.len() == SENT_MAX {
            self.sent.pop_back();
        }
        self.sent.push_back(Sent { sequence: self.sequence, good_until: now + timing.session });
        self.next_beat_at = now + timing.heartbeat;
        let report = (self.report_seen < self.report_version).then(|| {
            let facts = self.config.facts.clone();
            Box::new(Report { facts, kinds: self.kinds.clone(), owned: self.owned.clone() })
        });
        let heartbeat = Heartbeat {
            term,
            session: self.number,
            sequence: self.sequence,
            applied: self.applied,
            ack_seen: self.ack_seen,
            leaving: self.leaving,
            settled: self.settled,
            report_version: self.report_version,
            report,
            stats: self.stats,
            // The node adds them as it carries the heartbeat.
            loads: Vec::new(),
            traffic: None,
            directory: self.directory,
            address: self.config.address.clone(),
        };
        out.emit(Output::Send { to: term.node, message: Control::Heartbeat(heartbeat) });
    }

    fn find(&self, key: ShardKey) -> Result<usize, usize> {
        self.owned.binary_search_by_key(&key, |owned| owned.key)
    }
}
