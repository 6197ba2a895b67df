//! References: how callers reach entities, wherever they live.

use alloc::sync::Arc;
use core::{
    fmt,
    future::poll_fn,
    hash::{Hash, Hasher},
    task::{Poll, Waker},
};

use super::{Accepts, Alarm, Ask, Clock, EntityId, Protocol, Reason, Refused, ReplyTo, Services, ask::Deadline};
use crate::time::{Duration, Instant};

/// The host's door for the messages of one entity type.
pub trait Route<M>: Clock {
    /// Takes a message for the entity `id`, in order with what this caller sent it before; or gives it back at once.
    /// `deadline` is when its asker stops waiting: not taken by a handler until then, it need not run any more.
    fn send(&self, id: &str, message: M, deadline: Option<Instant>) -> Result<(), (M, Reason)>;

    /// Ready when a send to `id` that was refused with [`Reason::Full`] is worth another try; else wakes `waker` then.
    fn poll_ready(&self, id: &str, waker: &Waker) -> Poll<()>;
}

/// How long an ask waits unless it is said otherwise.
pub(crate) const ASK_LIMIT: Duration = Duration::from_secs(5);

/// All entities of one type, awake or not: a message starts the one it is for.
///
/// Generic over the protocol, not over the entity, so a process that only sends links no entity code. Clone it freely:
/// it holds no lock and no task. A node's adapter hands it out; the route below stands in for one.
///
/// ```
/// # use std::{sync::{Arc, Mutex}, task::{Poll, Waker}};
/// # use shard_core::{entity::{Alarm, Bound, Clock, Route, host::run_now}, time::Instant};
/// use shard_core::prelude::*;
///
/// #[derive(Debug, PartialEq)]
/// pub struct Add(pub u64);
/// pub struct Get;
/// messages! { pub enum CounterMessage as "counter" { Add -> (), Get -> u64 } }
///
/// # struct RoomForOne(Mutex<Vec<CounterMessage>>);
/// # impl Clock for RoomForOne {
/// #     fn now(&self) -> Instant { Instant::ZERO }
/// #     fn wake_at(&self, _: Instant, _: &Waker) -> Alarm { Alarm::NONE }
/// # }
/// # impl Route<CounterMessage> for RoomForOne {
/// #     fn send(&self, _: &str, m: CounterMessage, _: Option<Instant>) -> Result<(), (CounterMessage, Reason)> {
/// #         let mut mail = self.0.lock().unwrap();
/// #         if mail.len() == 1 { return Err((m, Reason::Full(Bound::Lane))) }
/// #         mail.push(m);
/// #         Ok(())
/// #     }
/// #     fn poll_ready(&self, _: &str, _: &Waker) -> Poll<()> { Poll::Pending }
/// # }
/// # let route = Arc::new(RoomForOne(Mutex::default()));
/// # let counters = Entities::<CounterMessage>::new(route.clone());
/// let hall = counters.entity("hall").within(Duration::from_millis(200));
/// let answer = hall.ask(Get); // on its way
///
/// let refused = counters.tell("hall", Add(1)).unwrap_err(); // this route has room for one message only
/// assert_eq!(refused.to_string(), "message not sent: the lane's queue is full");
/// assert_eq!(refused.message, Add(1));
///
/// # route.0.lock().unwrap().clear();
/// // The entity goes down before it answers.
/// let error = run_now(answer).unwrap().unwrap_err();
/// assert!(error.may_have_run());
/// ```
pub struct Entities<M> {
    route: Arc<dyn Route<M>>,
    limit: Duration,
}

impl<M: Protocol> Entities<M> {
    /// How long an ask waits unless [`within`](Self::within) says otherwise.
    pub const LIMIT: Duration = ASK_LIMIT;

    /// For hosts: references that send through `route`.
    #[must_use]
    pub fn new(route: Arc<dyn Route<M>>) -> Self {
        Self { route, limit: Self::LIMIT }
    }

    /// The one called `id`. Nothing is sent.
    #[must_use]
    pub fn entity(&self, id: impl Into<EntityId>) -> EntityRef<M> {
        EntityRef { entities: self.clone(), id: id.into() }
    }

    /// The same entities, with another limit for [`ask`](Self::ask) and [`send`](Self::send).
    ///
    /// It is set before, not on the ask's future, because an ask is on its way when it returns.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Sends without waiting: for an answer, or for room.
    ///
    /// `Ok` means accepted and ordered, not handled: a later end is reported by the node (its events and counters). `Err`
    /// brings the message back.
    ///
    /// # Size
    /// Between nodes a message travels encoded and may be 1 MiB long, the entity's id included. One for an entity on the
    /// same node is not encoded at all and may have any size: a bigger one works until the shard moves. From then on it
    /// does not run, and the node says so: `Undelivered` among its events, with [`Reason::TooLarge`].
    pub fn tell<Q>(&self, id: impl AsRef<str>, message: Q) -> Result<(), Refused<Q>>
    where
        M: Accepts<Q>,
    {
        self.route.send(id.as_ref(), M::wrap(message, ReplyTo::nobody()), None).map_err(take_back)
    }

