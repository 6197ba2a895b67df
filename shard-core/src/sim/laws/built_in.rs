//! What is built in, with what it claims.

use alloc::{boxed::Box, string::ToString, vec, vec::Vec};
use core::num::NonZeroU32;

use super::Laws;
use crate::allocation::{
    ActivationCount, AllocationStrategy, Balance, ByRole, ByTenant, Chain, ClusterView, ConsistentHashing, External,
    Filter, HasRole, Hash, Homes, Immovable, InZones, LeastShard, NodeIx, NotOverloaded, Orders, Pins, PreferLocal,
    PreferredMatch, Random, Rebalancing, Repartitioning, RequiredMatch, ResourceOptimized, SeedLeastShard, Switch,
    ThresholdLeastShard, TwoChoices, TwoPhaseLeastShard, VersionAware, VersionMatch, WeightedMove, WeightedRendezvous,
    ZoneIx, ZoneSpread,
};
use crate::id::{NodeId, ShardId};
use crate::shuffle::{FlowKey, ShardSize, WhenAllDown};
use crate::time::Duration;

/// How the laws of [`built_in`] make their strategies.
pub type MakeBuiltIn = fn() -> Box<dyn AllocationStrategy>;

/// A cluster has ten nodes at most, so this many even shares are everything: the claim of those whose moves are as many as
/// their rule, or a filter, says.
const ALL_OF_THEM: u32 = 10;

/// Every strategy and filter that is built in, about to be tried on the laws with what it claims.
///
/// [`Returning`](crate::allocation::Returning) alone is not among them: it is meant to answer differently once a shard was
/// placed, until then it is its inner strategy, and it moves nothing. Strategies that obey what is said from outside are given
/// something to obey that does not change.
///
/// Where homes are drawn (rendezvous, ring), movement is as chance has it, and the claim one that generated clusters have kept.
/// `ByTenant` remembers who vanished for a minute, so for it rest is what comes after that.
///
/// ```
/// shard_core::sim::laws::built_in().into_iter().for_each(|laws| laws.cases(3).check());
/// ```
#[must_use]
pub fn built_in() -> Vec<Laws<MakeBuiltIn>> {
    let mut all = by_themselves();
    all.extend(around_others());
    all.extend(filtered());
    all
}

/// The laws, for a strategy that moves so many times the least that must move, and so many times as many as there are shards
/// on the way to rest from anywhere.
fn claims(make: MakeBuiltIn, movement: u32, moves_per_shard: u32) -> Laws<MakeBuiltIn> {
    Laws::new(make).movement(movement).moving_per_shard(moves_per_shard)
}

fn by_themselves() -> Vec<Laws<MakeBuiltIn>> {
    const SLOW: Duration = Duration::from_secs(3_000);
    vec![
        claims(|| Box::new(LeastShard::default()), 1, 1).at_most_in_flight(3),
        claims(|| Box::new(LeastShard::new(3, 50)), 1, 1).at_most_in_flight(50),
        claims(|| Box::new(LeastShard::new(0, 1)), 1, 1).at_most_in_flight(1),
        claims(|| Box::new(TwoPhaseLeastShard::default()), 2, 1),
        claims(|| Box::new(TwoPhaseLeastShard::new(1_000, 1_000)), 2, 1),
        claims(|| Box::new(ThresholdLeastShard::default()), 2, 1).at_most_in_flight(3),
        claims(|| Box::new(ThresholdLeastShard::new(3, 50)), 2, 1).at_most_in_flight(50),
        claims(|| Box::new(SeedLeastShard::default()), 2, 2),
        claims(|| Box::new(SeedLeastShard::new(3, 50)), 2, 2),
        claims(|| Box::new(ZoneSpread::new()), 4, 1),
        claims(|| Box::new(WeightedMove::new()), 1, 1),
        claims(|| Box::new(eager().hysteresis(1_000, 1_000)), 3, 3),
        claims(|| Box::new(WeightedRendezvous::new()), 4, 1),
        claims(|| Box::new(ConsistentHashing::default()), 4, 1),
        claims(|| Box::new(ConsistentHashing::new(NonZeroU32::MIN)), 4, 1),
        claims(|| Box::new(Hash), ALL_OF_THEM, 1),
        claims(|| Box::new(TwoChoices::new()), 1, 0),
        claims(|| Box::new(TwoChoices::new().slow_start(SLOW)), 1, 0),
        claims(|| Box::new(ActivationCount::default()), 1, 0),
        claims(|| Box::new(ActivationCount::default().slow_start(SLOW)), 1, 0),
        claims(|| Box::new(Random), 1, 0),
        claims(|| Box::new(ResourceOptimized::default()), 1, 0),
        claims(|| Box::new(ByRole::new(role_of)), ALL_OF_THEM, 1).role("big"),
    ]
}

