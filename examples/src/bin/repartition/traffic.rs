//! Who calls whom, and on which shard everybody is.

use std::num::NonZeroU32;

use shard_core::hash::{ShardHash, entity};
use shard_core::id::ShardId;
use shard_core::prng::{Prng, mix};

/// Members of a group.
const MEMBERS: (u64, u64) = (8, 20);
/// Calls that each entity makes in a round.
const CALLS: u32 = 10;

/// How entities choose whom they call, and which shard they are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Graph {
    /// Nine of ten calls stay within the group, and a group is spread over two to four shards that follow each other.
    Clustered,
    /// The same calls, but each part of a group is on a shard of its own choice, with parts of others.
    Scattered,
    /// Everybody calls anybody.
    Random,
}

impl Graph {
    pub(crate) const ALL: [Self; 3] = [Self::Clustered, Self::Scattered, Self::Random];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Clustered => "clustered",
            Self::Scattered => "scattered",
            Self::Random => "random",
        }
    }

    /// How ids become shards; the key of co-location is the group, and within it the part.
    const fn hash(self) -> ShardHash {
        match self {
            Self::Clustered => ShardHash::Custom(|id| {
                let (group, part) = key(id);
                group & !3 | part
            }),
            Self::Scattered => ShardHash::Custom(|id| {
                let (group, part) = key(id);
                mix(group, part)
            }),
            Self::Random => ShardHash::Xxh3,
        }
    }
}

/// The hash of the group that an id `group/member` names, and which of its two to four parts the member is in.
fn key(id: &str) -> (u64, u64) {
    let (group, member) = id.split_once('/').unwrap_or((id, "0"));
    let group = entity(group);
    let parts = 2 + (group >> 32) % 3;
    (group, member.parse::<u64>().unwrap_or(0) % parts)
}

/// The entities of one graph.
#[derive(Clone)]
pub(crate) struct Traffic {
    graph: Graph,
    /// By entity: its shard, and where its group begins and ends.
    shards: Vec<ShardId>,
    groups: Vec<(u32, u32)>,
    prng: Prng,
}

impl Traffic {
    /// `entities` of them, in groups of 8 to 20.
    pub(crate) fn new(graph: Graph, entities: u32, shards: NonZeroU32, seed: u64) -> Self {
        let mut prng = Prng::new(seed).fork("entities");
        let hash = graph.hash();
        let (mut all, mut groups) = (Vec::new(), Vec::new());
        for group in 0.. {
            let begin = all.len() as u32;
            let end = entities.min(begin + prng.between(MEMBERS.0, MEMBERS.1) as u32);
            if begin == end {
                break;
            }
            for member in 0..end - begin {
                all.push(hash.shard(&format!("g{group}/{member}"), shards));
                groups.push((begin, end));
            }
        }
        Self { graph, shards: all, groups, prng: Prng::new(seed).fork("calls") }
    }

    /// The calls of one round, each told as the shard it comes from and the one it goes to.
    pub(crate) fn round(&mut self, mut call: impl FnMut(ShardId, ShardId)) {
        for (from, shard) in self.shards.iter().enumerate() {
            let (begin, end) = self.groups[from];
            for _ in 0..CALLS {
                let within = self.graph != Graph::Random && self.prng.chance(9, 10);
                let to = match within {
                    true => self.prng.between(u64::from(begin), u64::from(end) - 1),
                    false => self.prng.below(self.shards.len() as u64),
                };
                call(*shard, self.shards[to as usize]);
            }
        }
    }
}
