//! Who reigns: voters lend one node at a time a short reign, and take it back by the clock.
//!
//! A static set of one, three or five voters replaces a consensus log. Each voter lends the reign to one candidate for T_v; a
//! candidate that a majority of them lent it to reigns for T_c from when it *asked*. T_v is longer than T_c by the worst
//! ratio of two clocks, so a voter is free only after the reign that it lent has surely ended. Nothing is written to disk: a
//! voter that restarts says nothing for Q, by when every reign it may have forgotten is over.
//!
//! # Promises
//! - **Disjoint reigns** (I2): at any real moment [`Election::reigning`] names a term on one node at most, whatever the
//!   network, pauses and restarts do, as long as each clock's *rate* stays within rho.
//! - **Contiguous reigns** (I5): a term is in force for one unbroken time and never comes back.
//! - Of two reigns the later has the greater counter, as far as a majority of voters remembers, and no two share one.
//! - Once the faults stop: one election, and no further ones. A restarted voter, or one that was cut off, deposes nobody
//!   (L1, L2, L3).
//!
//! # Parts
//! [`Voter`] decides about one vote; [`Campaign`] is this node's own candidacy; [`Lists`] is what the voters keep for it,
//! so that a successor knows whom to wait for (early exit, E1-E5); [`Election::load`] changes the voters while they run
//! (V1-V6); [`Election`] joins them and is the machine. It costs 2 (v - 1) / R messages per second in the whole cluster, and nothing on nodes that neither vote nor reign.
//!
//! May import: wire, machine and the ground floor.

mod campaign;
mod change;
mod config;
mod lists;
mod seat;
mod voter;

#[cfg(test)]
mod tests;

pub use campaign::{Campaign, Rounds};
pub use change::VoterChangeError;
pub use config::{ElectionConfig, ElectionConfigError};
pub use lists::{Evidence, Lists};
pub use voter::{Answer, Voter};

use alloc::vec::Vec;

use crate::id::{NodeId, NodeKey, Term};
use crate::machine::{Fixed, Machine, Notice, Outbox, Rule};
#[cfg(any(test, feature = "sim"))]
use crate::machine::{Mark, instants};
use crate::time::Instant;
use crate::wire::{Control, List};
use change::Change;
use seat::Seat;

/// No honest counter comes near: wall time in milliseconds passes it in a hundred million years. A frame that names a
/// greater one would use the counters up, so it is dropped.
const COUNTER_MAX: u64 = 1 << 62;

/// One node's part in the election of coordinators.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Election {
    config: Fixed<ElectionConfig>,
    /// The greatest counter this node has heard of.
    seen: u64,
    /// None: this node doesn't vote, so it never campaigns either.
    seat: Option<Seat>,
    change: Change,
}

/// What an [`Election`] hears.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ElectionInput {
    /// The answer to [`ElectionOutput::NeedWall`].
    Start {
        /// Milliseconds since 1970, or zero if the host knows no wall time. It orders reigns across a restart of the whole
        /// cluster and carries no other weight.
        wall: u64,
    },
    /// A frame came. The lease messages, `WhoReigns`, `Reign`, `Announce` and `Nack` are of interest; others are ignored.
    Heard {
        /// Who sent it, as the connection was authenticated.
        from: NodeKey,
        /// The frame.
        message: Control,
    },
    /// A region reported a token with this counter that this reign did not grant. If it is not below this node's own, the
    /// reign ends and a new term is sought at once, so that what it grants next is greater.
    LearnedCounter(u64),
    /// That node's clock is slower than it may be: what was lent to it is held for twice as long. Its requests should not be
    /// heard any more.
    Distrust {
        /// Whose.
        node: NodeKey,
    },
    /// A coordinator says that this version of the voters is in force (V5).
    Committed {
        /// The version.
        version: u32,
    },
    /// Give up the reign or candidacy, and don't campaign again for three leases.
    StepDown,
    /// Whom this reign may acknowledge, in a newer version: to be stored by the voters. Ignored before
    /// [`ElectionOutput::Evidence`] and under another term.
    Publish(List),
    /// Give up this reign in good order: its own node is confirmed to be in the list.
    Resign {
        /// The reign.
        term: Term,
    },
    /// The answer to [`ElectionOutput::Lost`]: what the reign kept alive on this node has stopped, so the voters may lend it
    /// to others at once. Without it they wait until the lease runs out.
    Stopped {
        /// The reign.
        term: Term,
    },
}

