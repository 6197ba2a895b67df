//! The other processes, as this one writes to them.
//!
//! Everybody who has something to say to a node encodes it straight into the buffer of its [`Peer`], under one short lock;
//! the peer's writing task takes the buffer whole. Control frames have a buffer of their own and go first, or beside it.

#[cfg(test)]
mod tests;

use std::boxed::Box;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::string::String;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::vec::Vec;

use super::bell::Bell;
use super::shared::lock;
use crate::id::{NodeId, NodeKey};
use crate::machine::Fixed;
use crate::wire::link::{Hello, Identity, LinkConfig, LinkReceiver, LinkSender, PeerGone, Refusal, Unit};
use crate::wire::{Control, codec, frame};

/// The longest body of a message, with the id of its entity, or of an answer.
pub(super) const BODY_MAX: u32 = 1 << 20;
/// Bulk is handed to the socket in pieces of about this size, so that a control frame waits behind one at most here; what lies
/// in the sockets is the matter of `aside`.
pub(super) const BATCH_BYTES: usize = 64 * 1024;
/// Lives of one node that are remembered as over.
const OVER_MAX: usize = 8;
/// Node ids that this process keeps a place for, about a kilobyte each: what came from them and what is over must stay
/// known, or a late frame would count as new. A cluster that starts a hundred nodes of new ids a day reaches it in a year.
const PEERS_MAX: usize = 1 << 15;
/// Control frames that wait for a connection; more are lost, as datagrams may be.
const CONTROL_BYTES: usize = 256 * 1024;

/// Encoded frames that are numbered, acknowledged and resent as one.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) frames: u64,
}

