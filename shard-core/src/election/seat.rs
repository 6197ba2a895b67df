//! One voter's node: its vote and its own candidacy, joined. Its own frames never leave; they are delivered on the spot.

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{NodeKey, Term};
#[cfg(any(test, feature = "sim"))]
use crate::machine::Mark;
use crate::machine::{Notice, Outbox, Rule};
use crate::time::Instant;
use crate::wire::{Control, Exit, List};

use super::campaign::Rounds;
use super::voter::Answer;
use super::{Campaign, ElectionConfig, ElectionOutput, Evidence, Lists, Voter};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Seat {
    pub(super) voter: Voter,
    pub(super) campaign: Campaign,
    /// The last term given up, and how: what a voter is told whose vote for it comes too late.
    spent: Option<(Term, Exit)>,
    /// A reign that is over, but whose Release waits until what it kept alive on this node has stopped (E8).
    owed: Option<(Term, Next)>,
}

/// When this node campaigns again after it gave something up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Next {
    /// When its vote is free, in the order of ranks.
    InTurn,
    /// As soon as it may.
    AtOnce,
    /// Not for three leases: the others first.
    Rest,
}

impl Seat {
    pub(super) fn new(now: Instant, config: &ElectionConfig) -> Self {
        let campaign = Campaign::Idle { campaign_at: config.first_campaign(now) };
        Self { voter: Voter::new(now + config.silence()), campaign, spent: None, owed: None }
    }

    /// Ends what has run out. Runs before anything else at every entry: mail that queued up during a pause must find
    /// the reign ended, not extend it (rules `AdvanceFirst`, `ContiguousReign`).
    pub(super) fn advance(
        &mut self,
        now: Instant,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        self.voter.forget(now);
        let over = match self.campaign {
            Campaign::Candidate { give_up_at, .. } => now >= give_up_at,
            Campaign::Reigning { valid_until, .. } => now >= valid_until && config.on(Rule::ContiguousReign),
            Campaign::Idle { .. } | Campaign::Asked { .. } => false,
        };
        if over {
            self.end(now, Exit::Reigned, Next::InTurn, config, out);
        }
    }

    /// Asks for the wall time, decides the evidence, or sends the next round, if that is due.
    pub(super) fn act(
        &mut self,
        now: Instant,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        match &mut self.campaign {
            Campaign::Idle { campaign_at: at } | Campaign::Asked { again_at: at } if now >= *at => {
                self.campaign = Campaign::Asked { again_at: now + config.timing().candidacy };
                out.emit(ElectionOutput::NeedWall);
            }
            Campaign::Reigning { renew_at, .. } => {
                let due = now >= *renew_at;
                self.decide(now, config, out);
                if due {
                    self.begin_round(now, config, out);
                }
            }
            _ => {}
        }
    }

    /// Becomes a candidate for a term that is greater than all this node knows of.
    pub(super) fn begin_candidacy(
        &mut self,
        now: Instant,
        counter: u64,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        self.campaign = Campaign::Candidate {
            term: Term { counter, node: config.me() },
            rounds: Rounds::default(),
            lists: Lists::new(config),
            give_up_at: now + config.timing().candidacy,
        };
        self.begin_round(now, config, out);
    }

