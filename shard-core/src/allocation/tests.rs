//! The strategies of this folder, by example; `sim::laws` tries the laws on them.

use std::{boxed::Box, format, string::String, vec, vec::Vec};

mod million;

use proptest::prelude::*;

use super::*;
use crate::{
    id::{Incarnation, NodeId, NodeKey},
    prng::Prng,
    time::{Duration, Instant},
};

pub(super) const T0: Instant = Instant::ZERO;

pub(super) fn node(id: u64, address: &str) -> NodeView {
    NodeView::new(NodeKey { id: NodeId(id), incarnation: Incarnation(1) }, address)
}

/// Nodes `h:10`, `h:11` and so on, which are numbered as they are listed, owning the shards given.
pub(super) fn layout(owned: &[&[u32]]) -> Layout {
    let shards = owned.iter().flat_map(|shards| shards.iter()).max().map_or(0, |max| max + 1);
    let mut layout = Layout::new(shards);
    layout.set_nodes((0..owned.len() as u64).map(|n| node(n, &format!("h:{}", 10 + n))).collect());
    for (ix, shards) in (0..).map(NodeIx).zip(owned) {
        shards.iter().for_each(|shard| layout.settle(T0, ShardId(*shard), ix));
    }
    layout
}

pub(super) fn planned(strategy: &mut dyn AllocationStrategy, layout: &Layout) -> Vec<(u32, u16)> {
    let limits = Limits { moves_per_round_max: usize::MAX, in_flight_max: usize::MAX };
    let mut ledger = Ledger::new();
    ledger.round(strategy, &layout.view(T0, 0), limits).iter().map(|m| (m.shard.0, m.to.0)).collect()
}

pub(super) fn placed(strategy: &mut dyn AllocationStrategy, layout: &Layout, shard: u32) -> Option<String> {
    let view = layout.view(T0, 0);
    strategy.place(&view, &Request::new(ShardId(shard), 0)).map(|ix| view.node(ix).address.clone())
}

/// Plans and carries out whole rounds until one has no moves; returns the moves made.
pub(super) fn rest(strategy: &mut dyn AllocationStrategy, layout: &mut Layout) -> usize {
    let mut ledger = Ledger::new();
    let mut made = 0;
    for _ in 0..10_000 {
        let moves = ledger.round(strategy, &layout.view(T0, 0), Limits::default()).to_vec();
        if moves.is_empty() {
            return made;
        }
        made += moves.len();
        moves.iter().for_each(|m| layout.settle(T0, m.shard, m.to));
    }
    panic!("never rests");
}

#[test]
fn hash_places_by_number_in_byte_order_of_the_addresses() {
    let mut layout = Layout::new(4);
    layout.set_nodes(["s@h:9", "s@h:1", "s@h:10", "s@h:2"].iter().zip(0..).map(|(a, n)| node(n, a)).collect());
    let owners: Vec<_> = (0..5).filter_map(|shard| placed(&mut Hash, &layout, shard)).collect();
    assert_eq!(owners, ["s@h:1", "s@h:10", "s@h:2", "s@h:9", "s@h:1"]);
    assert_eq!(placed(&mut Hash, &Layout::new(1), 0), None);
}

#[test]
fn hash_moves_what_strayed_and_nothing_else() {
    assert_eq!(planned(&mut Hash, &layout(&[&[], &[1], &[0, 2]])), [(0, 0)]);
    let mut two_of_three = layout(&[&[0], &[1], &[2]]);
    two_of_three.set_accepts(NodeIx(2), false);
    assert_eq!(planned(&mut Hash, &two_of_three), [(2, 0)]);
    let mut one_of_two = layout(&[&[0], &[1, 2]]);
    one_of_two.set_accepts(NodeIx(1), false);
    assert_eq!(planned(&mut Hash, &one_of_two), [(1, 0), (2, 0)]);
    one_of_two.set_accepts(NodeIx(0), false);
    assert_eq!(planned(&mut Hash, &one_of_two), []);
    let mut moving = layout(&[&[], &[1], &[0, 2]]);
    moving.depart(ShardId(0), Some(NodeIx(0)));
    assert_eq!(planned(&mut Hash, &moving), []);
}

#[test]
fn hash_moves_as_many_as_in_the_seed_when_a_fourth_node_joins() {
    let by_three: Vec<Vec<u32>> = (0..3).map(|n| (n..64).step_by(3).collect()).collect();
    let slices: Vec<&[u32]> = by_three.iter().map(Vec::as_slice).chain([&[][..]]).collect();
    assert_eq!(planned(&mut Hash, &layout(&slices)).len(), 46);
}

