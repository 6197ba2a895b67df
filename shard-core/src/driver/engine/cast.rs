//! The entities of an engine: cells, turns and hooks, and what they owe the driver.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::num::NonZeroU32;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use super::Outside;
use super::stage::{Stage, Turned, place};
use crate::driver::{Event, Host, Seat};
use crate::entity::host::{Cell, End, Tenure, Wishes, started, stopping, turn};
use crate::entity::{
    Entity, EntityId, Failure, Fate, Guard, Identity, Panicked, Protocol, Reason, Services, StopReason,
};
use crate::id::{Kind, NodeKey, ShardId, Slot};
use crate::node::Peer;
use crate::region::lane::{DataHead, Life, Next, Receipt};
use crate::time::Instant;
use crate::wire::Control;

/// Places kept for reuse.
const SPARE: usize = 64;

/// What the driver is to be told.
pub(super) enum Owed<M> {
    Started(Slot, bool),
    Finished(Slot, Next),
    Stopped(Slot),
    Schedule(Slot, Instant, M),
    Weighs(Slot, NonZeroU32),
    Pins(Slot, bool),
    /// The state is gone.
    Failed(Slot, String, After),
}

/// What an entity was doing when it failed.
pub(super) enum After {
    Start,
    Turn,
    Stop,
}

/// How far a turn went at its first poll.
pub(super) enum Ran {
    /// It ended, and the entity wants nothing.
    Stays,
    /// It waits.
    Waits,
    /// It ended, and the driver must act on it.
    Wants(Next),
}

/// How a hook ended.
enum Hooked<E: Entity> {
    Started(Result<Box<Cell<E>>, Failure>),
    /// The last hook; the state is gone.
    Stopped,
    /// The last hook of an entity that asked to be made anew, and the cause.
    Restarts(String),
}

type Hook<E> = Pin<Box<dyn Future<Output = Result<Hooked<E>, Panicked>> + Send>>;

/// Makes the future of a last hook: the message that the entity wants handled last, then the hook.
type LastHook<E> = dyn Fn(Box<Cell<E>>, Option<<E as Entity>::Message>, Ending) -> Hook<E> + Send;

/// What is at a slot.
///
/// ```text
///   Empty --start--> Hooking --> Idle <--> Turning --restart--> Hooking --> Empty
///                                  |
///                                  +--stop--> Hooking --> Empty
/// ```
enum Seated<E: Entity> {
    Empty,
    Idle(Box<Cell<E>>),
    Turning(Box<dyn Stage<E>>),
    Hooking(Hook<E>, After),
}

pub(super) struct Cast<E: Entity, O> {
    pub(super) outside: O,
    name: &'static str,
    services: Arc<dyn Services>,
    /// By index of the slot, with its generation.
    seats: Vec<(u32, Seated<E>)>,
    owed: VecDeque<Owed<E::Message>>,
    /// Polled only with a waker that wakes nobody.
    unheard: VecDeque<Slot>,
    spare: Vec<Box<dyn Stage<E>>>,
    place: Box<dyn Fn() -> Box<dyn Stage<E>> + Send>,
    first_hook: Box<dyn Fn(Identity) -> Hook<E> + Send>,
    last_hook: Box<LastHook<E>>,
    /// Messages that entities want handled last.
    lasts: BTreeMap<u32, E::Message>,
    tenures: BTreeMap<ShardId, Arc<Tenure>>,
}

/// What the last hook is for.
enum Ending {
    Stop(StopReason),
    Restart(String),
}

impl<E: Entity, O> Cast<E, O> {
    pub(super) fn new(
        name: &'static str,
        make: impl Fn(&Identity) -> E + Send + Sync + 'static,
        guard: impl Guard + Sync,
        services: Arc<dyn Services>,
        outside: O,
    ) -> Self {
        let make = Arc::new(make);
        // The factory is the user's code as well: the guard covers it.
        let first_hook = move |identity: Identity| -> Hook<E> {
            let make = Arc::clone(&make);
            Box::pin(guard.run(async move {
                let entity = make(&identity);
                Hooked::Started(started(Cell::new(entity, identity)).await)
            }))
        };
        let last_hook = move |cell, last: Option<E::Message>, ending| -> Hook<E> {
            Box::pin(guard.run(async move {
                let cell = match last {
                    Some(last) => turn::<E>(cell, last).await,
                    None => cell,
                };
                match ending {
                    Ending::Stop(why) => {
                        drop(stopping(cell, why).await);
                        Hooked::Stopped
                    }
                    Ending::Restart(cause) => {
                        drop(stopping(cell, StopReason::Failed).await);
                        Hooked::Restarts(cause)
                    }
                }
            }))
        };
        Self {
            outside,
            name,
            services,
            seats: Vec::new(),
            owed: VecDeque::new(),
            unheard: VecDeque::new(),
            spare: Vec::new(),
            place: Box::new(move || place::<E>(guard)),
            first_hook: Box::new(first_hook),
            last_hook: Box::new(last_hook),
            lasts: BTreeMap::new(),
            tenures: BTreeMap::new(),
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.services.now()
    }

    pub(super) fn next_owed(&mut self) -> Option<Owed<E::Message>> {
        self.owed.pop_front()
    }

    /// A slot whose turn or hook waits without having a waker.
    pub(super) fn next_unheard(&mut self) -> Option<Slot> {
        self.unheard.pop_front()
    }

    pub(super) fn has_unheard(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// Runs one handler as far as it goes without waiting. Allocates nothing then.
    #[inline]
    pub(super) fn turn(&mut self, slot: Slot, message: E::Message) -> Ran {
        let Some(Seated::Idle(cell)) = self.take(slot) else {
            debug_assert!(false, "a handler is ordered only for an entity that is here and free");
            return Ran::Wants(Next::Failed);
        };
        let mut stage = self.spare.pop().unwrap_or_else(|| (self.place)());
        stage.set(cell, message);
        // A waker that wakes nobody is right only because `run` polls again at once what waits.
        match stage.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turned) => {
                self.keep(stage);
                self.turned(slot, turned)
            }
            Poll::Pending => {
                self.put(slot, Seated::Turning(stage));
                self.unheard.push_back(slot);
                Ran::Waits
            }
        }
    }

