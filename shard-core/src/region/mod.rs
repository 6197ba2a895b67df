//! A region: everything of one entity type on one node, split into lanes by shard.
//!
//! A [`lane::Lane`] owns all that concerns its shards, as owner and as sender: tenures, entities, recency, parked mail and
//! outgoing streams. One task (or the one thread of a driver) runs a lane, so all mail of an entity passes one door in
//! order. Promises: a handler starts only under a live session and a tenure; a tenure's end is reported only after every
//! handler under it has returned or was dropped (the barrier); mail is taken at most once and its fate is always told.
//! May import: shard, passivation, wire, entity, collections, machine, ground; never the coordinator.

pub mod lane;
pub mod stream;
