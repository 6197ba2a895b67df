//! By count, in two phases with two limits: the newer default of Akka.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::first_few::FirstFew;
use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why};
use crate::id::ShardId;
use crate::time::Instant;

/// Sheds what a node has above the optimum, which is the mean rounded up; once nobody has more, fills up the nodes that
/// have less than one below it. One round at a time: it plans nothing while a shard is on its way, and nothing while
/// nodes run different versions or one is cut off. Ends at most one apart.
///
/// Where Akka's takes the older of two nodes with equal counts, this one takes the lower address: the order in which nodes
/// joined does not matter here. Where Akka's lets every shard find its node when it has left, this one says so beforehand;
/// while nothing else happens the node is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TwoPhaseLeastShard {
    absolute: usize,
    relative_permille: u32,
}

impl TwoPhaseLeastShard {
    /// A round moves `absolute` shards at most, and at most `relative_permille` thousandths of all shards, but may always
    /// move one.
    #[must_use]
    pub const fn new(absolute: usize, relative_permille: u32) -> Self {
        Self { absolute, relative_permille }
    }

    fn room(&self, shards: u32) -> usize {
        let relative = u64::from(shards) * u64::from(self.relative_permille) / 1_000;
        usize::try_from(relative).unwrap_or(usize::MAX).min(self.absolute).max(1)
    }
}

impl Default for TwoPhaseLeastShard {
    /// Twenty shards and a tenth of all: what Akka suggests for a start.
    fn default() -> Self {
        Self::new(20, 100)
    }
}

impl AllocationStrategy for TwoPhaseLeastShard {
    fn name(&self) -> &'static str {
        "two-phase-least-shard"
    }

    /// Among the nodes of the newest version the one with the fewest shards, the lowest address first. O(candidates).
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        most_suitable(view)
    }

    /// Among the shards of a node, those that came first go first, and the lowest number where they came at once.
    /// O(shards log moves + nodes log nodes).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let candidates = view.candidates();
        let shards: u32 = candidates.iter().map(|ix| plan.count(*ix)).sum();
        if view.in_flight() + plan.moves().len() > 0 || shards == 0 || !is_calm(view) {
            return;
        }
        let room = self.room(shards).min(plan.budget());
        let optimum = shards.div_ceil(candidates.len() as u32);
        // Ascending, and of equals the lowest address first.
        let mut order: Vec<NodeIx> = candidates.to_vec();
        order.sort_unstable_by_key(|ix| (plan.count(*ix), *ix));
        let shed = order.iter().rev().map(|ix| (*ix, plan.count(*ix).saturating_sub(optimum)));
        let mut taken = first_of_each(view, shed, room);
        if taken.is_empty() {
            let need: u32 = candidates.iter().map(|ix| (optimum - 1).saturating_sub(plan.count(*ix))).sum();
            let give = order.iter().map(|ix| (*ix, u32::from(plan.count(*ix) >= optimum)));
            taken = first_of_each(view, give, room.min(need as usize));
        }
        send_to_fewest(view, plan, &taken);
    }
}

/// Akka's rule for a good time to rebalance: all nodes run the same version, and none is cut off.
///
/// A node that is about to join forbids it too in Akka; here it is in the view only once it has joined. A node that is
/// leaving does not forbid it.
#[must_use]
pub(super) fn is_calm(view: &ClusterView<'_>) -> bool {
    let nodes = view.nodes();
    nodes.iter().all(|node| !node.deaf && node.version == nodes[0].version)
}

/// Akka's order of nodes, without ages: the newest version, the fewest shards, the lowest address.
pub(super) fn most_suitable(view: &ClusterView<'_>) -> Option<NodeIx> {
    view.candidates().iter().copied().min_by_key(|ix| (Reverse(view.node(*ix).version), view.count(*ix), *ix))
}

/// The first `room` shards of a walk over nodes that takes from each its first few.
fn first_of_each(
    view: &ClusterView<'_>,
    walk: impl Iterator<Item = (NodeIx, u32)>,
    room: usize,
) -> Vec<(NodeIx, ShardId)> {
    // Later givers of the walk get no turn once the room is spent, so nobody is asked for more than is left.
    let mut left = room;
    let mut nodes = Vec::new();
    let mut few: Vec<FirstFew<(Instant, ShardId)>> = Vec::new();
    let mut place = alloc::vec![usize::MAX; view.nodes().len()];
    for (ix, gives) in walk.filter(|(_, gives)| *gives > 0) {
        if left == 0 {
            break;
        }
        let gives = left.min(gives as usize);
        left -= gives;
        place[ix.at()] = nodes.len();
        nodes.push(ix);
        few.push(FirstFew::new(gives));
    }
    for shard in view.shards() {
        // What is held does not count as on its way, but stays.
        if let Some(home) = view.home(shard).filter(|_| !view.is_moving(shard))
            && let Some(few) = few.get_mut(place[home.at()])
        {
            few.offer((view.settled_at(shard), shard));
        }
    }
    let of_node = |(ix, few): (NodeIx, FirstFew<_>)| few.into_sorted().into_iter().map(move |(_, shard)| (ix, shard));
    nodes.into_iter().zip(few).flat_map(of_node).collect()
}

/// Proposes a move for each: all leave, and then each goes to where the fewest are.
fn send_to_fewest(view: &ClusterView<'_>, plan: &mut Plan<'_>, taken: &[(NodeIx, ShardId)]) {
    let mut counts: Vec<u32> = plan.counts().to_vec();
    taken.iter().for_each(|(from, _)| counts[from.at()] -= 1);
    let mut order: BTreeSet<(u32, NodeIx)> = view.candidates().iter().map(|ix| (counts[ix.at()], *ix)).collect();
    for (_, shard) in taken {
        let Some((count, to)) = order.pop_first() else { return };
        order.insert((count + 1, to));
        let _ = plan.propose(*shard, to, Why::Count);
    }
}

#[cfg(test)]
mod tests;