    /// Sends a round to every voter, itself included. A coordinator's carries its list to those who do not hold it; a
    /// candidate's carries none, for it would take the place of the only copy (E2, rule `CandidateListless`).
    fn begin_round(&mut self, now: Instant, config: &ElectionConfig, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        let (term, round) = match &mut self.campaign {
            Campaign::Candidate { term, rounds, .. } => (*term, rounds.begin(now, config)),
            Campaign::Reigning { term, rounds, renew_at, .. } => {
                *renew_at = now + config.timing().renew;
                (*term, rounds.begin(now, config))
            }
            Campaign::Idle { .. } | Campaign::Asked { .. } => return,
        };
        let list = |rank| match &self.campaign {
            Campaign::Reigning { lists, .. } => lists.for_voter(rank),
            _ if config.on(Rule::CandidateListless) => None,
            _ => Some(List { term, version: 0, complete: true, members: Vec::new() }),
        };
        let mut own = None;
        for (rank, to) in config.voters().iter().enumerate() {
            let list = list(rank);
            if *to == config.me().id {
                own = list;
            } else {
                let message = Control::LeaseRequest { term, round, config: config.version(), list };
                out.emit(ElectionOutput::Send { to: *to, message });
            }
        }
        if !config.votes() {
            return;
        }
        match self.vote(now, term, own, config) {
            (Answer::Granted { .. }, stored) => self.granted(now, config.me(), term, (round, stored), config, out),
            (Answer::Refused { promised }, _) => self.refused(now, term, promised, config, out),
            (Answer::Silence, _) => {}
        }
    }

    /// This voter's answer to a round, and the list that it holds then. A list counts only from the reign that keeps it.
    fn vote(
        &mut self,
        now: Instant,
        term: Term,
        list: Option<List>,
        config: &ElectionConfig,
    ) -> (Answer, Option<List>) {
        let answer = self.voter.ask(now, term, config);
        if let (Answer::Granted { .. }, Some(list)) = (answer, list)
            && list.term == term
        {
            self.voter.store(list, config);
        }
        (answer, self.voter.stored(term, config))
    }

    /// Says what the voters' lists prove, once, as soon as they do or the time is up (E3).
    fn decide(&mut self, now: Instant, config: &ElectionConfig, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        if let Campaign::Reigning { term, lists, .. } = &mut self.campaign
            && let Some(Evidence { complete, carried }) = lists.decide(now, config)
        {
            out.emit(ElectionOutput::Evidence { term: *term, complete, carried });
        }
    }

    /// The allocator has a newer list.
    pub(super) fn publish(
        &mut self,
        now: Instant,
        list: List,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        if let Campaign::Reigning { term, lists, .. } = &mut self.campaign
            && *term == list.term
            && lists.publish(list)
        {
            self.begin_round(now, config, out);
        }
    }

    /// Another node asks for this voter's vote.
    pub(super) fn requested(
        &mut self,
        now: Instant,
        from: NodeKey,
        term: Term,
        (round, list): (u64, Option<List>),
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        let message = match self.vote(now, term, list, config) {
            (Answer::Silence, _) => return,
            (Answer::Refused { promised }, _) => Control::LeaseRefused { term, promised, config: config.version() },
            (Answer::Granted { until }, stored) => {
                self.put_off(config.next_campaign(now, until));
                Control::LeaseGranted { term, round, config: config.version(), stored }
            }
        };
        out.emit(ElectionOutput::Send { to: from.id, message });
    }

    /// A clock is slower than it may be.
    pub(super) fn distrust(&mut self, now: Instant, node: NodeKey, config: &ElectionConfig) {
        if let Some(until) = self.voter.prolong(node, config) {
            self.put_off(config.next_campaign(now, until));
        }
    }

    /// Another node gives up a term.
    pub(super) fn released(&mut self, now: Instant, term: Term, exit: Exit, config: &ElectionConfig) {
        if self.voter.release(term, exit != Exit::NeverReigned, config) {
            let resigned = exit == Exit::Resigned;
            self.put_off(if resigned { config.after_resignation(now) } else { config.next_campaign(now, now) });
        }
    }

