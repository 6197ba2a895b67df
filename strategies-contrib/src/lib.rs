//! Allocation strategies written as a user would write them, against the public API only. Each is one file, to be copied.
//!
//! | strategy | what it is for | movement |
//! |---|---|---|
//! | [`RoleAffinity`] | the first shards of a type on nodes with a role | 4 |
//! | [`PinList`] | single shards where an operator wants them | 4 |
//! | [`AntiAffinity`] | replicas on different nodes | 1 |
//! | [`CoLocation`] | what talks to each other on one node | 2 |
//! | [`MetricCapacity`] | as many shards as a node can carry, by a measure of your own | 1; 5 |
//! | [`DrainByTime`] | nodes that are needed for something else at certain hours (a filter) | |
//! | [`BoundedLoad`] | owners that anybody can calculate, no node above a bound | 4 |
//! | [`Maglev`] | the same with equal counts | 4 |
//! | [`Jump`] | the same without memory, for nodes that are numbered and scaled at the end | 1 at the end, else all |
//!
//! Movement is how many times the least that must move each moved at most when a node joined or left, in 5,000 generated
//! clusters of up to ten nodes and sixty shards, around `LeastShard` where there is an inner strategy (for `PinList`, what its
//! tests claim). With more shards to a node, the calculated ones come nearer to 1. The second number of `MetricCapacity` is for
//! nodes of which one can carry eight times what another can: the least is counted in even shares.
//!
//! `WRITE_YOUR_OWN.md` is a chapter on writing one of your own, and `template/` a file to begin with. What a strategy owes:
//!
//! | law | how it is kept here | who else keeps it |
//! |---|---|---|
//! | the same view and request give the same answer | no clock, no generator, no hash map; ties go to the lowest [`NodeIx`] | |
//! | the order in which nodes joined does not matter | views list nodes in the order of their addresses | [`ClusterView`] |
//! | only candidates, only shards with a home, nothing that moves already, never over the budget | [`Plan::propose`] rejects it | [`Plan`] |
//! | on a view that nobody disturbs, plans come to rest | outer and inner strategies never move the same shard, and each rests | |
//! | when a node comes or goes, not much more moves than must | said in the documentation of each | |
//!
//! All of them are tried in one call by `shard_core::sim::laws`, as `tests/laws.rs` does.
//!
//! [`ClusterView`]: shard_core::allocation::ClusterView
//! [`NodeIx`]: shard_core::allocation::NodeIx
//! [`Plan`]: shard_core::allocation::Plan
//! [`Plan::propose`]: shard_core::allocation::Plan::propose
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod anti_affinity;
mod bounded_load;
mod co_location;
mod drain_by_time;
mod jump;
mod maglev;
mod metric_capacity;
pub mod parts;
mod pin_list;
mod role_affinity;

pub use anti_affinity::AntiAffinity;
pub use bounded_load::BoundedLoad;
pub use co_location::CoLocation;
pub use drain_by_time::DrainByTime;
pub use jump::Jump;
pub use maglev::Maglev;
pub use metric_capacity::MetricCapacity;
pub use pin_list::PinList;
pub use role_affinity::RoleAffinity;

/// The code of the chapter, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../WRITE_YOUR_OWN.md")]
struct WriteYourOwn;