    /// Sends, waiting for room if a queue is full. Refused with [`Reason::Expired`] if there is none within the limit. How
    /// long the message may be: as for [`tell`](Self::tell).
    pub async fn send<Q>(&self, id: impl AsRef<str>, message: Q) -> Result<(), Refused<Q>>
    where
        M: Accepts<Q>,
    {
        let id = id.as_ref();
        let mut message = M::wrap(message, ReplyTo::nobody());
        let mut deadline = Deadline::new(self.route.clone(), self.route.now() + self.limit);
        loop {
            message = match self.route.send(id, message, None) {
                Ok(()) => return Ok(()),
                Err((message, Reason::Full(_))) => message,
                Err(refused) => return Err(take_back(refused)),
            };
            let room = poll_fn(|cx| match self.route.poll_ready(id, cx.waker()) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => deadline.poll_passed(cx.waker()).map(|()| false),
            });
            if !room.await {
                return Err(take_back((message, Reason::Expired)));
            }
        }
    }

    /// Asks. The question is on its way when this returns; the future brings the answer. One allocation.
    ///
    /// # Size
    /// As for [`tell`](Self::tell): a question longer than 1 MiB works while its entity is on the same node, and else ends
    /// in [`AskError::Undelivered`](super::AskError::Undelivered) with [`Reason::TooLarge`], without having run. An answer
    /// from another node may be 1 MiB long as well; a bigger one is lost after its handler has run, and the asker gets
    /// [`NoReply::Ended`](super::NoReply::Ended).
    pub fn ask<Q>(&self, id: impl AsRef<str>, message: Q) -> Ask<M, Q>
    where
        M: Accepts<Q>,
    {
        let (reply, answer) = ReplyTo::here();
        let at = self.route.now() + self.limit;
        match self.route.send(id.as_ref(), M::wrap(message, reply), Some(at)) {
            Ok(()) => Ask::waiting(answer, Deadline::new(self.route.clone(), at), self.limit),
            Err(refused) => Ask::refused(take_back(refused)),
        }
    }

    /// Tells an envelope's message to the entity it names.
    pub fn route<V: Envelope>(&self, envelope: V) -> Result<(), Refused<V::Message>>
    where
        M: Accepts<V::Message>,
    {
        // The id is borrowed from the envelope that the message is taken out of.
        let id = EntityId::from(envelope.extract_entity_id());
        self.tell(id, envelope.extract_entity_message())
    }
}

/// The message out of the enum it went in as.
fn take_back<M: Accepts<Q>, Q>((message, reason): (M, Reason)) -> Refused<Q> {
    let (message, _) = message.unwrap().expect("a route gives back the very message it refuses");
    Refused { message, reason }
}

impl<M> Clone for Entities<M> {
    fn clone(&self) -> Self {
        Self { route: self.route.clone(), limit: self.limit }
    }
}

impl<M: Protocol> fmt::Debug for Entities<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entities({})", M::TYPE_NAME)
    }
}

/// One entity, by its id: the same calls without the id. Equal to another by type and id.
pub struct EntityRef<M> {
    entities: Entities<M>,
    id: EntityId,
}

impl<M: Protocol> EntityRef<M> {
    /// The id.
    #[must_use]
    pub const fn id(&self) -> &EntityId {
        &self.id
    }

    /// As [`Entities::within`].
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { entities: self.entities.within(limit), ..self }
    }

    /// As [`Entities::tell`].
    pub fn tell<Q>(&self, message: Q) -> Result<(), Refused<Q>>
    where
        M: Accepts<Q>,
    {
        self.entities.tell(&self.id, message)
    }

    /// As [`Entities::send`].
    pub async fn send<Q>(&self, message: Q) -> Result<(), Refused<Q>>
    where
        M: Accepts<Q>,
    {
        self.entities.send(&self.id, message).await
    }

    /// As [`Entities::ask`].
    pub fn ask<Q>(&self, message: Q) -> Ask<M, Q>
    where
        M: Accepts<Q>,
    {
        self.entities.ask(&self.id, message)
    }
}

impl<M> Clone for EntityRef<M> {
    fn clone(&self) -> Self {
        Self { entities: self.entities.clone(), id: self.id.clone() }
    }
}

impl<M> PartialEq for EntityRef<M> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<M> Eq for EntityRef<M> {}

impl<M> Hash for EntityRef<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl<M: Protocol> fmt::Debug for EntityRef<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntityRef({}/{})", M::TYPE_NAME, self.id)
    }
}

/// Something that carries an id and a message for that entity, for [`Entities::route`].
pub trait Envelope {
    /// What it carries.
    type Message;

    /// Whom it is for.
    fn extract_entity_id(&self) -> &str;

    /// What it says.
    fn extract_entity_message(self) -> Self::Message;
}

/// References to a type that this node has not registered.
pub(super) fn unregistered<M: Protocol>(services: Arc<dyn Services>) -> Entities<M> {
    Entities::new(Arc::new(Unregistered(services)))
}

struct Unregistered(Arc<dyn Services>);

impl Clock for Unregistered {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wake_at(&self, at: Instant, waker: &Waker) -> Alarm {
        self.0.wake_at(at, waker)
    }

    fn forget(&self, alarm: Alarm) {
        self.0.forget(alarm);
    }
}

impl<M> Route<M> for Unregistered {
    fn send(&self, _: &str, message: M, _: Option<Instant>) -> Result<(), (M, Reason)> {
        Err((message, Reason::NoSuchType))
    }

    fn poll_ready(&self, _: &str, _: &Waker) -> Poll<()> {
        Poll::Ready(())
    }
}
