//! Tasks, sleeps and sockets of tokio.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use shard_core::hub::{Event, Level, Read, Runtime, Socket, Write};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// A tokio runtime, by its handle.
#[derive(Clone, Debug)]
pub struct Tokio(Handle);

impl Tokio {
    /// The runtime behind `handle`.
    #[must_use]
    pub const fn new(handle: Handle) -> Self {
        Self(handle)
    }
}

impl Default for Tokio {
    /// The runtime that this is called on.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    fn default() -> Self {
        Self(Handle::current())
    }
}

impl Runtime for Tokio {
    type Socket = Tcp;
    type Listener = TcpListener;

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(task));
    }

    /// A lane is one task for many entities and yields by itself: under the cooperative budget, handlers that await ready
    /// tokio resources would be sent off the lane for nothing.
    fn spawn_lane(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(tokio::task::unconstrained(task)));
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + 'static {
        let _entered = self.0.enter();
        tokio::time::sleep(span)
    }

    async fn connect(&self, address: &str) -> io::Result<Tcp> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Tcp(stream))
    }

    fn listen(&self, listener: std::net::TcpListener) -> io::Result<TcpListener> {
        let _entered = self.0.enter();
        TcpListener::from_std(listener)
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
        self.0.metrics().num_workers()
    }
}

/// A TCP connection.
#[derive(Debug)]
pub struct Tcp(TcpStream);

impl Socket for Tcp {
    type Reader = Reader;
    type Writer = Writer;

    fn split(self) -> (Reader, Writer) {
        let (reader, writer) = self.0.into_split();
        (Reader(reader), Writer(writer))
    }
}

/// Its reading half.
#[derive(Debug)]
pub struct Reader(OwnedReadHalf);

impl Read for Reader {
    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).await
    }
}

/// Its writing half.
#[derive(Debug)]
pub struct Writer(OwnedWriteHalf);

impl Write for Writer {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        AsyncWriteExt::write_all(&mut self.0, bytes).await
    }
}
