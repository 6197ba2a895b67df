//! Who talks to whom, made ready to be walked.

use alloc::vec::Vec;

use crate::allocation::{ClusterView, NodeIx, Plan};
use crate::id::ShardId;

/// The edges of a view by shard, and where every shard counts.
#[derive(Debug)]
pub(super) struct Graph {
    /// Per shard, where its links begin, and the end of the last.
    starts: Vec<u32>,
    links: Vec<Link>,
    /// Per shard: what it says in all.
    said: Vec<u64>,
    /// Per shard: its node when everything in flight and planned is over.
    places: Vec<Option<NodeIx>>,
}

/// An edge, seen from one of its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) to: ShardId,
    pub(super) weight: u32,
    /// It carries a good part of what one of its ends says.
    pub(super) strong: bool,
}

impl Graph {
    /// Strong is an edge with at least so many thousandths of what either of its ends says, and that weight.
    /// O(shards + edges).
    pub(super) fn of(view: &ClusterView<'_>, plan: &Plan<'_>, (permille, least): (u32, u32)) -> Self {
        let shards = view.shards().len();
        let mut said = alloc::vec![0_u64; shards];
        let mut starts = alloc::vec![0_u32; shards + 1];
        for edge in view.edges() {
            for end in [edge.a, edge.b] {
                said[end.0 as usize] += u64::from(edge.weight);
                starts[end.0 as usize + 1] += 1;
            }
        }
        for shard in view.shards() {
            let said = &mut said[shard.0 as usize];
            *said = (*said).max(view.said(shard).map_or(0, u64::from));
        }
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let mut next = starts.clone();
        let none = Link { to: ShardId(0), weight: 0, strong: false };
        let mut links = alloc::vec![none; 2 * view.edges().len()];
        for edge in view.edges() {
            let weight = u128::from(edge.weight) * 1_000;
            let is_part = |end: ShardId| weight >= u128::from(said[end.0 as usize]) * u128::from(permille);
            let strong = edge.weight >= least && (is_part(edge.a) || is_part(edge.b));
            for (from, to) in [(edge.a, edge.b), (edge.b, edge.a)] {
                let at = &mut next[from.0 as usize];
                links[*at as usize] = Link { to, weight: edge.weight, strong };
                *at += 1;
            }
        }
        let mut places: Vec<Option<NodeIx>> = view.shards().map(|shard| view.counted(shard)).collect();
        plan.moves().iter().for_each(|m| places[m.shard.0 as usize] = Some(m.to));
        Self { starts, links, said, places }
    }

    pub(super) fn links(&self, shard: ShardId) -> &[Link] {
        let at = shard.0 as usize;
        &self.links[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    pub(super) fn place(&self, shard: ShardId) -> Option<NodeIx> {
        self.places[shard.0 as usize]
    }

    pub(super) fn put(&mut self, shard: ShardId, ix: NodeIx) {
        self.places[shard.0 as usize] = Some(ix);
    }

    /// What a shard says in all, to whomever.
    pub(super) fn said(&self, shard: ShardId) -> u64 {
        self.said[shard.0 as usize]
    }

    /// What two shards say to each other.
    pub(super) fn between(&self, a: ShardId, b: ShardId) -> u32 {
        let links = self.links(a);
        links.binary_search_by_key(&b, |link| link.to).map_or(0, |at| links[at].weight)
    }

    /// How much less goes from node to node if a shard goes from `from` to `to`.
    pub(super) fn gain(&self, shard: ShardId, from: NodeIx, to: NodeIx) -> i64 {
        let gain = |link: &Link| match self.place(link.to) {
            Some(place) if place == to => i64::from(link.weight),
            Some(place) if place == from => -i64::from(link.weight),
            _ => 0,
        };
        self.links(shard).iter().map(gain).sum()
    }

    /// What a shard says to those on `ix`.
    pub(super) fn pull(&self, shard: ShardId, ix: NodeIx) -> i64 {
        let there = self.links(shard).iter().filter(|link| self.place(link.to) == Some(ix));
        there.map(|link| i64::from(link.weight)).sum()
    }

    /// Whether something that matters to a shard is on `ix`.
    pub(super) fn is_drawn(&self, shard: ShardId, ix: NodeIx) -> bool {
        self.links(shard).iter().any(|link| link.strong && self.place(link.to) == Some(ix))
    }

    /// How many millionths of all that is said goes from node to node; `None`: nothing is said.
    pub(super) fn cut_ppm(&self, view: &ClusterView<'_>) -> Option<u32> {
        let (mut cut, mut all) = (0_u128, 0_u128);
        for edge in view.edges() {
            if let (Some(a), Some(b)) = (self.place(edge.a), self.place(edge.b)) {
                all += u128::from(edge.weight);
                cut += if a == b { 0 } else { u128::from(edge.weight) };
            }
        }
        (all > 0).then(|| (cut * 1_000_000 / all.max(1)) as u32)
    }
}