    /// Polls what waits at `slot`, if anything does.
    pub(super) fn go_on(&mut self, slot: Slot, waker: &Waker) {
        let cx = &mut Context::from_waker(waker);
        match self.take(slot) {
            Some(Seated::Turning(mut stage)) => match stage.poll(cx) {
                Poll::Pending => self.put(slot, Seated::Turning(stage)),
                Poll::Ready(turned) => {
                    self.keep(stage);
                    let next = match self.turned(slot, turned) {
                        Ran::Stays => Next::Stay,
                        Ran::Wants(next) => next,
                        Ran::Waits => return,
                    };
                    self.owed.push_back(Owed::Finished(slot, next));
                }
            },
            Some(Seated::Hooking(hook, after)) => {
                self.poll_hook(slot, hook, after, cx);
            }
            Some(other) => self.put(slot, other),
            None => {}
        }
    }

    /// Does what the entity wished for in its turn, and puts it back.
    fn turned(&mut self, slot: Slot, turned: Turned<E>) -> Ran {
        let mut cell = match turned {
            Ok(cell) => cell,
            Err(panicked) => {
                self.lasts.remove(&slot.index);
                self.owed.push_back(Owed::Failed(slot, panicked.to_string(), After::Turn));
                return Ran::Waits; // the driver hears it from there
            }
        };
        if cell.wishes().is_empty() {
            self.put(slot, Seated::Idle(cell));
            return Ran::Stays;
        }
        let mut wishes = cell.take_wishes();
        self.owe(slot, &mut wishes);
        let next = match wishes.end() {
            None => Next::Stay,
            Some(End::Stop) => Next::Stop,
            Some(End::Passivate) => {
                if let Some(last) = wishes.take_last() {
                    self.lasts.insert(slot.index, last);
                }
                Next::Passivate
            }
            Some(End::Restart) => {
                self.lasts.remove(&slot.index);
                let cause = wishes.take_failure().map_or_else(String::new, |failure| failure.to_string());
                let hook = (self.last_hook)(cell, None, Ending::Restart(cause));
                self.begin(slot, hook, After::Turn);
                return Ran::Waits;
            }
        };
        self.put(slot, Seated::Idle(cell));
        if next == Next::Stay { Ran::Stays } else { Ran::Wants(next) }
    }

    /// What it wished for that is not its end.
    fn owe(&mut self, slot: Slot, wishes: &mut Wishes<E::Message>) {
        let scheduled = wishes.take_scheduled().into_iter();
        self.owed.extend(scheduled.map(|(at, message)| Owed::Schedule(slot, at, message)));
        self.owed.extend(wishes.weight().map(|weight| Owed::Weighs(slot, weight)));
        self.owed.extend(wishes.pinned().map(|pinned| Owed::Pins(slot, pinned)));
    }

    fn begin(&mut self, slot: Slot, hook: Hook<E>, after: After) {
        if self.poll_hook(slot, hook, after, &mut Context::from_waker(Waker::noop())) {
            self.unheard.push_back(slot);
        }
    }

