//! Moves that even out memory and load: Orleans' activation rebalancing, corrected.

mod share;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::shared::Source;
use super::switch::{Report, Switch};
use super::{AllocationStrategy, ClusterView, Needs, NodeIx, Plan, Request, Why};
use crate::id::ShardId;
use crate::time::{Duration, Instant};
use share::Shares;

/// Evens out nodes by memory and load together, after Orleans' activation rebalancing (10.0), with the rule that its
/// documentation describes rather than the one its source computes.
///
/// A node of capacity `c` with `m` bytes in use shall carry load in proportion to `c / m`: nodes with 400, 100, 100 and 100
/// MB and 400 shards among them shall have 31, 123, 123 and 123. Loads are what owners report, or one for each shard.
/// Unless every candidate reports memory, all count as equally full. In each cycle the node with the greatest surplus gives
/// to the one with the greatest lack, over and over, the shard that brings both nearest to their targets; a move that does
/// not is never made, so moves end by themselves, as finely as whole shards allow. A cycle makes up only for a part of the
/// surplus ([`correcting`](Self::correcting)), since memory falls with the load that leaves.
///
/// The inner strategy places; its own plans are not asked for, as two who balance by different measures never rest. Cycles
/// from the first move to balance are a *session*. A session whose moves change nothing is given up, for twice as long
/// each time. A type that shall never be moved is left without this wrapper.
///
/// Suspended, resumed and watched through [`switch`](Self::switch), or through a clone of the `Shared` it was made with.
#[derive(Clone, Debug)]
pub struct Rebalancing<S, C = Switch> {
    inner: S,
    switch: C,
    terms: Terms,
    /// As the last cycle left it, and as it found it: to plan twice at one moment is one cycle.
    session: Session,
    before: Session,
}

#[derive(Clone, Copy, Debug)]
struct Terms {
    every: Duration,
    cool_down: Duration,
    correction_permille: u32,
    ramp_permille: u32,
    allowed_ppm: u32,
    quantum_ppm: u32,
    stagnant_max: u32,
    move_cost: u64,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    at: Option<Instant>,
    /// Not before.
    next: Instant,
    cycle: u32,
    stagnant: u32,
    /// In a row.
    failed: u32,
    imbalance_ppm: u32,
}

impl<S, C: Source<Switch>> Rebalancing<S, C> {
    /// `inner` places. A cycle every 15 s that makes up for half the surplus; a shard that came less than a minute ago
    /// stays; 10 millionths of imbalance are balance, and so is what no whole shard can improve; more than three cycles in
    /// a row without progress end a session. (Orleans allows 100 millionths: of 610 shards on four nodes, some have five
    /// more than others.)
    #[must_use]
    pub const fn new(inner: S, switch: C) -> Self {
        let terms = Terms {
            every: Duration::from_secs(15),
            cool_down: Duration::from_secs(60),
            correction_permille: 500,
            ramp_permille: 0,
            allowed_ppm: 10,
            quantum_ppm: 100,
            stagnant_max: 3,
            move_cost: 0,
        };
        let fresh = Session { at: None, next: Instant::ZERO, cycle: 0, stagnant: 0, failed: 0, imbalance_ppm: 0 };
        Self { inner, switch, terms, session: fresh, before: fresh }
    }

    /// A cycle at most once in `period`: at least twice the time between two reports of memory, or it acts on what it has
    /// changed already.
    #[must_use]
    pub const fn every(mut self, period: Duration) -> Self {
        self.terms.every = period;
        self
    }

    /// A shard that came less than `cool_down` ago stays.
    #[must_use]
    pub const fn cooling_down(mut self, cool_down: Duration) -> Self {
        self.terms.cool_down = cool_down;
        self
    }

    /// A cycle makes up for `permille` thousandths of a node's surplus, or moves one shard. Where memory is in proportion to
    /// load, 500 lands on the balance and 1,000 would go as far beyond it.
    #[must_use]
    pub const fn correcting(mut self, permille: u32) -> Self {
        self.terms.correction_permille = permille;
        self
    }

