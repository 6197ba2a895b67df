//! Everything of one node on one thread, for runtimes of your own: a game loop, a database, firmware.
//!
//! # Why
//! The machines below order effects and hear what became of them. Somebody must carry a lane's `dropped` to the session,
//! the session's `Halt` to the lanes, and all of it in an order that cannot be got wrong. [`Driver`] does that for one
//! thread, with no lock, no task and no executor: one [`Host`] trait has one method per effect, and one exhaustive match
//! calls it, so a forgotten effect does not compile. [`Engine`] puts [`Entity`](crate::entity::Entity) on top: cells, turns
//! and hooks, polled in place with wakers that the embedder supplies.
//!
//! ```text
//!   your loop --tell, arrive, receive, expire--> Driver = node::Node <==> lanes of each type
//!       ^                                          |
//!       +-- started, finished, stopped             +--> Host: start run stop cancel discard        (entities)
//!                                                  |          control transmit receipt reach gone  (peers)
//!   Engine = Driver + cells                        |          undelivered                          (callers)
//!     its Host turns those into polls              +--> event                                      (operators)
//!     and hands peers' frames to an Outside
//! ```
//!
//! # What it promises
//! - No recursion: what a lane owes control (`dropped`, `halted`, a look-up) waits in a queue until the lane has returned,
//!   and a host never calls back while it is called.
//! - [`Driver::locate`] decides first: for an awake entity the message never enters the core and nothing is allocated.
//! - The barrier holds as in the hub: a drop is reported only after the host has answered for every handler under it.
//!
//! | you want | take |
//! |---|---|
//! | our `Entity` trait on your loop | [`Engine`], with [`Alone`] or an [`Outside`] of yours |
//! | your own kind of entity, no async at all | [`Driver`] and a [`Host`] |
//! | a list of alarms for your clock | [`Alarms`] |
//!
//! May import: node, region, shard, passivation, wire, entity, allocation, collections, machine, ground.

mod alarms;
mod config;
mod engine;
mod host;
mod keep;
mod machine;
mod placing;
mod region;

pub use alarms::Alarms;
pub use config::TypeConfig;
pub use engine::{Alone, Engine, Outside};
pub use host::{Event, Host, Seat};
pub use machine::{Driver, Post};
