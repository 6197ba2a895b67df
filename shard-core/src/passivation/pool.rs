//! One limit for a node, shared out among the lanes of a type.

use alloc::vec::Vec;

use super::policy::{Census, Tally};
use crate::time::Duration;

/// A lane looks whether its share is still right this often.
pub const EVEN_EVERY: Duration = Duration::from_secs(1);
/// And this often while it gives up more than it may at a time.
pub const EVEN_SOON: Duration = Duration::from_millis(100);

/// The limit of one entity type on one node, and what each of its lanes has of it.
///
/// A lane takes room as it needs it, in batches, until all is given out; so nobody is put to sleep while the node has room.
/// Each second a lane says how much it could use: what it holds, and what it had to put to sleep since it last said so. The
/// limit is shared by these wishes, so that small ones are fulfilled and the great ones get equal parts (max-min fairness), and
/// each lane moves towards its part. The shares are never more than the limit in sum, unless the limit was lowered: then lanes
/// give up a sixteenth at a time, ten times a second, so that not everybody has to be put to sleep at once.
///
/// Units are those of the limit: entities, or what they weigh. Calls cost O(lanes) at most, allocate nothing and are rare.
#[derive(Clone, Debug)]
pub struct Pool {
    limit: u64,
    given: u64,
    lanes: Vec<Part>,
    /// Reused between calls.
    sorted: Vec<u64>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Part {
    share: u64,
    want: u64,
    report: LaneReport,
}

/// What a lane last said of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneReport {
    /// Who is awake, pinned and stopping.
    pub census: Census,
    /// Messages that found their entity awake, since the beginning.
    pub hits: u64,
    /// Entities that were woken, since the beginning.
    pub creations: u64,
    /// Entities that were picked because there were too many, since the beginning.
    pub evictions: u64,
    /// Bytes that the policy has allocated.
    pub bytes: u64,
}

/// What the lanes of a type said of themselves, in sum: not older than a second while anything happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LimitReport {
    /// The limit.
    pub limit: u64,
    /// The sums.
    pub lanes: LaneReport,
}

/// A lane's new share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evened {
    /// How much it may hold from now on.
    pub share: u64,
    /// It is to give up more: call again after [`EVEN_SOON`].
    pub more: bool,
}

impl Pool {
    /// The pool of a type with so many lanes. Nothing is given out yet.
    #[must_use]
    pub fn new(limit: u64, lanes: usize) -> Self {
        Self { limit, given: 0, lanes: alloc::vec![Part::default(); lanes.max(1)], sorted: Vec::with_capacity(lanes) }
    }

    /// The limit.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Another limit. Lanes follow when they next look, within a second.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// A lane needs `wanted` more than its share: its new share, which is as before if all is given out. It gets more than it
    /// asked for, if that is there, so that it does not ask for every entity.
    pub fn more(&mut self, lane: u32, wanted: u64) -> u64 {
        let free = self.limit.saturating_sub(self.given);
        let batch = wanted.max(free / (4 * self.lanes.len() as u64)).min(free);
        let part = &mut self.lanes[lane as usize];
        part.share += batch;
        self.given += batch;
        part.share
    }

    /// A lane says how it is, and that it could use `want` in all; see the type.
    pub fn even(&mut self, lane: u32, want: u64, report: LaneReport) -> Evened {
        let at = lane as usize;
        self.lanes[at].want = want;
        self.lanes[at].report = report;
        let target = self.target(want);
        let part = &mut self.lanes[at];
        if part.share > target {
            let held = report.census.held();
            let lowest = held - (held / 16).max(16).min(held);
            let share = target.max(lowest).min(part.share);
            self.given -= part.share - share;
            part.share = share;
        } else {
            let free = self.limit.saturating_sub(self.given);
            let batch = (target - part.share).min(free);
            part.share += batch;
            self.given += batch;
        }
        Evened { share: part.share, more: part.share > target }
    }

    /// A lane has nobody awake, and gives back all it has.
    pub fn give_back(&mut self, lane: u32, report: LaneReport) {
        let part = &mut self.lanes[lane as usize];
        self.given -= part.share;
        *part = Part { share: 0, want: 0, report };
    }