    /// The first cycles of a session do less: cycle `c` does 1 - (`permille` / 1,000)^c of its part. Orleans' weight of 0.1
    /// is 905 (e^-0.1); 0, the default, is no ramp.
    #[must_use]
    pub const fn ramping(mut self, permille: u32) -> Self {
        self.terms.ramp_permille = if permille > 999 { 999 } else { permille };
        self
    }

    /// So many millionths of imbalance are balance: as given up to 100,000 of load, ten times as many for each power of ten
    /// above, 100,000 at most.
    #[must_use]
    pub const fn allowing(mut self, ppm: u32) -> Self {
        self.terms.allowed_ppm = ppm;
        self
    }

    /// More than `cycles` cycles in a row that change the imbalance by less than `quantum_ppm` millionths end a session.
    #[must_use]
    pub const fn stagnating(mut self, cycles: u32, quantum_ppm: u32) -> Self {
        (self.terms.stagnant_max, self.terms.quantum_ppm) = (cycles, quantum_ppm);
        self
    }

    /// A move must bring giver and taker nearer to their targets by more than `move_cost`, in the unit of loads.
    #[must_use]
    pub const fn costing(mut self, move_cost: u64) -> Self {
        self.terms.move_cost = move_cost;
        self
    }

    /// The switch, or what shares it.
    pub const fn switch(&mut self) -> &mut C {
        &mut self.switch
    }

    /// What was found and done so far.
    pub fn report(&mut self) -> Report {
        self.switch.consult(|switch| switch.report())
    }
}

impl<S: AllocationStrategy, C: Source<Switch>> AllocationStrategy for Rebalancing<S, C> {
    fn name(&self) -> &'static str {
        "rebalancing"
    }

    fn needs(&self) -> Needs {
        self.inner.needs().with_loads()
    }

    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.inner.place(view, request)
    }

    /// O(shards + nodes) in balance; else O(shards + s log s + moves x candidates) for `s` shards on nodes with a surplus.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        if self.session.at == Some(view.now()) {
            self.session = self.before;
        }
        self.before = self.session;
        let suspended = self.switch.consult(|switch| switch.suspended(view.now()));
        if suspended.is_some() || view.now() < self.session.next || plan.budget() == 0 {
            return;
        }
        let terms = self.terms;
        let shares = Shares::of(view, plan);
        let imbalance = shares.imbalance_ppm();
        self.session.at = Some(view.now());
        self.session.next = view.now() + terms.every;
        let balanced = imbalance.is_none_or(|ppm| ppm < shares.allowed_ppm(terms.allowed_ppm));
        let cycle = self.session.cycle + 1;
        let moves = if balanced { 0 } else { even_out(view, plan, shares, terms, terms.part(cycle)) };
        let (mut completed, mut failed) = (0, 0);
        let now_ppm = imbalance.unwrap_or(0);
        if moves == 0 {
            completed = u64::from(self.session.cycle > 0);
            self.session = Session { failed: self.session.failed, ..self.session.over() };
        } else {
            let stuck = self.session.cycle > 0 && self.session.imbalance_ppm.abs_diff(now_ppm) < terms.quantum_ppm;
            self.session.stagnant = if stuck { self.session.stagnant + 1 } else { 0 };
            self.session.failed = if stuck || self.session.cycle == 0 { self.session.failed } else { 0 };
            (self.session.cycle, self.session.imbalance_ppm) = (cycle, now_ppm);
            if self.session.stagnant > terms.stagnant_max {
                failed = 1;
                let times = 2_u32 << self.session.failed.min(6);
                let next = view.now() + terms.every.saturating_mul(times);
                self.session = Session { failed: self.session.failed + 1, next, ..self.session.over() };
            }
        }
        self.switch.consult(|switch| {
            let report = switch.report_mut();
            report.imbalance_ppm = imbalance;
            report.cycles += 1;
            report.moves += moves;
            report.completed += completed;
            report.failed += failed;
        });
    }
}

