//! Where the shards are: what the coordinator keeps, and what a view is cut from.

use alloc::{vec, vec::Vec};

use super::edges::{Edge, tidied};
use super::view::{ClusterView, NodeIx, NodeView, Stats};
use crate::{
    id::{NodeKey, ShardId},
    time::Instant,
};

/// One shard's owner and where it is going, in four bytes, so that a pass over a million shards reads four megabytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seat {
    home: u16,
    heading: u16,
}

impl Seat {
    /// No owner.
    const NOBODY: u16 = u16::MAX;
    /// Not moving.
    const STILL: u16 = u16::MAX;
    /// Moving, it is not known where.
    const AWAY: u16 = u16::MAX - 1;
    pub(super) const FREE: Self = Self { home: Self::NOBODY, heading: Self::STILL };

    #[inline]
    pub(super) fn home(&self) -> Option<NodeIx> {
        (self.home != Self::NOBODY).then_some(NodeIx(self.home))
    }

    #[inline]
    pub(super) const fn is_moving(&self) -> bool {
        self.heading != Self::STILL
    }

    /// The same, seemingly on its way to where it is.
    pub(super) const fn held(self) -> Self {
        Self { heading: self.home, ..self }
    }

    #[inline]
    pub(super) const fn is_held(&self) -> bool {
        self.is_moving() && self.heading == self.home
    }

    /// The node it counts for.
    #[inline]
    pub(super) fn counted(&self) -> Option<NodeIx> {
        if self.heading < Self::AWAY { Some(NodeIx(self.heading)) } else { self.home() }
    }
}

/// The nodes and shards of one entity type, with the counts that strategies ask for kept up to date. Every change is O(1)
/// but for a change of nodes, and so is cutting a [`ClusterView`].
#[derive(Clone, Debug)]
pub struct Layout {
    nodes: Vec<NodeView>,
    candidates: Vec<NodeIx>,
    candidate: Vec<bool>,
    seats: Vec<Seat>,
    counts: Vec<u32>,
    loads: Vec<u32>,
    edges: Vec<Edge>,
    said: Vec<u32>,
    settled: Vec<Instant>,
    in_flight: usize,
}

impl Layout {
    /// `shards` shards that nobody owns, and no nodes.
    #[must_use]
    pub fn new(shards: u32) -> Self {
        Self {
            nodes: Vec::new(),
            candidates: Vec::new(),
            candidate: Vec::new(),
            seats: vec![Seat::FREE; shards as usize],
            counts: Vec::new(),
            loads: Vec::new(),
            edges: Vec::new(),
            said: Vec::new(),
            settled: vec![Instant::ZERO; shards as usize],
            in_flight: 0,
        }
    }

    /// Replaces the nodes, given in any order. Shards stay with the nodes that are still there; the shards of others are
    /// free, and shards on their way to others are on their way to nowhere known. O(shards + nodes log nodes).
    ///
    /// # Panics
    /// If there are more than 65,000 nodes.
    pub fn set_nodes(&mut self, mut nodes: Vec<NodeView>) {
        assert!(nodes.len() <= 65_000, "a view numbers its nodes in 16 bits");
        // Addresses can be equal for a moment, when a process was replaced; the id makes the order total.
        nodes.sort_by(|a, b| a.address.as_bytes().cmp(b.address.as_bytes()).then(a.id.cmp(&b.id)));
        let mut by_id: Vec<(NodeKey, u16)> = nodes.iter().map(|node| node.id).zip(0..).collect();
        by_id.sort_unstable();
        let renumbered: Vec<Option<u16>> = self
            .nodes
            .iter()
            .map(|old| by_id.binary_search_by_key(&old.id, |(id, _)| *id).ok().map(|at| by_id[at].1))
            .collect();
        let renumber = |ix: u16| renumbered.get(usize::from(ix)).copied().flatten();
        for seat in &mut self.seats {
            *seat = match (renumber(seat.home), seat.heading) {
                (None, _) => Seat::FREE,
                (Some(home), heading @ (Seat::STILL | Seat::AWAY)) => Seat { home, heading },
                (Some(home), heading) => Seat { home, heading: renumber(heading).unwrap_or(Seat::AWAY) },
            };
        }
        self.nodes = nodes;
        self.counts = vec![0; self.nodes.len()];
        self.seats.iter().filter_map(Seat::counted).for_each(|ix| self.counts[ix.at()] += 1);
        self.in_flight = self.seats.iter().filter(|seat| seat.is_moving()).count();
        self.list_candidates();
    }

