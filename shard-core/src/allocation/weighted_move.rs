//! By load, with a budget.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::choices::by_room;
use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why};
use crate::id::ShardId;
use crate::time::Duration;

/// Moves load from the hottest node to the coldest, after Slicer (Adya and others 2016), without its splitting of shards.
///
/// Loads are compared for the capacities of their nodes. It begins when a node is hotter than `start` of the mean and goes
/// on to `stop`, within one plan; each move is the shard that takes most off the hotter of the two nodes, for what it
/// costs, and is made only if it takes off more. A plan moves a share of all load at most, what is on its way included; a
/// shard that has just come stays for a while. A shard that is hotter than a node should be stays where it is, and the rest
/// goes away from it: nobody can do better without splitting it.
///
/// Loads are what owners report ([`ClusterView::load`]); smoothing them is the reporter's part. Where none is reported,
/// every shard weighs the same. A shard without a home has no load yet, so it goes where there is most room by count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WeightedMove {
    start_permille: u32,
    stop_permille: u32,
    moved_permille: u32,
    cool_down: Duration,
    move_cost: u64,
}

impl WeightedMove {
    /// Begins at 1,150 thousandths of the mean and stops at 1,050; moves 9 hundredths of all load in a plan, a shard once in
    /// five minutes, and pays nothing for a move but a quarter of its load.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            start_permille: 1_150,
            stop_permille: 1_050,
            moved_permille: 90,
            cool_down: Duration::from_secs(300),
            move_cost: 0,
        }
    }

    /// Begins when a node has more than `start_permille` thousandths of the mean, and goes on down to `stop_permille`, or
    /// to `start_permille` if that is less.
    #[must_use]
    pub const fn hysteresis(self, start_permille: u32, stop_permille: u32) -> Self {
        Self { start_permille, stop_permille, ..self }
    }

    /// At most so many thousandths of all load are on their way at once. One shard always may be.
    #[must_use]
    pub const fn moving_at_most(self, moved_permille: u32) -> Self {
        Self { moved_permille, ..self }
    }

    /// A shard that came less than `cool_down` ago stays.
    #[must_use]
    pub const fn cooling_down(self, cool_down: Duration) -> Self {
        Self { cool_down, ..self }
    }

    /// What a move costs on top of a quarter of the shard's load, in the unit of loads.
    #[must_use]
    pub const fn costing(self, move_cost: u64) -> Self {
        Self { move_cost, ..self }
    }
}

impl Default for WeightedMove {
    fn default() -> Self {
        Self::new()
    }
}

impl AllocationStrategy for WeightedMove {
    fn name(&self) -> &'static str {
        "weighted-move"
    }

    /// Where the fewest shards are for the capacity. O(candidates).
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        view.candidates().iter().copied().min_by(|a, b| by_room(view, *a, *b))
    }

    /// O(shards) while nobody is hot; else O(shards + s log s + moves x candidates) for `s` shards on the hot
    /// nodes that get to give.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let mut loads = Loads::weigh(view, plan);
        let stop = self.stop_permille.min(self.start_permille);
        if plan.budget() == 0 || !view.candidates().iter().any(|ix| loads.is_above(*ix, self.start_permille)) {
            return;
        }
        let mut offers = Offers::collect(view, plan, &loads, stop, self.cool_down);
        let allowed = u128::from(loads.total) * u128::from(self.moved_permille) / 1_000;
        let allowed = u64::try_from(allowed).unwrap_or(u64::MAX);
        let mut givers: Vec<NodeIx> = view.candidates().to_vec();
        while plan.budget() > 0 {
            let hot = givers.iter().copied().filter(|ix| loads.is_above(*ix, stop));
            let hottest = hot.max_by(|a, b| loads.compare(*a, *b).then(b.cmp(a)));
            let coldest = view.candidates().iter().copied().min_by(|a, b| loads.compare(*a, *b).then(a.cmp(b)));
            let (Some(from), Some(to)) = (hottest, coldest) else { return };
            let room = if loads.moving == 0 { u64::MAX } else { allowed.saturating_sub(loads.moving) };
            let best = offers.best(&loads, from, to, room, self.move_cost);
            match best.filter(|(_, shard, _)| plan.propose(*shard, to, Why::Load).is_ok()) {
                Some((at, _, weight)) => {
                    offers.taken[at] = true;
                    loads.transfer(from, to, weight);
                }
                None => givers.retain(|ix| *ix != from),
            }
        }
    }
}

