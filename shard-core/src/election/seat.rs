//! One voter's node: its vote and its own candidacy, joined. Its own frames never leave; they are delivered on the spot.

use alloc::string::String;

use crate::id::{NodeKey, Term};
#[cfg(any(test, feature = "sim"))]
use crate::machine::Mark;
use crate::machine::{Notice, Outbox, Rule};
use crate::time::Instant;
use crate::wire::Control;

use super::campaign::Rounds;
use super::voter::Answer;
use super::{Campaign, ElectionConfig, ElectionOutput, Voter};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Seat {
    pub(super) voter: Voter,
    pub(super) campaign: Campaign,
    /// The last term given up, and whether it reigned: what a voter is told whose vote for it comes too late.
    spent: Option<(Term, bool)>,
}

impl Seat {
    pub(super) fn new(now: Instant, config: &ElectionConfig) -> Self {
        let campaign = Campaign::Idle { campaign_at: config.first_campaign(now) };
        Self { voter: Voter::new(now + config.silence()), campaign, spent: None }
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
            self.end(now, config, out);
        }
    }

    /// Asks for the wall time, or sends the next round, if that is due.
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
            Campaign::Reigning { term, rounds, renew_at, .. } if now >= *renew_at => {
                *renew_at = now + config.timing().renew;
                let (term, round) = (*term, rounds.begin(now, config));
                self.send_round(now, term, round, config, out);
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
        let term = Term { counter, node: config.me() };
        let mut rounds = Rounds::default();
        let round = rounds.begin(now, config);
        self.campaign = Campaign::Candidate { term, rounds, give_up_at: now + config.timing().candidacy };
        self.send_round(now, term, round, config, out);
    }

    fn send_round(
        &mut self,
        now: Instant,
        term: Term,
        round: u64,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        for to in config.peers() {
            out.emit(ElectionOutput::Send { to, message: Control::LeaseRequest { term, round } });
        }
        match self.voter.ask(now, term, config) {
            Answer::Granted { .. } => self.granted(now, config.me(), term, round, config, out),
            Answer::Refused { promised } => self.refused(now, term, promised, config, out),
            Answer::Silence => {}
        }
    }

    /// Another node asks for this voter's vote.
    pub(super) fn requested(
        &mut self,
        now: Instant,
        from: NodeKey,
        term: Term,
        round: u64,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        let message = match self.voter.ask(now, term, config) {
            Answer::Silence => return,
            Answer::Refused { promised } => Control::LeaseRefused { term, promised },
            Answer::Granted { until } => {
                self.put_off(config.next_campaign(now, until));
                Control::LeaseGranted { term, round }
            }
        };
        out.emit(ElectionOutput::Send { to: from.id, message });
    }

    /// Another node gives up a term.
    pub(super) fn released(&mut self, now: Instant, term: Term, reigned: bool, config: &ElectionConfig) {
        if self.voter.release(term, reigned, config) {
            self.put_off(config.next_campaign(now, now));
        }
    }

    /// A vote for this node.
    pub(super) fn granted(
        &mut self,
        now: Instant,
        from: NodeKey,
        theirs: Term,
        round: u64,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        let Some(rank) = config.rank(from.id) else {
            out.emit(ElectionOutput::Notice(Notice::NotYours { from }));
            return;
        };
        match &mut self.campaign {
            Campaign::Candidate { term, rounds, .. } if config.same_term(*term, theirs) => {
                if let Some(valid_until) = rounds.vote(now, round, rank, config) {
                    let (term, rounds) = (*term, core::mem::take(rounds));
                    let renew_at = now + config.timing().renew;
                    self.campaign = Campaign::Reigning { term, rounds, renew_at, valid_until };
                    out.emit(ElectionOutput::Elected { term });
                }
            }
            Campaign::Reigning { term, rounds, valid_until, .. } if config.same_term(*term, theirs) => {
                if let Some(until) = rounds.vote(now, round, rank, config) {
                    *valid_until = until.max(*valid_until);
                }
            }
            _ if theirs.node == config.me() && config.on(Rule::ReleaseAlways) => {
                // The request outran its Release, so the voter is lent to a term that nobody will use.
                let reigned = self.spent != Some((theirs, false));
                out.emit(ElectionOutput::Send { to: from.id, message: Control::Release { term: theirs, reigned } });
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
            self.end(now, config, out);
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
            self.end(now, config, out);
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
            self.end(now, config, out);
            self.campaign = Campaign::Idle { campaign_at: now };
        }
    }

    /// Gives up on request, and lets the others try first for three leases.
    pub(super) fn step_down(
        &mut self,
        now: Instant,
        config: &ElectionConfig,
        out: &mut (impl Outbox<ElectionOutput> + ?Sized),
    ) {
        if self.campaign.term().is_none() {
            return;
        }
        self.end(now, config, out);
        if config.voters().len() > 1 {
            self.put_off(config.next_campaign(now, now + config.lease() * 3));
        }
    }

    pub(super) fn who_reigns(&self, now: Instant, from: NodeKey, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        if let Some(term) = self.voter.holder(now) {
            let message = Control::Reign { term, address: String::new() };
            out.emit(ElectionOutput::Send { to: from.id, message });
        }
    }

    /// The one way out of a candidacy or a reign. Forgets the term for good; tells first this node, then every voter, itself
    /// included (rule `ReleaseAlways`): without that, two candidates that split the votes lock each other out for T_v.
    fn end(&mut self, now: Instant, config: &ElectionConfig, out: &mut (impl Outbox<ElectionOutput> + ?Sized)) {
        let (term, reigned) = match self.campaign {
            Campaign::Candidate { term, .. } => (term, false),
            Campaign::Reigning { term, .. } => (term, true),
            Campaign::Idle { .. } | Campaign::Asked { .. } => return,
        };
        if reigned {
            out.emit(ElectionOutput::Lost { term });
            out.emit(ElectionOutput::Notice(Notice::ReignEnded { term }));
        } else {
            out.emit(ElectionOutput::Notice(Notice::CandidacyGivenUp { term }));
        }
        self.spent = Some((term, reigned));
        if config.on(Rule::ReleaseAlways) {
            self.voter.release(term, reigned, config);
            for to in config.peers() {
                out.emit(ElectionOutput::Send { to, message: Control::Release { term, reigned } });
            }
        }
        self.campaign = Campaign::Idle { campaign_at: config.next_campaign(now, self.voter.free_at(now)) };
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
        if let Some((term, _)) = &mut self.spent {
            f(Mark::Spent(term));
        }
        self.spent.take_if(|(term, _)| *term == Term::default());
    }
}
