//! Fair queuing over shuffle-sharded queues: a machine that lets requests through, so many seats at a time.
//!
//! Every request belongs to a flow, whose hash deals it a hand of queues; it waits in the one with the least waiting.
//! Queues take turns by virtual time (Nagle 1987; Demers, Keshav and Shenker 1989; in the form that Kubernetes' API Priority
//! and Fairness gave it): the queue whose head would be done first, had all queues been served evenly, is next. So a flow
//! that floods fills its own queues and waits, and a flow in a queue without floods hardly notices.
//!
//! ```text
//!             chosen queue full                    head of the next queue, seats free
//!   Arrived -------------------> Reject   waiting -----------------------------------> Execute
//!      |                                     ^  |                                         | Finished
//!      +-------------------------------------+  | Withdrawn                               v
//!                                               +--> (gone)        lingers for `extra` with `final_seats`, then gone
//! ```
//!
//! Four hazards of the original are designed out: queues keep their numbers when there are fewer of them (only trailing
//! ones that hold neither requests nor seats go), seats that linger count as being there, every queue is bounded, and a
//! configuration is checked whole before any of it is applied.

mod config;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque, btree_map};
use alloc::vec::Vec;

pub use config::{FairConfig, FairConfigError};

use super::dealer::Dealer;
use super::queue::{QueueChooser, Waiting, Work};
use crate::machine::{Machine, Outbox};
use crate::time::{Duration, Instant, nanos};

/// A request that wants to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FairRequest {
    /// The caller's name for it; unique among those that wait or run.
    pub id: u64,
    /// The hash of its flow: [`FlowKey::hash`](super::FlowKey::hash).
    pub flow: u64,
    /// Seats it takes while it runs; 0 counts as 1.
    pub seats: u32,
    /// Seats that stay taken for `extra` after it has finished, such as for notifications it set off.
    pub final_seats: u32,
    /// How long they stay taken.
    pub extra: Duration,
    /// It goes on with something that was let in before, so a full queue does not turn it away.
    pub again: bool,
}

impl FairRequest {
    /// A request of one seat that leaves nothing behind.
    #[must_use]
    pub const fn new(id: u64, flow: u64) -> Self {
        Self { id, flow, seats: 1, final_seats: 0, extra: Duration::ZERO, again: false }
    }

    const fn initial(&self) -> u32 {
        if self.seats == 0 { 1 } else { self.seats }
    }

    /// The most seats it takes at any time.
    fn width(&self) -> u32 {
        if self.extra.is_zero() { self.initial() } else { self.initial().max(self.final_seats) }
    }

    fn work(&self, guess: Duration) -> Work {
        Work::of_request(self.initial(), guess, self.final_seats, self.extra)
    }
}

/// The right to run, to be given back when the request ends, **however it ends**: by its result, by a panic, or because its
/// caller went away. One that is lost keeps its seats taken. It cannot be copied, so none is given back twice.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "seats stay taken until it is given back with `FairInput::Finished`"]
pub struct Permit {
    id: u64,
}

impl Permit {
    /// The request.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }
}

/// What a [`FairQueues`] hears.
#[derive(PartialEq, Eq, Debug)]
pub enum FairInput {
    /// A request wants to run.
    Arrived(FairRequest),
    /// A request ended.
    Finished(Permit),
    /// Whoever made the request wants it no more; nothing happens unless it waits.
    Withdrawn(u64),
    /// From now on, another configuration. Waiting requests stay where they are; queues beyond a smaller number take no
    /// more, and go when they are empty.
    Configured(FairConfig),
}

/// What a [`FairQueues`] orders.
#[derive(PartialEq, Eq, Debug)]
pub enum FairOutput {
    /// Run it, and give the permit back.
    Execute(Permit),
    /// Turn it away: its flow has as much waiting as it may. It has not run.
    Reject(u64),
}

/// One queue, as an inspection shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueView {
    /// Its number, which it keeps.
    pub queue: u32,
    /// What waits.
    pub waiting: Waiting,
    /// Requests that run.
    pub executing: u32,
    /// Seats taken, those that linger included.
    pub seats: u32,
}

