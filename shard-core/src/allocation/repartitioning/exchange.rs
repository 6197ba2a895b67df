//! What two nodes exchange.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::balance::{Band, Going, Heats};
use super::graph::Graph;
use crate::allocation::{ClusterView, NodeIx, Plan, Why};
use crate::id::ShardId;

/// So many shards are tried to take the place of another, those that lose least first.
const TRIED: usize = 32;

/// What draws a shard must be so much stronger than what holds it: a quarter of it must remain. Weights are observed, and
/// where both are about the same, the next observation might say the opposite.
const DOUBT: i64 = 4;

/// Everything that the exchanges of one plan work on.
#[derive(Debug)]
pub(super) struct Exchanges<'a, 'v> {
    pub(super) view: &'a ClusterView<'v>,
    pub(super) graph: Graph,
    pub(super) heats: Heats,
    pub(super) movable: Movable,
    pub(super) min_gain_permille: u32,
    /// How many more moves may be made.
    pub(super) room: usize,
}

/// The shards that may be moved, by node.
#[derive(Debug)]
pub(super) struct Movable {
    /// Per node, and the end of the last.
    starts: Vec<u32>,
    shards: Vec<ShardId>,
}

impl Movable {
    /// What may be moved, given twice, and always in the same order. O(shards + nodes).
    pub(super) fn of<I: Iterator<Item = (NodeIx, ShardId)>>(nodes: usize, movable: impl Fn() -> I) -> Self {
        let mut starts = alloc::vec![0_u32; nodes + 1];
        movable().for_each(|(ix, _)| starts[ix.at() + 1] += 1);
        (0..nodes).for_each(|at| starts[at + 1] += starts[at]);
        let mut next = starts.clone();
        let mut shards = alloc::vec![ShardId(0); starts[nodes] as usize];
        for (ix, shard) in movable() {
            shards[next[ix.at()] as usize] = shard;
            next[ix.at()] += 1;
        }
        Self { starts, shards }
    }

    fn on(&self, ix: NodeIx) -> &[ShardId] {
        &self.shards[self.starts[ix.at()] as usize..self.starts[ix.at() + 1] as usize]
    }
}

/// What a node of a pair has on offer, by what is gained if it goes to the other one.
type Offers = BTreeSet<(i64, Reverse<ShardId>)>;

/// Two nodes at work.
struct Pair {
    nodes: [NodeIx; 2],
    band: Band,
    offers: [Offers; 2],
    gains: BTreeMap<ShardId, (usize, i64)>,
}

/// One step: what the node with this number in the pair gives, and gets for it.
type Step = (usize, Going);

