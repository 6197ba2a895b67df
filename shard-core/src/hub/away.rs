//! Entities whose handler or hook waits: they run on the executor and come back to their lane.

use std::boxed::Box;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::vec::Vec;

use super::shared::lock;
use super::traffic::Speaking;
use crate::entity::host::Cell;
use crate::entity::{Entity, Failure, Panicked};
use crate::id::{Kind, ShardId, Slot};

/// A pinned place for a handler's future, used again for every turn.
pub(super) type Place<F> = Pin<Box<Option<F>>>;

/// A hook's future.
pub(super) type HookFuture<E> = Pin<Box<dyn Future<Output = HookEnd<E>> + Send>>;

/// How a hook ended.
pub(super) enum HookEnd<E: Entity> {
    /// `started` did.
    Started(Result<Box<Cell<E>>, Failure>),
    /// `stopping` did; the state is gone.
    Stopped,
    /// `stopping` did, after the entity asked for a restart.
    Failed,
}

/// What runs.
pub(super) enum Work<E: Entity, F> {
    Turn(Place<F>),
    Hook(HookFuture<E>),
}

/// How it ended.
pub(super) enum Return<E: Entity> {
    Turned(Box<Cell<E>>),
    Hooked(HookEnd<E>),
    Panicked(Panicked),
    Cancelled,
}

/// An entity on its way back to its lane.
pub(super) struct Back<E: Entity, F> {
    pub(super) slot: Slot,
    pub(super) end: Return<E>,
    /// Empty, for the next turn.
    pub(super) place: Option<Place<F>>,
}

/// How the lane reaches what it sent away.
#[derive(Debug, Default)]
pub(super) struct Leash {
    cancelled: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Leash {
    /// Has the future dropped at once, wherever it waits. One that is being polled right now is dropped when it returns.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Where entities come back to.
pub(super) type Returns<E, F> = Mutex<Vec<Back<E, F>>>;

/// A handler or hook that waits, as a task.
pub(super) struct Away<E: Entity, F, R: Fn() + Send> {
    pub(super) slot: Slot,
    pub(super) work: Option<Work<E, F>>,
    /// Of which shard the entity is, if what it says is observed.
    pub(super) speaker: Option<(Kind, ShardId)>,
    pub(super) leash: Arc<Leash>,
    pub(super) returns: Arc<Returns<E, F>>,
    /// Rings the lane's bell.
    pub(super) ring: R,
}

impl<E: Entity, F, R: Fn() + Send> Unpin for Away<E, F, R> {}

impl<E, F, R> Future for Away<E, F, R>
where
    E: Entity,
    F: Future<Output = Box<Cell<E>>> + Send,
    R: Fn() + Send,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(work) = &mut this.work else { return Poll::Ready(()) };
        *lock(&this.leash.waker) = Some(cx.waker().clone());
        if this.leash.cancelled.load(Ordering::Acquire) {
            this.come_back(Return::Cancelled);
            return Poll::Ready(());
        }
        let speaking = this.speaker.map(|(kind, shard)| Speaking::new(kind, shard));
        let polled = poll_work(work, cx);
        drop(speaking);
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(end) => {
                this.come_back(end);
                Poll::Ready(())
            }
        }
    }
}

impl<E: Entity, F, R: Fn() + Send> Away<E, F, R> {
    fn come_back(&mut self, end: Return<E>) {
        // Dropping the future runs the user's destructors, which may panic too.
        let place = catch_unwind(AssertUnwindSafe(|| match self.work.take() {
            Some(Work::Turn(mut place)) => {
                place.set(None);
                Some(place)
            }
            _ => None,
        }));
        lock(&self.returns).push(Back { slot: self.slot, end, place: place.unwrap_or(None) });
        (self.ring)();
    }
}

impl<E: Entity, F, R: Fn() + Send> Drop for Away<E, F, R> {
    fn drop(&mut self) {
        if self.work.is_some() {
            // The executor goes down with the task in it; the lane must not wait for it.
            self.come_back(Return::Cancelled);
        }
    }
}

/// Polls once; a panic ends it.
pub(super) fn poll_work<E, F>(work: &mut Work<E, F>, cx: &mut Context<'_>) -> Poll<Return<E>>
where
    E: Entity,
    F: Future<Output = Box<Cell<E>>>,
{
    let polled = catch_unwind(AssertUnwindSafe(|| match work {
        Work::Turn(place) => match place.as_mut().as_pin_mut() {
            Some(turn) => turn.poll(cx).map(Return::Turned),
            None => Poll::Ready(Return::Cancelled),
        },
        Work::Hook(hook) => hook.as_mut().poll(cx).map(Return::Hooked),
    }));
    match polled {
        Ok(polled) => polled,
        Err(payload) => Poll::Ready(Return::Panicked(Panicked::from_payload(&*payload))),
    }
}
