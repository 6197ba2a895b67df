//! Vectors of the reference, translated to shards, and what holds on any graph.

mod heavy;
