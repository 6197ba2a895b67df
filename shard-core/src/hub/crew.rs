//! The workers of one type on one node: a task each, and one that keeps the time for all.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::string::String;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};
use std::vec::Vec;

use super::bell::Bell;
use super::clock;
use super::entity_host::Factory;
use super::events::Event;
use super::runtime::{Runtime, race};
use super::shared::{Running, Shared, count, lock};
use super::shift::{Shift, id_of};
use super::workers::WorkersReport;
use crate::entity::host::Tenure;
use crate::entity::{Alarm, Clock, Entity, EntityId, Fate, Protocol, Reason, Route, StopReason};
use crate::id::{ShardId, Token};
use crate::machine::Notice;
use crate::time::{Duration, Instant, soonest};
use crate::workers::{Gone, LOOK_EVERY, Next, Placed, Pool, PoolConfig, Scattered, WorkerNumber};

/// Messages that the workers of one type may have scheduled.
const TIMERS_MAX: usize = 65_536;

/// A crew, as the node sees it.
pub(super) trait AnyCrew: Send + Sync {
    /// The type's name.
    fn name(&self) -> &'static str;
    /// Takes nothing any more; what was taken is run, and then the workers go.
    fn close(&self);
    /// Whether it is closed and nobody is there.
    fn is_gone(&self) -> bool;
    /// How it stands.
    fn report(&self) -> WorkersReport;
}

/// The workers of one type on this node.
pub(super) struct Crew<E: Entity> {
    me: Weak<Self>,
    pub(super) shared: Arc<Shared>,
    pub(super) factory: Factory<E>,
    pub(super) tenure: Arc<Tenure>,
    roster: Mutex<Roster<E::Message>>,
    /// Rings for the keeper.
    bell: Bell,
    pub(super) handled: AtomicU64,
    failed: AtomicU64,
}

struct Roster<M> {
    pool: Pool<Item<M>>,
    bells: BTreeMap<WorkerNumber, Arc<Bell>>,
    /// Callers who wait for room.
    callers: Vec<Waker>,
    /// What workers scheduled for themselves.
    timers: BTreeMap<(Instant, u64), (WorkerNumber, M)>,
    scheduled: u64,
}

/// A message on its way.
pub(super) struct Item<M> {
    pub(super) message: M,
    /// When its asker stops waiting.
    pub(super) deadline: Option<Instant>,
}

/// What is to be done once the roster is unlocked.
enum Duty {
    Ring(Arc<Bell>),
    Start(WorkerNumber, Arc<Bell>),
}

impl<M> Roster<M> {
    fn duty(&mut self, placed: Placed) -> Option<Duty> {
        match placed {
            Placed::Wakes(number) => self.bells.get(&number).cloned().map(Duty::Ring),
            Placed::Starts(number) => {
                let bell = Arc::new(Bell::default());
                self.bells.insert(number, Arc::clone(&bell));
                Some(Duty::Start(number, bell))
            }
            Placed::Waits(_) => None,
        }
    }

    /// Those to be told that there is room.
    fn room(&mut self) -> Vec<Waker> {
        if !self.callers.is_empty() && self.pool.has_room() { std::mem::take(&mut self.callers) } else { Vec::new() }
    }
}

