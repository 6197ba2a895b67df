//! Which shards talk to each other: what a node says of it with its heartbeats, and what a coordinator has heard.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::allocation::{Edge, Layout};
use crate::coordinator::Allocator;
use crate::id::{Kind, NodeKey, ShardId, ShardKey};
use crate::wire::Traffic;

/// What this node's entities said to each other, by type, that the coordinator has not been told yet.
#[derive(Default)]
pub(super) struct OwnTraffic(BTreeMap<Kind, Traffic>);

impl OwnTraffic {
    /// The host reports; what it reported before is out of date.
    pub(super) fn observed(&mut self, traffic: Traffic) {
        self.0.insert(traffic.kind, traffic);
    }

    /// For the next heartbeat: one type at a time.
    pub(super) fn part(&mut self) -> Option<Box<Traffic>> {
        self.0.pop_first().map(|(_, traffic)| Box::new(traffic))
    }
}

/// What nodes said last, as this reign knows it.
#[derive(Default)]
pub(super) struct HeardTraffic(BTreeMap<(Kind, NodeKey), Traffic>);

impl HeardTraffic {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// A node speaks. Of one that owns nothing of what it speaks of, so perhaps has no session either, nothing is kept.
    pub(super) fn heard(&mut self, from: NodeKey, mut traffic: Traffic, allocator: &Allocator) {
        let kind = traffic.kind;
        traffic.edges.truncate(Traffic::EDGES_MAX);
        traffic.said.truncate(2 * Traffic::EDGES_MAX);
        if traffic.edges.iter().any(|edge| owns_one(allocator, from, kind, edge)) {
            self.0.insert((kind, from), traffic);
        } else {
            self.0.remove(&(kind, from));
        }
    }

    /// Only what these nodes said is kept.
    pub(super) fn keep(&mut self, lives: impl Fn(NodeKey) -> bool) {
        self.0.retain(|(_, node), _| lives(*node));
    }

    /// Tells a view. What a node says counts for pairs of which it owns one.
    pub(super) fn tell(&self, kind: Kind, allocator: &Allocator, layout: &mut Layout, shards: u32) {
        let (mut edges, mut sums) = (Vec::new(), BTreeMap::<ShardId, u32>::new());
        let first = (kind, NodeKey::default());
        for ((_, from), traffic) in self.0.range(first..).take_while(|((of, _), _)| *of == kind) {
            edges.extend(traffic.edges.iter().filter(|edge| owns_one(allocator, *from, kind, edge)));
            for (shard, said) in traffic.said.iter().filter(|(shard, _)| shard.0 < shards) {
                let sum = sums.entry(*shard).or_default();
                *sum = sum.saturating_add(*said);
            }
        }
        layout.set_edges(edges);
        sums.into_iter().for_each(|(shard, said)| layout.set_said(shard, said));
    }
}

/// Whether the node owns one of two shards.
fn owns_one(allocator: &Allocator, node: NodeKey, kind: Kind, edge: &Edge) -> bool {
    let owns = |shard| allocator.place(ShardKey { kind, shard }).is_some_and(|place| place.owner == node);
    owns(edge.a) || owns(edge.b)
}