#[test]
fn least_shard_places_where_the_fewest_are_the_lowest_address_first() {
    assert_eq!(placed(&mut LeastShard::default(), &layout(&[&[0, 1, 2], &[], &[3]]), 9).as_deref(), Some("h:11"));
    assert_eq!(placed(&mut LeastShard::default(), &layout(&[&[0], &[1], &[2]]), 9).as_deref(), Some("h:10"));
    let mut ports = Layout::new(1);
    ports.set_nodes(vec![node(1, "h:9"), node(2, "h:10")]);
    assert_eq!(placed(&mut LeastShard::default(), &ports, 0).as_deref(), Some("h:10"));
    assert_eq!(placed(&mut LeastShard::default(), &Layout::new(1), 0), None);
}

#[test]
fn least_shard_moves_only_what_improves_the_balance() {
    // (threshold, moves at once, shards of each node) and the seed's answer where that one improves.
    type Case<'a> = (u32, usize, &'a [&'a [u32]], &'a [(u32, u16)]);
    let cases: [Case<'_>; 12] = [
        (1, 3, &[&[0], &[1]], &[]),
        (2, 3, &[&[0, 1], &[2]], &[]),
        (5, 10, &[&[0, 1, 2], &[3, 4]], &[]),
        (1, 3, &[&[0, 1, 2]], &[]),
        (1, 0, &[&[0, 1, 2], &[]], &[]),
        (2, 1, &[&[0, 1, 2], &[3]], &[(0, 1)]),
        (1, 2, &[&[0, 1, 2, 3, 4], &[]], &[(0, 1), (1, 1)]),
        // The seed moves one shard too many, or more, in each of these.
        (1, 3, &[&[0], &[]], &[]),
        (0, 3, &[&[0], &[1]], &[]),
        (1, 3, &[&[0, 1], &[2]], &[]),
        (1, 10, &[&[0, 1, 2, 3], &[]], &[(0, 1), (1, 1)]),
        (1, 10, &[&[0, 1, 2, 3], &[4, 5, 6, 7], &[]], &[(0, 2), (4, 2)]),
    ];
    for (threshold, at_once, owned, moves) in cases {
        assert_eq!(planned(&mut LeastShard::new(threshold, at_once), &layout(owned)), moves, "{owned:?}");
    }
}

#[test]
fn least_shard_counts_what_is_under_way() {
    let mut layout = layout(&[&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[]]);
    layout.depart(ShardId(0), Some(NodeIx(1)));
    layout.depart(ShardId(1), Some(NodeIx(1)));
    assert_eq!(planned(&mut LeastShard::new(1, 3), &layout), [(2, 1)]);
    layout.depart(ShardId(2), Some(NodeIx(1)));
    assert_eq!(planned(&mut LeastShard::new(1, 3), &layout), []);
    // Seven and three are under way or there: two more make it even, not four.
    assert_eq!(planned(&mut LeastShard::new(1, 100), &layout), [(3, 1), (4, 1)]);
}

#[test]
fn least_shard_does_not_send_on_what_has_not_arrived() {
    let mut layout = layout(&[&[0, 1, 2, 3], &[], &[]]);
    (0..4).for_each(|shard| layout.depart(ShardId(shard), Some(NodeIx(1))));
    assert_eq!(planned(&mut LeastShard::new(1, 100), &layout), []);
}

#[test]
fn least_shard_leaves_nodes_alone_that_take_nothing() {
    let mut layout = layout(&[&[0, 1, 2], &[3], &[]]);
    layout.set_accepts(NodeIx(2), false);
    assert_eq!(planned(&mut LeastShard::new(1, 10), &layout), [(0, 1)]);
}

#[test]
fn a_plan_holds_the_laws() {
    let mut layout = layout(&[&[0, 1, 2, 3], &[], &[]]);
    layout.set_accepts(NodeIx(2), false);
    layout.depart(ShardId(3), None);
    struct Lawless(Vec<Result<(), Rejected>>);
    impl AllocationStrategy for Lawless {
        fn name(&self) -> &'static str {
            "lawless"
        }
        fn place(&mut self, _: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
            None
        }
        fn plan(&mut self, _: &ClusterView<'_>, plan: &mut Plan<'_>) {
            for (shard, to) in [(0, 2), (0, 9), (9, 1), (3, 1), (0, 0), (0, 1), (0, 1), (1, 1), (2, 1)] {
                self.0.push(plan.propose(ShardId(shard), NodeIx(to), Why::Other("no reason")));
            }
            assert_eq!((plan.count(NodeIx(0)), plan.count(NodeIx(1)), plan.budget()), (2, 2, 0));
        }
    }
    let mut lawless = Lawless(Vec::new());
    let mut ledger = Ledger::new();
    // Three at once, one of them under way already.
    let limits = Limits { moves_per_round_max: 5, in_flight_max: 3 };
    let moves = ledger.round(&mut lawless, &layout.view(T0, 0), limits);
    assert_eq!(moves.iter().map(|m| (m.shard.0, m.from.0, m.to.0)).collect::<Vec<_>>(), [(0, 0, 1), (1, 0, 1)]);
    use Rejected::{AlreadyMoving, AlreadyThere, BudgetSpent, NoHome, NotACandidate};
    let refused = [NotACandidate, NotACandidate, NoHome, AlreadyMoving, AlreadyThere].map(Err);
    assert_eq!(lawless.0[..5], refused);
    assert_eq!(lawless.0[5..], [Ok(()), Err(AlreadyMoving), Ok(()), Err(BudgetSpent)]);
}