    /// The number that the node has in the views cut from now on.
    #[must_use]
    pub fn find(&self, id: NodeKey) -> Option<NodeIx> {
        self.nodes.iter().position(|node| node.id == id).map(|at| NodeIx(at as u16))
    }

    /// Whether a node takes new shards from now on. O(nodes).
    pub fn set_accepts(&mut self, ix: NodeIx, accepts: bool) {
        self.nodes[ix.at()].accepts = accepts;
        self.list_candidates();
    }

    /// What a node said about its resources.
    pub fn set_stats(&mut self, ix: NodeIx, stats: Option<Stats>) {
        self.nodes[ix.at()].stats = stats;
    }

    /// What a shard weighs, as its owner said. With the first of them, the others weigh nothing.
    pub fn set_load(&mut self, shard: ShardId, load: u32) {
        self.loads.resize(self.seats.len(), 0);
        self.loads[shard.0 as usize] = load;
    }

    /// Replaces what is known of which shards talk to each other. Given in any order; edges between the same two shards are
    /// added, and those of a shard with itself or with one that does not exist are left out. O(edges log edges).
    pub fn set_edges(&mut self, edges: Vec<Edge>) {
        self.edges = tidied(edges, self.seats.len() as u32);
    }

    /// What a shard says to all others, in the unit of [`set_edges`](Self::set_edges), where edges are only the heaviest of
    /// what was observed. With the first of them, the others say nothing but what their edges carry.
    pub fn set_said(&mut self, shard: ShardId, weight: u32) {
        self.said.resize(self.seats.len(), 0);
        self.said[shard.0 as usize] = weight;
    }

    /// A shard belongs to `owner`, and is not on its way.
    pub fn settle(&mut self, now: Instant, shard: ShardId, owner: NodeIx) {
        assert!(owner.at() < self.nodes.len(), "the owner is a node");
        self.reseat(shard, Seat { home: owner.0, heading: Seat::STILL });
        self.settled[shard.0 as usize] = now;
    }

    /// A shard leaves its owner, for `to` if that is known yet. Nothing happens to a shard that has no owner.
    pub fn depart(&mut self, shard: ShardId, to: Option<NodeIx>) {
        assert!(to.is_none_or(|to| to.at() < self.nodes.len()), "the destination is a node");
        if let Some(NodeIx(home)) = self.seats[shard.0 as usize].home() {
            self.reseat(shard, Seat { home, heading: to.map_or(Seat::AWAY, |to| to.0) });
        }
    }

    /// A shard has no owner any more.
    pub fn free(&mut self, shard: ShardId) {
        self.reseat(shard, Seat::FREE);
    }

    /// The view of this moment; `seed` is for strategies that want randomness.
    #[must_use]
    pub fn view(&self, now: Instant, seed: u64) -> ClusterView<'_> {
        ClusterView {
            now,
            seed,
            nodes: &self.nodes,
            candidates: &self.candidates,
            candidate: &self.candidate,
            seats: &self.seats,
            counts: &self.counts,
            loads: &self.loads,
            edges: &self.edges,
            said: &self.said,
            settled: &self.settled,
            in_flight: self.in_flight,
            zones: self.nodes.iter().map(|node| node.zone.0.saturating_add(1)).max().unwrap_or(0),
        }
    }

    fn reseat(&mut self, shard: ShardId, seat: Seat) {
        let former = core::mem::replace(&mut self.seats[shard.0 as usize], seat);
        if let Some(ix) = former.counted() {
            self.counts[ix.at()] -= 1;
        }
        if let Some(ix) = seat.counted() {
            self.counts[ix.at()] += 1;
        }
        self.in_flight = self.in_flight + usize::from(seat.is_moving()) - usize::from(former.is_moving());
    }

    fn list_candidates(&mut self) {
        self.candidate.clear();
        self.candidate.extend(self.nodes.iter().map(|node| node.accepts));
        self.candidates.clear();
        self.candidates.extend((0..).map(NodeIx).zip(&self.nodes).filter(|(_, node)| node.accepts).map(|(ix, _)| ix));
    }
}
