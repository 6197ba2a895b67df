//! Pools of stateless workers on a real node: how they grow, shrink, fail, fill up and end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use adapter_tokio::{ConfigError, Event, EventStream, Node};
use serde::{Deserialize, Serialize};
use shard_core::entity::{AskError, Bound, Fate, Reason};
use shard_core::hub::Workers;
use shard_core::prelude::*;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Answers with the worker's number.
#[derive(Debug, PartialEq)]
struct Who;
/// Says that it runs, then waits for the gate.
#[derive(Debug, PartialEq)]
struct Hold;
#[derive(Debug, PartialEq)]
struct Panic;
/// Sends itself `Again`.
struct Schedule;
struct Again;
struct Stop;
messages! {
    enum DeskMessage as "desk" {
        Who -> u64, Hold -> u64, Panic -> (), Schedule -> u64, Again -> (), Stop -> ()
    }
}

/// What workers say to the test.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Said {
    Begun(u64),
    Again(u64),
    Stopping(u64, StopReason),
}

struct Desk {
    says: UnboundedSender<Said>,
    gate: Arc<Semaphore>,
}
impl Entity for Desk {
    type Message = DeskMessage;
    async fn stopping(&mut self, why: StopReason, ctx: &mut Context<'_, Self>) {
        self.says.send(Said::Stopping(number(ctx), why)).unwrap();
    }
}
impl Handle<Who> for Desk {
    async fn handle(&mut self, _: Who, ctx: &mut Context<'_, Self>) -> u64 {
        number(ctx)
    }
}
impl Handle<Hold> for Desk {
    async fn handle(&mut self, _: Hold, ctx: &mut Context<'_, Self>) -> u64 {
        self.says.send(Said::Begun(number(ctx))).unwrap();
        self.gate.acquire().await.unwrap().forget();
        number(ctx)
    }
}
impl Handle<Panic> for Desk {
    async fn handle(&mut self, _: Panic, _: &mut Context<'_, Self>) {
        panic!("as asked");
    }
}
impl Handle<Schedule> for Desk {
    async fn handle(&mut self, _: Schedule, ctx: &mut Context<'_, Self>) -> u64 {
        ctx.schedule(Duration::from_millis(1), Again);
        number(ctx)
    }
}
impl Handle<Again> for Desk {
    async fn handle(&mut self, _: Again, ctx: &mut Context<'_, Self>) {
        self.says.send(Said::Again(number(ctx))).unwrap();
    }
}
impl Handle<Stop> for Desk {
    async fn handle(&mut self, _: Stop, ctx: &mut Context<'_, Self>) {
        ctx.stop();
    }
}

fn number(ctx: &Context<'_, Desk>) -> u64 {
    ctx.id().as_str().parse().unwrap()
}

async fn within<T>(seconds: u64, what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), future).await.unwrap_or_else(|_| panic!("{what}: not in time"))
}

struct Shop {
    node: Node,
    desks: Workers<DeskMessage>,
    said: UnboundedReceiver<Said>,
    gate: Arc<Semaphore>,
}

impl Shop {
    async fn open(at_most: u32, waiting: usize) -> Self {
        let node = Node::builder("workers").start().await.unwrap();
        let (says, said) = unbounded_channel();
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let desk = move |_: &Identity| Desk { says: says.clone(), gate: Arc::clone(&held) };
        let pool = node.workers::<Desk>().at_most(at_most).waiting_at_most(waiting).keep_idle();
        let desks = pool.start_with(desk).await.unwrap().within(Duration::from_secs(60));
        Self { node, desks, said, gate }
    }

    async fn hears(&mut self) -> Said {
        within(10, "a word", self.said.recv()).await.unwrap()
    }

    /// A message that a worker holds by now.
    async fn hold(&mut self) -> impl Future<Output = Result<u64, AskError<Hold>>> + use<> {
        let held = self.desks.ask(Hold);
        assert!(matches!(self.hears().await, Said::Begun(_)));
        held
    }

