//! Who may have a live session: the list that the voters keep for the next reign, and what this reign learnt from the
//! former one's (early exit of the quarantine).
//!
//! Why it is safe: a session is acknowledged only after a majority of the voters has stored a list that names it (E5), and
//! every later list keeps what may be alive (E4, E6). So the newest of a majority's lists names everyone with a live
//! session, apart from the former coordinator's own region, which ended with its reign (E8). Once all of them have
//! registered here, every live shard is in the table.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

#[cfg(any(test, feature = "sim"))]
use crate::machine::Mark;
use crate::{
    id::{NodeKey, Term},
    machine::{Rule, Rules},
    time::{Instant, soonest},
    wire::List,
};

/// One reign's roll.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Roll {
    me: NodeKey,
    /// W after the election: what lived under former reigns is adopted or dead by then (L3).
    window_until: Instant,
    /// That moment has come.
    waited: bool,
    /// The quarantine is over.
    opened: bool,
    evidence: Evidence,
    /// Who registered before the evidence was there.
    early: BTreeSet<NodeKey>,
    /// Those whom a former reign may have left alive and who have not registered here. They stay in the list (E4).
    carried: BTreeSet<NodeKey>,
    /// The list as it was published last: each process, and the first version that names it without a break.
    listed: BTreeMap<NodeKey, u32>,
    version: u32,
    complete: bool,
    /// Something changed since then.
    stale: bool,
    confirmed: u32,
    resigning: Option<Resigning>,
}

/// What the voters' lists prove.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Evidence {
    /// Not decided yet: nothing is published.
    Pending,
    /// Nobody but those carried can have a live session.
    Complete,
    /// Somebody else may.
    Incomplete,
}

/// A reign on its way out: nothing is placed or moved any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Resigning {
    /// The version that names this node; none: not published yet.
    version: Option<u32>,
    give_up_at: Instant,
}

impl Roll {
    pub(super) fn new(me: NodeKey, window_until: Instant, opened: bool) -> Self {
        Self {
            me,
            window_until,
            waited: false,
            opened,
            evidence: Evidence::Pending,
            early: BTreeSet::new(),
            carried: BTreeSet::new(),
            listed: BTreeMap::new(),
            version: 0,
            complete: false,
            stale: true,
            confirmed: 0,
            resigning: None,
        }
    }

    /// The voters' lists have been read (E3).
    pub(super) fn decided(&mut self, complete: bool, carried: Vec<NodeKey>) {
        if self.evidence == Evidence::Pending {
            self.evidence = if complete { Evidence::Complete } else { Evidence::Incomplete };
            let early = core::mem::take(&mut self.early);
            self.carried = carried.into_iter().filter(|node| !early.contains(node)).collect();
            self.stale = true;
        }
    }

    /// A session began, and all that it owns is in the table.
    pub(super) fn registers(&mut self, node: NodeKey) {
        if self.evidence == Evidence::Pending {
            self.early.insert(node);
        }
        self.carried.remove(&node);
        self.stale = true;
    }

    /// A session is over, by its node's own word or because W has passed (E6).
    pub(super) fn ended(&mut self) {
        self.stale = true;
    }

    /// Latches the end of the quarantine: W has passed, or everyone has registered whom complete evidence names (E7).
    /// Whether it ended now.
    pub(super) fn opens(&mut self, now: Instant, rules: Rules) -> bool {
        if !self.waited && now >= self.window_until {
            self.waited = true;
            // Whoever is left is dead (L3).
            self.carried.clear();
            self.stale = true;
        }
        let heard = self.carried.is_empty() || !rules.on(Rule::OpenWhenHeard);
        let open = self.waited || (self.evidence == Evidence::Complete && heard);
        let opens = open && !self.opened;
        self.opened |= open;
        opens
    }

    /// Whether the quarantine is over: shards that nobody reported may be granted, and nobody may claim one any more.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.opened || now >= self.window_until
    }

    /// The next version of the list, if it has changed: `sessions` and those carried over, never this node itself (E8)
    /// unless it resigns. While a version is under way to the voters the next one waits, so that a thousand nodes that
    /// register together cost a few lists, not a thousand.
    pub(super) fn list(&mut self, term: Term, sessions: impl Iterator<Item = NodeKey>, rules: Rules) -> Option<List> {
        if self.evidence == Evidence::Pending || !self.stale || self.version > self.confirmed {
            return None;
        }
        self.stale = false;
        let mut members: BTreeSet<NodeKey> = sessions.collect();
        if rules.on(Rule::CarryListed) {
            members.extend(&self.carried);
        }
        if self.resigning.is_none() || !rules.on(Rule::ResignListed) {
            members.remove(&self.me);
        } else {
            members.insert(self.me);
        }
        let proven = self.evidence == Evidence::Complete || !rules.on(Rule::CompleteByEvidence);
        let complete = proven || self.waited;
        let same = self.version > 0 && complete == self.complete && self.listed.keys().eq(members.iter());
        if !same {
            self.version += 1;
            self.complete = complete;
            self.listed.retain(|node, _| members.contains(node));
            for node in &members {
                self.listed.entry(*node).or_insert(self.version);
            }
        }
        if let Some(resigning) = &mut self.resigning {
            resigning.version.get_or_insert(self.version);
        }
        let list = || List { term, version: self.version, complete, members: members.into_iter().collect() };
        (!same).then(list)
    }

    pub(super) fn confirmed(&mut self, version: u32) {
        self.confirmed = version.max(self.confirmed);
    }

    /// Whether a process may be acknowledged: its name is safe with the voters (E5). This node's own region rides on the
    /// reign instead (E8).
    pub(super) fn may_acknowledge(&self, node: NodeKey, rules: Rules) -> bool {
        node == self.me
            || !rules.on(Rule::AckAfterConfirm)
            || self.listed.get(&node).is_some_and(|since| *since <= self.confirmed)
    }

    /// Begins to resign, if the evidence is there (2.1).
    pub(super) fn resign(&mut self, give_up_at: Instant) {
        if self.evidence != Evidence::Pending && self.resigning.is_none() {
            self.resigning = Some(Resigning { version: None, give_up_at });
            self.stale = true;
        }
    }

    pub(super) fn is_resigning(&self) -> bool {
        self.resigning.is_some()
    }

    /// The voters know that this node's own region lives on.
    pub(super) fn has_resigned(&self, rules: Rules) -> bool {
        let version = self.resigning.and_then(|resigning| resigning.version);
        version.is_some_and(|version| self.confirmed >= version || !rules.on(Rule::ResignConfirmed))
    }

    /// The voters did not answer in time: the reign goes on as before, if it can. Whether that is so.
    pub(super) fn resigns_in_vain(&mut self, now: Instant) -> bool {
        let vain = self.resigning.take_if(|resigning| now >= resigning.give_up_at).is_some();
        self.stale |= vain;
        vain
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let window = (!self.waited).then_some(self.window_until);
        soonest(window, self.resigning.map(|resigning| resigning.give_up_at))
    }

    #[cfg(any(test, feature = "sim"))]
    pub(super) fn each_mark(&mut self, term: Term, f: &mut dyn FnMut(Mark<'_>)) {
        f(Mark::Deadline(&mut self.window_until));
        self.listed.values_mut().for_each(|since| f(Mark::Version(term, since)));
        f(Mark::Version(term, &mut self.version));
        f(Mark::Version(term, &mut self.confirmed));
        if let Some(Resigning { version, give_up_at }) = &mut self.resigning {
            version.iter_mut().for_each(|version| f(Mark::Version(term, version)));
            f(Mark::Deadline(give_up_at));
        }
    }
}
