//! The entity that scenarios question, and the ledger in which all its lives write what happened.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::mem;
use core::task::{Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::entity::{Context, Entity, EntityId, Failure, Handle, HandleDeferred, Reason, Refused, ReplyTo, StopReason};
use crate::messages;
use crate::time::Duration;

/// Write this number into the ledger; the answer is how many this life has written.
#[derive(Serialize, Deserialize, Debug)]
pub struct Mark(pub u32);
/// Which of the entity's lives is this?
#[derive(Serialize, Deserialize, Debug)]
pub struct Life;
/// Wait until the entity's gate is open.
#[derive(Serialize, Deserialize, Debug)]
pub struct Hold;
/// Panic.
#[derive(Serialize, Deserialize, Debug)]
pub struct Break;
/// Passivate, with a last mark.
#[derive(Serialize, Deserialize, Debug)]
pub struct Sleep(pub u32);
/// Answer at the next [`Answer`].
#[derive(Serialize, Deserialize, Debug)]
pub struct Later;
/// Answer what was asked to be answered later.
#[derive(Serialize, Deserialize, Debug)]
pub struct Answer(pub u32);
/// Mark this after a pause.
#[derive(Serialize, Deserialize, Debug)]
pub struct Remind(pub u32);
/// Tell an entity of a type that no node has; the answer is whether that was refused as it should be.
#[derive(Serialize, Deserialize, Debug)]
pub struct Stranger;
/// Tell yourself this mark, through your own reference.
#[derive(Serialize, Deserialize, Debug)]
pub struct Echo(pub u32);

messages! {
    /// What a probe understands.
    pub enum ProbeMessage as "conformance-probe" {
        1 => Mark -> u32,
        2 => Life -> u32,
        3 => Hold -> (),
        4 => Break -> (),
        5 => Sleep -> (),
        6 => Later -> u32,
        7 => Answer -> (),
        8 => Remind -> (),
        9 => Stranger -> bool,
        10 => Echo -> bool,
    }
}

/// Nobody understands this.
#[derive(Serialize, Deserialize)]
struct Hello;
messages! {
    enum NobodyMessage as "conformance-nobody" { 1 => Hello -> () }
}

/// An entity with no state of its own beyond one life: what must outlive it is in the ledger.
#[derive(Debug)]
pub struct Probe {
    id: EntityId,
    ledger: Arc<Ledger>,
    life: u32,
    marked: u32,
    kept: Vec<ReplyTo<u32>>,
}

impl Probe {
    pub(super) fn new(id: EntityId, ledger: Arc<Ledger>) -> Self {
        let life = ledger.born(&id);
        Self { id, ledger, life, marked: 0, kept: Vec::new() }
    }

    fn turn(&self) -> Turn {
        self.ledger.begin(&self.id);
        Turn { id: self.id.clone(), ledger: Arc::clone(&self.ledger) }
    }
}

impl Entity for Probe {
    type Message = ProbeMessage;

    async fn started(&mut self, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        let _turn = self.turn();
        if self.id.as_str().starts_with("slow") {
            self.ledger.pass(&self.id).await;
        }
        Ok(())
    }

    async fn stopping(&mut self, why: StopReason, _: &mut Context<'_, Self>) {
        let _turn = self.turn();
        self.ledger.stops(&self.id, why);
        if self.id.as_str().starts_with("lingers") {
            self.ledger.pass(&self.id).await;
        }
    }
}

impl Handle<Mark> for Probe {
    async fn handle(&mut self, Mark(number): Mark, _: &mut Context<'_, Self>) -> u32 {
        let _turn = self.turn();
        self.ledger.mark(&self.id, number);
        self.marked += 1;
        self.marked
    }
}

impl Handle<Life> for Probe {
    async fn handle(&mut self, _: Life, _: &mut Context<'_, Self>) -> u32 {
        let _turn = self.turn();
        self.life
    }
}

impl Handle<Hold> for Probe {
    async fn handle(&mut self, _: Hold, _: &mut Context<'_, Self>) {
        let _turn = self.turn();
        self.ledger.pass(&self.id).await;
    }
}

impl Handle<Break> for Probe {
    async fn handle(&mut self, _: Break, _: &mut Context<'_, Self>) {
        let _turn = self.turn();
        panic!("a probe panics, as it was asked to");
    }
}

impl Handle<Sleep> for Probe {
    async fn handle(&mut self, Sleep(last): Sleep, ctx: &mut Context<'_, Self>) {
        let _turn = self.turn();
        ctx.passivate_with(Mark(last));
    }
}

impl HandleDeferred<Later> for Probe {
    async fn handle_deferred(&mut self, _: Later, reply: ReplyTo<u32>, _: &mut Context<'_, Self>) {
        let _turn = self.turn();
        self.kept.push(reply);
    }
}

impl Handle<Answer> for Probe {
    async fn handle(&mut self, Answer(number): Answer, _: &mut Context<'_, Self>) {
        let _turn = self.turn();
        for reply in self.kept.drain(..) {
            reply.send(number);
        }
    }
}

impl Handle<Remind> for Probe {
    async fn handle(&mut self, Remind(number): Remind, ctx: &mut Context<'_, Self>) {
        let _turn = self.turn();
        ctx.schedule(Duration::from_millis(30), Mark(number));
    }
}

impl Handle<Stranger> for Probe {
    async fn handle(&mut self, _: Stranger, ctx: &mut Context<'_, Self>) -> bool {
        let _turn = self.turn();
        let sent = ctx.entities::<NobodyMessage>().tell("anyone", Hello);
        matches!(sent, Err(Refused { reason: Reason::NoSuchType, .. }))
    }
}

impl Handle<Echo> for Probe {
    async fn handle(&mut self, Echo(number): Echo, ctx: &mut Context<'_, Self>) -> bool {
        let _turn = self.turn();
        ctx.me().tell(Mark(number)).is_ok()
    }
}

/// While it lives, a handler or hook of the entity runs.
struct Turn {
    id: EntityId,
    ledger: Arc<Ledger>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.ledger.end(&self.id);
    }
}

