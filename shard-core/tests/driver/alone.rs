//! An engine with no peers.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Cx, Poll, Wake, Waker};

use shard_core::driver::{Alone, Driver, Engine, Event, Host, Outside, Post, Seat, TypeConfig};
use shard_core::entity::{Accepts, Alarm, AskFailure, CatchUnwind, Clock, Fate, Services};
use shard_core::id::{Incarnation, Kind, NodeId, NodeKey, Slot};
use shard_core::node::{NodeConfig, Peer};
use shard_core::passivation::{Passivation, PolicyChoice};
use shard_core::prelude::*;
use shard_core::region::lane::{DataHead, Life, Receipt};
use shard_core::time::Instant;
use shard_core::wire::Control;

pub(crate) struct Add(u32);
pub(crate) struct WhichLife;
pub(crate) struct Hold;
pub(crate) struct Break;
pub(crate) struct Sleep;
pub(crate) struct Again;
pub(crate) struct Remind(u64);
pub(crate) struct Keep;
messages! {
    pub(crate) enum PotMessage as "pot" {
        Add -> u32, WhichLife -> u64, Hold -> (), Break -> (), Sleep -> (), Again -> (), Remind -> (), Keep -> (),
    }
}

/// A gate that handlers wait at.
#[derive(Default)]
struct Gate(Mutex<(bool, Vec<Waker>)>);

impl Gate {
    fn open(&self) {
        let mut gate = self.0.lock().unwrap();
        gate.0 = true;
        gate.1.drain(..).for_each(Waker::wake);
    }

