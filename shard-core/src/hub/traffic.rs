//! Which shards of a type talk to each other, as their entities on this node do, for strategies that bring those together.

use std::cell::Cell;
use std::sync::Mutex;
use std::time::Duration;
use std::vec::Vec;

use super::shared::lock;
use crate::allocation::{Edge, HeavyPairs};
use crate::id::{Kind, ShardId};
use crate::time::Instant;
use crate::wire::Traffic;

std::thread_local! {
    /// Whose handler this thread is running.
    static SPEAKER: Cell<Option<(Kind, ShardId)>> = const { Cell::new(None) };
}

/// As long as it lives, what this thread sends is said by an entity of that shard.
pub(super) struct Speaking(Option<(Kind, ShardId)>);

impl Speaking {
    pub(super) fn new(kind: Kind, shard: ShardId) -> Self {
        Self(SPEAKER.replace(Some((kind, shard))))
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        SPEAKER.set(self.0);
    }
}

/// How often it is reported.
const EVERY: Duration = Duration::from_secs(5);
/// So that lanes seldom wait for each other.
const STRIPES: usize = 4;
/// Pairs observed in each.
const PAIRS: usize = Traffic::EDGES_MAX / STRIPES;

/// What entities of one type on this node said to each other of late.
pub(super) struct Observed {
    stripes: [Mutex<HeavyPairs>; STRIPES],
    reported: Mutex<Instant>,
}

impl Observed {
    pub(super) fn new(now: Instant, shards: u32) -> Self {
        Self {
            stripes: core::array::from_fn(|_| Mutex::new(HeavyPairs::new(PAIRS, shards))),
            reported: Mutex::new(now),
        }
    }

    /// A message for `to` is sent; by whom, the thread knows.
    pub(super) fn said(&self, kind: Kind, to: ShardId) {
        if let Some((speaks, from)) = SPEAKER.get()
            && speaks == kind
            && from != to
        {
            lock(&self.stripes[from.0 as usize % STRIPES]).add(from, to, 1);
        }
    }

    /// What is to be reported, if it is time. It counts half from now on, so what is reported is about what was said in the
    /// last ten seconds.
    pub(super) fn report(&self, now: Instant, kind: Kind) -> Option<Traffic> {
        {
            let mut reported = lock(&self.reported);
            if now.since(*reported) < EVERY {
                return None;
            }
            *reported = now;
        }
        let (mut edges, mut said) = (Vec::<Edge>::new(), std::collections::BTreeMap::<ShardId, u32>::new());
        for stripe in &self.stripes {
            let mut pairs = lock(stripe);
            edges.extend(pairs.edges());
            for (shard, weight) in pairs.said() {
                let sum = said.entry(shard).or_default();
                *sum = sum.saturating_add(weight);
            }
            pairs.halve();
        }
        // Of shards in no pair nobody asks.
        let ends: std::collections::BTreeSet<ShardId> = edges.iter().flat_map(|edge| [edge.a, edge.b]).collect();
        said.retain(|shard, _| ends.contains(shard));
        Some(Traffic { kind, edges, said: said.into_iter().collect() })
    }
}