impl Session {
    /// The next one begins at its first cycle.
    const fn over(self) -> Self {
        Self { cycle: 0, stagnant: 0, imbalance_ppm: 0, ..self }
    }
}

impl Terms {
    /// How many millionths of a surplus the cycle of this number makes up for.
    fn part(&self, cycle: u32) -> u64 {
        // Beyond a thousand cycles nothing is left of any ramp worth the name.
        let left = (0..cycle.min(1_000)).fold(1_000_000, |left, _| left * u64::from(self.ramp_permille) / 1_000);
        (1_000_000 - left) * u64::from(self.correction_permille) / 1_000
    }
}

/// Moves shards from the greatest surplus to the greatest lack; returns how many.
fn even_out(view: &ClusterView<'_>, plan: &mut Plan<'_>, mut shares: Shares, terms: Terms, part: u64) -> u64 {
    let settled = |shard: &ShardId| view.age(*shard).is_some_and(|age| age >= terms.cool_down);
    let mut offers: Vec<(NodeIx, u64, Reverse<ShardId>)> = view
        .shards()
        .filter(|shard| !plan.is_moving(*shard) && settled(shard))
        .filter_map(|shard| Some((view.home(shard)?, share::weight(view, shard), Reverse(shard))))
        .filter(|(home, weight, _)| *weight > 0 && view.is_candidate(*home) && shares.surplus(*home) > 0)
        .collect();
    offers.sort_unstable();
    let mut taken = alloc::vec![false; offers.len()];
    let mut givers: Vec<NodeIx> = view.candidates().iter().copied().filter(|ix| shares.surplus(*ix) > 0).collect();
    // What each may still give; the first move of the round is always allowed, or small surpluses would stay.
    let mut left: Vec<i64> = shares.parts(part);
    let mut moves = 0;
    while plan.budget() > 0 {
        let givable = givers.iter().copied().filter(|ix| moves == 0 || left[ix.at()] > 0);
        let giver = givable.max_by(|a, b| shares.surplus(*a).cmp(&shares.surplus(*b)).then(b.cmp(a)));
        let taker = view.candidates().iter().copied().min_by_key(|ix| (shares.surplus(*ix), *ix));
        let (Some(from), Some(to)) = (giver, taker) else { break };
        let gap = shares.surplus(from) - shares.surplus(to);
        let range = offers.partition_point(|offer| offer.0 < from)..offers.partition_point(|offer| offer.0 <= from);
        let best = nearest(&offers[range.clone()], &taken[range.clone()], gap, terms.move_cost);
        let Some(at) = best.map(|at| range.start + at) else {
            givers.retain(|ix| *ix != from);
            continue;
        };
        let (_, weight, Reverse(shard)) = offers[at];
        taken[at] = true;
        if plan.propose(shard, to, Why::Load).is_ok() {
            shares.transfer(from, to, weight);
            left[from.at()] -= share::fixed(weight);
            moves += 1;
        }
    }
    moves
}

/// The shard whose move leaves giver and taker, `gap` apart, the nearest to their targets: the one that weighs about half the
/// gap, if its move gains more than it costs.
fn nearest(offers: &[(NodeIx, u64, Reverse<ShardId>)], taken: &[bool], gap: i64, cost: u64) -> Option<usize> {
    let middle = offers.partition_point(|offer| share::fixed(offer.1) <= gap / 2);
    let lighter = (0..middle).rev().find(|at| !taken[*at]);
    let heavier = (middle..offers.len()).find(|at| !taken[*at]);
    // How much smaller the gap gets; at least half a unit, which no rounding of targets reaches.
    let gain = |at: usize| gap - (gap - 2 * share::fixed(offers[at].1)).abs();
    let least = share::fixed(cost).max(share::HALF / 64);
    let gains = |at: &usize| gain(*at) > least;
    [lighter, heavier].into_iter().flatten().filter(gains).max_by_key(|at| (gain(*at), offers[*at].2))
}
