//! What the coordinator keeps about one registered node.

use alloc::{
    collections::{BTreeSet, VecDeque},
    string::String,
    vec::Vec,
};

use crate::{
    allocation::Stats,
    id::{ShardKey, Term},
    time::{Duration, Instant},
    wire::{Ack, Command, Directory, Facts, Heartbeat, KindReport, Owned, Report},
};
#[cfg(any(test, feature = "sim"))]
use crate::{
    id::NodeKey,
    machine::{Mark, Sort},
};

/// Commands under way to one node. A planner that hits the bound goes on when the node has obeyed some.
pub(super) const COMMANDS_MAX: usize = 4_096;
/// Commands in one ack, so that control frames stay small; the rest follows with the next heartbeats.
const COMMANDS_PER_ACK: usize = 1_024;

/// What a reign says about itself in every ack.
#[derive(Clone, Copy)]
pub(super) struct Word {
    pub(super) term: Term,
    /// It knows of every shard that lives.
    pub(super) open: bool,
    /// The newest version of the voters known to be in force.
    pub(super) committed: u32,
}

/// One registered node and its session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Member {
    pub(super) session: u64,
    /// Its place among the sessions of the reign, in the order of their beginning.
    pub(super) born: u64,
    /// Heartbeats since a younger process of the same node id registered.
    pub(super) outlived: u8,
    /// The last heartbeat processed.
    pub(super) sequence: u64,
    /// The last command that the node obeyed. `commands` holds the ones after it.
    pub(super) applied: u64,
    pub(super) commands: VecDeque<Command>,
    /// W after the last heartbeat was processed.
    pub(super) expire_at: Instant,
    ack_seen: u64,
    /// When the node counts as deaf unless `ack_seen` grows.
    ack_due: Instant,
    pub(super) leaving: bool,
    /// Nothing of its own is under way.
    pub(super) settled: bool,
    pub(super) address: String,
    /// The version of `kinds` and `owned`.
    report_version: u64,
    /// Sorted by kind.
    pub(super) kinds: Vec<KindReport>,
    /// What its operator says about it.
    pub(super) facts: Facts,
    /// Its resources, as it last measured them.
    pub(super) stats: Option<Stats>,
    /// What the node says it owns, sorted by key.
    pub(super) owned: Vec<Owned>,
    /// The shards that the table gives it.
    pub(super) holds: BTreeSet<ShardKey>,
    /// New commands wait for the next flush.
    pub(super) urgent: bool,
    /// Its last heartbeat is not acknowledged, because the voters do not know it yet (E5); the directory it holds.
    pub(super) waiting: Option<u64>,
}

impl Member {
    /// A node that registers; it must show until `ack_due` that acks reach it.
    pub(super) fn new(beat: &Heartbeat, ack_due: Instant, born: u64) -> Self {
        Self {
            session: beat.session,
            born,
            outlived: 0,
            sequence: beat.sequence,
            // The node's numbering goes on from what it applied, so that no older command can fit.
            applied: beat.applied,
            commands: VecDeque::new(),
            expire_at: Instant::ZERO,
            ack_seen: beat.ack_seen,
            ack_due,
            leaving: beat.leaving,
            settled: beat.settled,
            address: beat.address.clone(),
            report_version: 0,
            kinds: Vec::new(),
            facts: Facts::default(),
            stats: beat.stats,
            owned: Vec::new(),
            holds: BTreeSet::new(),
            urgent: false,
            waiting: None,
        }
    }

    /// Takes over what a heartbeat says about the node itself; whether the shards it may hold need judging again.
    pub(super) fn heard(&mut self, now: Instant, patience: Duration, beat: &Heartbeat) -> bool {
        self.sequence = beat.sequence;
        self.leaving |= beat.leaving;
        self.settled = beat.settled;
        self.stats = beat.stats.or(self.stats);
        if beat.ack_seen > self.ack_seen {
            self.ack_seen = beat.ack_seen;
            self.ack_due = now + patience;
        }
        let applied = beat.applied.min(self.last_command());
        let obeyed = applied.saturating_sub(self.applied);
        self.commands.drain(..usize::try_from(obeyed).unwrap_or(0).min(self.commands.len()));
        self.applied += obeyed;
        obeyed > 0
    }

    /// Takes over a report.
    pub(super) fn reported(&mut self, version: u64, mut report: Report) {
        report.kinds.retain(|kind| kind.shards <= KindReport::SHARDS_MAX);
        report.kinds.sort_unstable();
        report.kinds.dedup_by_key(|kind| kind.kind);
        report.owned.sort_unstable();
        report.owned.dedup_by_key(|owned| owned.key);
        self.report_version = version;
        self.kinds = report.kinds;
        self.facts = if report.facts.check().is_ok() { report.facts } else { Facts::default() };
        self.owned = report.owned;
    }

    pub(super) fn report_version(&self) -> u64 {
        self.report_version
    }

    /// Whether acks seem not to reach the node.
    pub(super) fn deaf(&self, now: Instant) -> bool {
        now >= self.ack_due
    }

    pub(super) fn claim(&self, key: ShardKey) -> Option<Owned> {
        self.owned.binary_search_by_key(&key, |owned| owned.key).ok().map(|found| self.owned[found])
    }

    /// The number of the last command issued.
    pub(super) fn last_command(&self) -> u64 {
        self.applied + self.commands.len() as u64
    }

    /// Adds a command; its number.
    pub(super) fn order(&mut self, command: Command) -> u64 {
        self.commands.push_back(command);
        self.urgent = true;
        self.last_command()
    }

    /// The answer to the last heartbeat, with every command that stands. Sent again without a new heartbeat it carries
    /// commands but extends nothing.
    pub(super) fn ack(&self, word: Word, directory: Option<Directory>) -> Ack {
        Ack {
            term: word.term,
            session: self.session,
            sequence: self.sequence,
            first: self.applied + 1,
            commands: self.commands.iter().take(COMMANDS_PER_ACK).copied().collect(),
            report_seen: self.report_version,
            directory,
            clock: 0,
            open: word.open,
            committed: word.committed,
            farewell: false,
        }
    }

    #[cfg(any(test, feature = "sim"))]
    pub(super) fn each_mark(&mut self, node: NodeKey, f: &mut dyn FnMut(Mark<'_>)) {
        f(Mark::Number(node, Sort::Session, &mut self.session));
        f(Mark::Number(node, Sort::Sequence, &mut self.sequence));
        f(Mark::Number(node, Sort::Command, &mut self.applied));
        for command in &mut self.commands {
            if let Command::Grant { token, .. } = command {
                f(Mark::Token(token));
            }
        }
        f(Mark::Deadline(&mut self.expire_at));
        f(Mark::Aside(&mut self.ack_seen));
        f(Mark::Aside(&mut self.born));
        self.waiting.iter_mut().for_each(|held| f(Mark::Aside(held)));
        f(Mark::Pace(&mut self.ack_due));
        f(Mark::Number(node, Sort::Report, &mut self.report_version));
        self.owned.iter_mut().for_each(|owned| f(Mark::Token(&mut owned.token)));
    }
}

/// The answer to a node that has left: nothing but the farewell.
pub(super) fn farewell_ack(term: Term, beat: &Heartbeat) -> Ack {
    Ack {
        term,
        session: beat.session,
        sequence: beat.sequence,
        first: beat.applied + 1,
        commands: Vec::new(),
        report_seen: beat.report_version,
        directory: None,
        open: false,
        clock: 0,
        committed: 0,
        farewell: true,
    }
}
