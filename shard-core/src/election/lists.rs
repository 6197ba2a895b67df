//! What the voters keep for a candidate or coordinator: whom the reigns before it may have acknowledged, and its own list.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::id::NodeKey;
#[cfg(any(test, feature = "sim"))]
use crate::machine::Mark;
use crate::machine::Rule;
use crate::time::Instant;
use crate::wire::List;

use super::ElectionConfig;

/// The voters' lists, as far as one term of this node has heard of them. Voters are counted by rank.
///
/// ```text
///   Pending --- a majority reported complete lists ---> decided, complete
///      |
///      +------- T_evid after the election ------------> decided, incomplete
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lists {
    /// Until the evidence is decided: what each voter reported in answers of this term.
    reports: Vec<Option<List>>,
    /// When the waiting for reports ends; none: not elected yet, or decided.
    decide_at: Option<Instant>,
    decided: bool,
    /// This reign's own list, the newest version.
    own: Option<List>,
    /// The version of it that each voter reported as stored.
    stored: Vec<u32>,
    /// A majority has stored at least this version.
    confirmed: u32,
}

/// What a new reign knows of the sessions before it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Evidence {
    /// The list below names every process that may still have a live session.
    pub complete: bool,
    /// The processes named, sorted.
    pub carried: Vec<NodeKey>,
}

impl Lists {
    /// Nothing heard yet.
    pub(super) fn new(config: &ElectionConfig) -> Self {
        let voters = config.voters().len();
        Self { reports: alloc::vec![None; voters], stored: alloc::vec![0; voters], ..Self::default() }
    }

    /// The election is won: the evidence is decided at once if the votes carried enough, and at T_evid in any case.
    pub(super) fn elected(&mut self, now: Instant, config: &ElectionConfig) {
        self.decide_at = Some(now + config.timing().evidence);
    }

    /// When [`decide`](Self::decide) has to be called at the latest.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.decide_at
    }

    /// Whether the evidence is decided: only then is a list of this reign's own sent (E4).
    #[must_use]
    pub const fn is_decided(&self) -> bool {
        self.decided
    }

    /// The newest version that a majority of the voters has stored; zero: none.
    #[must_use]
    pub const fn confirmed(&self) -> u32 {
        self.confirmed
    }

    /// A voter answered a round of this term with what it holds.
    pub(super) fn heard(&mut self, rank: usize, stored: Option<List>, config: &ElectionConfig) {
        if self.decided {
            let own = stored.filter(|stored| self.own.as_ref().is_some_and(|own| own.term == stored.term));
            // What it says last, not the most it ever said: a voter that restarted has to be sent the list again.
            self.stored[rank] = own.map_or(0, |own| own.version);
            let mut versions = self.stored.clone();
            versions.sort_unstable_by(|a, b| b.cmp(a));
            self.confirmed = self.confirmed.max(versions[config.majority() - 1]);
        } else if stored.is_some() {
            self.reports[rank] = stored;
        }
    }

    /// E3: complete as soon as a majority of the voters reported complete lists; then the newest of them is the truth.
    /// Without that in time: incomplete, and all that was reported is carried. Said once.
    pub(super) fn decide(&mut self, now: Instant, config: &ElectionConfig) -> Option<Evidence> {
        let at = self.decide_at?;
        let known = || self.reports.iter().flatten().filter(|list| list.complete);
        let enough = if config.on(Rule::ListMajority) { config.majority() } else { 1 };
        let complete = known().count() >= enough;
        if !complete && now < at {
            return None;
        }
        let carried: BTreeSet<NodeKey> = if !config.on(Rule::ListCarried) {
            BTreeSet::new()
        } else if complete {
            let age = |list: &&List| (list.term, list.version);
            let newest = if config.on(Rule::ListNewest) { known().max_by_key(age) } else { known().min_by_key(age) };
            newest.into_iter().flat_map(|list| list.members.iter().copied()).collect()
        } else {
            self.reports.iter().flatten().flat_map(|list| list.members.iter().copied()).collect()
        };
        self.decide_at = None;
        self.decided = true;
        self.reports.clear();
        Some(Evidence { complete, carried: carried.into_iter().collect() })
    }

    /// A newer version of this reign's own list; whether a round should carry it at once.
    pub(super) fn publish(&mut self, list: List) -> bool {
        let newer = self.decided && self.own.as_ref().is_none_or(|own| own.version < list.version);
        if newer {
            self.own = Some(list);
        }
        newer
    }

    /// What a round carries to a voter: the list, unless it is known to hold it.
    pub(super) fn for_voter(&self, rank: usize) -> Option<List> {
        self.own.clone().filter(|own| self.stored.get(rank).is_some_and(|stored| *stored < own.version))
    }

    /// Whether a majority of the voters holds the newest version of this reign's list, and that one names everybody.
    pub(super) fn is_settled(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.complete && self.confirmed >= own.version)
    }

    /// The voters change: what each of those who stay has said counts on, and what a majority holds is counted anew (V4).
    pub(super) fn change(&mut self, old: &ElectionConfig, new: &ElectionConfig) {
        let ranks = || new.voters().iter().map(|voter| old.rank(*voter));
        let stored = ranks().map(|rank| rank.and_then(|rank| self.stored.get(rank)).copied().unwrap_or(0));
        let reports = ranks().map(|rank| rank.and_then(|rank| self.reports.get(rank)).cloned().flatten());
        let (stored, reports) = (stored.collect(), reports.collect());
        (self.stored, self.confirmed) = (stored, 0);
        if !self.decided {
            self.reports = reports;
        }
    }

    /// Shows everything that a model checker may rename.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        self.decide_at.iter_mut().for_each(|at| f(Mark::Deadline(at)));
        if let Some(own) = &self.own {
            let term = own.term;
            self.stored.iter_mut().for_each(|version| f(Mark::Version(term, version)));
            f(Mark::Version(term, &mut self.confirmed));
        }
        self.reports.iter_mut().flatten().chain(&mut self.own).for_each(|list| each_mark_of(list, f));
    }
}

/// Shows the names in a list, but for the processes.
#[cfg(any(test, feature = "sim"))]
pub(super) fn each_mark_of(list: &mut List, f: &mut dyn FnMut(Mark<'_>)) {
    f(Mark::Version(list.term, &mut list.version));
    f(Mark::Term(&mut list.term));
}