    /// What a lane that could use `want` should have.
    fn target(&mut self, want: u64) -> u64 {
        self.sorted.clear();
        self.sorted.extend(self.lanes.iter().map(|part| part.want));
        self.sorted.sort_unstable();
        let (mut left, mut lanes) = (self.limit, self.sorted.len() as u64);
        for &wish in &self.sorted {
            if wish > left / lanes {
                // From here on nobody gets all of it: equal parts.
                return want.min(left / lanes);
            }
            left -= wish;
            lanes -= 1;
        }
        want + left / self.lanes.len() as u64
    }

    /// All that the lanes said, in sum.
    #[must_use]
    pub fn report(&self) -> LimitReport {
        let mut sum = LaneReport::default();
        let add = |to: &mut Tally, tally: Tally| {
            to.count += tally.count;
            to.weight += tally.weight;
        };
        for Part { report, .. } in &self.lanes {
            add(&mut sum.census.awake, report.census.awake);
            add(&mut sum.census.pinned, report.census.pinned);
            add(&mut sum.census.stopping, report.census.stopping);
            sum.hits += report.hits;
            sum.creations += report.creations;
            sum.evictions += report.evictions;
            sum.bytes += report.bytes;
        }
        LimitReport { limit: self.limit, lanes: sum }
    }

    /// What all shares are in sum.
    #[must_use]
    pub const fn given(&self) -> u64 {
        self.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(weight: u64) -> LaneReport {
        let mut report = LaneReport::default();
        report.census.awake = Tally { count: u32::try_from(weight).unwrap(), weight };
        report
    }

    #[test]
    fn a_lane_alone_gets_all_of_it_and_no_more() {
        let mut pool = Pool::new(1_000, 2);
        let mut share = 0;
        for _ in 0..40 {
            share = pool.more(0, 50);
        }
        assert_eq!((share, pool.given()), (1_000, 1_000));
        assert_eq!(pool.more(1, 1), 0);
    }

    #[test]
    fn those_who_want_little_get_it_and_the_others_equal_parts() {
        let mut pool = Pool::new(1_000, 3);
        pool.more(0, 1_000);
        let full = holding(1_000);
        pool.even(1, 100, holding(0));
        pool.even(2, 5_000, holding(0));
        let mut last = pool.even(0, 5_000, full);
        let mut steps = 1;
        while last.more {
            assert!(pool.given() <= 1_000);
            last = pool.even(0, 5_000, holding(last.share));
            steps += 1;
        }
        assert_eq!(last.share, 450);
        assert!(steps > 10, "it gives up a sixteenth at a time: {steps}");
        assert_eq!(pool.even(2, 5_000, holding(0)).share, 450);
        assert_eq!(pool.even(1, 100, holding(0)).share, 100);
        assert_eq!(pool.given(), 1_000);
    }

    #[test]
    fn what_a_lane_does_not_hold_it_gives_up_at_once() {
        let mut pool = Pool::new(1_600, 2);
        pool.more(0, 1_600);
        pool.even(1, 900, holding(0));
        assert_eq!(pool.even(0, 100, holding(100)), Evened { share: 100 + 300, more: false });
        assert_eq!(pool.even(1, 900, holding(0)).share, 1_200);
    }

    #[test]
    fn a_limit_that_was_lowered_is_reached_in_steps_and_one_that_was_raised_at_once() {
        let mut pool = Pool::new(1_000, 1);
        pool.more(0, 1_000);
        pool.set_limit(300);
        assert_eq!(pool.more(0, 5), 1_000, "all is given out");
        let mut held = 1_000;
        for _ in 0..40 {
            let evened = pool.even(0, held + 10, holding(held));
            assert!(held - evened.share.min(held) <= (held / 16).max(16));
            held = held.min(evened.share);
        }
        assert_eq!((held, pool.given()), (300, 300));
        pool.set_limit(2_000);
        assert_eq!(pool.even(0, 300, holding(300)), Evened { share: 2_000, more: false });
    }
}