/// What happened, over all lives on all nodes of a cluster.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    births: BTreeMap<EntityId, u32>,
    running: BTreeMap<EntityId, u32>,
    doubled: BTreeSet<EntityId>,
    marks: BTreeMap<EntityId, Vec<u32>>,
    stops: Vec<(EntityId, StopReason)>,
    open: BTreeSet<EntityId>,
    at_gates: Vec<Waker>,
}

impl Ledger {
    /// How many lives the entity has had.
    pub(super) fn births(&self, id: &str) -> u32 {
        self.pages().births.get(id).copied().unwrap_or(0)
    }

    /// What it was told to mark, in the order of its handlers.
    pub(super) fn marks(&self, id: &str) -> Vec<u32> {
        self.pages().marks.get(id).cloned().unwrap_or_default()
    }

    /// Why its lives ended, in order, as far as a last hook ran.
    pub(super) fn ends(&self, id: &str) -> Vec<StopReason> {
        self.pages().stops.iter().filter(|(stopped, _)| stopped == id).map(|(_, why)| *why).collect()
    }

    /// Whether a handler or hook of it runs.
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.pages().running.get(id).is_some_and(|running| *running > 0)
    }

    /// Opens its gate, for good.
    pub(super) fn open(&self, id: &str) {
        let mut pages = self.pages();
        pages.open.insert(EntityId::from(id));
        let waiting = mem::take(&mut pages.at_gates);
        drop(pages);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The one thing that no scenario may ever show.
    pub(super) fn check(&self) -> Result<(), String> {
        let pages = self.pages();
        let doubled: Vec<_> = pages.doubled.iter().map(ToString::to_string).collect();
        if doubled.is_empty() { Ok(()) } else { Err(format!("two handlers at once: {}", doubled.join(", "))) }
    }

    fn born(&self, id: &EntityId) -> u32 {
        let mut pages = self.pages();
        let births = pages.births.entry(id.clone()).or_insert(0);
        *births += 1;
        *births
    }

    fn begin(&self, id: &EntityId) {
        let mut pages = self.pages();
        let running = pages.running.entry(id.clone()).or_insert(0);
        *running += 1;
        if *running > 1 {
            pages.doubled.insert(id.clone());
        }
    }

    fn end(&self, id: &EntityId) {
        if let Some(running) = self.pages().running.get_mut(id) {
            *running -= 1;
        }
    }

    fn mark(&self, id: &EntityId, number: u32) {
        self.pages().marks.entry(id.clone()).or_default().push(number);
    }

    fn stops(&self, id: &EntityId, why: StopReason) {
        self.pages().stops.push((id.clone(), why));
    }

    async fn pass(&self, id: &EntityId) {
        poll_fn(|cx| {
            let mut pages = self.pages();
            if pages.open.contains(id) {
                return Poll::Ready(());
            }
            pages.at_gates.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