/// What an [`Election`] orders. Emitted in the order in which it must happen: `Elected` before `Evidence` before
/// `Confirmed`, `Lost` before the `Release` frames of its term.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ElectionOutput {
    /// Send this frame. It may be lost.
    Send {
        /// To whom.
        to: NodeId,
        /// The frame.
        message: Control,
    },
    /// Answer with [`ElectionInput::Start`]; unanswered, it is asked again.
    NeedWall,
    /// This node reigns from now on.
    Elected {
        /// The reign.
        term: Term,
    },
    /// What is known of the sessions of former reigns: once per reign, T_evid after its beginning at the latest (E3).
    Evidence {
        /// The reign.
        term: Term,
        /// Nobody else can have a live session.
        complete: bool,
        /// The processes that may have one, sorted.
        carried: Vec<NodeKey>,
    },
    /// A majority of the voters has stored this version of the list, or a newer one (E5).
    Confirmed {
        /// The reign.
        term: Term,
        /// The version.
        version: u32,
    },
    /// This version of the voters is in force: tell every node (V5).
    Committed {
        /// The version.
        version: u32,
    },
    /// The reign is over: forget everything that was decided under it. Unless it resigned, stop what it kept alive on this
    /// node (E8) and answer with [`ElectionInput::Stopped`].
    Lost {
        /// The reign.
        term: Term,
        /// It ended by [`ElectionInput::Resign`]: what lives on this node is listed and lives on.
        resigned: bool,
    },
    /// For the operator.
    Notice(Notice),
}

impl Election {
    /// A node that starts now and remembers nothing.
    #[must_use]
    pub fn new(now: Instant, config: Fixed<ElectionConfig>) -> Self {
        let seat = config.rank(config.me().id).map(|_| Seat::new(now, &config));
        Self { config, seen: 0, seat, change: Change::default() }
    }

    /// The term under which this node reigns at `now`, if it does. O(1).
    #[must_use]
    pub fn reigning(&self, now: Instant) -> Option<Term> {
        match self.campaign() {
            Some(Campaign::Reigning { term, valid_until, .. }) if now < *valid_until => Some(*term),
            _ => None,
        }
    }

    /// When this node's reign ends unless it is renewed; none if it doesn't reign.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        match self.campaign() {
            Some(Campaign::Reigning { valid_until, .. }) => Some(*valid_until),
            _ => None,
        }
    }

    /// This node's vote, if it is a voter.
    #[must_use]
    pub fn voter(&self) -> Option<&Voter> {
        self.seat.as_ref().map(|seat| &seat.voter)
    }

    /// This node's candidacy, if it is a voter.
    #[must_use]
    pub fn campaign(&self) -> Option<&Campaign> {
        self.seat.as_ref().map(|seat| &seat.campaign)
    }

    /// What it was built with.
    #[must_use]
    pub fn config(&self) -> &ElectionConfig {
        &self.config
    }

    /// Shows every instant that is stored, for a simulator or model checker to shift.
    #[cfg(any(test, feature = "sim"))]
    pub fn each_instant(&mut self, f: &mut dyn FnMut(&mut Instant)) {
        self.each_mark(&mut instants(f));
    }

    /// Shows everything that a model checker may rename.
    #[cfg(any(test, feature = "sim"))]
    pub fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        f(Mark::Aside(&mut self.seen));
        if let Some(seat) = &mut self.seat {
            seat.each_mark(f);
        }
    }

    /// Gives this node another name, for a model checker: everything but the incarnation of `me` must be as before.
    #[cfg(any(test, feature = "sim"))]
    pub fn rename(&mut self, config: Fixed<ElectionConfig>) {
        self.config = config;
    }

    /// Remembers a counter, so that this node's next term is greater; false if no honest node can have sent it.
    fn learn(&mut self, counter: u64) -> bool {
        let honest = counter <= COUNTER_MAX;
        if honest {
            self.seen = self.seen.max(counter);
        }
        honest
    }

    fn on_seat(&mut self, act: impl FnOnce(&mut Seat, &ElectionConfig)) {
        if let Some(seat) = &mut self.seat {
            act(seat, &self.config);
        }
    }

    fn started(&mut self, now: Instant, wall: u64, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        let Some(seat) = &mut self.seat else { return };
        // A vote given since the question was asked has put the campaign off.
        if !matches!(seat.campaign, Campaign::Asked { .. }) {
            return;
        }
        self.seen = (self.seen + 1).max(wall.min(COUNTER_MAX));
        seat.begin_candidacy(now, self.seen, &self.config, out);
    }

    fn heard(
        &mut self,
        now: Instant,
        from: NodeKey,
        message: Control,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        if let Some(term) = term_named(&message)
            && !self.learn(term.counter)
        {
            out.emit(ElectionOutput::Notice(Notice::Garbled { what: "a counter out of all reason" }));
            return;
        }
        if let Control::LeaseRequest { config, .. }
        | Control::LeaseGranted { config, .. }
        | Control::LeaseRefused { config, .. } = message
        {
            self.seen_running(config, out);
        }
        if let Control::LeaseRequest { term, config, .. } = message {
            self.answer_behind(from, term, config, out);
        }
        let Some(seat) = &mut self.seat else { return };
        let config = &*self.config;
        match message {
            Control::LeaseRequest { term, .. } | Control::Release { term, .. } if term.node != from => {
                out.emit(ElectionOutput::Notice(Notice::NotYours { from }));
            }
            Control::LeaseRefused { .. } if config.rank(from.id).is_none() => {
                out.emit(ElectionOutput::Notice(Notice::NotYours { from }));
            }
            Control::LeaseRequest { config: asked, .. } if !config.votes() || !config.listens_to(asked) => {}
            Control::LeaseRequest { term, round, list, .. } => {
                seat.requested(now, from, term, (round, list), config, out);
            }
            Control::Release { term, exit } => seat.released(now, term, exit, config),
            Control::LeaseGranted { term, round, config: runs, stored } => {
                seat.granted(now, from, term, (round, stored), config, out);
                self.proved(from, term, runs);
            }
            Control::LeaseRefused { term, promised, .. } => seat.refused(now, term, promised, config, out),
            Control::Nack { max_term } => seat.nacked(now, max_term, config, out),
            Control::WhoReigns => seat.who_reigns(now, from, out),
            _ => {}
        }
    }
}

