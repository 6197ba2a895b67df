//! Cluster sharding on smol (built in a later step).
