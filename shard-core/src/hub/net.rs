//! The tasks that move bytes: one per peer that writes, one per accepted connection that reads.

use std::format;
use std::string::{String, ToString};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::vec::Vec;

use super::clock;
use super::events::Event;
use super::inbox::ReceiptItem;
use super::peers::{Batch, Peer};
use super::runtime::{Either, Read, Runtime, Socket, Write, race, timeout};
use super::shared::{DataFrame, Shared, count, lock};
use crate::entity::Reason;
use crate::id::NodeKey;
use crate::node;
use crate::wire::frame::{self, Decoder, End, Frame, FrameLimits};
use crate::wire::link::{Arrival, Confirmed, Hello, ReceiverOrder, SenderOrder, Welcome};
use crate::wire::{ReplyFate, Stream, StreamRef, codec};

/// A dial, and each half of a handshake, takes no longer.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// A connection that says nothing for so long is closed; a living peer pings each second.
const SILENCE: Duration = Duration::from_secs(6);
/// Connections that have not introduced themselves yet, at most.
const STRANGERS: usize = 256;

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
            Ok(line) => {
                talk(&shared, &runtime, &peer, line).await;
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
struct Line<R: Runtime> {
    reader: <R::Socket as Socket>::Reader,
    writer: <R::Socket as Socket>::Writer,
    decoder: Decoder,
    connection: u64,
}

/// Dials and shakes hands. On success the link counts the connection as its own.
async fn dial<R: Runtime>(shared: &Arc<Shared>, runtime: &R, peer: &Arc<Peer>) -> Result<Line<R>, String> {
    let (address, known) = {
        let state = lock(&peer.state);
        (state.address.clone(), state.link.peer())
    };
    let address = address.ok_or_else(|| "no address".to_string())?;
    let connected = timeout(runtime, HANDSHAKE, runtime.connect(&address)).await;
    let socket = connected.ok_or("no answer")?.map_err(|error| error.to_string())?;
    let (mut reader, mut writer) = socket.split();
    let hello = shared.peers.identity.hello(known);
    let mut bytes = Vec::new();
    frame::write_hello(&mut bytes, &hello);
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
    let welcome = match shaken.await.unwrap_or_else(|| Err("no welcome in time".to_string())) {
        Ok(welcome) => {
            decoder.open();
            welcome
        }
        Err(why) => {
            if why.starts_with("refused") {
                shared.emit(Event::PeerRefused { address, why: why.clone() });
            }
            return Err(why);
        }
    };
    let connection = shared.peers.next_connection();
    welcomed(shared, peer, connection, welcome)?;
    Ok(Line { reader, writer, decoder, connection })
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
async fn talk<R: Runtime>(shared: &Arc<Shared>, runtime: &R, peer: &Arc<Peer>, line: Line<R>) {
    let Line { reader, mut writer, decoder, connection } = line;
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
            state.take_control(&mut control);
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
    peer.closed();
    lock(&peer.state).link.disconnected(clock::now(), connection);
    peer.bell.ring();
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

/// Accepts connections for as long as the node runs.
pub(super) async fn accept<R: Runtime>(shared: Arc<Shared>, runtime: R, listener: R::Listener) {
    let strangers = Arc::new(AtomicUsize::new(0));
    while !shared.is_stopped() {
        let accepted = match race(R::accept(&listener), runtime.sleep(Duration::from_secs(1))).await {
            Either::Left(accepted) => accepted,
            Either::Right(()) => continue,
        };
        let Ok((socket, from)) = accepted else {
            // Out of descriptors, most likely: give the others time to end.
            runtime.sleep(Duration::from_millis(50)).await;
            continue;
        };
        if strangers.fetch_add(1, Ordering::AcqRel) >= STRANGERS {
            strangers.fetch_sub(1, Ordering::AcqRel);
            refused(&shared, from.to_string(), "too many connections wait to introduce themselves".to_string());
            continue;
        }
        let (shared, strangers) = (Arc::clone(&shared), Arc::clone(&strangers));
        let own = runtime.clone();
        runtime.spawn(async move {
            let (reader, writer) = socket.split();
            let address = from.to_string();
            let mut inbound = Inbound::<R> {
                shared,
                runtime: own,
                reader,
                writer,
                decoder: Decoder::new(End::Answerer, FrameLimits::default()),
            };
            let greeted = inbound.greet().await;
            strangers.fetch_sub(1, Ordering::AcqRel);
            let why = match greeted {
                Ok(guest) => {
                    let why = inbound.listen(&guest).await;
                    lock(&guest.peer.receiver).disconnected(guest.connection);
                    why
                }
                Err(why) => Some(why),
            };
            if let Some(why) = why {
                refused(&inbound.shared, address, why);
            }
        });
    }
}

fn refused(shared: &Shared, address: String, why: String) {
    count(&shared.tallies.peers_refused, 1);
    shared.emit(Event::PeerRefused { address, why });
}

/// Who introduced itself on an accepted connection. Its address counts once it is confirmed: a `Hello` may be read long
/// after its process died.
struct Guest {
    peer: Arc<Peer>,
    from: NodeKey,
    address: String,
    connection: u64,
}

/// One accepted connection.
struct Inbound<R: Runtime> {
    shared: Arc<Shared>,
    runtime: R,
    reader: <R::Socket as Socket>::Reader,
    writer: <R::Socket as Socket>::Writer,
    decoder: Decoder,
}

impl<R: Runtime> Inbound<R> {
    /// The handshake, in bounded time and memory.
    async fn greet(&mut self) -> Result<Guest, String> {
        let runtime = self.runtime.clone();
        timeout(&runtime, HANDSHAKE, self.shake_hands())
            .await
            .unwrap_or_else(|| Err("did not introduce itself in time".to_string()))
    }

    async fn shake_hands(&mut self) -> Result<Guest, String> {
        match self.introduction().await {
            Ok(hello) => self.admit(hello).await,
            Err(why) => Err(self.refuse(why).await),
        }
    }

    async fn introduction(&mut self) -> Result<Hello, String> {
        loop {
            match self.decoder.next_frame().map_err(|error| error.to_string())? {
                Some(Frame::Hello(hello)) => return Ok(hello),
                Some(_) => return Err("spoke before it introduced itself".to_string()),
                None => {}
            }
            match self.reader.read(self.decoder.spare()).await {
                Ok(0) => return Err("closed before it introduced itself".to_string()),
                Ok(read) => self.decoder.filled(read),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Tells the stranger why, if it still listens.
    async fn refuse(&mut self, why: String) -> String {
        let mut bytes = Vec::new();
        frame::write_refused(&mut bytes, &why);
        let _ = self.writer.write_all(&bytes).await;
        why
    }

    async fn admit(&mut self, hello: Hello) -> Result<Guest, String> {
        let connection = self.shared.peers.next_connection();
        let mut bytes = Vec::new();
        let identity = &self.shared.peers.identity;
        let admitted = identity.admit(&hello).and_then(|()| {
            let peer = self.shared.peers.of(hello.from.id);
            let welcome = lock(&peer.receiver).hello(identity, connection, &hello)?;
            Ok((peer, welcome))
        });
        match admitted {
            Ok((peer, welcome)) => {
                frame::write_welcome(&mut bytes, &welcome);
                self.decoder.open();
                self.writer.write_all(&bytes).await.map_err(|error| error.to_string())?;
                Ok(Guest { peer, from: hello.from, address: hello.address, connection })
            }
            Err(refusal) => Err(self.refuse(refusal.to_string()).await),
        }
    }

    /// Reads frames until the connection ends; `Some(why)` if the peer is at fault.
    async fn listen(&mut self, guest: &Guest) -> Option<String> {
        let Guest { peer, connection, .. } = guest;
        let connection = *connection;
        loop {
            match self.read_all(guest) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(why) => return Some(why),
            }
            let ack = lock(&peer.receiver).expire(clock::now());
            match ack {
                Some(ReceiverOrder::Ack { connection: on, upto }) if on == connection => {
                    let mut bytes = Vec::new();
                    frame::write_ack(&mut bytes, upto);
                    if self.writer.write_all(&bytes).await.is_err() {
                        return None;
                    }
                }
                Some(ReceiverOrder::Close { connection: on }) if on == connection => return None,
                _ => {}
            }
            if self.shared.is_stopped() {
                return None;
            }
            match timeout(&self.runtime, SILENCE, self.reader.read(self.decoder.spare())).await {
                None if self.decoder.is_within_frame() => {
                    return Some("stopped in the middle of a frame".to_string());
                }
                None | Some(Ok(0) | Err(_)) => return None,
                Some(Ok(read)) => self.decoder.filled(read),
            }
        }
    }

    /// Works off what the decoder holds. `Ok(false)`: the connection is of no use any more.
    fn read_all(&mut self, guest: &Guest) -> Result<bool, String> {
        let Guest { peer, from, address, connection } = guest;
        let (from, connection, now) = (*from, *connection, clock::now());
        let mut receiver = lock(&peer.receiver);
        let mut bulk = false;
        while let Some(frame) = self.decoder.next_frame().map_err(|error| error.to_string())? {
            match receiver.confirm(now, connection) {
                Confirmed::Already => {}
                Confirmed::Stale => return Ok(false),
                Confirmed::Opened { gone, .. } => {
                    if let Some(gone) = gone {
                        // Our own link is over as well. Left to itself it would notice at its next handshake, which may
                        // never come: what the coordinator says to the new life is not for the old one's link.
                        self.shared.end_life(peer, gone);
                    }
                    self.shared.peers.reach(from.id, address);
                    self.shared.input(node::Input::Met { node: from, address: address.clone() });
                }
            }
            match frame {
                Frame::Ping => receiver.ping(now, connection),
                Frame::Control(bytes) => {
                    receiver.hear(now, connection);
                    let message = codec::decode_control(bytes).map_err(|error| error.to_string())?;
                    let to = self.shared.me;
                    self.shared.input(node::Input::Heard { from, to, message });
                }
                Frame::Message { seq, bytes } => {
                    bulk = true;
                    // Before the link counts it as here: else it would be lost in silence with the connection.
                    let message = codec::decode(bytes).map_err(|error| error.to_string())?;
                    match receiver.frame(now, connection, seq) {
                        Arrival::Deliver => {
                            if !deliver(&self.shared, from, message) {
                                receiver.give_back(seq);
                                return Err("more messages wait for a lane than it may hold".to_string());
                            }
                        }
                        Arrival::Duplicate => {}
                        Arrival::Gap => return Err(format!("frame {seq} came after a gap")),
                        Arrival::Stale => return Ok(false),
                    }
                }
                Frame::Hello(_) | Frame::Welcome(_) | Frame::Refused(_) | Frame::Ack { .. } => {
                    return Err("a frame out of place".to_string());
                }
            }
        }
        if bulk {
            // One ack for all that one read brought.
            receiver.ping(now, connection);
        }
        Ok(true)
    }
}

/// Hands a stream message to the lane it concerns. False: the lane can hold no more.
fn deliver(shared: &Shared, from: NodeKey, message: StreamRef<'_>) -> bool {
    let key = message.key();
    let shard = key.shard;
    let Some(door) = shared.door(key.kind) else {
        if let Stream::Data { token, attempt, .. } = message {
            // No such type here (any more): nothing of it is owned, and the sender must look again.
            let peer = shared.peers.of(from.id);
            let refusal = Stream::Refuse { key, token, attempt, draining: false, hint: None };
            peer.bulk(from, |out| codec::encode(out, &refusal));
        }
        return true;
    };
    match message {
        Stream::Data { token, attempt, seq, first, ask, entity, body: (tag, body), .. } => {
            return door.data(from, DataFrame { shard, token, attempt, seq, first, ask, entity, tag, body });
        }
        Stream::Taken { token, upto, .. } => door.receipt(shard, ReceiptItem::Taken { from, shard, token, upto }),
        Stream::Closed { token, upto, beyond, .. } => {
            door.receipt(shard, ReceiptItem::Closed { from, shard, token, upto, beyond });
        }
        Stream::Refuse { token, attempt, draining, hint, .. } => {
            door.receipt(shard, ReceiptItem::Refuse { from, shard, token, attempt, draining, hint });
        }
        Stream::Rejected { token, seq, reason, tag, .. } => {
            let reason = Reason::from_wire(reason, tag);
            door.receipt(shard, ReceiptItem::Rejected { from, shard, token, seq, reason });
        }
        Stream::Reply { seq, fate, .. } => {
            let answer = match fate {
                ReplyFate::Answer((_, bytes)) => Some(bytes.to_vec()),
                ReplyFate::Ended => None,
            };
            door.receipt(shard, ReceiptItem::Reply { from, shard, seq, answer });
        }
    }
    true
}
