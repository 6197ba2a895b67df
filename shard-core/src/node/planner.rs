//! Where shards go while this node reigns: strategies asked, their answers handed to the allocator.
//!
//! The planner decides nothing about safety. It reads the allocator, asks the strategy of the type, and puts the answer
//! in as `Allocate` and `Drain`, which the allocator obeys only if its own rules allow it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use super::NodeConfig;
use super::explain::{Cause, Explanation, Fit, Held};
use super::loads::HeardLoads;
use super::traffic::HeardTraffic;
use crate::allocation::{
    AllocationStrategy, Layout, Ledger, Limits, NodeIx, NodeView, Request, UnknownStrategy, Why, ZoneIx, named,
};
use crate::coordinator::{self, Allocator, Input, Stage};
use crate::id::{Kind, NodeId, NodeKey, ShardId, ShardKey, Token};
use crate::prng::Prng;
use crate::time::{Duration, Instant};
use crate::wire::{Facts, KindReport};

/// Shards that wait for a place, at most; more are asked for again by those who need them.
const WANTED_MAX: usize = 1 << 21;

pub(super) struct Planner {
    strategies: BTreeMap<Kind, Box<dyn AllocationStrategy>>,
    /// The name of the strategy of types that were not registered here.
    default: String,
    ledger: Ledger,
    limits: Limits,
    /// Shards without a place, and who asked.
    wanted: BTreeMap<ShardKey, Option<NodeKey>>,
    /// Something changed since they were last looked at.
    fresh: bool,
    /// Where the shards that are being drained shall go, and why.
    targets: BTreeMap<ShardKey, Target>,
    /// When and why the shards were placed that have been placed and not been seen yet.
    causes: BTreeMap<ShardKey, (Instant, Cause)>,
    ready: VecDeque<Input>,
    next_round: Instant,
    every: Duration,
    drain: Duration,
    /// Since when nodes have been known to this reign.
    since: BTreeMap<NodeKey, Instant>,
    /// Since when shards have been where they are, as far as this reign knows: by type and number, with their grants.
    tenures: BTreeMap<Kind, Vec<Option<Known>>>,
    /// The shards' loads, as their owners said.
    pub(super) loads: HeardLoads,
    /// Which shards talk to each other, as nodes said.
    pub(super) traffic: HeardTraffic,
    seeds: Prng,
}

/// Where a shard goes that is on its way.
struct Target {
    to: NodeKey,
    from: NodeId,
    why: Why,
}

/// One shard where it is.
#[derive(Clone, Copy)]
struct Known {
    token: Token,
    since: Instant,
    cause: Cause,
}

impl Planner {
    pub(super) fn new(now: Instant, config: &NodeConfig) -> Result<Self, UnknownStrategy> {
        named(&config.allocation)?;
        Ok(Self {
            default: config.allocation.clone(),
            strategies: BTreeMap::new(),
            ledger: Ledger::new(),
            limits: Limits::default(),
            wanted: BTreeMap::new(),
            fresh: false,
            targets: BTreeMap::new(),
            causes: BTreeMap::new(),
            ready: VecDeque::new(),
            next_round: now + config.rebalance,
            every: config.rebalance,
            drain: config.timing.drain,
            since: BTreeMap::new(),
            tenures: BTreeMap::new(),
            loads: HeardLoads::default(),
            traffic: HeardTraffic::default(),
            seeds: Prng::new(config.seed).fork("planner"),
        })
    }

    pub(super) fn register(&mut self, kind: KindReport, strategy: Box<dyn AllocationStrategy>) {
        self.strategies.insert(kind.kind, strategy);
    }

    /// A reign begins: what was planned in a former one is void.
    pub(super) fn reset(&mut self, now: Instant) {
        self.wanted.clear();
        self.targets.clear();
        self.causes.clear();
        self.since.clear();
        self.tenures.clear();
        self.loads.clear();
        self.traffic.clear();
        self.ready.clear();
        self.next_round = now + self.every;
    }

    /// A shard needs a place.
    pub(super) fn want(&mut self, key: ShardKey, asker: Option<NodeKey>) {
        if self.wanted.len() < WANTED_MAX || self.wanted.contains_key(&key) {
            self.wanted.insert(key, asker);
            self.fresh = true;
        }
    }

    /// The next thing that the allocator shall do.
    pub(super) fn next(&mut self, now: Instant, allocator: &Allocator) -> Option<Input> {
        allocator.term()?;
        if self.ready.is_empty() && self.fresh && allocator.may_allocate(now) {
            self.fresh = false;
            self.place(now, allocator);
        }
        self.ready.pop_front()
    }