impl Unit for Batch {
    fn frames(&self) -> u64 {
        self.frames
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// One other node.
pub(super) struct Peer {
    pub(super) id: NodeId,
    /// This process has a reason of its own to know it: a handshake was confirmed, or it was told of. Until then it goes
    /// with the last connection that named it.
    known: AtomicBool,
    pub(super) state: Mutex<PeerState>,
    /// What comes from it.
    pub(super) receiver: Mutex<LinkReceiver>,
    /// Rung when there is something to write.
    pub(super) bell: Bell,
    /// Rung when there is a control frame to write.
    pub(super) aside_bell: Bell,
    /// The latest connection on which it has only control frames to say: one of them is listened to.
    pub(super) aside_from: AtomicU64,
    full: AtomicBool,
    /// The life of the node that the present connection leads to; zero: none.
    open_to: AtomicU64,
    /// A lane was told that the link to this life takes nothing now: it is owed word when it does. Zero: none is.
    owed: AtomicU64,
}

pub(super) struct PeerState {
    pub(super) link: LinkSender<Batch>,
    /// Where to dial; `None`: not known yet.
    pub(super) address: Option<String>,
    /// Bulk frames not handed to the link yet.
    open: OpenBatch,
    /// Bulk for a life of the node that the link has not met yet.
    next: Option<(NodeKey, OpenBatch)>,
    /// Lives of the node that are over, the latest ones: a late answer to one of them is for nobody.
    over: VecDeque<NodeKey>,
    control: Vec<u8>,
    /// Control frames have a connection of their own.
    pub(super) aside: bool,
    /// Lanes were told that the node is hard to reach.
    pub(super) doubtful: bool,
    /// The writing task runs.
    started: bool,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct OpenBatch {
    bytes: Vec<u8>,
    frames: u64,
    /// Whole batches before it, for a life that is not met yet, and their bytes.
    sealed: VecDeque<Batch>,
    sealed_bytes: usize,
}

impl OpenBatch {
    fn seal(&mut self, spare: Vec<u8>) -> Option<Batch> {
        if self.frames == 0 {
            return None;
        }
        let bytes = Arc::new(std::mem::replace(&mut self.bytes, spare));
        Some(Batch { bytes, frames: std::mem::take(&mut self.frames) })
    }
}

/// All of them, and how to start talking to one.
pub(super) struct Peers {
    pub(super) identity: Identity,
    pub(super) config: Fixed<LinkConfig>,
    peers: RwLock<BTreeMap<NodeId, Arc<Peer>>>,
    starter: OnceLock<Box<dyn Fn(Arc<Peer>) + Send + Sync>>,
    next_connection: AtomicU64,
}

impl Peers {
    pub(super) fn new(identity: Identity, config: LinkConfig) -> Self {
        Self {
            identity,
            config: Fixed::new(config),
            peers: RwLock::new(BTreeMap::new()),
            starter: OnceLock::new(),
            next_connection: AtomicU64::new(1),
        }
    }

    /// How a peer's writing task is started, once there is something to write to it.
    pub(super) fn start_with(&self, starter: Box<dyn Fn(Arc<Peer>) + Send + Sync>) {
        let _ = self.starter.set(starter);
    }

    pub(super) fn of(&self, id: NodeId) -> Arc<Peer> {
        let peer = self.named(id);
        peer.confirm();
        peer
    }

    /// A connection ended. What is kept of a stranger goes with the last one that named it: what two of them hold must be
    /// one link, whichever is confirmed.
    pub(super) fn forget_stranger(&self, peer: Arc<Peer>) {
        if !peer.is_known() {
            let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
            // Whoever else has it, but for the map and this caller, found it there, and nobody can now.
            if !peer.is_known() && Arc::strong_count(&peer) <= 2 {
                peers.remove(&peer.id);
            }
        }
    }

    fn named(&self, id: NodeId) -> Arc<Peer> {
        if let Some(peer) = self.peers.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Arc::clone(peer);
        }
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(peers.entry(id).or_insert_with(|| {
            Arc::new(Peer {
                id,
                known: AtomicBool::new(false),
                state: Mutex::new(PeerState {
                    link: LinkSender::new(self.config.clone(), None),
                    address: None,
                    open: OpenBatch::default(),
                    next: None,
                    over: VecDeque::new(),
                    control: Vec::new(),
                    aside: false,
                    doubtful: false,
                    started: false,
                    spare: Vec::new(),
                }),
                receiver: Mutex::new(LinkReceiver::new(self.config.clone())),
                bell: Bell::default(),
                aside_bell: Bell::default(),
                aside_from: AtomicU64::new(0),
                full: AtomicBool::new(false),
                open_to: AtomicU64::new(0),
                owed: AtomicU64::new(0),
            })
        }))
    }

    /// The same for a stranger who claims the id: there may be only so many.
    pub(super) fn admit(&self, hello: &Hello) -> Result<Arc<Peer>, Refusal> {
        self.identity.admit(hello)?;
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= PEERS_MAX && !peers.contains_key(&hello.from.id) {
            return Err(Refusal::TooManyNodes { known: peers.len() });
        }
        drop(peers);
        Ok(self.named(hello.from.id))
    }

    pub(super) fn all(&self) -> Vec<Arc<Peer>> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(super) fn next_connection(&self) -> u64 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    /// That node listens there.
    pub(super) fn reach(&self, id: NodeId, address: &str) {
        if address.is_empty() || id == self.identity.node.id {
            return;
        }
        let peer = self.of(id);
        lock(&peer.state).address = Some(String::from(address));
        self.poke(&peer);
    }

    /// Sends a control frame, if a connection can be had; ahead of all bulk.
    pub(super) fn control(&self, to: crate::node::Peer, message: &Control) {
        let peer = self.of(to.id());
        {
            let mut state = lock(&peer.state);
            if let crate::node::Peer::Key(key) = to
                && ((state.link.peer() != Some(key) && state.over.contains(&key)) || !state.link.aim(key))
            {
                return; // for another life than the one the link is to
            }
            if state.control.len() < CONTROL_BYTES {
                frame::write_control(&mut state.control, |out| codec::encode_control(out, message));
            }
        }
        self.poke(&peer);
        peer.aside_bell.ring();
    }

    /// Starts the writing task if it does not run, and rings its bell.
    pub(super) fn poke(&self, peer: &Arc<Peer>) {
        let start = {
            let mut state = lock(&peer.state);
            state.address.is_some() && !std::mem::replace(&mut state.started, true)
        };
        if start {
            match self.starter.get() {
                Some(starter) => starter(Arc::clone(peer)),
                None => lock(&peer.state).started = false,
            }
        }
        peer.bell.ring();
    }
}

impl Peer {
    /// It is no stranger any more.
    pub(super) fn confirm(&self) {
        self.known.store(true, Ordering::SeqCst);
    }

    fn is_known(&self) -> bool {
        self.known.load(Ordering::SeqCst)
    }

    /// Encodes one bulk frame for that process, behind all before it.
    pub(super) fn bulk(&self, to: NodeKey, encode: impl FnOnce(&mut Vec<u8>)) {
        {
            let mut state = lock(&self.state);
            state.bulk(to, encode);
            self.full.store(state.held() >= LINK_BYTES, Ordering::Relaxed);
        }
        self.bell.ring();
    }

    /// The link holds as much as it may; callers are to wait.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Far more waits for that process than its streams' windows allow: it asks and takes no answers. It is not listened to
    /// until it does.
    pub(super) fn is_deaf(&self) -> bool {
        self.full.load(Ordering::Relaxed) && lock(&self.state).held() >= DEAF_BYTES
    }

    /// After an ack. Says whether somebody waits for the room there is now.
    pub(super) fn look_whether_full(&self, state: &PeerState) -> bool {
        let held = state.held();
        self.full.store(held >= LINK_BYTES, Ordering::SeqCst);
        held < LINK_BYTES / 2 && self.keep_word(self.open_to.load(Ordering::SeqCst))
    }

    /// After the link let go of what it held.
    pub(super) fn measure(&self, state: &PeerState) {
        self.full.store(state.held() >= LINK_BYTES, Ordering::SeqCst);
    }

    /// The present connection leads to that process. Says whether somebody waited for it.
    pub(super) fn opened(&self, node: NodeKey) -> bool {
        self.open_to.store(node.incarnation.0, Ordering::SeqCst);
        self.keep_word(node.incarnation.0)
    }

    pub(super) fn closed(&self) {
        self.open_to.store(0, Ordering::SeqCst);
    }

    /// Whether a message for that process would be written soon. If not, word is owed when it would.
    pub(super) fn takes(&self, to: NodeKey) -> bool {
        let open = || self.open_to.load(Ordering::SeqCst) == to.incarnation.0 && !self.full.load(Ordering::SeqCst);
        if open() {
            return true;
        }
        {
            let state = lock(&self.state);
            if state.over.contains(&to) {
                return false; // its lane is about to hear that, and nobody dials for it
            }
            self.owed.fetch_max(to.incarnation.0, Ordering::SeqCst);
        }
        // Looked at again after the promise, so that an opening in between is not missed.
        open()
    }

    /// That life or a later one is here, or over: those who waited for it are told. Says whether somebody did.
    fn keep_word(&self, incarnation: u64) -> bool {
        let kept = |owed: u64| (1..=incarnation).contains(&owed).then_some(0);
        self.owed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, kept).is_ok()
    }

    /// That life is over, as its successor or the coordinator says.
    pub(super) fn end(&self, node: NodeKey) {
        {
            let mut state = lock(&self.state);
            if state.end(node) {
                self.closed();
                self.measure(&state);
            }
            self.keep_word(node.incarnation.0);
        }
        self.bell.ring();
    }

    /// Whether a lane waits for a connection.
    pub(super) fn is_owed(&self) -> bool {
        self.owed.load(Ordering::SeqCst) != 0
    }
}

/// At so many bytes on one link, written or not and not acknowledged, callers are refused or wait. Lanes and replies still
/// write: what they hold is bounded by the streams.
const LINK_BYTES: usize = 4 << 20;

/// So much for one process, lanes' and replies' frames included.
const DEAF_BYTES: usize = 16 * LINK_BYTES;

impl PeerState {
    fn bulk(&mut self, to: NodeKey, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.over.contains(&to) {
            return;
        }
        if self.link.aim(to) {
            frame::write_message(&mut self.open.bytes, encode);
            self.open.frames += 1;
            if self.open.bytes.len() >= BATCH_BYTES {
                self.seal();
            }
            return;
        }
        // The next handshake says whether that life is the one that is alive.
        match &mut self.next {
            Some((known, batch)) if *known == to => {
                frame::write_message(&mut batch.bytes, encode);
                batch.frames += 1;
                if batch.bytes.len() >= BATCH_BYTES
                    && let Some(sealed) = batch.seal(Vec::new())
                {
                    batch.sealed_bytes += sealed.bytes();
                    batch.sealed.push_back(sealed);
                }
            }
            next => {
                let mut batch = OpenBatch::default();
                frame::write_message(&mut batch.bytes, encode);
                batch.frames += 1;
                *next = Some((to, batch));
            }
        }
    }

