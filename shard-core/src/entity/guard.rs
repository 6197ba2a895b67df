//! How a host runs a handler that may panic.

use alloc::string::String;
use core::fmt;

/// Runs one handler's future so that a panic costs that message alone.
///
/// Wrap each handler, never a batch: what the future owns goes down with it.
pub trait Guard: Copy + Send + 'static {
    /// Runs `future` to its end, or to its panic.
    fn run<F: Future + Send>(self, future: F) -> impl Future<Output = Result<F::Output, Panicked>> + Send;
}

/// Lets panics through: for hosts without `std`, where they end the program anyway.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unguarded;

impl Guard for Unguarded {
    async fn run<F: Future + Send>(self, future: F) -> Result<F::Output, Panicked> {
        Ok(future.await)
    }
}

/// Catches panics by unwinding. With `panic = "abort"` a panicking handler takes the process with it.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, Default)]
pub struct CatchUnwind;

#[cfg(feature = "std")]
impl Guard for CatchUnwind {
    async fn run<F: Future + Send>(self, future: F) -> Result<F::Output, Panicked> {
        use core::{future::poll_fn, pin::pin, task::Poll};
        use std::panic::{AssertUnwindSafe, catch_unwind};

        let mut future = pin!(future);
        // The future is never polled again after a panic, so nobody sees what it left half done.
        poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(payload) => Poll::Ready(Err(Panicked::from_payload(&*payload))),
        })
        .await
    }
}

/// A handler panicked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panicked {
    /// What it said, if that was text.
    pub text: String,
}

impl Panicked {
    /// From what `catch_unwind` returns.
    #[must_use]
    pub fn from_payload(payload: &(dyn core::any::Any + Send)) -> Self {
        let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => (*text).into(),
            (None, Some(text)) => text.clone(),
            (None, None) => String::new(),
        };
        Self { text }
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handler panicked: {}", self.text)
    }
}

impl core::error::Error for Panicked {}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::entity::host::run_now;

    #[test]
    fn a_panic_ends_the_handler_and_nothing_else() {
        let said = run_now(CatchUnwind.run(async { panic!("out of {}", "range") }));
        let said: Result<(), Panicked> = said.expect("it does not wait");
        assert_eq!(said.expect_err("it panicked").text, "out of range");
    }

    #[test]
    fn a_handler_that_does_not_panic_is_left_alone() {
        assert_eq!(run_now(CatchUnwind.run(async { 4 })), Some(Ok(4)));
        assert_eq!(run_now(Unguarded.run(async { 4 })), Some(Ok(4)));
        assert_eq!(run_now(CatchUnwind.run(core::future::pending::<()>())), None);
    }
}
