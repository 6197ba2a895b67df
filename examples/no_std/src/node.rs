//! A cluster of one node on this thread: the engine, a clock that goes on when told to, and no executor.

use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Waker;

use shard_core::driver::{Alone, Engine, TypeConfig};
use shard_core::entity::{Accepts, Alarm, Clock, Services, Unguarded};
use shard_core::id::{Incarnation, NodeId, NodeKey};
use shard_core::node::NodeConfig;
use shard_core::prelude::*;
use shard_core::time::Instant;

use crate::{Broken, check};

struct Add(u64);
struct Get;
messages! { enum CounterMessage as "counter" { Add -> (), Get -> u64 } }

#[derive(Default)]
struct Counter {
    sum: u64,
}

impl Entity for Counter {
    type Message = CounterMessage;
}

impl Handle<Add> for Counter {
    async fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) {
        self.sum += n;
    }
}

impl Handle<Get> for Counter {
    async fn handle(&mut self, _: Get, _: &mut Context<'_, Self>) -> u64 {
        self.sum
    }
}

/// A hardware timer would stand here.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Instant {
        Instant::from_millis(self.0.load(Ordering::Relaxed))
    }
    fn wake_at(&self, _: Instant, _: &Waker) -> Alarm {
        Alarm::NONE
    }
}

impl Services for Ticks {
    fn session_until(&self) -> Instant {
        Instant::NEVER
    }
    fn registered(&self, _: &str) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

struct Board {
    engine: Engine<Counter, Alone>,
    ticks: Arc<Ticks>,
}

impl Board {
    fn start() -> Result<Self, Broken> {
        let ticks = Arc::new(Ticks::default());
        let me = NodeKey { id: NodeId(1), incarnation: Incarnation(1) };
        let (node, counters) = (NodeConfig::alone(me), TypeConfig::of::<CounterMessage>());
        let engine =
            Engine::new(node, counters, |_| Counter::default(), Unguarded, Arc::clone(&ticks) as _, Alone::default());
        let mut board = Self { engine: engine.map_err(|_| "the configuration is safe")?, ticks };
        board.pass(0);
        Ok(board)
    }

    /// The main loop, for that many milliseconds.
    fn pass(&mut self, millis: u64) {
        let end = Instant::from_millis(self.ticks.0.load(Ordering::Relaxed) + millis);
        while let Some(next) = self.engine.run(None, |_| Waker::noop().clone())
            && next <= end
        {
            self.ticks.0.fetch_max(next.as_nanos().div_ceil(1_000_000), Ordering::Relaxed);
        }
        self.ticks.0.store(end.as_nanos() / 1_000_000, Ordering::Relaxed);
    }

    fn add(&mut self, id: &str, n: u64) {
        self.engine.tell(id, CounterMessage::wrap(Add(n), ReplyTo::nobody()), None);
    }

    fn get(&mut self, id: &str) -> Option<u64> {
        let (reply, mut answer) = ReplyTo::here();
        self.engine.tell(id, CounterMessage::wrap(Get, reply), None);
        self.pass(0);
        answer.try_recv().ok()??.ok()
    }

    fn awake(&self) -> usize {
        self.engine.driver().residents(shard_core::hash::kind("counter"))
    }
}

pub fn run() -> Result<(), Broken> {
    let mut board = Board::start()?;
    check(!board.engine.driver().has_left(), "the node runs")?;

    for n in 0..1_000 {
        board.add("a", n);
    }
    board.add("b", 7);
    check(board.get("a") == Some(499_500), "an entity answers what it was told")?;
    check(board.get("b") == Some(7), "another keeps its own sum")?;
    check(board.get("c") == Some(0), "an entity starts when it is asked")?;
    check(board.awake() == 3, "three are awake")?;

    board.pass(200_000);
    check(board.get("a") == Some(499_500), "a session outlives its heartbeats")?;
    board.pass(200_000);
    check(board.awake() == 1, "after five minutes without mail, entities sleep")?;
    check(board.get("b") == Some(0), "and start anew")?;

    board.engine.leave();
    board.pass(10_000);
    check(board.engine.driver().has_left(), "the node leaves")?;
    check(board.awake() == 0, "and takes its entities down")?;
    check(board.get("a").is_none(), "nobody answers any more")
}