    fn held(&self) -> usize {
        let next = self.next.as_ref().map_or(0, |(_, batch)| batch.bytes.len() + batch.sealed_bytes);
        self.link.bytes() + self.open.bytes.len() + next
    }

    /// Hands the open batch to the link.
    pub(super) fn seal(&mut self) {
        let spare = self.spare.pop().unwrap_or_default();
        if let Some(batch) = self.open.seal(spare) {
            self.link.answer(batch);
        }
    }

    /// Whether there is something to write or to be acknowledged.
    pub(super) fn has_work(&self) -> bool {
        !self.control.is_empty() || self.open.frames > 0 || !self.link.is_empty() || self.next.is_some()
    }

    /// Whether bulk waits to be written or acknowledged.
    pub(super) fn has_bulk(&self) -> bool {
        self.open.frames > 0 || !self.link.is_empty() || self.next.is_some()
    }

    pub(super) fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    pub(super) fn take_control(&mut self, into: &mut Vec<u8>) {
        into.clear();
        std::mem::swap(&mut self.control, into);
    }

    /// Datagrams do not outlive a failed dial.
    pub(super) fn forget_control(&mut self) {
        self.control.clear();
    }

    /// The handshake said who lives there: what waited for that life goes out; what waited for another is returned.
    pub(super) fn met(&mut self, node: NodeKey) -> Option<NodeKey> {
        let (key, batch) = self.next.take()?;
        if key != node {
            return Some(key);
        }
        self.put(batch);
        None
    }

