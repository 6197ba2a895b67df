//! After the storm: what must hold again within a bound, and what must come to rest.

use alloc::format;
use alloc::string::String;
use core::sync::atomic::Ordering;

use super::cluster::Cluster;
use super::event::Event;
use super::options::{Faults, ms};
use crate::id::ShardId;
use crate::time::{Duration, nanos};

/// How often the cluster is looked at.
const LOOK: u64 = 100_000_000;
/// It must have been at rest for so long.
const REST: u64 = 1_500_000_000;

/// Elections that the end of the faults may need: one, and one for a coordinator that was only paused or slow. Each voter
/// that is on its way out may win two more on the way: one while it hands over, and one while it leaves.
const ELECTIONS_MAX: u64 = 2;

/// Where the run stands after the storm.
#[derive(Debug, Default)]
pub(super) struct Calm {
    began_at: Option<u64>,
    /// Elections before the calm, and at the roll call; and lapses then.
    elections: (u64, u64),
    lapses: u64,
    /// Processes on their way out when the calm began.
    leaving: u64,
    /// Sets of voters that were not in force everywhere then.
    versions: u64,
    /// When every node sent one last message to every entity.
    roll_call_at: Option<u64>,
    last_move_at: u64,
    over: bool,
}

impl Calm {
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn has_begun(&self) -> bool {
        self.began_at.is_some()
    }

    /// No more messages.
    pub(super) fn is_quiet(&self) -> bool {
        self.roll_call_at.is_some()
    }

    pub(super) fn moved(&mut self, now: u64) {
        self.last_move_at = now;
    }
}

impl Cluster {
    /// The faults stop; whoever is down starts.
    pub(super) fn begin_calm(&mut self) {
        self.note(0, || "the calm begins".into());
        self.settle_drill();
        if let Some(restless) = &self.restless {
            restless.store(false, Ordering::Relaxed);
        }
        self.faults = Faults { drift: self.faults.drift, ..Faults::none() };
        self.calm.began_at = Some(self.now);
        self.calm.elections.0 = self.counters.elections;
        let processes = self.seats.iter().filter_map(|seat| seat.process.as_ref());
        self.calm.leaving = processes.filter(|process| process.departure.is_some()).count() as u64;
        self.calm.versions = self.versions_to_come();
        for seat in 0..self.seats.len() {
            self.filters.clear();
            self.cuts[seat].fill(0);
            self.clogs[seat].fill(0);
            let at = self.now + self.dice.life.below(100_000_000);
            self.agenda.push(at, seat, 0, Event::Boot);
        }
        self.agenda.push(self.now + LOOK, 0, 0, Event::Look);
    }

    /// How long a cluster may take to have one coordinator and every shard placed: Q for the voters, an election, W for
    /// the quarantine, D for sessions, drains, the last pause, and what a departure under way takes.
    fn bound(&self) -> u64 {
        let timing = &self.options.timing;
        let departures = if self.calm.leaving > 0 { timing.drain * 4 } else { Duration::ZERO };
        nanos(timing.silence * 2 + timing.wait + timing.session * 4 + timing.drain * 3 + ms(2_000) + departures)
            + self.calm.versions * self.version_bound()
    }

    pub(super) fn look(&mut self) {
        let Some(began) = self.calm.began_at else { return };
        let most = ELECTIONS_MAX * (1 + self.calm.leaving + self.calm.versions);
        if self.counters.elections > self.calm.elections.0 + most {
            self.violated("election-storm", format!("{} elections since the faults ended", most + 1));
        }
        let Some(roll_call) = self.calm.roll_call_at else {
            if self.now >= began + self.bound() {
                self.roll_call();
            }
            self.agenda.push(self.now + LOOK, 0, 0, Event::Look);
            return;
        };
        // Healed is healed: whoever reigns goes on, and nobody's session ends.
        if self.counters.elections > self.calm.elections.1 {
            self.violated("election-after-heal", format!("{:?}, now {}", self.calm.elections, self.counters.elections));
        }
        if self.counters.lapses > self.calm.lapses {
            self.violated("lapse-after-heal", format!("{} lapses, then {}", self.calm.lapses, self.counters.lapses));
        }
        let unmet = self.unmet();
        let rest_since = roll_call.max(self.calm.last_move_at);
        match unmet {
            None if self.now >= rest_since + REST => self.calm.over = true,
            unmet => {
                let patience = self.options.stream.give_up_after + self.options.stream.close_wait + ms(3_000);
                if self.now >= roll_call + nanos(patience) {
                    let (property, witness) = unmet.unwrap_or_else(|| ("liveness", "shards still move".into()));
                    if property == "lost" {
                        self.counters.lost = self.model.open().count() as u64;
                    }
                    self.violated(property, witness);
                    self.calm.over = true;
                }
                self.agenda.push(self.now + LOOK, 0, 0, Event::Look);
            }
        }
    }

    /// Every node sends one message to every entity, in a large cluster to those it calls; then there is silence.
    fn roll_call(&mut self) {
        self.note(0, || "roll call".into());
        self.calm.roll_call_at = Some(self.now);
        self.calm.elections.1 = self.counters.elections;
        self.calm.lapses = self.counters.lapses;
        for seat in 0..self.seats.len() {
            for entity in self.called_by(seat) {
                self.send_message(seat, entity, entity % 3 == 0);
            }
        }
    }

    /// The first thing that does not hold yet.
    fn unmet(&self) -> Option<(&'static str, String)> {
        let reigns = (0..self.seats.len()).filter(|seat| self.reigning(*seat).is_some()).count();
        if reigns != 1 {
            return Some(("liveness", format!("{reigns} nodes reign")));
        }
        for seat in 0..self.seats.len() {
            if self.seats[seat].process.as_ref().is_none_or(|process| process.departure.is_some()) {
                return Some(("liveness", format!("node {} is not back, or still leaving", seat + 1)));
            }
        }
        if self.versions_to_come() > 0 {
            let versions: alloc::vec::Vec<u32> = self.seats.iter().map(|seat| seat.version).collect();
            let newest = self.newest();
            return Some(("liveness", format!("voters {newest} are not in force everywhere; loaded: {versions:?}")));
        }
        for shard in (0..self.options.shards).map(ShardId) {
            let owners = self.servers(shard);
            if owners != 1 {
                return Some(("liveness", format!("{shard} is wanted and served by {owners} nodes")));
            }
        }
        for (seat, place) in self.seats.iter().enumerate() {
            let lanes = place.process.iter().flat_map(|process| &process.lanes);
            let waiting: usize = lanes.map(|berth| berth.lane.kept()).sum();
            if waiting > 0 {
                return Some(("liveness", format!("node {} keeps {waiting} messages in its streams", seat + 1)));
            }
        }
        self.model.open().next().map(|open| ("lost", open))
    }
}
