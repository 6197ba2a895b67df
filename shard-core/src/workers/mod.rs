//! Stateless workers: a pool of interchangeable workers of one type on each node, for work that belongs to no entity.
//!
//! A worker is written as an entity is ([`Entity`](crate::entity::Entity), [`Handle`](crate::entity::Handle),
//! [`messages!`](crate::messages)) and takes one message at a time. But it has no id to be addressed by: a message goes to the
//! pool, and whichever worker is free has it. Pools are local. Nothing of them is registered with the coordinator, there are no
//! shards, nothing moves, and no message to one ever leaves its node, so messages need neither tags nor serde, and may be of any size.
//! What one worker remembers, others do not know. `hub::Node::workers` starts a pool, on any executor; this floor is its
//! machine, which knows of none.
//!
//! # Who gets a message
//! The first idle worker in the order of their making; else, while there are fewer than `at_most`, a new one; else the one for
//! which the fewest wait, the first of equals. What waits for one worker stays there while that one lives, though another be idle. As
//! many as configured may wait for all together; what comes beyond that is refused at once as
//! [`Reason::Full`](crate::entity::Reason::Full) with [`Bound::Workers`](crate::entity::Bound::Workers), the message inside.
//!
//! # What is promised
//! - There are never more workers than `at_most`, those that start or stop included.
//! - Nothing is lost silently. A message that was taken is run by one worker, once, or its asker hears why not; a tell's end is among
//!   the node's events.
//! - If a handler panics, that worker is gone, and the one message with it: its asker hears
//!   [`NoReply::Ended`](crate::entity::NoReply::Ended). What waited for that worker goes to others, in order. The same
//!   holds where a worker asks to end.
//! - If a worker can't be started, what it was made for goes to the others; without others it is refused as
//!   [`Reason::Unavailable`](crate::entity::Reason::Unavailable). No second one is made beside those that are there before the next
//!   look.
//! - While messages wait, there is a worker. An idle one is removed as [`Controller`] says, the last of them as well: an empty pool
//!   costs nothing, and the next message makes a worker.
//! - The order of a sender's messages is kept by no one: two workers run them at the same time.
//!
//! ```
//! use shard_core::workers::{Gone, Next, Placed, Pool, PoolConfig, WorkerNumber};
//!
//! let mut pool = Pool::new(PoolConfig::at_most(2), 1);
//! let [one, two] = [1, 2].map(WorkerNumber);
//! assert_eq!(pool.offer("a"), Ok(Placed::Starts(one)));
//! assert_eq!(pool.offer("b"), Ok(Placed::Starts(two)));
//! assert_eq!(pool.offer("c"), Ok(Placed::Waits(one)));
//! assert_eq!((pool.next(one), pool.next(two)), (Next::Run("a"), Next::Run("b")));
//!
//! // The first worker panics in "a": "c" goes to one that is made for it.
//! let scattered = pool.gone(one, Gone::Failed);
//! assert_eq!(scattered.placed, [Placed::Starts(WorkerNumber(3))]);
//! assert_eq!(pool.next(two), Next::Wait);
//! assert_eq!(pool.offer("d"), Ok(Placed::Wakes(two)));
//! ```
//!
//! May import: entity, machine, ground.

mod pid;
mod pool;
#[cfg(test)]
mod tests;

pub use pid::{Controller, Signal};
pub use pool::{Census, Gone, Next, Placed, Pool, Scattered, WorkerNumber};

use core::num::NonZeroU32;

use crate::time::Duration;

/// A pool is looked at this often.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many workers a pool may have, how many messages may wait for them, and when idle ones go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// There are never more workers.
    pub at_most: NonZeroU32,
    /// Never more messages wait, over all workers, but for what workers schedule for themselves. With zero, a message is taken
    /// only if there is a worker for it at once.
    pub waiting_max: usize,
    /// When idle workers go. `None`: never.
    pub removal: Option<Removal>,
}

/// When idle workers go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removal {
    /// After so many idle cycles of the [`Controller`] at a stretch, one at a time.
    pub idle_cycles: NonZeroU32,
}

impl PoolConfig {
    /// At most so many workers; zero is taken for one. 4,096 messages may wait, and idle workers go after one idle cycle.
    #[must_use]
    pub const fn at_most(workers: u32) -> Self {
        let at_most = match NonZeroU32::new(workers) {
            Some(workers) => workers,
            None => NonZeroU32::MIN,
        };
        Self { at_most, waiting_max: 4_096, removal: Some(Removal { idle_cycles: NonZeroU32::MIN }) }
    }
}
