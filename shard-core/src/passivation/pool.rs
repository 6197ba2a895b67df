//! One limit for a node, shared out among the lanes of a type.

use alloc::vec::Vec;

use super::Limit;
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
/// each lane moves towards its part. A lane that had an entity too heavy for its part is to get room for that one; but what is free is whose
/// who asks first, so lanes under pressure may take it before. The shares are never more than the limit in sum, unless the limit was lowered: then lanes
/// give up a sixteenth at a time, ten times a second, so that not everybody has to be put to sleep at once.
///
/// Units are those of the limit: entities, or what they weigh. Calls allocate nothing and are rare; evening looks at each lane
/// some sixty times.
#[derive(Clone, Debug)]
pub struct Pool {
    limit: u64,
    policy: &'static str,
    given: u64,
    lanes: Vec<Part>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Part {
    share: u64,
    wish: Wish,
    /// It has so much whatever the others wish.
    floor: u64,
    report: LaneReport,
}

impl Part {
    /// What it gets if wishes are fulfilled up to `level`.
    fn at(&self, level: u64) -> u64 {
        self.wish.want.min(level).max(self.floor)
    }
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
    /// The name of the policy that picks.
    pub policy: &'static str,
    /// The sums.
    pub lanes: LaneReport,
}

/// What a lane could use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// In all: what it holds, and what it had to put to sleep since it last said so.
    pub want: u64,
    /// Without which its heaviest entity cannot stay; not more than `want`.
    pub least: u64,
}

/// A lane's new share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evened {
    /// How much it may hold from now on.
    pub share: u64,
    /// What each lane would have if all had the same.
    pub equal: u64,
    /// It is to give up more: call again after [`EVEN_SOON`].
    pub more: bool,
}

/// The least that a lane which holds `held` and may hold less goes down to at once: by a sixteenth.
pub(crate) fn step_down(held: u64) -> u64 {
    held - (held / 16).max(16).min(held)
}

impl Pool {
    /// The pool of a type with so many lanes. Nothing is given out yet.
    #[must_use]
    pub fn new(limit: &Limit, lanes: u32) -> Self {
        let lanes = alloc::vec![Part::default(); lanes.max(1) as usize];
        Self { limit: limit.at_most.get(), policy: limit.policy.name(), given: 0, lanes }
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

    /// A lane says how it is and what it could use; see the type.
    pub fn even(&mut self, lane: u32, wish: Wish, report: LaneReport) -> Evened {
        let at = lane as usize;
        self.lanes[at].wish = wish;
        self.lanes[at].report = report;
        let target = self.target(at);
        let part = &mut self.lanes[at];
        if part.share > target {
            let share = target.max(step_down(report.census.held())).min(part.share);
            self.given -= part.share - share;
            part.share = share;
        } else {
            let free = self.limit.saturating_sub(self.given);
            let batch = (target - part.share).min(free);
            part.share += batch;
            self.given += batch;
        }
        let share = part.share;
        Evened { share, equal: self.limit / self.lanes.len() as u64, more: share > target }
    }

    /// A lane has nobody awake, and gives back all it has.
    pub fn give_back(&mut self, lane: u32, report: LaneReport) {
        let part = &mut self.lanes[lane as usize];
        self.given -= part.share;
        *part = Part { report, ..Part::default() };
    }

    /// What the lane should have. All targets are the limit in sum, but for what a division leaves when every wish is fulfilled.
    fn target(&mut self, lane: usize) -> u64 {
        self.find_floors();
        let sum = |level: u64| self.lanes.iter().fold(0_u64, |sum, part| sum.saturating_add(part.at(level)));
        let whole = sum(u64::MAX);
        if whole <= self.limit {
            return self.lanes[lane].at(u64::MAX) + (self.limit - whole) / self.lanes.len() as u64;
        }
        // The level to which all wishes can be fulfilled: at `low` they can, at `high` they cannot.
        let (mut low, mut high) = (0, u64::MAX);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if sum(middle) <= self.limit { low = middle } else { high = middle }
        }
        let grows = |part: &Part| part.at(high) > part.at(low);
        let before = self.lanes[..lane].iter().filter(|part| grows(part)).count() as u64;
        let rest = self.limit - sum(low);
        self.lanes[lane].at(low) + u64::from(grows(&self.lanes[lane]) && before < rest)
    }

