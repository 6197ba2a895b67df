//! Recycled places for the futures of turns, with the future's type hidden behind them.

use alloc::boxed::Box;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::entity::host::{Cell, turn};
use crate::entity::{Entity, Guard, Panicked};

/// How a turn ended.
pub(super) type Turned<E> = Result<Box<Cell<E>>, Panicked>;

/// A place where one turn at a time stands. It owns the cell while the turn lasts.
pub(super) trait Stage<E: Entity>: Send {
    /// Puts a turn in.
    fn set(&mut self, cell: Box<Cell<E>>, message: E::Message);
    /// Polls it. An empty place never ends.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Turned<E>>;
    /// Drops what is in it.
    fn clear(&mut self);
}

/// Makes an empty place; allocates twice. Setting and polling it allocates nothing.
pub(super) fn place<E: Entity>(guard: impl Guard) -> Box<dyn Stage<E>> {
    fn with<E, F, Mk>(make: Mk) -> Box<dyn Stage<E>>
    where
        E: Entity,
        F: Future<Output = Turned<E>> + Send + 'static,
        Mk: Fn(Box<Cell<E>>, E::Message) -> F + Send + 'static,
    {
        Box::new(Place { future: Box::pin(None), make })
    }
    with(move |cell, message| guard.run(turn::<E>(cell, message)))
}

struct Place<F, Mk> {
    future: Pin<Box<Option<F>>>,
    make: Mk,
}

impl<E, F, Mk> Stage<E> for Place<F, Mk>
where
    E: Entity,
    F: Future<Output = Turned<E>> + Send,
    Mk: Fn(Box<Cell<E>>, E::Message) -> F + Send,
{
    fn set(&mut self, cell: Box<Cell<E>>, message: E::Message) {
        self.future.set(Some((self.make)(cell, message)));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Turned<E>> {
        self.future.as_mut().as_pin_mut().map_or(Poll::Pending, |turn| turn.poll(cx))
    }

    fn clear(&mut self) {
        self.future.set(None);
    }
}