impl<E: Entity> Crew<E> {
    pub(super) fn new(shared: Arc<Shared>, factory: Factory<E>, config: PoolConfig, seed: u64) -> Arc<Self> {
        let services = Arc::clone(&shared) as Arc<_>;
        let tenure = Arc::new(Tenure::new(E::Message::TYPE_NAME, ShardId(0), Token::default(), services));
        let roster = Roster {
            pool: Pool::new(config, seed),
            bells: BTreeMap::new(),
            callers: Vec::new(),
            timers: BTreeMap::new(),
            scheduled: 0,
        };
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            shared,
            factory,
            tenure,
            roster: Mutex::new(roster),
            bell: Bell::default(),
            handled: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    fn perform(&self, duties: impl IntoIterator<Item = Duty>) {
        for duty in duties {
            match duty {
                Duty::Ring(bell) => bell.ring(),
                Duty::Start(number, bell) => {
                    let Some(crew) = self.me.upgrade() else { return };
                    self.shared.spawn(Box::pin(Shift::new(crew, number, bell).run()));
                    // If it is the first, looks begin.
                    self.bell.ring();
                }
            }
        }
    }

    pub(super) fn next(&self, number: WorkerNumber) -> Next<Item<E::Message>> {
        let (next, callers) = {
            let mut roster = lock(&self.roster);
            (roster.pool.next(number), roster.room())
        };
        callers.into_iter().for_each(Waker::wake);
        next
    }

    pub(super) fn leaves(&self, number: WorkerNumber, why: StopReason) {
        self.scatter(|roster| roster.pool.leaves(number, why));
    }

    pub(super) fn gone(&self, number: WorkerNumber, how: Gone) {
        let mut unsent = BTreeMap::new();
        self.scatter(|roster| {
            roster.bells.remove(&number);
            let timers = std::mem::take(&mut roster.timers);
            (unsent, roster.timers) = timers.into_iter().partition(|(_, (of, _))| *of == number);
            roster.pool.gone(number, how)
        });
        // A message is the user's, and dropping it may send others: never while the roster is locked.
        throw_away(unsent);
        self.bell.ring();
    }

    /// What waited for a worker goes to others.
    fn scatter(&self, change: impl FnOnce(&mut Roster<E::Message>) -> Scattered<Item<E::Message>>) {
        let (duties, refused, callers) = {
            let mut roster = lock(&self.roster);
            let Scattered { placed, refused } = change(&mut roster);
            let duties: Vec<Duty> = placed.into_iter().filter_map(|placed| roster.duty(placed)).collect();
            (duties, refused, roster.room())
        };
        callers.into_iter().for_each(Waker::wake);
        self.perform(duties);
        let reason = if self.shared.is_stopped() { Reason::Stopping } else { Reason::Unavailable };
        refused.into_iter().for_each(|item| self.undelivered(item, reason));
    }

    /// A message that was taken has not run: its asker hears why, or whoever listens to the node's events.
    pub(super) fn undelivered(&self, item: Item<E::Message>, reason: Reason) {
        count(&self.shared.tallies.not_run, 1);
        let tag = item.message.tag();
        if item.message.is_ask() {
            return unharmed(|| item.message.refuse(reason));
        }
        throw_away(item);
        let (entity_type, id) = (E::Message::TYPE_NAME, EntityId::from("any worker"));
        self.shared.emit(Event::Undelivered { entity_type, id, tag, fate: Fate::NotRun(reason) });
    }

    pub(super) fn failed(&self, number: WorkerNumber, why: String) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let (entity_type, id) = (E::Message::TYPE_NAME, id_of(number));
        self.shared.emit(Event::EntityFailed { entity_type, id, why });
    }

    pub(super) fn schedule(&self, number: WorkerNumber, messages: Vec<(Instant, E::Message)>) {
        if messages.is_empty() {
            return;
        }
        let mut messages = messages.into_iter();
        {
            let mut roster = lock(&self.roster);
            let room = TIMERS_MAX.saturating_sub(roster.timers.len());
            for (at, message) in messages.by_ref().take(room) {
                roster.scheduled += 1;
                let key = (at, roster.scheduled);
                roster.timers.insert(key, (number, message));
            }
        }
        if messages.len() > 0 {
            self.shared.emit(Event::Notice(Notice::BoundHit { what: "timers of a pool's workers" }));
            throw_away(messages);
        }
        self.bell.ring();
    }

    /// Keeps the time for all, until the crew is gone or the node has stopped.
    pub(super) async fn keep<R: Runtime>(self: Arc<Self>, runtime: R, running: Running) {
        let _running = running;
        let mut look_at = None;
        loop {
            if self.shared.is_stopped() {
                return self.abandon();
            }
            let now = clock::now();
            let next = self.rounds(now, &mut look_at);
            if self.is_gone() {
                return;
            }
            match next {
                Some(at) => {
                    let span = at.since(now).max(Duration::from_millis(1));
                    race(self.bell.wait(), runtime.sleep(span)).await;
                }
                None => self.bell.wait().await,
            }
        }
    }