/// The pairs of nodes that have something to exchange, those with most to gain first; `talking` are the shards that may be
/// moved and talk to others. O(links log nodes) of these.
pub(super) fn pairs(
    view: &ClusterView<'_>,
    graph: &Graph,
    talking: impl Iterator<Item = (NodeIx, ShardId)>,
) -> Vec<[NodeIx; 2]> {
    let mut scores: BTreeMap<[NodeIx; 2], u64> = BTreeMap::new();
    let mut by_node: BTreeMap<NodeIx, (i64, bool)> = BTreeMap::new();
    for (home, shard) in talking {
        by_node.clear();
        for link in graph.links(shard) {
            let Some(place) = graph.place(link.to) else { continue };
            let (weight, strong) = by_node.entry(place).or_default();
            *weight += i64::from(link.weight);
            *strong |= link.strong;
        }
        let own = by_node.get(&home).map_or(0, |(weight, _)| *weight);
        for (ix, (weight, strong)) in &by_node {
            if *ix != home && *strong && *weight > own && view.is_candidate(*ix) {
                *scores.entry([home.min(*ix), home.max(*ix)]).or_default() += weight.abs_diff(own);
            }
        }
    }
    let mut pairs: Vec<_> = scores.into_iter().map(|(pair, score)| (Reverse(score), pair)).collect();
    pairs.sort_unstable();
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

impl Exchanges<'_, '_> {
    /// Lets two nodes exchange shards as long as that pays; returns how many were moved.
    pub(super) fn run(&mut self, plan: &mut Plan<'_>, nodes: [NodeIx; 2]) -> usize {
        let mut pair = self.pair(plan, nodes);
        let mut moved = 0;
        while let Some((giver, going)) = self.step(&pair) {
            let sides = [pair.nodes[giver], pair.nodes[1 - giver]];
            let ways = [Some((going.out, sides[1])), going.back.map(|back| (back, sides[0]))];
            for (shard, to) in ways.into_iter().flatten() {
                if plan.propose(shard, to, Why::Affinity).is_err() {
                    return moved;
                }
                self.follow(&mut pair, shard, to);
                moved += 1;
                self.room -= 1;
            }
            self.heats.exchange(self.view, sides, going);
        }
        moved
    }

    fn pair(&self, plan: &Plan<'_>, nodes: [NodeIx; 2]) -> Pair {
        let mut pair = Pair {
            nodes,
            band: self.heats.band(self.view, nodes),
            offers: [Offers::new(), Offers::new()],
            gains: BTreeMap::new(),
        };
        for side in [0, 1] {
            let (from, to) = (nodes[side], nodes[1 - side]);
            // Of those that talk to nobody any will do, as many as could be needed.
            let mut fillers = TRIED + self.room;
            for shard in self.movable.on(from).iter().filter(|shard| !plan.is_moving(**shard)) {
                if self.graph.links(*shard).is_empty() {
                    if fillers == 0 {
                        continue;
                    }
                    fillers -= 1;
                }
                let gain = self.graph.gain(*shard, from, to);
                pair.gains.insert(*shard, (side, gain));
                pair.offers[side].insert((gain, Reverse(*shard)));
            }
        }
        pair
    }

    /// The next step: of the shards that gain most, the first that may go, or may go when another takes its place.
    fn step(&self, pair: &Pair) -> Option<Step> {
        if self.room == 0 {
            return None;
        }
        let first = usize::from(self.heats.is_hotter(pair.nodes[1], pair.nodes[0]));
        let mut tops = [first, 1 - first].map(|side| (side, pair.offers[side].iter().rev().peekable()));
        loop {
            let next = |at: usize, tops: &mut [(usize, core::iter::Peekable<_>); 2]| -> Option<i64> {
                tops[at].1.peek().map(|offer: &&(i64, Reverse<ShardId>)| offer.0)
            };
            let at = usize::from(next(1, &mut tops) > next(0, &mut tops));
            let side = tops[at].0;
            let (gain, Reverse(out)) = *tops[at].1.next()?;
            if gain <= 0 {
                return None;
            }
            let nodes = [pair.nodes[side], pair.nodes[1 - side]];
            let pull = self.graph.pull(out, nodes[1]);
            if gain * DOUBT < pull || !self.graph.is_drawn(out, nodes[1]) {
                continue;
            }
            let alone = Going { out, back: None };
            if self.pays(gain, alone) && self.heats.may(self.view, pair.band, nodes, alone) {
                return Some((side, alone));
            }
            if let Some(going) = self.swap(pair, side, gain, out) {
                return Some((side, going));
            }
        }
    }

    /// What takes the place of `out` with the least loss, and not more than half of what `out` gains.
    fn swap(&self, pair: &Pair, side: usize, gain: i64, out: ShardId) -> Option<Going> {
        if self.room < 2 {
            return None;
        }
        let nodes = [pair.nodes[side], pair.nodes[1 - side]];
        let tried = pair.offers[1 - side].iter().rev().take(TRIED).filter_map(|(back_gain, Reverse(back))| {
            let going = Going { out, back: Some(*back) };
            // What they say to each other goes from node to node before and after.
            let total = gain + back_gain - 2 * i64::from(self.graph.between(out, *back));
            let pays = 2 * total >= gain && self.pays(total, going);
            (pays && self.heats.may(self.view, pair.band, nodes, going)).then_some((total, going))
        });
        tried.max_by_key(|(total, going)| (*total, Reverse(going.back))).map(|(_, going)| going)
    }

    /// Whether it is worth moving what goes.
    fn pays(&self, gain: i64, going: Going) -> bool {
        let said: u128 =
            [Some(going.out), going.back].into_iter().flatten().map(|it| u128::from(self.graph.said(it))).sum();
        gain > 0 && u128::from(gain.unsigned_abs()) * 1_000 >= said * u128::from(self.min_gain_permille)
    }

    /// A shard has gone: it is on offer no more, and those it talks to have more reason to follow it, or less to leave it.
    fn follow(&mut self, pair: &mut Pair, shard: ShardId, to: NodeIx) {
        if let Some((side, gain)) = pair.gains.remove(&shard) {
            pair.offers[side].remove(&(gain, Reverse(shard)));
        }
        self.graph.put(shard, to);
        for link in self.graph.links(shard) {
            let Some((side, gain)) = pair.gains.get_mut(&link.to) else { continue };
            pair.offers[*side].remove(&(*gain, Reverse(link.to)));
            let more = 2 * i64::from(link.weight);
            *gain += if pair.nodes[*side] == to { -more } else { more };
            pair.offers[*side].insert((*gain, Reverse(link.to)));
        }
    }
}
