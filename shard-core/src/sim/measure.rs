//! What a run costs its users: how long shards were served by nobody, and why; and how many moved for one change.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use super::cluster::Cluster;
use crate::id::ShardId;
use crate::time::nanos;

/// Why a shard was served by nobody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// A process crashed that did not reign.
    Crash,
    /// A process crashed that reigned.
    CoordinatorCrash,
    /// A process was paused.
    Pause,
    /// A node was cut off, or some paths between nodes were, or were slow.
    Cut,
    /// The node that reigned was cut off.
    CoordinatorCut,
    /// A node left gracefully.
    Leave,
    /// The node that reigned left gracefully.
    CoordinatorLeave,
    /// A coordinator resigned.
    Resign,
    /// A node came.
    Join,
    /// A clock changed its rate.
    Clock,
    /// Control mail of one sort was dropped or held back.
    Mail,
    /// The shard was moved for a better balance.
    Move,
    /// None of these: its first placement, or the long end of something before.
    Other,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 13] = [
        Self::Crash,
        Self::CoordinatorCrash,
        Self::Pause,
        Self::Cut,
        Self::CoordinatorCut,
        Self::Leave,
        Self::CoordinatorLeave,
        Self::Resign,
        Self::Join,
        Self::Clock,
        Self::Mail,
        Self::Move,
        Self::Other,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::CoordinatorCrash => "coordinator-crash",
            Self::Pause => "pause",
            Self::Cut => "cut",
            Self::CoordinatorCut => "coordinator-cut",
            Self::Leave => "leave",
            Self::CoordinatorLeave => "coordinator-leave",
            Self::Resign => "resign",
            Self::Join => "join",
            Self::Clock => "clock",
            Self::Mail => "mail",
            Self::Move => "move",
            Self::Other => "other",
        }
    }
}

/// How often a shard was served by nobody for how many milliseconds, exactly; sums over runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gaps {
    /// By cause, and whether the shard's owner was struck itself (a victim) or not (a bystander).
    counts: BTreeMap<(Cause, bool), BTreeMap<u32, u64>>,
}

/// The gaps of one cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GapSummary {
    /// Why.
    pub cause: Cause,
    /// Whether the fault struck the shard's own owner.
    pub victim: bool,
    /// How many.
    pub count: u64,
    /// Half were no longer, in milliseconds.
    pub p50: u32,
    /// Of a hundred, 99 were no longer.
    pub p99: u32,
    /// The longest.
    pub max: u32,
}

impl Gaps {
    pub(super) fn note(&mut self, cause: Cause, victim: bool, millis: u64) {
        let millis = u32::try_from(millis).unwrap_or(u32::MAX);
        *self.counts.entry((cause, victim)).or_default().entry(millis).or_default() += 1;
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (key, theirs) in &other.counts {
            let ours = self.counts.entry(*key).or_default();
            for (millis, count) in theirs {
                *ours.entry(*millis).or_default() += count;
            }
        }
    }

    /// One line for each cause and role met.
    pub fn summary(&self) -> impl Iterator<Item = GapSummary> {
        self.counts.iter().map(|((cause, victim), counts)| {
            let count: u64 = counts.values().sum();
            let at = |permille: u64| {
                let rank = (count * permille).div_ceil(1_000).max(1);
                let mut seen = 0;
                let found = counts.iter().find(|(_, many)| {
                    seen += **many;
                    seen >= rank
                });
                found.map_or(0, |(millis, _)| *millis)
            };
            GapSummary { cause: *cause, victim: *victim, count, p50: at(500), p99: at(990), max: at(1_000) }
        })
    }
}

impl fmt::Display for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<18} {:<10} {:>8} {:>8} {:>8} {:>8}", "without owner, ms", "", "count", "p50", "p99", "max")?;
        for GapSummary { cause, victim, count, p50, p99, max } in self.summary() {
            let role = if victim { "victims" } else { "bystanders" };
            writeln!(f, "{:<18} {role:<10} {count:>8} {p50:>8} {p99:>8} {max:>8}", cause.name())?;
        }
        Ok(())
    }
}

/// What one change of the members cost in moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rebalance {
    /// Grants that were served after the change and before the calm.
    pub moves: u64,
    /// The least that any balanced placement needed.
    pub minimum: u64,
}

/// What is remembered to tell causes apart.
#[derive(Debug, Default)]
pub(super) struct Blame {
    /// Per seat: what struck it last, and when.
    seats: BTreeMap<usize, (Cause, u64)>,
    last: Option<(Cause, u64)>,
    /// Shards that drain only for a better balance.
    moving: BTreeMap<ShardId, u64>,
    /// Per shard that nobody serves: why, as far as was known when it began, and since when.
    open: BTreeMap<ShardId, (Cause, bool, u64)>,
    /// Owners and grants when the only change of a drill was made.
    before: Option<(Vec<Option<usize>>, u64)>,
    pub(super) rebalance: Option<Rebalance>,
}