    /// A vote for this node.
    pub(super) fn granted(
        &mut self,
        now: Instant,
        from: NodeKey,
        theirs: Term,
        (round, stored): (u64, Option<List>),
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        let Some(rank) = config.rank(from.id) else {
            out.emit(ElectionOutput::Notice(Notice::NotYours { from }));
            return;
        };
        match &mut self.campaign {
            Campaign::Candidate { term, rounds, lists, .. } if config.same_term(*term, theirs) => {
                lists.heard(rank, stored, config);
                if let Some(valid_until) = rounds.vote(now, round, rank, config) {
                    let (term, rounds, mut lists) = (*term, core::mem::take(rounds), core::mem::take(lists));
                    lists.elected(now, config);
                    let renew_at = now + config.timing().renew;
                    self.campaign = Campaign::Reigning { term, rounds, lists, renew_at, valid_until };
                    out.emit(ElectionOutput::Elected { term });
                    self.decide(now, config, out);
                }
            }
            Campaign::Reigning { term, rounds, lists, valid_until, .. } if config.same_term(*term, theirs) => {
                if let Some(until) = rounds.vote(now, round, rank, config) {
                    *valid_until = until.max(*valid_until);
                }
                let before = lists.confirmed();
                lists.heard(rank, stored, config);
                let version = lists.confirmed();
                if version > before {
                    out.emit(ElectionOutput::Confirmed { term: *term, version });
                }
                self.decide(now, config, out);
            }
            _ if theirs.node == config.me() && config.on(Rule::ReleaseAlways) => {
                if self.owed.is_some_and(|(owed, _)| owed == theirs) {
                    return;
                }
                // The request outran its Release, so the voter is lent to a term that nobody will use.
                let exit = self.spent.filter(|(term, _)| *term == theirs).map_or(Exit::Reigned, |(_, exit)| exit);
                out.emit(ElectionOutput::Send { to: from.id, message: Control::Release { term: theirs, exit } });
            }
            _ => {}
        }
    }

    /// A vote denied. A candidate that has fallen behind gives way at once; a reigning coordinator doesn't listen (L3),
    /// else every restarted voter that campaigns once would depose a healthy one.
    pub(super) fn refused(
        &mut self,
        now: Instant,
        theirs: Term,
        promised: Term,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        if let Campaign::Candidate { term, .. } = self.campaign
            && term == theirs
            && promised.counter > term.counter
        {
            self.end(now, Exit::Reigned, Next::InTurn, config, out);
        }
    }

    /// A region obeys a greater term: whatever this node is, no region will obey it any more.
    pub(super) fn nacked(
        &mut self,
        now: Instant,
        max_term: Term,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        if self.campaign.term().is_some_and(|term| max_term > term) {
            self.end(now, Exit::Reigned, Next::InTurn, config, out);
        }
    }

    /// A grant with this counter exists: this node's own grants must be greater, so it needs a new term, at once.
    pub(super) fn outrun(
        &mut self,
        now: Instant,
        counter: u64,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        if self.campaign.term().is_some_and(|term| counter >= term.counter) {
            self.end(now, Exit::Reigned, Next::AtOnce, config, out);
        }
    }

    /// Gives up on request, and lets the others try first for three leases.
    pub(super) fn step_down(
        &mut self,
        now: Instant,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        self.end(now, Exit::Reigned, Next::Rest, config, out);
    }

    /// Gives up a reign in good order: the own region lives on, because it is listed like any other (2.1).
    pub(super) fn resign(
        &mut self,
        now: Instant,
        theirs: Term,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        if matches!(self.campaign, Campaign::Reigning { term, .. } if term == theirs) {
            self.end(now, Exit::Resigned, Next::Rest, config, out);
        }
    }

    pub(super) fn who_reigns(&self, now: Instant, from: NodeKey, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        if let Some(term) = self.voter.holder(now) {
            let message = Control::Reign { term, address: String::new() };
            out.emit(ElectionOutput::Send { to: from.id, message });
        }
    }

