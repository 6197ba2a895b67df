//! What [`RoleAffinity`] is for.

use shard_core::allocation::{AllocationStrategy, Layout, LeastShard, Ledger, Limits, NodeIx, NodeView, Request, Why};
use shard_core::id::{Incarnation, NodeId, NodeKey, ShardId};
use shard_core::time::Instant;
use strategies_contrib::RoleAffinity;

const T0: Instant = Instant::ZERO;
const PINNED: ShardId = ShardId(4);

fn node(id: u64, role: Option<&str>) -> NodeView {
    let mut node =
        NodeView::new(NodeKey { id: NodeId(id), incarnation: Incarnation(1) }, format!("127.0.0.1:{}", 7_000 + id));
    node.roles.extend(role.map(String::from));
    node
}

fn rule() -> RoleAffinity<LeastShard> {
    RoleAffinity::new("coordinator", PINNED, LeastShard::new(1, 10))
}

/// Twelve shards dealt to four nodes, of which the last has the role.
fn dealt() -> Layout {
    let mut layout = Layout::new(12);
    layout.set_nodes(vec![node(1, None), node(2, None), node(3, None), node(4, Some("coordinator"))]);
    (0..12).for_each(|shard| layout.settle(T0, ShardId(shard), NodeIx((shard % 4) as u16)));
    layout
}

fn homes(layout: &Layout) -> Vec<Option<u16>> {
    let view = layout.view(T0, 0);
    view.shards().map(|shard| view.home(shard).map(|ix| ix.0)).collect()
}

/// Plans and carries out whole rounds until one has no moves; then one more, which must have none either.
fn rest(strategy: &mut dyn AllocationStrategy, layout: &mut Layout) -> usize {
    let mut ledger = Ledger::new();
    let mut made = 0;
    let mut quiet = 0;
    for round in 0..1_000 {
        let moves = ledger.round(strategy, &layout.view(T0, round), Limits::default()).to_vec();
        made += moves.len();
        quiet = if moves.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 {
            return made;
        }
        moves.iter().for_each(|m| layout.settle(T0, m.shard, m.to));
    }
    panic!("never rests: {:?}", ledger.moves());
}

#[test]
fn pinned_shards_are_placed_on_the_role_and_others_where_the_inner_strategy_says() {
    let mut layout = Layout::new(12);
    layout.set_nodes(vec![node(1, None), node(2, Some("coordinator")), node(3, Some("coordinator"))]);
    layout.settle(T0, ShardId(8), NodeIx(1));
    let place = |layout: &Layout, shard| rule().place(&layout.view(T0, 0), &Request::new(ShardId(shard), 0));
    assert_eq!(place(&layout, 3), Some(NodeIx(2)), "the role's node with the fewest shards");
    assert_eq!(place(&layout, 4), Some(NodeIx(0)), "not pinned");
    layout.set_accepts(NodeIx(2), false);
    assert_eq!(place(&layout, 3), Some(NodeIx(1)));
    layout.set_accepts(NodeIx(1), false);
    assert_eq!(place(&layout, 3), Some(NodeIx(0)), "nobody with the role takes shards");
}

#[test]
fn pinned_shards_are_fetched_home_and_the_others_make_room() {
    let mut layout = dealt();
    // Three pinned shards go to the last node, which then gives away the two of its own that are not pinned.
    assert_eq!(rest(&mut rule(), &mut layout), 5);
    let homes = homes(&layout);
    assert_eq!(homes[..4], [Some(3); 4]);
    let mut counts = [0; 4];
    homes.iter().flatten().for_each(|home| counts[usize::from(*home)] += 1);
    assert_eq!(counts, [3, 3, 2, 4], "four are pinned to the last node, and the rest is even");
}

#[test]
fn a_second_node_with_the_role_takes_no_pinned_shard_away() {
    let mut layout = dealt();
    rest(&mut rule(), &mut layout);
    layout.set_nodes(
        [1, 2, 3].map(|id| node(id, None)).into_iter().chain([4, 5].map(|id| node(id, Some("coordinator")))).collect(),
    );
    rest(&mut rule(), &mut layout);
    assert_eq!(homes(&layout)[..4], [Some(3); 4]);
}

#[test]
fn without_the_role_the_inner_strategy_has_its_way() {
    let mut layout = dealt();
    layout.set_nodes((1..=4).map(|id| node(id, None)).collect());
    assert_eq!(rest(&mut rule(), &mut layout), 0);
    let view = layout.view(T0, 0);
    assert_eq!(
        rule().place(&view, &Request::new(ShardId(0), 0)),
        LeastShard::default().place(&view, &Request::new(ShardId(0), 0))
    );
}

#[test]
fn every_move_says_why() {
    let layout = dealt();
    let mut ledger = Ledger::new();
    let moves = ledger.round(&mut rule(), &layout.view(T0, 0), Limits::default());
    for m in moves {
        assert_eq!(m.why, if m.shard < PINNED { Why::Role } else { Why::Count }, "{m:?}");
    }
}

#[test]
fn what_is_under_way_counts_against_the_inner_limit() {
    let layout = dealt();
    let mut tight = RoleAffinity::new("coordinator", PINNED, LeastShard::new(1, 3));
    let mut ledger = Ledger::new();
    // Three fetches are all that may be under way, so the inner strategy waits for them.
    let moves = ledger.round(&mut tight, &layout.view(T0, 0), Limits::default());
    assert_eq!(moves.iter().map(|m| m.shard.0).collect::<Vec<_>>(), [0, 1, 2]);
}