    /// Puts what waited for the life that the link is to behind all that is on it.
    fn put(&mut self, mut batch: OpenBatch) {
        self.seal();
        for sealed in std::mem::take(&mut batch.sealed) {
            self.link.answer(sealed);
        }
        if let Some(sealed) = batch.seal(Vec::new()) {
            self.link.answer(sealed);
        }
    }

    /// The pair is over: what was written for the old life is nobody's. Control frames least of all: numbers start over
    /// with a restart, so the new life might take an old one's ack for its own.
    pub(super) fn pair_over(&mut self) {
        self.open = OpenBatch::default();
        self.control = Vec::new();
        // There may never be another life of it.
        self.spare = Vec::new();
    }

    /// Nothing is written for that life of the node any more.
    pub(super) fn is_over(&mut self, node: NodeKey) {
        if !self.over.contains(&node) {
            if self.over.len() == OVER_MAX {
                self.over.pop_front();
            }
            self.over.push_back(node);
        }
        if self.next.as_ref().is_some_and(|(key, _)| *key == node) {
            self.next = None;
        }
    }

    /// True if the link was to that life: it is free for the next.
    fn end(&mut self, node: NodeKey) -> bool {
        self.is_over(node);
        let gone: Option<PeerGone<Batch>> = self.link.gone(super::clock::now(), node);
        if gone.is_none() {
            return false;
        }
        self.pair_over();
        // What waits for the next life goes first: whatever is said from now on comes behind it.
        if let Some((next, batch)) = self.next.take()
            && self.link.aim(next)
        {
            self.put(batch);
        }
        true
    }

    /// Keeps the buffer of an acknowledged batch.
    pub(super) fn recycle(&mut self, batch: Batch) {
        if self.spare.len() < 8
            && let Ok(mut bytes) = Arc::try_unwrap(batch.bytes)
            && bytes.capacity() <= 4 * BATCH_BYTES
        {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
