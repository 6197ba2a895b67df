//! What happens, in the order of time; what happens at the same moment, in the order in which it was decided.

use alloc::collections::BinaryHeap;
use core::cmp::Ordering;

use super::fault::Fault;
use super::model::Message;
use crate::id::NodeKey;
use crate::node::Input;
use crate::region::lane::Order;
use crate::wire::link::{Hello, Welcome};
use crate::wire::{Control, Stream};

pub(super) type Frame = Stream<Message>;

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// The node's next deadline.
    NodeTimer,
    /// A lane's next deadline.
    LaneTimer { lane: usize },
    /// The links' next deadline.
    LinkTimer,
    /// A datagram.
    Control { from: NodeKey, to: NodeKey, message: Control },
    /// Control speaks to a lane.
    Order { lane: usize, order: Order },
    /// A link's frame reaches its lane.
    Mail { lane: usize, from: NodeKey, frame: Frame },
    /// A lane, or the host, speaks to control.
    Answer(Input),
    /// A hook or handler is over.
    Done { lane: usize, run: u64 },
    /// What ran was dropped by order.
    Cancelled { lane: usize, run: u64 },
    /// Something arrives over a connection, at the dialling end or at the other.
    Wire { connection: u64, dialler: bool, packet: Packet },
    /// Callers on this node send.
    Work,
    /// Harm is drawn and done.
    Harm(Harm),
    /// A fault of a script, or one drawn earlier.
    Strike(Fault),
    /// A process starts.
    Boot,
    /// A write reaches the store, wherever it came from.
    Store { write: usize },
    /// The store's answer reaches the process.
    StoreAnswer { write: usize },
    /// A process looks at its clocks.
    Wake,
    /// A process that leaves looks whether all it owes is said.
    Part,
    /// An operator tells a process to load the next set of voters.
    Load,
    /// The end of the storm.
    Calm,
    /// The calm's next look at the cluster.
    Look,
}

#[derive(Clone, Debug)]
pub(super) enum Packet {
    Hello {
        hello: Hello,
    },
    Welcome(Welcome),
    /// Turned away, or nobody listens.
    Refused,
    Ping,
    /// `late`: its connection broke on the way.
    Frame {
        seq: u64,
        frame: Frame,
        late: bool,
    },
    Ack(u64),
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Harm {
    Crash,
    Blackout,
    Pause,
    Cut,
    Break,
    Leave,
    Resign,
    Drift,
    /// A coordinator's lease requests do not reach some voters, while all else does.
    Starve,
    /// They are caught, and let go later.
    Capture,
    /// A node comes about when the coordinator dies.
    Succession,
    /// A voter comes or goes.
    Voters,
}

/// An event with its moment. `life`: it is meant for this life of the seat only; zero: for any.
#[derive(Debug)]
pub(super) struct Scheduled {
    pub(super) at: u64,
    pub(super) number: u64,
    pub(super) seat: usize,
    pub(super) life: u32,
    pub(super) event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// The heap gives the greatest first, so the earliest is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// All that is still to come.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Scheduled>,
    numbers: u64,
}

impl Agenda {
    pub(super) fn push(&mut self, at: u64, seat: usize, life: u32, event: Event) {
        self.numbers += 1;
        self.heap.push(Scheduled { at, number: self.numbers, seat, life, event });
    }

    pub(super) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|scheduled| scheduled.at)
    }

    pub(super) fn pop(&mut self) -> Option<Scheduled> {
        self.heap.pop()
    }
}