/// The set: see the module's page. Everything is bounded by the configuration, but for the requests that run, which the
/// seats bound, and those that come [again](FairRequest::again), which whoever sends them must bound.
#[derive(Clone, Debug)]
pub struct FairQueues {
    config: FairConfig,
    dealer: Option<Dealer>,
    chooser: QueueChooser,
    queues: Vec<Queue>,
    /// Where each waiting request is.
    waiting: BTreeMap<u64, u32>,
    executing: BTreeMap<u64, Executing>,
    /// Seats that linger, by the time they come free.
    lingering: BTreeMap<(Instant, u64), Lingering>,
    lingered: u64,
    seats_in_use: u32,
    /// Seats taken by each flow that has any.
    flows: BTreeMap<u64, u32>,
    /// Seats that requests wait for.
    seats_waiting: u64,
    /// The queue that was last served.
    last: usize,
    virtual_time: Virtual,
    clock: Instant,
}

/// Virtual time, and work on its scale: units of [`Work`] times 2^32, in 128 bits, which never run out.
type Virtual = i128;

const SCALE: u32 = 32;

fn scaled(work: Work) -> Virtual {
    Virtual::from(work.0) << SCALE
}

#[derive(Clone, Debug, Default)]
struct Queue {
    requests: VecDeque<Queued>,
    work: Work,
    executing: u32,
    seats: u32,
    next_dispatch: Virtual,
}

impl Queue {
    /// Neither requests nor seats: only then may it go (kubernetes #140884).
    fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.executing == 0 && self.seats == 0
    }
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    request: FairRequest,
    /// What it was counted for when it came: a new configuration must not unbalance the sums.
    work: Work,
    arrived: Virtual,
}

#[derive(Clone, Copy, Debug)]
struct Executing {
    queue: Option<u32>,
    request: FairRequest,
    /// How long it was guessed to run.
    guess: Duration,
    began: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Lingering {
    queue: Option<u32>,
    flow: u64,
    seats: u32,
}

impl FairQueues {
    /// A set in which nothing waits.
    #[must_use]
    pub fn new(config: FairConfig) -> Self {
        let mut set = Self {
            config,
            dealer: None,
            chooser: QueueChooser::new(config.measure),
            queues: Vec::new(),
            waiting: BTreeMap::new(),
            executing: BTreeMap::new(),
            lingering: BTreeMap::new(),
            lingered: 0,
            seats_in_use: 0,
            flows: BTreeMap::new(),
            seats_waiting: 0,
            last: 0,
            virtual_time: 0,
            clock: Instant::ZERO,
        };
        set.configure(config);
        set
    }

    /// Every queue, in the order of their numbers.
    pub fn queues(&self) -> impl ExactSizeIterator<Item = QueueView> {
        self.queues.iter().enumerate().map(|(at, queue)| QueueView {
            queue: at as u32,
            waiting: Waiting { requests: queue.requests.len() as u32, work: queue.work },
            executing: queue.executing,
            seats: queue.seats,
        })
    }

