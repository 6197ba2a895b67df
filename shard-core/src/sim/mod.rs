//! The simulator: a whole cluster in one thread, from one seed, on the real machines.
//!
//! # Why
//! A rule of the protocol that cannot be seen to matter will be lost in the next change. Here every node runs its real
//! [`Node`](crate::node::Node), its real [`Lane`](crate::region::lane::Lane)s and its real links, on a clock that runs too
//! fast or too slow, over a network that loses, repeats, delays and cuts, in processes that pause, crash, leave and come
//! back. [`Options::from_seed`] draws which of these harms exist in a run, and how often. One run takes a few
//! milliseconds per simulated second.
//!
//! ```
//! use shard_core::sim::{Cluster, Options};
//!
//! let report = Cluster::new(Options::from_seed(7)).run();
//! assert!(report.violation.is_none(), "{report}");
//! ```
//! A placement rule of your own runs in it as well: [`Options::with_strategy`].
//!
//! # What it promises
//! - **The same seed, the same run**, to the last event ([`Report::digest`]).
//! - Two phases: harm, then calm. In the calm the cluster must become whole again within a bound.
//! - The checkers know nothing of the code they check. After every event:
//!   at most one live owner per shard (I1), at most one node that reigns (I2), tokens that grow (I3), no term in force
//!   twice (I5), no handler beside another of its entity, order per sender and entity, no message handled twice, none
//!   told two fates; at the end none without a fate, every wanted shard owned once, nothing in motion.
//! - A violation comes with both witnesses and the events that led to it ([`Violation`]).
//!
//! # How to read it
//! `options` (what a run is), `cluster` (the loop), `process` (one process: machines, and what their orders do), `timers`,
//! `network` (datagrams and connections), `work` (what callers send), `harm` (faults), `model` (what every message met), `checker` (the invariants),
//! `calm` (what must hold when the faults are over), `report`. Apart from
//! all this, `conformance`: what every host must pass (feature `std`).
//!
//! May import everything; nothing imports it. The simulator needs `alloc` only.

mod audit;
mod calm;
mod checker;
mod clock;
mod cluster;
#[cfg(feature = "std")]
pub mod conformance;
mod event;
mod fault;
mod harm;
mod host;
mod lanes;
mod links;
mod marks;
mod measure;
mod model;
mod network;
mod options;
mod process;
mod report;
mod script;
mod shrink;
mod timers;
mod work;
mod worlds;

pub use cluster::Cluster;
pub use fault::{Fault, Paths, Who, sort_of};
pub use marks::{Mark, Marks};
pub use measure::{Cause, GapSummary, Gaps, Rebalance};
pub use options::{Faults, Handlers, Options, Strategy};
pub use report::{Counters, Report, Violation};
pub use script::{Script, ScriptError};
pub use shrink::shrink;
pub use worlds::Drill;