/// What a shard weighs.
fn weight(view: &ClusterView<'_>, shard: ShardId) -> u64 {
    view.load(shard).map_or(1, u64::from)
}

/// What every node carries, or will when everything in flight and planned is over.
#[derive(Debug)]
struct Loads {
    nodes: Vec<u64>,
    capacities: Vec<u64>,
    /// Of the candidates.
    total: u64,
    capacity: u64,
    /// On its way, or planned to be.
    moving: u64,
}

impl Loads {
    fn weigh(view: &ClusterView<'_>, plan: &Plan<'_>) -> Self {
        let mut nodes = alloc::vec![0; view.nodes().len()];
        let mut moving = 0;
        for shard in view.shards() {
            let Some(ix) = view.counted(shard) else { continue };
            nodes[ix.at()] += weight(view, shard);
            if view.is_moving(shard) && !view.is_held(shard) {
                moving += weight(view, shard);
            }
        }
        let capacities: Vec<u64> = view.nodes().iter().map(|node| u64::from(node.capacity.max(1))).collect();
        let mut loads = Self { nodes, capacities, total: 0, capacity: 0, moving };
        // What an outer strategy does not show was not weighed.
        let shown = plan.moves().iter().filter(|m| view.home(m.shard) == Some(m.from));
        shown.for_each(|m| loads.transfer(m.from, m.to, weight(view, m.shard)));
        loads.total = view.candidates().iter().map(|ix| loads.nodes[ix.at()]).sum();
        loads.capacity = view.candidates().iter().map(|ix| loads.capacities[ix.at()]).sum();
        loads
    }

    fn transfer(&mut self, from: NodeIx, to: NodeIx, weight: u64) {
        self.nodes[from.at()] -= weight;
        self.nodes[to.at()] += weight;
        self.moving += weight;
    }

    /// Whether a node has more than so many thousandths of its share.
    fn is_above(&self, ix: NodeIx, permille: u32) -> bool {
        let has = u128::from(self.nodes[ix.at()]) * u128::from(self.capacity) * 1_000;
        has > u128::from(self.total) * u128::from(self.capacities[ix.at()]) * u128::from(permille)
    }

    /// By load for the capacity.
    fn compare(&self, a: NodeIx, b: NodeIx) -> core::cmp::Ordering {
        let scaled =
            |ix: NodeIx, other: NodeIx| u128::from(self.nodes[ix.at()]) * u128::from(self.capacities[other.at()]);
        scaled(a, b).cmp(&scaled(b, a))
    }

    /// How much lower the hotter of two nodes gets, in the hot one's load, if a shard of that weight moves.
    fn gain(&self, hot: NodeIx, cold: NodeIx, weight: u64) -> u64 {
        let [hot_capacity, cold_capacity] = [hot, cold].map(|ix| u128::from(self.capacities[ix.at()]));
        let then = (u128::from(self.nodes[cold.at()]) + u128::from(weight)) * hot_capacity;
        let then = u64::try_from(then.div_ceil(cold_capacity)).unwrap_or(u64::MAX);
        weight.min(self.nodes[hot.at()].saturating_sub(then))
    }

