//! The dialling end of links: one task per peer that writes, and one per connection of ours that reads its acks. The
//! answering end is in `inbound`.

use std::format;
use std::string::{String, ToString};
use std::sync::Arc;
use std::time::Duration;
use std::vec::Vec;

use super::aside;
use super::clock;
use super::events::Event;
use super::peers::{Batch, Peer};
use super::runtime::{Either, Read, Runtime, Socket, Write, race, timeout};
use super::shared::{Shared, lock};
use crate::wire::frame::{self, Decoder, End, Frame, FrameLimits};
use crate::wire::link::{Hello, SenderOrder, Welcome};

/// A dial, and each half of a handshake, takes no longer.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(3);
/// A connection that says nothing for so long is closed; a living peer pings each second.
pub(super) const SILENCE: Duration = Duration::from_secs(6);

/// Talks to one peer for as long as the node runs.
pub(super) async fn write_to<R: Runtime>(shared: Arc<Shared>, runtime: R, peer: Arc<Peer>) {
    while !shared.is_stopped() {
        let (order, deadline) = {
            let mut state = lock(&peer.state);
            if state.has_work() || peer.is_owed() {
                (state.link.expire(clock::now()), Some(state.link.deadline()))
            } else {
                (None, None)
            }
        };
        if order != Some(SenderOrder::Dial) {
            match deadline {
                Some(at) => {
                    let span = at.since(clock::now()).max(Duration::from_millis(1));
                    race(peer.bell.wait(), runtime.sleep(span)).await;
                }
                None => peer.bell.wait().await,
            }
            continue;
        }
        let failed = match dial(&shared, &runtime, &peer).await {
            Ok((line, connection)) => {
                let own = talk(&shared, &runtime, &peer, line, connection);
                race(own, aside::serve(&shared, &runtime, &peer, connection)).await;
                peer.closed();
                {
                    let mut state = lock(&peer.state);
                    state.aside = false;
                    state.link.disconnected(clock::now(), connection);
                }
                peer.bell.ring();
                None
            }
            Err(why) => Some(why),
        };
        let mut state = lock(&peer.state);
        if failed.is_some() {
            state.link.failed(clock::now());
            state.forget_control();
            if state.link.is_doubtful() && !std::mem::replace(&mut state.doubtful, true) {
                let node = state.link.peer();
                drop(state);
                if let Some(node) = node {
                    shared.link(node, false);
                }
            }
        }
    }
}

/// A connection of our own, after the handshake.
pub(super) struct Line<R: Runtime> {
    pub(super) reader: <R::Socket as Socket>::Reader,
    pub(super) writer: <R::Socket as Socket>::Writer,
    pub(super) decoder: Decoder,
}

/// Dials and shakes hands. On success the link counts the connection, which has a number, as its own.
async fn dial<R: Runtime>(shared: &Arc<Shared>, runtime: &R, peer: &Arc<Peer>) -> Result<(Line<R>, u64), String> {
    let (address, known) = {
        let state = lock(&peer.state);
        (state.address.clone(), state.link.peer())
    };
    let address = address.ok_or_else(|| "no address".to_string())?;
    let (line, welcome) =
        shake_hands(runtime, &address, &shared.peers.identity.hello(known)).await.inspect_err(|why| {
            if why.starts_with("refused") {
                shared.emit(Event::PeerRefused { address: address.clone(), why: why.clone() });
            }
        })?;
    let connection = shared.peers.next_connection();
    welcomed(shared, peer, connection, welcome)?;
    Ok((line, connection))
}

/// Dials and shakes hands, each in bounded time.
pub(super) async fn shake_hands<R: Runtime>(
    runtime: &R,
    address: &str,
    hello: &Hello,
) -> Result<(Line<R>, Welcome), String> {
    let connected = timeout(runtime, HANDSHAKE, runtime.connect(address)).await;
    let socket = connected.ok_or("no answer")?.map_err(|error| error.to_string())?;
    let (mut reader, mut writer) = socket.split();
    let mut bytes = Vec::new();
    frame::write_hello(&mut bytes, hello);
    let mut decoder = Decoder::new(End::Dialler, FrameLimits::default());
    let shaken = timeout(runtime, HANDSHAKE, async {
        writer.write_all(&bytes).await.map_err(|error| error.to_string())?;
        loop {
            let read = reader.read(decoder.spare()).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("closed during the handshake".to_string());
            }
            decoder.filled(read);
            match decoder.next_frame().map_err(|error| error.to_string())? {
                Some(Frame::Welcome(welcome)) => return Ok(welcome),
                Some(Frame::Refused(why)) => return Err(format!("refused: {why}")),
                Some(_) => return Err("an answer that is no welcome".to_string()),
                None => {}
            }
        }
    });
    let welcome = shaken.await.unwrap_or_else(|| Err("no welcome in time".to_string()))?;
    decoder.open();
    Ok((Line { reader, writer, decoder }, welcome))
}

