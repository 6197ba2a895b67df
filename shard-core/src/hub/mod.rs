//! What the adapters of executors share (feature `std`): a node whose lanes are tasks.
//!
//! An adapter supplies [`Runtime`]: spawn, sleep, sockets. Everything else is here, once: the task of the control machines,
//! one task per lane, one writing task per peer and one reading task per accepted connection, the doors that callers knock
//! at, and the node that users hold.
//!
//! ```text
//!   callers --tell--> lane's inbox --> lane task (shards, entities, streams) --bulk--> peer's buffer --> writing task
//!                        ^    ^                |  ^                                                          |
//!   reading task --------+    |           dropped, halted, lookups                                          TCP
//!        |                    +--- orders ---  |  |                                                          |
//!        +---- control frames --------------> control task (election, session, allocator) ---- first ------->+
//! ```
//! While much bulk is under way to a peer, control frames have a connection of their own beside it.
//! Pools of [workers](crate::workers) stand beside the lanes: a task for each worker and one per pool that keeps the time; callers
//! place a message under one short lock.
//!
//! Nothing waits for the control task: callers reach lanes by one short lock, lanes read one atomic before every handler.
//! May import everything but `sim`.

mod answering;
mod aside;
mod away;
mod bell;
mod builder;
mod clock;
mod control;
mod control_queue;
mod crew;
mod deliver;
mod entity_host;
mod events;
mod hosting;
mod inbound;
mod inbox;
mod lane;
mod net;
mod node;
mod outgate;
mod peers;
mod proxy_host;
mod region;
mod runtime;
mod shared;
mod shift;
#[cfg(test)]
mod tests;
mod traffic;
mod vitals;
mod workers;

pub use builder::NodeBuilder;
pub use clock::now;
pub use events::{Event, EventStream, Level};
pub use hosting::{Proxy, Sharding};
pub use node::{LeaveReport, Node, Status};
pub use runtime::{Boxed, Either, Read, Runtime, Socket, Write, race, timeout, yield_now};
pub use shared::Counters;
pub use workers::{Workers, WorkersBuilder, WorkersReport};
