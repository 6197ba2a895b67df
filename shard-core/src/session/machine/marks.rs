//! What a simulator or model checker may shift and rename in a session.

use super::Session;
use crate::{
    machine::{Mark, Sort, instants},
    time::Instant,
};

impl Session {
    /// Visits every instant of the state, so that a model checker can shift them all.
    pub fn each_instant(&mut self, visit: &mut dyn FnMut(&mut Instant)) {
        self.each_mark(&mut instants(visit));
    }

    /// Shows everything that a model checker may rename.
    pub fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        let me = self.config.me;
        if let Some(term) = &mut self.max_term {
            f(Mark::Term(term));
        }
        for session in core::iter::once(&mut self.number).chain(&mut self.stopping) {
            f(Mark::Number(me, Sort::Session, session));
        }
        f(Mark::Number(me, Sort::Sequence, &mut self.sequence));
        for sent in &mut self.sent {
            f(Mark::Number(me, Sort::Sequence, &mut sent.sequence));
            f(Mark::Extension(&mut sent.good_until));
        }
        self.sent.retain(|sent| sent.good_until > Instant::ZERO);
        self.owned.iter_mut().for_each(|owned| f(Mark::Token(&mut owned.token)));
        f(Mark::Number(me, Sort::Command, &mut self.applied));
        for version in [&mut self.report_version, &mut self.report_seen] {
            f(Mark::Number(me, Sort::Report, version));
        }
        f(Mark::Aside(&mut self.ack_seen));
        f(Mark::Aside(&mut self.directory));
        f(Mark::Remark(&mut self.open));
        f(Mark::Deadline(&mut self.valid_until));
        self.reign_until.iter_mut().for_each(|at| f(Mark::Deadline(at)));
        f(Mark::Deadline(&mut self.next_beat_at));
        f(Mark::Pace(&mut self.ask_at));
        f(Mark::Pace(&mut self.hint_at));
    }
}
