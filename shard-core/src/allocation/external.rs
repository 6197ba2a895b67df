//! Homes given by users.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::held::Held;
use super::shared::Source;
use super::{AllocationStrategy, ClusterView, Needs, NodeIx, Plan, Rejected, Request, Why};
use crate::id::{NodeId, ShardId};

/// The homes that users have given to shards. 16 bytes and some for each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Homes {
    given: BTreeMap<ShardId, NodeId>,
}

impl Homes {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { given: BTreeMap::new() }
    }

    /// From now on `shard` shall be on `node`; returns where it was to be.
    pub fn set(&mut self, shard: ShardId, node: NodeId) -> Option<NodeId> {
        self.given.insert(shard, node)
    }

    /// From now on `shard` may be anywhere; returns where it was to be.
    pub fn clear(&mut self, shard: ShardId) -> Option<NodeId> {
        self.given.remove(&shard)
    }

    /// Where `shard` shall be.
    #[must_use]
    pub fn of(&self, shard: ShardId) -> Option<NodeId> {
        self.given.get(&shard).copied()
    }

    /// Every home given, by shard.
    pub fn iter(&self) -> impl Iterator<Item = (ShardId, NodeId)> + '_ {
        self.given.iter().map(|(shard, node)| (*shard, *node))
    }
}

/// Puts shards where users say, and lets the inner strategy decide about all others: Akka's external allocation.
///
/// Homes may change at any time: through [`homes`](Self::homes), or through a clone of the `Shared` it was made with. A
/// shard whose home has changed moves with the next plan, first of all moves and within the plan's limits; the inner
/// strategy leaves it alone. While its home takes no shards, or is not there, a shard is one of the others. (In Akka it goes
/// to whoever asked: that is [`PreferLocal`](super::PreferLocal) as the inner strategy.)
///
/// ```
/// use shard_core::allocation::{External, Homes, LeastShard};
/// use shard_core::id::{NodeId, ShardId};
///
/// let mut strategy = External::new(LeastShard::default(), Homes::new());
/// strategy.homes().set(ShardId(7), NodeId(1));
/// ```
#[derive(Clone, Debug)]
pub struct External<S, H = Homes> {
    inner: S,
    homes: H,
    scratch: Scratch,
}

/// Memory kept between plans; it carries no meaning from one to the next.
#[derive(Clone, Debug, Default)]
struct Scratch {
    wanted: Vec<(ShardId, NodeIx)>,
    held: Held,
}

impl<S, H: Source<Homes>> External<S, H> {
    /// `inner` decides where no home is given.
    #[must_use]
    pub const fn new(inner: S, homes: H) -> Self {
        Self { inner, homes, scratch: Scratch { wanted: Vec::new(), held: Held::new() } }
    }

    /// The homes, or what shares them.
    pub const fn homes(&mut self) -> &mut H {
        &mut self.homes
    }
}

impl<S: AllocationStrategy, H: Source<Homes>> AllocationStrategy for External<S, H> {
    fn name(&self) -> &'static str {
        "external"
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(candidates + log homes), and what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let home = self.homes.consult(|homes| homes.of(request.shard));
        let given = home.and_then(|home| view.candidates().iter().copied().find(|ix| view.node(*ix).id.id == home));
        given.or_else(|| self.inner.place(view, request))
    }

    /// O(homes x log candidates + shards), and what the inner plan costs.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let Scratch { wanted, held } = &mut self.scratch;
        wanted.clear();
        let numbers = Numbers::of(view);
        self.homes.consult(|homes| {
            wanted.extend(homes.iter().filter_map(|(shard, home)| Some((shard, numbers.find(home)?))));
        });
        if fetch(view, plan, wanted, Why::Rule) == Err(Rejected::BudgetSpent) {
            return;
        }
        let view = held.hold(view, wanted.iter().map(|(shard, _)| *shard));
        self.inner.plan(&view, &mut plan.within(&view));
    }
}

