//! The task that runs one lane.

use std::boxed::Box;
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use super::away::Back;
use super::clock;
use super::entity_host::{EntityHost, OVERRUN, Owed, Ran};
use super::events::Event;
use super::inbox::{ArrivalItem, LaneDoor, ReceiptItem, TellItem, Waiting};
use super::outgate::Outgate;
use super::runtime::{Runtime, yield_now};
use super::shared::{Running, count};
use crate::collections::EntityId;
use crate::entity::host::Cell;
use crate::entity::{Entity, Fate, Reason, Wire};
use crate::id::ShardId;
use crate::machine::Notice;
use crate::region::lane::{Arrival, Lane, LaneHost, Order, Tell};
use crate::time::{Duration, Instant};

/// The clock is read again after so many handlers.
pub(super) const CLOCK_EVERY: u32 = 16;
/// So many messages at a stretch; then other tasks of the worker get a turn.
const SLICE: usize = 256;
/// A lane that waits for a renewal of the session looks for it so often.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// After a run of handlers that took too long, the clock is read around each of so many.
const WATCHED: u32 = 256;

/// A sleep of the executor's.
type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a lane's loop needs of its host beyond the orders.
pub(super) trait Turns<M>: LaneHost<M> + Send {
    /// Runs a handler of an entity that the fast door found.
    fn turn(&mut self, slot: crate::id::Slot, message: M) -> Ran;
    /// Takes in what came back from the executor.
    fn collect(&mut self);
    /// What the lane is owed next.
    fn owed(&mut self) -> Option<Owed<M>>;
    /// The common part.
    fn out(&mut self) -> &mut Outgate<M>;
}

impl<E, F, Mk> Turns<E::Message> for EntityHost<E, F, Mk>
where
    E: Entity,
    E::Message: Wire,
    F: Future<Output = Box<Cell<E>>> + Send + 'static,
    Mk: Fn(Box<Cell<E>>, E::Message) -> F + Send,
{
    #[inline]
    fn turn(&mut self, slot: crate::id::Slot, message: E::Message) -> Ran {
        self.turn(slot, message)
    }

    fn collect(&mut self) {
        let backs: std::vec::Vec<Back<E, F>> = mem::take(&mut *super::shared::lock(&self.returns));
        for back in backs {
            self.came_back(back);
        }
    }

    fn owed(&mut self) -> Option<Owed<E::Message>> {
        self.owed.pop_front()
    }

    fn out(&mut self) -> &mut Outgate<E::Message> {
        &mut self.out
    }
}

/// One lane with its host.
pub(super) struct LaneTask<M, H> {
    core: Lane<M>,
    host: H,
    now: Instant,
    since_clock: u32,
    /// A run of handlers took too long: each one is measured until none did for a while.
    suspicious: u32,
    /// A handler ran since the clock was last read.
    ran: bool,
    live_until: Instant,
    /// Shards whose load callers must hear of.
    touched: BTreeSet<ShardId>,
    /// Messages in streams, as last published.
    kept: usize,
    /// Entities, as last published.
    awake: usize,
    /// Last, so that all else is dropped before the node hears that the lane has ended.
    _running: Running,
}

impl<M: Wire, H: Turns<M>> LaneTask<M, H> {
    pub(super) fn new(core: Lane<M>, mut host: H) -> Self {
        let running = Running::new(Arc::clone(&host.out().shared));
        Self {
            core,
            host,
            now: clock::now(),
            since_clock: 0,
            suspicious: 0,
            ran: false,
            live_until: Instant::ZERO,
            touched: BTreeSet::new(),
            kept: 0,
            awake: 0,
            _running: running,
        }
    }

