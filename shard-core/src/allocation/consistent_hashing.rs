//! By a ring of hashes.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::{AllocationStrategy, ClusterView, NodeIx, Plan, Rejected, Request, Why};
use crate::id::NodeKey;

/// Every node has a number of points on a ring, and a shard belongs to the node whose point comes next after its own.
/// Akka's strategy of this name, hash for hash, with the node's address as its name.
///
/// A node that comes or goes moves no shards but its own: about as few as possible. But the arcs are uneven: with Akka's
/// ten points a node has up to twice the mean or less than half, so take [`WeightedRendezvous`](super::WeightedRendezvous)
/// unless a ring is what others compute too. Versions and capacities do not matter to it.
#[derive(Clone, Debug)]
pub struct ConsistentHashing {
    points: NonZeroU32,
    ring: Ring,
}

/// Kept between calls while the candidates are the same.
#[derive(Clone, Debug, Default)]
struct Ring {
    of: Vec<(NodeIx, NodeKey)>,
    /// In ascending order.
    points: Vec<(i32, NodeIx)>,
}

impl ConsistentHashing {
    /// Every node has `points` points.
    #[must_use]
    pub const fn new(points: NonZeroU32) -> Self {
        Self { points, ring: Ring { of: Vec::new(), points: Vec::new() } }
    }

    /// Draws the ring anew if the candidates have changed.
    fn draw(&mut self, view: &ClusterView<'_>) {
        let Ring { of, points } = &mut self.ring;
        let now = || view.candidates().iter().map(|ix| (*ix, view.node(*ix).id));
        if now().eq(of.iter().copied()) {
            return;
        }
        of.clear();
        of.extend(now());
        points.clear();
        for ix in view.candidates() {
            let node = murmur_text(&view.node(*ix).address);
            points.extend((1..=self.points.get()).map(|point| (murmur_point(node, point), *ix)));
        }
        points.sort_unstable();
        // Where two nodes have the same point, the lower address keeps it.
        points.dedup_by_key(|(hash, _)| *hash);
    }
}

impl Default for ConsistentHashing {
    /// Ten points, as in Akka.
    fn default() -> Self {
        Self::new(const { NonZeroU32::new(10).unwrap() })
    }
}

impl Ring {
    fn owner(&self, shard: u32, digits: &mut String) -> Option<NodeIx> {
        digits.clear();
        let _ = core::fmt::write(digits, format_args!("{shard}"));
        let hash = murmur_text(digits);
        let at = self.points.partition_point(|(point, _)| *point < hash);
        Some(self.points.get(at).or(self.points.first())?.1)
    }
}

impl AllocationStrategy for ConsistentHashing {
    fn name(&self) -> &'static str {
        "consistent-hashing"
    }

    /// O(candidates + log points of all), and O(points of all x log) once after the candidates have changed.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.draw(view);
        self.ring.owner(request.shard.0, &mut String::new())
    }

    /// Every shard whose owner is not the one the ring names, in ascending order (Akka goes from node to node).
    /// O(shards x log points of all).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        self.draw(view);
        let mut digits = u32::MAX.to_string();
        for shard in view.shards() {
            let Some(home) = view.home(shard) else { continue };
            let strayed = self.ring.owner(shard.0, &mut digits).filter(|owner| *owner != home);
            if strayed.is_some_and(|owner| plan.propose(shard, owner, Why::Rule) == Err(Rejected::BudgetSpent)) {
                return;
            }
        }
    }
}

/// What the streams of the hash begin with, and how they go on.
const MAGIC: [u32; 2] = [0x9554_3787, 0x2ad7_eb25];
const STEP: [u32; 2] = [0x7b7d_159c, 0x6bce_6396];

/// The hash of texts that Akka and Scala use: two streams over pairs of UTF-16 units, after a draft of Murmur 3.
fn murmur_text(text: &str) -> i32 {
    let length = text.encode_utf16().count() as u32;
    let mut hash = start(length.wrapping_mul(0xf7ca_7fd2));
    let mut magic = MAGIC;
    let mut units = text.encode_utf16().map(u32::from);
    while let Some(first) = units.next() {
        let value = units.next().map_or(first, |second| (first << 16).wrapping_add(second));
        hash = extend(hash, value, magic);
        for (magic, step) in magic.iter_mut().zip(STEP) {
            *magic = magic.wrapping_mul(5).wrapping_add(step);
        }
    }
    finish(hash)
}

