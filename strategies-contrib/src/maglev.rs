//! Maglev hashing.

use alloc::vec::Vec;

use shard_core::allocation::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why};
use shard_core::id::ShardId;
use shard_core::prng::mix;

use crate::parts::fetch;

/// Nodes take turns to fill a table, each in an order of its own, and a shard belongs to whoever took its slot (Eisenbud and
/// others, 2016).
///
/// ```
/// let strategy = strategies_contrib::Maglev::default();
/// ```
///
/// In the paper a table of many slots stands between keys and nodes. Here the shards are that already, so each has one slot,
/// and nodes have equally many slots but for one. Its limits:
/// - **It moves more than it must**: beside the even share of the node that came or went, some slots change hands among the
///   others, the more of them, the fewer slots there are to a node. When an eleventh joins ten nodes with a thousand shards, 91
///   must move and 116 do; in clusters of sixty shards and fewer, up to four times what must.
/// - The table has a prime number of slots, and those above the number of shards are nobody's, so that counts may differ by
///   more than one.
/// - A change of nodes fills the whole table anew: O(shards log shards) expected, and two words of memory a shard.
#[derive(Clone, Debug, Default)]
pub struct Maglev {
    /// What was calculated last, and for which nodes; calculating it again would give the same.
    table: Vec<Option<NodeIx>>,
    known: Vec<(NodeIx, u64)>,
    shards: usize,
}

/// One node's order of slots: an arithmetic progression, which meets every slot since their number is prime.
struct Turn {
    ix: NodeIx,
    at: usize,
    skip: usize,
}

impl Maglev {
    /// Who has which slot. O(candidates) while they are the same as before.
    fn table(&mut self, view: &ClusterView<'_>) -> &[Option<NodeIx>] {
        let shards = view.shards().len();
        let ids = view.candidates().iter().map(|ix| (*ix, view.node(*ix).id.id.0));
        if self.shards == shards && self.known.iter().copied().eq(ids.clone()) {
            return &self.table;
        }
        self.known.clear();
        self.known.extend(ids);
        self.shards = shards;
        let slots = prime_from(shards.max(3));
        self.table.clear();
        self.table.resize(slots, None);
        // Turns are taken by id: the address of a node says nothing about its place.
        let mut by_id: Vec<(u64, NodeIx)> = self.known.iter().map(|(ix, id)| (*id, *ix)).collect();
        by_id.sort_unstable();
        let mut turns: Vec<Turn> = by_id
            .into_iter()
            .map(|(id, ix)| Turn {
                ix,
                at: (mix(id, 0) % slots as u64) as usize,
                skip: (mix(id, 1) % (slots as u64 - 1)) as usize + 1,
            })
            .collect();
        let mut free = slots;
        while free > 0 && !turns.is_empty() {
            for turn in &mut turns {
                while self.table[turn.at].is_some() {
                    turn.at = (turn.at + turn.skip) % slots;
                }
                self.table[turn.at] = Some(turn.ix);
                free -= 1;
                if free == 0 {
                    break;
                }
            }
        }
        &self.table
    }
}

/// The least prime that is not below `n`. O(square root of `n`) for each number looked at, and there is one near.
fn prime_from(n: usize) -> usize {
    let prime = |n: usize| (2..).take_while(|divisor| divisor * divisor <= n).all(|divisor| !n.is_multiple_of(divisor));
    (n..).find(|n| prime(*n)).unwrap_or(n)
}

impl AllocationStrategy for Maglev {
    fn name(&self) -> &'static str {
        "maglev"
    }

    /// O(candidates) while they stay the same.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.table(view).get(request.shard.0 as usize).copied().flatten()
    }

    /// Every shard whose slot is another's. O(shards) while the candidates stay the same.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        let table = self.table(view);
        fetch(view, plan, Why::Rule, |ShardId(shard)| table.get(shard as usize).copied().flatten());
    }
}
