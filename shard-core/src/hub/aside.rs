//! A connection for control frames alone, beside that of a link: opened once bulk waits on the link while there is something
//! to say, so that a heartbeat does not wait behind megabytes that lie in the sockets, and closed when nothing was said for
//! long. Control frames are datagrams: whichever connection they take, and in whichever order they come, is right.

use std::string::{String, ToString};
use std::sync::Arc;
use std::time::Duration;
use std::vec::Vec;

use super::clock;
use super::net::{Line, SILENCE, shake_hands};
use super::peers::Peer;
use super::runtime::{Either, Read, Runtime, Write, race, timeout};
use super::shared::{Shared, lock};
use crate::id::NodeKey;
use crate::time::Instant;
use crate::wire::frame::{self, Frame};

/// So many bytes of bulk must be under way before a second connection is worth it.
const WORTH_IT: usize = 64 * 1024;
/// After a failure it is not tried again for so long.
const AGAIN: Duration = Duration::from_secs(1);
/// A write takes no longer, or the connection is given up: what it carries is stale by then.
const WRITE: Duration = Duration::from_secs(2);
/// With nothing to say for so long it is closed.
const IDLE: Duration = Duration::from_secs(60);

/// Serves as long as `connection` is the link's. To be dropped when it is not.
pub(super) async fn serve<R: Runtime>(shared: &Arc<Shared>, runtime: &R, peer: &Arc<Peer>, connection: u64) {
    loop {
        peer.aside_bell.wait().await;
        let target = {
            let state = lock(&peer.state);
            if state.link.connection() != Some(connection) {
                return;
            }
            let wanted = state.has_control() && state.link.bytes() >= WORTH_IT;
            state.link.peer().zip(state.address.clone()).filter(|_| wanted)
        };
        let Some((node, address)) = target else { continue };
        match open(shared, runtime, node, &address).await {
            Ok(line) => {
                lock(&peer.state).aside = true;
                carry(runtime, peer, connection, line).await;
                lock(&peer.state).aside = false;
                // What was left is the link's again.
                peer.bell.ring();
            }
            Err(_) => runtime.sleep(AGAIN).await,
        }
    }
}

async fn open<R: Runtime>(shared: &Arc<Shared>, runtime: &R, node: NodeKey, address: &str) -> Result<Line<R>, String> {
    let mut hello = shared.peers.identity.hello(Some(node));
    hello.aside = true;
    let (line, welcome) = shake_hands(runtime, address, &hello).await?;
    if welcome.node != node {
        return Err("another life of the node".to_string());
    }
    Ok(line)
}

/// Writes what there is to say until the connection breaks, falls silent, is not needed, or the link has another one.
async fn carry<R: Runtime>(runtime: &R, peer: &Arc<Peer>, connection: u64, line: Line<R>) {
    let Line { mut reader, mut writer, mut decoder } = line;
    let mut bytes = Vec::new();
    let mut heard = clock::now();
    let (mut said, mut pinged) = (heard, Instant::ZERO);
    loop {
        let now = clock::now();
        bytes.clear();
        {
            let mut state = lock(&peer.state);
            if state.link.connection() != Some(connection) {
                return;
            }
            state.take_control(&mut bytes);
        }
        if !bytes.is_empty() {
            said = now;
        }
        if now.since(heard) >= SILENCE || now.since(said) >= IDLE {
            return;
        }
        if now.since(pinged) >= AGAIN {
            pinged = now;
            frame::write_ping(&mut bytes);
        }
        if !bytes.is_empty() && !matches!(timeout(runtime, WRITE, writer.write_all(&bytes)).await, Some(Ok(()))) {
            return;
        }
        let rung = async {
            race(peer.aside_bell.wait(), runtime.sleep(AGAIN)).await;
        };
        match race(rung, reader.read(decoder.spare())).await {
            Either::Left(()) => {}
            Either::Right(Ok(read @ 1..)) => {
                decoder.filled(read);
                heard = clock::now();
                loop {
                    match decoder.next_frame() {
                        Ok(Some(Frame::Ack { .. })) => {}
                        Ok(None) => break,
                        _ => return,
                    }
                }
            }
            Either::Right(_) => return,
        }
    }
}