    /// The weight that would make two nodes equally hot, rounded down.
    fn even(&self, hot: NodeIx, cold: NodeIx) -> u64 {
        let scaled = |a: NodeIx, b: NodeIx| u128::from(self.nodes[a.at()]) * u128::from(self.capacities[b.at()]);
        let capacity = u128::from(self.capacities[hot.at()] + self.capacities[cold.at()]);
        u64::try_from(scaled(hot, cold).saturating_sub(scaled(cold, hot)) / capacity).unwrap_or(u64::MAX)
    }
}

/// The shards that hot nodes can give, node by node.
#[derive(Debug)]
struct Offers {
    /// Once a node is sorted, by weight; of equals the lowest number last, where a search from above finds it first.
    shards: Vec<(u32, Reverse<ShardId>)>,
    taken: Vec<bool>,
    /// Per node: where its shards end. They begin where those of the node before it end.
    ends: Vec<usize>,
    sorted: Vec<bool>,
}

impl Offers {
    /// Two passes over the shards and no sorting: few nodes may get to give before the budget is spent.
    fn collect(view: &ClusterView<'_>, plan: &Plan<'_>, loads: &Loads, stop: u32, cool_down: Duration) -> Self {
        let mut hot = alloc::vec![false; view.nodes().len()];
        view.candidates().iter().for_each(|ix| hot[ix.at()] = loads.is_above(*ix, stop));
        let offer = |shard: ShardId| {
            let home = view.home(shard).filter(|home| hot[home.at()])?;
            let weight = view.load(shard).unwrap_or(1);
            let settled = view.age(shard).is_some_and(|age| age >= cool_down);
            (weight > 0 && settled && !plan.is_moving(shard)).then_some((home, weight))
        };
        let mut ends = alloc::vec![0; view.nodes().len()];
        view.shards().filter_map(offer).for_each(|(home, _)| ends[home.at()] += 1);
        let mut all = 0;
        for end in &mut ends {
            // Where it begins, for now; filling in its shards moves it to the end.
            all += core::mem::replace(end, all);
        }
        let mut shards = alloc::vec![(0, Reverse(ShardId(0))); all];
        for shard in view.shards() {
            if let Some((home, weight)) = offer(shard) {
                shards[ends[home.at()]] = (weight, Reverse(shard));
                ends[home.at()] += 1;
            }
        }
        Self { shards, taken: alloc::vec![false; all], ends, sorted: alloc::vec![false; view.nodes().len()] }
    }

    /// Where the shards of a node are, sorted.
    fn of(&mut self, ix: NodeIx) -> core::ops::Range<usize> {
        let range = if ix.at() == 0 { 0 } else { self.ends[ix.at() - 1] }..self.ends[ix.at()];
        if !core::mem::replace(&mut self.sorted[ix.at()], true) {
            self.shards[range.clone()].sort_unstable();
        }
        range
    }

    /// The shard of `from` whose move to `to` gains most over its cost, with its position and weight: the heaviest that
    /// leaves `from` no colder than `to`, or the lightest that does.
    fn best(&mut self, loads: &Loads, from: NodeIx, to: NodeIx, room: u64, cost: u64) -> Option<(usize, ShardId, u64)> {
        let range = self.of(from);
        let fits = loads.even(from, to).min(room);
        let middle = self.shards[range.clone()].partition_point(|(weight, _)| u64::from(*weight) <= fits);
        let middle = range.start + middle;
        let free = |at: &usize| !self.taken[*at];
        let lighter = (range.start..middle).rev().find(free);
        let heavier = (middle..range.end).find(free).filter(|at| u64::from(self.shards[*at].0) <= room);
        let surplus = |at: usize| {
            let (weight, Reverse(shard)) = self.shards[at];
            let weight = u64::from(weight);
            let surplus = loads.gain(from, to, weight).checked_sub(cost.saturating_add(weight / 4))?;
            (surplus > 0).then_some((surplus, (at, shard, weight)))
        };
        [heavier, lighter]
            .into_iter()
            .flatten()
            .filter_map(surplus)
            .max_by_key(|(surplus, _)| *surplus)
            .map(|best| best.1)
    }
}

#[cfg(test)]
mod tests;
