//! The normal form of a state: it is always the same moment, and every name is the smallest that keeps all comparisons. Two
//! states with one normal form behave alike, so a model need not visit both; that is what makes the spaces finite.

use shard_core::id::{Incarnation, NodeId, NodeKey, Term};
use shard_core::machine::{Mark, Sort};
use shard_core::time::{Duration, Instant};
use shard_core::wire::{Command, Control, List};

/// One step of the slowest clock; the fastest one makes two.
pub(crate) const UNIT: Duration = Duration::from_secs(1);
/// The moment at which every state is stored, on every clock.
pub(crate) const NOW: Instant = Instant::from_millis(1_000_000);
/// Beyond this it does not matter how far away a moment is.
const HORIZON: Instant = Instant::from_millis(1_100_000);
/// What comes only if the model wants it.
pub(crate) const FAR: Instant = Instant::from_millis(2_000_000);
/// Terms are this far apart, so that a new one fits between any two.
pub(crate) const SPACE: u64 = 8;

/// A message under way. It stays until no machine would take notice of it: so it may come late, twice, never or out of order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Mail {
    pub(crate) from: NodeKey,
    pub(crate) to: NodeKey,
    pub(crate) message: Control,
}

/// Moves a moment to where it is from now on: what has passed is over, what comes falls on a step of the clocks.
pub(crate) fn place(at: &mut Instant) {
    *at = match *at {
        past if past <= NOW => Instant::ZERO,
        far if far >= HORIZON => FAR,
        soon => NOW + UNIT * u32::try_from(soon.since(NOW).as_nanos().div_ceil(UNIT.as_nanos())).expect("it is near"),
    };
}

/// Settles a mark that needs no knowledge of the rest of the state. `valid_until` is what extensions must exceed.
pub(crate) fn settle(valid_until: Instant) -> impl FnMut(Mark<'_>) {
    move |mark| match mark {
        Mark::Deadline(at) => place(at),
        Mark::Pace(at) => *at = FAR,
        Mark::Extension(at) if *at <= valid_until => *at = Instant::ZERO,
        Mark::Extension(at) => place(at),
        Mark::Aside(value) => *value = 0,
        Mark::Remark(value) => *value = false,
        _ => {}
    }
}

/// Lets `steps` steps of a clock pass.
pub(crate) fn pass(steps: u32) -> impl FnMut(Mark<'_>) {
    move |mark| {
        if let Mark::Deadline(at) | Mark::Extension(at) = mark {
            *at = *at - UNIT * steps;
        }
    }
}

