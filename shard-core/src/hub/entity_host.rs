//! The host of a lane whose type lives on this node: cells, turns and hooks.

use std::boxed::Box;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::string::{String, ToString};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::vec::Vec;

use core::num::NonZeroU32;

use super::away::{Away, Back, HookEnd, Leash, Place, Return, Returns, Work, poll_work};
use super::clock;
use super::events::Event;
use super::lane::CLOCK_EVERY;
use super::outgate::Outgate;
use super::shared::{count, lock};
use super::traffic::Speaking;
use crate::collections::EntityId;
use crate::entity::host::{Cell, End, Tenure, Wishes, started, stopping, turn};
use crate::entity::{Entity, Fate, Identity, Protocol, Reason, Services, StopReason, Wire};
use crate::id::{Kind, NodeKey, ShardId, Slot, Token};
use crate::machine::Notice;
use crate::passivation::Pool;
use crate::region::lane::{DataHead, LaneHost, Life, Next, Receipt};
use crate::time::{Duration, Instant};

/// Makes entities.
pub(super) type Factory<E> = Arc<dyn Fn(&Identity) -> E + Send + Sync>;

/// What the lane is owed.
pub(super) enum Owed<M> {
    Started(Slot, bool),
    Finished(Slot, Next),
    Stopped(Slot),
    Schedule(Slot, Instant, M),
    /// It weighs something else now.
    Weighs(Slot, NonZeroU32),
    /// It is to stay awake, or may sleep again.
    Pins(Slot, bool),
    /// To be told: the entity failed, and what it said.
    Failed(Slot, String),
}

/// How a turn that began at once went on.
pub(super) enum Ran {
    /// It ended, and the entity wants nothing.
    Stays,
    /// It waits, on the executor.
    Waits,
    /// It ended and the lane must act on it.
    Wants(Next),
}

enum Seat<E: Entity> {
    Empty,
    Here(Box<Cell<E>>),
    Away(Arc<Leash>),
}

/// A handler that holds its lane longer than this is reported.
pub(super) const OVERRUN: Duration = Duration::from_millis(5);
/// Places kept for reuse.
const SPARE: usize = 64;

pub(super) struct EntityHost<E: Entity, F, Mk> {
    pub(super) out: Outgate<E::Message>,
    pub(super) owed: VecDeque<Owed<E::Message>>,
    pub(super) returns: Arc<Returns<E, F>>,
    factory: Factory<E>,
    make: Mk,
    spare: Vec<Place<F>>,
    cells: Vec<(u32, Seat<E>)>,
    /// Messages that entities want handled last.
    lasts: BTreeMap<u32, E::Message>,
    tenures: BTreeMap<ShardId, Arc<Tenure>>,
    /// Handlers and hooks since the core's starts last had the clock read.
    started: u32,
    /// Handlers and hooks run as tasks from the start.
    apart: bool,
}