    /// Asks that wait.
    fn ask_who(&self, many: usize) -> Vec<impl Future<Output = Result<u64, AskError<Who>>> + use<>> {
        (0..many).map(|_| self.desks.ask(Who)).collect()
    }
}

/// Looks until it is so; the pool's own doing brings it about.
async fn until(what: &str, so: impl Fn() -> bool) {
    let look = async {
        while !so() {
            tokio::task::yield_now().await;
        }
    };
    within(10, what, look).await;
}

async fn event<T>(events: &mut EventStream, what: &str, pick: impl Fn(Event) -> Option<T>) -> T {
    loop {
        match within(10, what, events.next()).await {
            Some(event) => {
                if let Some(found) = pick(event) {
                    return found;
                }
            }
            None => panic!("{what}: the node stopped"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_calls_one_after_the_other_are_done_by_one_worker() {
    let shop = Shop::open(4, 100).await;
    for _ in 0..100 {
        // Its answer is out a moment before it is idle again.
        until("idle", || shop.desks.report().idle == shop.desks.report().workers).await;
        assert_eq!(within(10, "an answer", shop.desks.ask(Who)).await, Ok(1));
    }
    let report = shop.desks.report();
    assert_eq!((report.workers, report.made, report.handled, report.waiting), (1, 1, 100, 0));
    assert_eq!(shop.node.workers_report().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_calls_get_a_worker_each_up_to_four_and_what_waits_drains() {
    let mut shop = Shop::open(4, 100).await;
    let mut held = Vec::new();
    for blocking in 0..4_u64 {
        assert_eq!(within(10, "an answer", shop.desks.ask(Who)).await, Ok(blocking + 1), "who is free, or a new one");
        until("idle", || shop.desks.report().idle == 1).await;
        assert_eq!(shop.desks.report().workers as u64, blocking + 1);
        held.push(shop.hold().await);
    }
    let waiters = shop.ask_who(4);
    let report = shop.desks.report();
    assert_eq!((report.workers, report.idle, report.waiting, report.made), (4, 0, 4, 4));
    shop.gate.add_permits(4);
    let mut answers = Vec::new();
    for waiter in waiters {
        answers.push(within(10, "a waiter", waiter).await.unwrap());
    }
    answers.sort_unstable();
    assert_eq!(answers, [1, 2, 3, 4], "one for each");
    for held in held {
        within(10, "a holder", held).await.unwrap();
    }
    until("idle", || shop.desks.report().idle == 4).await;
    assert_eq!((shop.desks.report().workers, shop.desks.report().waiting), (4, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_costs_its_own_message_and_what_waited_behind_it_is_done_by_others() {
    let mut shop = Shop::open(2, 100).await;
    let mut events = shop.node.events();
    let held = [shop.hold().await, shop.hold().await];
    let panics = shop.desks.ask(Panic);
    let others = shop.ask_who(9);
    shop.desks.tell(Panic).unwrap();
    shop.gate.add_permits(2);
    let panicked = within(10, "the panic", panics).await;
    assert_eq!(panicked, Err(AskError::NoReply(NoReply::Ended)));
    for other in others {
        assert!(within(10, "another", other).await.is_ok());
    }
    for held in held {
        assert!(within(10, "a holder", held).await.is_ok());
    }
    for _ in 0..2 {
        let why = event(&mut events, "the failure", |event| match event {
            Event::EntityFailed { entity_type: "desk", why, .. } => Some(why),
            _ => None,
        });
        assert!(why.await.contains("as asked"));
    }
    let report = shop.desks.report();
    assert_eq!((report.handled, report.failed, report.waiting), (13, 2, 0));
    assert!(report.workers <= 2 && report.made <= 4, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pool_refuses_and_send_waits_for_room() {
    let mut shop = Shop::open(1, 2).await;
    let held = shop.hold().await;
    let waiters = shop.ask_who(2);
    let refused = shop.desks.tell(Who).unwrap_err();
    assert_eq!((refused.message, refused.reason), (Who, Reason::Full(Bound::Workers)));
    let asked = within(10, "a refusal", shop.desks.ask(Who)).await.unwrap_err();
    assert!(matches!(asked, AskError::Refused(refused) if refused.reason == Reason::Full(Bound::Workers)));
    let desks = shop.desks.clone();
    let (tried, trying) = tokio::sync::oneshot::channel();
    let sent = tokio::spawn(async move {
        let mut send = std::pin::pin!(desks.send(Who));
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(send.as_mut().poll(cx))).await;
        assert!(first.is_pending());
        tried.send(()).unwrap();
        send.await
    });
    within(10, "the first try", trying).await.unwrap();
    shop.gate.add_permits(1);
    assert_eq!(within(10, "the sender", sent).await.unwrap(), Ok(()));
    within(10, "the holder", held).await.unwrap();
    for waiter in waiters {
        assert_eq!(within(10, "a waiter", waiter).await, Ok(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_schedule_for_themselves_and_end_when_they_ask_to() {
    let mut shop = Shop::open(2, 100).await;
    let first = within(10, "the first", shop.desks.ask(Schedule)).await.unwrap();
    assert_eq!(shop.hears().await, Said::Again(first));
    until("idle", || shop.desks.report().idle == 1).await;
    let held = shop.hold().await;
    shop.desks.ask(Stop).await.unwrap();
    assert_eq!(shop.hears().await, Said::Stopping(2, StopReason::Asked));
    until("gone", || shop.desks.report().workers == 1).await;
    assert_eq!(within(10, "a new one", shop.desks.ask(Who)).await, Ok(3));
    shop.gate.add_permits(1);
    assert_eq!(within(10, "the holder", held).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_lets_its_workers_finish_and_refuses_what_comes_later() {
    let mut shop = Shop::open(2, 1_000).await;
    let held = [shop.hold().await, shop.hold().await];
    let waiters = shop.ask_who(40);
    let leaving = tokio::spawn(shop.node.leave());
    let refused = async {
        loop {
            match shop.desks.tell(Who) {
                Err(refused) if refused.reason == Reason::Stopping => return refused.message,
                Ok(()) | Err(Refused { reason: Reason::Full(_), .. }) => tokio::task::yield_now().await,
                Err(refused) => panic!("{refused}"),
            }
        }
    };
    assert_eq!(within(10, "a refusal", refused).await, Who);
    assert_eq!(shop.desks.report().workers, 2, "it waits for them");
    shop.gate.add_permits(2);
    for waiter in waiters {
        assert!(within(10, "a waiter", waiter).await.is_ok());
    }
    for held in held {
        assert!(within(10, "a holder", held).await.is_ok());
    }
    let report = within(10, "leaving", leaving).await.unwrap();
    let counters = report.counters;
    assert_eq!((counters.told, counters.not_run), (counters.handled, 0));
    assert!(report.clean && report.took < Duration::from_secs(5), "{report:?}");
    let mut last: Vec<Said> = std::iter::from_fn(|| shop.said.try_recv().ok()).collect();
    last.sort_by_key(|said| format!("{said:?}"));
    assert_eq!(last, [1, 2].map(|n| Said::Stopping(n, StopReason::NodeLeaving)));
    assert_eq!(shop.desks.report().workers, 0);
    let late = within(10, "a refusal", shop.desks.ask(Who)).await.unwrap_err();
    assert!(matches!(late, AskError::Refused(refused) if refused.reason == Reason::Stopping));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_workers_hang_leaves_in_time_and_tells_the_fate_of_each_message() {
    let mut shop = Shop::open(1, 100).await;
    let mut events = shop.node.events();
    let held = shop.hold().await;
    let waiters = shop.ask_who(3);
    shop.desks.tell(Who).unwrap();
    let begun = Instant::now();
    let report = within(10, "leaving", shop.node.leave_within(Duration::from_secs(1))).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(within(10, "the holder", held).await, Err(AskError::NoReply(NoReply::Ended)));
    for waiter in waiters {
        assert_eq!(within(10, "a waiter", waiter).await, Err(AskError::Undelivered(Reason::Stopping)));
    }
    let mut told = Vec::new();
    while let Some(event) = within(10, "the end", events.next()).await {
        match event {
            Event::Undelivered { entity_type: "desk", fate, .. } => told.push(fate.to_string()),
            Event::EntityFailed { entity_type: "desk", why, .. } => told.push(why),
            _ => {}
        }
    }
    told.sort();
    let stopped = "its node stopped before the handler ended".to_owned();
    assert_eq!(told, [stopped, Fate::NotRun(Reason::Stopping).to_string()]);
    assert_eq!((report.counters.told, report.counters.handled, report.counters.not_run), (5, 1, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_dropped_takes_its_workers_along() {
    let mut shop = Shop::open(1, 100).await;
    let held = shop.hold().await;
    let waiters = shop.ask_who(2);
    drop(shop.node);
    let refused = shop.desks.tell(Who).unwrap_err();
    assert_eq!(refused.reason, Reason::Stopping);
    assert_eq!(within(10, "the holder", held).await, Err(AskError::NoReply(NoReply::Ended)));
    for waiter in waiters {
        assert_eq!(within(10, "a waiter", waiter).await, Err(AskError::Undelivered(Reason::Stopping)));
    }
    // The factory went with the last who could reach it.
    drop(shop.desks);
    assert_eq!(within(10, "the end", shop.said.recv()).await, None, "no last hook, as in a crash");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_workers_go_once_somebody_waited() {
    let node = Node::builder("workers").start().await.unwrap();
    let (says, mut said) = unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let desk = move |_: &Identity| Desk { says: says.clone(), gate: Arc::clone(&held) };
    let desks = node.workers::<Desk>().at_most(3).start_with(desk).await.unwrap();
    for _ in 0..6 {
        desks.tell(Hold).unwrap();
    }
    // The pool is looked at every half second; it is time that this is about.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!((desks.report().workers, desks.report().waiting), (3, 3), "none goes that has something to do");
    gate.add_permits(6);
    let mut gone = Vec::new();
    while gone.len() < 3 {
        match within(20, "a worker that goes", said.recv()).await.unwrap() {
            Said::Stopping(number, StopReason::Idle) => gone.push(number),
            Said::Begun(_) => {}
            other => panic!("{other:?}"),
        }
    }
    gone.sort_unstable();
    assert_eq!(gone, [1, 2, 3], "the last as well");
    until("gone", || desks.report().workers == 0).await;
    assert_eq!(within(10, "a new one", desks.ask(Who)).await, Ok(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_its_asker_no_longer_waits_for_does_not_run() {
    let mut shop = Shop::open(1, 100).await;
    let held = shop.hold().await;
    let hasty = shop.desks.clone().within(Duration::from_millis(20)).ask(Who);
    let late = within(10, "its deadline", hasty).await;
    assert_eq!(late, Err(AskError::NoReply(NoReply::Expired { after: Duration::from_millis(20) })));
    shop.gate.add_permits(1);
    within(10, "the holder", held).await.unwrap();
    within(10, "another", shop.desks.ask(Who)).await.unwrap();
    let counters = shop.node.status().counters;
    assert_eq!((counters.told, counters.handled, counters.not_run), (3, 2, 1));
}

#[test]
fn an_executor_that_goes_down_leaves_no_asker_waiting() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (shop, asks) = runtime.block_on(async {
        let mut shop = Shop::open(2, 100).await;
        let held = [shop.hold().await, shop.hold().await];
        let waiters = shop.ask_who(20);
        (shop, (held, waiters))
    });
    drop(runtime);
    let (held, waiters) = asks;
    let refused = [Err(AskError::Undelivered(Reason::Unavailable)), Err(AskError::Undelivered(Reason::Stopping))];
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        for held in held {
            assert_eq!(within(10, "a holder", held).await, Err(AskError::NoReply(NoReply::Ended)));
        }
        for waiter in waiters {
            assert!(refused.contains(&within(10, "a waiter", waiter).await));
        }
    });
    assert_eq!(shop.desks.report().workers, 0);
}

/// An entity that has its last word from a worker.
#[derive(Serialize, Deserialize)]
struct Wake;
messages! { enum ClerkMessage as "clerk" { 1 => Wake -> () } }
struct Clerk {
    desks: Workers<DeskMessage>,
    heard: UnboundedSender<Option<u64>>,
}
impl Entity for Clerk {
    type Message = ClerkMessage;
    async fn stopping(&mut self, _: StopReason, _: &mut Context<'_, Self>) {
        self.heard.send(self.desks.ask(Who).await.ok()).unwrap();
    }
}
impl Handle<Wake> for Clerk {
    async fn handle(&mut self, _: Wake, _: &mut Context<'_, Self>) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entities_that_leave_can_still_ask_workers() {
    let shop = Shop::open(1, 100).await;
    let (says, mut heard) = unbounded_channel();
    let desks = shop.desks.clone();
    let clerk = move |_: &Identity| Clerk { desks: desks.clone(), heard: says.clone() };
    let clerks = shop.node.sharding::<Clerk>().start_with(clerk).await.unwrap();
    for n in 0..20 {
        within(10, "a clerk", clerks.ask(format!("clerk-{n}"), Wake)).await.unwrap();
    }
    let report = within(20, "leaving", shop.node.leave()).await;
    assert!(report.clean, "{report:?}");
    for _ in 0..20 {
        assert_eq!(within(10, "its last word", heard.recv()).await, Some(Some(1)));
    }
}

/// Its messages could travel, so that it can be an entity as well.
#[derive(Serialize, Deserialize)]
struct Try;
messages! { enum FrailMessage as "frail" { 1 => Try -> () } }
struct Frail {
    panics: bool,
}
impl Default for Frail {
    fn default() -> Self {
        panic!("the factory panics")
    }
}
impl Entity for Frail {
    type Message = FrailMessage;
    async fn started(&mut self, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        assert!(!self.panics, "the first hook panics");
        Err("the first hook fails".into())
    }
}
impl Handle<Try> for Frail {
    async fn handle(&mut self, _: Try, _: &mut Context<'_, Self>) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_cannot_start_refuse_what_they_were_made_for() {
    for (panics, said) in [(None, "the factory panics"), (Some(true), "hook panics"), (Some(false), "hook fails")] {
        let node = Node::builder("workers").start().await.unwrap();
        let mut events = node.events();
        let frail = move |_: &Identity| panics.map_or_else(Frail::default, |panics| Frail { panics });
        let frails = node.workers::<Frail>().start_with(frail).await.unwrap();
        let refused = within(10, "a refusal", frails.ask(Try)).await.unwrap_err();
        assert!(matches!(refused, AskError::Undelivered(Reason::Unavailable)), "{refused:?}");
        frails.tell(Try).unwrap();
        let why = event(&mut events, "why", |event| match event {
            Event::EntityFailed { why, .. } => Some(why),
            _ => None,
        });
        assert!(why.await.contains(said));
        let fate = event(&mut events, "its fate", |event| match event {
            Event::Undelivered { fate, .. } => Some(fate),
            _ => None,
        });
        assert_eq!(fate.await, Fate::NotRun(Reason::Unavailable));
        assert_eq!((frails.report().made, frails.report().failed, frails.report().workers), (2, 2, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_taken_once_and_settings_are_looked_at() {
    let node = Node::builder("workers").start().await.unwrap();
    let none = node.workers::<Frail>().at_most(0).start().await.unwrap_err();
    assert_eq!(none, ConfigError::Setting { name: "at_most", must: "at least 1" });
    node.workers::<Frail>().start().await.unwrap();
    let taken = ConfigError::TypeTaken { entity_type: "frail" };
    assert_eq!(node.workers::<Frail>().start().await.unwrap_err(), taken);
    assert_eq!(node.sharding::<Frail>().start().await.unwrap_err(), taken);
    let other = Node::builder("workers").start().await.unwrap();
    other.sharding::<Frail>().start().await.unwrap();
    assert_eq!(other.workers::<Frail>().start().await.unwrap_err(), taken);
}
