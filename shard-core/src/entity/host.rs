//! What a host needs to run entities: their cells, their turns, and what they wished for.
//!
//! A host keeps each awake entity as a [`Box<Cell<E>>`](Cell). A turn takes the box into its future and gives it back,
//! so the future is `'static + Send` and goes to an executor if it has to wait. After every turn the host does what the
//! entity wished for. A panic takes the cell down with the future: the host then starts a new one.
//!
//! ```
//! use std::{any::Any, pin::Pin, sync::Arc, task::{Context, Poll, Waker}};
//! use shard_core::entity::{self, Alarm, Clock, Entity, Handle, Identity, Services, host::{Cell, Tenure, turn}};
//! use shard_core::{id::{ShardId, Token}, messages, time::Instant};
//!
//! struct Add(u64);
//! messages! { enum CounterMessage as "counter" { Add -> u64 } }
//! struct Counter(u64);
//! impl Entity for Counter { type Message = CounterMessage; }
//! impl Handle<Add> for Counter {
//!     async fn handle(&mut self, Add(n): Add, _: &mut entity::Context<'_, Self>) -> u64 { self.0 += n; self.0 }
//! }
//!
//! struct Board;
//! impl Clock for Board {
//!     fn now(&self) -> Instant { Instant::ZERO }
//!     fn wake_at(&self, _: Instant, _: &Waker) -> Alarm { Alarm::NONE }
//! }
//! impl Services for Board {
//!     fn session_until(&self) -> Instant { Instant::NEVER }
//!     fn registered(&self, _: &str) -> Option<Arc<dyn Any + Send + Sync>> { None }
//! }
//!
//! // One place, used again for each turn: no allocation per message.
//! let mut place = Box::pin(None);
//! let tenure = Arc::new(Tenure::new("counter", ShardId(3), Token::default(), Arc::new(Board)));
//! let mut cell = Cell::new(Counter(0), Identity::new(tenure, "c".into(), 1));
//! for n in 1..=3 {
//!     place.set(Some(turn(cell, entity::Accepts::wrap(Add(n), entity::ReplyTo::nobody()))));
//!     let running = place.as_mut().as_pin_mut().expect("just set");
//!     let Poll::Ready(back) = running.poll(&mut Context::from_waker(Waker::noop())) else { panic!("it waits") };
//!     cell = back;
//!     assert!(cell.take_wishes().is_empty());
//! }
//! assert_eq!(cell.entity().0, 6);
//! ```

use alloc::{borrow::Cow, boxed::Box, sync::Arc, vec::Vec};
use core::{fmt, mem, num::NonZeroU32, pin::pin, task};

use super::{Context, Dispatch, Entity, Failure, Identity, Services, StopReason};
use crate::id::{ShardId, Token};
use crate::time::Instant;

/// One grant of one shard on this node: what all its entities share, so that each of them carries one pointer.
pub struct Tenure {
    kind: Cow<'static, str>,
    shard: ShardId,
    token: Token,
    services: Arc<dyn Services>,
}

impl Tenure {
    /// The tenure of `shard`, under `token`, of the entity type registered as `kind`.
    pub fn new(kind: impl Into<Cow<'static, str>>, shard: ShardId, token: Token, services: Arc<dyn Services>) -> Self {
        Self { kind: kind.into(), shard, token, services }
    }

    /// The name of the entity type.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The shard.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.shard
    }

    /// The grant.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// The node.
    #[must_use]
    pub const fn services(&self) -> &Arc<dyn Services> {
        &self.services
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure")
            .field("kind", &self.kind)
            .field("shard", &self.shard)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// An awake entity: its state, who it is, and what it wished for in its last turn. 32 bytes beside state and id.
pub struct Cell<E: Entity> {
    entity: E,
    identity: Identity,
    wishes: Wishes<E::Message>,
}

impl<E: Entity> Cell<E> {
    /// A cell for a fresh entity. [`started`] comes before its first turn.
    #[must_use]
    pub fn new(entity: E, identity: Identity) -> Box<Self> {
        Box::new(Self { entity, identity, wishes: Wishes::default() })
    }

    /// Who it is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its state.
    #[must_use]
    pub const fn entity(&self) -> &E {
        &self.entity
    }

    /// What it wished for in its last turn.
    pub const fn wishes(&self) -> &Wishes<E::Message> {
        &self.wishes
    }

    /// The same, taken: the host does them once.
    pub fn take_wishes(&mut self) -> Wishes<E::Message> {
        mem::take(&mut self.wishes)
    }

    fn split(&mut self) -> (&mut E, Context<'_, E>) {
        (&mut self.entity, Context::new(&self.identity, &mut self.wishes))
    }
}

impl<E: Entity> fmt::Debug for Cell<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("identity", &self.identity).field("wishes", &self.wishes).finish_non_exhaustive()
    }
}

