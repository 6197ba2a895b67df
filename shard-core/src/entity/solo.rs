//! One entity in a test: no node, no executor, no waiting.

use alloc::{boxed::Box, collections::VecDeque, sync::Arc, task::Wake, vec::Vec};
use core::{
    any::Any,
    fmt,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::{self, Poll, Waker},
};

use futures_channel::oneshot;

use super::{
    Accepts, Alarm, AskFailure, Clock, Entities, Entity, EntityId, Failure, Identity, NoReply, Protocol, Reply,
    ReplyTo, Services, StopReason,
    host::{Cell, End, Tenure, started, stopping, turn},
};
use crate::id::{ShardId, Token};
use crate::time::{Duration, Instant, nanos};

/// One entity by itself, for tests: handlers run to their end inside the call, time stands still until
/// [`advance`](Self::advance).
///
/// Like on a node, the entity starts with its first message, and again after it passivated, stopped or restarted (here
/// without a pause). What it schedules comes due by `advance`. [`Context::entities`](super::Context::entities) finds
/// what was given to [`register`](Self::register). [`Context::me`](super::Context::me) reaches the entity itself with
/// the feature `std`; without it such sends are refused.
///
/// A handler that panics fails the test, and so does one that waits for something that only another task could bring.
///
/// ```
/// use shard_core::{prelude::*, testing::Solo};
/// pub struct Tick;
/// pub struct Count;
/// messages! { pub enum ClockMessage as "clock" { Tick -> (), Count -> u32 } }
/// struct Ticker(u32);
/// impl Entity for Ticker {
///     type Message = ClockMessage;
///     async fn started(&mut self, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
///         ctx.schedule(Duration::from_secs(1), Tick);
///         Ok(())
///     }
/// }
/// impl Handle<Tick> for Ticker {
///     async fn handle(&mut self, _: Tick, ctx: &mut Context<'_, Self>) {
///         self.0 += 1;
///         ctx.schedule(Duration::from_secs(1), Tick);
///     }
/// }
/// impl Handle<Count> for Ticker {
///     async fn handle(&mut self, _: Count, _: &mut Context<'_, Self>) -> u32 { self.0 }
/// }
///
/// let mut ticker = Solo::new("hall", |_| Ticker(0));
/// assert_eq!(ticker.ask(Count), 0);
/// ticker.advance(Duration::from_millis(3_500));
/// assert_eq!(ticker.ask(Count), 3);
/// ```
pub struct Solo<E: Entity> {
    id: EntityId,
    factory: Box<dyn FnMut(&Identity) -> E>,
    time: Arc<Time>,
    #[cfg(feature = "std")]
    own: Arc<own::Own<E::Message>>,
    registered: Vec<(&'static str, Arc<dyn Any + Send + Sync>)>,
    cell: Option<Box<Cell<E>>>,
    mail: VecDeque<E::Message>,
    leaving: Option<Leaving<E::Message>>,
    /// In the order asked for; the earliest is due first.
    scheduled: Vec<(Instant, E::Message)>,
    /// It starts without mail too: it asked for a restart.
    wanted: bool,
    activations: u64,
    failures: Vec<Failure>,
}

/// An entity that passivates once it has had the mail that was here.
struct Leaving<M> {
    mail_left: usize,
    last: Last<M>,
}

enum Last<M> {
    Unset,
    Waits(M),
    Given,
}

impl<E: Entity> Solo<E> {
    /// The entity `id`, asleep. `factory` makes each of its lives, as on a node.
    pub fn new(id: impl Into<EntityId>, factory: impl FnMut(&Identity) -> E + 'static) -> Self {
        let id = id.into();
        let time = Arc::new(Time { now: AtomicU64::new(0), session_until: AtomicU64::new(u64::MAX) });
        #[cfg(feature = "std")]
        let own = Arc::new(own::Own::new(id.clone(), time.clone()));
        #[cfg(feature = "std")]
        let me: Arc<dyn Any + Send + Sync> = Arc::new(Entities::<E::Message>::new(own.clone()));
        Self {
            id,
            factory: Box::new(factory),
            time,
            #[cfg(feature = "std")]
            own,
            #[cfg(feature = "std")]
            registered: alloc::vec![(E::Message::TYPE_NAME, me)],
            #[cfg(not(feature = "std"))]
            registered: Vec::new(),
            cell: None,
            mail: VecDeque::new(),
            leaving: None,
            scheduled: Vec::new(),
            wanted: false,
            activations: 0,
            failures: Vec::new(),
        }
    }

    /// What the entity's later lives find as the entities of another type.
    pub fn register<M: Protocol>(&mut self, entities: Entities<M>) {
        self.registered.retain(|(name, _)| *name != M::TYPE_NAME);
        self.registered.push((M::TYPE_NAME, Arc::new(entities)));
    }

    /// Hands it a message and runs what follows from it.
    pub fn tell<Q>(&mut self, message: Q)
    where
        E::Message: Accepts<Q>,
    {
        self.mail.push_back(Accepts::wrap(message, ReplyTo::nobody()));
        self.run();
    }

