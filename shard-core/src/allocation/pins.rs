//! What operators order.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::external::{Numbers, fetch};
use super::filter::Narrow;
use super::held::Held;
use super::shared::Source;
use super::{AllocationStrategy, ClusterView, Needs, NodeIx, Plan, Rejected, Request, Why};
use crate::id::{NodeId, ShardId};
use crate::prng;

/// The orders of operators. One may order what is not there yet; nothing is forgotten but moves that were made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orders {
    pins: BTreeMap<ShardId, NodeId>,
    moves: BTreeMap<ShardId, NodeId>,
    /// Whether it is to be drained too.
    cordoned: BTreeMap<NodeId, bool>,
}

impl Orders {
    /// No orders.
    #[must_use]
    pub const fn new() -> Self {
        Self { pins: BTreeMap::new(), moves: BTreeMap::new(), cordoned: BTreeMap::new() }
    }

    /// `shard` shall be on `node` and stay there. An order to move it is void.
    pub fn pin(&mut self, shard: ShardId, node: NodeId) {
        self.moves.remove(&shard);
        self.pins.insert(shard, node);
    }

    /// `shard` may be anywhere. It stays where it is until the strategy moves it.
    pub fn unpin(&mut self, shard: ShardId) {
        self.pins.remove(&shard);
    }

    /// `shard` shall go to `node` once; from then on it is the strategy's again, which may move it back: to keep it there,
    /// [`pin`](Self::pin) it. A pin of it is void.
    pub fn move_to(&mut self, shard: ShardId, node: NodeId) {
        self.pins.remove(&shard);
        self.moves.insert(shard, node);
    }

    /// An order to move `shard` that was not carried out yet is void.
    pub fn cancel_move(&mut self, shard: ShardId) {
        self.moves.remove(&shard);
    }

    /// `node` keeps what it has, and is given only what is pinned or moved to it.
    pub fn cordon(&mut self, node: NodeId) {
        self.cordoned.insert(node, false);
    }

    /// `node` gives away what it has and is given nothing, whatever else is ordered.
    pub fn drain(&mut self, node: NodeId) {
        self.cordoned.insert(node, true);
    }

    /// `node` is like any other.
    pub fn uncordon(&mut self, node: NodeId) {
        self.cordoned.remove(&node);
    }

    /// Where `shard` is pinned.
    #[must_use]
    pub fn pinned(&self, shard: ShardId) -> Option<NodeId> {
        self.pins.get(&shard).copied()
    }

    /// Where `shard` is ordered to move.
    #[must_use]
    pub fn moving(&self, shard: ShardId) -> Option<NodeId> {
        self.moves.get(&shard).copied()
    }

    /// Whether `node` is cordoned; one that is drained is too.
    #[must_use]
    pub fn is_cordoned(&self, node: NodeId) -> bool {
        self.cordoned.contains_key(&node)
    }

    /// Whether `node` is drained.
    #[must_use]
    pub fn is_drained(&self, node: NodeId) -> bool {
        self.cordoned.get(&node) == Some(&true)
    }
}

/// Carries out the orders of operators, and lets the inner strategy decide about the rest: other shards, among the nodes
/// that are not cordoned.
///
/// Orders are given through [`orders`](Self::orders), or through a clone of the `Shared` it was made with. They come first
/// in a plan, within its limits. An order to a node that takes no shards waits, and meanwhile its shard is like any other.
/// While every node is cordoned, shards wait.
#[derive(Clone, Debug)]
pub struct Pins<S, O = Orders> {
    inner: S,
    orders: O,
    scratch: Scratch,
}

/// Memory kept between calls; it carries no meaning from one to the next.
#[derive(Clone, Debug)]
struct Scratch {
    wanted: Vec<(ShardId, NodeIx)>,
    /// Per node: whether it is cordoned, and whether it is drained.
    closed: Vec<(bool, bool)>,
    narrow: Narrow,
    held: Held,
}

impl<S, O: Source<Orders>> Pins<S, O> {
    /// `inner` decides where nothing is ordered.
    #[must_use]
    pub const fn new(inner: S, orders: O) -> Self {
        let scratch = Scratch { wanted: Vec::new(), closed: Vec::new(), narrow: Narrow::new(), held: Held::new() };
        Self { inner, orders, scratch }
    }

    /// The orders, or what shares them.
    pub const fn orders(&mut self) -> &mut O {
        &mut self.orders
    }
}

