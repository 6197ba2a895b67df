//! Allocation strategies written as a user would write them, against the public API only.
//!
//! Read [`RoleAffinity`] before you write one of your own; its file is meant to be copied. What a strategy owes:
//!
//! | law | how it is kept here | who else keeps it |
//! |---|---|---|
//! | the same view and request give the same answer | no clock, no generator, no hash map; ties go to the lowest [`NodeIx`] | |
//! | the order in which nodes joined does not matter | views list nodes in the order of their addresses | [`ClusterView`] |
//! | only candidates, only shards with a home, nothing that moves already, never over the budget | [`Plan::propose`] rejects it | [`Plan`] |
//! | on a view that nobody disturbs, plans come to rest | the two halves never move the same shard, and each rests | your tests |
//!
//! The last one is the one that authors get wrong: tests must run rounds until one has no moves, and fail if none comes.
//! `tests/laws.rs` does that over random clusters, in a page that you can copy too.
//!
//! [`ClusterView`]: shard_core::allocation::ClusterView
//! [`NodeIx`]: shard_core::allocation::NodeIx
//! [`Plan`]: shard_core::allocation::Plan
//! [`Plan::propose`]: shard_core::allocation::Plan::propose
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod role_affinity;

pub use role_affinity::RoleAffinity;