/// The peer said who it is.
fn welcomed(shared: &Arc<Shared>, peer: &Arc<Peer>, connection: u64, welcome: Welcome) -> Result<(), String> {
    let (gone, other, up) = {
        let mut state = lock(&peer.state);
        if welcome.node.id != peer.id {
            return Err(format!("{} answers where {} was expected", welcome.node, peer.id));
        }
        let gone = state.link.connected(clock::now(), connection, welcome).map_err(|fault| fault.to_string())?;
        if gone.is_some() {
            state.pair_over();
        }
        let other = state.met(welcome.node);
        let gone = gone.map(|gone| gone.old);
        for node in gone.into_iter().chain(other).filter(|node| *node != welcome.node) {
            state.is_over(node);
        }
        peer.measure(&state);
        let up = std::mem::replace(&mut state.doubtful, false);
        (gone, other, up)
    };
    // Frames to a life that is over may have run or not; the streams know which were sent.
    for node in gone.into_iter().chain(other) {
        shared.peer_gone(node);
    }
    if up {
        shared.link(welcome.node, true);
    }
    if peer.opened(welcome.node) {
        shared.room(welcome.node);
    }
    Ok(())
}

/// Writes to a connection until it breaks, while a second task reads the acks.
async fn talk<R: Runtime>(shared: &Arc<Shared>, runtime: &R, peer: &Arc<Peer>, line: Line<R>, connection: u64) {
    let Line { reader, mut writer, decoder } = line;
    runtime.spawn(read_acks(Arc::clone(shared), runtime.clone(), Arc::clone(peer), (reader, decoder), connection));
    let mut control = Vec::new();
    let mut head = Vec::new();
    frame::write_ping(&mut control);
    let mut broken = writer.write_all(&control).await.is_err();
    while !broken && !shared.is_stopped() {
        // One round: all control frames, then one batch.
        let (batch, order, deadline) = {
            let mut state = lock(&peer.state);
            if state.link.connection() != Some(connection) {
                break;
            }
            if !state.aside {
                state.take_control(&mut control);
            } else {
                control.clear();
            }
            state.seal();
            let acknowledged = state.link.acknowledged();
            let batch = state.link.write(connection).map(|(first, batch)| {
                // After a reconnect the peer may have the front of a batch already. Writing it again from its beginning
                // could go on for ever, on connections that never live for a whole batch.
                let known = (acknowledged + 1).saturating_sub(first);
                (first + known, frame::skip(&batch.bytes, known), batch.clone())
            });
            let order = state.link.expire(clock::now());
            (batch, order, state.link.deadline())
        };
        match order {
            Some(SenderOrder::Close { .. }) => break,
            Some(SenderOrder::Ping { .. }) => {
                frame::write_ping(&mut control);
            }
            Some(SenderOrder::Dial) | None => {}
        }
        let idle = control.is_empty() && batch.is_none();
        if !control.is_empty() {
            broken = !write(runtime, peer, connection, &mut writer, &control).await;
        }
        if let (false, Some((first, from, batch))) = (broken, &batch) {
            head.clear();
            frame::write_batch(&mut head, *first);
            broken = !write(runtime, peer, connection, &mut writer, &head).await
                || !write(runtime, peer, connection, &mut writer, &batch.bytes[*from..]).await;
        }
        if idle {
            let span = deadline.since(clock::now()).max(Duration::from_millis(1));
            race(peer.bell.wait(), runtime.sleep(span)).await;
        }
    }
}

/// Writes all of `bytes`, unless the peer falls silent meanwhile: one that does not read any more must not keep this task
/// from dialling its next life. False: the connection is of no use any more.
async fn write<R: Runtime>(
    runtime: &R,
    peer: &Peer,
    connection: u64,
    writer: &mut <R::Socket as Socket>::Writer,
    bytes: &[u8],
) -> bool {
    let mut written = std::pin::pin!(writer.write_all(bytes));
    loop {
        match race(written.as_mut(), runtime.sleep(Duration::from_secs(1))).await {
            Either::Left(result) => return result.is_ok(),
            Either::Right(()) => {
                let mut state = lock(&peer.state);
                if state.link.connection() != Some(connection) {
                    return false;
                }
                // A ping that is due would wait behind this; the bytes themselves are acknowledged as well.
                if let Some(SenderOrder::Close { .. }) = state.link.expire(clock::now()) {
                    return false;
                }
            }
        }
    }
}

/// Reads what the answering end of our own connection says: acks.
async fn read_acks<R: Runtime>(
    shared: Arc<Shared>,
    runtime: R,
    peer: Arc<Peer>,
    (mut reader, mut decoder): (<R::Socket as Socket>::Reader, Decoder),
    connection: u64,
) {
    'reading: loop {
        let mut upto = None;
        loop {
            match decoder.next_frame() {
                Ok(Some(Frame::Ack { upto: new })) => upto = Some(new),
                Ok(None) => break,
                _ => break 'reading,
            }
        }
        if let Some(upto) = upto {
            let mut state = lock(&peer.state);
            let mut done: Vec<Batch> = Vec::new();
            if state.link.acked(clock::now(), connection, upto, &mut done).is_err() {
                break;
            }
            done.into_iter().for_each(|batch| state.recycle(batch));
            let room = if peer.look_whether_full(&state) { state.link.peer() } else { None };
            drop(state);
            if let Some(node) = room {
                shared.room(node);
            }
        }
        // A living peer answers a ping each second. A dead host says nothing, not even that it is dead.
        match timeout(&runtime, SILENCE, reader.read(decoder.spare())).await {
            None | Some(Ok(0) | Err(_)) => break,
            Some(Ok(read)) => decoder.filled(read),
        }
    }
    lock(&peer.state).link.disconnected(clock::now(), connection);
    peer.bell.ring();
}
