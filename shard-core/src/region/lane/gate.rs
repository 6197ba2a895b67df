//! The gate: where a type is guarded by tenant, no handler starts without a seat.
//!
//! ```text
//!             tenant or its queue full
//!   message ---------------------------> Full(Tenant), to whoever sent it
//!      |
//!      v                      asks              its turn
//!   mailbox of its entity ------------> queue ----------> seat: [started] and one handler, then it is given back
//!      ^                                                     |
//!      +------------------- more mail: it asks again --------+
//! ```
//!
//! **Where.** At the owner, between an entity's mailbox and its handler. Only the owner sees all that a tenant sends, from
//! every node, and only the owner knows when a handler has ended, which is when a seat comes free; a sender could do neither.
//!
//! **Order.** What stands in the fair queues is not a message but an entity with mail, and never twice. So the queues of a
//! tenant's hand may take turns as they like: an entity's messages stay in its mailbox, one behind the other, whichever
//! queue it waits in, and order per sender and entity is what it is without a gate.
//!
//! **Loss.** A message that waits is in the mailbox of an entity, as without a gate: what a drain, a halt or a stop does to
//! mailboxes they do to it, and nothing has to be told twice. An entity that is let in before it is awake rests, like one
//! that waits for a session. What was let in is not turned away afterwards on this node; on the next owner it is looked at
//! anew.
//!
//! **Bounds.** A tenant has at most `hand x queue length` messages waiting here, in all of its entities' mailboxes; each
//! queue holds its length of entities that are not awake or were idle, beside those that come back for more.
//!
//! **A seat** is held until nothing of its handler runs any more, however it ends: it returned, it panicked, it was dropped
//! by force. It is one of its tenant's and of the gate's. Last hooks need none: a shard that drains must not wait for a
//! tenant that floods.

use alloc::collections::{BTreeMap, VecDeque};

use super::{Lane, LaneHost};
use crate::collections::EntityId;
use crate::entity::Bound;
use crate::id::{ShardId, Slot};
use crate::machine::Machine;
use crate::shard::{Mail, Phase};
use crate::shuffle::{FairInput, FairOutput, FairQueues, FairRequest, Guard, Permit};
use crate::time::Instant;

/// Who waits for a seat, and who has one.
#[derive(Debug)]
pub(super) struct Gate {
    guard: Guard,
    pub(super) queues: FairQueues,
    /// The last number given to a request.
    asked: u64,
    /// Who waits, by the number of its request.
    pub(super) waiting: BTreeMap<u64, Slot>,
    /// Seats whose holders have not begun.
    pub(super) granted: VecDeque<Permit>,
    /// Entities with mail or a seat, by their index.
    pub(super) places: BTreeMap<u32, Place>,
    /// Messages that wait, by tenant.
    pub(super) mail: BTreeMap<u64, u32>,
}

/// One entity that has mail or a seat.
#[derive(Debug)]
pub(super) struct Place {
    tenant: u64,
    /// Messages of it that are counted for its tenant.
    pub(super) mail: u32,
    seat: Seat,
}

#[derive(Debug)]
enum Seat {
    None,
    Asked(u64),
    Held(Permit),
}

impl Gate {
    pub(super) fn new(guard: Guard) -> Self {
        Self {
            guard,
            queues: FairQueues::new(*guard.fair()),
            asked: 0,
            waiting: BTreeMap::new(),
            granted: VecDeque::new(),
            places: BTreeMap::new(),
            mail: BTreeMap::new(),
        }
    }

    /// Whether one more message of the tenant may wait.
    fn has_room(&self, tenant: u64) -> bool {
        self.mail.get(&tenant).is_none_or(|mail| *mail < self.guard.fair().waiting_max())
    }

    /// Asks for a seat: the number to [`bind`](Self::bind), unless there is no room to wait. What goes on with mail that was
    /// let in asks `again`, and always has room.
    fn ask(&mut self, now: Instant, tenant: u64, again: bool) -> Option<u64> {
        self.asked += 1;
        let request = FairRequest { again, ..FairRequest::new(self.asked, tenant) };
        let rejected = self.pass(now, FairInput::Arrived(request));
        (!rejected).then_some(self.asked)
    }

    /// That entity is who asked.
    fn bind(&mut self, slot: Slot, tenant: u64, number: u64) {
        self.waiting.insert(number, slot);
        let place = self.places.entry(slot.index).or_insert(Place { tenant, mail: 0, seat: Seat::None });
        place.seat = Seat::Asked(number);
    }

    /// So much mail of the entity waits now.
    fn count(&mut self, index: u32, tenant: u64, mail: u32) {
        let place = self.places.entry(index).or_insert(Place { tenant, mail: 0, seat: Seat::None });
        let before = core::mem::replace(&mut place.mail, mail);
        let sum = self.mail.entry(tenant).or_insert(0);
        *sum = *sum - before + mail;
        if *sum == 0 {
            self.mail.remove(&tenant);
        }
        self.tidy(index);
    }

    fn tenant(&self, index: u32, id: &str) -> u64 {
        self.places.get(&index).map_or_else(|| self.guard.tenant(id), |place| place.tenant)
    }