    /// Asks, and returns the answer.
    ///
    /// # Panics
    /// If there is none when the handler has returned: it dropped its [`ReplyTo`], or answers
    /// [later](Self::ask_later), or the entity did not start.
    #[track_caller]
    pub fn ask<Q>(&mut self, message: Q) -> Reply<E, Q>
    where
        E::Message: Accepts<Q>,
    {
        match self.ask_later(message).take() {
            Some(Ok(answer)) => answer,
            Some(Err(AskFailure::Undelivered(reason))) => panic!("`{self}` did not take the question: {reason}"),
            Some(Err(AskFailure::NoReply(why))) => panic!("`{self}`: {why}"),
            None => match (&self.cell, self.failures.last()) {
                (None, Some(failure)) => panic!("`{self}` is not running: {failure}"),
                _ => panic!("`{self}` has not answered yet; take the answer later with `ask_later`"),
            },
        }
    }

    /// Asks, and returns the end where the answer arrives, now or later.
    pub fn ask_later<Q>(&mut self, message: Q) -> Later<Reply<E, Q>>
    where
        E::Message: Accepts<Q>,
    {
        let (reply, answer) = ReplyTo::here();
        self.mail.push_back(Accepts::wrap(message, reply));
        self.run();
        Later(answer)
    }

    /// Lets time pass: scheduled messages are handled at their times, in order.
    pub fn advance(&mut self, by: Duration) {
        self.run();
        let until = self.time.now() + by;
        while let Some(due) = (0..self.scheduled.len()).min_by_key(|at| self.scheduled[*at].0) {
            if self.scheduled[due].0 > until {
                break;
            }
            let (at, message) = self.scheduled.remove(due);
            self.time.set_now(at.max(self.time.now()));
            self.mail.push_back(message);
            self.run();
        }
        self.time.set_now(until);
    }

    /// Starts it without a message, if it sleeps.
    pub fn wake(&mut self) {
        self.wanted = self.cell.is_none();
        self.run();
    }

    /// Stops it as the node would, if it is awake: idle, evicted, handed off.
    pub fn stop(&mut self, why: StopReason) {
        if let Some(cell) = self.cell.take() {
            self.end(cell, why);
        }
    }

    /// Sets how much of the node's session is left from now; without this it never ends.
    pub fn set_session_left(&mut self, left: Duration) {
        self.time.session_until.store((self.time.now() + left).as_nanos(), Ordering::Relaxed);
    }

    /// The time, which starts at zero.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.time.now()
    }

    /// Its state, if it is awake.
    #[must_use]
    pub fn state(&self) -> Option<&E> {
        self.cell.as_deref().map(Cell::entity)
    }

    /// Whether it is awake.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.cell.is_some()
    }

    /// How many lives it has had.
    #[must_use]
    pub fn activations(&self) -> u64 {
        self.activations
    }

    /// Why it was restarted or failed to start, each time.
    #[must_use]
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    fn run(&mut self) {
        while self.step() {}
    }

    /// Does one thing: a start, a turn or an end. False if there is nothing to do.
    fn step(&mut self) -> bool {
        self.collect();
        let Some(cell) = self.cell.take() else {
            return (self.wanted || !self.mail.is_empty()) && self.start();
        };
        if let Some(leaving) = self.leaving.as_mut().filter(|leaving| leaving.mail_left == 0) {
            match core::mem::replace(&mut leaving.last, Last::Given) {
                Last::Waits(last) => self.turn(cell, last),
                Last::Unset | Last::Given => self.end(cell, StopReason::Asked),
            }
            return true;
        }
        let Some(message) = self.mail.pop_front() else {
            self.cell = Some(cell);
            return false;
        };
        if let Some(leaving) = &mut self.leaving {
            leaving.mail_left -= 1;
        }
        self.turn(cell, message);
        true
    }

    /// Begins a life. False if it did not last: its mail waits for the next call, so a failing hook does not spin.
    fn start(&mut self) -> bool {
        self.wanted = false;
        self.activations += 1;
        let bench = Bench { time: self.time.clone(), registered: self.registered.clone() };
        let tenure = Tenure::new(E::Message::TYPE_NAME, ShardId(0), Token::default(), Arc::new(bench));
        let identity = Identity::new(Arc::new(tenure), self.id.clone(), self.activations);
        let entity = (self.factory)(&identity);
        match finish(&identity, started(Cell::new(entity, identity.clone()))) {
            Ok(cell) => self.honour(cell),
            Err(failure) => self.failures.push(failure),
        }
        self.cell.is_some()
    }

    fn turn(&mut self, cell: Box<Cell<E>>, message: E::Message) {
        let identity = cell.identity().clone();
        let cell = finish(&identity, turn(cell, message));
        self.honour(cell);
    }

    /// Does what the entity wished for.
    fn honour(&mut self, mut cell: Box<Cell<E>>) {
        let mut wishes = cell.take_wishes();
        self.scheduled.extend(wishes.take_scheduled());
        match wishes.end() {
            None => self.cell = Some(cell),
            Some(End::Passivate) => {
                self.collect();
                let mail_left = self.mail.len();
                let leaving = self.leaving.get_or_insert(Leaving { mail_left, last: Last::Unset });
                if let (Some(last), Last::Unset | Last::Waits(_)) = (wishes.take_last(), &leaving.last) {
                    leaving.last = Last::Waits(last);
                }
                self.cell = Some(cell);
            }
            Some(End::Stop) => self.end(cell, StopReason::Asked),
            Some(End::Restart) => {
                self.failures.extend(wishes.take_failure());
                self.end(cell, StopReason::Failed);
                self.wanted = true;
            }
        }
    }

    fn end(&mut self, cell: Box<Cell<E>>, why: StopReason) {
        let identity = cell.identity().clone();
        drop(finish(&identity, stopping(cell, why)));
        // What was scheduled belonged to this life.
        self.scheduled.clear();
        self.leaving = None;
    }

    /// Takes in what the entity sent to itself.
    fn collect(&mut self) {
        #[cfg(feature = "std")]
        self.mail.extend(self.own.take());
    }
}

