//! Tenants stay on their hands of nodes, and one tenant's poison harms as many others as was calculated.

use alloc::{boxed::Box, collections::BTreeSet, vec::Vec};
use std::format;

use super::*;
use crate::{
    allocation::{Hash, Layout, LeastShard, NodeView},
    id::{Incarnation, NodeId, NodeKey},
    shuffle::{FlowKey, Isolation, ShardSize, WhenAllDown},
    time::{Duration, Instant},
};

/// Shards of one tenant.
const EACH: u32 = 4;

fn node(id: u64) -> NodeView {
    NodeView::new(NodeKey { id: NodeId(id), incarnation: Incarnation(1) }, format!("h:{}", 100 + id))
}

fn tenant_of(shard: ShardId) -> Option<u64> {
    // The last tenant's shards are nobody's in particular.
    (shard.0 < 36).then(|| FlowKey::new(7).hash("tenant", &format!("{}", shard.0 / EACH)))
}

type TenantOf = fn(ShardId) -> Option<u64>;

fn by_tenant<S: AllocationStrategy>(inner: S) -> ByTenant<S, TenantOf> {
    ByTenant::new(inner, ShardSize::Members(3), tenant_of as TenantOf)
}

fn place_all(strategy: &mut dyn AllocationStrategy, layout: &mut Layout, now: Instant) {
    let free: Vec<_> =
        layout.view(now, 0).shards().filter(|shard| layout.view(now, 0).home(*shard).is_none()).collect();
    for shard in free {
        if let Some(ix) = strategy.place(&layout.view(now, 0), &Request::new(shard, 0)) {
            layout.settle(now, shard, ix);
        }
    }
}

/// Plans and carries out whole rounds until one has no moves, and one more.
fn rest(strategy: &mut dyn AllocationStrategy, layout: &mut Layout, now: Instant) -> usize {
    let (mut ledger, mut made) = (Ledger::new(), 0);
    for _ in 0..1_000 {
        let moves = ledger.round(strategy, &layout.view(now, 0), Limits::default()).to_vec();
        if moves.is_empty() {
            assert!(ledger.round(strategy, &layout.view(now, 0), Limits::default()).is_empty());
            return made;
        }
        made += moves.len();
        moves.iter().for_each(|m| layout.settle(now, m.shard, m.to));
    }
    panic!("never rests: {:?}", ledger.moves());
}

/// Where each tenant's shards are, by node id.
fn hands(layout: &Layout) -> Vec<BTreeSet<u64>> {
    let view = layout.view(Instant::ZERO, 0);
    let homes: Vec<_> = view.shards().map(|shard| view.home(shard).map(|ix| view.node(ix).id.id.0)).collect();
    homes.chunks(EACH as usize).map(|own| own.iter().flatten().copied().collect()).collect()
}

fn cluster(nodes: impl Iterator<Item = u64>) -> Layout {
    let mut layout = Layout::new(40);
    layout.set_nodes(nodes.map(node).collect());
    layout
}

fn strategies() -> [Box<dyn AllocationStrategy>; 4] {
    let even = |view: &ClusterView<'_>, ix: NodeIx| view.node(ix).id.id.0 != 3;
    [
        Box::new(by_tenant(LeastShard::new(1, 10))),
        Box::new(by_tenant(Hash)),
        Box::new(by_tenant(LeastShard::new(1, 10).only(even))),
        Box::new(by_tenant(Hash).only(even)),
    ]
}

#[test]
fn every_tenant_stays_on_its_hand_whatever_the_inner_strategy() {
    for mut strategy in strategies() {
        let mut layout = cluster(0..10);
        // Everything begins on the wrong nodes.
        (0..40).for_each(|shard| layout.settle(Instant::ZERO, ShardId(shard), NodeIx((shard % 10) as u16)));
        rest(&mut strategy, &mut layout, Instant::ZERO);
        let rested = hands(&layout);
        assert!(rested[..9].iter().all(|hand| hand.len() <= 3), "{rested:?}");
        let placed = {
            let mut fresh = cluster(0..10);
            place_all(&mut strategy, &mut fresh, Instant::ZERO);
            hands(&fresh)
        };
        assert!(placed.iter().all(|hand| !hand.is_empty()), "{placed:?}");
        for (rested, placed) in rested.iter().zip(&placed).take(9) {
            assert!(rested.union(placed).count() <= 3, "the same hand either way: {rested:?}, {placed:?}");
        }
        assert!(placed.iter().collect::<BTreeSet<_>>().len() > 4, "tenants differ: {placed:?}");
    }
}