impl<E, F, Mk> EntityHost<E, F, Mk>
where
    E: Entity,
    E::Message: Wire,
    F: Future<Output = Box<Cell<E>>> + Send + 'static,
    Mk: Fn(Box<Cell<E>>, E::Message) -> F,
{
    pub(super) fn new(out: Outgate<E::Message>, factory: Factory<E>, make: Mk) -> Self {
        Self {
            out,
            owed: VecDeque::new(),
            returns: Arc::default(),
            factory,
            make,
            spare: Vec::new(),
            cells: Vec::new(),
            lasts: BTreeMap::new(),
            tenures: BTreeMap::new(),
            started: 0,
            apart: false,
        }
    }

    /// Nothing of the entities' runs on the lane, however long it takes.
    pub(super) fn apart(self) -> Self {
        Self { apart: true, ..self }
    }

    /// Runs one handler as far as it goes without waiting. Allocates nothing if it does not wait.
    #[inline]
    pub(super) fn turn(&mut self, slot: Slot, message: E::Message) -> Ran {
        let Some(cell) = self.take(slot) else { return Ran::Wants(Next::Failed) };
        self.out.handled += 1;
        let watched = self.out.watch.then(|| (clock::now(), cell.identity().id().clone()));
        let speaker = self.out.region.observed.as_ref().map(|_| (self.out.region.kind, cell.identity().shard()));
        let mut place: Place<F> = self.spare.pop().unwrap_or_else(|| Box::pin(None));
        place.set(Some((self.make)(cell, message)));
        let mut work = Work::<E, F>::Turn(place);
        if self.apart {
            self.send_away(slot, work, speaker);
            return Ran::Waits;
        }
        // The noop waker is right only because a future that waits goes to the executor, which polls it at once.
        let speaking = speaker.map(|(kind, shard)| Speaking::new(kind, shard));
        let polled = poll_work(&mut work, &mut Context::from_waker(Waker::noop()));
        drop(speaking);
        if let Some((begun, id)) = watched {
            let took = clock::now().since(begun);
            if took > OVERRUN {
                self.out.shared.emit(Event::HandlerOverran { entity_type: self.out.region.name, id, took });
            }
        }
        match polled {
            Poll::Pending => {
                self.send_away(slot, work, speaker);
                Ran::Waits
            }
            Poll::Ready(end) => {
                if let Work::Turn(mut place) = work {
                    if matches!(end, Return::Turned(_)) {
                        place.set(None);
                        self.keep_place(place);
                    } else {
                        // What a panic left behind is dropped here, and may panic again.
                        let _ = catch_unwind(AssertUnwindSafe(move || drop(place)));
                    }
                }
                match end {
                    Return::Turned(cell) => self.turned(slot, cell),
                    Return::Panicked(panic) => {
                        self.failed(slot, panic.to_string());
                        Ran::Wants(Next::Failed)
                    }
                    Return::Hooked(_) | Return::Cancelled => Ran::Wants(Next::Failed),
                }
            }
        }
    }

    /// An entity came back from the executor.
    pub(super) fn came_back(&mut self, back: Back<E, F>) {
        let Back { slot, end, place } = back;
        if let Some(place) = place {
            self.keep_place(place);
        }
        if !matches!(self.cells.get(slot.index as usize), Some((generation, Seat::Away(_))) if *generation == slot.generation)
        {
            return;
        }
        self.cells[slot.index as usize].1 = Seat::Empty;
        match end {
            Return::Turned(cell) => {
                match self.turned(slot, cell) {
                    Ran::Wants(next) => self.owed.push_back(Owed::Finished(slot, next)),
                    Ran::Stays => self.owed.push_back(Owed::Finished(slot, Next::Stay)),
                    // It asked for a restart: its last hook runs, and the end of that is what the lane hears.
                    Ran::Waits => {}
                }
            }
            Return::Hooked(end) => self.hooked(slot, end),
            Return::Panicked(panic) => {
                self.failed(slot, panic.to_string());
                // Whatever it was doing, one of these is what the lane waits for; it ignores the other two.
                self.owed.push_back(Owed::Started(slot, false));
                self.owed.push_back(Owed::Finished(slot, Next::Failed));
                self.owed.push_back(Owed::Stopped(slot));
            }
            Return::Cancelled => self.owed.push_back(Owed::Stopped(slot)),
        }
    }

    /// Does what the entity wished for in its turn, and puts it back.
    fn turned(&mut self, slot: Slot, mut cell: Box<Cell<E>>) -> Ran {
        if cell.wishes().is_empty() {
            self.put(slot, Seat::Here(cell));
            return Ran::Stays;
        }
        let mut wishes = cell.take_wishes();
        self.owe(slot, &mut wishes);
        let next = match wishes.end() {
            None => {
                self.put(slot, Seat::Here(cell));
                return Ran::Stays;
            }
            Some(End::Restart) => {
                let why = wishes.take_failure().map_or_else(Default::default, |failure| failure.to_string());
                self.failed(slot, why);
                self.hook(
                    slot,
                    Box::pin(async move {
                        drop(stopping(cell, StopReason::Failed).await);
                        HookEnd::Failed
                    }),
                );
                return Ran::Waits;
            }
            Some(End::Passivate) => {
                if let Some(last) = wishes.take_last() {
                    self.lasts.insert(slot.index, last);
                }
                Next::Passivate
            }
            Some(End::Stop) => Next::Stop,
        };
        self.put(slot, Seat::Here(cell));
        Ran::Wants(next)
    }

    /// What an entity wished for that is not its end.
    fn owe(&mut self, slot: Slot, wishes: &mut Wishes<E::Message>) {
        for (at, message) in wishes.take_scheduled() {
            self.owed.push_back(Owed::Schedule(slot, at, message));
        }
        if let Some(weight) = wishes.weight() {
            self.owed.push_back(Owed::Weighs(slot, weight));
        }
        if let Some(pinned) = wishes.pinned() {
            self.owed.push_back(Owed::Pins(slot, pinned));
        }
    }

    fn hooked(&mut self, slot: Slot, end: HookEnd<E>) {
        match end {
            HookEnd::Started(Ok(mut cell)) => {
                self.owe(slot, &mut cell.take_wishes());
                self.put(slot, Seat::Here(cell));
                self.owed.push_back(Owed::Started(slot, true));
            }
            HookEnd::Started(Err(failure)) => {
                self.failed(slot, failure.to_string());
                self.owed.push_back(Owed::Started(slot, false));
            }
            HookEnd::Stopped => self.owed.push_back(Owed::Stopped(slot)),
            HookEnd::Failed => self.owed.push_back(Owed::Finished(slot, Next::Failed)),
        }
    }

    fn failed(&mut self, slot: Slot, why: String) {
        self.lasts.remove(&slot.index);
        self.owed.push_back(Owed::Failed(slot, why));
    }

    /// Polls a hook once and sends it away if it waits.
    fn hook(&mut self, slot: Slot, hook: super::away::HookFuture<E>) {
        let mut work = Work::<E, F>::Hook(hook);
        if self.apart {
            return self.send_away(slot, work, None);
        }
        match poll_work(&mut work, &mut Context::from_waker(Waker::noop())) {
            Poll::Pending => self.send_away(slot, work, None),
            Poll::Ready(Return::Hooked(end)) => self.hooked(slot, end),
            Poll::Ready(Return::Panicked(panic)) => {
                self.failed(slot, panic.to_string());
                // Whichever hook it was, one of these is what the lane waits for; it ignores the others.
                self.owed.push_back(Owed::Started(slot, false));
                self.owed.push_back(Owed::Finished(slot, Next::Failed));
                self.owed.push_back(Owed::Stopped(slot));
            }
            Poll::Ready(_) => self.owed.push_back(Owed::Stopped(slot)),
        }
    }

    fn send_away(&mut self, slot: Slot, work: Work<E, F>, speaker: Option<(Kind, ShardId)>) {
        let leash = Arc::new(Leash::default());
        self.put(slot, Seat::Away(Arc::clone(&leash)));
        let region = Arc::clone(&self.out.region);
        let lane = self.out.lane as usize;
        let ring = move || region.lanes[lane].bell.ring();
        let away = Away { slot, work: Some(work), speaker, leash, returns: Arc::clone(&self.returns), ring };
        self.out.shared.spawn(Box::pin(away));
    }

    fn take(&mut self, slot: Slot) -> Option<Box<Cell<E>>> {
        let (generation, place) = self.cells.get_mut(slot.index as usize)?;
        if *generation != slot.generation || !matches!(place, Seat::Here(_)) {
            return None;
        }
        match std::mem::replace(place, Seat::Empty) {
            Seat::Here(cell) => Some(cell),
            _ => None,
        }
    }

    /// Drops an entity that runs nothing. Its destructor is the user's: a panic in it must not take the lane down.
    fn throw_away(&mut self, slot: Slot) {
        let cell = self.take(slot);
        let _ = catch_unwind(AssertUnwindSafe(move || drop(cell)));
    }

    fn put(&mut self, slot: Slot, place: Seat<E>) {
        let at = slot.index as usize;
        while self.cells.len() <= at {
            self.cells.push((0, Seat::Empty));
        }
        self.cells[at] = (slot.generation, place);
    }

    fn keep_place(&mut self, place: Place<F>) {
        if self.spare.len() < SPARE {
            self.spare.push(place);
        }
    }

    fn tenure(&mut self, life: &Life) -> Arc<Tenure> {
        if let Some(tenure) = self.tenures.get(&life.shard)
            && tenure.token() == life.token
        {
            return Arc::clone(tenure);
        }
        let services: Arc<dyn Services> = Arc::clone(&self.out.shared) as Arc<dyn Services>;
        let tenure = Arc::new(Tenure::new(self.out.region.name, life.shard, life.token, services));
        self.tenures.insert(life.shard, Arc::clone(&tenure));
        tenure
    }
}