    /// Hands out what is due, and looks who has been idle for too long. When it is to be called again.
    fn rounds(&self, now: Instant, look_at: &mut Option<Instant>) -> Option<Instant> {
        let (mut duties, mut late) = (Vec::new(), Vec::new());
        let next = {
            let mut roster = lock(&self.roster);
            while let Some(entry) = roster.timers.first_entry() {
                if entry.key().0 > now {
                    break;
                }
                let (number, message) = entry.remove();
                match roster.pool.offer_to(number, Item { message, deadline: None }) {
                    Ok(placed) => duties.extend(roster.duty(placed)),
                    // Who stops has no use for it.
                    Err(item) => late.push(item),
                }
            }
            if roster.pool.is_empty() {
                *look_at = None;
            } else {
                let at = look_at.get_or_insert(now + LOOK_EVERY);
                if *at <= now {
                    *at = now + LOOK_EVERY;
                    let picked = roster.pool.look();
                    duties.extend(picked.and_then(|number| roster.bells.get(&number).cloned()).map(Duty::Ring));
                }
            }
            soonest(*look_at, roster.timers.first_key_value().map(|((at, _), _)| *at))
        };
        throw_away(late);
        self.perform(duties);
        next
    }

    /// The node stops: what runs is dropped, and what nobody has begun is refused.
    fn abandon(&self) {
        let (items, timers, bells, callers) = {
            let mut roster = lock(&self.roster);
            let bells: Vec<Arc<Bell>> = roster.bells.values().cloned().collect();
            let (timers, callers) = (std::mem::take(&mut roster.timers), std::mem::take(&mut roster.callers));
            (roster.pool.abandon(), timers, bells, callers)
        };
        throw_away(timers);
        bells.iter().for_each(|bell| bell.ring());
        callers.into_iter().for_each(Waker::wake);
        items.into_iter().for_each(|item| self.undelivered(item, Reason::Stopping));
    }
}

impl<E: Entity> AnyCrew for Crew<E> {
    fn name(&self) -> &'static str {
        E::Message::TYPE_NAME
    }

    fn close(&self) {
        let (bells, callers) = {
            let mut roster = lock(&self.roster);
            let idle = roster.pool.close();
            let bells: Vec<Arc<Bell>> = idle.iter().filter_map(|number| roster.bells.get(number).cloned()).collect();
            (bells, std::mem::take(&mut roster.callers))
        };
        bells.iter().for_each(|bell| bell.ring());
        callers.into_iter().for_each(Waker::wake);
        self.bell.ring();
    }

    fn is_gone(&self) -> bool {
        let roster = lock(&self.roster);
        roster.pool.is_closed() && roster.pool.is_empty()
    }

    fn report(&self) -> WorkersReport {
        let (census, at_most, made) = {
            let roster = lock(&self.roster);
            (roster.pool.census(), roster.pool.config().at_most.get(), roster.pool.made())
        };
        WorkersReport {
            entity_type: E::Message::TYPE_NAME,
            at_most,
            workers: census.workers,
            idle: census.idle,
            waiting: census.waiting,
            handled: self.handled.load(Ordering::Relaxed),
            made,
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

impl<E: Entity> Clock for Crew<E> {
    fn now(&self) -> Instant {
        self.shared.now()
    }

    fn wake_at(&self, at: Instant, waker: &Waker) -> Alarm {
        self.shared.wake_at(at, waker)
    }

    fn forget(&self, alarm: Alarm) {
        self.shared.forget(alarm);
    }
}

/// Ids say nothing here: whoever is free has the message.
impl<E: Entity> Route<E::Message> for Crew<E> {
    fn send(&self, _: &str, message: E::Message, deadline: Option<Instant>) -> Result<(), (E::Message, Reason)> {
        let duty = {
            let mut roster = lock(&self.roster);
            match roster.pool.offer(Item { message, deadline }) {
                Ok(placed) => roster.duty(placed),
                Err((item, reason)) => return Err((item.message, reason)),
            }
        };
        count(&self.shared.tallies.told, 1);
        self.perform(duty);
        Ok(())
    }

    fn poll_ready(&self, _: &str, waker: &Waker) -> Poll<()> {
        let mut roster = lock(&self.roster);
        if roster.pool.has_room() {
            return Poll::Ready(());
        }
        if !roster.callers.iter().any(|known| known.will_wake(waker)) {
            roster.callers.push(waker.clone());
        }
        Poll::Pending
    }
}

/// Does what runs destructors of the user's: a panic in one must take down neither a worker nor the keeper.
fn unharmed(act: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(act));
}

fn throw_away<T>(users: T) {
    unharmed(move || drop(users));
}