    /// The one way out of a candidacy or a reign. Forgets the term for good and tells this node. The voters are told at
    /// once that a candidacy is over; of a reign only when what it kept alive here has stopped, for with the Release it
    /// ends for others before its time (E8).
    fn end(
        &mut self,
        now: Instant,
        exit: Exit,
        next: Next,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        let (term, exit) = match self.campaign {
            Campaign::Candidate { term, .. } => (term, Exit::NeverReigned),
            Campaign::Reigning { term, .. } => (term, exit),
            Campaign::Idle { .. } | Campaign::Asked { .. } => return,
        };
        if exit == Exit::NeverReigned {
            out.emit(ElectionOutput::Notice(Notice::CandidacyGivenUp { term }));
        } else {
            out.emit(ElectionOutput::Lost { term, resigned: exit == Exit::Resigned });
            out.emit(ElectionOutput::Notice(Notice::ReignEnded { term }));
        }
        self.spent = Some((term, exit));
        if exit == Exit::Reigned {
            self.owed = Some((term, next));
        } else {
            self.release(term, exit, config, out);
        }
        self.campaign = Campaign::Idle { campaign_at: self.again(now, next, config) };
    }

    /// What the reign kept alive on this node has stopped: now the voters may know.
    pub(super) fn stopped(
        &mut self,
        now: Instant,
        theirs: Term,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        if let Some((term, next)) = self.owed.take_if(|(term, _)| *term == theirs) {
            self.release(term, Exit::Reigned, config, out);
            if next != Next::Rest {
                self.put_off(self.again(now, next, config));
            }
        }
    }

    /// Tells every voter, itself included, that a term is given up (rule `ReleaseAlways`): without that, two candidates
    /// that split the votes lock each other out for T_v.
    fn release(
        &mut self,
        term: Term,
        exit: Exit,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        if config.on(Rule::ReleaseAlways) {
            self.voter.release(term, exit != Exit::NeverReigned, config);
            for to in config.peers() {
                out.emit(ElectionOutput::Send { to, message: Control::Release { term, exit } });
            }
        }
    }

    /// The voters change. A candidate gives up: those whom it asked may not be those who count. A coordinator reigns on
    /// until what it has ends, and begins a round under the new version (V4).
    pub(super) fn change(
        &mut self,
        now: Instant,
        old: &ElectionConfig,
        new: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        match &mut self.campaign {
            Campaign::Candidate { .. } => self.end(now, Exit::NeverReigned, Next::InTurn, old, out),
            Campaign::Asked { .. } => {
                self.campaign = Campaign::Idle { campaign_at: self.again(now, Next::InTurn, new) }
            }
            Campaign::Reigning { rounds, lists, .. } => {
                rounds.give_up();
                lists.change(old, new);
                self.begin_round(now, new, out);
            }
            Campaign::Idle { .. } => {}
        }
    }

    /// It is a voter again. Whatever it knew as one before is too old to be true: its vote starts silent, and without a list.
    /// A reign that it still has goes on until it ends like any other, lest those who ride on it never hear of that.
    pub(super) fn join(&mut self, now: Instant, config: &ElectionConfig) {
        self.voter = Voter::new(now + config.silence());
        self.put_off(config.first_campaign(now));
    }

    fn again(&self, now: Instant, next: Next, config: &ElectionConfig) -> Instant {
        match next {
            // Its own vote is bound as long as the Release is owed, and so is it.
            Next::AtOnce if self.owed.is_none() => now,
            Next::Rest if config.voters().len() > 1 => config.next_campaign(now, now + config.lease() * 3),
            _ => config.next_campaign(now, self.voter.free_at(now)),
        }
    }

    /// Moves the next campaign, unless one is going on.
    fn put_off(&mut self, to: Instant) {
        if self.campaign.term().is_none() {
            self.campaign = Campaign::Idle { campaign_at: to };
        }
    }

    #[cfg(any(test, feature = "sim"))]
    pub(super) fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        self.voter.each_mark(f);
        self.campaign.each_mark(f);
        if let Some((term, _)) = &mut self.owed {
            f(Mark::Term(term));
        }
        if let Some((term, _)) = &mut self.spent {
            f(Mark::Spent(term));
        }
        self.spent.take_if(|(term, _)| *term == Term::default());
    }
}
