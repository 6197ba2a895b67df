//! What callers send: a hot few entities and a cold many, tells and asks, singly and in bursts.

use core::ops::Range;

use super::cluster::{Cluster, about};
use super::event::Event;

/// Above so many entities, each node calls a few of them.
const CALLED: usize = 64;

impl Cluster {
    /// The entities that a node's callers know: all; in a large cluster a share, so that together they know all.
    pub(super) fn called_by(&self, seat: usize) -> Range<usize> {
        let seats = if self.options.callers > 0 { self.options.callers } else { self.seats.len() };
        let all = self.entities.len();
        if all <= CALLED {
            return 0..all;
        }
        let share = (all.div_ceil(seats) + 4).min(all);
        let start = (seat * all / seats).min(all - share);
        start..start + share
    }

    /// The callers of a node send a batch, and will send another.
    pub(super) fn work(&mut self, seat: usize) {
        let quiet =
            self.calm.is_quiet() || self.seats[seat].process.as_ref().is_none_or(|process| process.departure.is_some());
        let mute = self.options.callers > 0 && seat >= self.options.callers;
        if quiet || mute {
            return;
        }
        let burst = if self.dice.work.chance(1, 8) { 6 } else { self.dice.work.between(1, 2) };
        let entities = self.called_by(seat);
        let many = entities.len() as u64;
        for _ in 0..burst {
            let cold = self.dice.work.below(many);
            let hot = self.dice.work.below(many.div_ceil(4));
            let entity = if self.dice.work.chance(1, 2) { cold } else { hot };
            let ask = self.dice.work.chance(1, 4);
            self.send_message(seat, entities.start + entity as usize, ask);
        }
        let at = self.now + about(&mut self.dice.work, self.options.work_every) + 1;
        self.push_here(at, seat, Event::Work);
    }
}
