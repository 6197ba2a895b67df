//! The entities of one lane.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::{Mail, Origin};
use crate::collections::{EntityId, Index, Slab};
use crate::id::{ShardId, Slot};

/// Where an entity stands in its life; the picture is on the module's page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Its host builds it and runs its first hook.
    Starting,
    /// Awake; the next message runs at once.
    Idle,
    /// A handler runs.
    Busy,
    /// It failed and waits for its next start.
    Resting,
    /// Its last hook runs.
    Stopping,
}

/// Whether an entity is about to stop, at its own or a caller's wish or for want of room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Leaving {
    /// It stays.
    No,
    /// Once the mail is handled that it had when it was picked: there are too many.
    Evicted,
    /// Once the mail is handled that it had when it was asked; what came later is for its next life.
    AfterMail,
    /// Before any other mail, which goes to its next life.
    Now,
}

/// One entity's place.
#[derive(Debug)]
pub struct Resident<M> {
    /// Who.
    pub id: EntityId,
    /// The hash of the id, for the table.
    pub hash: u64,
    /// Its shard.
    pub shard: ShardId,
    /// Counts its lives under one grant; the last part of a fence.
    pub activation: u32,
    /// What it weighs, as it said; what the type's limit counts for each until it does.
    pub weight: NonZeroU32,
    /// Where it stands.
    pub phase: Phase,
    /// Whether it is about to stop.
    pub leaving: Leaving,
    /// It waits in the list of those that may run again when the session is renewed.
    pub stalled: bool,
    /// It is not put to sleep for idleness or for room.
    pub pinned: bool,
    /// If it is leaving: how many messages it handles first.
    pub due: u32,
    /// Mail that waits. Most entities never have any: no buffer is kept for them.
    #[expect(clippy::box_collection, reason = "one word for the many that have none, not four")]
    mail: Option<Box<VecDeque<Mail<M>>>>,
}

impl<M> Resident<M> {
    /// Whether the next message may run at once.
    #[inline]
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.phase == Phase::Idle && self.mail.is_none() && self.leaving == Leaving::No
    }

    /// Whether it is to stop before it takes another message.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match self.leaving {
            Leaving::No => false,
            Leaving::Evicted | Leaving::AfterMail => self.due == 0 || self.mail.is_none(),
            Leaving::Now => true,
        }
    }

    /// How much mail waits.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.mail.as_ref().map_or(0, |mail| mail.len())
    }
}

/// All entities of one lane. Finding one is one probe of a table and one look at its slot; nothing allocates but a new
/// entity and the first message that has to wait.
#[derive(Debug)]
pub struct Residents<M> {
    slots: Slab<Resident<M>>,
    index: Index,
    /// Empty mail buffers, kept for the next one that needs one.
    #[expect(clippy::vec_box, reason = "they move in and out of residents as they are")]
    spare: Vec<Box<VecDeque<Mail<M>>>>,
}

/// Buffers kept for reuse; beyond it they are freed.
const SPARE_BUFFERS: usize = 64;
/// A buffer that grew beyond this is freed rather than kept.
const SPARE_CAPACITY: usize = 256;

impl<M> Default for Residents<M> {
    fn default() -> Self {
        Self { slots: Slab::default(), index: Index::default(), spare: Vec::new() }
    }
}

impl<M> Residents<M> {
    /// How many there are, whatever their phase.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// The slot of `id`. O(1), allocates nothing.
    #[inline]
    #[must_use]
    pub fn find(&self, hash: u64, id: &str) -> Option<Slot> {
        let slots = &self.slots;
        let index = self.index.find(hash, |at| {
            slots.at(at).is_some_and(|resident| resident.hash == hash && resident.id.as_bytes() == id.as_bytes())
        })?;
        slots.slot(index)
    }

    /// The slot of `id` if the next message may run at once.
    #[inline]
    #[must_use]
    pub fn find_free(&self, hash: u64, id: &str) -> Option<Slot> {
        let slot = self.find(hash, id)?;
        self.slots.get(slot)?.is_free().then_some(slot)
    }

