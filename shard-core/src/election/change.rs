//! Voter change, one at a time (V1-V7): how a cluster comes by other voters while it runs.
//!
//! Each set of voters has a version, and each node loads the next version by itself, whenever it hears of it. Majorities of
//! neighbouring versions always share a voter, those of other versions may not; so a voter listens to its own version and the
//! next one only (V3), and nobody goes on to the version after that before the one in between is *in force* (V5): a
//! coordinator has seen a majority of its voters run it, and its list is complete and confirmed there. From then on each
//! majority of the version before holds a voter that refuses it.
//!
//! ```text
//!   v runs here ---- load(v + 1): one voter more or less ----> v + 1 runs here
//!                    a candidate gives up; a coordinator       |  a coordinator counts who runs v + 1
//!                    begins a round under v + 1                v
//!                                              Committed(v + 1), told to all nodes with every ack
//!                                                              |  a coordinator that is no voter any more resigns (V6)
//!                                                              v
//!                                              v + 2 may be loaded
//! ```
//! What is in force is forgotten with a restart. So whoever runs a version says so in each round and each answer, to those
//! behind as well, and proves by it that the one before is in force (V7): else a voter that came back behind might wait for
//! ever for a coordinator that needs its vote.

use alloc::vec::Vec;
use core::fmt;

use crate::id::{NodeId, NodeKey, Term};
use crate::machine::{Fixed, Outbox, Rule};
use crate::time::Instant;
use crate::wire::Control;

use super::config::FIRST_VERSION;
use super::seat::Seat;
use super::voter::Voter;
use super::{Campaign, Election, ElectionConfig, ElectionConfigError, ElectionOutput};

/// How far the present version of the voters has come.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Change {
    /// The newest version that is known to be in force.
    committed: u32,
    /// Which voters, by rank, have answered this reign while running this version or a newer one: one bit each.
    proofs: u8,
    /// The reign that they answered.
    term: Option<Term>,
}

impl Default for Change {
    fn default() -> Self {
        Self { committed: FIRST_VERSION, proofs: 0, term: None }
    }
}

impl Election {
    /// Goes on to the next set of voters. The same set under the version that runs already changes nothing.
    ///
    /// A node that this takes out of the voters and that reigns resigns once the version is in force (V6); whoever hosts the
    /// machine asks [`is_outgoing`](Self::is_outgoing).
    ///
    /// # Errors
    /// The step is too large or comes too early; see [`VoterChangeError`]. Nothing has changed then.
    pub fn load(
        &mut self,
        now: Instant,
        version: u32,
        voters: Vec<NodeId>,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) -> Result<(), VoterChangeError> {
        let Some(next) = self.config.next(version, voters)? else { return Ok(()) };
        if self.config.on(Rule::VersionProved) && self.committed() < self.config.version() {
            return Err(VoterChangeError::NotInForce { version: self.config.version() });
        }
        let next = Fixed::new(next);
        if let Some(seat) = &mut self.seat {
            seat.advance(now, &self.config, out);
            seat.change(now, &self.config, &next, out);
        }
        let joins = next.votes() && !self.config.votes();
        self.config = next;
        match &mut self.seat {
            Some(seat) if joins => seat.join(now, &self.config),
            Some(_) => {}
            None => self.seat = joins.then(|| Seat::new(now, &self.config)),
        }
        self.change.proofs = 0;
        Ok(())
    }

    /// The newest version of the voters that this node knows to be in force.
    #[must_use]
    pub const fn committed(&self) -> u32 {
        self.change.committed
    }

    /// Whether this node reigns although it is not one of the voters any more, and those are in force: it must resign (V6).
    #[must_use]
    pub fn is_outgoing(&self, now: Instant) -> bool {
        !self.config.votes() && self.reigning(now).is_some() && self.committed() >= self.config.version()
    }

    /// A version is in force: a coordinator says so, or it was proved here.
    pub(super) fn learn_committed(&mut self, version: u32, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        if version > self.change.committed {
            self.change.committed = version;
            out.emit(ElectionOutput::Committed { version });
        }
    }

    /// Somebody runs `version`. Nobody loads one before the one before is known to be in force, so if that is newer than the
    /// one that runs here, this one is (V7). Without it nobody might be left to say so: what was known is forgotten with each
    /// restart, and those who went on do not listen to those behind.
    pub(super) fn seen_running(&mut self, version: u32, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        let own = self.config.version();
        if version > own && self.config.on(Rule::VersionTold) {
            self.learn_committed(own, out);
        }
    }

