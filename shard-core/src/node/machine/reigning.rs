//! What it means for a node that it reigns itself: its own region rides on the reign, and it resigns before it leaves.

use super::{Departing, Node};
use crate::coordinator;
use crate::election::ElectionInput;
use crate::id::{Kind, Term};
use crate::machine::{Outbox, Rule};
use crate::node::Output;
use crate::session;
use crate::time::Instant;

impl Node {
    /// A node that leaves: a coordinator resigns first, if there is anybody to succeed it, and goes on when the successor
    /// knows of every shard.
    pub(super) fn depart(&mut self, now: Instant, how: session::Input, out: &mut (impl Outbox<Output> + ?Sized)) {
        if let Some(departing) = &mut self.departing {
            departing.how = how;
        } else if let Some(term) = self.election.reigning(now).filter(|_| self.has_heirs()) {
            let give_up_at = now + self.config.timing.reign + self.config.timing.wait;
            self.departing = Some(Departing { how, term, give_up_at });
            self.resign(now, out);
        } else {
            self.tell_session(now, how, out);
        }
    }

    pub(super) fn resign(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.has_heirs() {
            self.tell_allocator(now, coordinator::Input::Resign, out);
        }
    }

    /// Whether there are other voters: the only one would succeed itself.
    fn has_heirs(&self) -> bool {
        self.config.voters.iter().any(|(id, _)| *id != self.config.me.id)
    }

    pub(super) fn departs(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        let (session, reigns) = (&self.session, self.election.reigning(now).is_some());
        let succeeded = |was: Term| !reigns && session.is_open() && session.term().is_some_and(|term| term != was);
        if let Some(departing) =
            self.departing.take_if(|departing| now >= departing.give_up_at || succeeded(departing.term))
        {
            self.tell_session(now, departing.how, out);
        }
    }

    pub(super) fn halted(&mut self, now: Instant, kind: Kind, lane: u32, out: &mut (impl Outbox<Output> + ?Sized)) {
        let Some((session, owing)) = &mut self.halting else { return };
        owing.remove(&(kind, lane));
        if owing.is_empty() {
            let session = *session;
            self.halting = None;
            self.tell_session(now, session::Input::LanesStopped { session }, out);
            if let Some(term) = self.owed.take() {
                self.tell_election(now, ElectionInput::Stopped { term }, out);
            }
        }
    }

    /// A reign is over: what it kept alive here stops, and only then are the voters told (E8). A region that is alone in
    /// its cluster has no successor to make way for.
    pub(super) fn deposed(
        &mut self,
        now: Instant,
        term: Term,
        resigned: bool,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) {
        self.tell_allocator(now, coordinator::Input::Lost { term }, out);
        out.emit(Output::Deposed(term));
        if !self.config.alone {
            self.tell_session(now, session::Input::ReignOver { resigned }, out);
        }
        let stops = self.halting.is_some() && self.config.rules.on(Rule::LapseBeforeRelease);
        if stops && !resigned {
            self.owed = Some(term);
        } else {
            self.tell_election(now, ElectionInput::Stopped { term }, out);
        }
    }

    /// The session rides on the reign while there is one (E8).
    pub(super) fn clip(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        if let Some(until) = self.election.valid_until().filter(|_| !self.config.alone) {
            self.tell_session(now, session::Input::Reigns { until }, out);
        }
    }
}