/// Proposes to move every shard to where it is wanted, unless it is there or on its way, or has no owner.
///
/// # Errors
/// If there is no room for more moves.
pub(super) fn fetch(
    view: &ClusterView<'_>,
    plan: &mut Plan<'_>,
    wanted: &[(ShardId, NodeIx)],
    why: Why,
) -> Result<(), Rejected> {
    for (shard, to) in wanted {
        let elsewhere = view.home(*shard).is_some_and(|home| home != *to);
        if elsewhere && plan.propose(*shard, *to, why) == Err(Rejected::BudgetSpent) {
            return Err(Rejected::BudgetSpent);
        }
    }
    Ok(())
}

/// The candidates of a view by their ids.
pub(super) struct Numbers(Vec<(NodeId, NodeIx)>);

impl Numbers {
    pub(super) fn of(view: &ClusterView<'_>) -> Self {
        let mut by_id: Vec<_> = view.candidates().iter().map(|ix| (view.node(*ix).id.id, *ix)).collect();
        by_id.sort_unstable();
        Self(by_id)
    }

    /// The lowest number, should two processes have the id for a moment.
    pub(super) fn find(&self, id: NodeId) -> Option<NodeIx> {
        let at = self.0.partition_point(|(own, _)| *own < id);
        self.0.get(at).filter(|(own, _)| *own == id).map(|(_, ix)| *ix)
    }
}

#[cfg(test)]
mod tests {

    use super::super::tests::{T0, layout, placed, planned, rest};
    use super::*;
    use crate::allocation::{Hash, LeastShard, Shared};

    fn homes(given: &[(u32, u64)]) -> Homes {
        let mut homes = Homes::new();
        for (shard, node) in given {
            homes.set(ShardId(*shard), NodeId(*node));
        }
        homes
    }

    #[test]
    fn shards_go_where_they_are_given_and_others_where_the_inner_strategy_says() {
        let mut strategy = External::new(LeastShard::default(), homes(&[(7, 1), (8, 9)]));
        let mut layout = layout(&[&[], &[0, 1, 2]]);
        assert_eq!(placed(&mut strategy, &layout, 7).as_deref(), Some("h:11"));
        assert_eq!(placed(&mut strategy, &layout, 6).as_deref(), Some("h:10"));
        // Its home is not there.
        assert_eq!(placed(&mut strategy, &layout, 8).as_deref(), Some("h:10"));
        layout.set_accepts(NodeIx(1), false);
        assert_eq!(placed(&mut strategy, &layout, 7).as_deref(), Some("h:10"));
    }

    #[test]
    fn a_home_that_changes_moves_its_shard_and_the_inner_strategy_leaves_it() {
        let mut strategy = External::new(LeastShard::default(), Homes::new());
        let mut layout = layout(&[&[0, 1, 2], &[3, 4, 5]]);
        assert_eq!(planned(&mut strategy, &layout), []);
        for shard in [0, 1].map(ShardId) {
            strategy.homes().set(shard, NodeId(1));
        }
        // Two go as told, and two of the others make up for it; neither goes back.
        assert_eq!(rest(&mut strategy, &mut layout), 4);
        assert_eq!([0, 1].map(|shard| layout.view(T0, 0).home(ShardId(shard))), [Some(NodeIx(1)); 2]);
        assert_eq!([0, 1].map(|ix| layout.view(T0, 0).count(NodeIx(ix))), [3, 3]);
        assert_eq!(strategy.homes().clear(ShardId(0)), Some(NodeId(1)));
        assert_eq!((strategy.homes().of(ShardId(0)), planned(&mut strategy, &layout)), (None, [].into()));
    }

    #[test]
    fn homes_are_changed_from_another_thread() {
        let shared = Shared::new(Homes::new());
        let mut strategy = External::new(Hash, shared.clone());
        let handle = shared.clone();
        std::thread::spawn(move || handle.change(|homes| homes.set(ShardId(0), NodeId(1)))).join().unwrap();
        assert_eq!(planned(&mut strategy, &layout(&[&[0], &[1]])), [(0, 1)]);
        // The next reign's strategy knows them too.
        assert_eq!(planned(&mut External::new(Hash, shared), &layout(&[&[0], &[1]])), [(0, 1)]);
    }
}
