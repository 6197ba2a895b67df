//! By load, with a budget.

use alloc::{collections::BTreeSet, vec::Vec};
use core::cmp::{Ordering, Reverse};
use core::ops::Range;

use super::choices::by_room;
use super::{AllocationStrategy, ClusterView, Needs, NodeIx, Plan, Request, Why};
use crate::id::ShardId;
use crate::time::{Duration, nanos};

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

    fn needs(&self) -> Needs {
        Needs::NOTHING.with_loads()
    }

    /// Where the fewest shards are for the capacity. O(candidates).
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        view.candidates().iter().copied().min_by(|a, b| by_room(view, *a, *b))
    }

    /// A pass over the shards while nobody is hot; else two, and O(s log s + moves x log candidates) for `s` shards on the
    /// hot nodes that get to give.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let mut loads = Loads::weigh(view, plan);
        let stop = self.stop_permille.min(self.start_permille);
        if plan.budget() == 0 || !view.candidates().iter().any(|ix| loads.is_above(*ix, self.start_permille)) {
            return;
        }
        let mut offers = Offers::collect(view, plan, &loads, stop, self.cool_down);
        let allowed = u128::from(loads.total) * u128::from(self.moved_permille) / 1_000;
        let allowed = u64::try_from(allowed).unwrap_or(u64::MAX);
        let mut order = Order::of(view, &loads);
        while plan.budget() > 0 {
            let (Some(from), Some(to)) = (order.hottest(), order.coldest()) else { return };
            if !loads.is_above(from, stop) {
                return;
            }
            let room = if loads.moving == 0 { u64::MAX } else { allowed.saturating_sub(loads.moving) };
            let best = offers.best(&loads, from, to, room, self.move_cost);
            match best.filter(|(_, shard, _)| plan.propose(*shard, to, Why::Load).is_ok()) {
                Some((at, _, weight)) => {
                    offers.taken[at] = true;
                    order.change(&mut loads, [from, to], |loads| loads.transfer(from, to, weight));
                }
                None => order.gives_no_more(&loads, from),
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
    /// Per node: how many of its shards are not on their way.
    resting: Vec<usize>,
}

impl Loads {
    fn weigh(view: &ClusterView<'_>, plan: &Plan<'_>) -> Self {
        let mut nodes = alloc::vec![0; view.nodes().len()];
        let mut resting = alloc::vec![0; view.nodes().len()];
        let mut moving = 0;
        for shard in view.shards() {
            let Some(ix) = view.counted(shard) else { continue };
            let weight = weight(view, shard);
            nodes[ix.at()] += weight;
            if !view.is_moving(shard) {
                resting[ix.at()] += 1;
            } else if !view.is_held(shard) {
                moving += weight;
            }
        }
        let capacities: Vec<u64> = view.nodes().iter().map(|node| u64::from(node.capacity.max(1))).collect();
        let mut loads = Self { nodes, capacities, total: 0, capacity: 0, moving, resting };
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

    fn heat(&self, ix: NodeIx) -> Heat {
        Heat { load: self.nodes[ix.at()], capacity: self.capacities[ix.at()] }
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

/// The load of a node for its capacity.
#[derive(Clone, Copy, Debug)]
struct Heat {
    load: u64,
    capacity: u64,
}

impl Ord for Heat {
    fn cmp(&self, other: &Self) -> Ordering {
        let scaled = |a: &Self, b: &Self| u128::from(a.load) * u128::from(b.capacity);
        scaled(self, other).cmp(&scaled(other, self))
    }
}

impl PartialOrd for Heat {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Heat {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Heat {}

/// The candidates by heat; of equals, the lower address comes first at both ends.
#[derive(Debug)]
struct Order {
    givers: BTreeSet<(Heat, Reverse<NodeIx>)>,
    takers: BTreeSet<(Heat, NodeIx)>,
}

impl Order {
    fn of(view: &ClusterView<'_>, loads: &Loads) -> Self {
        let heats = || view.candidates().iter().map(|ix| (loads.heat(*ix), *ix));
        Self { givers: heats().map(|(heat, ix)| (heat, Reverse(ix))).collect(), takers: heats().collect() }
    }

    /// Who can give and has most.
    fn hottest(&self) -> Option<NodeIx> {
        self.givers.last().map(|(_, Reverse(ix))| *ix)
    }

    fn coldest(&self) -> Option<NodeIx> {
        self.takers.first().map(|(_, ix)| *ix)
    }

    fn gives_no_more(&mut self, loads: &Loads, ix: NodeIx) {
        self.givers.remove(&(loads.heat(ix), Reverse(ix)));
    }

    /// Lets `change` change the loads of `nodes`, and those only.
    fn change(&mut self, loads: &mut Loads, nodes: [NodeIx; 2], change: impl FnOnce(&mut Loads)) {
        let gave = nodes.map(|ix| {
            self.takers.remove(&(loads.heat(ix), ix));
            self.givers.remove(&(loads.heat(ix), Reverse(ix)))
        });
        change(loads);
        for (ix, gave) in nodes.into_iter().zip(gave) {
            self.takers.insert((loads.heat(ix), ix));
            if gave {
                self.givers.insert((loads.heat(ix), Reverse(ix)));
            }
        }
    }
}

/// A shard that can be given, in the order of weights; of equals the lowest number last, where a search from above finds
/// it first. One number, since sorting these is most of the work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Offer(u64);

impl Offer {
    fn new(shard: ShardId, weight: u32) -> Self {
        Self(u64::from(weight) << 32 | u64::from(!shard.0))
    }

    const fn shard(self) -> ShardId {
        ShardId(!(self.0 as u32))
    }

    const fn weight(self) -> u64 {
        self.0 >> 32
    }
}

/// The shards that hot nodes can give, node by node.
#[derive(Debug)]
struct Offers {
    /// Once a node is sorted, in ascending order.
    shards: Vec<Offer>,
    taken: Vec<bool>,
    /// Per node: where its shards are.
    ranges: Vec<Range<usize>>,
    sorted: Vec<bool>,
}

impl Offers {
    /// A pass over the shards and no sorting: few nodes may get to give before the budget is spent.
    fn collect(view: &ClusterView<'_>, plan: &Plan<'_>, loads: &Loads, stop: u32, cool_down: Duration) -> Self {
        let mut hot = alloc::vec![false; view.nodes().len()];
        view.candidates().iter().for_each(|ix| hot[ix.at()] = loads.is_above(*ix, stop));
        let mut all = 0;
        let room = |(hot, resting): (&bool, &usize)| {
            let begin = all;
            all += if *hot { *resting } else { 0 };
            begin..begin
        };
        let mut ranges: Vec<Range<usize>> = hot.iter().zip(&loads.resting).map(room).collect();
        let mut shards = alloc::vec![Offer(0); all];
        let (now, cool_down) = (view.now().as_nanos(), nanos(cool_down));
        for shard in view.shards() {
            let Some(home) = view.home(shard).filter(|home| hot[home.at()]) else { continue };
            let weight = view.load(shard).unwrap_or(1);
            let settled = now.saturating_sub(view.settled_at(shard).as_nanos()) >= cool_down;
            if weight > 0 && settled && !plan.is_moving(shard) {
                let end = &mut ranges[home.at()].end;
                shards[*end] = Offer::new(shard, weight);
                *end += 1;
            }
        }
        Self { shards, taken: alloc::vec![false; all], ranges, sorted: alloc::vec![false; view.nodes().len()] }
    }

    /// Where the shards of a node are, sorted.
    fn of(&mut self, ix: NodeIx) -> Range<usize> {
        let range = self.ranges[ix.at()].clone();
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
        let middle = range.start + self.shards[range.clone()].partition_point(|offer| offer.weight() <= fits);
        let free = |at: &usize| !self.taken[*at];
        let lighter = (range.start..middle).rev().find(free);
        let heavier = (middle..range.end).find(free).filter(|at| self.shards[*at].weight() <= room);
        let surplus = |at: usize| {
            let weight = self.shards[at].weight();
            let surplus = loads.gain(from, to, weight).checked_sub(cost.saturating_add(weight / 4))?;
            (surplus > 0).then_some((surplus, (at, self.shards[at].shard(), weight)))
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
