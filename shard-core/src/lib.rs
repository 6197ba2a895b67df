//! Cluster sharding as pure state machines.
//!
//! Millions of entities, each alive on exactly one node at a time, addressed by id, moved when nodes come and go.
//! Nothing in this crate reads a clock, draws a random number or touches a socket: time is an argument, randomness is
//! a seed, and effects leave as values. The crates `adapter-tokio` and `adapter-smol` put the machines on an executor;
//! a page of code puts them on a runtime of your own.
//!
//! How a shard has one owner, and why, is told in ten minutes on the page [`protocol`].
//!
//! # Floors
//! Imports only go down; `tests/tidy.rs` keeps it so.
//!
//! | floor | modules | what stands there |
//! |---|---|---|
//! | 10 | [`hub`] | what the executors' adapters share (feature `std`) |
//! | 9 | [`driver`] | everything of one node on one thread, behind one [`driver::Host`] |
//! | 8 | [`node`] | the control machines of one process, composed; configuration |
//! | 7 | [`region`], [`coordinator`] | lanes that own shards and streams; the allocator and its planner |
//! | 6 | [`shard`] | the life cycles of one shard's entities |
//! | 5 | [`election`], [`session`], [`passivation`] | who reigns; whether this node lives; who is put to sleep |
//! | 5 | [`workers`] | pools of workers without ids or shards |
//! | 4 | [`wire`] | messages between machines, framing, reliable links |
//! | 4 | [`prelude`] | what authors of entities import |
//! | 3 | [`allocation`] | strategies and plans |
//! | 3 | [`entity`] | what users write |
//! | 2 | [`collections`] | slab, table, recency list, parking |
//! | 2 | [`shuffle`] | shuffle sharding: hands of queues and nodes |
//! | 1 | [`machine`] | the contract |
//! | 0 | [`time`], [`id`], [`prng`], [`hash`], [`name`] | ground |
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod hash;
pub mod id;
pub mod machine;
pub mod name;
pub mod prng;
pub mod shuffle;
pub mod time;

#[cfg(feature = "alloc")]
pub mod allocation;
#[cfg(feature = "alloc")]
pub mod collections;
#[cfg(feature = "alloc")]
pub mod coordinator;
#[cfg(feature = "alloc")]
pub mod driver;
#[cfg(feature = "alloc")]
pub mod election;
#[cfg(feature = "alloc")]
pub mod entity;
#[cfg(feature = "std")]
pub mod hub;
#[cfg(feature = "alloc")]
pub mod node;
#[cfg(feature = "alloc")]
pub mod passivation;
#[cfg(feature = "alloc")]
pub mod prelude;
#[cfg(feature = "alloc")]
pub mod region;
#[cfg(feature = "alloc")]
pub mod session;
#[cfg(feature = "alloc")]
pub mod shard;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "alloc")]
pub mod wire;
#[cfg(feature = "alloc")]
pub mod workers;

#[doc = include_str!("../docs/protocol.md")]
pub mod protocol {}

/// Tools for the tests of people who write entities.
#[cfg(all(feature = "alloc", target_has_atomic = "64"))]
pub mod testing {
    pub use crate::entity::solo::{Later, Solo};
}
