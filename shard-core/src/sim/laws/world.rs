//! A generated cluster as plain data: what a law is tried on, what a breach shows, and what is made smaller.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use super::dice::Dice;
use crate::allocation::{Edge, Layout, Limits, NodeIx, NodeView, Stats, ZoneIx};
use crate::id::{Incarnation, NodeId, NodeKey, ShardId};
use crate::time::{Duration, Instant};

/// A cluster that a law is tried on: its nodes, where its shards are, the limits of a round, and what happens to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct World {
    /// The nodes, in no particular order; every one has an id and an address of its own.
    pub nodes: Vec<NodeView>,
    /// Per shard.
    pub places: Vec<Place>,
    /// Per shard: what it weighs; empty: not known.
    pub loads: Vec<u32>,
    /// Which shards talk to each other; none, unless the laws were told [that they do](super::Laws::talking).
    pub edges: Vec<Edge>,
    /// The limits of every round.
    pub limits: Limits,
    /// How many rounds a move is under way.
    pub flight: u32,
    /// The seed of the views, and of whatever else is random in the trial.
    pub seed: u64,
    /// The moment of the first view.
    pub now: Instant,
    /// What happens, where a law asks for a cluster that changes: after how many rounds, and what.
    pub changes: Vec<(u32, Change)>,
}

/// Where a shard of a [`World`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Nobody owns it.
    Free,
    /// A node owns it.
    At(NodeId),
    /// A node owns it and gives it to another, if that is known.
    Moving(NodeId, Option<NodeId>),
}

/// Something that happens to the nodes of a [`World`]. Numbers choose among the nodes there are, by the remainder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A node comes.
    Join(NodeView),
    /// A node vanishes, and its shards are free.
    Crash(u64),
    /// A node takes no more shards, or takes shards again.
    Turn(u64),
    /// A process is replaced by another with the same id and address.
    Restart(u64),
}

/// What the author of a strategy wants to be present in worlds.
#[derive(Clone, Default, Debug)]
pub(super) struct Traits {
    pub(super) roles: Vec<String>,
    pub(super) metadata: Vec<(String, Vec<String>)>,
    pub(super) start: Duration,
    pub(super) talking: bool,
}

impl World {
    /// A world of up to `nodes_max` nodes and `shards_max` shards.
    pub(super) fn draw(dice: &mut impl Dice, traits: &Traits, nodes_max: u64, shards_max: u64) -> Self {
        let nodes = dice.between(1, nodes_max);
        let shards = dice.between(1, shards_max);
        let mut kind = NodeKind { uniform: dice.one_in(2), all_open: dice.one_in(3), joined: 0 };
        let nodes: Vec<NodeView> = (0..nodes).map(|_| kind.draw(dice, traits)).collect();
        let settled = dice.one_in(3);
        let places = (0..shards).map(|_| Place::draw(dice, &nodes, settled)).collect();
        let loads = if dice.one_in(2) { (0..shards).map(|_| dice.below(256) as u32).collect() } else { Vec::new() };
        let limits = Limits {
            moves_per_round_max: dice.between(1, 12) as usize,
            in_flight_max: if dice.one_in(2) { 100 } else { dice.between(1, 12) as usize },
        };
        let flight = dice.below(4) as u32;
        let seed = dice.below(u64::MAX);
        let now = Instant::ZERO + traits.start + Duration::from_secs(3_600 + dice.below(200));
        let changes = dice.below(9);
        let changes = (0..changes)
            .map(|_| {
                let after = dice.below(6) as u32;
                let which = dice.below(256);
                let change = match dice.below(8) {
                    0..3 => Change::Join(kind.draw(dice, traits)),
                    3 | 4 => Change::Crash(which),
                    5 | 6 => Change::Turn(which),
                    _ => Change::Restart(which),
                };
                (after, change)
            })
            .collect();
        let talk = if traits.talking { dice.below(3 * shards) } else { 0 };
        let edges = (0..talk)
            .map(|_| {
                let mut shard = || ShardId(dice.below(shards) as u32);
                let (one, other) = (shard(), shard());
                Edge::new(one, other, dice.below(256) as u32)
            })
            .collect();
        Self { nodes, places, loads, edges, limits, flight, seed, now, changes }
    }

