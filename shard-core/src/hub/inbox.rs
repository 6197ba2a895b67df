//! The door of one lane: callers and readers append, the lane takes all of it at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::vec::Vec;

use super::bell::Bell;
use crate::collections::EntityId;
use crate::entity::{Bound, Reason};
use crate::id::{NodeKey, ShardId, Token};
use crate::region::lane::Order;
use crate::time::Instant;

/// One message of a caller on this node.
#[derive(Debug)]
pub(super) struct TellItem<M> {
    pub(super) id: EntityId,
    pub(super) hash: u64,
    pub(super) shard: ShardId,
    pub(super) message: M,
    pub(super) deadline: Option<Instant>,
}

/// One message of another process's stream.
#[derive(Debug)]
pub(super) struct ArrivalItem<M> {
    pub(super) from: NodeKey,
    pub(super) shard: ShardId,
    pub(super) token: Token,
    pub(super) attempt: u32,
    pub(super) seq: u64,
    pub(super) first: bool,
    pub(super) id: EntityId,
    pub(super) hash: u64,
    pub(super) body: Result<M, Reason>,
}

/// What an owner says about messages of this node.
#[derive(Debug)]
pub(super) enum ReceiptItem {
    Taken { from: NodeKey, shard: ShardId, token: Token, upto: u64 },
    Closed { from: NodeKey, shard: ShardId, token: Token, upto: u64, beyond: Vec<u64> },
    Refuse { from: NodeKey, shard: ShardId, token: Token, attempt: u32, draining: bool, hint: Option<(NodeKey, Token)> },
    Rejected { from: NodeKey, shard: ShardId, seq: u64, reason: Reason },
    Reply { from: NodeKey, shard: ShardId, seq: u64, answer: Option<Vec<u8>> },
}

/// All that waits for a lane.
#[derive(Debug)]
pub(super) struct Waiting<M> {
    pub(super) tells: Vec<TellItem<M>>,
    pub(super) arrivals: Vec<ArrivalItem<M>>,
    pub(super) receipts: Vec<ReceiptItem>,
    pub(super) orders: Vec<Order>,
}

impl<M> Default for Waiting<M> {
    fn default() -> Self {
        Self { tells: Vec::new(), arrivals: Vec::new(), receipts: Vec::new(), orders: Vec::new() }
    }
}

impl<M> Waiting<M> {
    pub(super) fn is_empty(&self) -> bool {
        self.tells.is_empty() && self.arrivals.is_empty() && self.receipts.is_empty() && self.orders.is_empty()
    }
}

/// How much of this node's own mail a shard keeps: as the lane last said, and what was told to it since. Messages that came
/// while the lane was at work are not counted until it is done, so the stream itself allows for twice the bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Messages kept in the shard's stream; zero for a shard that is served here.
    pub(super) kept: u32,
    /// The link to its owner is full.
    pub(super) link_full: bool,
}

#[derive(Debug)]
struct Inbox<M> {
    waiting: Waiting<M>,
    loads: Vec<Load>,
    callers: Vec<Waker>,
    /// Bytes of what other processes sent, since the lane last took all of it.
    foreign: usize,
    /// The lane has not come back since it last took messages of callers.
    at_work: bool,
    /// Why nothing is taken any more.
    closed: Option<Reason>,
}

/// The bounds that callers meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Messages in one lane's inbox.
    pub(super) lane: usize,
    /// Messages kept for one shard that is not served here.
    pub(super) shard: u32,
}

/// Messages and receipts of other processes that may wait for one lane.
const FOREIGN_MAX: usize = 1 << 18;
/// Their bytes.
const FOREIGN_BYTES: usize = 64 << 20;

/// The door.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct LaneDoor<M> {
    inbox: Mutex<Inbox<M>>,
    pub(super) bell: Bell,
    bounds: Bounds,
}

impl<M> LaneDoor<M> {
    pub(super) fn new(shards: usize, bounds: Bounds) -> Self {
        let inbox = Inbox {
            waiting: Waiting::default(),
            loads: std::vec![Load::default(); shards],
            callers: Vec::new(),
            foreign: 0,
            at_work: false,
            closed: None,
        };
        Self { inbox: Mutex::new(inbox), bell: Bell::default(), bounds }
    }

    /// Takes a caller's message, or says which bound it met. `at` is the shard's place in the lane.
    pub(super) fn tell(&self, at: usize, item: TellItem<M>) -> Result<(), (M, Reason)> {
        {
            let mut inbox = self.lock();
            if let Some(reason) = inbox.full(at, self.bounds) {
                return Err((item.message, reason));
            }
            if inbox.loads[at].kept > 0 {
                inbox.loads[at].kept += 1;
            }
            inbox.waiting.tells.push(item);
        }
        self.bell.ring();
        Ok(())
    }

    /// Whether a message for that shard would be taken; else wakes `waker` when that may have changed.
    pub(super) fn has_room(&self, at: usize, waker: &Waker) -> bool {
        let mut inbox = self.lock();
        let full = inbox.full(at, self.bounds).is_some() && inbox.closed.is_none();
        if full && !inbox.callers.iter().any(|known| known.will_wake(waker)) {
            inbox.callers.push(waker.clone());
        }
        !full
    }

