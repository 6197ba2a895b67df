//! An entity type that is guarded by tenant, on real nodes: who floods, hangs, hogs or panics takes its own seats only, and
//! what waits for its turn is never lost.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapter_tokio::{Event, EventStream, Node};
use serde::{Deserialize, Serialize};
use shard_core::entity::{AskError, Bound, Fate, Reason};
use shard_core::id::NodeId;
use shard_core::prelude::*;
use shard_core::shuffle::{Dealer, FairConfig, FlowKey, Guard};

/// Is handled after so many milliseconds.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Note(u64, u64);
/// Never ends.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Hang;
/// Holds its thread until the test lets go.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Hog;
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Panic;
messages! {
    enum DeskMessage as "desk" { 1 => Note -> u64, 2 => Hang -> (), 3 => Hog -> (), 4 => Panic -> () }
}

/// What handlers wrote, over all nodes: entity and number.
type Log = Arc<Mutex<Vec<(String, u64)>>>;

struct Desk {
    log: Log,
    free: Arc<AtomicBool>,
}
impl Entity for Desk {
    type Message = DeskMessage;
}
impl Handle<Note> for Desk {
    async fn handle(&mut self, Note(number, millis): Note, ctx: &mut Context<'_, Self>) -> u64 {
        if millis > 0 {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        self.log.lock().unwrap().push((ctx.id().to_string(), number));
        number
    }
}
impl Handle<Hang> for Desk {
    async fn handle(&mut self, _: Hang, _: &mut Context<'_, Self>) {
        std::future::pending::<()>().await;
    }
}
impl Handle<Hog> for Desk {
    async fn handle(&mut self, _: Hog, _: &mut Context<'_, Self>) {
        while !self.free.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
impl Handle<Panic> for Desk {
    async fn handle(&mut self, _: Panic, _: &mut Context<'_, Self>) {
        panic!("as asked");
    }
}

const KEY: FlowKey = FlowKey::new(0x5eed);

/// The tenant of `acme/desk-7` is `acme`.
fn guard(fair: FairConfig) -> Guard {
    Guard::by_tenant(fair, KEY, |id| id.split('/').next().unwrap_or(id))
}

/// 64 queues of five, hands of four, four seats for each: a tenant runs four handlers and has twenty messages waiting.
fn strict() -> FairConfig {
    FairConfig::new(64, 4, 5, 64).and_then(|fair| fair.seats_per_flow(4)).expect("legal")
}

async fn within<T>(seconds: u64, what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), future).await.unwrap_or_else(|_| panic!("{what}: not in time"))
}

/// Tenants that share some queues with the elephant, but not all.
fn mice() -> Vec<String> {
    let dealer = Dealer::new(64, 4).unwrap();
    let elephant = dealer.deal(KEY.tenant("elephant"));
    let shared = |name: &String| dealer.deal(KEY.tenant(name)).iter().filter(|card| elephant.contains(card)).count();
    (0..).map(|n| format!("mouse-{n}")).filter(|name| (1..4).contains(&shared(name))).take(20).collect()
}

async fn alone(fair: FairConfig) -> (Node, Entities<DeskMessage>, Arc<AtomicBool>) {
    let node = Node::builder("guard").start().await.unwrap();
    let (log, free) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let made = Arc::clone(&free);
    let desk = move |_: &_| Desk { log: Arc::clone(&log), free: Arc::clone(&made) };
    let desks = node.sharding::<Desk>().shards(16).guard(guard(fair)).start_with(desk).await.unwrap();
    (node, desks, free)
}

async fn mice_are_served(desks: &Entities<DeskMessage>) {
    for mouse in mice() {
        for number in 0..3 {
            let answer = within(5, "a mouse", desks.ask(format!("{mouse}/{number}"), Note(number, 1))).await;
            assert_eq!(answer, Ok(number), "{mouse}");
        }
    }
}

/// So many tells of that tag that were turned back for their tenant's sake.
async fn turned_back(events: &mut EventStream, tag: u16, many: usize) {
    let mut seen = 0;
    while seen < many {
        match within(10, "a refusal", events.next()).await {
            Some(Event::Undelivered { tag: told, fate, id, .. }) if told == tag => {
                assert_eq!(fate, Fate::NotRun(Reason::Full(Bound::Tenant)), "{id:?}");
                seen += 1;
            }
            Some(_) => {}
            None => panic!("the node stopped"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_elephant_whose_handlers_hang_is_refused_and_mice_are_served() {
    let (node, desks, _) = alone(strict()).await;
    let mut events = node.events();
    for number in 0..200 {
        desks.tell(format!("elephant/{number}"), Hang).unwrap();
    }
    // Four run, once their entities are awake, and then twenty wait; the one that is asked last is told so itself.
    while node.status().counters.handled < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for number in 200..250 {
        desks.tell(format!("elephant/{number}"), Hang).unwrap();
    }
    turned_back(&mut events, 2, 226).await;
    let refused = within(5, "the elephant", desks.ask("elephant/x", Note(1, 0))).await;
    assert!(matches!(refused, Err(AskError::Undelivered(Reason::Full(Bound::Tenant)))), "{refused:?}");
    mice_are_served(&desks).await;
    let counters = node.status().counters;
    assert_eq!((counters.told, counters.handled, counters.not_run), (250 + 1 + 60, 4 + 60, 226 + 1));
    // The node stops with all that in it: what waits has not run, and is told.
    let report = within(20, "leaving", node.leave_within(Duration::from_secs(2))).await;
    println!("{report:?}");
    let mut told = BTreeMap::<String, usize>::new();
    while let Some(event) = within(10, "the end", events.next()).await {
        if let Event::Undelivered { fate, .. } = event {
            *told.entry(fate.to_string()).or_default() += 1;
        }
    }
    println!("{told:?}");
    assert_eq!(told.values().sum::<usize>(), 20, "those that waited, each once: {told:?}");
}

/// A light elephant: too little waits for anybody to keep away from its queues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_handlers_that_hang_keep_nobody_waiting() {
    let (_node, desks, _) =
        alone(FairConfig::new(2, 1, 50, 100).and_then(|fair| fair.seats_per_flow(1)).unwrap()).await;
    for number in 0..3 {
        desks.tell(format!("elephant/{number}"), Hang).unwrap();
    }
    mice_are_served(&desks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_without_queues_is_no_guard() {
    let node = Node::builder("guard").start().await.unwrap();
    let fair = FairConfig::without_queues(4).expect("legal");
    let desk = |_: &_| Desk { log: Log::default(), free: Arc::default() };
    let error = node.sharding::<Desk>().guard(guard(fair)).start_with(desk).await.expect_err("nothing could wait");
    assert!(error.to_string().contains("guard"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn handlers_that_hold_their_threads_hold_neither_the_lane_nor_the_mice() {
    let (_node, desks, free) = alone(strict()).await;
    for number in 0..20 {
        desks.tell(format!("elephant/{number}"), Hog).unwrap();
    }
    mice_are_served(&desks).await;
    free.store(true, Ordering::Release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seat_comes_back_when_a_handler_panics() {
    // One seat for all.
    let (_node, desks, _) = alone(FairConfig::new(1, 1, 50, 1).expect("legal")).await;
    for number in 0..20 {
        desks.tell(format!("elephant/{number}"), Panic).unwrap();
    }
    let answer = within(10, "the mouse", desks.ask("mouse/1", Note(7, 1))).await;
    assert_eq!(answer, Ok(7));
    let again = within(10, "who panicked", desks.ask("elephant/3", Note(8, 0))).await;
    assert_eq!(again, Ok(8), "after its pause");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_hands_over_what_waits_in_order() {
    let log = Log::default();
    let listeners: Vec<_> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let voter = (NodeId(1), listeners[0].local_addr().unwrap().to_string());
    let mut nodes = Vec::new();
    for (id, listener) in (1..).zip(listeners) {
        let builder = Node::builder("guard").id(NodeId(id)).listener(listener).voters([voter.clone()]);
        let node = builder.rebalance_interval(Duration::from_millis(200)).start().await.unwrap();
        let free = Arc::new(AtomicBool::new(true));
        let written = Arc::clone(&log);
        let desk = move |_: &_| Desk { log: Arc::clone(&written), free: Arc::clone(&free) };
        // Four handlers at a time on each node, so most of what is sent waits.
        let fair = FairConfig::new(8, 3, 50, 4).expect("legal");
        let desks = node.sharding::<Desk>().shards(16).guard(guard(fair)).start_with(desk).await.unwrap();
        nodes.push((node, desks));
    }
    for (node, _) in &nodes {
        within(30, "joining", node.joined()).await.unwrap();
    }
    let ids: Vec<String> = (0..40).map(|n| format!("tenant-{}/{n}", n % 10)).collect();
    for id in &ids {
        within(20, "a first answer", nodes[0].1.ask(id.clone(), Note(0, 0))).await.unwrap();
    }
    let (mut sent, mut events) = (0, nodes[0].0.events());
    for number in 1..=25 {
        for id in &ids {
            nodes[0].1.send(id.clone(), Note(number, 1)).await.unwrap();
            sent += 1;
        }
    }
    let (leaver, _) = nodes.pop().unwrap();
    let owned = leaver.status().shards.iter().map(|(_, owned)| owned).sum::<usize>();
    let report = within(30, "leaving", leaver.leave()).await;
    assert!(report.clean && owned > 0, "{report:?}, {owned} shards");
    // Asked last, answered last: by then all before it is handled or told.
    let mut refused = 0;
    for id in &ids {
        let last = within(30, "the last", nodes[0].1.ask(id.clone(), Note(26, 0))).await;
        match last {
            Ok(26) => sent += 1,
            Err(AskError::Undelivered(Reason::Full(Bound::Tenant))) => {}
            other => panic!("{other:?}"),
        }
    }
    while let Some(event) = events.try_next() {
        if let Event::Undelivered { fate, .. } = event {
            assert_eq!(fate, Fate::NotRun(Reason::Full(Bound::Tenant)));
            refused += 1;
        }
    }
    let log = std::mem::take(&mut *log.lock().unwrap());
    let mut last = BTreeMap::new();
    for (id, number) in &log {
        let before = last.insert(id, *number);
        assert!(before.is_none_or(|before| before < *number), "{id}: {number} after {before:?}");
    }
    println!("{sent} sent, {} handled, {refused} refused, {owned} shards moved", log.len() - ids.len());
    assert_eq!(log.len() - ids.len() + refused, sent, "each is handled, or told");
}