/// Runs the `started` hook. After an error the cell is gone: the host makes a new entity after a pause, and mail waits.
pub async fn started<E: Entity>(mut cell: Box<Cell<E>>) -> Result<Box<Cell<E>>, Failure> {
    let (entity, mut ctx) = cell.split();
    entity.started(&mut ctx).await?;
    Ok(cell)
}

/// Runs the handler of one message. The host then does what [`Cell::wishes`] says. Allocates nothing of its own.
#[expect(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
pub fn turn<E: Entity>(mut cell: Box<Cell<E>>, message: E::Message) -> impl Future<Output = Box<Cell<E>>> + Send {
    async move {
        let (entity, mut ctx) = cell.split();
        message.dispatch(entity, &mut ctx).await;
        cell
    }
}

/// Runs the `stopping` hook. What the entity wishes for in it is void.
pub async fn stopping<E: Entity>(mut cell: Box<Cell<E>>, why: StopReason) -> Box<Cell<E>> {
    let (entity, mut ctx) = cell.split();
    entity.stopping(why, &mut ctx).await;
    cell
}

/// Polls a future once, for hosts whose handlers never wait: its output, or `None` if it would have waited.
#[must_use]
pub fn run_now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut task::Context::from_waker(task::Waker::noop())) {
        task::Poll::Ready(output) => Some(output),
        task::Poll::Pending => None,
    }
}

/// How an entity wants to end. Of several wishes in one turn the greatest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    /// Take the mail that is already here, then [`Wishes::take_last`], then stop it ([`StopReason::Asked`]).
    Passivate,
    /// Stop it now ([`StopReason::Asked`]); the mail that is here goes to its next life.
    Stop,
    /// Stop it now ([`StopReason::Failed`]) and start its next life after a pause, mail or not.
    Restart,
}

/// What an entity asked for in a turn.
#[must_use = "the host owes the entity what it asked for"]
pub struct Wishes<M> {
    end: Option<End>,
    pub(super) pinned: Option<bool>,
    pub(super) weight: Option<NonZeroU32>,
    /// Most turns wish for nothing, so the rest costs a pointer.
    rest: Option<Box<Rest<M>>>,
}

/// The wishes that carry something.
pub(super) struct Rest<M> {
    pub(super) last: Option<M>,
    pub(super) failure: Option<Failure>,
    pub(super) scheduled: Vec<(Instant, M)>,
}

impl<M> Wishes<M> {
    /// Nothing to do: the usual case.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end.is_none() && self.rest.is_none() && self.pinned.is_none() && self.weight.is_none()
    }

    /// How it wants to end, if it does.
    #[must_use]
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// The message it wants handled last, with [`End::Passivate`].
    #[must_use]
    pub fn take_last(&mut self) -> Option<M> {
        self.rest.as_mut()?.last.take()
    }

    /// What it gave as the cause, with [`End::Restart`].
    #[must_use]
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.rest.as_mut()?.failure.take()
    }

    /// Messages to hand it later, each with its time, in the order asked. They end with this life. The host sets a
    /// bound per entity.
    #[must_use]
    pub fn take_scheduled(&mut self) -> Vec<(Instant, M)> {
        self.rest.as_mut().map(|rest| mem::take(&mut rest.scheduled)).unwrap_or_default()
    }

    /// Whether it is to stay awake from now on, for [`Lane::pin`](crate::region::lane::Lane::pin).
    #[must_use]
    pub const fn pinned(&self) -> Option<bool> {
        self.pinned
    }

    /// What it weighs from now on, for [`Lane::weighed`](crate::region::lane::Lane::weighed).
    #[must_use]
    pub const fn weight(&self) -> Option<NonZeroU32> {
        self.weight
    }

    pub(super) fn end_with(&mut self, end: End) {
        self.end = self.end.max(Some(end));
    }

    pub(super) fn rest(&mut self) -> &mut Rest<M> {
        self.rest.get_or_insert_with(|| Box::new(Rest { last: None, failure: None, scheduled: Vec::new() }))
    }
}

impl<M> Default for Wishes<M> {
    fn default() -> Self {
        Self { end: None, pinned: None, weight: None, rest: None }
    }
}

impl<M> fmt::Debug for Wishes<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheduled = self.rest.as_ref().map_or(0, |rest| rest.scheduled.len());
        f.debug_struct("Wishes").field("end", &self.end).field("scheduled", &scheduled).finish_non_exhaustive()
    }
}
