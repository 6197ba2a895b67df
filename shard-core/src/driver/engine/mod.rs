//! Our entities on a loop of your own.
//!
//! Reading order: this page (what the loop calls), `outside` (what the loop supplies), `cast` (cells, turns and hooks),
//! `stage` (the recycled places that futures stand in).

mod cast;
mod outside;
mod stage;

use alloc::sync::Arc;
use core::fmt;
use core::num::NonZeroU32;
use core::task::Waker;

pub use outside::{Alone, Outside};

use self::cast::{Cast, Owed, Ran};
use super::{Driver, Post, Seat, TypeConfig};
use crate::entity::{Entity, Fate, Guard, Identity, Protocol, Reason, Refused, Services};
use crate::id::{Kind, NodeKey, ShardKey, Slot};
use crate::node::{ConfigError, NodeConfig};
use crate::region::lane::{DataHead, Next, Receipt};
use crate::time::Instant;
use crate::wire::Control;

/// The clock is read again after so many turns that began from waiting mail.
const CLOCK_EVERY: u32 = 16;
/// How often one [`Engine::run`] does what has become due meanwhile, before it lets the loop breathe.
const ROUNDS: u32 = 16;

/// One entity type of one node on one thread: a [`Driver`], the entities' cells, and the turns that wait.
///
/// Handlers run inside [`tell`](Self::tell) and [`run`](Self::run), as far as they go without waiting; those that wait are
/// polled again when their waker has brought their slot back to `run`. A turn that does not wait allocates nothing.
///
/// The loop: take an event (mail, a wake, a frame, the deadline), hand it in, call `run`, sleep until the instant that it
/// returns. `examples/custom_runtime` is that loop in full.
pub struct Engine<E: Entity, O> {
    driver: Driver<E::Message>,
    kind: Kind,
    cast: Cast<E, O>,
}

impl<E: Entity, O: Outside<E::Message>> Engine<E, O> {
    /// A node that has just started and hosts entities made by `make`. Call [`run`](Self::run) next.
    ///
    /// `guard` decides what a panic costs: [`CatchUnwind`](crate::entity::CatchUnwind) one entity its state,
    /// [`Unguarded`](crate::entity::Unguarded) the program its life. `services` is the loop's clock and register.
    ///
    /// # Errors
    /// The configuration is not safe.
    pub fn new(
        node: NodeConfig,
        entities: TypeConfig,
        make: impl Fn(&Identity) -> E + Send + Sync + 'static,
        guard: impl Guard + Sync,
        services: Arc<dyn Services>,
        outside: O,
    ) -> Result<Self, ConfigError> {
        let now = services.now();
        let mut cast = Cast::new(entities.name, make, guard, services, outside);
        let mut driver = Driver::new(now, node)?;
        let kind = driver.register(now, TypeConfig { lanes: NonZeroU32::MIN, ..entities }, &mut cast)?;
        Ok(Self { driver, kind, cast })
    }

    /// Takes a message of a caller on this node. If its entity is awake and free here, the handler starts at once. What
    /// cannot be delivered is refused to its asker, or goes to [`Outside::undelivered`]. `deadline` is when the asker stops
    /// waiting. Call [`run`](Self::run) before the loop sleeps.
    pub fn tell(&mut self, id: &str, message: E::Message, deadline: Option<Instant>) {
        let now = self.cast.now();
        if let Some(seat) = self.driver.locate(now, self.kind, id) {
            match self.cast.turn(seat.slot, message) {
                Ran::Stays => {}
                Ran::Waits => self.driver.busy(seat),
                Ran::Wants(next) => self.driver.finished(now, seat, next, &mut self.cast),
            }
        } else {
            let post = Post { id, ask: message.is_ask(), message, deadline };
            if let Err(Refused { message, reason }) = self.driver.tell(now, self.kind, post, &mut self.cast) {
                self.cast.give_up(&id.into(), message, Fate::NotRun(reason));
            }
        }
        self.settle(now);
    }

    /// Goes on: polls the turn that `woken` names, gives waiting turns a waker made by `waker`, does what is due. Returns
    /// when to call it again at the latest.
    ///
    /// A waker may be woken on any thread; it must bring its slot back here as `woken`, which may happen late or twice.
    pub fn run(&mut self, woken: Option<Slot>, waker: impl Fn(Slot) -> Waker) -> Option<Instant> {
        if let Some(slot) = woken {
            self.cast.go_on(slot, &waker(slot));
        }
        for _ in 0..ROUNDS {
            let now = self.cast.now();
            self.settle(now);
            if let Some(slot) = self.cast.next_unheard() {
                // Its first poll had a waker that wakes nobody.
                self.cast.go_on(slot, &waker(slot));
                while let Some(slot) = self.cast.next_unheard() {
                    self.cast.go_on(slot, &waker(slot));
                }
                continue;
            }
            if self.driver.deadline().is_none_or(|at| at > now) {
                break;
            }
            self.driver.expire(now, &mut self.cast);
        }
        let now = self.cast.now();
        self.settle(now);
        self.driver.flush(&mut self.cast);
        if self.cast.has_unheard() { Some(now) } else { self.driver.deadline() }
    }

