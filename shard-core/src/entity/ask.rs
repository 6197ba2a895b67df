//! A question under way.

use alloc::sync::Arc;
use core::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use futures_channel::oneshot;

use super::{Accepts, Alarm, AskError, AskFailure, NoReply, Refused, Route};
use crate::time::{Duration, Instant, nanos};

/// A question that is on its way: await it for the answer.
///
/// It ends at its deadline at the latest, by the host's clock. Dropping it gives up the answer; the question may run all
/// the same.
#[must_use = "the question is on its way; await it for the answer, or use `tell`"]
pub struct Ask<M: Accepts<Q>, Q>(State<M, Q>);

type Answer<R> = oneshot::Receiver<Result<R, AskFailure>>;

enum State<M: Accepts<Q>, Q> {
    Refused(Refused<Q>),
    /// The limit is in nanoseconds, which keeps the future small.
    Waiting {
        answer: Answer<M::Reply>,
        deadline: Deadline<M>,
        limit: u64,
    },
    Done,
}

impl<M: Accepts<Q>, Q> Ask<M, Q> {
    pub(super) fn waiting(answer: Answer<M::Reply>, deadline: Deadline<M>, limit: Duration) -> Self {
        Self(State::Waiting { answer, deadline, limit: nanos(limit) })
    }

    pub(super) fn refused(refused: Refused<Q>) -> Self {
        Self(State::Refused(refused))
    }
}

// Nothing in it is ever pinned.
impl<M: Accepts<Q>, Q> Unpin for Ask<M, Q> {}

impl<M: Accepts<Q>, Q> Future for Ask<M, Q> {
    type Output = Result<M::Reply, AskError<Q>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Waiting { answer, deadline, limit } = &mut self.0 {
            // The answer first: one that arrives with the deadline counts.
            let outcome = match Pin::new(answer).poll(cx) {
                Poll::Ready(Ok(answer)) => answer.map_err(AskError::from),
                Poll::Ready(Err(oneshot::Canceled)) => Err(AskError::NoReply(NoReply::Ended)),
                Poll::Pending => {
                    if deadline.poll_passed(cx.waker()).is_pending() {
                        return Poll::Pending;
                    }
                    Err(AskError::NoReply(NoReply::Expired { after: Duration::from_nanos(*limit) }))
                }
            };
            self.0 = State::Done;
            return Poll::Ready(outcome);
        }
        match mem::replace(&mut self.0, State::Done) {
            State::Refused(refused) => Poll::Ready(Err(AskError::Refused(refused))),
            _ => panic!("an `Ask` was polled after it had ended"),
        }
    }
}

impl<M: Accepts<Q>, Q> fmt::Debug for Ask<M, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Refused(_) => "Ask(refused)",
            State::Waiting { .. } => "Ask(waiting)",
            State::Done => "Ask(done)",
        })
    }
}

/// A moment on a route's clock, and the alarm set for it.
pub(super) struct Deadline<M> {
    route: Arc<dyn Route<M>>,
    at: Instant,
    alarm: Alarm,
}

impl<M> Deadline<M> {
    pub(super) fn new(route: Arc<dyn Route<M>>, at: Instant) -> Self {
        Self { route, at, alarm: Alarm::NONE }
    }

    /// Ready once the moment has come; else `waker`, and no earlier one, is woken then.
    pub(super) fn poll_passed(&mut self, waker: &Waker) -> Poll<()> {
        if self.at == Instant::NEVER {
            return Poll::Pending;
        }
        self.forget();
        if self.route.now() >= self.at {
            return Poll::Ready(());
        }
        self.alarm = self.route.wake_at(self.at, waker);
        Poll::Pending
    }

    fn forget(&mut self) {
        let alarm = mem::replace(&mut self.alarm, Alarm::NONE);
        if alarm != Alarm::NONE {
            self.route.forget(alarm);
        }
    }
}

impl<M> Drop for Deadline<M> {
    fn drop(&mut self) {
        self.forget();
    }
}
