//! The handle for whoever watches a strategy that moves shards by itself.

use crate::time::Instant;

/// What a [`Rebalancing`](super::Rebalancing) or a [`Repartitioning`](super::Repartitioning) is told and what it tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Switch {
    /// Nothing moves before.
    suspended: Option<Instant>,
    report: Report,
}

impl Switch {
    /// Running, with nothing to report yet.
    #[must_use]
    pub const fn new() -> Self {
        let report = Report { imbalance_ppm: None, cut_ppm: None, cycles: 0, moves: 0, completed: 0, failed: 0 };
        Self { suspended: None, report }
    }

    /// No more moves before `until`; [`Instant::NEVER`] for no end. The latest call counts, a shorter time replaces a longer
    /// one. Moves under way are not called back.
    pub const fn suspend(&mut self, until: Instant) {
        self.suspended = Some(until);
    }

    /// Moves are made again.
    pub const fn resume(&mut self) {
        self.suspended = None;
    }

    /// Until when it is suspended, if it is at `now`.
    #[must_use]
    pub fn suspended(&self, now: Instant) -> Option<Instant> {
        self.suspended.filter(|until| now < *until)
    }

    /// What was done, and how far the cluster is from where it shall be.
    #[must_use]
    pub const fn report(&self) -> Report {
        self.report
    }

    pub(super) const fn report_mut(&mut self) -> &mut Report {
        &mut self.report
    }
}

/// What was found and done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// By how many millionths the entropy of the last cycle fell short of the greatest: 0 is balance. `None`: no cycle yet,
    /// fewer than two nodes, or it is not what this strategy looks at.
    pub imbalance_ppm: Option<u32>,
    /// How many millionths of what shards say to each other went from one node to another before the last cycle's moves.
    /// `None`: no cycle yet, nobody has observed anything, or it is not what this strategy looks at.
    pub cut_ppm: Option<u32>,
    /// How often it has looked.
    pub cycles: u64,
    /// Moves proposed and taken into a plan.
    pub moves: u64,
    /// Sessions, from the first move on, that ended when there was nothing left to better.
    pub completed: u64,
    /// Sessions given up since moves did not bring the cluster nearer to its balance.
    pub failed: u64,
}
