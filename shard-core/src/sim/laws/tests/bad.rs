//! Strategies that are bad on purpose, one way each.

use std::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
    vec,
};

use super::super::{Law, Laws};
use crate::allocation::{
    AllocationStrategy, ClusterView, Hash, Layout, LeastShard, NodeIx, NodeView, Plan, Rejected, Request, Why,
};
use crate::id::ShardId;
use crate::time::Duration;

/// The default placement, for those whose vice is another.
fn fewest(view: &ClusterView<'_>) -> Option<NodeIx> {
    view.candidates().iter().copied().min_by_key(|ix| (view.count(*ix), *ix))
}

const VICE: Why = Why::Other("a vice");

macro_rules! strategy {
    ($(#[$doc:meta])* $type:ident, $name:literal, place: $place:expr, plan: $plan:expr) => {
        impl AllocationStrategy for $type {
            fn name(&self) -> &'static str {
                $name
            }
            fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
                let place: fn(&mut Self, &ClusterView<'_>, &Request) -> Option<NodeIx> = $place;
                place(self, view, request)
            }
            fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
                let act: fn(&mut Self, &ClusterView<'_>, &mut Plan<'_>) = $plan;
                act(self, view, plan);
            }
        }
    };
}

/// Moves the first shard to the next node, for ever.
pub(super) struct Swinging;

strategy!(Swinging, "swinging", place: |_, view, _| fewest(view), plan: |_, view, plan| {
    let Some(home) = view.home(ShardId(0)) else { return };
    if let Some(next) = view.candidates().iter().find(|ix| **ix > home).or(view.candidates().first())
        && *next != home
    {
        let _ = plan.propose(ShardId(0), *next, VICE);
    }
});

/// Corrects a difference of one, which makes another difference of one.
struct Overeager;

strategy!(Overeager, "overeager", place: |_, view, _| fewest(view), plan: |_, view, plan| {
    let by_count = |ix: &NodeIx| (view.count(*ix), *ix);
    let (least, most) = (view.candidates().iter().min_by_key(|ix| by_count(ix)), view.candidates().iter().max_by_key(|ix| by_count(ix)));
    let (Some(least), Some(most)) = (least, most) else { return };
    if view.count(*most) > view.count(*least)
        && let Some(shard) = view.shards().find(|shard| view.home(*shard) == Some(*most) && !view.is_moving(*shard))
    {
        let _ = plan.propose(shard, *least, Why::Count);
    }
});

/// Takes turns by a counter that all instances share.
struct Global;

static TURN: AtomicUsize = AtomicUsize::new(0);

strategy!(Global, "global", place: |_, view, _| {
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    view.candidates().get(turn.checked_rem(view.candidates().len())?).copied()
}, plan: |_, _, _| {});

/// Takes turns by a counter of its own.
struct Turns(usize);

strategy!(Turns, "turns", place: |it, view, _| {
    it.0 += 1;
    view.candidates().get(it.0.checked_rem(view.candidates().len())?).copied()
}, plan: |_, _, _| {});

/// Leaves a shard where it was put first, by a memory that it does not admit to.
struct Sticky(BTreeMap<u32, crate::id::NodeId>);

strategy!(Sticky, "sticky", place: |it, view, request| {
    let first = fewest(view)?;
    let id = *it.0.entry(request.shard.0).or_insert(view.node(first).id.id);
    Some(view.candidates().iter().copied().find(|ix| view.node(*ix).id.id == id).unwrap_or(first))
}, plan: |_, _, _| {});

/// Places on nodes that take nothing.
struct Dead;

strategy!(Dead, "dead", place: |_, view, request| {
    Some(NodeIx((request.shard.0 as usize).checked_rem(view.nodes().len())? as u16))
}, plan: |_, _, _| {});

/// Places on a node that does not exist.
struct Imagined;

strategy!(Imagined, "imagined", place: |_, view, _| Some(NodeIx(view.nodes().len() as u16)), plan: |_, _, _| {});

/// Moves to nodes that take nothing, as far as the plan lets it.
struct DeadEnds;

strategy!(DeadEnds, "dead-ends", place: |_, view, _| fewest(view), plan: |_, view, plan| {
    for shard in view.shards() {
        let to = NodeIx((shard.0 as usize % view.nodes().len().max(1)) as u16);
        if view.home(shard).is_some_and(|home| home != to) && plan.propose(shard, to, VICE) == Err(Rejected::BudgetSpent) {
            return;
        }
    }
});

/// Lets another strategy plan on a copy that forgets who is closed.
struct ForgetsClosed;

strategy!(ForgetsClosed, "forgets-closed", place: |_, view, _| fewest(view), plan: |_, view, plan| {
    let copy = copy(view, true, false);
    let view = copy.view(view.now(), view.seed());
    Hash.plan(&view, &mut plan.within(&view));
});

/// Lets another strategy plan on a copy that forgets what is on its way.
struct ForgetsFlights;

strategy!(ForgetsFlights, "forgets-flights", place: |_, view, _| fewest(view), plan: |_, view, plan| {
    let copy = copy(view, false, true);
    let view = copy.view(view.now(), view.seed());
    Hash.plan(&view, &mut plan.within(&view));
});

fn copy(view: &ClusterView<'_>, all_open: bool, all_still: bool) -> Layout {
    let mut copy = Layout::new(view.shards().len() as u32);
    copy.set_nodes(view.nodes().iter().map(|it| NodeView { accepts: it.accepts || all_open, ..it.clone() }).collect());
    for shard in view.shards() {
        if let Some(home) = view.home(shard) {
            copy.settle(view.now(), shard, home);
        }
        if view.is_moving(shard) && !all_still {
            copy.depart(shard, None);
        }
    }
    copy
}