    /// The next entity whose turn it is; from now on it holds its seat.
    fn next(&mut self, now: Instant) -> Option<Slot> {
        while let Some(permit) = self.granted.pop_front() {
            let slot = self.waiting.remove(&permit.id());
            match slot.and_then(|slot| Some((slot, self.places.get_mut(&slot.index)?))) {
                Some((slot, place)) => {
                    place.seat = Seat::Held(permit);
                    return Some(slot);
                }
                // Whoever asked is gone.
                None => {
                    self.pass(now, FairInput::Finished(permit));
                }
            }
        }
        None
    }

    /// The entity wants no seat, or no more.
    fn release(&mut self, now: Instant, index: u32) {
        let Some(place) = self.places.get_mut(&index) else { return };
        match core::mem::replace(&mut place.seat, Seat::None) {
            Seat::None => {}
            Seat::Asked(number) => {
                self.waiting.remove(&number);
                self.pass(now, FairInput::Withdrawn(number));
            }
            Seat::Held(permit) => {
                self.pass(now, FairInput::Finished(permit));
            }
        }
        self.tidy(index);
    }

    /// The life at that index is over.
    pub(super) fn forget(&mut self, now: Instant, index: u32) {
        if let Some(tenant) = self.places.get(&index).map(|place| place.tenant) {
            self.count(index, tenant, 0);
            self.release(now, index);
        }
    }

    fn tidy(&mut self, index: u32) {
        if self.places.get(&index).is_some_and(|place| place.mail == 0 && matches!(place.seat, Seat::None)) {
            self.places.remove(&index);
        }
    }

    /// Whether what was passed on was rejected.
    fn pass(&mut self, now: Instant, input: FairInput) -> bool {
        let (granted, mut rejected) = (&mut self.granted, false);
        self.queues.handle(now, input, &mut |output| match output {
            FairOutput::Execute(permit) => granted.push_back(permit),
            FairOutput::Reject(_) => rejected = true,
        });
        rejected
    }
}

impl<M> Lane<M> {
    /// A message for an entity that sleeps. It asks before it wakes: who is turned away must not push another entity out of
    /// a full house.
    pub(super) fn wake_guarded(
        &mut self,
        now: Instant,
        shard: ShardId,
        hash: u64,
        id: EntityId,
        mail: Mail<M>,
        host: &mut impl LaneHost<M>,
    ) {
        let Some(gate) = &mut self.gate else { return };
        let tenant = gate.guard.tenant(id.as_str());
        let number = if gate.has_room(tenant) { gate.ask(now, tenant, false) } else { None };
        let Some(number) = number else { return self.turn_away(shard, &id, mail, Bound::Tenant, host) };
        let slot = self.wake(now, shard, hash, id, host);
        self.residents.queue(slot, mail);
        if let Some(gate) = &mut self.gate {
            gate.bind(slot, tenant, number);
        }
        self.recount(slot);
        self.admit(now, host);
    }

    /// A message for an entity that is here.
    pub(super) fn give_guarded(&mut self, now: Instant, slot: Slot, mail: Mail<M>, host: &mut impl LaneHost<M>) {
        let (Some(gate), Some(resident)) = (&mut self.gate, self.residents.get(slot)) else { return };
        let tenant = gate.tenant(slot.index, resident.id.as_str());
        let asks = resident.phase == Phase::Idle && !gate.places.contains_key(&slot.index);
        let number = match gate.has_room(tenant) {
            true if asks => gate.ask(now, tenant, false).map(Some),
            true => Some(None),
            false => None,
        };
        let Some(number) = number else { return self.overflow(slot, mail, Bound::Tenant, host) };
        if let Some(number) = number {
            gate.bind(slot, tenant, number);
        }
        self.residents.queue(slot, mail);
        self.recount(slot);
        self.admit(now, host);
    }

    /// Whether the entity, which has mail, may run: it has a seat, or needs none. If not, it has asked for one.
    pub(super) fn seated(&mut self, now: Instant, slot: Slot) -> bool {
        self.recount(slot);
        let (Some(gate), Some(resident)) = (&mut self.gate, self.residents.get(slot)) else { return true };
        let tenant = gate.tenant(slot.index, resident.id.as_str());
        match gate.places.get(&slot.index).map(|place| &place.seat) {
            Some(Seat::Held(_)) => return true,
            Some(Seat::Asked(_)) => return false,
            Some(Seat::None) | None => {}
        }
        if let Some(number) = gate.ask(now, tenant, true) {
            gate.bind(slot, tenant, number);
        }
        false
    }

    /// The mail of the entity has changed.
    pub(super) fn recount(&mut self, slot: Slot) {
        let (Some(gate), Some(resident)) = (&mut self.gate, self.residents.get(slot)) else { return };
        let tenant = gate.tenant(slot.index, resident.id.as_str());
        gate.count(slot.index, tenant, u32::try_from(resident.waiting()).unwrap_or(u32::MAX));
    }

    /// The entity's handler is over, or will not run.
    pub(super) fn release(&mut self, now: Instant, slot: Slot) {
        if let Some(gate) = &mut self.gate {
            gate.release(now, slot.index);
        }
    }

    /// Lets those run whose turn has come. Every call from outside that may have freed a seat, or asked for one, ends here.
    pub(super) fn admit(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        while let Some(slot) = self.gate.as_mut().and_then(|gate| gate.next(now)) {
            match self.residents.get(slot).map(|resident| resident.phase) {
                Some(Phase::Idle) => self.go_on(now, slot, host),
                Some(Phase::Resting) => self.rested(now, slot, host),
                Some(Phase::Starting | Phase::Busy | Phase::Stopping) | None => self.release(now, slot),
            }
        }
    }
}
