//! The voters change in the middle of it all (V1-V6).
//!
//! The operator here is hasty: whenever there is another set of voters, every node is told to load it, at a moment of its
//! own, and again and again while it refuses. So it is the machines that must keep the versions apart, not the operator's
//! patience. What a process has loaded it starts with the next time (V1); what it has refused it has not.

use alloc::format;
use alloc::vec::Vec;

use super::cluster::Cluster;
use super::event::Event;
use super::fault::{Fault, Who};
use super::marks::Mark;
use super::process::{address, id_of};
use crate::id::NodeId;
use crate::time::nanos;

/// A node that refused is told again after so long.
const AGAIN: u64 = 200_000_000;
/// The most voters that there may be.
const MOST: usize = 5;

impl Cluster {
    /// The newest set of voters, by seat.
    pub(super) fn voters(&self) -> &[usize] {
        self.voters.last().map_or(&[], Vec::as_slice)
    }

    /// A set of voters as the nodes are told of it; the first version is 1.
    pub(super) fn voters_of(&self, version: u32) -> Vec<(NodeId, alloc::string::String)> {
        let seats = self.voters.get(version as usize - 1).into_iter().flatten();
        seats.map(|seat| (id_of(*seat), address(*seat))).collect()
    }

    /// The newest version.
    pub(super) fn newest(&self) -> u32 {
        u32::try_from(self.voters.len()).unwrap_or(u32::MAX)
    }

    /// Adds a seat to the voters, or takes it away, unless that cannot be.
    pub(super) fn change_voters(&mut self, seat: usize, add: bool) {
        let mut voters = self.voters().to_vec();
        let is_one = voters.contains(&seat);
        if is_one == add || (add && voters.len() == MOST) || (!add && voters.len() == 1) {
            return;
        }
        voters.retain(|voter| *voter != seat);
        voters.extend(add.then_some(seat));
        voters.sort_unstable();
        self.note(seat, || format!("voters are to be {:?}", voters.iter().map(|seat| seat + 1).collect::<Vec<_>>()));
        self.voters.push(voters);
        for seat in 0..self.seats.len() {
            self.tell_to_load(seat, 100_000_000);
        }
    }

    /// Draws who comes or goes. Voters are rather too many than too few.
    pub(super) fn draw_voters(&mut self) {
        let voters = self.voters();
        let (few, many) = (voters.len() == 1, voters.len() == MOST.min(self.seats.len()));
        let add = few || (!many && self.dice.voters.chance(3, 5));
        let choice: Vec<usize> = (0..self.seats.len()).filter(|seat| self.voters().contains(seat) != add).collect();
        if let Some(seat) = self.dice.voters.pick(&choice).copied() {
            let who = Who::Node(seat + 1);
            self.do_now(if add { Fault::Enlist { who } } else { Fault::Retire { who } });
        }
    }

    /// The process at `seat` is told within so long to load the next version, if there is one.
    pub(super) fn tell_to_load(&mut self, seat: usize, within: u64) {
        let newest = self.newest();
        let place = &mut self.seats[seat];
        if place.version < newest
            && let Some(process) = &mut place.process
            && !core::mem::replace(&mut process.loads, true)
        {
            let at = self.now + self.dice.voters.below(within);
            self.push_here(at, seat, Event::Load);
        }
    }

    /// The process at `seat` loads the next version, or refuses.
    pub(super) fn load(&mut self, seat: usize) {
        let next = self.seats[seat].version + 1;
        let voters = self.voters_of(next);
        if let Some(process) = &mut self.seats[seat].process {
            process.loads = false;
        }
        let mut loaded = Ok(());
        let reigns = self.reigning(seat).is_some();
        self.node_call(seat, |node, now, out| loaded = node.load_voters(now, next, voters, out));
        match loaded {
            Ok(()) => {
                self.seats[seat].version = next;
                self.counters.voters_loaded += 1;
                self.mark(Mark::VotersLoaded);
                if reigns {
                    self.mark(Mark::VotersLoadedReigning);
                }
                self.note(seat, || format!("voters {next} loaded"));
                self.tell_to_load(seat, 100_000_000);
            }
            Err(why) => {
                self.mark(Mark::VotersRefused);
                self.note(seat, || format!("voters {next} refused: {why}"));
                self.tell_to_load(seat, AGAIN);
            }
        }
    }

    /// A version is said to be in force.
    pub(super) fn voters_in_force(&mut self, seat: usize, version: u32) {
        self.mark(Mark::VotersInForce);
        if self.voters.get(version as usize - 1).is_some_and(|voters| !voters.contains(&seat)) {
            self.mark(Mark::OutgoingReigns);
        }
        self.note(seat, || format!("voters {version} in force"));
    }

    /// How many versions are still to come into force everywhere: the calm waits for them.
    pub(super) fn versions_to_come(&self) -> u64 {
        let newest = self.newest();
        let oldest = self.seats.iter().map(|seat| seat.version).min().unwrap_or(newest);
        let known = |process: &super::process::Process| process.node.election().committed() >= newest;
        let all_know = self.seats.iter().all(|seat| seat.process.as_ref().is_some_and(known));
        u64::from(newest - oldest) + u64::from(newest > 1 && !all_know)
    }

    /// How long each of them may take: an election, if the coordinator goes, and what nodes need to hear of it.
    pub(super) fn version_bound(&self) -> u64 {
        let timing = &self.options.timing;
        nanos(timing.silence + timing.wait + timing.session) + 4 * AGAIN
    }
}