/// Shows the names in a message.
pub(crate) fn mail_marks(mail: &mut Mail, f: &mut dyn FnMut(Mark<'_>)) {
    let Mail { from, to, message } = mail;
    match message {
        Control::LeaseRequest { term, round, .. } | Control::LeaseGranted { term, round, .. } => {
            f(Mark::Number(term.node, Sort::Round, round));
            f(Mark::Term(term));
        }
        Control::Release { term, .. } => f(Mark::Term(term)),
        Control::Heartbeat(beat) => {
            f(Mark::Term(&mut beat.term));
            f(Mark::Number(*from, Sort::Session, &mut beat.session));
            f(Mark::Number(*from, Sort::Sequence, &mut beat.sequence));
            f(Mark::Number(*from, Sort::Command, &mut beat.applied));
            f(Mark::Number(*from, Sort::Report, &mut beat.report_version));
            f(Mark::Aside(&mut beat.ack_seen));
            f(Mark::Aside(&mut beat.directory));
            let owned = beat.report.iter_mut().flat_map(|report| &mut report.owned);
            owned.for_each(|owned| f(Mark::Token(&mut owned.token)));
        }
        Control::Ack(ack) => {
            f(Mark::Term(&mut ack.term));
            f(Mark::Number(*to, Sort::Session, &mut ack.session));
            f(Mark::Number(*to, Sort::Sequence, &mut ack.sequence));
            let mut before = ack.first - 1;
            f(Mark::Number(*to, Sort::Command, &mut before));
            ack.first = before + 1;
            f(Mark::Number(*to, Sort::Report, &mut ack.report_seen));
            for command in &mut ack.commands {
                if let Command::Grant { token, .. } = command {
                    f(Mark::Token(token));
                }
            }
        }
        Control::Dead { term, session } => {
            f(Mark::Term(term));
            f(Mark::Number(*to, Sort::Session, session));
        }
        other => unreachable!("not modelled: {other:?}"),
    }
    f(Mark::Node(from));
    f(Mark::Node(to));
}

/// Shows the names in a list, but for the processes.
pub(crate) fn list_marks(list: &mut List, f: &mut dyn FnMut(Mark<'_>)) {
    f(Mark::Version(list.term, &mut list.version));
    f(Mark::Term(&mut list.term));
}

/// All names of a state, and the ones that they get.
#[derive(Default)]
pub(crate) struct Names {
    counters: Vec<u64>,
    lives: Vec<NodeKey>,
    numbers: Vec<(NodeKey, Sort, u64)>,
    tokens: Vec<(u64, u32)>,
    versions: Vec<(Term, u32)>,
}

impl Names {
    /// The names in a state whose marks `each` shows.
    pub(crate) fn of(each: impl FnOnce(&mut dyn FnMut(Mark<'_>))) -> Self {
        let mut names = Self::default();
        each(&mut |mark| names.see(mark));
        names.counters.sort_unstable();
        names.counters.dedup();
        names.lives.sort_unstable();
        names.lives.dedup();
        names.numbers.sort_unstable();
        names.numbers.dedup();
        names.tokens.sort_unstable();
        names.tokens.dedup();
        names.versions.sort_unstable();
        names.versions.dedup();
        names
    }

    /// The counters of terms in use, ascending.
    pub(crate) fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn see(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::Term(term) | Mark::Fallback(term) | Mark::Spent(term) if *term != Term::default() => {
                self.counters.push(term.counter);
                self.lives.push(term.node);
            }
            Mark::Node(node) => self.lives.push(*node),
            Mark::Token(token) => {
                self.counters.push(token.counter);
                self.tokens.push((token.counter, token.number));
            }
            Mark::Version(term, version) if *version > 0 => self.versions.push((term, *version)),
            Mark::Number(of, sort, value) if sort == Sort::Command || (*value > 0 && *value < u64::MAX) => {
                self.numbers.push((of, sort, *value));
            }
            _ => {}
        }
    }

    /// Gives a mark its new name.
    pub(crate) fn give(&self, mark: Mark<'_>) {
        match mark {
            Mark::Term(term) | Mark::Fallback(term) | Mark::Spent(term) if *term != Term::default() => {
                term.counter = self.counter(term.counter);
                term.node = self.life(term.node);
            }
            Mark::Node(node) => *node = self.life(*node),
            Mark::Token(token) => {
                token.number = self.grant(token.counter, token.number);
                token.counter = self.counter(token.counter);
            }
            // The next grant must differ from those still named somewhere.
            Mark::Grants(term, number) => *number = self.grant(term.counter, u32::MAX),
            Mark::Version(term, version) => {
                let first = self.versions.partition_point(|known| *known < (term, 1));
                let upto = self.versions.partition_point(|known| *known <= (term, *version));
                *version = u32::try_from(upto - first).expect("there are few");
            }
            Mark::Number(of, sort, value) => *value = self.number(of, sort, *value),
            _ => {}
        }
    }

    fn counter(&self, counter: u64) -> u64 {
        SPACE * (1 + self.counters.partition_point(|known| *known < counter) as u64)
    }

    /// Lives of one node are numbered from one; nobody stays nobody.
    fn life(&self, node: NodeKey) -> NodeKey {
        if node.id == NodeId(0) {
            return node;
        }
        let first = NodeKey { incarnation: Incarnation(0), ..node };
        let before = self.lives.partition_point(|known| *known < node) - self.lives.partition_point(|k| *k < first);
        NodeKey { incarnation: Incarnation(1 + before as u64), ..node }
    }

    fn grant(&self, counter: u64, number: u32) -> u32 {
        let first = self.tokens.partition_point(|known| *known < (counter, 0));
        let upto = self.tokens.partition_point(|known| *known <= (counter, number));
        u32::try_from(upto - first).expect("there are few")
    }

    fn number(&self, of: NodeKey, sort: Sort, value: u64) -> u64 {
        let first = self.numbers.partition_point(|known| *known < (of, sort, 0));
        let at = self.numbers.partition_point(|known| *known < (of, sort, value));
        let last = self.numbers.get(at + 1).is_none_or(|known| (known.0, known.1) != (of, sort));
        match sort {
            _ if value == u64::MAX => value,
            Sort::Command => value - self.numbers[first].2,
            _ if value == 0 => 0,
            // Only the present version is ever waited for.
            Sort::Report => u64::from(last),
            _ => 1 + (at - first) as u64,
        }
    }
}