#[test]
fn shards_of_a_tenant_are_balanced_within_its_hand() {
    let mut strategy = by_tenant(LeastShard::new(1, 10));
    let mut layout = cluster(0..3);
    (0..40).for_each(|shard| layout.settle(Instant::ZERO, ShardId(shard), NodeIx(0)));
    rest(&mut strategy, &mut layout, Instant::ZERO);
    let counts = [0, 1, 2].map(|ix| layout.view(Instant::ZERO, 0).count(NodeIx(ix)));
    assert_eq!(counts.iter().max().map(|most| most - counts.iter().min().expect("three")), Some(1), "{counts:?}");
}

/// The nodes that the first tenant's shards may be put on, by id.
fn hand(strategy: &mut ByTenant<LeastShard, TenantOf>, layout: &Layout, now: Instant) -> BTreeSet<u64> {
    let view = layout.view(now, 0);
    let tenant = tenant_of(ShardId(0)).expect("it has a tenant");
    strategy.hand(&view, tenant).iter().map(|ix| view.node(*ix).id.id.0).collect()
}

#[test]
fn a_crash_deals_nothing_anew_until_it_is_forgotten() {
    let mut strategy = by_tenant(LeastShard::new(1, 10)).forgetting_after(Duration::from_secs(60));
    let before = hand(&mut strategy, &cluster(0..10), Instant::ZERO);
    assert_eq!(before.len(), 3);
    let victim = *before.first().expect("three");
    let soon = Instant::from_millis(1_000);
    let rest: BTreeSet<u64> = before.iter().copied().filter(|id| *id != victim).collect();
    assert_eq!(
        hand(&mut strategy, &cluster((0..10).filter(|id| *id != victim)), soon),
        rest,
        "one fewer, none instead"
    );
    // All of the hand crash: the tenant waits, and nobody else's nodes are handed to it.
    let left = cluster((0..10).filter(|id| !before.contains(id)));
    assert_eq!(hand(&mut strategy, &left, soon), BTreeSet::new());
    assert_eq!(strategy.place(&left.view(soon, 0), &Request::new(ShardId(0), 0)), None);
    assert!(strategy.place(&left.view(soon, 0), &Request::new(ShardId(39), 0)).is_some(), "nobody's shards don't wait");
    // One comes back under its own id, in another life, and finds its place.
    let mut again = node(victim);
    again.id.incarnation = Incarnation(2);
    let mut back = Layout::new(40);
    back.set_nodes((0..10).filter(|id| !before.contains(id)).map(node).chain([again]).collect());
    assert_eq!(hand(&mut strategy, &back, soon), BTreeSet::from([victim]));
    // After a minute the others are forgotten, and replaced.
    let later = Instant::from_millis(62_000);
    let dealt = hand(&mut strategy, &back, later);
    assert!(dealt.len() == 3 && dealt.contains(&victim), "{dealt:?}");
}

/// Found by the poison in the simulator: a process that has crashed is in the view for as long as its session may live, and
/// takes nothing. Taken for one that leaves, it would have been replaced, and its poison been passed on.
#[test]
fn who_does_not_hear_keeps_its_place() {
    let mut strategy = by_tenant(LeastShard::default());
    let before = hand(&mut strategy, &cluster(0..10), Instant::ZERO);
    let victim = *before.first().expect("three");
    let mut deaf = Layout::new(40);
    let view = |id| NodeView { accepts: id != victim, deaf: id == victim, ..node(id) };
    deaf.set_nodes((0..10).map(view).collect());
    let rest: BTreeSet<u64> = before.iter().copied().filter(|id| *id != victim).collect();
    assert_eq!(hand(&mut strategy, &deaf, Instant::ZERO), rest, "one fewer, none instead");
    let gone = cluster((0..10).filter(|id| *id != victim));
    assert_eq!(hand(&mut strategy, &gone, Instant::from_millis(1_000)), rest, "nor when it is gone");
    assert_eq!(hand(&mut strategy, &cluster(0..10), Instant::from_millis(2_000)), before);
}

#[test]
fn who_leaves_in_good_order_is_replaced_at_once() {
    let mut strategy = by_tenant(LeastShard::default());
    let mut layout = cluster(0..10);
    let before = hand(&mut strategy, &layout, Instant::ZERO);
    let leaver = *before.first().expect("three");
    layout.set_accepts(NodeIx(leaver as u16), false);
    let after = hand(&mut strategy, &layout, Instant::ZERO);
    assert_eq!((after.len(), after.intersection(&before).count(), after.contains(&leaver)), (3, 2, false));
}

