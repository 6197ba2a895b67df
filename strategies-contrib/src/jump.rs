//! Jump consistent hashing.

use shard_core::allocation::{AllocationStrategy, ClusterView, NodeIx, Plan, Request, Why};
use shard_core::hash::spread;

use crate::parts::fetch;

/// A shard belongs to the candidate that jump consistent hashing gives (Lamping and Veach, 2014), counted in the byte order
/// of the addresses. No memory, and even shares.
///
/// ```
/// let strategy = strategies_contrib::Jump;
/// ```
///
/// Its limits:
/// - **Nodes must come and go at the end of the list.** The algorithm numbers nodes and moves the least when the last number
///   comes or goes. A node that leaves from the middle renumbers all after it, and nearly as much moves as with
///   [`Hash`](shard_core::allocation::Hash). It suits a set of nodes that are numbered in their addresses and scaled at the
///   end, and no other.
/// - Nodes are all alike to it: no weights, no loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jump;

impl Jump {
    /// The bucket of `key`, below `buckets`; zero if there are none. In integers: the quotient of the paper is in floating
    /// point, and cut off to a whole number as this one is. O(log buckets).
    #[must_use]
    pub const fn bucket(mut key: u64, buckets: u16) -> u16 {
        let (mut bucket, mut next) = (0, 0_u64);
        while next < buckets as u64 {
            bucket = next;
            key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
            next = ((bucket + 1) << 31) / ((key >> 33) + 1);
        }
        bucket as u16
    }
}

fn home(view: &ClusterView<'_>, shard: u32) -> Option<NodeIx> {
    let candidates = view.candidates();
    let bucket = Jump::bucket(spread(u64::from(shard)), candidates.len() as u16);
    candidates.get(usize::from(bucket)).copied()
}

impl AllocationStrategy for Jump {
    fn name(&self) -> &'static str {
        "jump"
    }

    /// O(log candidates).
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        home(view, request.shard.0)
    }

    /// Every shard that is elsewhere. O(shards log candidates).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        fetch(view, plan, Why::Rule, |shard| home(view, shard.0));
    }
}
