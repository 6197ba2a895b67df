//! What an entity type is registered with.

use alloc::boxed::Box;
use core::fmt;
use core::num::NonZeroU32;

use crate::allocation::{AllocationStrategy, LeastShard};
use crate::entity::Protocol;
use crate::hash::ShardHash;
use crate::passivation::Passivation;
use crate::region::lane::LoadBy;
use crate::region::stream::StreamConfig;
use crate::shuffle::Guard;
use crate::time::Duration;

/// An entity type on one node. All nodes of a cluster agree on name, shards and hash; the rest is this node's own.
pub struct TypeConfig {
    /// Its name.
    pub name: &'static str,
    /// Its number of shards.
    pub shards: NonZeroU32,
    /// How ids become shards.
    pub hash: ShardHash,
    /// Whether this node hosts entities of it; false: it only sends to them.
    pub hosts: bool,
    /// In how many lanes; one is right for one thread.
    pub lanes: NonZeroU32,
    /// When entities fall asleep.
    pub passivation: Passivation,
    /// Where shards go while this node reigns.
    pub strategy: Box<dyn AllocationStrategy>,
    /// How many messages may wait for one entity.
    pub mailbox: usize,
    /// How many timers the entities of a lane may have in all.
    pub timers: usize,
    /// The pause before an entity that failed is started again; doubles with each failure in a row.
    pub rest: Duration,
    /// The longest such pause.
    pub rest_max: Duration,
    /// Bounds and times of the streams to other nodes. Its rules are replaced by the node's.
    pub stream: StreamConfig,
    /// Guards the entities by tenant, each lane for itself; `None`: nothing is guarded.
    pub guard: Option<Guard>,
    /// What the load of a shard is, for a strategy that looks at it.
    pub loads: LoadBy,
}

impl TypeConfig {
    /// The type `name`: 64 shards of the default hash, hosted here in one lane, five minutes until sleep, least shard.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            shards: NonZeroU32::new(64).expect("64 is not zero"),
            hash: ShardHash::default(),
            hosts: true,
            lanes: NonZeroU32::MIN,
            passivation: Passivation::default(),
            strategy: Box::new(LeastShard::default()),
            mailbox: 4_096,
            timers: 65_536,
            rest: Duration::from_millis(100),
            rest_max: Duration::from_secs(10),
            stream: StreamConfig::default(),
            guard: None,
            loads: LoadBy::default(),
        }
    }

    /// The type whose messages are `M`, as [`new`](Self::new).
    #[must_use]
    pub fn of<M: Protocol>() -> Self {
        Self::new(M::TYPE_NAME)
    }
}

impl fmt::Debug for TypeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypeConfig").field("name", &self.name).field("shards", &self.shards).finish_non_exhaustive()
    }
}
