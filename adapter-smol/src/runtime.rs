//! Tasks, sleeps and sockets of smol.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use shard_core::hub::{Event, Level, Read, Runtime, Socket, Write};
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use smol::{Async, Executor, Timer, future};

/// A smol executor.
#[derive(Clone, Debug)]
pub struct Smol {
    executor: Arc<Executor<'static>>,
    threads: usize,
}

impl Smol {
    /// An executor of the application's, which drives it with `threads` threads.
    #[must_use]
    pub const fn new(executor: Arc<Executor<'static>>, threads: usize) -> Self {
        Self { executor, threads }
    }
}

impl Default for Smol {
    /// The executor of this crate: as many threads as processors, shared by all nodes of the process.
    fn default() -> Self {
        static SHARED: OnceLock<Smol> = OnceLock::new();
        SHARED
            .get_or_init(|| {
                let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                let executor = Arc::new(Executor::new());
                for number in 0..threads {
                    let executor = Arc::clone(&executor);
                    let work = move || smol::block_on(executor.run(future::pending::<()>()));
                    let started = std::thread::Builder::new().name(format!("shard-smol-{number}")).spawn(work);
                    assert!(started.is_ok(), "the system starts threads");
                }
                Self { executor, threads }
            })
            .clone()
    }
}

impl Runtime for Smol {
    type Socket = Tcp;
    type Listener = TcpListener;

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(task).detach();
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + 'static {
        let timer = Timer::after(span);
        async move {
            timer.await;
        }
    }

    async fn connect(&self, address: &str) -> io::Result<Tcp> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Tcp(stream))
    }

    fn listen(&self, listener: std::net::TcpListener) -> io::Result<TcpListener> {
        Async::new(listener).map(TcpListener::from)
    }

    async fn accept(listener: &TcpListener) -> io::Result<(Tcp, SocketAddr)> {
        let (stream, from) = listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok((Tcp(stream), from))
    }

    fn log(&self, event: &Event) {
        match event.level() {
            Level::Detail => tracing::debug!("{event}"),
            Level::Change => tracing::info!("{event}"),
            Level::Trouble => tracing::warn!("{event}"),
        }
    }

    fn workers(&self) -> usize {
        self.threads
    }
}

/// A TCP connection, or one direction of it.
#[derive(Clone, Debug)]
pub struct Tcp(TcpStream);

impl Socket for Tcp {
    type Reader = Self;
    type Writer = Self;

    fn split(self) -> (Self, Self) {
        (self.clone(), self)
    }
}

impl Read for Tcp {
    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).await
    }
}

impl Write for Tcp {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        AsyncWriteExt::write_all(&mut self.0, bytes).await
    }
}