impl Scratch {
    /// Learns which nodes are closed.
    fn close(&mut self, view: &ClusterView<'_>, orders: &Orders) {
        self.closed.clear();
        let ids = view.nodes().iter().map(|node| node.id.id);
        self.closed.extend(ids.map(|id| (orders.is_cordoned(id), orders.is_drained(id))));
    }

    /// Learns what is wanted where, as far as it can be, and forgets the moves that were made.
    fn learn(&mut self, view: &ClusterView<'_>, orders: &mut Orders) {
        self.close(view, orders);
        let there = |shard: ShardId, id: NodeId| {
            view.home(shard).is_some_and(|home| view.node(home).id.id == id) && !view.is_moving(shard)
        };
        orders.moves.retain(|shard, node| !there(*shard, *node));
        let numbers = Numbers::of(view);
        let open = |(shard, node): (&ShardId, &NodeId)| {
            let ix = numbers.find(*node).filter(|ix| !self.closed[ix.at()].1)?;
            Some((*shard, ix))
        };
        self.wanted.clear();
        self.wanted.extend(orders.pins.iter().chain(&orders.moves).filter_map(open));
    }
}

/// What moves at an operator's word say they are for.
const ORDERED: Why = Why::Other("ordered");

impl<S: AllocationStrategy, O: Source<Orders>> AllocationStrategy for Pins<S, O> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(nodes x log nodes), and what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let scratch = &mut self.scratch;
        let ordered = self.orders.consult(|orders| {
            scratch.close(view, orders);
            orders.pinned(request.shard).or(orders.moving(request.shard))
        });
        let Scratch { closed, narrow, .. } = scratch;
        let ordered = ordered.and_then(|id| Numbers::of(view).find(id)).filter(|ix| !closed[ix.at()].1);
        ordered.or_else(|| {
            let admits = |_: &ClusterView<'_>, ix: NodeIx| !closed[ix.at()].0;
            self.inner.place(&narrow.cut(view, &admits), request)
        })
    }

    /// First the shards that are ordered elsewhere, then those on nodes to be drained, each to where the inner strategy
    /// places it, then the inner strategy's moves. O(shards + orders x log nodes + moves x placing), and what the inner
    /// plan costs.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let scratch = &mut self.scratch;
        self.orders.consult(|orders| scratch.learn(view, orders));
        let Scratch { wanted, closed, narrow, held } = scratch;
        if fetch(view, plan, wanted, ORDERED) == Err(Rejected::BudgetSpent) {
            return;
        }
        let admits = |_: &ClusterView<'_>, ix: NodeIx| !closed[ix.at()].0;
        let narrow = narrow.cut(view, &admits);
        if narrow.candidates().is_empty() {
            return;
        }
        let is_kept = |shard: &ShardId| {
            let cordoned = |home: NodeIx| closed[home.at()] == (true, false);
            view.home(*shard).is_some_and(cordoned)
        };
        let kept = view.shards().filter(is_kept);
        let narrow = held.hold(&narrow, kept.chain(wanted.iter().map(|(shard, _)| *shard)));
        let mut plan = plan.within(&narrow);
        for shard in view.shards() {
            let drained = view.home(shard).is_some_and(|home| closed[home.at()].1);
            if !drained || plan.is_moving(shard) {
                continue;
            }
            if plan.budget() == 0 {
                return;
            }
            let request = Request::new(shard, prng::mix(view.seed(), u64::from(shard.0)));
            let to = self.inner.place(&narrow.with_counts(plan.counts()), &request);
            if to.is_some_and(|to| plan.propose(shard, to, ORDERED) == Err(Rejected::BudgetSpent)) {
                return;
            }
        }
        self.inner.plan(&narrow, &mut plan);
    }
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;

    use super::super::tests::{T0, layout, placed, planned, rest};
    use super::*;
    use crate::allocation::{Hash, Layout, LeastShard, Shared};

    fn counts(layout: &Layout) -> Vec<u32> {
        layout.view(T0, 0).counts.to_vec()
    }

    #[test]
    fn a_pinned_shard_goes_to_its_node_and_stays_there() {
        let mut strategy = Pins::new(LeastShard::default(), Orders::new());
        let mut layout = layout(&[&[0, 1, 2], &[3, 4, 5]]);
        strategy.orders().pin(ShardId(0), NodeId(1));
        assert_eq!(placed(&mut strategy, &layout, 0).as_deref(), Some("h:11"));
        assert_eq!(planned(&mut strategy, &layout), [(0, 1), (3, 0)]);
        rest(&mut strategy, &mut layout);
        assert_eq!(layout.view(T0, 0).home(ShardId(0)), Some(NodeIx(1)));
        // Its node takes nothing: it is like any other.
        layout.set_accepts(NodeIx(1), false);
        assert_eq!(placed(&mut strategy, &layout, 0).as_deref(), Some("h:10"));
        assert_eq!(strategy.orders().pinned(ShardId(0)), Some(NodeId(1)));
        strategy.orders().unpin(ShardId(0));
        assert_eq!(strategy.orders(), &Orders::new());
    }

    #[test]
    fn a_moved_shard_goes_once() {
        let mut strategy = Pins::new(Hash, Orders::new());
        let mut layout = layout(&[&[0, 2], &[1, 3]]);
        strategy.orders().move_to(ShardId(0), NodeId(1));
        assert_eq!(planned(&mut strategy, &layout), [(0, 1)]);
        layout.depart(ShardId(0), Some(NodeIx(1)));
        assert_eq!(
            (planned(&mut strategy, &layout), strategy.orders().moving(ShardId(0))),
            ([].into(), Some(NodeId(1)))
        );
        layout.settle(T0, ShardId(0), NodeIx(1));
        // There, and the strategy's again, whose rule says otherwise.
        assert_eq!(planned(&mut strategy, &layout), [(0, 0)]);
        assert_eq!(strategy.orders(), &Orders::new());
        strategy.orders().move_to(ShardId(1), NodeId(0));
        strategy.orders().cancel_move(ShardId(1));
        assert_eq!(planned(&mut strategy, &layout), [(0, 0)]);
    }

    #[test]
    fn a_cordoned_node_keeps_what_it_has_and_is_given_what_is_ordered() {
        for inner in [Box::new(LeastShard::new(1, 100)) as Box<dyn AllocationStrategy>, Box::new(Hash)] {
            let mut strategy = Pins::new(inner, Orders::new());
            let mut layout = layout(&[&[0, 1, 2, 3], &[], &[4]]);
            strategy.orders().cordon(NodeId(0));
            strategy.orders().cordon(NodeId(1));
            assert_eq!(placed(&mut strategy, &layout, 9).as_deref(), Some("h:12"));
            rest(&mut strategy, &mut layout);
            assert_eq!(counts(&layout), [4, 0, 1]);
            strategy.orders().pin(ShardId(4), NodeId(1));
            rest(&mut strategy, &mut layout);
            assert_eq!(counts(&layout), [4, 1, 0]);
        }
    }

    #[test]
    fn a_drained_node_is_emptied_whatever_is_pinned_to_it() {
        for inner in [Box::new(LeastShard::new(1, 100)) as Box<dyn AllocationStrategy>, Box::new(Hash)] {
            let mut strategy = Pins::new(inner, Orders::new());
            let mut layout = layout(&[&[0, 1, 2, 3], &[4, 5], &[]]);
            strategy.orders().pin(ShardId(1), NodeId(0));
            strategy.orders().drain(NodeId(0));
            assert_eq!(placed(&mut strategy, &layout, 1).as_deref().map(|address| address == "h:10"), Some(false));
            rest(&mut strategy, &mut layout);
            assert_eq!(counts(&layout), [0, 3, 3]);
            strategy.orders().uncordon(NodeId(0));
            rest(&mut strategy, &mut layout);
            assert_eq!(layout.view(T0, 0).home(ShardId(1)), Some(NodeIx(0)));
            assert!(counts(&layout)[0] > 1);
        }
    }

    #[test]
    fn while_every_node_is_cordoned_shards_wait() {
        let shared = Shared::new(Orders::new());
        let mut strategy = Pins::new(LeastShard::default(), shared.clone());
        let layout = layout(&[&[0, 1, 2, 3], &[]]);
        shared.change(|orders| [0, 1].iter().for_each(|id| orders.drain(NodeId(*id))));
        assert_eq!((placed(&mut strategy, &layout, 9), planned(&mut strategy, &layout)), (None, [].into()));
        shared.change(|orders| orders.uncordon(NodeId(1)));
        assert_eq!(planned(&mut strategy, &layout).len(), 4);
    }
}
