//! The voter: lends the reign to one node at a time, from memory alone.

use alloc::vec::Vec;

use crate::id::{NodeKey, Term};
#[cfg(any(test, feature = "sim"))]
use crate::machine::Mark;
use crate::machine::Rule;
use crate::time::Instant;
use crate::wire::List;

use super::ElectionConfig;

/// One voter's memory. Nothing of it outlives the process; the silence after a start stands in for what was forgotten.
///
/// ```text
///            start                granted                  granted to the same node
///   Silent ---------> Free ----------------------> Lent --------------------+
///    (until            ^                            |  ^                     |
///  silent_until)       +----------------------------+  +---------------------+
///                        T_v passed, or Release of
///                        the very term it is lent to
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Voter {
    /// The term last granted; none below it is ever granted again.
    promised: Term,
    /// What was promised before: taken back if `promised` turns out never to have reigned (L2).
    prev_promised: Term,
    /// To whom the reign is lent. Always the node of `promised`.
    hold: Option<Hold>,
    silent_until: Instant,
    /// Whom reigns may have acknowledged, as the last reigning coordinator said. None: unknown, which is not empty (E9).
    list: Option<List>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Hold {
    node: NodeKey,
    until: Instant,
}

/// What a voter says to a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Answer {
    /// Nothing: it started less than Q ago and may have forgotten a promise.
    Silence,
    /// Lent.
    Granted {
        /// By when the voter is free again, on its own clock.
        until: Instant,
    },
    /// Not lent.
    Refused {
        /// The greatest term promised.
        promised: Term,
    },
}

impl Voter {
    /// A voter that has just started and says nothing before `silent_until`.
    #[must_use]
    pub fn new(silent_until: Instant) -> Self {
        // Less than any candidate's term: those begin at counter 1.
        let none = Term::default();
        Self { promised: none, prev_promised: none, hold: None, silent_until, list: None }
    }

    /// A reigning coordinator's list: kept unless a newer one is here already, of whatever reign (E1).
    pub fn store(&mut self, list: List, config: &ElectionConfig) {
        let older = self.list.as_ref().is_some_and(|held| (list.term, list.version) < (held.term, held.version));
        if !older || !config.on(Rule::ListGrows) {
            self.list = Some(list);
        }
    }

    /// What this voter tells `term`'s node of the list it holds.
    #[must_use]
    pub fn stored(&self, term: Term, config: &ElectionConfig) -> Option<List> {
        let unknown = || List { term: Term::default(), version: 0, complete: true, members: Vec::new() };
        let Some(list) = &self.list else { return (!config.on(Rule::AmnesiaUnknown)).then(unknown) };
        let known = list.term == term;
        Some(List { members: if known { Vec::new() } else { list.members.clone() }, ..list.clone() })
    }

    /// The list that this voter holds.
    #[must_use]
    pub const fn list(&self) -> Option<&List> {
        self.list.as_ref()
    }

    /// Lends the reign to `term`'s node for T_v from now, unless it is lent to another or a greater term was promised.
    ///
    /// A candidate whose counter equals the promised one but who is someone else is refused as well, however the two
    /// terms compare: so no two reigns share a counter, and the tokens of a later reign are greater.
    pub fn ask(&mut self, now: Instant, term: Term, config: &ElectionConfig) -> Answer {
        if config.on(Rule::VoterSilence) && now < self.silent_until {
            return Answer::Silence;
        }
        let passed = term < self.promised || (term.counter == self.promised.counter && term != self.promised);
        let lent_to_another = self.hold.is_some_and(|hold| now < hold.until && hold.node != term.node);
        if passed || lent_to_another {
            return Answer::Refused { promised: self.promised };
        }
        if term != self.promised {
            self.prev_promised = self.promised;
            self.promised = term;
        }
        let until = now + config.lease();
        self.hold = Some(Hold { node: term.node, until });
        Answer::Granted { until }
    }

    /// Holds what is lent to `node` for another T_v: its clock is slower than T_v allows for. Until when.
    pub fn prolong(&mut self, node: NodeKey, config: &ElectionConfig) -> Option<Instant> {
        let hold = self.hold.as_mut().filter(|hold| hold.node == node)?;
        hold.until = hold.until + config.lease();
        Some(hold.until)
    }

    /// Takes the reign back that `term`'s node gives up; says whether this voter was freed by it.
    ///
    /// Only the very term it is lent to frees a voter: a late release of a former candidacy says nothing about the present
    /// one (rule `ReleaseTerm`). A term that never reigned takes its promise with it, else the failed candidate's counter
    /// would lock a healthy coordinator out for the rest of its reign (L2, rule `RestorePromise`). Safe, because disjoint
    /// reigns rest on `hold` alone.
    pub fn release(&mut self, term: Term, reigned: bool, config: &ElectionConfig) -> bool {
        let named = self.promised == term || !config.on(Rule::ReleaseTerm);
        let freed = named && self.hold.take_if(|hold| hold.node == term.node).is_some();
        if self.promised == term && !reigned && config.on(Rule::RestorePromise) {
            self.promised = self.prev_promised;
        }
        freed
    }

    /// The term last granted; the default if none was, or if what was has been taken back.
    #[must_use]
    pub const fn promised(&self) -> Term {
        self.promised
    }

    /// The term that the reign is lent to at `now`, if it is lent.
    #[must_use]
    pub fn holder(&self, now: Instant) -> Option<Term> {
        self.hold.filter(|hold| now < hold.until).map(|_| self.promised)
    }

    /// The earliest moment at which this voter can lend to another than who has it now.
    #[must_use]
    pub fn free_at(&self, now: Instant) -> Instant {
        self.hold.map_or(now, |hold| hold.until).max(now)
    }

    /// Whether the silence after the start is over.
    #[must_use]
    pub fn speaks(&self, now: Instant) -> bool {
        now >= self.silent_until
    }

    /// Forgets a hold that has run out.
    pub(super) fn forget(&mut self, now: Instant) {
        self.hold.take_if(|hold| now >= hold.until);
    }

    /// Shows everything that a model checker may rename.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        f(Mark::Term(&mut self.promised));
        f(Mark::Fallback(&mut self.prev_promised));
        f(Mark::Deadline(&mut self.silent_until));
        if let Some(hold) = &mut self.hold {
            f(Mark::Node(&mut hold.node));
            f(Mark::Deadline(&mut hold.until));
        }
        if let Some(list) = &mut self.list {
            super::lists::each_mark_of(list, f);
        }
    }
}