#[test]
fn a_copy_of_the_view_that_is_not_true_gets_nothing_past_the_plan() {
    /// Plans on a copy in which everybody accepts and nothing is on its way.
    struct Deluded;
    impl AllocationStrategy for Deluded {
        fn name(&self) -> &'static str {
            "deluded"
        }
        fn place(&mut self, _: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
            None
        }
        fn plan(&mut self, _: &ClusterView<'_>, plan: &mut Plan<'_>) {
            let copy = layout(&[&[0, 1, 2, 3], &[], &[]]);
            let view = copy.view(T0, 0);
            let mut plan = plan.within(&view);
            let mut nested = plan.within(&view);
            let proposed = [(0, 1), (1, 2), (2, 1), (3, 1)];
            let answers = proposed.map(|(shard, to)| nested.propose(ShardId(shard), NodeIx(to), Why::Rule));
            use Rejected::{AlreadyMoving, NoHome, NotACandidate};
            assert_eq!(answers, [Err(AlreadyMoving), Err(NotACandidate), Ok(()), Err(NoHome)]);
        }
    }
    let mut truth = layout(&[&[0, 1, 2, 3], &[], &[]]);
    truth.depart(ShardId(0), Some(NodeIx(1)));
    truth.free(ShardId(3));
    truth.set_accepts(NodeIx(2), false);
    let mut ledger = Ledger::new();
    let moves = ledger.round(&mut Deluded, &truth.view(T0, 0), Limits::default());
    assert_eq!(moves.iter().map(|m| (m.shard.0, m.to.0)).collect::<Vec<_>>(), [(2, 1)]);
    assert_eq!((ledger.misled(), ledger.refused(Rejected::NotACandidate)), (1, 1));
    assert_eq!((ledger.refused(Rejected::NoHome), ledger.refused(Rejected::BudgetSpent)), (1, 0));
}

#[test]
fn only_admitted_nodes_are_used_and_shards_elsewhere_are_fetched() {
    let backend = |view: &ClusterView<'_>, ix| view.node(ix).address != "h:10";
    let mut strategy: Box<dyn AllocationStrategy> = Box::new(LeastShard::new(1, 10).only(backend));
    let mut homes = layout(&[&[0, 1, 2], &[3], &[]]);
    assert_eq!(placed(&mut strategy, &homes, 9).as_deref(), Some("h:12"));
    // One by one to where the fewest are, so nothing has to move twice.
    assert_eq!(planned(&mut strategy, &homes), [(0, 2), (1, 1), (2, 2)]);
    assert_eq!(rest(&mut strategy, &mut homes), 3);
    homes.set_accepts(NodeIx(1), false);
    homes.set_accepts(NodeIx(2), false);
    assert_eq!((placed(&mut strategy, &homes, 9), planned(&mut strategy, &homes)), (None, vec![]));
}