impl Cluster {
    /// So long after a fault a gap is still its doing.
    fn reach_of_blame(&self) -> u64 {
        nanos(self.options.timing.wait) * 3
    }

    /// Something strikes these seats.
    pub(super) fn blame(&mut self, seats: &[usize], cause: Cause) {
        let now = self.now;
        for seat in seats {
            self.blames.seats.insert(*seat, (cause, now));
        }
        self.blames.last = Some((cause, now));
        if self.options.drill && self.blames.before.is_none() {
            let owners = (0..self.options.shards).map(|shard| self.checker.owner(ShardId(shard))).collect();
            self.blames.before = Some((owners, self.counters.grants));
        }
    }

    pub(super) fn drain_begins(&mut self, seat: usize, shard: ShardId) {
        if self.seats[seat].process.as_ref().is_some_and(|process| process.departure.is_none()) {
            self.blames.moving.insert(shard, self.now);
        }
    }

    /// Nobody serves the shard any more; `owner` did.
    pub(super) fn gap_begins(&mut self, shard: ShardId, owner: Option<usize>) {
        let now = self.now;
        let recent = now.saturating_sub(self.reach_of_blame());
        let struck = owner.and_then(|seat| self.blames.seats.get(&seat)).filter(|(_, at)| *at >= recent);
        let moving =
            self.blames.moving.get(&shard).filter(|at| **at >= recent && struck.is_none_or(|hit| hit.1 <= **at));
        let (cause, victim) = match (moving, struck, self.blames.last) {
            (Some(_), _, _) => (Cause::Move, true),
            (None, Some((cause, _)), _) => (*cause, true),
            (None, None, Some((cause, at))) if at >= recent => (cause, false),
            _ => (Cause::Other, false),
        };
        self.blames.open.insert(shard, (cause, victim, now));
    }

    /// Somebody serves it again.
    pub(super) fn gap_ends(&mut self, shard: ShardId) {
        self.blames.moving.remove(&shard);
        let Some((mut cause, mut victim, since)) = self.blames.open.remove(&shard) else { return };
        // A move that a fault met on its way: the shard is a bystander of that fault.
        if let Some((later, at)) = self.blames.last
            && cause == Cause::Move
            && at > since
        {
            (cause, victim) = (later, false);
        }
        self.gaps.note(cause, victim, (self.now - since) / 1_000_000);
    }

    /// The end of a drill: shards that were served all the time count as well, and moves are counted.
    pub(super) fn settle_drill(&mut self) {
        let Some((before, grants)) = self.blames.before.take() else { return };
        let Some((cause, at)) = self.blames.last else { return };
        for (shard, owner) in before.iter().enumerate() {
            let Some(owner) = owner else { continue };
            if self.checker.served_since(ShardId(shard as u32)) <= at {
                let victim = self.blames.seats.contains_key(owner);
                self.gaps.note(cause, victim, 0);
            }
        }
        let mut counts: BTreeMap<usize, u64> = (0..self.seats.len())
            .filter(|seat| *seat >= self.options.pure_voters && self.seats[*seat].process.is_some())
            .map(|seat| (seat, 0))
            .collect();
        let mut homeless = 0;
        for owner in before.into_iter().flatten() {
            match counts.get_mut(&owner) {
                Some(count) => *count += 1,
                None => homeless += 1,
            }
        }
        let moves = self.counters.grants - grants;
        self.blames.rebalance = Some(Rebalance { moves, minimum: minimum(counts.into_values(), homeless) });
    }
}

/// The fewest moves after which no two nodes differ by more than one shard.
fn minimum(counts: impl Iterator<Item = u64>, homeless: u64) -> u64 {
    let mut counts: Vec<u64> = counts.collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let nodes = counts.len().max(1) as u64;
    let total = counts.iter().sum::<u64>() + homeless;
    let (share, rest) = (total / nodes, total % nodes);
    let surplus = |(at, count): (usize, u64)| count.saturating_sub(share + u64::from((at as u64) < rest));
    homeless + counts.into_iter().enumerate().map(surplus).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_moves_fill_up_whoever_has_least() {
        assert_eq!(minimum([4, 4, 4, 0].into_iter(), 0), 3, "a node joins");
        assert_eq!(minimum([3, 3, 3].into_iter(), 3), 3, "a node left");
        assert_eq!(minimum([3, 3, 2, 2].into_iter(), 0), 0, "as even as it gets");
        assert_eq!(minimum([0, 6].into_iter(), 0), 3);
    }

    #[test]
    fn percentiles_are_those_of_all_gaps_of_all_runs() {
        let mut all = Gaps::default();
        for run in 0..10 {
            let mut gaps = Gaps::default();
            (0..10).for_each(|gap| gaps.note(Cause::Crash, true, run * 10 + gap + 1));
            all.add(&gaps);
        }
        let summary: Vec<_> = all.summary().collect();
        let expected = GapSummary { cause: Cause::Crash, victim: true, count: 100, p50: 50, p99: 99, max: 100 };
        assert_eq!(summary, [expected]);
    }
}