/// Says three at once, and counts only those of this plan.
struct Hasty;

strategy!(Hasty, "hasty", place: |_, view, _| fewest(view), plan: |_, view, plan| {
    let desired = view.candidates().iter().copied().cycle();
    for (shard, desired) in view.shards().zip(desired) {
        if plan.moves().len() == 3 {
            return;
        }
        if view.home(shard).is_some_and(|home| home != desired)
            && plan.propose(shard, desired, VICE) == Err(Rejected::BudgetSpent)
        {
            return;
        }
    }
});

/// Does not hear that the plan is full.
struct Deafened;

strategy!(Deafened, "deafened", place: |_, view, _| fewest(view), plan: |_, view, plan| {
    for (shard, desired) in view.shards().zip(view.candidates().iter().cycle()) {
        let _ = plan.propose(shard, *desired, VICE);
    }
});

/// Prefers the node that it saw first.
struct FirstSeen(vec::Vec<crate::id::NodeId>);

strategy!(FirstSeen, "first-seen", place: |it, view, _| {
    for node in view.nodes() {
        if !it.0.contains(&node.id.id) {
            it.0.push(node.id.id);
        }
    }
    let rank = |ix: &NodeIx| it.0.iter().position(|id| *id == view.node(*ix).id.id);
    view.candidates().iter().copied().min_by_key(|ix| rank(ix))
}, plan: |_, _, _| {});

/// Rests until it has seen a node vanish, and never after.
#[derive(Default)]
struct Shocked(BTreeSet<crate::id::NodeId>);

strategy!(Shocked, "shocked", place: |_, view, _| fewest(view), plan: |it, view, plan| {
    it.0.extend(view.nodes().iter().map(|node| node.id.id));
    if it.0.len() > view.nodes().len() {
        Swinging.plan(view, plan);
    }
});

/// Plans as it should a few times, and then no more.
struct Weary(u32);

strategy!(Weary, "weary", place: |_, view, _| fewest(view), plan: |it, view, plan| {
    it.0 += 1;
    if it.0 <= 3 {
        LeastShard::new(1, 1).plan(view, plan);
    }
});

/// Tries laws on a strategy one by one; the laws that say they are broken.
fn caught<S: AllocationStrategy + 'static>(laws: &Laws<impl Fn() -> S + Clone>) -> BTreeSet<Law> {
    let breaches = Law::ALL.iter().filter_map(|law| laws.clone().only(&[*law]).cases(60).run().err());
    breaches.map(|breach| breach.law).collect()
}

#[test]
fn each_vice_is_caught_by_the_law_meant_for_it() {
    fn sets<const N: usize>(laws: [Law; N]) -> BTreeSet<Law> {
        laws.into_iter().collect()
    }
    let minute = Duration::from_secs(60);
    // Where plans never end on one cluster, they do not on one that changes either.
    let restless = || sets([Law::Rest, Law::Convergence]);
    assert_eq!(caught(&Laws::new(|| Swinging)), restless());
    assert_eq!(caught(&Laws::new(|| Overeager)), restless());
    assert_eq!(caught(&Laws::new(Shocked::default).remembering(minute)), sets([Law::Convergence]));
    // Two instances that differ also differ when nodes join in another order.
    assert_eq!(caught(&Laws::new(|| Global)), sets([Law::Deterministic, Law::Order]));
    assert_eq!(caught(&Laws::new(|| Turns(0))), sets([Law::Deterministic]));
    assert_eq!(caught(&Laws::new(|| Weary(0))), sets([Law::Deterministic]));
    assert_eq!(caught(&Laws::new(|| Sticky(BTreeMap::new()))), sets([Law::Deterministic, Law::Order]));
    assert_eq!(caught(&Laws::new(|| FirstSeen(vec![])).remembering(minute)), sets([Law::Order]));
    assert_eq!(caught(&Laws::new(|| Dead)), sets([Law::Candidates]));
    assert_eq!(caught(&Laws::new(|| Imagined)), sets([Law::Candidates]));
    assert_eq!(caught(&Laws::new(|| DeadEnds)), sets([Law::Candidates]));
    assert_eq!(caught(&Laws::new(|| ForgetsClosed)), sets([Law::Candidates]));
    assert_eq!(caught(&Laws::new(|| ForgetsFlights)), sets([Law::InFlight]));
    assert_eq!(caught(&Laws::new(|| Hasty).at_most_in_flight(3)), sets([Law::Limits]));
    assert_eq!(caught(&Laws::new(|| Deafened)), sets([Law::Limits]));
    assert_eq!(caught(&Laws::new(|| Hash).movement(2)), sets([Law::Movement]));
    assert_eq!(caught(&Laws::new(LeastShard::default).movement(1).at_most_in_flight(3)), sets([]));
}

#[test]
fn a_strategy_with_several_vices_is_told_the_first() {
    let laws = |make: fn() -> Box<dyn AllocationStrategy>| Laws::new(make).run().expect_err("a vice").law;
    assert_eq!(laws(|| Box::new(Global)), Law::Deterministic);
    assert_eq!(laws(|| Box::new(Sticky(BTreeMap::new()))), Law::Deterministic);
    assert_eq!(laws(|| Box::new(Swinging)), Law::Rest);
}