    /// Whether so many more bytes of another process fit. If not, the reader drops the connection before it has decoded
    /// anything, and the sender's link sends them again, which slows down who is too fast and loses nothing.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        let inbox = self.lock();
        let count = inbox.waiting.arrivals.len() + inbox.waiting.receipts.len();
        count < FOREIGN_MAX && (inbox.foreign == 0 || inbox.foreign + bytes <= FOREIGN_BYTES)
    }

    /// Takes a message of another process's stream, of so many bytes, after [`takes`](Self::takes) said so. (Readers that
    /// ask at once may pass the bound by one frame each.)
    pub(super) fn arrive(&self, item: ArrivalItem<M>, bytes: usize) {
        self.push_foreign(bytes, |waiting| waiting.arrivals.push(item));
    }

    /// Takes an owner's word on messages of this node, under the same bound.
    pub(super) fn receipt(&self, item: ReceiptItem, bytes: usize) {
        self.push_foreign(bytes, |waiting| waiting.receipts.push(item));
    }

    fn push_foreign(&self, bytes: usize, push: impl FnOnce(&mut Waiting<M>)) {
        {
            let mut inbox = self.lock();
            inbox.foreign += bytes;
            push(&mut inbox.waiting);
        }
        self.bell.ring();
    }

    pub(super) fn order(&self, order: Order) {
        self.lock().waiting.orders.push(order);
        self.bell.ring();
    }

    /// Takes all that waits, giving `empty` (with its buffers) in exchange.
    pub(super) fn swap(&self, empty: &mut Waiting<M>) {
        let callers = {
            let mut inbox = self.lock();
            std::mem::swap(&mut inbox.waiting, empty);
            inbox.foreign = 0;
            inbox.at_work = !empty.tells.is_empty();
            // Those who waited for room in the inbox itself: what is taken out may never touch a shard's load.
            if empty.tells.len() >= self.bounds.lane { std::mem::take(&mut inbox.callers) } else { Vec::new() }
        };
        callers.into_iter().for_each(Waker::wake);
    }

    /// Whether every caller's message has reached its entity's mailbox or its shard's stream, and
    /// [`publish`](Self::publish) has said so.
    pub(super) fn is_quiet(&self) -> bool {
        let inbox = self.lock();
        inbox.waiting.tells.is_empty() && !inbox.at_work
    }

    /// Takes what must not wait behind mail.
    pub(super) fn swap_urgent(&self, empty: &mut Waiting<M>) {
        let mut inbox = self.lock();
        std::mem::swap(&mut inbox.waiting.receipts, &mut empty.receipts);
        std::mem::swap(&mut inbox.waiting.orders, &mut empty.orders);
    }

    /// Publishes what the lane keeps, after it worked off what it took, and wakes callers that waited for room.
    pub(super) fn publish(&self, changed: impl IntoIterator<Item = (usize, u32, bool)>) {
        let callers = {
            let mut inbox = self.lock();
            for (at, kept, link_full) in changed {
                inbox.loads[at] = Load { kept, link_full };
            }
            std::mem::take(&mut inbox.callers)
        };
        callers.into_iter().for_each(Waker::wake);
    }

    /// From now on every caller is refused with `reason`; the lane looks whether it is to end.
    pub(super) fn close(&self, reason: Reason) {
        let callers = {
            let mut inbox = self.lock();
            inbox.closed = Some(reason);
            std::mem::take(&mut inbox.callers)
        };
        callers.into_iter().for_each(Waker::wake);
        self.bell.ring();
    }

    fn lock(&self) -> MutexGuard<'_, Inbox<M>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> Inbox<M> {
    fn full(&self, at: usize, bounds: Bounds) -> Option<Reason> {
        if self.closed.is_some() {
            return self.closed;
        }
        if self.waiting.tells.len() >= bounds.lane {
            return Some(Reason::Full(Bound::Lane));
        }
        let load = &self.loads[at];
        if load.link_full {
            return Some(Reason::Full(Bound::Link));
        }
        (load.kept >= bounds.shard).then_some(Reason::Full(Bound::Shard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Count(AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn item(message: u8) -> TellItem<u8> {
        TellItem { id: EntityId::from("a"), hash: 1, shard: ShardId(0), message, deadline: None }
    }

    #[test]
    fn who_waits_for_a_full_inbox_is_woken_when_the_lane_takes_it() {
        let door = LaneDoor::new(1, Bounds { lane: 2, shard: 9 });
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        assert!(door.tell(0, item(1)).is_ok() && door.tell(0, item(2)).is_ok());
        assert_eq!(door.tell(0, item(3)), Err((3, Reason::Full(Bound::Lane))));
        assert!(!door.has_room(0, &waker));
        door.swap(&mut Waiting::default());
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "nothing else may ever wake it");
        assert!(door.has_room(0, &waker));
    }

    #[test]
    fn what_other_processes_send_is_bounded_in_bytes_until_the_lane_takes_it() {
        let door = LaneDoor::<u8>::new(1, Bounds { lane: 2, shard: 9 });
        let item = || ReceiptItem::Reply { from: NodeKey::default(), shard: ShardId(0), seq: 1, answer: None };
        assert!(door.takes(FOREIGN_BYTES + 1), "one frame of any size");
        door.receipt(item(), FOREIGN_BYTES);
        assert!(!door.takes(1));
        let mut waiting = Waiting::default();
        door.swap(&mut waiting);
        assert_eq!(waiting.receipts.len(), 1);
        assert!(door.takes(1));
        (0..FOREIGN_MAX).for_each(|_| door.receipt(item(), 0));
        assert!(!door.takes(0), "bounded in number too");
    }

    #[test]
    fn a_door_is_quiet_once_the_lane_has_come_back() {
        let door = LaneDoor::new(1, Bounds { lane: 2, shard: 9 });
        assert!(door.is_quiet());
        assert!(door.tell(0, item(1)).is_ok());
        assert!(!door.is_quiet());
        door.swap(&mut Waiting::default());
        assert!(!door.is_quiet(), "taken, not worked off");
        door.swap(&mut Waiting::default());
        assert!(door.is_quiet());
    }
}
