//! When a process wakes by itself: its machines' deadlines, on its own clock, a little late.

use super::cluster::Cluster;
use super::event::Event;
use super::process::Process;
use crate::time::Instant;

impl Process {
    /// A pause moves a timer.
    pub(super) fn timer_put_off(&mut self, event: &Event, was: u64, until: u64) {
        let timer = match event {
            Event::NodeTimer => &mut self.node_timer,
            Event::LinkTimer => &mut self.link_timer,
            Event::LaneTimer { lane } => &mut self.lanes[*lane].timer,
            _ => return,
        };
        if *timer == was {
            *timer = until;
        }
    }
}

impl Cluster {
    /// The real moment at which a timer for a local deadline fires: a little late.
    fn fires(&mut self, seat: usize, deadline: Instant) -> u64 {
        let late = self.dice.net.below(500_000) + 1_000;
        self.seats[seat].clock.when(deadline).max(self.now) + late
    }

    pub(super) fn set_node_timer(&mut self, seat: usize) {
        let Some(deadline) = self.seats[seat].process.as_ref().and_then(|process| process.node.deadline()) else {
            return;
        };
        if self.seats[seat].clock.when(deadline) >= self.process_mut(seat).map_or(0, |process| process.node_timer) {
            return;
        }
        let at = self.fires(seat, deadline);
        if let Some(process) = self.process_mut(seat) {
            process.node_timer = at;
        }
        self.push_here(at, seat, Event::NodeTimer);
    }

    pub(super) fn node_timer(&mut self, seat: usize, at: u64) {
        let Some(process) = self.process_mut(seat) else { return };
        if process.node_timer != at {
            return;
        }
        process.node_timer = u64::MAX;
        self.node_call(seat, |_, _, _| {});
    }

    pub(super) fn set_lane_timer(&mut self, seat: usize, lane: usize) {
        let Some(process) = &self.seats[seat].process else { return };
        let berth = &process.lanes[lane];
        let Some(deadline) = berth.lane.deadline() else { return };
        if self.seats[seat].clock.when(deadline) >= berth.timer {
            return;
        }
        let at = self.fires(seat, deadline);
        if let Some(process) = self.process_mut(seat) {
            process.lanes[lane].timer = at;
        }
        self.push_here(at, seat, Event::LaneTimer { lane });
    }

    pub(super) fn lane_timer(&mut self, seat: usize, lane: usize, at: u64) {
        let Some(process) = self.process_mut(seat) else { return };
        if process.lanes[lane].timer != at {
            return;
        }
        process.lanes[lane].timer = u64::MAX;
        self.lane_call(seat, lane, |lane, now, host| lane.expire(now, host));
    }

    pub(super) fn set_link_timer(&mut self, seat: usize) {
        let Some(process) = &self.seats[seat].process else { return };
        let Some(deadline) = process.links.deadline() else { return };
        if self.seats[seat].clock.when(deadline) >= process.link_timer {
            return;
        }
        let at = self.fires(seat, deadline);
        if let Some(process) = self.process_mut(seat) {
            process.link_timer = at;
        }
        self.push_here(at, seat, Event::LinkTimer);
    }
}