#[test]
fn a_hand_that_is_all_down_spills_if_told_so() {
    let mut strategy = by_tenant(LeastShard::default()).when_all_down(WhenAllDown::Spill);
    let before = hand(&mut strategy, &cluster(0..10), Instant::ZERO);
    let left = cluster((0..10).filter(|id| !before.contains(id)));
    let spilled = hand(&mut strategy, &left, Instant::ZERO);
    assert_eq!(spilled.len(), 3);
    assert_eq!(hand(&mut strategy, &cluster(0..10), Instant::ZERO), before, "and back");
}

#[test]
fn a_poison_tenant_harms_as_many_others_as_calculated() {
    // Twenty nodes, hands of three, a thousand tenants; whatever the first one touches is down.
    let key = FlowKey::new(1);
    let tenant_of = move |shard: ShardId| Some(key.hash("tenant", &format!("{}", shard.0 / 3)));
    let mut strategy = ByTenant::new(LeastShard::default(), ShardSize::Members(3), tenant_of);
    let mut layout = Layout::new(3_000);
    layout.set_nodes((0..20).map(node).collect());
    place_all(&mut strategy, &mut layout, Instant::ZERO);
    let view = layout.view(Instant::ZERO, 0);
    // Where a tenant's shards may be, not only where they happen to be.
    let mut hand = |tenant: u32| -> BTreeSet<NodeIx> {
        let hash = tenant_of(ShardId(3 * tenant)).expect("all have tenants");
        strategy.hand(&view, hash).iter().copied().collect()
    };
    let poison = hand(0);
    let mut shared = [0_u32; 4];
    (1..1_000).for_each(|tenant| shared[hand(tenant).intersection(&poison).count()] += 1);
    let law = Isolation::new(20, 3).expect("a hand").overlap();
    for (seen, expected) in shared.iter().zip(law.iter()) {
        assert!((f64::from(*seen) / 999.0 - expected).abs() < 0.05, "{shared:?} for {:?}", &*law);
    }
}

#[test]
fn poison_that_crashes_every_owner_stops_at_its_tenants_hand() {
    // 24 nodes, hands of four, 400 tenants of four shards. The first tenant's shards crash whatever serves them; each time
    // the survivors are asked where the shards go next, and the node comes back only after all is over.
    let key = FlowKey::new(3);
    let tenant_of = move |shard: ShardId| Some(key.hash("tenant", &format!("{}", shard.0 / EACH)));
    let mut strategy = ByTenant::new(LeastShard::default(), ShardSize::Members(4), tenant_of);
    let mut layout = Layout::new(400 * EACH);
    let mut up: BTreeSet<u64> = (0..24).collect();
    let mut now = Instant::ZERO;
    layout.set_nodes(up.iter().copied().map(node).collect());
    place_all(&mut strategy, &mut layout, now);
    let mut crashes = 0;
    while let Some(victim) = layout.view(now, 0).home(ShardId(0)) {
        let id = layout.view(now, 0).node(victim).id.id.0;
        crashes += 1;
        up.remove(&id);
        layout.set_nodes(up.iter().copied().map(node).collect());
        // A crash every few seconds: well within the time after which a node is forgotten.
        now = now + Duration::from_secs(5);
        place_all(&mut strategy, &mut layout, now);
        rest(&mut strategy, &mut layout, now);
    }
    assert_eq!(crashes, 4, "the hand and nothing else");
    let hash = |tenant: u32| key.hash("tenant", &format!("{tenant}"));
    let (mut full, mut squished) = (0, 0);
    for tenant in 1..400 {
        let left = strategy.hand(&layout.view(now, 0), hash(tenant)).len();
        full += u32::from(left == 4);
        squished += u32::from(left == 0);
        let served = (0..EACH).all(|n| layout.view(now, 0).home(ShardId(EACH * tenant + n)).is_some());
        assert_eq!(served, left > 0, "whoever has a node left is served");
    }
    let law = Isolation::new(24, 4).expect("a hand").overlap();
    assert!((f64::from(full) / 399.0 - law[0]).abs() < 0.06, "{full} of 399 unaffected, calculated {}", law[0]);
    assert!(squished <= 1, "{squished} of 399 without a node, calculated {}", law[4]);
}