/// Every third shard is at home anywhere.
fn role_of(shard: ShardId) -> Option<&'static str> {
    [Some("big"), Some("nobody has it"), None][shard.0 as usize % 3]
}

fn around_others() -> Vec<Laws<MakeBuiltIn>> {
    let mut all = vec![
        claims(|| Box::new(Immovable::new(LeastShard::default())), 1, 0),
        claims(|| Box::new(PreferLocal::new(Random)), 1, 0),
        claims(|| Box::new(PreferLocal::new(SeedLeastShard::default())), 2, 2),
        claims(|| Box::new(External::new(LeastShard::default(), homes())), 4, 2),
        claims(|| Box::new(External::new(Hash, homes())), ALL_OF_THEM, 1),
        claims(|| Box::new(External::new(eager(), homes())), 4, 3),
        claims(|| Box::new(Pins::new(LeastShard::default(), orders())), 4, 2),
        claims(|| Box::new(Pins::new(Hash, orders())), ALL_OF_THEM, 2),
        claims(|| Box::new(Pins::new(ZoneSpread::new(), orders())), 4, 2),
        claims(|| Box::new(VersionAware::new(LeastShard::default())), 4, 2),
        claims(|| Box::new(VersionAware::new(WeightedRendezvous::new())), 4, 2),
    ];
    // They remember their session, for a cycle.
    let rebalancing: [MakeBuiltIn; 2] = [|| Box::new(rebalancing()), || Box::new(rebalancing().ramping(905))];
    all.extend(rebalancing.map(|make| Laws::new(make).movement(ALL_OF_THEM).remembering(Duration::from_secs(1))));
    let talking: [MakeBuiltIn; 3] = [
        || Box::new(repartitioning(LeastShard::default())),
        || Box::new(repartitioning(TwoPhaseLeastShard::default()).tolerating(300, 0)),
        || Box::new(repartitioning(LeastShard::default()).only(big)),
    ];
    all.extend(talking.map(|make| Laws::new(make).movement(ALL_OF_THEM).talking().role("big")));
    all.push(Laws::new(rebalanced as MakeBuiltIn).movement(ALL_OF_THEM).talking().remembering(Duration::from_secs(1)));
    // They remember who was there, for a minute.
    let tenants: [MakeBuiltIn; 6] = [
        || Box::new(by_tenant(LeastShard::new(1, 10))),
        || Box::new(by_tenant(Hash)),
        || Box::new(by_tenant(LeastShard::new(1, 10).only(big))),
        || Box::new(by_tenant(LeastShard::default()).only(big)),
        || Box::new(by_tenant(Hash).preferring(big)),
        || Box::new(by_tenant(LeastShard::new(1, 10)).when_all_down(WhenAllDown::Spill)),
    ];
    let minute = Duration::from_secs(60);
    all.extend(tenants.map(|make| Laws::new(make).movement(ALL_OF_THEM).remembering(minute).role("big")));
    all
}