    /// What each lane has before any wish: room for its heaviest entity. If there is not room for all of those, the lightest
    /// of them have it.
    fn find_floors(&mut self) {
        for at in 0..self.lanes.len() {
            let mine = (self.lanes[at].wish.least, at);
            let lighter =
                self.lanes.iter().enumerate().map(|(at, part)| (part.wish.least, at)).filter(|it| *it <= mine);
            let sum = lighter.fold(0_u64, |sum, (least, _)| sum.saturating_add(least));
            self.lanes[at].floor = if sum <= self.limit { mine.0 } else { 0 };
        }
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
        LimitReport { limit: self.limit, policy: self.policy, lanes: sum }
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
    use crate::passivation::Passivation;

    fn pool_of(limit: u64, lanes: u32) -> Pool {
        let limit = Passivation::at_most(limit).limit.expect("it has one");
        Pool::new(&limit, lanes)
    }

    fn wish(want: u64) -> Wish {
        Wish { want, least: 0 }
    }

    fn holding(weight: u64) -> LaneReport {
        let mut report = LaneReport::default();
        report.census.awake = Tally { count: u32::try_from(weight).unwrap(), weight };
        report
    }

    #[test]
    fn a_lane_alone_gets_all_of_it_and_no_more() {
        let mut pool = pool_of(1_000, 2);
        let mut share = 0;
        for _ in 0..40 {
            share = pool.more(0, 50);
        }
        assert_eq!((share, pool.given()), (1_000, 1_000));
        assert_eq!(pool.more(1, 1), 0);
    }

    #[test]
    fn those_who_want_little_get_it_and_the_others_equal_parts() {
        let mut pool = pool_of(1_000, 3);
        pool.more(0, 1_000);
        let full = holding(1_000);
        pool.even(1, wish(100), holding(0));
        pool.even(2, wish(5_000), holding(0));
        let mut last = pool.even(0, wish(5_000), full);
        let mut steps = 1;
        while last.more {
            assert!(pool.given() <= 1_000);
            last = pool.even(0, wish(5_000), holding(last.share));
            steps += 1;
        }
        assert_eq!(last.share, 450);
        assert!(steps > 10, "it gives up a sixteenth at a time: {steps}");
        assert_eq!(pool.even(2, wish(5_000), holding(0)).share, 450);
        assert_eq!(pool.even(1, wish(100), holding(0)).share, 100);
        assert_eq!(pool.given(), 1_000);
    }

    #[test]
    fn what_a_lane_does_not_hold_it_gives_up_at_once() {
        let mut pool = pool_of(1_600, 2);
        pool.more(0, 1_600);
        pool.even(1, wish(900), holding(0));
        assert_eq!(pool.even(0, wish(100), holding(100)), Evened { share: 100 + 300, equal: 800, more: false });
        assert_eq!(pool.even(1, wish(900), holding(0)).share, 1_200);
    }

    #[test]
    fn a_limit_that_was_lowered_is_reached_in_steps_and_one_that_was_raised_at_once() {
        let mut pool = pool_of(1_000, 1);
        pool.more(0, 1_000);
        pool.set_limit(300);
        assert_eq!(pool.more(0, 5), 1_000, "all is given out");
        let mut held = 1_000;
        for _ in 0..40 {
            let evened = pool.even(0, wish(held + 10), holding(held));
            assert!(held - evened.share.min(held) <= (held / 16).max(16));
            held = held.min(evened.share);
        }
        assert_eq!((held, pool.given()), (300, 300));
        pool.set_limit(2_000);
        assert_eq!(pool.even(0, wish(300), holding(300)), Evened { share: 2_000, equal: 2_000, more: false });
    }

    #[test]
    fn a_lane_gets_room_for_its_heaviest_entity_and_others_share_the_rest() {
        let mut pool = pool_of(1_000, 4);
        for lane in 0..4 {
            pool.more(lane, 250);
        }
        for _ in 0..40 {
            for lane in 1..4 {
                pool.even(lane, wish(900), holding(233));
            }
            pool.even(0, Wish { want: 900, least: 300 }, holding(250));
        }
        let shares = [0, 1, 2, 3].map(|lane: usize| pool.lanes[lane].share);
        assert_eq!((shares, pool.given()), ([300, 234, 233, 233], 1_000));
    }

    #[test]
    fn if_not_all_that_are_heavy_fit_the_lightest_do() {
        let mut pool = pool_of(1_000, 3);
        for _ in 0..40 {
            for (lane, least) in [(0, 700), (1, 400), (2, 500)] {
                pool.even(lane, Wish { want: least, least }, holding(0));
            }
        }
        let shares = [0, 1, 2].map(|lane: usize| pool.lanes[lane].share);
        assert_eq!(shares, [100, 400, 500]);
    }

    #[test]
    fn a_limit_of_fewer_than_there_are_lanes_is_given_to_some_of_them() {
        let mut pool = pool_of(3, 8);
        for _ in 0..4 {
            for lane in 0..8 {
                pool.even(lane, wish(10), holding(0));
            }
        }
        let shares: Vec<u64> = pool.lanes.iter().map(|part| part.share).collect();
        assert_eq!(shares, [1, 1, 1, 0, 0, 0, 0, 0]);
    }
}