    /// Takes in a new entity in [`Phase::Starting`]. The caller has made sure that there is none of that id.
    pub fn create(&mut self, hash: u64, id: EntityId, shard: ShardId, activation: u32, weight: NonZeroU32) -> Slot {
        let slot = self.slots.insert(Resident {
            id,
            hash,
            shard,
            activation,
            weight,
            phase: Phase::Starting,
            leaving: Leaving::No,
            stalled: false,
            pinned: false,
            due: 0,
            mail: None,
        });
        let slots = &self.slots;
        self.index.insert(hash, slot.index, |at| slots.at(at).map_or(0, |resident| resident.hash));
        slot
    }

    /// Takes an entity out, with the mail that waited.
    pub fn remove(&mut self, slot: Slot) -> Option<(Resident<M>, VecDeque<Mail<M>>)> {
        let mut resident = self.slots.remove(slot)?;
        self.index.remove(resident.hash, |at| at == slot.index);
        let mail = resident.mail.take().map_or_else(VecDeque::new, |mail| *mail);
        Some((resident, mail))
    }

    /// The resident at `slot`, unless that life is over.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<&Resident<M>> {
        self.slots.get(slot)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Resident<M>> {
        self.slots.get_mut(slot)
    }

    /// The slot at an index, if it is in use.
    #[must_use]
    pub fn at(&self, index: u32) -> Option<Slot> {
        self.slots.slot(index)
    }

    /// Every slot of `shard`, in order of the slots. O(entities of the lane).
    #[must_use]
    pub fn of_shard(&self, shard: ShardId) -> Vec<Slot> {
        self.slots.iter().filter(|(_, resident)| resident.shard == shard).map(|(slot, _)| slot).collect()
    }

    /// Has the entity at `slot` stop after the mail that it has; or sooner, if that was said before.
    pub fn leave(&mut self, slot: Slot, how: Leaving) {
        let Some(resident) = self.slots.get_mut(slot) else { return };
        if resident.leaving == Leaving::No {
            resident.due = u32::try_from(resident.waiting()).unwrap_or(u32::MAX);
        }
        resident.leaving = resident.leaving.max(how);
    }

    /// Lets `mail` wait for the entity at `slot`.
    pub fn queue(&mut self, slot: Slot, mail: Mail<M>) {
        let Some(resident) = self.slots.get_mut(slot) else { return };
        let spare = &mut self.spare;
        resident.mail.get_or_insert_with(|| spare.pop().unwrap_or_default()).push_back(mail);
    }

    /// The next message that waits at `slot`.
    pub fn next_mail(&mut self, slot: Slot) -> Option<Mail<M>> {
        let resident = self.slots.get_mut(slot)?;
        let buffer = resident.mail.as_mut()?;
        let mail = buffer.pop_front();
        if buffer.is_empty() {
            self.recycle(slot);
        }
        mail
    }

    /// All mail that waits at `slot`, in order.
    pub fn take_mail(&mut self, slot: Slot) -> VecDeque<Mail<M>> {
        let Some(resident) = self.slots.get_mut(slot) else { return VecDeque::new() };
        resident.mail.take().map_or_else(VecDeque::new, |mail| *mail)
    }

    /// Forgets the timers' mail of a life that ended; mail from callers and streams waits for the next one.
    pub fn forget_timers(&mut self, slot: Slot) {
        let Some(buffer) = self.slots.get_mut(slot).and_then(|resident| resident.mail.as_mut()) else { return };
        buffer.retain(|mail| mail.origin != Origin::Timer);
        if buffer.is_empty() {
            self.recycle(slot);
        }
    }

    fn recycle(&mut self, slot: Slot) {
        let Some(buffer) = self.slots.get_mut(slot).and_then(|resident| resident.mail.take()) else { return };
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() <= SPARE_CAPACITY {
            self.spare.push(buffer);
        }
    }
}