/// Whatever a filter admits, there are never more shards to move than there are.
fn filtered() -> Vec<Laws<MakeBuiltIn>> {
    let strategies: [MakeBuiltIn; 17] = [
        || Box::new(Hash.only(big)),
        || Box::new(Hash.preferring(big)),
        || Box::new(LeastShard::default().only(big)),
        || Box::new(LeastShard::default().preferring(big)),
        || Box::new(LeastShard::new(2, 9).only(big).only(strong)),
        || Box::new(LeastShard::new(2, 9).preferring(big).only(strong)),
        || Box::new(LeastShard::new(1, 9).only(strong).preferring(big)),
        || Box::new(Hash.preferring(strong).preferring(big)),
        || Box::new(LeastShard::default().only(chain())),
        || Box::new(LeastShard::default().preferring(chain())),
        || Box::new(LeastShard::default().only(VersionMatch::Newest)),
        || Box::new(LeastShard::default().only(HasRole::new("big"))),
        || Box::new(LeastShard::default().only(NotOverloaded::new(500, 500))),
        || Box::new(LeastShard::default().preferring(NotOverloaded::default())),
        || Box::new(ZoneSpread::new().only(InZones::new([ZoneIx(0), ZoneIx(2)]))),
        || Box::new(LeastShard::default().only(RequiredMatch::new([("disk", "ssd")]))),
        || Box::new(WeightedRendezvous::new().only(PreferredMatch::new([("disk", "ssd"), ("rack", "a")], 1))),
    ];
    let laws = |make| claims(make, ALL_OF_THEM, 3).role("big");
    strategies.map(|make| laws(make).metadata("disk", &["ssd", "hdd"]).metadata("rack", &["a", "b"])).into()
}

fn big(view: &ClusterView<'_>, ix: NodeIx) -> bool {
    view.node(ix).has_role("big")
}

fn strong(view: &ClusterView<'_>, ix: NodeIx) -> bool {
    view.node(ix).capacity > 1 || view.node(ix).zone.0 == 1
}

/// Two filters that see different candidates in one order than in the other.
fn chain() -> impl Filter {
    let zones = InZones::new([ZoneIx(0), ZoneIx(1)]);
    let chain = Chain::new().with(1, zones).and_then(|chain| chain.with(2, VersionMatch::Newest));
    chain.unwrap_or_else(|error| unreachable!("{error:?}"))
}

/// Looks at every plan, and calls nothing balance that a move can better.
fn rebalancing() -> Rebalancing<LeastShard> {
    let within = Rebalancing::new(LeastShard::default(), Switch::new()).allowing(0);
    within.every(Duration::ZERO).cooling_down(Duration::ZERO)
}

/// Follows whatever talks, without waiting.
fn repartitioning<S: AllocationStrategy>(inner: S) -> Repartitioning<S> {
    Repartitioning::new(inner, Switch::new()).cooling_down(Duration::ZERO).heeding(1, 1)
}

fn rebalanced() -> Box<dyn AllocationStrategy> {
    Box::new(repartitioning(rebalancing()).keeping_even(Balance::Memory))
}

/// Moves load whenever that helps.
fn eager() -> WeightedMove {
    WeightedMove::new().cooling_down(Duration::ZERO).moving_at_most(1_000)
}

/// An id that a node of a generated world may have.
fn some_node(of: u64) -> NodeId {
    NodeId(of * 7 % 200 * 64 + of % 9)
}

fn homes() -> Homes {
    let mut homes = Homes::new();
    (0..60).for_each(|shard| {
        homes.set(ShardId(shard), some_node(u64::from(shard)));
    });
    homes
}

fn orders() -> Orders {
    let mut orders = Orders::new();
    (0..50).for_each(|shard| orders.pin(ShardId(shard), some_node(u64::from(shard))));
    (50..90).for_each(|node| orders.cordon(some_node(node)));
    (90..120).for_each(|node| orders.drain(some_node(node)));
    orders
}

fn by_tenant<S: AllocationStrategy>(inner: S) -> ByTenant<S, fn(ShardId) -> Option<u64>> {
    ByTenant::new(inner, ShardSize::Members(3), tenant_of)
}

/// Four shards to a tenant; the last ones are nobody's in particular.
fn tenant_of(shard: ShardId) -> Option<u64> {
    (shard.0 < 40).then(|| FlowKey::new(7).tenant(&(shard.0 / 4).to_string()))
}
