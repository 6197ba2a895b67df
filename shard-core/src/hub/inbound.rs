//! The answering end of links: one task that accepts, and one per accepted connection that reads.

use std::format;
use std::string::{String, ToString};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::vec::Vec;

use super::clock;
use super::deliver::deliver;
use super::events::Event;
use super::net::{HANDSHAKE, SILENCE};
use super::peers::{BATCH_BYTES, Peer};
use super::runtime::{Either, Read, Runtime, Socket, Write, race, timeout};
use super::shared::{Shared, count, lock};
use crate::id::NodeKey;
use crate::node;
use crate::wire::codec;
use crate::wire::frame::{self, Decoder, End, Frame, FrameLimits};
use crate::wire::link::{Arrival, Confirmed, Hello, ReceiverOrder};

/// Connections that have not introduced themselves yet, at most.
const STRANGERS: usize = 256;

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
                holds: 0,
                confirmed: false,
            };
            let greeted = inbound.greet().await;
            strangers.fetch_sub(1, Ordering::AcqRel);
            let why = match greeted {
                Ok(guest) => {
                    let why = match guest.aside {
                        false => inbound.listen(&guest).await,
                        true => inbound.listen_aside(&guest).await,
                    };
                    lock(&guest.peer.receiver).disconnected(guest.connection);
                    inbound.shared.peers.forget_stranger(guest.peer);
                    inbound.held(0);
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
    /// The connection is one beside that of its link.
    aside: bool,
}

/// One accepted connection.
struct Inbound<R: Runtime> {
    shared: Arc<Shared>,
    runtime: R,
    reader: <R::Socket as Socket>::Reader,
    writer: <R::Socket as Socket>::Writer,
    decoder: Decoder,
    /// Bytes of frames whose rest has not come, as counted in [`Shared::half_frames`].
    holds: usize,
    /// It spoke after its introduction, so it has read ours.
    confirmed: bool,
}

/// Bytes of half frames, of all connections: a peer that sends more of them than this needs no more of our memory.
const HALF_FRAMES: usize = 64 << 20;

impl<R: Runtime> Inbound<R> {
    /// Counts what the decoder holds; what all of them hold.
    fn held(&mut self, bytes: usize) -> usize {
        let before = std::mem::replace(&mut self.holds, bytes);
        let change = bytes.wrapping_sub(before);
        self.shared.half_frames.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }

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
        let admitted = self.shared.peers.admit(&hello).and_then(|peer| {
            let mut receiver = lock(&peer.receiver);
            let welcome = match hello.aside {
                false => receiver.hello(identity, connection, &hello)?,
                true => receiver.aside(identity, &hello)?,
            };
            drop(receiver);
            if hello.aside {
                peer.aside_from.store(connection, Ordering::Relaxed);
            }
            Ok((peer, welcome))
        });
        match admitted {
            Ok((peer, welcome)) => {
                frame::write_welcome(&mut bytes, &welcome);
                self.decoder.open();
                self.writer.write_all(&bytes).await.map_err(|error| error.to_string())?;
                Ok(Guest { peer, from: hello.from, address: hello.address, connection, aside: hello.aside })
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
            if !self.is_within_bounds() {
                return Some("too many connections stopped in the middle of a frame".to_string());
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
                None if !self.confirmed => {
                    return Some("said nothing after its introduction".to_string());
                }
                None | Some(Ok(0) | Err(_)) => return None,
                Some(Ok(read)) => self.decoder.filled(read),
            }
        }
    }

    /// The same where only control frames come, and pings, which are answered at once.
    async fn listen_aside(&mut self, guest: &Guest) -> Option<String> {
        loop {
            let mut pinged = false;
            loop {
                match self.decoder.next_frame() {
                    Ok(Some(Frame::Ping)) => pinged = true,
                    Ok(Some(Frame::Control(bytes))) => match codec::decode_control(bytes) {
                        // A later life of the node may be here by now.
                        Ok(_) if lock(&guest.peer.receiver).peer() != Some(guest.from) => return None,
                        Ok(message) => self.shared.heard(guest.from, message, bytes.len()),
                        Err(error) => return Some(error.to_string()),
                    },
                    Ok(Some(_)) => return Some("a frame out of place".to_string()),
                    Ok(None) => break,
                    Err(error) => return Some(error.to_string()),
                }
            }
            if !self.is_within_bounds() {
                return Some("too many connections stopped in the middle of a frame".to_string());
            }
            if pinged {
                let mut bytes = Vec::new();
                frame::write_ack(&mut bytes, 0);
                if !matches!(timeout(&self.runtime, HANDSHAKE, self.writer.write_all(&bytes)).await, Some(Ok(()))) {
                    return None;
                }
            }
            // Of several from one peer only the latest is kept.
            if self.shared.is_stopped() || guest.peer.aside_from.load(Ordering::Relaxed) != guest.connection {
                return None;
            }
            match timeout(&self.runtime, SILENCE, self.reader.read(self.decoder.spare())).await {
                None | Some(Ok(0) | Err(_)) => return None,
                Some(Ok(read)) => self.decoder.filled(read),
            }
        }
    }

    /// Whether what is kept of frames that have not come whole, here and elsewhere, is within bounds.
    fn is_within_bounds(&mut self) -> bool {
        let held = self.decoder.held();
        (held == 0 && self.holds == 0) || self.held(held) <= HALF_FRAMES || held <= BATCH_BYTES
    }

    /// Works off what the decoder holds. `Ok(false)`: the connection is of no use any more.
    fn read_all(&mut self, guest: &Guest) -> Result<bool, String> {
        let Guest { peer, from, address, connection, .. } = guest;
        let (from, connection, now) = (*from, *connection, clock::now());
        let mut receiver = lock(&peer.receiver);
        let mut bulk = false;
        while let Some(frame) = self.decoder.next_frame().map_err(|error| error.to_string())? {
            match receiver.confirm(now, connection) {
                Confirmed::Already => {}
                Confirmed::Stale => return Ok(false),
                Confirmed::Opened { gone, .. } => {
                    self.confirmed = true;
                    peer.confirm();
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
                    self.shared.heard(from, message, bytes.len());
                }
                Frame::Message { seq, bytes } => {
                    bulk = true;
                    if peer.is_deaf() {
                        return Err("does not take the answers to what it sends".to_string());
                    }
                    // Before the link counts it as here: else it would be lost in silence with the connection.
                    let message = codec::decode(bytes).map_err(|error| error.to_string())?;
                    match receiver.frame(now, connection, seq) {
                        Arrival::Deliver => {
                            if !deliver(&self.shared, from, message, bytes.len()) {
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