#[test]
fn preferred_nodes_are_used_while_there_are_any() {
    let mut strategy = LeastShard::new(1, 10).preferring(|view: &ClusterView<'_>, ix| view.node(ix).has_role("big"));
    let mut homes = layout(&[&[0, 1], &[2, 3, 4]]);
    assert_eq!(placed(&mut strategy, &homes, 9).as_deref(), Some("h:10"));
    let mut big = node(1, "h:11");
    big.roles.push("big".into());
    homes.set_nodes(vec![node(0, "h:10"), big]);
    assert_eq!(placed(&mut strategy, &homes, 9).as_deref(), Some("h:11"));
}

#[test]
fn shards_stay_with_their_nodes_when_others_come_and_go() {
    let mut layout = layout(&[&[0], &[1], &[2, 3]]);
    layout.depart(ShardId(2), Some(NodeIx(0)));
    layout.depart(ShardId(0), Some(NodeIx(1)));
    layout.set_nodes(vec![node(2, "h:12"), node(7, "a:1"), node(1, "h:11")]);
    let view = layout.view(T0 + Duration::from_secs(3), 0);
    assert_eq!(view.nodes().iter().map(|n| n.id.id.0).collect::<Vec<_>>(), [7, 1, 2]);
    let homes: Vec<_> = view.shards().map(|s| (view.home(s).map(|ix| ix.0), view.is_moving(s))).collect();
    assert_eq!(homes, [(None, false), (Some(1), false), (Some(2), true), (Some(2), false)]);
    assert_eq!(([0, 1, 2].map(|ix| view.count(NodeIx(ix))), view.in_flight()), ([0, 1, 2], 1));
    assert_eq!((view.age(ShardId(0)), view.age(ShardId(1))), (None, Some(Duration::from_secs(3))));
}

fn strategies() -> [Box<dyn AllocationStrategy>; 5] {
    let even = |_: &ClusterView<'_>, ix: NodeIx| ix.0.is_multiple_of(2);
    [
        Box::new(Hash),
        Box::new(LeastShard::default()),
        Box::new(LeastShard::new(3, 50)),
        Box::new(LeastShard::default().only(even)),
        Box::new(Hash.preferring(even)),
    ]
}

proptest! {
    #[test]
    fn plans_come_to_rest(homes in prop::collection::vec(0..7_u16, 1..120), refusing in 0..7_u16) {
        for mut strategy in strategies() {
            let mut layout = layout(&[&[][..]; 7]);
            layout.seats_for_test(&homes);
            layout.set_accepts(NodeIx(refusing), false);
            rest(&mut strategy, &mut layout);
            prop_assert_eq!(planned(&mut strategy, &layout), vec![]);
        }
    }

    #[test]
    fn least_shard_ends_at_most_one_apart_and_moves_no_more_than_it_must(homes in prop::collection::vec(0..7_u16, 1..120)) {
        let mut layout = layout(&[&[][..]; 7]);
        layout.seats_for_test(&homes);
        let counts = |layout: &Layout| (0..7).map(|ix| layout.view(T0, 0).count(NodeIx(ix))).collect::<Vec<_>>();
        let mean = homes.len().div_ceil(7) as u32;
        let above: u32 = counts(&layout).iter().map(|count| count.saturating_sub(mean)).sum();
        let below: u32 = counts(&layout).iter().map(|count| (homes.len() as u32 / 7).saturating_sub(*count)).sum();
        let made = rest(&mut LeastShard::default(), &mut layout);
        let ended = counts(&layout);
        prop_assert!(ended.iter().max().unwrap() - ended.iter().min().unwrap() <= 1, "{:?}", ended);
        prop_assert_eq!(made as u32, above.max(below));
    }

    #[test]
    fn the_order_in_which_nodes_are_given_does_not_matter(homes in prop::collection::vec(0..5_u16, 1..60), seed: u64) {
        for mut strategy in strategies() {
            let mut answers = Vec::new();
            for shuffled in [false, true] {
                let mut nodes: Vec<_> = (0..5).map(|n| node(n, &format!("h:{}", 10 + n))).collect();
                if shuffled {
                    Prng::new(seed).shuffle(&mut nodes);
                }
                let mut layout = Layout::new(homes.len() as u32);
                layout.set_nodes(nodes);
                layout.seats_for_test(&homes);
                answers.push((placed(&mut strategy, &layout, 3), planned(&mut strategy, &layout)));
            }
            prop_assert_eq!(&answers[0], &answers[1]);
        }
    }

    #[test]
    fn counts_are_those_of_the_seats(steps in prop::collection::vec((0..5_u8, 0..9_u32, 0..4_u16), 0..60)) {
        let mut layout = Layout::new(9);
        layout.set_nodes((0..4).map(|n| node(n, &format!("h:{n}"))).collect());
        let mut twin = [(None, None); 9];
        for (step, shard, ix) in steps {
            let seat: &mut (Option<u16>, Option<Option<u16>>) = &mut twin[shard as usize];
            match step {
                0 | 1 => { layout.settle(T0, ShardId(shard), NodeIx(ix)); *seat = (Some(ix), None) }
                2 => { layout.free(ShardId(shard)); *seat = (None, None) }
                _ => {
                    let to = (step == 3).then_some(ix);
                    layout.depart(ShardId(shard), to.map(NodeIx));
                    if seat.0.is_some() { seat.1 = Some(to) }
                }
            }
            let view = layout.view(T0, 0);
            prop_assert_eq!(view.in_flight(), twin.iter().filter(|seat| seat.1.is_some()).count());
            for ix in 0..4 {
                let counted = twin.iter().filter(|(home, heading)| heading.flatten().or(*home) == Some(ix)).count();
                prop_assert_eq!(view.count(NodeIx(ix)) as usize, counted);
            }
        }
    }
}

impl Layout {
    pub(super) fn seats_for_test(&mut self, homes: &[u16]) {
        if self.view(T0, 0).shards().len() < homes.len() {
            let nodes = self.view(T0, 0).nodes().to_vec();
            *self = Self::new(homes.len() as u32);
            self.set_nodes(nodes);
        }
        homes.iter().zip(0..).for_each(|(home, shard)| self.settle(T0, ShardId(shard), NodeIx(*home)));
    }
}
