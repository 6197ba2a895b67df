//! Wakes one task that waits for work.

use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// A flag with one waiter. Ringing an already rung bell costs one atomic read-modify-write.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: AtomicBool,
    waiter: Mutex<Option<Waker>>,
}

impl Bell {
    pub(super) fn ring(&self) {
        // The look before the swap keeps the line shared while the waiter is at work.
        if self.rung.load(Ordering::Acquire) || self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let waiter = self.waiter.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(waker) = waiter {
            waker.wake();
        }
    }

    /// Waits until it rings, and silences it.
    pub(super) async fn wait(&self) {
        poll_fn(|cx| {
            if self.rung.swap(false, Ordering::AcqRel) {
                return Poll::Ready(());
            }
            *self.waiter.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(cx.waker().clone());
            if self.rung.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