    /// The same cluster with nothing to obscure how much a strategy moves: every node accepts, all are equally strong, moves
    /// take no time, and the limits are wide. What it has of changes is one node that joins.
    pub(super) fn evened(mut self, dice: &mut impl Dice, traits: &Traits) -> Self {
        let mut kind = NodeKind { uniform: true, all_open: true, joined: self.nodes.len() as u64 + 20 };
        for node in &mut self.nodes {
            (node.accepts, node.deaf, node.capacity) = (true, false, 1);
        }
        let stay = |place: &Place| match place {
            Place::Moving(home, _) => Place::At(*home),
            place => *place,
        };
        self.places = self.places.iter().map(stay).collect();
        self.limits = Limits::default();
        self.flight = 0;
        self.changes = alloc::vec![(0, Change::Join(kind.draw(dice, traits)))];
        self
    }

    /// The world as what views are cut from, its nodes given in the order of this list.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout_of(self.nodes.clone())
    }

    /// The world with these of its nodes only.
    pub(super) fn layout_of(&self, nodes: Vec<NodeView>) -> Layout {
        let mut layout = Layout::new(self.places.len() as u32);
        let mut keys: Vec<(NodeId, NodeKey)> = nodes.iter().map(|node| (node.id.id, node.id)).collect();
        keys.sort_unstable();
        layout.set_nodes(nodes);
        let find = |layout: &Layout, id: NodeId| -> Option<NodeIx> {
            keys.binary_search_by_key(&id, |(id, _)| *id).ok().and_then(|at| layout.find(keys[at].1))
        };
        for (shard, place) in (0..).map(ShardId).zip(&self.places) {
            let (Place::At(home) | Place::Moving(home, _)) = place else { continue };
            let Some(home) = find(&layout, *home) else { continue };
            let age = Duration::from_secs(u64::from(shard.0 % 60));
            layout.settle(Instant::from_nanos(self.now.since(Instant::ZERO + age).as_nanos() as u64), shard, home);
            if let Place::Moving(_, to) = place {
                let to = to.and_then(|to| find(&layout, to));
                layout.depart(shard, to);
            }
        }
        (0..).map(ShardId).zip(&self.loads).for_each(|(shard, load)| layout.set_load(shard, *load));
        layout.set_edges(self.edges.clone());
        layout
    }
}

impl Place {
    fn draw(dice: &mut impl Dice, nodes: &[NodeView], settled: bool) -> Self {
        let mut node = || nodes[dice.below(nodes.len() as u64) as usize].id.id;
        let (home, to) = (node(), node());
        match dice.below(20) {
            1 | 2 if !settled => Self::Free,
            3 if !settled => Self::Moving(home, Some(to)),
            4 if !settled => Self::Moving(home, None),
            _ => Self::At(home),
        }
    }
}

/// How the nodes of one world are drawn.
struct NodeKind {
    uniform: bool,
    all_open: bool,
    joined: u64,
}

