//! The task of one worker.

use std::boxed::Box;
use std::future::Future;
use std::pin::pin;
use std::string::{String, ToString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::bell::Bell;
use super::clock;
use super::crew::{Crew, Item};
use super::runtime::{Either, race, yield_now};
use super::shared::{Running, count};
use crate::entity::host::{Cell, End, started, stopping, turn};
use crate::entity::{CatchUnwind, Entity, EntityId, Guard, Identity, Reason, StopReason};
use crate::workers::{Gone, Next, WorkerNumber};

/// So many messages at a stretch; then other tasks of the executor get a turn.
const SLICE: u32 = 64;

/// The task of one worker. However it ends, what waits for it goes to others.
pub(super) struct Shift<E: Entity> {
    crew: Arc<Crew<E>>,
    number: WorkerNumber,
    bell: Arc<Bell>,
    /// Its first hook has run.
    started: bool,
    /// Its last hook has run.
    over: bool,
    /// Last, so that the node hears that it has ended when all else is done.
    _running: Running,
}

impl<E: Entity> Drop for Shift<E> {
    fn drop(&mut self) {
        let how = match (self.started, self.over) {
            (false, _) => Gone::NeverStarted,
            (true, false) => Gone::Failed,
            (true, true) => Gone::Stopped,
        };
        self.crew.gone(self.number, how);
    }
}

impl<E: Entity> Shift<E> {
    pub(super) fn new(crew: Arc<Crew<E>>, number: WorkerNumber, bell: Arc<Bell>) -> Self {
        let running = Running::new(Arc::clone(&crew.shared));
        Self { crew, number, bell, started: false, over: false, _running: running }
    }

    pub(super) async fn run(mut self) {
        let Some(mut cell) = self.begin().await else { return };
        self.started = true;
        let mut turns = 0_u32;
        while !self.crew.shared.is_stopped() {
            match self.crew.next(self.number) {
                Next::Run(Item { message, deadline: Some(at) }) if clock::now() >= at => {
                    self.crew.undelivered(Item { message, deadline: None }, Reason::Expired);
                }
                Next::Run(item) => {
                    let Some(back) = self.turn(cell, item.message).await else { return };
                    cell = match self.oblige(back).await {
                        Some(cell) => cell,
                        None => return,
                    };
                    turns = turns.wrapping_add(1);
                    if turns.is_multiple_of(SLICE) {
                        yield_now().await;
                    }
                }
                Next::Wait => self.bell.wait().await,
                Next::Stop(why) => return self.end(cell, why).await,
            }
        }
    }

    /// Makes the worker and runs its first hook.
    async fn begin(&mut self) -> Option<Box<Cell<E>>> {
        let identity = Identity::new(Arc::clone(&self.crew.tenure), id_of(self.number), self.number.0);
        let factory = Arc::clone(&self.crew.factory);
        let begin = async move {
            let entity = factory(&identity);
            started(Cell::new(entity, identity)).await
        };
        let why = match self.unless_stopped(CatchUnwind.run(begin)).await? {
            Ok(Ok(mut cell)) => {
                count(&self.crew.shared.tallies.entities_started, 1);
                self.crew.schedule(self.number, cell.take_wishes().take_scheduled());
                return Some(cell);
            }
            Ok(Err(failure)) => failure.to_string(),
            Err(panicked) => panicked.to_string(),
        };
        self.crew.failed(self.number, why);
        None
    }

    /// Runs one handler; nothing comes back if it panics, or is cut short because the node stops.
    async fn turn(&self, cell: Box<Cell<E>>, message: E::Message) -> Option<Box<Cell<E>>> {
        self.crew.handled.fetch_add(1, Ordering::Relaxed);
        count(&self.crew.shared.tallies.handled, 1);
        let why = match self.unless_stopped(CatchUnwind.run(turn(cell, message))).await {
            Some(Ok(cell)) => return Some(cell),
            Some(Err(panicked)) => panicked.to_string(),
            None => "its node stopped before the handler ended".to_string(),
        };
        self.crew.failed(self.number, why);
        None
    }

    /// Does what the worker wished for in its turn; nothing comes back if it wished to end.
    async fn oblige(&mut self, mut cell: Box<Cell<E>>) -> Option<Box<Cell<E>>> {
        if cell.wishes().is_empty() {
            return Some(cell);
        }
        let mut wishes = cell.take_wishes();
        self.crew.schedule(self.number, wishes.take_scheduled());
        let why = match wishes.end() {
            None => return Some(cell),
            Some(End::Restart) => {
                let why = wishes.take_failure().map_or_else(String::new, |failure| failure.to_string());
                self.crew.failed(self.number, why);
                StopReason::Failed
            }
            Some(End::Passivate | End::Stop) => StopReason::Asked,
        };
        self.crew.leaves(self.number, why);
        if let (Some(End::Passivate), Some(last)) = (wishes.end(), wishes.take_last()) {
            cell = self.turn(cell, last).await?;
        }
        self.end(cell, why).await;
        None
    }

    /// Runs its last hook.
    async fn end(&mut self, cell: Box<Cell<E>>, why: StopReason) {
        // Its destructor may panic as well as its hook.
        let last = async move { drop(stopping(cell, why).await) };
        if let Some(Err(panicked)) = self.unless_stopped(CatchUnwind.run(last)).await {
            self.crew.failed(self.number, panicked.to_string());
        }
        self.over = true;
    }

    /// Runs the future to its end, unless the node stops: then it is dropped at its next await.
    async fn unless_stopped<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        loop {
            match race(future.as_mut(), self.bell.wait()).await {
                Either::Left(output) => return Some(output),
                Either::Right(()) if self.crew.shared.is_stopped() => return None,
                // It was woken for a message that it has by now.
                Either::Right(()) => {}
            }
        }
    }
}

pub(super) fn id_of(number: WorkerNumber) -> EntityId {
    EntityId::from(number.to_string().as_str())
}