    async fn pass(&self) {
        std::future::poll_fn(|cx: &mut Cx<'_>| {
            let mut gate = self.0.lock().unwrap();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

struct Pot {
    sum: u32,
    gate: Arc<Gate>,
    stops: Arc<Mutex<Vec<(String, StopReason)>>>,
    kept: Vec<ReplyTo<()>>,
}

impl Entity for Pot {
    type Message = PotMessage;
    async fn started(&mut self, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        if ctx.id().as_str() == "slow" {
            self.gate.pass().await;
        }
        Ok(())
    }
    async fn stopping(&mut self, why: StopReason, ctx: &mut Context<'_, Self>) {
        self.stops.lock().unwrap().push((ctx.id().to_string(), why));
        if ctx.id().as_str() == "lingers" {
            self.gate.pass().await;
        }
    }
}
impl Handle<Add> for Pot {
    async fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) -> u32 {
        self.sum += n;
        self.sum
    }
}
impl Handle<WhichLife> for Pot {
    async fn handle(&mut self, _: WhichLife, ctx: &mut Context<'_, Self>) -> u64 {
        ctx.identity().activation()
    }
}
impl Handle<Hold> for Pot {
    async fn handle(&mut self, _: Hold, _: &mut Context<'_, Self>) {
        self.gate.pass().await;
    }
}
impl Handle<Break> for Pot {
    async fn handle(&mut self, _: Break, _: &mut Context<'_, Self>) {
        panic!("as asked");
    }
}
impl Handle<Sleep> for Pot {
    async fn handle(&mut self, _: Sleep, ctx: &mut Context<'_, Self>) {
        ctx.passivate_with(Add(1_000));
    }
}
impl Handle<Again> for Pot {
    async fn handle(&mut self, _: Again, ctx: &mut Context<'_, Self>) {
        ctx.restart("spoilt");
    }
}
impl Handle<Remind> for Pot {
    async fn handle(&mut self, Remind(millis): Remind, ctx: &mut Context<'_, Self>) {
        ctx.schedule(Duration::from_millis(millis), Add(100));
    }
}
impl HandleDeferred<Keep> for Pot {
    async fn handle_deferred(&mut self, _: Keep, reply: ReplyTo<()>, _: &mut Context<'_, Self>) {
        self.kept.push(reply);
    }
}

/// The test's clock.
#[derive(Default)]
struct Time(AtomicU64);

impl Clock for Time {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
    fn wake_at(&self, _: Instant, _: &Waker) -> Alarm {
        Alarm::NONE
    }
}
impl Services for Time {
    fn session_until(&self) -> Instant {
        Instant::NEVER
    }
    fn registered(&self, _: &str) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

/// What the outside saw.
#[derive(Default)]
struct Seen {
    events: Vec<Event>,
    failed: Vec<(String, String)>,
    undelivered: Vec<(String, Fate)>,
}

impl Outside<PotMessage> for Seen {
    fn weigh(&mut self, _: &PotMessage) -> Result<u32, Reason> {
        Ok(0)
    }
    fn control(&mut self, to: Peer, message: Control) {
        panic!("alone, yet {message:?} for {to:?}");
    }
    fn transmit(&mut self, to: NodeKey, _: DataHead, _: &EntityId, _: &PotMessage) {
        panic!("alone, yet mail for {to:?}");
    }
    fn receipt(&mut self, to: NodeKey, _: Receipt<'_>) {
        panic!("alone, yet a receipt for {to:?}");
    }
    fn reach(&mut self, _: NodeKey, _: String) {}
    fn gone(&mut self, _: NodeKey) {}
    fn wall(&mut self) -> u64 {
        1_000
    }
    fn undelivered(&mut self, id: &EntityId, _: PotMessage, fate: Fate) {
        self.undelivered.push((id.to_string(), fate));
    }
    fn failed(&mut self, id: &EntityId, why: &str) {
        self.failed.push((id.to_string(), why.to_string()));
    }
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Wakes put their slot here.
type Woken = Arc<Mutex<Vec<Slot>>>;

struct Bell(Woken, Slot);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().push(self.1);
    }
}

/// The engine, its world, and the loop that the test turns by hand.
struct Bench {
    engine: Engine<Pot, Seen>,
    time: Arc<Time>,
    gate: Arc<Gate>,
    stops: Arc<Mutex<Vec<(String, StopReason)>>>,
    woken: Woken,
}

type Answer<R> = futures_channel::oneshot::Receiver<Result<R, AskFailure>>;

impl Bench {
    fn new(passivation: Passivation) -> Self {
        let (time, gate, stops) = (Arc::new(Time::default()), Arc::<Gate>::default(), Arc::<Mutex<_>>::default());
        let me = NodeKey { id: NodeId(7), incarnation: Incarnation(9) };
        let make = {
            let (gate, stops) = (gate.clone(), Arc::clone(&stops));
            move |_: &Identity| Pot { sum: 0, gate: gate.clone(), stops: Arc::clone(&stops), kept: Vec::new() }
        };
        let entities = TypeConfig { passivation, ..TypeConfig::of::<PotMessage>() };
        let engine = Engine::new(NodeConfig::alone(me), entities, make, CatchUnwind, time.clone(), Seen::default())
            .expect("the configuration is safe");
        let mut bench = Self { engine, time, gate, stops, woken: Woken::default() };
        bench.run();
        bench
    }

    /// Turns the loop until nothing is due or woken.
    fn run(&mut self) {
        loop {
            let woken = self.woken.lock().unwrap().pop();
            let bell = self.woken.clone();
            let next = self.engine.run(woken, |slot| Arc::new(Bell(bell.clone(), slot)).into());
            if self.woken.lock().unwrap().is_empty() && next.is_none_or(|at| at > self.time.now()) {
                return;
            }
        }
    }

    /// Lets time pass in steps of 10 ms.
    fn pass(&mut self, span: Duration) {
        for _ in 0..span.as_millis() / 10 {
            self.time.0.fetch_add(10_000_000, Ordering::Relaxed);
            self.run();
        }
    }

    fn ask<Q>(&mut self, id: &str, question: Q) -> Answer<<PotMessage as Accepts<Q>>::Reply>
    where
        PotMessage: Accepts<Q>,
    {
        let (reply, answer) = ReplyTo::here();
        self.engine.tell(id, Accepts::wrap(question, reply), None);
        self.run();
        answer
    }

    #[track_caller]
    fn get<Q>(&mut self, id: &str, question: Q) -> <PotMessage as Accepts<Q>>::Reply
    where
        PotMessage: Accepts<Q>,
    {
        match self.ask(id, question).try_recv() {
            Ok(Some(Ok(answer))) => answer,
            Ok(Some(Err(failure))) => panic!("{failure:?}"),
            Ok(None) => panic!("no answer yet"),
            Err(_) => panic!("the question was dropped"),
        }
    }
}

#[test]
fn a_node_alone_starts_at_once() {
    let mut bench = Bench::new(Passivation::never());
    assert_eq!(bench.time.now(), Instant::ZERO);
    assert_eq!(bench.get("a", Add(2)), 2);
    assert!(bench.engine.outside().events.contains(&Event::Joined));
    assert!(bench.engine.session_until() > Instant::ZERO);
}

#[test]
fn the_session_of_a_node_alone_never_lapses_while_its_loop_runs() {
    let mut bench = Bench::new(Passivation::never());
    for second in 1..=60 {
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.get("a", Add(1)), second);
    }
    assert!(!bench.engine.outside().events.contains(&Event::Lapsed));
}

#[test]
fn a_suspended_machine_wakes_without_its_entities_and_goes_on() {
    let mut bench = Bench::new(Passivation::never());
    assert_eq!(bench.get("a", Add(1)), 1);
    bench.time.0.fetch_add(3_600_000_000_000, Ordering::Relaxed);
    let mut answer = bench.ask("a", Add(1));
    bench.pass(Duration::from_secs(2));
    assert!(bench.engine.outside().events.contains(&Event::Lapsed));
    assert_eq!(answer.try_recv(), Ok(Some(Ok(1))), "the former life ended with its session");
}

#[test]
fn a_handler_that_waits_delays_nobody_but_its_own_entity() {
    let mut bench = Bench::new(Passivation::never());
    let mut held = bench.ask("a", Hold);
    let mut behind = bench.ask("a", Add(1));
    assert_eq!(bench.get("b", Add(5)), 5);
    assert!(held.try_recv().unwrap().is_none() && behind.try_recv().unwrap().is_none());
    bench.gate.open();
    bench.run();
    assert_eq!(held.try_recv(), Ok(Some(Ok(()))));
    assert_eq!(behind.try_recv(), Ok(Some(Ok(1))));
}

#[test]
fn mail_waits_for_a_slow_start_in_order() {
    let mut bench = Bench::new(Passivation::never());
    let mut first = bench.ask("slow", Add(1));
    let mut second = bench.ask("slow", Add(10));
    assert!(first.try_recv().unwrap().is_none());
    bench.gate.open();
    bench.run();
    assert_eq!((first.try_recv(), second.try_recv()), (Ok(Some(Ok(1))), Ok(Some(Ok(11)))));
}

#[test]
fn a_panic_costs_one_entity_its_state_and_its_asker_an_answer() {
    let mut bench = Bench::new(Passivation::never());
    assert_eq!((bench.get("a", Add(1)), bench.get("b", Add(1))), (1, 1));
    let mut broken = bench.ask("a", Break);
    assert!(broken.try_recv().is_err(), "the question went down with the handler");
    let mut next = bench.ask("a", WhichLife);
    assert_eq!(bench.get("b", Add(1)), 2);
    bench.pass(Duration::from_millis(200));
    let life = next.try_recv().unwrap().expect("a fresh incarnation answers").unwrap();
    assert!(life > 1);
    let failed = &bench.engine.outside().failed;
    assert_eq!(failed.len(), 1);
    assert!(failed[0].0 == "a" && failed[0].1.ends_with("as asked"), "{failed:?}");
}

#[test]
fn an_entity_that_asks_for_a_restart_runs_its_last_hook_and_is_made_anew() {
    let mut bench = Bench::new(Passivation::never());
    bench.get("a", Add(1));
    bench.get("a", Again);
    let mut next = bench.ask("a", Add(1));
    bench.pass(Duration::from_millis(200));
    assert_eq!(next.try_recv(), Ok(Some(Ok(1))));
    assert_eq!(*bench.stops.lock().unwrap(), [("a".into(), StopReason::Failed)]);
    assert_eq!(bench.engine.outside().failed, [("a".into(), "spoilt".into())]);
}

#[test]
fn the_idle_fall_asleep_and_wake_fresh() {
    let mut bench = Bench::new(Passivation::after(Duration::from_secs(1)));
    assert_eq!(bench.get("a", Add(1)), 1);
    bench.pass(Duration::from_millis(900));
    assert_eq!(bench.get("a", Add(1)), 2);
    bench.pass(Duration::from_millis(1_000));
    assert_eq!(*bench.stops.lock().unwrap(), [("a".into(), StopReason::Idle)]);
    assert_eq!(bench.get("a", Add(1)), 1);
}

#[test]
fn mail_for_a_stopping_entity_is_answered_by_its_next_life() {
    let mut bench = Bench::new(Passivation::never());
    bench.get("lingers", Sleep);
    let mut answer = bench.ask("lingers", Add(1));
    assert!(answer.try_recv().unwrap().is_none(), "the last hook waits");
    bench.gate.open();
    bench.run();
    assert_eq!(answer.try_recv(), Ok(Some(Ok(1))));
    assert_eq!(*bench.stops.lock().unwrap(), [("lingers".into(), StopReason::Asked)]);
}

#[test]
fn the_least_recently_used_goes_when_there_are_too_many() {
    let mut bench = Bench::new(Passivation::at_most(2).choosing(PolicyChoice::Lru));
    for id in ["a", "b", "a", "c"] {
        bench.get(id, Add(1));
    }
    assert_eq!(*bench.stops.lock().unwrap(), [("b".into(), StopReason::Evicted)]);
    assert_eq!(bench.get("a", Add(1)), 3);
}

#[test]
fn what_an_entity_schedules_comes_at_its_time() {
    let mut bench = Bench::new(Passivation::never());
    bench.get("a", Remind(500));
    bench.pass(Duration::from_millis(490));
    assert_eq!(bench.get("a", Add(0)), 0);
    bench.pass(Duration::from_millis(10));
    assert_eq!(bench.get("a", Add(0)), 100);
}

#[test]
fn leaving_stops_every_entity_and_ends_what_it_kept() {
    let mut bench = Bench::new(Passivation::never());
    let mut kept = bench.ask("a", Keep);
    bench.get("b", Add(1));
    bench.engine.leave();
    bench.pass(Duration::from_secs(2));
    assert!(bench.engine.outside().events.contains(&Event::Farewell));
    assert!(bench.engine.driver().has_left());
    let mut stops = bench.stops.lock().unwrap().clone();
    stops.sort();
    assert_eq!(stops, [("a".into(), StopReason::NodeLeaving), ("b".into(), StopReason::NodeLeaving)]);
    assert!(kept.try_recv().is_err());
    let mut late = bench.ask("a", Add(1));
    assert_eq!(late.try_recv(), Ok(Some(Err(AskFailure::Undelivered(Reason::Stopping)))));
}

#[test]
fn a_drain_that_a_handler_holds_up_is_forced_at_its_deadline() {
    let mut bench = Bench::new(Passivation::never());
    let mut held = bench.ask("a", Hold);
    bench.engine.leave();
    bench.pass(Duration::from_secs(4));
    assert!(!bench.engine.driver().has_left(), "the handler has five seconds");
    bench.pass(Duration::from_secs(3));
    assert!(bench.engine.driver().has_left());
    assert!(held.try_recv().is_err(), "its future was dropped");
}

/// A host without entities: orders are noted, nothing is answered.
#[derive(Default)]
struct Notes(Vec<(Seat, &'static str)>);

impl Host<u8> for Notes {
    fn start(&mut self, seat: Seat, _: Life) {
        self.0.push((seat, "start"));
    }
    fn run(&mut self, seat: Seat, _: u8) {
        self.0.push((seat, "run"));
    }
    fn stop(&mut self, seat: Seat, _: StopReason) {
        self.0.push((seat, "stop"));
    }
    fn cancel(&mut self, seat: Seat) {
        self.0.push((seat, "cancel"));
    }
    fn discard(&mut self, seat: Seat) {
        self.0.push((seat, "discard"));
    }
    fn weigh(&mut self, _: Kind, _: &u8) -> Result<u32, Reason> {
        Ok(1)
    }
    fn control(&mut self, _: Peer, _: Control) {}
    fn transmit(&mut self, _: NodeKey, _: DataHead, _: &EntityId, _: &u8) {}
    fn receipt(&mut self, _: NodeKey, _: Receipt<'_>) {}
    fn reach(&mut self, _: NodeKey, _: String) {}
    fn gone(&mut self, _: NodeKey) {}
    fn undelivered(&mut self, _: Kind, _: &EntityId, _: u8, _: Fate) {}
    fn wall(&mut self) -> u64 {
        0
    }
    fn event(&mut self, _: Event) {}
}

#[test]
fn a_driver_asks_nothing_of_its_messages_and_says_where_they_go() {
    let me = NodeKey { id: NodeId(1), incarnation: Incarnation(1) };
    let (mut host, now) = (Notes::default(), Instant::from_millis(5));
    let mut driver = Driver::new(now, NodeConfig::alone(me)).unwrap();
    let lanes = std::num::NonZeroU32::new(4).unwrap();
    let kind = driver.register(now, TypeConfig { lanes, ..TypeConfig::new("note") }, &mut host).unwrap();
    assert!(driver.register(now, TypeConfig::new("note"), &mut host).is_err());
    while driver.deadline().is_some_and(|at| at <= now) {
        driver.expire(now, &mut host);
    }
    let post = |id| Post { id, message: 1, ask: false, deadline: None };
    driver.tell(now, kind, post("a"), &mut host).unwrap();
    while driver.deadline().is_some_and(|at| at <= now) {
        driver.expire(now, &mut host);
    }
    let shard = shard_core::hash::ShardHash::default().shard("a", std::num::NonZeroU32::new(64).unwrap());
    let explained = driver.explain(now, shard_core::id::ShardKey { kind, shard }).expect("it reigns");
    assert_eq!(explained.tenure.map(|held| held.owner), Some(me.id), "{explained}");
    driver.measured(now, shard_core::allocation::Stats::default(), &mut host);
    let (seat, order) = host.0[0];
    assert_eq!(order, "start");
    assert_eq!(driver.locate(now, kind, "a"), None, "it has not started");
    driver.started(now, seat, true, &mut host);
    assert_eq!(host.0[1..], [(seat, "run")]);
    driver.finished(now, seat, shard_core::region::lane::Next::Stay, &mut host);
    assert_eq!(driver.locate(now, kind, "a"), Some(seat));
    assert_eq!(driver.id(seat).map(ToString::to_string).as_deref(), Some("a"));
    driver.busy(seat);
    assert_eq!(driver.locate(now, kind, "a"), None);
    let refused = driver.tell(now, Kind(3), post("a"), &mut host).unwrap_err();
    assert_eq!(refused.reason, Reason::NoSuchType);
}

#[test]
fn the_ready_made_outside_is_enough_for_one_node() {
    let me = NodeKey { id: NodeId(1), incarnation: Incarnation(1) };
    let make = |_: &Identity| Pot { sum: 0, gate: Arc::default(), stops: Arc::default(), kept: Vec::new() };
    let entities = TypeConfig::of::<PotMessage>();
    let time = Arc::new(Time::default());
    let mut engine = Engine::new(NodeConfig::alone(me), entities, make, CatchUnwind, time, Alone::default()).unwrap();
    engine.run(None, |_| Waker::noop().clone());
    let (reply, mut answer) = ReplyTo::here();
    engine.tell("a", Accepts::wrap(Add(3), reply), None);
    engine.run(None, |_| Waker::noop().clone());
    assert_eq!(answer.try_recv(), Ok(Some(Ok(3))));
}
