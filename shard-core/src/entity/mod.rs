//! What users write: entities, their messages, and the references that reach them.
//!
//! Messages are plain structs. One [`messages!`](crate::messages) block lists them with their reply types (and, to cross
//! the network, their wire tags); one [`Handle`] impl per message says what an entity does with it. Nothing here knows of
//! shards' owners, lanes or links, so one entity runs unchanged on tokio, on smol, on a loop of your own, and in
//! [`testing::Solo`](crate::testing::Solo) with no executor at all.
//!
//! ```
//! use shard_core::prelude::*;
//!
//! pub struct Add(pub u64);
//! pub struct Get;
//! messages! {
//!     /// What a counter understands.
//!     pub enum CounterMessage as "counter" { Add -> (), Get -> u64 }
//! }
//!
//! #[derive(Default)]
//! struct Counter { sum: u64 }
//! impl Entity for Counter { type Message = CounterMessage; }
//! impl Handle<Add> for Counter {
//!     async fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) { self.sum += n }
//! }
//! impl Handle<Get> for Counter {
//!     async fn handle(&mut self, _: Get, _: &mut Context<'_, Self>) -> u64 { self.sum }
//! }
//!
//! let mut counter = shard_core::testing::Solo::new("c", |_| Counter::default());
//! counter.tell(Add(2));
//! assert_eq!(counter.ask(Get), 2);
//! ```
//!
//! # Promises
//! - A reply has the type that the `messages!` block gives it; a missing handler, an unlisted message and a repeated wire
//!   tag do not compile.
//! - Every ask ends: with the answer, with an error that says whether the handler may have run, or at its deadline. A
//!   dropped [`ReplyTo`] is an answer too ([`NoReply::Ended`]).
//! - A message refused at once comes back to the caller inside [`Refused`].
//! - A tell allocates nothing here; an ask allocates once.
//!
//! # The picture
//! ```text
//!   Entities<M>, EntityRef<M>            caller's side: tell, send, ask
//!        │ Route<M>                      the host's door: lanes, links, or a test
//!        ▼
//!   Cell<E> ── host::turn(cell, message) one message at a time
//!        │ Dispatch → Handle<Q>(&mut E, Q, &mut Context)
//!        ▼
//!   ReplyTo<R> ──────────────────────▶   Ask<M, Q> (here) or ReplyPath (another node)
//!   Wishes<M>  ──────────────────────▶   the host, after the turn: passivate, stop, restart, schedule
//! ```
//!
//! May import: collections, machine, ground. Hosts (lanes, engine, adapters) build on [`host`].

mod ask;
mod clock;
#[cfg(feature = "wire")]
mod codec;
mod context;

mod error;
mod guard;
mod handle;
pub mod host;
mod macros;
mod message;
mod refs;
mod reply;
#[cfg(target_has_atomic = "64")]
pub(crate) mod solo;

pub use crate::collections::EntityId;
pub use ask::Ask;
pub use clock::{Alarm, Clock, Services};
pub use context::{Context, Fence, Identity};
pub use error::{AskError, AskFailure, Bound, Failure, Fate, NoReply, Reason, Refused};
#[cfg(feature = "std")]
pub use guard::CatchUnwind;
pub use guard::{Guard, Panicked, Unguarded};
pub use handle::{Entity, Handle, HandleDeferred, Reply, StopReason};
#[cfg(feature = "wire")]
pub use message::Travels;
pub use message::{Accepts, DecodeError, Dispatch, Protocol, Wire};
#[cfg(feature = "std")]
pub(crate) use refs::ASK_LIMIT;
pub use refs::{Entities, EntityRef, Envelope, Route};
pub use reply::{ReplyPath, ReplyTo};

/// What the `messages!` macro's output calls; not for people.
#[doc(hidden)]
pub mod macro_support {
    pub use alloc::{boxed::Box, vec::Vec};

    #[cfg(feature = "wire")]
    pub use super::codec::{decode, encode, encode_reply};

    /// Fails the build when a wire tag stands twice in one list.
    pub const fn distinct_tags(list: &[(u16, &str)]) {
        let mut later = 1;
        while later < list.len() {
            let mut earlier = 0;
            while earlier < later {
                assert!(list[earlier].0 != list[later].0, "two messages share a wire tag");
                earlier += 1;
            }
            later += 1;
        }
    }
}
