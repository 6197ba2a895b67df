//! Cluster sharding on tokio (built in a later step).
