//! Cluster sharding on smol.
//!
//! The same nodes as on tokio, on [`smol::Executor`]: the adapter supplies tasks, sleeps and sockets, and everything else is
//! in [`shard_core`]. Nodes on both can form one cluster.
//!
//! ```
//! use adapter_smol::Node;
//! use serde::{Deserialize, Serialize};
//! use shard_core::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! pub struct Add(pub u64);
//! messages! {
//!     /// What a counter understands.
//!     pub enum CounterMessage as "counter" { 1 => Add -> u64 }
//! }
//! #[derive(Default)]
//! struct Counter(u64);
//! impl Entity for Counter { type Message = CounterMessage; }
//! impl Handle<Add> for Counter {
//!     async fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) -> u64 { self.0 += n; self.0 }
//! }
//!
//! # smol::block_on(async {
//! let node = Node::builder("shop").start().await?;              // a cluster of this one node
//! let counters = node.sharding::<Counter>().start().await?;
//! counters.tell("c-1", Add(2))?;
//! assert_eq!(counters.ask("c-1", Add(3)).await?, 5);
//! node.leave().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! `Node::builder` runs on an executor of this crate's own, with as many threads as the machine has processors, started
//! when it is first used. `Node::builder_on(Smol::new(executor), ..)` uses the application's.

mod runtime;

pub use runtime::{Smol, Tcp};
pub use shard_core::hub::{Counters, Event, EventStream, LeaveReport, Status, Workers, WorkersReport};
pub use shard_core::node::ConfigError;

/// One node of a cluster, on smol. See [`shard_core::hub::Node`] for its methods.
pub type Node = shard_core::hub::Node<Smol>;
/// What is needed to start a [`Node`].
pub type NodeBuilder = shard_core::hub::NodeBuilder<Smol>;