    /// Looks for a better balance, if it is time.
    pub(super) fn rebalance(&mut self, now: Instant, allocator: &Allocator) {
        if allocator.term().is_none() || now < self.next_round {
            return;
        }
        self.next_round = now + self.every;
        self.note_nodes(now, allocator);
        self.fresh |= !self.wanted.is_empty();
        if !allocator.may_allocate(now) {
            return;
        }
        self.targets.retain(|key, _| allocator.place(*key).is_some());
        for (kind, shards) in allocator.kinds() {
            self.note_tenures(now, allocator, kind, shards);
            let layout = self.layout(now, allocator, kind, shards);
            let seed = self.seeds.next_u64();
            let strategy = strategy_of(&mut self.strategies, kind, &self.default);
            let view = layout.view(now, seed);
            for planned in self.ledger.round(strategy.as_mut(), &view, self.limits) {
                let key = ShardKey { kind, shard: planned.shard };
                let (to, from) = (view.node(planned.to).id, view.node(planned.from).id.id);
                self.targets.insert(key, Target { to, from, why: planned.why });
                self.ready.push_back(Input::Drain { key, within: self.drain });
            }
        }
    }

    pub(super) fn deadline(&self, allocator: &Allocator) -> Option<Instant> {
        allocator.term().is_some().then_some(self.next_round)
    }

    /// Places all that is wanted, one view per type.
    fn place(&mut self, now: Instant, allocator: &Allocator) {
        self.note_nodes(now, allocator);
        let mut wanted = core::mem::take(&mut self.wanted);
        for (kind, shards) in allocator.kinds() {
            let first = ShardKey { kind, shard: ShardId(0) };
            let last = ShardKey { kind, shard: ShardId(u32::MAX) };
            if wanted.range(first..=last).next().is_none() {
                continue;
            }
            self.note_tenures(now, allocator, kind, shards);
            let mut layout = self.layout(now, allocator, kind, shards);
            for (key, asker) in wanted.range(first..=last) {
                if key.shard.0 >= shards || allocator.place(*key).is_some() {
                    continue;
                }
                let seed = self.seeds.next_u64();
                let asked_by = asker.and_then(|asker| layout.find(asker));
                let request = match asked_by {
                    Some(asker) => Request::new(key.shard, seed).asked_by(asker),
                    None => Request::new(key.shard, seed),
                };
                let view = layout.view(now, seed);
                let target =
                    self.targets.get(key).and_then(|target| layout.find(target.to)).filter(|ix| view.is_candidate(*ix));
                let strategy = strategy_of(&mut self.strategies, kind, &self.default);
                let chosen = target.or_else(|| strategy.place(&view, &request).filter(|ix| view.is_candidate(*ix)));
                if let Some(ix) = chosen {
                    let moved = self.targets.remove(key).filter(|_| target.is_some());
                    let asker = asker.map(|asker| asker.id);
                    let cause =
                        moved.map_or(Cause::Placed { asker }, |Target { from, why, .. }| Cause::Moved { from, why });
                    self.causes.insert(*key, (now, cause));
                    self.ready.push_back(Input::Allocate { key: *key, to: view.node(ix).id });
                    layout.settle(now, key.shard, ix);
                } else {
                    self.wanted.insert(*key, None);
                }
            }
        }
        // What is of no type that is known now is asked for again by whoever needs it.
        wanted.clear();
    }