    /// Somebody behind asks for votes under voters that are no more. Nobody listens (V3), but it is told how far others are (V7).
    pub(super) fn answer_behind(
        &self,
        from: NodeKey,
        term: Term,
        asked: u32,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        let config = self.config.version();
        if asked < config && !self.config.listens_to(asked) && self.config.on(Rule::VersionTold) {
            let promised = self.voter().map_or(Term::default(), Voter::promised);
            out.emit(ElectionOutput::Send { to: from.id, message: Control::LeaseRefused { term, promised, config } });
        }
    }

    /// A voter that runs `version` has answered `term` (V4). Nothing to do once the version that runs here is in force.
    pub(super) fn proved(&mut self, from: NodeKey, term: Term, version: u32) {
        if self.committed() >= self.config.version() || version < self.config.version() {
            return;
        }
        if self.change.term != Some(term) {
            (self.change.term, self.change.proofs) = (Some(term), 0);
        }
        if let Some(rank) = self.config.rank(from.id) {
            self.change.proofs |= 1 << rank;
        }
    }

    /// Says, once, that the version is in force: its voters run it and hold this reign's list, which names everybody (V5).
    pub(super) fn commit(&mut self, now: Instant, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        let version = self.config.version();
        if self.committed() >= version || self.reigning(now).is_none() {
            return;
        }
        let Some(Campaign::Reigning { term, lists, .. }) = self.campaign() else { return };
        if !lists.is_settled() {
            return;
        }
        // A voter that is the only one has nobody to answer it.
        let proofs = if self.change.term == Some(*term) { self.change.proofs } else { 0 };
        let own = self.config.rank(self.config.me().id).map_or(0, |rank| 1 << rank);
        if ((proofs | own).count_ones() as usize) < self.config.majority() {
            return;
        }
        self.learn_committed(version, out);
    }
}

impl ElectionConfig {
    /// V2: the configuration that follows this one; none if it is this one.
    fn next(&self, version: u32, mut voters: Vec<NodeId>) -> Result<Option<Self>, VoterChangeError> {
        voters.sort_unstable();
        if version == self.version() && voters == self.voters() {
            return Ok(None);
        }
        if self.is_alone() {
            return Err(VoterChangeError::Alone);
        }
        if version != self.version().saturating_add(1) {
            return Err(VoterChangeError::NotNext { running: self.version(), asked: version });
        }
        let missing = |from: &[NodeId], of: &[NodeId]| of.iter().filter(|voter| !from.contains(voter)).count();
        let (added, removed) = (missing(self.voters(), &voters), missing(&voters, self.voters()));
        let next = Self::during_change(self.me(), voters, self.timing().clone()).map_err(VoterChangeError::Voters)?;
        if added + removed != 1 && self.on(Rule::OneVoter) {
            return Err(VoterChangeError::NotOne { added, removed });
        }
        Ok(Some(self.clone().with_voters_of(next, version)))
    }
}

/// Why another set of voters was not loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum VoterChangeError {
    /// Versions are loaded one after the other.
    NotNext {
        /// The version that runs here.
        running: u32,
        /// The version asked for.
        asked: u32,
    },
    /// Each version differs from the one before by one voter.
    NotOne {
        /// Voters that are new.
        added: usize,
        /// Voters that are missing.
        removed: usize,
    },
    /// The version that runs here is not known to be in force yet: its voters must load it first.
    NotInForce {
        /// That version.
        version: u32,
    },
    /// The voters themselves are no usable set.
    Voters(ElectionConfigError),
    /// A node that is alone in its cluster has no network: start it with voters instead.
    Alone,
}

impl fmt::Display for VoterChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNext { running, asked } => write!(
                f,
                "version {running} of the voters runs here, so the next one is {}, not {asked}",
                running.saturating_add(1)
            ),
            Self::NotOne { added, removed } => write!(
                f,
                "one voter may be added or removed at a time, but {added} are new and {removed} are missing: go there in \
                 several versions"
            ),
            Self::NotInForce { version } => write!(
                f,
                "version {version} of the voters is not known to be in force: load it on most voters, and try again when \
                 this node has heard of it"
            ),
            Self::Voters(error) => error.fmt(f),
            Self::Alone => f.write_str("a node that is alone in its cluster has no other voters: start it with some"),
        }
    }
}

impl core::error::Error for VoterChangeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Voters(error) => Some(error),
            _ => None,
        }
    }
}
