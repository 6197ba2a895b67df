//! When a session ends: D after the last acknowledged heartbeat was sent, or with this node's own reign.

use super::Session;
use crate::machine::{Notice, Outbox, Rule};
use crate::session::Output;
use crate::time::Instant;

impl Session {
    /// The session's end, or that of this node's own reign if that is sooner: no list names the coordinator's own region,
    /// so its successor relies on it to end with the reign (E8).
    pub(super) fn ends_at(&self) -> Instant {
        self.reign_until.map_or(self.valid_until, |reign| reign.min(self.valid_until))
    }

    /// Ends the session when its time is over. First in every verb: mail that queued during a pause must not be taken by
    /// a session that is long dead.
    pub(super) fn advance(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.live && now >= self.ends_at() {
            self.lapse(now, out);
        }
    }

    pub(super) fn reigns(&mut self, now: Instant, until: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.config.rules.on(Rule::OwnRegionClipped) && self.reign_until != Some(until) {
            let before = self.ends_at();
            self.reign_until = Some(until);
            self.advance(now, out);
            if self.live && self.ends_at() != before {
                self.say_live(out);
            }
        }
    }

    pub(super) fn reign_over(&mut self, now: Instant, resigned: bool, out: &mut (impl Outbox<Output> + ?Sized)) {
        if !resigned && self.live && self.config.rules.on(Rule::LapseBeforeRelease) {
            self.lapse(now, out);
        }
        if self.reign_until.take().is_some() && self.live {
            self.say_live(out);
        }
    }

    pub(super) fn say_live(&self, out: &mut (impl Outbox<Output> + ?Sized)) {
        out.emit(Output::Live { until: self.ends_at() - self.config.timing.margin });
    }

    /// The edge from live to stopping (or, on a `Dead` before the first ack, from waiting to stopping: G3, else a session
    /// buried before it ever lived would be refused for ever).
    pub(super) fn lapse(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        let ended = self.number;
        let rules = self.config.rules;
        if rules.on(Rule::SessionBump) {
            self.number += 1;
        }
        if rules.on(Rule::ForgetSent) {
            self.sent.clear();
        }
        self.owned.clear();
        self.report_version += 1;
        self.applied = 0;
        // A node that is refused again and again asks once per H, not once per round trip.
        self.next_beat_at = if self.live { now } else { now + self.config.timing.heartbeat };
        self.valid_until = Instant::ZERO;
        // Session barrier: no heartbeat of the next session says "I own nothing" while a lane still runs a handler.
        self.stopping = Some(ended);
        out.emit(Output::StopAll { session: ended });
        if self.live {
            self.live = false;
            out.emit(Output::Lapsed { session: ended });
            out.emit(Output::Notice(Notice::SessionLapsed));
        }
    }

    /// L2: an ack keeps the session until D after its heartbeat was sent, however late the ack is.
    pub(super) fn extend(&mut self, now: Instant, sequence: u64, out: &mut (impl Outbox<Output> + ?Sized)) {
        let good_until = if self.config.rules.on(Rule::ValidityFromSend) {
            let Some(sent) = self.sent.iter().find(|sent| sent.sequence == sequence) else { return };
            sent.good_until
        } else {
            now + self.config.timing.session
        };
        self.sent.retain(|sent| sent.sequence > sequence);
        if good_until <= now || good_until <= self.valid_until {
            return;
        }
        self.valid_until = good_until;
        if now >= self.ends_at() {
            return;
        }
        if !self.live {
            self.live = true;
            out.emit(Output::Joined { session: self.number });
        }
        self.say_live(out);
    }
}