    /// Seats taken, those that linger included.
    #[must_use]
    pub const fn seats_in_use(&self) -> u32 {
        self.seats_in_use
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many requests run.
    #[must_use]
    pub fn executing(&self) -> usize {
        self.executing.len()
    }

    fn configure(&mut self, config: FairConfig) {
        if config.measure != self.config.measure {
            self.chooser = QueueChooser::new(config.measure);
        }
        self.config = config;
        self.dealer = config.cards.and_then(|(queues, hand)| Dealer::new(queues, hand).ok());
        self.queues.resize_with(self.queues.len().max(config.queues()), Queue::default);
        self.drop_surplus();
    }

    /// Surplus queues go from the end, so that no other changes its number.
    fn drop_surplus(&mut self) {
        while self.queues.len() > self.config.queues() && self.queues.last().is_some_and(Queue::is_idle) {
            self.queues.pop();
        }
    }

    /// Moves virtual time on: by the seats at work, shared by the queues that have any.
    fn advance(&mut self, now: Instant) {
        let passed = nanos(now.since(self.clock));
        self.clock = self.clock.max(now);
        if passed == 0 {
            return;
        }
        let active = self.queues.iter().filter(|queue| !queue.requests.is_empty() || queue.executing > 0).count();
        let wanted =
            u64::from(self.seats_in_use).saturating_add(self.seats_waiting).min(u64::from(self.config.seats_max));
        if active > 0 {
            // Ten nanoseconds of one seat are one unit of work.
            let work = (u128::from(passed) * u128::from(wanted)) << SCALE;
            self.virtual_time += (work / (10 * active as u128)) as Virtual;
        }
    }

    fn arrive(&mut self, request: FairRequest, out: &mut (impl Outbox<FairOutput> + ?Sized)) {
        let known = self.executing.contains_key(&request.id) || self.waiting.contains_key(&request.id);
        assert!(!known, "request {} is here already: ids are unique", request.id);
        let Some(dealer) = &self.dealer else {
            if self.fits(&request) {
                self.execute(None, request, out);
            } else {
                out.emit(FairOutput::Reject(request.id));
            }
            return;
        };
        let hand = dealer.deal(request.flow);
        let queues = &self.queues;
        let view = |card: u32| {
            let queue = &queues[card as usize];
            Waiting { requests: queue.requests.len() as u32, work: queue.work }
        };
        let chosen = self.chooser.choose(&hand, view).expect("a hand has a card");
        let queue = &mut self.queues[chosen as usize];
        // Whatever could be let through has been, so a full queue means that nothing more fits.
        if queue.requests.len() >= self.config.queue_length_max as usize && !request.again {
            return out.emit(FairOutput::Reject(request.id));
        }
        if queue.requests.is_empty() && queue.executing == 0 {
            // It was idle: what it did not use then is no credit now, and what it owed is paid.
            queue.next_dispatch = self.virtual_time;
        }
        let work = request.work(self.config.guess);
        queue.requests.push_back(Queued { request, work, arrived: self.virtual_time });
        queue.work.0 = queue.work.0.saturating_add(work.0);
        self.seats_waiting += u64::from(request.width());
        self.waiting.insert(request.id, chosen);
    }

    /// Whether there are seats for it. One wider than all seats runs when nothing else does.
    fn fits(&self, request: &FairRequest) -> bool {
        let width = request.width();
        if width > self.config.seats_max {
            self.seats_in_use == 0
        } else {
            self.seats_in_use.saturating_add(width) <= self.config.seats_max
        }
    }

    /// Whether its flow may have seats for it, under the bound of one flow; alike for one wider than that.
    fn fits_flow(&self, request: &FairRequest) -> bool {
        let most = self.config.flow_seats_max;
        let held = if most == u32::MAX { 0 } else { self.flows.get(&request.flow).copied().unwrap_or(0) };
        held == 0 || held.saturating_add(request.width()) <= most
    }

    /// The head of a queue: the first of its requests that its own flow's bound does not hold back. Those that it does are
    /// passed by, for what waits behind them is not theirs.
    fn head(&self, queue: &Queue) -> Option<(usize, Queued)> {
        queue.requests.iter().copied().enumerate().find(|(_, queued)| self.fits_flow(&queued.request))
    }

    /// Lets through whatever fits, in turn. A head for which there are no seats is waited for: passing by it would starve it.
    fn dispatch(&mut self, out: &mut (impl Outbox<FairOutput> + ?Sized)) {
        while let Some((at, place, head)) = self.next_head() {
            if !self.fits(&head.request) {
                return;
            }
            self.last = at;
            let queue = &mut self.queues[at];
            queue.requests.remove(place);
            queue.work.0 = if queue.requests.is_empty() { 0 } else { queue.work.0.saturating_sub(head.work.0) };
            queue.next_dispatch += scaled(head.work);
            self.seats_waiting -= u64::from(head.request.width());
            self.waiting.remove(&head.request.id);
            self.execute(Some(at as u32), head.request, out);
        }
    }

    /// The queue whose head would be done first, of equals the first after the one last served; and that head and its place.
    fn next_head(&mut self) -> Option<(usize, usize, Queued)> {
        let queues = self.queues.len();
        let mut best = None;
        for at in (1..=queues).map(|step| (self.last + step) % queues) {
            let Some((place, head)) = self.head(&self.queues[at]) else { continue };
            let queue = &mut self.queues[at];
            // No credit for the time before its head came (kubernetes #95979).
            queue.next_dispatch = queue.next_dispatch.max(head.arrived);
            let done = queue.next_dispatch + scaled(head.work);
            if best.is_none_or(|(_, least)| done < least) {
                best = Some(((at, place, head), done));
            }
        }
        best.map(|(head, _)| head)
    }

    fn execute(&mut self, queue: Option<u32>, request: FairRequest, out: &mut (impl Outbox<FairOutput> + ?Sized)) {
        let (guess, began) = (self.config.guess, self.clock);
        self.executing.insert(request.id, Executing { queue, request, guess, began });
        self.take_seats(queue, request.flow, request.width());
        if let Some(queue) = queue.and_then(|at| self.queues.get_mut(at as usize)) {
            queue.executing += 1;
        }
        out.emit(FairOutput::Execute(Permit { id: request.id }));
    }

    fn take_seats(&mut self, queue: Option<u32>, flow: u64, seats: u32) {
        self.seats_in_use += seats;
        *self.flows.entry(flow).or_insert(0) += seats;
        if let Some(queue) = queue.and_then(|at| self.queues.get_mut(at as usize)) {
            queue.seats += seats;
        }
    }

    fn free_seats(&mut self, queue: Option<u32>, flow: u64, seats: u32) {
        self.seats_in_use -= seats;
        if let btree_map::Entry::Occupied(mut held) = self.flows.entry(flow) {
            *held.get_mut() -= seats;
            if *held.get() == 0 {
                held.remove();
            }
        }
        if let Some(queue) = queue.and_then(|at| self.queues.get_mut(at as usize)) {
            queue.seats -= seats;
        }
    }

    fn finish(&mut self, now: Instant, permit: Permit) {
        // A permit of another set names nothing here.
        let Some(Executing { queue, request, guess, began }) = self.executing.remove(&permit.id) else { return };
        self.free_seats(queue, request.flow, request.width());
        if let Some(queue) = queue.and_then(|at| self.queues.get_mut(at as usize)) {
            queue.executing -= 1;
            // It was charged for the guess; it owes what it took.
            let took = Work::of(request.initial(), now.since(began));
            queue.next_dispatch += scaled(took) - scaled(Work::of(request.initial(), guess));
        }
        if request.final_seats > 0 && !request.extra.is_zero() {
            self.take_seats(queue, request.flow, request.final_seats);
            self.lingered += 1;
            let lingering = Lingering { queue, flow: request.flow, seats: request.final_seats };
            self.lingering.insert((now + request.extra, self.lingered), lingering);
        }
    }

    fn withdraw(&mut self, id: u64) {
        let Some(at) = self.waiting.remove(&id) else { return };
        let queue = &mut self.queues[at as usize];
        let Some(place) = queue.requests.iter().position(|queued| queued.request.id == id) else { return };
        if let Some(queued) = queue.requests.remove(place) {
            queue.work.0 = if queue.requests.is_empty() { 0 } else { queue.work.0.saturating_sub(queued.work.0) };
            self.seats_waiting -= u64::from(queued.request.width());
        }
    }

    /// Frees what has lingered long enough, each at its own time, so that virtual time counts it no longer.
    fn stop_lingering(&mut self, now: Instant) {
        while let Some(first) = self.lingering.first_entry() {
            let due = first.key().0;
            if due > now {
                return;
            }
            let Lingering { queue, flow, seats } = first.remove();
            self.advance(due);
            self.free_seats(queue, flow, seats);
        }
    }
}

impl Machine for FairQueues {
    type Input = FairInput;
    type Output = FairOutput;

    /// O(queues) for each request let through, and O(queues + log n) besides; O(queues x length) at worst where the seats of a
    /// flow are bounded.
    fn handle(&mut self, now: Instant, input: FairInput, out: &mut (impl Outbox<FairOutput> + ?Sized)) {
        self.expire(now, out);
        self.advance(now);
        match input {
            FairInput::Arrived(request) => self.arrive(request, out),
            FairInput::Finished(permit) => self.finish(now, permit),
            FairInput::Withdrawn(id) => self.withdraw(id),
            FairInput::Configured(config) => self.configure(config),
        }
        self.dispatch(out);
        self.drop_surplus();
    }

    fn expire(&mut self, now: Instant, out: &mut (impl Outbox<FairOutput> + ?Sized)) {
        if self.deadline().is_some_and(|due| due <= now) {
            self.stop_lingering(now);
            self.advance(now);
            self.dispatch(out);
            self.drop_surplus();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.lingering.first_key_value().map(|((due, _), _)| *due)
    }
}
