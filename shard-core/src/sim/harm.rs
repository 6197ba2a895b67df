//! Harm: crashes, pauses, cuts, breaks, departures, clocks that change their mind.

use alloc::vec::Vec;

use super::cluster::{Cluster, about, rate};
use super::event::{Event, Harm};
use super::options::ms;
use crate::node::Input;
use crate::time::{Duration, nanos};

const ALL: [Harm; 8] =
    [Harm::Crash, Harm::Blackout, Harm::Pause, Harm::Cut, Harm::Break, Harm::Leave, Harm::Resign, Harm::Drift];

impl Cluster {
    pub(super) fn arm_all(&mut self) {
        for harm in ALL {
            self.arm(harm);
        }
    }

    fn arm(&mut self, harm: Harm) {
        let faults = &self.faults;
        let every = match harm {
            Harm::Crash => faults.crash_every,
            Harm::Blackout => faults.blackout_every,
            Harm::Pause => faults.pause_every,
            Harm::Cut => faults.cut_every,
            Harm::Break => faults.break_every,
            Harm::Leave => faults.leave_every,
            Harm::Resign => faults.resign_every,
            Harm::Drift => faults.drift_every,
        };
        if every.is_zero() {
            return;
        }
        let at = self.now + about(&mut self.dice.harm, every) + 1;
        if at < nanos(self.options.storm) {
            self.agenda.push(at, 0, 0, Event::Harm(harm));
        }
    }

    pub(super) fn harm(&mut self, harm: Harm) {
        self.arm(harm);
        let seats = self.seats.len() as u64;
        let seat = self.dice.harm.below(seats) as usize;
        match harm {
            Harm::Crash => self.crash(seat),
            Harm::Blackout => {
                for seat in 0..self.seats.len() {
                    let down = self.dice.harm.below(200_000_000);
                    self.crash_for(seat, down);
                }
            }
            Harm::Pause => {
                // A pause is never prolonged: what waits for its end would change its order.
                if self.seats[seat].process.is_some() && self.seats[seat].paused_until <= self.now {
                    let span = self.dice.harm.below(nanos(self.options.timing.session) * 2);
                    let span = if self.dice.harm.chance(1, 2) { span / 8 } else { span };
                    self.note(seat, || alloc::format!("pauses for {} ms", span / 1_000_000));
                    self.seats[seat].paused_until = self.now + span;
                }
            }
            Harm::Cut => self.cut(seat),
            Harm::Break => {
                let open = self.open_connections();
                if let Some(number) = self.dice.harm.pick(&open).copied() {
                    self.break_connection(number);
                }
            }
            Harm::Leave => self.leave(seat),
            Harm::Resign => self.resign(),
            Harm::Drift => {
                let rate = rate(&mut self.dice.harm, &self.options);
                let now = self.now;
                self.note(seat, || alloc::format!("clock runs at {rate} ppm"));
                self.seats[seat].clock.run_at(now, rate);
            }
        }
    }

    fn crash(&mut self, seat: usize) {
        let timing = &self.options.timing;
        let spans = [ms(1), timing.heartbeat, timing.session, timing.wait * 2];
        let down = self.dice.harm.pick(&spans).map_or(Duration::ZERO, |span| *span);
        self.crash_for(seat, nanos(down));
    }

    fn crash_for(&mut self, seat: usize, down: u64) {
        if self.seats[seat].process.is_some() {
            self.counters.crashes += 1;
            self.note(seat, || alloc::format!("crashes for {} ms", down / 1_000_000));
            self.kill(seat);
            self.agenda.push(self.now + down + 1, seat, 0, Event::Boot);
        }
    }

    fn leave(&mut self, seat: usize) {
        if let Some(process) = &mut self.seats[seat].process
            && !process.leaving
        {
            process.leaving = true;
            self.note(seat, || "wants to leave".into());
            self.push_here(self.now, seat, Event::Answer(Input::Leave));
        }
    }

    /// Whoever reigns is asked to resign.
    fn resign(&mut self) {
        let reigns = |seat: &usize| {
            let process = self.seats[*seat].process.as_ref();
            process.is_some_and(|process| process.node.allocator().term().is_some())
        };
        for seat in (0..self.seats.len()).filter(reigns).collect::<Vec<_>>() {
            self.note(seat, || "is asked to resign".into());
            self.push_here(self.now, seat, Event::Answer(Input::Resign));
        }
    }

    /// Cuts one seat off, one way or both ways; or the halves from each other; or single paths. Or delays what is sent on them.
    fn cut(&mut self, seat: usize) {
        let span = self.dice.harm.below(nanos(self.options.timing.session) * 3);
        let span = if self.dice.harm.chance(1, 2) { span / 4 } else { span };
        let until = self.now + span;
        let seats = self.seats.len();
        let pattern = self.dice.harm.below(7);
        let side: Vec<bool> = (0..seats).map(|_| self.dice.harm.chance(1, 2)).collect();
        for from in 0..seats {
            for to in 0..seats {
                let cut = match pattern {
                    0 => (from == seat) != (to == seat),
                    1 => from == seat,
                    2 => to == seat,
                    3 => side[from] != side[to],
                    4 => from == seat,
                    5 => false,
                    _ => self.dice.harm.chance(1, 3),
                };
                if cut && from != to {
                    self.cuts[from][to] = self.cuts[from][to].max(until);
                }
                // It is heard by nobody while what it hears is old; or a whole neighbourhood is slow.
                let clog = match pattern {
                    4 => to == seat,
                    5 => (from == seat) != (to == seat),
                    _ => false,
                };
                if clog {
                    self.clogs[from][to] = self.clogs[from][to].max(until);
                }
            }
        }
        self.note(seat, || alloc::format!("cut, pattern {pattern}, for {} ms", span / 1_000_000));
    }
}
