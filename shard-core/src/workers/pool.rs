//! Who of a pool's workers gets a message, who is made, and who goes.

use alloc::{collections::VecDeque, vec::Vec};
use core::fmt;

use super::{Controller, PoolConfig};
use crate::entity::{Bound, Reason, StopReason};
use crate::prng::Prng;

/// A worker of a pool, by the order of their making, from 1 on. No number comes twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerNumber(pub u64);

impl fmt::Display for WorkerNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The workers of one type on one node, and the messages that wait for them. See the [module](super).
///
/// ```text
///           place            started          finished, nothing waits
///   (made) ───────▶ Starting ────────▶ Busy ───────────────────────────▶ Idle ──▶ Stopping ──▶ (gone)
///                       │               ▲│ finished, something waits     │  look, close ▲
///                       │               └┘◀──── Called ◀─────────────────┘  place       │
///                       │ it fails       │                                              │
///                       └───▶ (gone)     ├─ it panics ──▶ (gone)         it asks to ────┘
/// ```
/// What waits for a worker that is gone goes to the others. Calls cost O(workers), which are few: `at_most` is about the number
/// of processors.
#[derive(Clone, Debug)]
pub struct Pool<M> {
    config: PoolConfig,
    /// In the order of their making, so by number.
    workers: Vec<Worker<M>>,
    made: u64,
    /// Messages in the queues of all workers. One in a hand does not wait.
    waiting: usize,
    controller: Option<Controller>,
    prng: Prng,
    /// A worker failed to start: until the next look no other is made beside those that are there.
    sore: bool,
    closed: bool,
}

#[derive(Clone, Debug)]
struct Worker<M> {
    number: WorkerNumber,
    phase: Phase,
    /// What it is to run next.
    hand: Option<M>,
    queue: VecDeque<M>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Its first hook runs. Its hand may be full.
    Starting,
    /// It runs nothing, nothing waits for it.
    Idle,
    /// Its hand is full, and it is being woken.
    Called,
    /// It runs a message.
    Busy,
    /// It is to stop, or its last hook runs. Messages wait for it only if there is no other, and go to whoever is made next.
    Stopping(StopReason),
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the host starts or wakes the worker"]
pub enum Placed {
    /// An idle worker has it: the host wakes that one.
    Wakes(WorkerNumber),
    /// A new worker has it: the host starts that one.
    Starts(WorkerNumber),
    /// It waits for this worker.
    Waits(WorkerNumber),
}

/// What a worker does next.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "the message is in here"]
pub enum Next<M> {
    /// It runs this message.
    Run(M),
    /// It waits until it is woken.
    Wait,
    /// Its last hook runs, and then it is [gone](Pool::gone).
    Stop(StopReason),
}

/// How a worker went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// Its last hook has run.
    Stopped,
    /// A handler panicked.
    Failed,
    /// It could not be made, or its first hook failed.
    NeverStarted,
}

/// Where the messages went that waited for a worker which is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "workers are to be started or woken, and messages refused"]
pub struct Scattered<M> {
    /// One for each that found another worker.
    pub placed: Vec<Placed>,
    /// The others have not run, and are to be refused with [`Reason::Unavailable`].
    pub refused: Vec<M>,
}

/// Who is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Workers, those that start or stop included.
    pub workers: usize,
    /// Those of them that run nothing.
    pub idle: usize,
    /// Messages that wait for a worker, without those that are in a worker's hand.
    pub waiting: usize,
}

impl<M> Pool<M> {
    /// An empty pool; `seed` decides which of several idle workers goes.
    #[must_use]
    pub fn new(config: PoolConfig, seed: u64) -> Self {
        let controller = config.removal.map(|removal| Controller::new(removal.idle_cycles));
        let (workers, prng) = (Vec::new(), Prng::new(seed));
        Self { config, workers, made: 0, waiting: 0, controller, prng, sore: false, closed: false }
    }

