//! Who takes part, and what each is for.

use shard_core::allocation::{
    ActivationCount, AllocationStrategy, ByRole, ByTenant, ConsistentHashing, External, Hash, Homes, Immovable,
    LeastShard, NodeView, Orders, Pins, PreferLocal, Random, Rebalancing, ResourceOptimized, Returning, SeedLeastShard,
    Switch, ThresholdLeastShard, TwoChoices, TwoPhaseLeastShard, VersionAware, WeightedMove, WeightedRendezvous,
    ZoneSpread,
};
use shard_core::id::ShardId;
use shard_core::prng::mix;
use shard_core::shuffle::ShardSize;
use strategies_contrib::{AntiAffinity, BoundedLoad, CoLocation, Jump, Maglev, MetricCapacity, PinList, RoleAffinity};

type Boxed = Box<dyn AllocationStrategy>;

/// By what a strategy decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    /// How many shards a node has.
    Count,
    /// What they weigh.
    Load,
    /// A fixed rule.
    Rule,
    /// Chance.
    Chance,
    /// Something said from outside, around another strategy.
    Outside,
}

impl Family {
    pub(crate) const ALL: [Self; 5] = [Self::Count, Self::Load, Self::Rule, Self::Chance, Self::Outside];

    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::Count => "counts shards",
            Self::Load => "weighs shards",
            Self::Rule => "calculates homes by a fixed rule",
            Self::Chance => "draws nodes and moves nothing",
            Self::Outside => "obeys something from outside, and counts the rest",
        }
    }
}

/// A strategy that takes part.
#[derive(Clone, Copy)]
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    /// In a few words.
    pub(crate) purpose: &'static str,
    pub(crate) family: Family,
    /// Made for a cluster of these nodes.
    pub(crate) make: fn(&[NodeView]) -> Boxed,
    contributed: bool,
}

impl Contestant {
    /// Whether it is of `strategies-contrib`.
    pub(crate) const fn is_contributed(&self) -> bool {
        self.contributed
    }
}

/// Everybody, or those of the names given.
pub(crate) fn named(names: &[String]) -> Result<Vec<Contestant>, String> {
    if names == ["all"] {
        return Ok(ALL.into());
    }
    let known = || ALL.map(|it| it.name).join(", ");
    let find = |name: &String| {
        let found = ALL.into_iter().find(|it| it.name == name);
        found.ok_or_else(|| format!("no strategy is called {name:?}; there are all, {}", known()))
    };
    names.iter().map(find).collect()
}

const fn built_in(
    name: &'static str,
    family: Family,
    purpose: &'static str,
    make: fn(&[NodeView]) -> Boxed,
) -> Contestant {
    Contestant { name, purpose, family, make, contributed: false }
}

const fn contributed(
    name: &'static str,
    family: Family,
    purpose: &'static str,
    make: fn(&[NodeView]) -> Boxed,
) -> Contestant {
    Contestant { name, purpose, family, make, contributed: true }
}

/// Every twentieth shard is given a home where somebody has to say one.
const SPOKEN_FOR: usize = 20;

fn spoken_for(nodes: &[NodeView]) -> impl Iterator<Item = (ShardId, &NodeView)> {
    nodes.iter().cycle().take(2 * nodes.len()).enumerate().map(|(n, node)| (ShardId((n * SPOKEN_FOR) as u32), node))
}

/// Eight shards to a tenant or group.
fn group_of(shard: ShardId) -> Option<u64> {
    Some(mix(8, u64::from(shard.0 / 8)))
}

use Family::{Chance, Count, Load, Outside, Rule};

