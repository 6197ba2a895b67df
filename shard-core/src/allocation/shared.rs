//! What users change while a strategy runs.

#[cfg(any(test, feature = "std"))]
use std::sync::{Arc, Mutex, PoisonError};

/// Where a strategy finds a `T` that its users change. A `T` is its own source: whoever has the strategy changes it there.
/// With `std`, `Shared` is one for users elsewhere.
pub trait Source<T>: Send {
    /// Looks at the `T` of now.
    fn consult<R>(&mut self, look: impl FnOnce(&mut T) -> R) -> R;
}

impl<T: Send> Source<T> for T {
    fn consult<R>(&mut self, look: impl FnOnce(&mut T) -> R) -> R {
        look(self)
    }
}

/// A `T` that many threads may change and that outlives a strategy: a clone is the same one. Give a clone to every strategy
/// that a new reign begins with.
///
/// Strategies look at it for moments only, so a change waits for as little.
#[cfg(any(test, feature = "std"))]
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

#[cfg(any(test, feature = "std"))]
impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(any(test, feature = "std"))]
impl<T> Shared<T> {
    /// Shares `value`.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Looks at it, and may change it, in one step for everybody else. A panic in `change` leaves it as it was then.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(any(test, feature = "std"))]
impl<T: Send> Source<T> for Shared<T> {
    fn consult<R>(&mut self, look: impl FnOnce(&mut T) -> R) -> R {
        self.change(look)
    }
}