    /// How it is configured.
    #[must_use]
    pub const fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Who is there.
    #[must_use]
    pub fn census(&self) -> Census {
        let idle = self.workers.iter().filter(|worker| worker.phase == Phase::Idle).count();
        Census { workers: self.workers.len(), idle, waiting: self.waiting }
    }

    /// How many workers were ever made.
    #[must_use]
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// Whether nobody is there.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// Whether nothing is taken any more.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether another message would be taken, or refused for another reason than want of room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let at_once = || self.may_grow() || self.workers.iter().any(|worker| worker.phase == Phase::Idle);
        self.closed || self.waiting < self.config.waiting_max || at_once()
    }

    /// Takes a message: for the first idle worker in the order of their making; else, while there are fewer than `at_most`, for a
    /// new one; else for the one for which the fewest wait, the first of equals. Or gives it back.
    ///
    /// # Errors
    /// The message, and [`Reason::Stopping`] once the pool is closed, or [`Reason::Full`] with [`Bound::Workers`].
    pub fn offer(&mut self, message: M) -> Result<Placed, (M, Reason)> {
        if self.closed {
            return Err((message, Reason::Stopping));
        }
        if !self.has_room() {
            return Err((message, Reason::Full(Bound::Workers)));
        }
        let grow = self.may_grow();
        self.place(message, grow).map_err(|message| (message, Reason::Unavailable))
    }

    /// Takes a message for that very worker, whatever the bounds: one that it sent itself. Gives it back if that worker is gone or
    /// about to stop.
    ///
    /// # Errors
    /// The message.
    pub fn offer_to(&mut self, number: WorkerNumber, message: M) -> Result<Placed, M> {
        let Some(worker) = self.worker(number) else { return Err(message) };
        match worker.phase {
            Phase::Stopping(_) => Err(message),
            Phase::Idle => {
                (worker.phase, worker.hand) = (Phase::Called, Some(message));
                Ok(Placed::Wakes(number))
            }
            Phase::Starting | Phase::Called | Phase::Busy => {
                worker.queue.push_back(message);
                self.waiting += 1;
                Ok(Placed::Waits(number))
            }
        }
    }

    /// What a worker does next that was started, woken, or has finished a message. One that was woken for nothing waits on.
    pub fn next(&mut self, number: WorkerNumber) -> Next<M> {
        let closed = self.closed;
        let Some(worker) = self.worker(number) else { return Next::Stop(StopReason::Idle) };
        if let Phase::Stopping(why) = worker.phase {
            return Next::Stop(why);
        }
        if let Some(message) = worker.hand.take() {
            worker.phase = Phase::Busy;
            return Next::Run(message);
        }
        if let Some(message) = worker.queue.pop_front() {
            worker.phase = Phase::Busy;
            self.waiting -= 1;
            return Next::Run(message);
        }
        if closed {
            worker.phase = Phase::Stopping(StopReason::NodeLeaving);
            return Next::Stop(StopReason::NodeLeaving);
        }
        worker.phase = Phase::Idle;
        Next::Wait
    }

    /// A worker asked to end after the message that it has just run: what waits for it goes to others.
    pub fn leaves(&mut self, number: WorkerNumber, why: StopReason) -> Scattered<M> {
        let Some(worker) = self.worker(number) else { return Scattered::nothing() };
        worker.phase = Phase::Stopping(why);
        let mail = worker.take_all();
        self.waiting -= mail.1;
        self.scatter(mail.0, true)
    }

    /// A worker is gone: what waits for it goes to others. One that never started is not replaced for its messages' sake, or they
    /// might fail for ever: they go to those that are there, or are refused.
    pub fn gone(&mut self, number: WorkerNumber, how: Gone) -> Scattered<M> {
        let Ok(at) = self.workers.binary_search_by_key(&number, |worker| worker.number) else {
            return Scattered::nothing();
        };
        let mut worker = self.workers.remove(at);
        if let (true, Some(controller)) = (self.workers.is_empty(), &mut self.controller) {
            controller.forget();
        }
        let mail = worker.take_all();
        self.waiting -= mail.1;
        self.sore |= how == Gone::NeverStarted;
        self.scatter(mail.0, how != Gone::NeverStarted)
    }

    /// Looks who has been idle for too long, and says who is to be woken and told so. Due every
    /// [`LOOK_EVERY`](super::LOOK_EVERY), also where nobody is ever removed.
    pub fn look(&mut self) -> Option<WorkerNumber> {
        self.sore = false;
        let Some(controller) = &mut self.controller else { return None };
        controller.look(self.waiting as u64, self.workers.len() as u64);
        if !controller.is_due() {
            return None;
        }
        let idle = self.workers.iter().filter(|worker| worker.phase == Phase::Idle).count();
        if idle == 0 {
            return None;
        }
        let nth = self.prng.below(idle as u64) as usize;
        let worker = self.workers.iter_mut().filter(|worker| worker.phase == Phase::Idle).nth(nth)?;
        worker.phase = Phase::Stopping(StopReason::Idle);
        controller.removed(u32::try_from(idle).unwrap_or(u32::MAX));
        Some(worker.number)
    }

    /// Takes nothing any more. What was taken is still run, and each worker for which nothing waits is told to stop; those in the
    /// answer are to be woken.
    pub fn close(&mut self) -> Vec<WorkerNumber> {
        self.closed = true;
        self.workers.iter().filter(|worker| worker.phase == Phase::Idle).map(|worker| worker.number).collect()
    }

    /// Takes nothing any more and gives back all that no worker has begun, by worker and in order.
    pub fn abandon(&mut self) -> Vec<M> {
        self.closed = true;
        self.waiting = 0;
        self.workers.iter_mut().flat_map(|worker| worker.take_all().0).collect()
    }

    fn worker(&mut self, number: WorkerNumber) -> Option<&mut Worker<M>> {
        let at = self.workers.binary_search_by_key(&number, |worker| worker.number).ok()?;
        self.workers.get_mut(at)
    }

    fn may_grow(&self) -> bool {
        self.workers.is_empty() || (!self.sore && self.workers.len() < self.config.at_most.get() as usize)
    }

    fn place(&mut self, message: M, grow: bool) -> Result<Placed, M> {
        if let Some(worker) = self.workers.iter_mut().find(|worker| worker.phase == Phase::Idle) {
            (worker.phase, worker.hand) = (Phase::Called, Some(message));
            return Ok(Placed::Wakes(worker.number));
        }
        if grow {
            self.made += 1;
            let (number, phase) = (WorkerNumber(self.made), Phase::Starting);
            self.workers.push(Worker { number, phase, hand: Some(message), queue: VecDeque::new() });
            return Ok(Placed::Starts(number));
        }
        // The first of equals; one that stops only if there is no other.
        let rank = |worker: &&mut Worker<M>| (matches!(worker.phase, Phase::Stopping(_)), worker.queue.len());
        let Some(worker) = self.workers.iter_mut().min_by_key(rank) else { return Err(message) };
        worker.queue.push_back(message);
        self.waiting += 1;
        Ok(Placed::Waits(worker.number))
    }

    fn scatter(&mut self, mail: VecDeque<M>, grow: bool) -> Scattered<M> {
        let mut scattered = Scattered::nothing();
        for message in mail {
            let grow = grow && self.may_grow();
            match self.place(message, grow) {
                Ok(placed) => scattered.placed.push(placed),
                Err(message) => scattered.refused.push(message),
            }
        }
        scattered
    }
}

impl<M> Worker<M> {
    /// All that it has not begun, and how much of it waited.
    fn take_all(&mut self) -> (VecDeque<M>, usize) {
        let mut mail = core::mem::take(&mut self.queue);
        let waited = mail.len();
        if let Some(message) = self.hand.take() {
            mail.push_front(message);
        }
        (mail, waited)
    }
}

impl<M> Scattered<M> {
    const fn nothing() -> Self {
        Self { placed: Vec::new(), refused: Vec::new() }
    }
}