const ALL: [Contestant; 30] = [
    built_in("least-shard", Count, "the default: even counts, the fewest moves, three at a time", |_| {
        Box::new(LeastShard::default())
    }),
    built_in("two-phase-least-shard", Count, "as Akka does: even counts in a few large rounds", |_| {
        Box::new(TwoPhaseLeastShard::default())
    }),
    built_in("threshold-least-shard", Count, "as older Akka does: leaves small differences alone", |_| {
        Box::new(ThresholdLeastShard::default())
    }),
    built_in("seed-least-shard", Count, "as actor-ts does, but comes to rest", |_| Box::new(SeedLeastShard::default())),
    built_in("zone-spread", Count, "surviving the loss of a zone", |_| Box::new(ZoneSpread::new())),
    built_in("weighted-move", Load, "shards that differ in load", |_| Box::new(WeightedMove::new())),
    built_in("rebalancing", Load, "as Orleans does, corrected: load, towards nodes with memory to spare", |_| {
        Box::new(Rebalancing::new(LeastShard::default(), Switch::new()))
    }),
    built_in("weighted-rendezvous", Rule, "homes that outlive a full restart; nodes of unequal strength", |_| {
        Box::new(WeightedRendezvous::new())
    }),
    built_in("consistent-hashing", Rule, "as Akka does: owners that others compute too, by a ring", |_| {
        Box::new(ConsistentHashing::default())
    }),
    built_in("hash", Rule, "clusters that never change: owners by number", |_| Box::new(Hash)),
    built_in("two-choices", Chance, "very many nodes: the emptier of two drawn", |_| Box::new(TwoChoices::new())),
    built_in("activation-count", Chance, "as Orleans does: the one of a few drawn with the fewest entities", |_| {
        Box::new(ActivationCount::default())
    }),
    built_in("resource-optimized", Chance, "as Orleans does, mended: by processors, memory and entities", |_| {
        Box::new(ResourceOptimized::default())
    }),
    built_in("random", Chance, "very many small shards", |_| Box::new(Random)),
    built_in("prefer-local", Outside, "one caller to a shard: next to whoever asks first", |_| {
        Box::new(PreferLocal::new(LeastShard::default()))
    }),
    built_in("external", Outside, "users say where (here: every twentieth shard)", |nodes| {
        let mut homes = Homes::new();
        spoken_for(nodes).for_each(|(shard, node)| {
            homes.set(shard, node.id.id);
        });
        Box::new(External::new(LeastShard::default(), homes))
    }),
    built_in("pins", Outside, "operators say where (here: every twentieth shard)", |nodes| {
        let mut orders = Orders::new();
        spoken_for(nodes).for_each(|(shard, node)| orders.pin(shard, node.id.id));
        Box::new(Pins::new(LeastShard::default(), orders))
    }),
    built_in("returning", Outside, "full restarts: back to where shards were (here: every twentieth)", |nodes| {
        let homes: Vec<_> = spoken_for(nodes).map(|(shard, node)| (shard, node.id.id)).collect();
        Box::new(Returning::new(LeastShard::default(), homes))
    }),
    built_in("version-aware", Outside, "rolling updates: among the newest nodes", |_| {
        Box::new(VersionAware::new(LeastShard::default()))
    }),
    built_in("by-tenant", Outside, "a tenant's shards on its own few nodes (here: 8 shards on 4)", |_| {
        Box::new(ByTenant::new(LeastShard::default(), ShardSize::Members(4), group_of))
    }),
    built_in("immovable", Outside, "entities that are dear to wake: placed by count, never moved", |_| {
        Box::new(Immovable::new(LeastShard::default()))
    }),
    built_in(
        "by-role",
        Outside,
        "nodes that are for different things (here: every twentieth shard on every fourth node)",
        |_| Box::new(ByRole::new(|shard: ShardId| (shard.0 as usize).is_multiple_of(SPOKEN_FOR).then_some("big"))),
    ),
    contributed("role-affinity", Outside, "the first shards on nodes with a role (here: 50 on every fourth)", |_| {
        Box::new(RoleAffinity::new("big", ShardId(50), LeastShard::default()))
    }),
    contributed("pin-list", Outside, "a fixed list of shards and addresses (here: every twentieth)", |nodes| {
        let list = PinList::new(LeastShard::default());
        Box::new(spoken_for(nodes).fold(list, |list, (shard, node)| list.pin(shard, &*node.address)))
    }),
    contributed("anti-affinity", Count, "replicas on different nodes (here: groups of 8)", |_| {
        Box::new(AntiAffinity::new(group_of))
    }),
    contributed("co-location", Count, "what talks to each other on one node (here: groups of 8)", |_| {
        Box::new(CoLocation::new(LeastShard::default(), group_of))
    }),
    contributed("metric-capacity", Count, "as many shards as a node can carry", |_| {
        Box::new(MetricCapacity::new(|node: &NodeView| node.capacity))
    }),
    contributed("bounded-load", Rule, "owners anybody can calculate, none above 125 % of the mean", |_| {
        Box::new(BoundedLoad::new(25))
    }),
    contributed("maglev", Rule, "owners anybody can calculate, with equal counts", |_| Box::new(Maglev::default())),
    contributed("jump", Rule, "the same without memory: nodes numbered, scaled at the end", |_| Box::new(Jump)),
];
