//! A runtime of your own: one thread, one channel, and the engine of shard-core between them. No executor, no lock around
//! the entities. This is the whole loop; peers would add an `Outside` and one event for their frames.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use shard_core::driver::{Alarms, Alone, Engine, TypeConfig};
use shard_core::entity::{Alarm, CatchUnwind, Clock, Protocol, Route, Services};
use shard_core::id::{Incarnation, NodeId, NodeKey, Slot};
use shard_core::node::NodeConfig;
use shard_core::prelude::*;
use shard_core::time::{Instant, soonest};

/// What the thread hears.
enum Event<M> {
    Mail(EntityId, M, Option<Instant>),
    Wake(Slot),
    Alarm,
    Leave,
    Close,
}

/// What callers and entities share with the thread.
struct Door<M> {
    me: Weak<Self>,
    events: Sender<Event<M>>,
    alarms: Mutex<Alarms>,
    session_until: AtomicU64,
    start: std::time::Instant,
}

impl<M: Protocol> Clock for Door<M> {
    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }
    fn wake_at(&self, at: Instant, waker: &Waker) -> Alarm {
        let (alarm, first) = self.alarms.lock().expect("no holder panics").wake_at(at, waker);
        if first {
            let _ = self.events.send(Event::Alarm); // the thread must sleep less
        }
        alarm
    }
    fn forget(&self, alarm: Alarm) {
        self.alarms.lock().expect("no holder panics").forget(alarm);
    }
}

impl<M: Protocol> Services for Door<M> {
    fn session_until(&self) -> Instant {
        Instant::from_nanos(self.session_until.load(Ordering::Relaxed))
    }
    fn registered(&self, name: &str) -> Option<Arc<dyn Any + Send + Sync>> {
        let door = self.me.upgrade().filter(|_| name == M::TYPE_NAME)?;
        Some(Arc::new(Entities::<M>::new(door)))
    }
}

impl<M: Protocol> Route<M> for Door<M> {
    fn send(&self, id: &str, message: M, deadline: Option<Instant>) -> Result<(), (M, Reason)> {
        match self.events.send(Event::Mail(id.into(), message, deadline)) {
            Err(SendError(Event::Mail(_, message, _))) => Err((message, Reason::Stopping)),
            _ => Ok(()),
        }
    }
    fn poll_ready(&self, _: &str, _: &Waker) -> Poll<()> {
        Poll::Ready(()) // the channel is never full; a server would bound it
    }
}

/// Brings the slot of a waiting turn back to the thread.
struct Bell<M>(Sender<Event<M>>, Slot);

impl<M: Send + 'static> Wake for Bell<M> {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(Event::Wake(self.1));
    }
}

fn serve<E: Entity>(mut engine: Engine<E, Alone>, door: &Door<E::Message>, events: &Receiver<Event<E::Message>>) {
    let mut woken = None;
    while !engine.driver().has_left() {
        let next = engine.run(woken.take(), |slot| Arc::new(Bell(door.events.clone(), slot)).into());
        door.session_until.store(engine.session_until().as_nanos(), Ordering::Relaxed);
        let next = soonest(next, door.alarms.lock().expect("no holder panics").next());
        let pause = next.map_or(Duration::from_secs(1), |at| at.since(door.now()));
        match events.recv_timeout(pause) {
            Ok(Event::Mail(id, message, deadline)) => engine.tell(id.as_str(), message, deadline),
            Ok(Event::Wake(slot)) => woken = Some(slot),
            Ok(Event::Leave) => engine.leave(),
            Ok(Event::Close) => return,
            Ok(Event::Alarm) | Err(_) => {}
        }
        let due = door.alarms.lock().expect("no holder panics").due(door.now());
        due.into_iter().for_each(Waker::wake);
    }
}

/// A node on its own thread. Dropping it stops the thread; [`leave`](Self::leave) lets every last hook run first.
pub(crate) struct Node<M: Protocol> {
    door: Arc<Door<M>>,
    thread: Option<JoinHandle<()>>,
}

impl<M: Protocol> Node<M> {
    /// Starts a node that hosts the entities that `make` makes.
    pub(crate) fn start<E>(entities: TypeConfig, make: impl Fn(&Identity) -> E + Send + Sync + 'static) -> Self
    where
        E: Entity<Message = M>,
    {
        let (sender, events) = channel();
        let door = Arc::new_cyclic(|me| Door {
            me: Weak::clone(me),
            events: sender,
            alarms: Mutex::default(),
            session_until: AtomicU64::new(0),
            start: std::time::Instant::now(),
        });
        let wall = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64);
        let node = NodeConfig::alone(NodeKey { id: NodeId(1), incarnation: Incarnation(wall) });
        let engine = Engine::new(node, entities, make, CatchUnwind, Arc::clone(&door) as _, Alone { wall })
            .expect("one node with the default times is safe");
        let shared = Arc::clone(&door);
        Self { door, thread: Some(thread::spawn(move || serve(engine, &shared, &events))) }
    }

    /// References to its entities.
    pub(crate) fn entities(&self) -> Entities<M> {
        Entities::new(Arc::clone(&self.door) as _)
    }

    /// Stops every entity, then the node.
    pub(crate) fn leave(mut self) -> bool {
        let _ = self.door.events.send(Event::Leave);
        self.thread.take().is_some_and(|thread| thread.join().is_ok())
    }
}

impl<M: Protocol> Drop for Node<M> {
    fn drop(&mut self) {
        let _ = self.door.events.send(Event::Close);
    }
}

struct Add(u64);
messages! { enum CounterMessage as "counter" { Add -> () } }

#[derive(Default)]
struct Counter(u64);
impl Entity for Counter {
    type Message = CounterMessage;
    async fn stopping(&mut self, _: StopReason, ctx: &mut Context<'_, Self>) {
        println!("{}: {}", ctx.identity(), self.0);
    }
}
impl Handle<Add> for Counter {
    async fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) {
        self.0 += n;
    }
}

/// Ten entities count to a hundred each, and say so when the node leaves.
fn main() {
    let node = Node::start(TypeConfig::of::<CounterMessage>(), |_| Counter::default());
    for n in 0..1_000 {
        node.entities().tell(format!("n{}", n % 10), Add(1)).expect("the channel has room");
    }
    node.leave();
}