impl<E: Entity> fmt::Display for Solo<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", E::Message::TYPE_NAME, self.id)
    }
}

impl<E: Entity> fmt::Debug for Solo<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Solo")
            .field("id", &self.id)
            .field("activations", &self.activations)
            .field("is_awake", &self.is_awake())
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

/// An answer that comes when the entity gives it.
#[derive(Debug)]
#[must_use = "take the answer from it"]
pub struct Later<R>(oneshot::Receiver<Result<R, AskFailure>>);

impl<R> Later<R> {
    /// The answer, or why there will be none; `None` while the entity still holds the question, and once taken.
    pub fn take(&mut self) -> Option<Result<R, AskFailure>> {
        match self.0.try_recv() {
            Ok(answer) => answer,
            Err(oneshot::Canceled) => Some(Err(AskFailure::NoReply(NoReply::Ended))),
        }
    }
}

/// Polls to the end. Woken by itself it goes on; woken by nobody it could only hang.
fn finish<F: Future>(who: &Identity, future: F) -> F::Output {
    let bell = Arc::new(Bell(AtomicBool::new(false)));
    let waker = Waker::from(bell.clone());
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut task::Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending if bell.0.swap(false, Ordering::Acquire) => {}
            Poll::Pending => panic!(
                "`{who}` waits in a handler or hook for something that no one in this test will bring; \
                 `Solo` has no executor, so give it an entity whose futures are ready, or test it on a node"
            ),
        }
    }
}

struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// The clock that [`Solo::advance`] turns.
struct Time {
    now: AtomicU64,
    session_until: AtomicU64,
}

impl Time {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.load(Ordering::Relaxed))
    }

    fn set_now(&self, now: Instant) {
        self.now.store(nanos(now.since(Instant::ZERO)), Ordering::Relaxed);
    }
}

/// The node around the entity.
struct Bench {
    time: Arc<Time>,
    registered: Vec<(&'static str, Arc<dyn Any + Send + Sync>)>,
}

impl Clock for Bench {
    fn now(&self) -> Instant {
        self.time.now()
    }

    fn wake_at(&self, _: Instant, _: &Waker) -> Alarm {
        Alarm::NONE
    }
}

impl Services for Bench {
    fn session_until(&self) -> Instant {
        Instant::from_nanos(self.time.session_until.load(Ordering::Relaxed))
    }

    fn registered(&self, name: &str) -> Option<Arc<dyn Any + Send + Sync>> {
        self.registered.iter().find(|(registered, _)| *registered == name).map(|(_, entities)| entities.clone())
    }
}

/// How the entity reaches itself.
#[cfg(feature = "std")]
mod own {
    use alloc::{sync::Arc, vec::Vec};
    use core::{
        mem,
        task::{Poll, Waker},
    };
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::Time;
    use crate::entity::{Alarm, Clock, EntityId, Reason, Route};
    use crate::time::Instant;

    pub(super) struct Own<M> {
        id: EntityId,
        time: Arc<Time>,
        mail: Mutex<Vec<M>>,
    }

    impl<M> Own<M> {
        pub(super) fn new(id: EntityId, time: Arc<Time>) -> Self {
            Self { id, time, mail: Mutex::new(Vec::new()) }
        }

        pub(super) fn take(&self) -> Vec<M> {
            mem::take(&mut *self.mail())
        }

        fn mail(&self) -> MutexGuard<'_, Vec<M>> {
            self.mail.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<M: Send> Clock for Own<M> {
        fn now(&self) -> Instant {
            self.time.now()
        }

        fn wake_at(&self, _: Instant, _: &Waker) -> Alarm {
            Alarm::NONE
        }
    }

    impl<M: Send> Route<M> for Own<M> {
        fn send(&self, id: &str, message: M, _: Option<Instant>) -> Result<(), (M, Reason)> {
            if id != self.id.as_str() {
                return Err((message, Reason::NoHome));
            }
            self.mail().push(message);
            Ok(())
        }

        fn poll_ready(&self, _: &str, _: &Waker) -> Poll<()> {
            Poll::Ready(())
        }
    }
}
