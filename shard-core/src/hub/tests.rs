//! How a node and its entities end, on an executor that is one thread per task. No network.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use std::vec::Vec;

use futures_channel::oneshot;
use serde::{Deserialize, Serialize};

use super::{Event, Node, Read, Runtime, Socket, Write};
use crate::entity::{Context, Entity, Fate, Handle, Reason, StopReason};
use crate::messages;

#[derive(Clone, Copy)]
struct Threads;
enum Nothing {}

impl Socket for Nothing {
    type Reader = Self;
    type Writer = Self;
    fn split(self) -> (Self, Self) {
        match self {}
    }
}
impl Read for Nothing {
    async fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}
impl Write for Nothing {
    async fn write_all(&mut self, _: &[u8]) -> io::Result<()> {
        match *self {}
    }
}

impl Runtime for Threads {
    type Socket = Nothing;
    type Listener = Nothing;
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        thread::spawn(move || block_on(task));
    }
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + 'static {
        let (over, waits) = oneshot::channel::<()>();
        thread::spawn(move || {
            thread::sleep(span);
            drop(over);
        });
        async move {
            let _ = waits.await;
        }
    }
    async fn connect(&self, _: &str) -> io::Result<Nothing> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn listen(&self, _: std::net::TcpListener) -> io::Result<Nothing> {
        Err(io::ErrorKind::Unsupported.into())
    }
    async fn accept(listener: &Nothing) -> io::Result<(Nothing, SocketAddr)> {
        match *listener {}
    }
    fn workers(&self) -> usize {
        1
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[derive(Serialize, Deserialize, Debug)]
struct Note(u32);
/// Wait for the gate, then start anew.
#[derive(Serialize, Deserialize, Debug)]
struct Anew;
/// Wait for the gate.
#[derive(Serialize, Deserialize, Debug)]
struct Hold;
messages! {
    enum DeskMessage as "desk" { 1 => Note -> (), 2 => Anew -> (), 3 => Hold -> () }
}

/// What a test sees of its entities, and the gate at which they wait, for each that comes.
#[derive(Clone, Default)]
struct World {
    notes: Arc<Mutex<Vec<u32>>>,
    gates: Arc<Mutex<Vec<oneshot::Sender<()>>>>,
    /// Handlers and hooks that wait at the gate.
    inside: Arc<AtomicU32>,
    /// Those that ever came there.
    entered: Arc<AtomicU32>,
}

struct Inside(Arc<AtomicU32>);
impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl World {
    async fn pass(&self) {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let _inside = Inside(Arc::clone(&self.inside));
        let (opens, gate) = oneshot::channel();
        super::shared::lock(&self.gates).push(opens);
        self.entered.fetch_add(1, Ordering::SeqCst);
        let _ = gate.await;
    }
    fn open(&self) {
        super::shared::lock(&self.gates).drain(..).for_each(drop);
    }
    fn entered(&self) -> u32 {
        self.entered.load(Ordering::SeqCst)
    }
    fn inside(&self) -> u32 {
        self.inside.load(Ordering::SeqCst)
    }
}

struct Desk(World);
impl Entity for Desk {
    type Message = DeskMessage;
    async fn stopping(&mut self, why: StopReason, _: &mut Context<'_, Self>) {
        if why == StopReason::Failed {
            self.0.pass().await;
        }
    }
}
impl Handle<Note> for Desk {
    async fn handle(&mut self, Note(note): Note, _: &mut Context<'_, Self>) {
        super::shared::lock(&self.0.notes).push(note);
    }
}
impl Handle<Anew> for Desk {
    async fn handle(&mut self, _: Anew, ctx: &mut Context<'_, Self>) {
        self.0.pass().await;
        ctx.restart("it was asked to");
    }
}
impl Handle<Hold> for Desk {
    async fn handle(&mut self, _: Hold, _: &mut Context<'_, Self>) {
        self.0.pass().await;
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}: not in time");
}

fn start() -> (World, Node<Threads>, crate::entity::Entities<DeskMessage>) {
    let world = World::default();
    let node = block_on(Node::builder_on(Threads, "test").lanes(1).start()).expect("it starts");
    let made = world.clone();
    let desks = block_on(node.sharding::<Desk>().shards(2).start_with(move |_| Desk(made.clone()))).expect("it starts");
    (world, node, desks)
}

#[test]
fn mail_behind_a_restart_is_for_the_next_life_though_the_last_hook_waits() {
    let (world, node, desks) = start();
    desks.tell("a", Anew).expect("there is room");
    until("the handler waits", || world.entered() == 1);
    desks.tell("a", Note(1)).expect("there is room");
    world.open();
    until("the last hook waits", || world.entered() == 2);
    thread::sleep(Duration::from_millis(50));
    assert!(super::shared::lock(&world.notes).is_empty(), "no next life begins while the last one ends");
    world.open();
    until("it is handled", || *super::shared::lock(&world.notes) == [1]);
    drop(node);
}

#[test]
fn a_node_that_is_dropped_drops_what_waits_and_tells_what_did_not_run() {
    let (world, node, desks) = start();
    let mut events = node.events();
    desks.tell("a", Hold).expect("there is room");
    until("the handler waits", || world.entered() == 1);
    desks.tell("a", Note(1)).expect("there is room");
    thread::sleep(Duration::from_millis(50));
    drop(node);
    let mut fates = Vec::new();
    while let Some(event) = block_on(events.next()) {
        if let Event::Undelivered { tag, fate, .. } = event {
            fates.push((tag, fate));
        }
    }
    assert_eq!(fates, [(1, Fate::NotRun(Reason::Stopping))]);
    until("the handler is dropped", || world.inside() == 0);
    assert_eq!(desks.tell("a", Note(2)).expect_err("it has stopped").reason, Reason::Stopping);
}

#[test]
fn a_node_that_is_over_is_freed() {
    let (_, node, desks) = start();
    let shared = Arc::downgrade(&node.shared);
    block_on(desks.ask("a", Note(1))).expect("it is answered");
    let report = block_on(node.leave());
    assert!(report.clean, "{report:?}");
    assert_eq!((report.counters.told, report.counters.handled), (1, 1));
    drop(desks);
    until("nothing holds it", || shared.upgrade().is_none());
}
