//! Cluster sharding on tokio.
//!
//! A [`Node`] is one process of a cluster. It hosts entity types and reaches those of other nodes; each entity lives on
//! exactly one node at a time. Everything but tasks, sleeps and sockets is in [`shard_core`]; this crate supplies those.
//!
//! ```
//! use adapter_tokio::Node;
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
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let node = Node::builder("shop").start().await?;              // a cluster of this one node
//! let counters = node.sharding::<Counter>().start().await?;
//! counters.tell("c-1", Add(2))?;
//! assert_eq!(counters.ask("c-1", Add(3)).await?, 5);
//! node.leave().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! Work that belongs to no entity goes to [workers](shard_core::hub::Node::workers): interchangeable, on this node only, made as
//! they are needed up to a limit, and written as entities are. Their messages need no tags and never leave the process.
//!
//! ```
//! use adapter_tokio::Node;
//! use shard_core::prelude::*;
//!
//! pub struct Resize(pub Vec<u8>);
//! messages! {
//!     /// What a resizer understands.
//!     pub enum ResizerMessage as "resizer" { Resize -> Vec<u8> }
//! }
//! #[derive(Default)]
//! struct Resizer { buffer: Vec<u8> } // what a worker keeps is used again, and nobody relies on it
//! impl Entity for Resizer { type Message = ResizerMessage; }
//! impl Handle<Resize> for Resizer {
//!     async fn handle(&mut self, Resize(image): Resize, _: &mut Context<'_, Self>) -> Vec<u8> {
//!         self.buffer.clear();
//!         self.buffer.extend(image.iter().step_by(2));
//!         self.buffer.clone()
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let node = Node::builder("shop").start().await?;
//! let resizers = node.workers::<Resizer>().at_most(4).start().await?;
//! assert_eq!(resizers.ask(Resize(vec![1, 2, 3, 4])).await?, [1, 3]);
//! if let Err(refused) = resizers.tell(Resize(vec![0; 1 << 20])) {
//!     println!("{}: {} bytes kept", refused.reason, refused.message.0.len()); // full, or the node leaves
//! }
//! let report = resizers.report();
//! println!("{} workers, {} idle, {} waiting, {} handled", report.workers, report.idle, report.waiting, report.handled);
//! node.leave().await; // they finish what they have
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! With other nodes: give every node the same list of `voters` (1, 3 or 5 of them) and a place to `listen`. Plain TCP is
//! neither encrypted nor authenticated, so it is bound to loopback addresses unless told otherwise.

mod runtime;

pub use runtime::{Reader, Tcp, Tokio, Writer};
pub use shard_core::hub::{Counters, Event, EventStream, LeaveReport, Status, Workers, WorkersReport};
pub use shard_core::node::ConfigError;

/// One node of a cluster, on tokio. See [`shard_core::hub::Node`] for its methods; `Node::builder(cluster)` begins one on
/// the runtime it is called on, and panics outside of one.
pub type Node = shard_core::hub::Node<Tokio>;
/// What is needed to start a [`Node`].
pub type NodeBuilder = shard_core::hub::NodeBuilder<Tokio>;