    /// True: it waits.
    fn poll_hook(&mut self, slot: Slot, mut hook: Hook<E>, after: After, cx: &mut Context<'_>) -> bool {
        let owed = match hook.as_mut().poll(cx) {
            Poll::Pending => {
                self.put(slot, Seated::Hooking(hook, after));
                return true;
            }
            Poll::Ready(Ok(Hooked::Started(Ok(mut cell)))) => {
                // How it wants to end before it began is void; what it scheduled counts.
                let mut wishes = cell.take_wishes();
                self.put(slot, Seated::Idle(cell));
                self.owe(slot, &mut wishes);
                Owed::Started(slot, true)
            }
            Poll::Ready(Ok(Hooked::Started(Err(failure)))) => Owed::Failed(slot, failure.to_string(), after),
            Poll::Ready(Ok(Hooked::Stopped)) => Owed::Stopped(slot),
            Poll::Ready(Ok(Hooked::Restarts(cause))) => Owed::Failed(slot, cause, after),
            Poll::Ready(Err(panicked)) => Owed::Failed(slot, panicked.to_string(), after),
        };
        self.owed.push_back(owed);
        false
    }

    /// A message that will not run, or may have: its asker learns it, or the outside does.
    pub(super) fn give_up(&mut self, id: &EntityId, message: E::Message, fate: Fate)
    where
        O: Outside<E::Message>,
    {
        match fate {
            Fate::NotRun(reason) if message.is_ask() => message.refuse(reason),
            fate => self.outside.undelivered(id, message, fate),
        }
    }

    #[inline]
    fn take(&mut self, slot: Slot) -> Option<Seated<E>> {
        let (generation, seated) = self.seats.get_mut(slot.index as usize)?;
        (*generation == slot.generation).then(|| mem::replace(seated, Seated::Empty))
    }

    #[inline]
    fn put(&mut self, slot: Slot, seated: Seated<E>) {
        let at = slot.index as usize;
        if self.seats.len() <= at {
            self.seats.resize_with(at + 1, || (0, Seated::Empty));
        }
        self.seats[at] = (slot.generation, seated);
    }

    #[inline]
    fn keep(&mut self, mut stage: Box<dyn Stage<E>>) {
        stage.clear();
        if self.spare.len() < SPARE {
            self.spare.push(stage);
        }
    }

    fn tenure(&mut self, life: &Life) -> Arc<Tenure> {
        match self.tenures.get(&life.shard) {
            Some(tenure) if tenure.token() == life.token => Arc::clone(tenure),
            _ => {
                let services = Arc::clone(&self.services);
                let tenure = Arc::new(Tenure::new(self.name, life.shard, life.token, services));
                self.tenures.insert(life.shard, Arc::clone(&tenure));
                tenure
            }
        }
    }
}

impl<E: Entity, O: Outside<E::Message>> Host<E::Message> for Cast<E, O> {
    fn start(&mut self, seat: Seat, life: Life) {
        let identity = Identity::new(self.tenure(&life), life.id, u64::from(life.activation));
        self.put(seat.slot, Seated::Empty);
        let hook = (self.first_hook)(identity);
        self.begin(seat.slot, hook, After::Start);
    }

    fn run(&mut self, seat: Seat, message: E::Message) {
        match self.turn(seat.slot, message) {
            Ran::Stays => self.owed.push_back(Owed::Finished(seat.slot, Next::Stay)),
            Ran::Wants(next) => self.owed.push_back(Owed::Finished(seat.slot, next)),
            Ran::Waits => {}
        }
    }

    fn stop(&mut self, seat: Seat, why: StopReason) {
        let last = self.lasts.remove(&seat.slot.index).filter(|_| why == StopReason::Asked);
        match self.take(seat.slot) {
            Some(Seated::Idle(cell)) => {
                let hook = (self.last_hook)(cell, last, Ending::Stop(why));
                self.begin(seat.slot, hook, After::Stop);
            }
            _ => self.owed.push_back(Owed::Stopped(seat.slot)),
        }
    }

    fn cancel(&mut self, seat: Seat) {
        self.discard(seat);
        self.owed.push_back(Owed::Stopped(seat.slot));
    }

    fn discard(&mut self, seat: Seat) {
        self.lasts.remove(&seat.slot.index);
        if let Some(Seated::Turning(stage)) = self.take(seat.slot) {
            self.keep(stage);
        }
    }

    fn weigh(&mut self, _: Kind, message: &E::Message) -> Result<u32, Reason> {
        self.outside.weigh(message)
    }

    fn control(&mut self, to: Peer, message: Control) {
        self.outside.control(to, message);
    }

    fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &E::Message) {
        self.outside.transmit(to, head, id, body);
    }

    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>) {
        self.outside.receipt(to, receipt);
    }

    fn reach(&mut self, node: NodeKey, address: String) {
        self.outside.reach(node, address);
    }

    fn gone(&mut self, node: NodeKey) {
        self.outside.gone(node);
    }

    fn undelivered(&mut self, _: Kind, id: &EntityId, message: E::Message, fate: Fate) {
        self.give_up(id, message, fate);
    }

    fn withdraw(&mut self, message: E::Message) {
        message.withdraw();
    }

    fn wall(&mut self) -> u64 {
        self.outside.wall()
    }

    fn event(&mut self, event: Event) {
        if let Event::Lost { key } = event {
            self.tenures.remove(&key.shard);
        }
        self.outside.event(event);
    }
}
