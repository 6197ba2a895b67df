//! What an executor's adapter supplies: spawn, sleep, sockets. Nothing else of the system is written twice.

use std::boxed::Box;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use super::events::Event;

/// An executor with a network. Cloned freely; every method is cheap.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// A TCP connection.
    type Socket: Socket;
    /// A bound TCP listener.
    type Listener: Send + Sync + 'static;

    /// Runs a task to its end, in the background.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Runs a lane: a task that yields by itself and must not be made to wait for the executor's fairness budget.
    fn spawn_lane(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn(task);
    }

    /// Ends after `span`, give or take the executor's granularity.
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + 'static;

    /// Dials `address` (`host:port`).
    fn connect(&self, address: &str) -> impl Future<Output = io::Result<Self::Socket>> + Send;

    /// Takes over a bound listener.
    ///
    /// # Errors
    /// Those of the system.
    fn listen(&self, listener: std::net::TcpListener) -> io::Result<Self::Listener>;

    /// The next connection.
    fn accept(listener: &Self::Listener) -> impl Future<Output = io::Result<(Self::Socket, SocketAddr)>> + Send;

    /// Writes an event to the log; nothing, unless the adapter has one.
    fn log(&self, event: &Event) {
        let _ = event;
    }

    /// How many workers the executor has, for the number of lanes.
    fn workers(&self) -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    }
}

/// One TCP connection, used by one reading and one writing task.
pub trait Socket: Send + 'static {
    /// The reading half.
    type Reader: Read;
    /// The writing half.
    type Writer: Write;

    /// Splits it.
    fn split(self) -> (Self::Reader, Self::Writer);
}

/// Reads.
pub trait Read: Send + 'static {
    /// Reads what has arrived into the front of `into` and says how much; 0 at the end of the stream.
    fn read(&mut self, into: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
}

/// Writes.
pub trait Write: Send + 'static {
    /// Writes all of `bytes`.
    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

/// Whichever of two futures ends first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// Waits for the first of two futures; the left one is looked at first.
pub async fn race<A: Future, B: Future>(left: A, right: B) -> Either<A::Output, B::Output> {
    let mut left = std::pin::pin!(left);
    let mut right = std::pin::pin!(right);
    std::future::poll_fn(|cx| {
        if let std::task::Poll::Ready(value) = left.as_mut().poll(cx) {
            return std::task::Poll::Ready(Either::Left(value));
        }
        right.as_mut().poll(cx).map(Either::Right)
    })
    .await
}

/// `future`, unless `span` passes first.
pub async fn timeout<R: Runtime, F: Future>(runtime: &R, span: Duration, future: F) -> Option<F::Output> {
    match race(future, runtime.sleep(span)).await {
        Either::Left(value) => Some(value),
        Either::Right(()) => None,
    }
}

/// Gives other tasks of the worker a turn.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// A future of unknown type.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
