//! Messages between machines, and how they become bytes.
//!
//! [`Control`] messages are datagrams: they may be lost, repeated, late or out of order, and every one that matters is
//! sent again by its sender's timer. [`Stream`] messages carry users' mail and ride the reliable [`link`]. Both travel in
//! [`frame`]s; the `codec` (feature `wire`) turns them into bytes. May import the
//! floors below: allocation (a node's resources), collections, machine, ground.

#[cfg(feature = "wire")]
pub mod codec;
mod control;
mod facts;
pub mod frame;
pub mod link;
mod stream;

pub use control::{
    Ack, Command, Control, Directory, DirectoryEntry, Exit, Heartbeat, Home, KindLoads, KindReport, List, Owned,
    Report, Traffic,
};
pub use facts::Facts;
pub use stream::{ReplyFate, Stream, StreamRef};
