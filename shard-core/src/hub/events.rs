//! What happens on a node, for those who listen. Bounded: a slow listener is told how much it missed.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::string::String;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::vec::Vec;

use crate::collections::EntityId;
use crate::entity::Fate;
use crate::id::{NodeKey, ShardId, Term, Token};
use crate::machine::{Notice, TimingError};

/// Something that happened on, or was learnt by, this node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A process joined the cluster.
    NodeUp(NodeKey),
    /// A process left, or its session ended.
    NodeGone(NodeKey),
    /// This node's session began: it can own shards.
    SessionGained,
    /// This node's session ended before it was renewed; its shards were dropped, and with them all state in memory.
    SessionLost,
    /// This node began to reign.
    ReignBegan(Term),
    /// This node's reign ended.
    ReignEnded(Term),
    /// Most voters of this version run it, as the coordinator knows: the next version may be loaded.
    VotersInForce {
        /// The version.
        version: u32,
    },
    /// A shard came to this node.
    ShardGained {
        /// The type.
        entity_type: &'static str,
        /// The shard.
        shard: ShardId,
        /// The grant.
        token: Token,
    },
    /// A shard left this node.
    ShardLost {
        /// The type.
        entity_type: &'static str,
        /// The shard.
        shard: ShardId,
    },
    /// The cluster uses another number of shards for the type: this node hosts nothing of it.
    ShardCountRefused {
        /// The type.
        entity_type: String,
        /// What the cluster uses.
        cluster: u32,
        /// What this node registered.
        node: u32,
    },
    /// A message of a caller on this node will not be answered for: it did not run, or may have run.
    Undelivered {
        /// The type.
        entity_type: &'static str,
        /// The entity.
        id: EntityId,
        /// The message's wire tag.
        tag: u16,
        /// What is known.
        fate: Fate,
    },
    /// A handler panicked or asked for a restart.
    EntityFailed {
        /// The type.
        entity_type: &'static str,
        /// The entity.
        id: EntityId,
        /// What it said.
        why: String,
    },
    /// A handler held its lane for longer than 5 ms, and with it the other entities of the lane.
    HandlerOverran {
        /// The type.
        entity_type: &'static str,
        /// The entity.
        id: EntityId,
        /// How long.
        took: std::time::Duration,
    },
    /// A connection was refused or dropped because of what it sent.
    PeerRefused {
        /// Where it came from.
        address: String,
        /// Why.
        why: String,
    },
    /// A time is too short for a network like this one's: nothing is unsafe, but sessions or reigns may end without need.
    /// Said once, at the start.
    TimingTight(TimingError),
    /// A machine dropped or refused something.
    Notice(Notice),
    /// The listener was too slow and missed so many.
    Missed(u64),
}

/// How much an operator should care.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Part of every day: late and repeated frames.
    Detail,
    /// Worth knowing: nodes, shards and reigns that come and go.
    Change,
    /// Something was lost, refused or at fault.
    Trouble,
}

impl Event {
    /// How much an operator should care.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            Self::NodeUp(_)
            | Self::NodeGone(_)
            | Self::SessionGained
            | Self::ReignBegan(_)
            | Self::ReignEnded(_)
            | Self::VotersInForce { .. }
            | Self::ShardGained { .. }
            | Self::ShardLost { .. } => Level::Change,
            Self::SessionLost
            | Self::ShardCountRefused { .. }
            | Self::Undelivered { .. }
            | Self::EntityFailed { .. }
            | Self::HandlerOverran { .. }
            | Self::PeerRefused { .. }
            | Self::TimingTight(_)
            | Self::Notice(Notice::NodeIdClash { .. })
            | Self::Missed(_) => Level::Trouble,
            Self::Notice(Notice::Repeated { .. } | Notice::StaleTerm { .. } | Notice::CandidacyGivenUp { .. }) => {
                Level::Detail
            }
            Self::Notice(_) => Level::Change,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeUp(node) => write!(f, "{node} joined the cluster"),
            Self::NodeGone(node) => write!(f, "{node} left the cluster, or its session ended"),
            Self::VotersInForce { version } => write!(f, "version {version} of the voters is in force"),
            Self::SessionGained => f.write_str("this node's session began"),
            Self::SessionLost => {
                f.write_str("this node's session ended before it was renewed; its shards were dropped")
            }
            Self::ReignBegan(term) => write!(f, "this node is the coordinator ({term})"),
            Self::ReignEnded(term) => write!(f, "this node is the coordinator no more ({term})"),
            Self::ShardGained { entity_type, shard, token } => write!(f, "shard {entity_type}/{shard} came ({token})"),
            Self::ShardLost { entity_type, shard } => write!(f, "shard {entity_type}/{shard} left"),
            Self::ShardCountRefused { entity_type, cluster, node } => {
                write!(f, "`{entity_type}` has {cluster} shards in this cluster, this node asked for {node}: refused")
            }
            Self::Undelivered { entity_type, id, tag, fate } => {
                write!(f, "message {tag} to {entity_type}/{id}: {fate}")
            }
            Self::EntityFailed { entity_type, id, why } => write!(f, "{entity_type}/{id} failed: {why}"),
            Self::HandlerOverran { entity_type, id, took } => {
                write!(f, "a handler of {entity_type}/{id} held its lane for {took:?}")
            }
            Self::PeerRefused { address, why } => write!(f, "connection with {address} dropped: {why}"),
            Self::Notice(notice) => write!(f, "{notice}"),
            Self::TimingTight(error) if error.rule == "L4" => {
                write!(f, "asks do not ride out the loss of a node unless they wait longer than usual: {error}")
            }
            Self::TimingTight(error) => write!(f, "the cluster is safe, but may lose sessions without need: {error}"),
            Self::Missed(count) => write!(f, "{count} events were missed"),
        }
    }
}

const BOUND: usize = 4_096;

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    missed: u64,
    waker: Option<Waker>,
    closed: bool,
}

/// All who listen.
#[derive(Debug, Default)]
pub(super) struct Events {
    listeners: Mutex<Vec<Weak<Mutex<Queue>>>>,
}

impl Events {
    pub(super) fn emit(&self, event: Event) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| {
            let Some(queue) = listener.upgrade() else { return false };
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.events.len() < BOUND {
                queue.events.push_back(event.clone());
            } else {
                queue.missed += 1;
            }
            if let Some(waker) = queue.waker.take() {
                waker.wake();
            }
            true
        });
    }

    pub(super) fn listen(&self) -> EventStream {
        let queue = Arc::new(Mutex::new(Queue::default()));
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&queue));
        EventStream { queue }
    }

    pub(super) fn close(&self) {
        for listener in self.listeners.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Some(queue) = listener.upgrade() {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                queue.closed = true;
                if let Some(waker) = queue.waker.take() {
                    waker.wake();
                }
            }
        }
    }
}

/// A node's events from the moment it was asked for; at most 4,096 wait, more are counted as [`Event::Missed`].
#[derive(Debug)]
pub struct EventStream {
    queue: Arc<Mutex<Queue>>,
}

impl EventStream {
    /// The next event; `None` once the node has stopped.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(event) = queue.take() {
                return Poll::Ready(Some(event));
            }
            if queue.closed {
                return Poll::Ready(None);
            }
            queue.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// The next event, if one waits.
    pub fn try_next(&mut self) -> Option<Event> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Queue {
    fn take(&mut self) -> Option<Event> {
        if self.missed > 0 && self.events.is_empty() {
            return Some(Event::Missed(std::mem::take(&mut self.missed)));
        }
        self.events.pop_front()
    }
}