/// A point of a node on the ring, `point` counted from one.
fn murmur_point(node: i32, point: u32) -> i32 {
    finish(extend(start(node as u32), point, MAGIC))
}

const fn start(seed: u32) -> u32 {
    seed ^ 0x971e_137b
}

const fn extend(hash: u32, value: u32, [a, b]: [u32; 2]) -> u32 {
    let mixed = value.wrapping_mul(a).rotate_left(11).wrapping_mul(b);
    (hash ^ mixed).wrapping_mul(3).wrapping_add(0x52dc_e729)
}

const fn finish(hash: u32) -> i32 {
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)) as i32
}

#[cfg(test)]
mod tests {
    use std::{format, vec::Vec};

    use super::super::tests::{T0, node, placed};
    use super::*;
    use crate::allocation::{Layout, Ledger, Limits};
    use crate::id::ShardId;

    fn nodes(addresses: impl Iterator<Item = String>, shards: u32) -> Layout {
        let mut layout = Layout::new(shards);
        layout.set_nodes(addresses.zip(0..).map(|(address, n)| node(n, &address)).collect());
        layout
    }

    /// The nodes A, B and so on of Akka's tests.
    fn akka(count: u32, shards: u32) -> Layout {
        nodes((1..=count).map(|n| format!("akka://myapp@127.0.0.{n}:252525")), shards)
    }

    fn letters(layout: &Layout, shards: &[u32]) -> String {
        let mut strategy = ConsistentHashing::default();
        let owner = |shard: &u32| {
            let address = placed(&mut strategy, layout, *shard)?;
            let digit = address.strip_prefix("akka://myapp@127.0.0.")?.as_bytes()[0];
            Some(char::from(digit - b'1' + b'A'))
        };
        shards.iter().filter_map(owner).collect()
    }

    #[test]
    fn the_ring_is_that_of_akka() {
        let shards = [0, 1, 2, 3, 10, 14];
        assert_eq!(letters(&akka(3, 15), &shards), "CBBCAA");
        assert_eq!(letters(&akka(2, 15), &shards), "ABBBAA");
        assert_eq!(letters(&akka(4, 15), &shards), "CBDCAA");
    }

    #[test]
    fn the_balance_is_that_of_akka() {
        let spread = |layout: &Layout| {
            let mut strategy = ConsistentHashing::default();
            let mut counts = [0; 10];
            for shard in (0..1_000).map(ShardId) {
                let to = strategy.place(&layout.view(T0, 0), &Request::new(shard, 0)).unwrap();
                counts[to.at()] += 1;
            }
            counts
        };
        assert_eq!(spread(&akka(3, 0))[..3], [243, 497, 260]);
        let ten = spread(&nodes((1..=10).map(|n| format!("akka://sys@10.0.0.{n}:25520")), 0));
        assert_eq!((ten.iter().min(), ten.iter().max()), (Some(&47), Some(&204)));
    }

    #[test]
    fn what_strayed_moves_two_by_two() {
        let mut layout = akka(4, 15);
        [0, 1, 2, 3, 10, 14].iter().for_each(|shard| layout.settle(T0, ShardId(*shard), NodeIx(0)));
        let (mut strategy, mut ledger) = (ConsistentHashing::default(), Ledger::new());
        let limits = Limits { moves_per_round_max: 2, in_flight_max: 10 };
        let mut round = || {
            let moves = ledger.round(&mut strategy, &layout.view(T0, 0), limits).to_vec();
            moves.iter().for_each(|m| layout.settle(T0, m.shard, m.to));
            moves.iter().map(|m| m.shard.0).collect::<Vec<_>>()
        };
        assert_eq!([round(), round(), round()], [&[0, 1][..], &[2, 3], &[]]);
    }
}
