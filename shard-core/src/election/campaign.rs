//! What a voter's node does for itself: waits, is a candidate, or reigns.

use alloc::vec::Vec;

#[cfg(any(test, feature = "sim"))]
use crate::id::NodeKey;
use crate::id::Term;
use crate::machine::Rule;
#[cfg(any(test, feature = "sim"))]
use crate::machine::{Mark, Sort};
use crate::time::Instant;

use super::{ElectionConfig, Lists};

/// Where this node's own candidacy stands.
///
/// ```text
///          campaign_at            Start             majority of one round
///   Idle -------------> Asked ------------> Candidate -------------------> Reigning
///    ^  <--------------  |  ^--+              |                            |   ^--+
///    |   lent to another     again_at         | give_up_at, greater term,  |    round every R,
///    |                       (asks again)     | StepDown                   |    extends valid_until
///    +----------------------------------------+                            |
///    +---------------------------------------------------------------------+
///                       valid_until passed, Nack, a counter learnt, StepDown
/// ```
/// Both long edges are one method, `Seat::end`, so no exit forgets its Release (rule `ReleaseAlways`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Campaign {
    /// Waits; every vote for another moves the campaign further off.
    Idle {
        /// When it campaigns unless it hears from a coordinator.
        campaign_at: Instant,
    },
    /// Has asked the host for the wall time, the floor of the new term's counter.
    Asked {
        /// When it asks again.
        again_at: Instant,
    },
    /// Has asked the voters.
    Candidate {
        /// The term it asks for.
        term: Term,
        /// Its only round.
        rounds: Rounds,
        /// What the votes said of former reigns' sessions.
        lists: Lists,
        /// When it gives up (T_cand).
        give_up_at: Instant,
    },
    /// Reigns, as long as `now < valid_until`.
    Reigning {
        /// The reign.
        term: Term,
        /// Rounds under way.
        rounds: Rounds,
        /// What the voters hold for it.
        lists: Lists,
        /// When the next round is sent.
        renew_at: Instant,
        /// When the reign is over unless a round is won before.
        valid_until: Instant,
    },
}

impl Campaign {
    /// The term that this node asks for or reigns under.
    #[must_use]
    pub const fn term(&self) -> Option<Term> {
        match self {
            Self::Candidate { term, .. } | Self::Reigning { term, .. } => Some(*term),
            Self::Idle { .. } | Self::Asked { .. } => None,
        }
    }

    pub(super) fn deadline(&self, config: &ElectionConfig) -> Instant {
        match self {
            Self::Idle { campaign_at: at } | Self::Asked { again_at: at } | Self::Candidate { give_up_at: at, .. } => {
                *at
            }
            Self::Reigning { renew_at, valid_until, lists, .. } => {
                let round = lists.deadline().unwrap_or(*renew_at).min(*renew_at);
                if config.on(Rule::ContiguousReign) { round.min(*valid_until) } else { round }
            }
        }
    }

    /// Shows everything that a model checker may rename.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        match self {
            Self::Idle { campaign_at: at } | Self::Asked { again_at: at } => f(Mark::Pace(at)),
            Self::Candidate { term, rounds, lists, give_up_at } => {
                rounds.each_mark(term.node, f);
                lists.each_mark(f);
                f(Mark::Term(term));
                f(Mark::Deadline(give_up_at));
            }
            Self::Reigning { term, rounds, lists, renew_at, valid_until } => {
                rounds.each_mark(term.node, f);
                lists.each_mark(f);
                f(Mark::Term(term));
                f(Mark::Deadline(renew_at));
                f(Mark::Deadline(valid_until));
            }
        }
    }
}

/// The rounds of one term that can still be won. Numbers grow with the term's life; a round is forgotten once it could
/// extend nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rounds {
    last: u64,
    open: Vec<Round>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Round {
    number: u64,
    /// What a majority for this round is worth: T_c from when it was *sent*, whenever its votes arrive.
    good_until: Instant,
    /// One bit per voter's rank.
    votes: u8,
}

/// T_c / R rounds are open at a time, five by default; whoever configures more loses only the oldest.
const OPEN_MAX: usize = 16;

impl Rounds {
    /// Begins a round that is sent now; its number.
    pub(super) fn begin(&mut self, now: Instant, config: &ElectionConfig) -> u64 {
        self.forget(now);
        if self.open.len() == OPEN_MAX {
            self.open.remove(0);
        }
        self.last += 1;
        self.open.push(Round { number: self.last, good_until: now + config.timing().reign, votes: 0 });
        self.last
    }

    /// Counts a vote of the voter of this `rank` for round `number`; until when a majority, once there, lets reign.
    ///
    /// Votes of different rounds are never added up: a voter that granted an earlier round is free earlier than the later
    /// round would let this node reign (rule `OneRound`). The time counts from the sending, because a voter counts from
    /// a moment after that (rule `ReignFromSend`).
    pub(super) fn vote(&mut self, now: Instant, number: u64, rank: usize, config: &ElectionConfig) -> Option<Instant> {
        self.forget(now);
        let number = if config.on(Rule::OneRound) { number } else { self.last };
        let round = self.open.iter_mut().find(|round| round.number == number)?;
        round.votes |= 1 << rank;
        if (round.votes.count_ones() as usize) < config.majority() {
            return None;
        }
        let until = if config.on(Rule::ReignFromSend) { round.good_until } else { now + config.timing().reign };
        self.open.retain(|round| round.number > number);
        Some(until)
    }

    /// Forgets the rounds under way: they were sent under another version of the voters (V4).
    pub(super) fn give_up(&mut self) {
        self.open.clear();
    }

    fn forget(&mut self, now: Instant) {
        self.open.retain(|round| now < round.good_until);
    }

    #[cfg(any(test, feature = "sim"))]
    fn each_mark(&mut self, of: NodeKey, f: &mut dyn FnMut(Mark<'_>)) {
        f(Mark::Number(of, Sort::Round, &mut self.last));
        for round in &mut self.open {
            f(Mark::Number(of, Sort::Round, &mut round.number));
            f(Mark::Extension(&mut round.good_until));
        }
        self.forget(Instant::ZERO);
    }
}
