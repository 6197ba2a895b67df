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
//! A placement rule of your own runs in it as well: [`Options::with_strategy`]. [`Options::with_nodes`] makes the cluster as
//! large as you like (a thousand nodes cost a few tenths of a second per simulated second); [`Options::drill`] does one thing
//! to a cluster at rest, to measure what it costs; a [`Script`] is a run as text. [`Options::with_guard`] guards the entities
//! by tenant; [`Poison`] lets one tenant kill its hand of nodes, and counts whom that harms.
//!
//! # What it promises
//! - **The same seed, the same run**, to the last event ([`Report::digest`], [`Report::trace`]).
//! - Two phases: harm, then calm. In the calm the cluster must become whole again within a bound.
//! - Every fault that strikes is written down, so a failing run is a script at once ([`Report::script`]), and [`shrink`]
//!   makes it as short as it gets.
//! - The checkers know nothing of the code they check. In a small cluster they look at everything after every event; in a
//!   large one at what the event touched, and at everything each simulated second.
//! - A violation comes with both witnesses, the events that led to it ([`Violation`]) and the command that runs it again
//!   ([`Report::replay`]).
//! - What a campaign never met, it did not prove: [`Marks`] counts the rare places.
//!
//! # What is checked
//! | | property | by the name |
//! |---|---|---|
//! | I1 | at most one live owner per shard | `double-owner` |
//! | I2 | at most one node that reigns | `overlapping-reigns` |
//! | I3 | a grant that is served is the greatest ever served, by one process only | `token-order` |
//! | I4 | once a coordinator may place shards, its table names every live owner | `unlisted-owner` |
//! | I5 | no term in force twice | `term-twice` |
//! | I6 | a region never obeys a lesser term than before | `term-regressed` |
//! | I7 | nobody reports a shard that the table gives to another | `table-conflict` |
//! | I9 | a hook or handler starts only while its shard is served, and beside no other of its entity | `ran-unowned`, `beside` |
//! | I10 | streams, links and commands keep their bounds | `bound` |
//! | | order per sender and entity; nothing handled twice, or after its sender was told it was not | `reordered`, `duplicated`, `told-not-run`, `astray` |
//! | | one fate per message, and the classes add up | `two-fates`, `sum` |
//! | P1, P2 | after the faults: one node reigns, every wanted shard is owned once, everyone is back | `liveness` |
//! | P3 | no message without a fate, no stream with a message unsettled | `lost`, `liveness` |
//! | | a planned move that nothing disturbs leaves no message in doubt | `doubted` |
//! | P4 | nothing in motion; no further election, no further lapse | `liveness`, `election-storm`, `election-after-heal`, `lapse-after-heal` |
//! | P5 | no shard changes hands sixteen times within a session | `flapping` |
//! | I8 | a store that checks fences holds what the newest life was told it holds, and refuses its writes never | `fence-order`, `stale-write`, `lost-update`, `newest-refused` |
//! | | no alarm about a clock that keeps its bound | `false-alarm` |
//! | | no event storm; in a large cluster, nobody owns what the incremental checkers did not see | `busy-loop`, `blind-checker` |
//!
//! [`PROPERTIES`] has all their names.
//!
//! # How to read it
//! `options` (what a run is), `worlds` and `dense` (kinds of runs), `cluster` (the loop), `process` (one process: its machines, and what
//! control orders), `lanes` (what lanes order), `links` (who is reached), `timers`, `network` (datagrams and connections),
//! `work` (what callers send), `fault` (a fault as a value and a line), `harm` (how faults are drawn and done), `leave` (departures in good order), `script` and
//! `shrink`, `model` (what every message met), `checker` and `audit` (the invariants), `calm` (what must hold when the faults
//! are over), `measure` (gaps and moves), `poison` (one tenant's, and whom it harms), `marks`, `report`, `replay`, `kills` (what
//! shows that each rule is needed). Apart from all this, `conformance`: what every host must pass
//! (feature `std`); `laws`, what every allocation strategy must keep to, and `fuzz`, the same for any bytes.
//!
//! May import everything; nothing imports it. The simulator needs `alloc` only.

mod audit;
mod calm;
mod checker;
mod clock;
mod cluster;
#[cfg(feature = "std")]
pub mod conformance;
mod dense;
mod event;
mod fault;
pub mod fuzz;
mod harm;
mod host;
mod kills;
mod lanes;
pub mod laws;
mod leave;
mod links;
mod marks;
mod measure;
mod model;
mod network;
mod options;
mod poison;
mod process;
mod protocol;
mod replay;
mod report;
mod script;
mod shrink;
mod store;
mod timers;
mod voters;
mod work;
mod worlds;

pub use cluster::Cluster;
pub use fault::{Fault, Paths, Who, sort_of};
pub use kills::{Kill, kills};
pub use marks::{Mark, Marks};
pub use measure::{Cause, GapSummary, Gaps, Rebalance};
pub use options::{Faults, Handlers, Options, Strategy};
pub use poison::{Poison, Poisoned, Toll};
pub use protocol::Protocol;
pub use report::{Counters, PROPERTIES, Report, Violation};
pub use script::{NODES_MAX, Script, ScriptError};
pub use shrink::shrink;
pub use worlds::Drill;