    /// Why a shard is where it is; `None` if there is no such shard, or no reign.
    pub(super) fn explain(&mut self, now: Instant, allocator: &Allocator, key: ShardKey) -> Option<Explanation> {
        let shards = allocator.shards(key.kind).filter(|shards| key.shard.0 < *shards)?;
        self.note_tenures(now, allocator, key.kind, shards);
        let known = self.tenures.get(&key.kind).and_then(|known| known.get(key.shard.0 as usize).copied().flatten());
        let tenure = allocator.place(key).map(|place| Held {
            owner: place.owner.id,
            token: place.token,
            stage: place.stage,
            age: known.map_or(Duration::ZERO, |known| now.since(known.since)),
            cause: known.map_or(Cause::Found, |known| known.cause),
            next: self.targets.get(&key).map(|target| (target.to.id, target.why)),
        });
        let fit = |node: &coordinator::NodeView<'_>| {
            let registered = node.kinds.iter().find(|registered| registered.kind == key.kind)?;
            Some(match registered {
                KindReport { hosts: false, .. } => Fit::OnlySends,
                KindReport { shards: count, .. } if *count != shards => Fit::CountsOtherwise,
                _ if node.leaving => Fit::Leaving,
                _ if node.deaf => Fit::Deaf,
                _ => Fit::Candidate,
            })
        };
        Some(Explanation {
            shard: key.shard,
            strategy: strategy_of(&mut self.strategies, key.kind, &self.default).name(),
            tenure,
            load: self.loads.get(key),
            nodes: allocator.nodes(now).filter_map(|node| Some((node.node.id, fit(&node)?))).collect(),
        })
    }

    /// Who has come, and who has gone.
    fn note_nodes(&mut self, now: Instant, allocator: &Allocator) {
        let mut known = BTreeMap::new();
        for node in allocator.nodes(now) {
            known.insert(node.node, self.since.get(&node.node).copied().unwrap_or(now));
        }
        self.traffic.keep(|node| known.contains_key(&node));
        self.since = known;
    }

    /// Which shards of a type have come where they are.
    fn note_tenures(&mut self, now: Instant, allocator: &Allocator, kind: Kind, shards: u32) {
        let tenures = self.tenures.entry(kind).or_default();
        tenures.resize(shards as usize, None);
        for place in allocator.places().filter(|place| place.key.kind == kind) {
            let Some(known) = tenures.get_mut(place.key.shard.0 as usize) else { continue };
            if known.is_none_or(|known| known.token != place.token) {
                let (since, cause) = self.causes.remove(&place.key).unwrap_or((now, Cause::Found));
                *known = Some(Known { token: place.token, since, cause });
            }
        }
    }

    /// The cluster as a strategy sees it.
    fn layout(&self, now: Instant, allocator: &Allocator, kind: Kind, shards: u32) -> Layout {
        let mut layout = Layout::new(shards);
        let candidates: Vec<NodeKey> = allocator.candidates(now, kind).map(|node| node.node).collect();
        let nodes =
            allocator.nodes(now).filter(|node| node.kinds.iter().any(|known| known.kind == kind && known.hosts));
        // Zones are numbered in the order of their names, those of all nodes, so that types agree on them.
        let zones: BTreeSet<&str> = allocator.nodes(now).map(|node| node.facts.zone.as_str()).collect();
        let zones: BTreeMap<&str, ZoneIx> = zones.into_iter().zip((0..).map(ZoneIx)).collect();
        layout.set_nodes(
            nodes
                .map(|node| {
                    let mut view = NodeView::new(node.node, node.address);
                    view.accepts = candidates.binary_search(&node.node).is_ok();
                    view.deaf = node.deaf && !node.leaving;
                    let Facts { roles, zone, metadata, version, capacity } = node.facts;
                    (view.roles, view.metadata) = (roles.clone(), metadata.clone());
                    (view.version, view.capacity) = (*version, *capacity);
                    view.zone = zones.get(zone.as_str()).copied().unwrap_or_default();
                    view.zone_name.clone_from(zone);
                    view.stats = node.stats;
                    view.up_since = self.since.get(&node.node).copied().unwrap_or(now);
                    view
                })
                .collect(),
        );
        let numbers: BTreeMap<NodeKey, NodeIx> =
            layout.view(now, 0).nodes().iter().map(|node| node.id).zip((0..).map(NodeIx)).collect();
        (0..shards).zip(self.loads.of(kind)).for_each(|(shard, load)| layout.set_load(ShardId(shard), load));
        if self.strategies.get(&kind).is_some_and(|strategy| strategy.needs().traffic) {
            self.traffic.tell(kind, allocator, &mut layout, shards);
        }
        let tenures = self.tenures.get(&kind).map_or(&[][..], Vec::as_slice);
        for place in allocator.places().filter(|place| place.key.kind == kind && place.key.shard.0 < shards) {
            let Some(owner) = numbers.get(&place.owner) else { continue };
            let since = tenures.get(place.key.shard.0 as usize).copied().flatten().map_or(now, |known| known.since);
            layout.settle(since, place.key.shard, *owner);
            if let Stage::Draining { .. } = place.stage {
                let to = self.targets.get(&place.key).and_then(|target| numbers.get(&target.to).copied());
                layout.depart(place.key.shard, to);
            }
        }
        layout
    }
}

fn strategy_of<'a>(
    strategies: &'a mut BTreeMap<Kind, Box<dyn AllocationStrategy>>,
    kind: Kind,
    default: &str,
) -> &'a mut Box<dyn AllocationStrategy> {
    strategies.entry(kind).or_insert_with(|| named(default).expect("the name was looked up when the node was built"))
}