    /// What the wall clock shows, in milliseconds, said at every wake before anything else: the node notices by it that its
    /// machine was frozen. Optional, and pointless for a node that is alone.
    pub fn look(&mut self, wall: u64) {
        let now = self.cast.now();
        self.driver.look(now, wall, &mut self.cast);
        self.settle(now);
    }

    /// A control frame came from `from`, for the life `to` of this node.
    pub fn receive(&mut self, from: NodeKey, to: NodeKey, message: Control) {
        let now = self.cast.now();
        self.driver.receive(now, from, to, message, &mut self.cast);
        self.settle(now);
    }

    /// A message came that `from` sent with [`Outside::transmit`].
    pub fn arrive(&mut self, from: NodeKey, head: DataHead, id: &str, body: Result<E::Message, Reason>) {
        let now = self.cast.now();
        self.driver.arrive(now, from, head, id, body, &mut self.cast);
        self.settle(now);
    }

    /// A receipt came that `from` sent with [`Outside::receipt`].
    pub fn receipt(&mut self, from: NodeKey, receipt: Receipt<'_>) {
        let now = self.cast.now();
        self.driver.receipt(now, from, receipt, &mut self.cast);
        self.settle(now);
    }

    /// The owner `from` answered an ask: here is the question, to be completed with
    /// [`Wire::complete`](crate::entity::Wire::complete).
    #[must_use = "its asker waits"]
    pub fn replied(&mut self, from: NodeKey, key: ShardKey, seq: u64) -> Option<E::Message> {
        let now = self.cast.now();
        let question = self.driver.replied(now, from, key, seq, &mut self.cast);
        self.settle(now);
        question
    }

    /// The link to that process is up or down.
    pub fn link(&mut self, node: NodeKey, up: bool) {
        let now = self.cast.now();
        self.driver.link(now, node, up, &mut self.cast);
        self.settle(now);
    }

    /// Leaves the cluster: entities stop, shards go to other nodes, then [`Event::Farewell`](super::Event::Farewell).
    pub fn leave(&mut self) {
        let now = self.cast.now();
        self.driver.leave(now, &mut self.cast);
        self.settle(now);
    }

    /// Until when this node's session lasts: what its [`Services`] say to entities. [`Instant::ZERO`]: it has none.
    #[must_use]
    pub fn session_until(&self) -> Instant {
        self.driver.node().session().valid_until().unwrap_or(Instant::ZERO)
    }

    /// The driver, to look at.
    #[must_use]
    pub fn driver(&self) -> &Driver<E::Message> {
        &self.driver
    }

    /// The outside.
    pub fn outside(&mut self) -> &mut O {
        &mut self.cast.outside
    }

    /// Tells the driver what became of its orders until it is told everything.
    fn settle(&mut self, mut now: Instant) {
        let mut since_clock = 0;
        let kind = self.kind;
        let seat = |slot| Seat { kind, lane: 0, slot };
        while let Some(owed) = self.cast.next_owed() {
            match owed {
                Owed::Started(slot, ready) => self.driver.started(now, seat(slot), ready, &mut self.cast),
                Owed::Finished(slot, next) => {
                    since_clock += 1;
                    if since_clock >= CLOCK_EVERY {
                        since_clock = 0;
                        now = self.cast.now();
                        if self.driver.node().deadline().is_some_and(|at| at <= now) {
                            // The session may be over: what waits must not start.
                            self.driver.expire(now, &mut self.cast);
                        }
                    }
                    self.driver.finished(now, seat(slot), next, &mut self.cast);
                }
                Owed::Stopped(slot) => self.driver.stopped(now, seat(slot), &mut self.cast),
                Owed::Schedule(slot, at, message) => {
                    let _ = self.driver.schedule(now, seat(slot), at.since(now), message);
                }
                Owed::Weighs(slot, weight) => self.driver.weighed(now, seat(slot), weight, &mut self.cast),
                Owed::Pins(slot, pinned) => self.driver.pin(now, seat(slot), pinned, &mut self.cast),
                Owed::Failed(slot, why, then) => {
                    if let Some(id) = self.driver.id(seat(slot)) {
                        self.cast.outside.failed(id, &why);
                    }
                    match then {
                        cast::After::Start => self.driver.started(now, seat(slot), false, &mut self.cast),
                        cast::After::Turn => self.driver.finished(now, seat(slot), Next::Failed, &mut self.cast),
                        cast::After::Stop => self.driver.stopped(now, seat(slot), &mut self.cast),
                    }
                }
            }
        }
    }
}

impl<E: Entity, O> fmt::Debug for Engine<E, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("kind", &E::Message::TYPE_NAME).finish_non_exhaustive()
    }
}