impl NodeKind {
    fn draw(&mut self, dice: &mut impl Dice, traits: &Traits) -> NodeView {
        let number = self.joined;
        self.joined += 1;
        // Ids, addresses and the order of joining say nothing about one another; the number keeps each of them unique.
        let id = NodeKey { id: NodeId(dice.below(200) * 64 + number), incarnation: Incarnation(1) };
        let mut node = NodeView::new(id, format!("h:{}", 1_000 + dice.below(100) * 64 + number));
        node.roles = traits.roles.iter().filter(|_| dice.one_in(2)).cloned().collect();
        node.metadata = traits
            .metadata
            .iter()
            .filter_map(|(key, values)| {
                // One more than there are values: not set.
                let value = values.get(dice.below(values.len() as u64 + 1) as usize)?;
                Some((key.clone(), value.clone()))
            })
            .collect();
        node.zone = ZoneIx(dice.below(3) as u16);
        node.version = dice.below(2);
        node.up_since = Instant::ZERO + traits.start + Duration::from_secs(dice.below(3_600));
        if !self.uniform {
            node.capacity = dice.between(1, 4) as u32;
        }
        if !self.uniform && dice.one_in(2) {
            node.stats = Some(Stats {
                cpu_permille: dice.below(1_001) as u16,
                memory_used: dice.below(1 << 30),
                memory_limit: dice.below(2) << 30,
                entities: dice.below(1_000) as u32,
            });
        }
        if !self.all_open {
            node.accepts = !dice.one_in(5);
            node.deaf = !node.accepts && dice.one_in(2);
        }
        node
    }
}

impl fmt::Display for World {
    /// A line about the trial, a line per node with its shards, and a line per change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits { moves_per_round_max, in_flight_max } = self.limits;
        let (nodes, shards) = (self.nodes.len(), self.places.len());
        write!(f, "{nodes} nodes, {shards} shards; {moves_per_round_max} moves a round, {in_flight_max} in flight, ")?;
        write!(
            f,
            "{} rounds each; seed {:#x}, {:?} on the clock",
            self.flight,
            self.seed,
            self.now.since(Instant::ZERO)
        )?;
        let mut nodes: Vec<&NodeView> = self.nodes.iter().collect();
        nodes.sort_by(|a, b| a.address.as_bytes().cmp(b.address.as_bytes()));
        for node in &nodes {
            write!(f, "\n  {}:", Described(node))?;
            for (shard, place) in self.places.iter().enumerate() {
                match place {
                    Place::At(home) if *home == node.id.id => write!(f, " {shard}")?,
                    Place::Moving(home, to) if *home == node.id.id => {
                        let to = to.and_then(|to| nodes.iter().find(|node| node.id.id == to));
                        write!(f, " {shard}>{}", to.map_or("?", |node| &node.address))?;
                    }
                    _ => {}
                }
            }
        }
        if self.places.contains(&Place::Free) {
            write!(f, "\n  nobody:")?;
            let free = self.places.iter().enumerate().filter(|(_, place)| **place == Place::Free);
            free.map(|(shard, _)| shard).try_for_each(|shard| write!(f, " {shard}"))?;
        }
        for (at, edge) in self.edges.iter().enumerate() {
            write!(f, "{}{}-{}: {}", if at == 0 { "\n  talk " } else { ", " }, edge.a.0, edge.b.0, edge.weight)?;
        }
        for (after, change) in &self.changes {
            write!(f, "\n  after {after} rounds ")?;
            match change {
                Change::Join(node) => write!(f, "joins {}", Described(node))?,
                Change::Crash(which) => write!(f, "node {which} crashes")?,
                Change::Turn(which) => write!(f, "node {which} closes or opens")?,
                Change::Restart(which) => write!(f, "node {which} restarts")?,
            }
        }
        Ok(())
    }
}

/// A node with what distinguishes it.
struct Described<'a>(&'a NodeView);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.0;
        write!(f, "{} (id {}", node.address, node.id.id.0)?;
        if node.deaf {
            write!(f, ", deaf")?;
        } else if !node.accepts {
            write!(f, ", closed")?;
        }
        if node.capacity != 1 {
            write!(f, ", capacity {}", node.capacity)?;
        }
        if node.zone.0 != 0 {
            write!(f, ", zone {}", node.zone.0)?;
        }
        node.roles.iter().try_for_each(|role| write!(f, ", {role}"))?;
        node.metadata.iter().try_for_each(|(key, value)| write!(f, ", {key}={value}"))?;
        write!(f, ")")
    }
}
