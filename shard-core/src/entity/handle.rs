//! The traits that an application implements.

use super::{Accepts, Context, Dispatch, Failure, ReplyTo};

/// Something with an id that lives on one node at a time and takes one message at a time.
///
/// The state is yours; the host makes it with the factory given at registration, calls [`started`](Self::started), and
/// then hands it its messages in order. A handler may await, and holds its entity meanwhile: mail queues, a hand-off
/// waits. Its future is dropped at its next await when the session ends or a stop is overdue, so keep no half-written
/// invariant across an await. Asking oneself and awaiting the answer can only end at the deadline, and so can two
/// entities that ask each other.
pub trait Entity: Sized + Send + 'static {
    /// What it understands: an enum made by [`messages!`](crate::messages).
    ///
    /// A handler missing for one of them is reported at this line.
    type Message: Dispatch<Self>;

    /// Called before the first message, the place to load state. Mail waits until it returns `Ok`; after an `Err` the
    /// entity is made anew with growing pauses.
    fn started(&mut self, ctx: &mut Context<'_, Self>) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = ctx;
        async { Ok(()) }
    }

    /// Called after the last message. It may be skipped (panic, lost session, kill), so it is never the only place where
    /// state is saved; [`Context::session_left`] bounds what it may still do.
    fn stopping(&mut self, why: StopReason, ctx: &mut Context<'_, Self>) -> impl Future<Output = ()> + Send {
        let _ = (why, ctx);
        async {}
    }
}

/// Why an entity stops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum StopReason {
    /// It asked: [`Context::passivate`] or [`Context::stop`].
    Asked,
    /// No message came for the idle window.
    Idle,
    /// The node holds as many entities as it may, and this one was used least.
    Evicted,
    /// Its shard moves to another node.
    Handoff,
    /// Its node leaves the cluster.
    NodeLeaving,
    /// It asked to be made anew: [`Context::restart`]. Its state is not to be trusted.
    Failed,
}

/// What an entity answers to a message: what its protocol says.
pub type Reply<E, Q> = <<E as Entity>::Message as Accepts<Q>>::Reply;

/// Handles one kind of message and answers when the handler returns.
///
/// Write it as an `async fn`; the future must be `Send`. A tell's answer is dropped, so one handler serves both. Domain
/// errors are answers (`-> Result<Receipt, CheckoutError>`); what the infrastructure does to you is
/// [`Context::restart`].
///
/// A listed message without a handler does not compile:
/// ```compile_fail,E0277
/// use shard_core::prelude::*;
/// pub struct Get;
/// messages! { pub enum CounterMessage as "counter" { Get -> u64 } }
/// struct Counter;
/// impl Entity for Counter { type Message = CounterMessage; } // `Counter` does not handle `Get`
/// ```
/// Nor does a handler for a message that the list lacks:
/// ```compile_fail,E0277
/// use shard_core::prelude::*;
/// pub struct Get;
/// pub struct Reset;
/// messages! { pub enum CounterMessage as "counter" { Get -> u64 } }
/// struct Counter;
/// impl Entity for Counter { type Message = CounterMessage; }
/// impl Handle<Get> for Counter {
///     async fn handle(&mut self, _: Get, _: &mut Context<'_, Self>) -> u64 { 0 }
/// }
/// impl Handle<Reset> for Counter { // `CounterMessage` has no message `Reset`
///     async fn handle(&mut self, _: Reset, _: &mut Context<'_, Self>) {}
/// }
/// ```
/// Nor an answer of another type:
/// ```compile_fail
/// # use shard_core::prelude::*;
/// # pub struct Get;
/// # messages! { pub enum CounterMessage as "counter" { Get -> u64 } }
/// # struct Counter;
/// # impl Entity for Counter { type Message = CounterMessage; }
/// impl Handle<Get> for Counter {
///     async fn handle(&mut self, _: Get, _: &mut Context<'_, Self>) -> String { String::new() }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle `{Q}`",
    label = "its messages list `{Q}`, but there is no handler",
    note = "write `impl Handle<{Q}> for {Self}`, or `impl HandleDeferred<{Q}> for {Self}` to answer later"
)]
pub trait Handle<Q>: Entity
where
    Self::Message: Accepts<Q>,
{
    /// Handles `message`; what it returns is the answer.
    fn handle(&mut self, message: Q, ctx: &mut Context<'_, Self>) -> impl Future<Output = Reply<Self, Q>> + Send;
}

/// Handles one kind of message and answers whenever it likes. Every [`Handle`] is one.
///
/// ```
/// use shard_core::prelude::*;
/// pub struct Await;
/// pub struct Open;
/// messages! { pub enum GateMessage as "gate" { Await -> &'static str, Open -> () } }
///
/// #[derive(Default)]
/// struct Gate { waiting: Vec<ReplyTo<&'static str>> }
/// impl Entity for Gate { type Message = GateMessage; }
/// impl HandleDeferred<Await> for Gate {
///     async fn handle_deferred(&mut self, _: Await, reply: ReplyTo<&'static str>, _: &mut Context<'_, Self>) {
///         self.waiting.push(reply);
///     }
/// }
/// impl Handle<Open> for Gate {
///     async fn handle(&mut self, _: Open, _: &mut Context<'_, Self>) {
///         for reply in self.waiting.drain(..) { reply.send("open") }
///     }
/// }
///
/// let mut gate = shard_core::testing::Solo::new("north", |_| Gate::default());
/// let mut answer = gate.ask_later(Await);
/// assert_eq!(answer.take(), None);
/// gate.tell(Open);
/// assert_eq!(answer.take(), Some(Ok("open")));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle `{Q}`",
    label = "its messages list `{Q}`, but there is no handler",
    note = "write `impl Handle<{Q}> for {Self}`, or `impl HandleDeferred<{Q}> for {Self}` to answer later"
)]
pub trait HandleDeferred<Q>: Entity
where
    Self::Message: Accepts<Q>,
{
    /// Handles `message`; the answer goes into `reply`, now or later.
    fn handle_deferred(
        &mut self,
        message: Q,
        reply: ReplyTo<Reply<Self, Q>>,
        ctx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send;
}

impl<E, Q> HandleDeferred<Q> for E
where
    E: Handle<Q>,
    E::Message: Accepts<Q>,
    Q: Send,
{
    #[expect(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
    fn handle_deferred(
        &mut self,
        message: Q,
        reply: ReplyTo<Reply<Self, Q>>,
        ctx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send {
        // Nor is `reply` moved before the answer is there, for the same reason.
        async move {
            let answer = self.handle(message, ctx).await;
            reply.send(answer);
        }
    }
}
