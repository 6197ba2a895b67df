//! Everything an entity and its callers name: `use shard_core::prelude::*`.

pub use crate::entity::{
    AskError, Context, Entities, Entity, EntityId, EntityRef, Envelope, Failure, Fence, Handle, HandleDeferred,
    Identity, NoReply, Reason, Refused, Reply, ReplyTo, StopReason,
};
pub use crate::messages;
pub use crate::time::Duration;