impl<E, F, Mk> LaneHost<E::Message> for EntityHost<E, F, Mk>
where
    E: Entity,
    E::Message: Wire,
    F: Future<Output = Box<Cell<E>>> + Send + 'static,
    Mk: Fn(Box<Cell<E>>, E::Message) -> F,
{
    fn start(&mut self, slot: Slot, life: Life) {
        count(&self.out.shared.tallies.entities_started, 1);
        let identity = Identity::new(self.tenure(&life), life.id, u64::from(life.activation));
        self.put(slot, Seat::Empty);
        let factory = Arc::clone(&self.factory);
        // The factory is the user's code: a panic in it must not take the lane down.
        self.hook(
            slot,
            Box::pin(async move {
                let entity = factory(&identity);
                HookEnd::Started(started(Cell::new(entity, identity)).await)
            }),
        );
    }

    fn run(&mut self, slot: Slot, message: E::Message) {
        match self.turn(slot, message) {
            Ran::Stays => self.owed.push_back(Owed::Finished(slot, Next::Stay)),
            Ran::Wants(next) => self.owed.push_back(Owed::Finished(slot, next)),
            Ran::Waits => {}
        }
    }

    fn stop(&mut self, slot: Slot, why: StopReason) {
        let last = self.lasts.remove(&slot.index);
        let Some(cell) = self.take(slot) else { return self.owed.push_back(Owed::Stopped(slot)) };
        self.hook(
            slot,
            Box::pin(async move {
                let cell = match last {
                    Some(last) if why == StopReason::Asked => turn(cell, last).await,
                    _ => cell,
                };
                drop(stopping(cell, why).await);
                HookEnd::Stopped
            }),
        );
    }

    fn cancel(&mut self, slot: Slot) {
        // Slots are used again: what one life wanted handled last is not for the next.
        self.lasts.remove(&slot.index);
        match self.cells.get(slot.index as usize) {
            Some((generation, Seat::Away(leash))) if *generation == slot.generation => leash.cancel(),
            _ => {
                self.throw_away(slot);
                self.owed.push_back(Owed::Stopped(slot));
            }
        }
    }

    fn discard(&mut self, slot: Slot) {
        self.lasts.remove(&slot.index);
        self.throw_away(slot);
    }

    fn may_start(&mut self) -> bool {
        let until = self.out.shared.live_until();
        self.started += 1;
        if self.started >= CLOCK_EVERY || self.out.watch {
            self.started = 0;
            return clock::now() < until;
        }
        until > Instant::ZERO
    }

    fn weigh(&mut self, id: &EntityId, message: &E::Message) -> Result<u32, Reason> {
        self.out.weigh(id, message)
    }

    fn can_transmit(&mut self, to: NodeKey) -> bool {
        self.out.can_transmit(to)
    }

    fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &E::Message) {
        self.out.transmit(to, head, id, body);
    }

    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>) {
        self.out.receipt(to, &receipt);
    }

    fn lookup(&mut self, shard: ShardId) {
        self.out.lookup(shard);
    }

    fn undelivered(&mut self, id: &EntityId, message: E::Message, fate: Fate) {
        self.out.undelivered(id, message, fate);
    }

    fn withdraw(&mut self, message: E::Message) {
        message.withdraw();
    }

    fn owned(&mut self, shard: ShardId, token: Token) {
        self.out.shard_gained(shard, token);
    }

    fn lost(&mut self, shard: ShardId) {
        self.tenures.remove(&shard);
        self.out.shard_lost(shard);
    }

    fn dropped(&mut self, shard: ShardId, token: Token) {
        self.out.dropped(shard, token);
    }

    fn loads(&mut self, loads: &[(ShardId, u32)]) {
        self.out.loads(loads);
    }

    fn halted(&mut self) {
        self.out.halted();
    }

    fn pool<R>(&mut self, look: impl FnOnce(&mut Pool) -> R) -> Option<R> {
        self.out.region.pool.as_ref().map(|pool| look(&mut lock(pool)))
    }

    fn notice(&mut self, notice: Notice) {
        self.out.notice(notice);
    }
}
