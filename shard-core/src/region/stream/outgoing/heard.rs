//! What a stream does about each thing it hears.

use super::{Outgoing, Phase};
use crate::id::{NodeKey, Token};
use crate::machine::{Outbox, Rule};
use crate::region::stream::OutgoingOutput;
use crate::time::Instant;
use crate::wire::Home;

impl<E, B> Outgoing<E, B> {
    /// D9, D10.
    pub(super) fn home_named(&mut self, now: Instant, home: Home, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        let Some(route) = self.route else { return self.open(now, home, out) };
        let later = home.token > route.token;
        match self.phase {
            Phase::Seek { .. } if later || (home.token == route.token && !route.over) => self.open(now, home, out),
            // Nothing is with the former owner that its `Closed` could tell of.
            Phase::Open | Phase::Wait if later && self.unsettled.is_empty() => self.open(now, home, out),
            Phase::Open | Phase::Wait if later => {
                let close_by = self.newer.map_or(now + self.config.close_wait, |(_, close_by)| close_by);
                if self.newer.is_none_or(|(newer, _)| newer.token < home.token) {
                    self.newer = Some((home, close_by));
                }
                if !home.closed || self.down == Some(route.node) {
                    self.lose_route(now, out);
                }
            }
            Phase::Local if later => self.newer = Some((home, Instant::NEVER)),
            _ => {}
        }
    }

    /// D6.
    pub(super) fn closed(
        &mut self,
        now: Instant,
        from: NodeKey,
        (upto, beyond): (u64, &[u64]),
        out: &mut (impl Outbox<OutgoingOutput> + ?Sized),
    ) {
        self.settle_upto(upto, from);
        for seq in beyond {
            if let Ok(index) = self.unsettled.find(*seq)
                && self.unsettled.is_sent(index)
            {
                self.settle(index, from);
            }
        }
        self.unsettled.unsend_from(0);
        self.leave_route(now, out);
    }

    /// D7.
    pub(super) fn refused(
        &mut self,
        now: Instant,
        draining: bool,
        hint: Option<(NodeKey, Token)>,
        out: &mut (impl Outbox<OutgoingOutput> + ?Sized),
    ) {
        let Some(route) = self.route else { return };
        if draining && self.config.rules.on(Rule::DrainingWaits) {
            self.phase = Phase::Wait;
            return;
        }
        self.unsettled.unsend_from(0);
        let hint = hint.filter(|(_, token)| *token > route.token);
        let known = self.newer.take().map(|(home, _)| home);
        let hinted = hint.map(|(node, token)| Home { node, token, closed: true });
        if let Some(home) = known.into_iter().chain(hinted).max_by_key(|home| home.token) {
            return self.open(now, home, out);
        }
        self.phase = Phase::Seek { lookup: Some((now + self.refuse_pause, self.config.retry_first)) };
        self.refuse_pause = (self.refuse_pause * 2).min(self.config.retry_last);
    }

    /// What `node` took and has not answered is in doubt.
    pub(super) fn lose_answers(&mut self, node: NodeKey, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        let mut index = 0;
        while let Some((taker, _)) = self.awaiting.get(index) {
            if *taker != node {
                index += 1;
            } else if let Some((_, entry)) = self.awaiting.remove(index) {
                out.emit(OutgoingOutput::InDoubt { seq: entry.seq });
                self.fated.push(entry);
            }
        }
    }

    pub(super) fn peer_gone(&mut self, now: Instant, node: NodeKey, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        self.lose_answers(node, out);
        self.newer = self.newer.filter(|(home, _)| home.node != node);
        if matches!(self.phase, Phase::Open | Phase::Wait) && self.route.is_some_and(|route| route.node == node) {
            self.lose_route(now, out);
        }
    }

    pub(super) fn link_down(&mut self, now: Instant, node: NodeKey, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        self.down = Some(node);
        let waits = matches!(self.phase, Phase::Open | Phase::Wait) && self.newer.is_some();
        if waits && self.route.is_some_and(|route| route.node == node) {
            self.lose_route(now, out);
        }
    }

    pub(super) fn hold(&mut self, attempt: u32, seq: u64) {
        if attempt != self.attempt || !matches!(self.phase, Phase::Open | Phase::Wait) {
            return;
        }
        let (Ok(index) | Err(index)) = self.unsettled.find(seq);
        self.unsettled.unsend_from(index);
        self.first = self.first.filter(|first| *first < seq);
        self.held = true;
    }
}