/// The greatest term that a frame teaches.
fn term_named(message: &Control) -> Option<Term> {
    match message {
        Control::LeaseRequest { term, .. }
        | Control::Release { term, .. }
        | Control::Reign { term, .. }
        | Control::Announce { term, .. }
        | Control::LeaseRefused { promised: term, .. }
        | Control::Nack { max_term: term } => Some(*term),
        _ => None,
    }
}

impl Machine for Election {
    type Input = ElectionInput;
    type Output = ElectionOutput;

    fn handle(&mut self, now: Instant, input: ElectionInput, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        if let Some(seat) = &mut self.seat
            && self.config.on(Rule::AdvanceFirst)
        {
            seat.advance(now, &self.config, out);
        }
        match input {
            ElectionInput::Start { wall } => self.started(now, wall, out),
            ElectionInput::Heard { from, message } => self.heard(now, from, message, out),
            ElectionInput::LearnedCounter(counter) => {
                if !self.learn(counter) {
                    out.emit(ElectionOutput::Notice(Notice::Garbled { what: "a counter out of all reason" }));
                } else if let Some(seat) = &mut self.seat {
                    seat.outrun(now, counter, &self.config, out);
                }
            }
            ElectionInput::Committed { version } => self.learn_committed(version, out),
            ElectionInput::Distrust { node } => self.on_seat(|seat, config| seat.distrust(now, node, config)),
            ElectionInput::StepDown => self.on_seat(|seat, config| seat.step_down(now, config, out)),
            ElectionInput::Publish(list) => self.on_seat(|seat, config| seat.publish(now, list, config, out)),
            ElectionInput::Resign { term } => self.on_seat(|seat, config| seat.resign(now, term, config, out)),
            ElectionInput::Stopped { term } => self.on_seat(|seat, config| seat.stopped(now, term, config, out)),
        }
        self.commit(now, out);
    }

    fn expire(&mut self, now: Instant, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        if self.deadline().is_none_or(|due| now < due) {
            return;
        }
        let Some(seat) = &mut self.seat else { return };
        seat.advance(now, &self.config, out);
        seat.act(now, &self.config, out);
        self.commit(now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        // A former voter goes on with the reign that it has, but never campaigns again.
        let waits = |seat: &&Seat| self.config.votes() || seat.campaign.term().is_some();
        self.seat.as_ref().filter(waits).map(|seat| seat.campaign.deadline(&self.config))
    }
}