    /// Runs until the node stops.
    pub(super) async fn run<R: Runtime>(mut self, runtime: R) {
        let region = Arc::clone(&self.host.out().region);
        let lane = self.host.out().lane as usize;
        let door = &region.lanes[lane];
        let mut batch = Waiting::default();
        let mut alarm: Option<(Instant, Sleep)> = None;
        loop {
            door.swap(&mut batch);
            self.come_back();
            self.host.collect();
            self.settle();
            let worked = !batch.is_empty();
            if !batch.tells.is_empty() {
                count(&self.host.out().shared.tallies.told, batch.tells.len() as u64);
            }
            self.work_off(door, &mut batch).await;
            if self.core.deadline().is_some_and(|at| at <= self.now) {
                self.core.expire(self.now, &mut self.host);
                self.settle();
            }
            self.core.flush(&mut self.host);
            self.publish(door);
            if self.host.out().shared.is_stopped() {
                return self.abandon(door);
            }
            if worked {
                self.look_at_the_clock();
                yield_now().await;
                continue;
            }
            // Nothing to do: wait for the bell or the next deadline. An alarm that is early enough serves again.
            let mut deadline = self.core.deadline();
            if self.core.is_stalled() {
                // A renewal is announced to lanes only if the session was about to end; this one may just have missed it.
                let look = self.now + LOOK_AGAIN;
                deadline = Some(deadline.map_or(look, |at| at.min(look)));
            }
            match (deadline, &alarm) {
                (Some(at), Some((set, _))) if *set <= at => {}
                (Some(at), _) => {
                    let span = at.since(self.now).max(Duration::from_millis(1));
                    alarm = Some((at, Box::pin(runtime.sleep(span))));
                }
                (None, _) => {}
            }
            let mut bell = std::pin::pin!(door.bell.wait());
            poll_fn(|cx| {
                if bell.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                let rung = alarm.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(cx).is_ready());
                if rung {
                    alarm = None;
                    return Poll::Ready(());
                }
                Poll::Pending
            })
            .await;
        }
    }

    /// Works off all that was taken, mail in slices: however long a batch is, what owners say (it makes room and completes
    /// asks) and what control orders waits behind one slice at most.
    async fn work_off(&mut self, door: &LaneDoor<M>, batch: &mut Waiting<M>) {
        self.obey(batch);
        let mut urgent = Waiting::default();
        let Waiting { arrivals, tells, .. } = batch;
        let (mut arrivals, mut tells) = (arrivals.drain(..), tells.drain(..));
        loop {
            for item in arrivals.by_ref().take(SLICE) {
                self.arrival(item);
            }
            for item in tells.by_ref().take(SLICE) {
                self.tell(item);
            }
            if arrivals.len() == 0 && tells.len() == 0 {
                return;
            }
            self.core.flush(&mut self.host);
            self.look_at_the_clock();
            yield_now().await;
            self.come_back();
            door.swap_urgent(&mut urgent);
            self.obey(&mut urgent);
            self.host.collect();
            self.settle();
            if self.core.deadline().is_some_and(|at| at <= self.now) {
                self.core.expire(self.now, &mut self.host);
                self.settle();
            }
        }
    }

    /// What owners say first, then what control orders.
    fn obey(&mut self, batch: &mut Waiting<M>) {
        for receipt in batch.receipts.drain(..) {
            self.receipt(receipt);
        }
        for order in batch.orders.drain(..) {
            if let Order::Home { shard, .. } = order {
                self.touched.insert(shard);
            }
            self.core.order(self.now, order, &mut self.host);
            self.settle();
        }
    }

    fn tell(&mut self, item: TellItem<M>) {
        self.tick();
        let TellItem { id, hash, shard, message, deadline } = item;
        if let Some(slot) = self.core.locate(self.now, shard, hash, id.as_str()) {
            return self.run_now(slot, message);
        }
        let ask = message.is_ask();
        self.touched.insert(shard);
        let tell = Tell { id: id.as_str(), hash, shard, message, ask, deadline };
        self.core.tell(self.now, tell, &mut self.host);
        self.settle();
    }

    fn arrival(&mut self, item: ArrivalItem<M>) {
        self.tick();
        let ArrivalItem { from, shard, token, attempt, seq, first, id, hash, body } = item;
        let arrival = Arrival { from, shard, token, attempt, seq, first, id: id.as_str(), hash, body };
        self.core.arrive(self.now, arrival, &mut self.host);
        self.settle();
    }

    fn run_now(&mut self, slot: crate::id::Slot, message: M) {
        match self.host.turn(slot, message) {
            Ran::Stays => {}
            Ran::Waits => self.core.busy(slot),
            Ran::Wants(next) => {
                self.core.finished(self.now, slot, next, &mut self.host);
                self.settle();
            }
        }
    }

    fn receipt(&mut self, receipt: ReceiptItem) {
        let (now, host) = (self.now, &mut self.host);
        let shard = match receipt {
            ReceiptItem::Taken { from, shard, token, upto } => {
                self.core.taken(now, from, shard, token, upto, host);
                shard
            }
            ReceiptItem::Closed { from, shard, token, upto, beyond } => {
                self.core.closed(now, from, shard, token, upto, &beyond, host);
                shard
            }
            ReceiptItem::Refuse { from, shard, token, attempt, draining, hint } => {
                self.core.refused(now, from, shard, token, attempt, draining, hint, host);
                shard
            }
            ReceiptItem::Rejected { from, shard, seq, reason } => {
                self.core.rejected(from, shard, seq, reason, host);
                shard
            }
            ReceiptItem::Reply { from, shard, seq, answer } => {
                if let Some(message) = self.core.replied(from, shard, seq) {
                    message.complete(answer.as_deref().ok_or(crate::entity::NoReply::Ended));
                }
                shard
            }
        };
        self.touched.insert(shard);
        self.settle();
    }

    /// Does what the lane is owed until it is owed nothing.
    fn settle(&mut self) {
        while let Some(owed) = self.host.owed() {
            match owed {
                Owed::Started(slot, ready) => {
                    self.tick();
                    self.core.started(self.now, slot, ready, &mut self.host);
                }
                Owed::Finished(slot, next) => {
                    self.tick();
                    self.core.finished(self.now, slot, next, &mut self.host);
                }
                Owed::Stopped(slot) => {
                    self.tick();
                    self.core.stopped(self.now, slot, &mut self.host);
                }
                Owed::Schedule(slot, at, message) => {
                    if !self.core.schedule(self.now, slot, at.since(self.now), message) {
                        self.host.notice(Notice::BoundHit { what: "timers of a lane's entities" });
                    }
                }
                Owed::Weighs(slot, weight) => self.core.weighed(self.now, slot, weight, &mut self.host),
                Owed::Pins(slot, pinned) => self.core.pin(self.now, slot, pinned, &mut self.host),
                Owed::Failed(slot, why) => {
                    let id = self.core.id(slot).cloned().unwrap_or_else(|| EntityId::from(""));
                    let out = self.host.out();
                    out.shared.emit(Event::EntityFailed { entity_type: out.region.name, id, why });
                }
            }
        }
    }

    /// The node stops: whatever runs is dropped, whatever is kept gets its last fate, and whatever still comes is refused.
    fn abandon(&mut self, door: &LaneDoor<M>) {
        // The door first: what comes in after the last look behind it would lie there for ever.
        door.close(Reason::Stopping);
        self.core.abandon(self.now, &mut self.host);
        self.settle();
        let mut rest = Waiting::default();
        door.swap(&mut rest);
        count(&self.host.out().shared.tallies.told, rest.tells.len() as u64);
        for item in rest.tells {
            self.host.undelivered(&item.id, item.message, Fate::NotRun(Reason::Stopping));
        }
        self.host.out().settle_counts();
    }

    /// Before every handler: has the session ended? Every 16 handlers, or every one while they are slow: what time is it?
    /// (Where one call into the core starts many, [`LaneHost::may_start`] does the same between them.)
    #[inline]
    fn tick(&mut self) {
        self.since_clock += 1;
        self.ran = true;
        if self.since_clock >= CLOCK_EVERY || self.suspicious > 0 {
            self.since_clock = 0;
            self.look_at_the_clock();
        } else if self.host.out().shared.live_until() != self.live_until {
            self.look_at_the_session();
        }
    }

    /// After a wait or a turn of other tasks: that time is nobody's handler's.
    fn come_back(&mut self) {
        self.now = clock::now();
        self.since_clock = 0;
        self.ran = false;
        self.look_at_the_session();
    }

    fn look_at_the_clock(&mut self) {
        let before = mem::replace(&mut self.now, clock::now());
        if self.ran && self.now.since(before) > OVERRUN {
            self.suspicious = WATCHED;
        }
        self.ran = false;
        self.suspicious = self.suspicious.saturating_sub(1);
        self.host.out().watch = self.suspicious > 0;
        self.look_at_the_session();
    }

    fn look_at_the_session(&mut self) {
        let until = self.host.out().shared.live_until();
        if until != self.live_until {
            self.live_until = until;
            self.core.order(self.now, Order::Live { until }, &mut self.host);
        }
    }

    /// Tells callers how much is kept for the shards that changed.
    fn publish(&mut self, door: &LaneDoor<M>) {
        let out = self.host.out();
        out.settle_counts();
        self.touched.extend(out.changed.drain(..));
        let awake = self.core.residents();
        if awake != self.awake {
            out.shared.wake(self.awake, awake);
            self.awake = awake;
        }
        if self.touched.is_empty() {
            return;
        }
        let lanes = self.core.config().lanes.get();
        let mut loads = std::vec::Vec::with_capacity(self.touched.len());
        let before = self.kept;
        for shard in mem::take(&mut self.touched) {
            let kept = u32::try_from(self.core.unsettled(shard)).unwrap_or(u32::MAX);
            let link_full = match self.core.route(shard) {
                Some(node) if kept > 0 => self.host.out().peer(node).is_full(),
                _ => false,
            };
            if kept > 0 {
                // Looked at again after the next batch, so that room is noticed.
                self.touched.insert(shard);
            }
            loads.push(((shard.0 / lanes) as usize, kept, link_full));
        }
        // A shard that keeps something stays among the touched, so this is all of them.
        self.kept = loads.iter().map(|(_, kept, _)| *kept as usize).sum();
        self.host.out().shared.keep(before, self.kept);
        door.publish(loads);
    }
}
