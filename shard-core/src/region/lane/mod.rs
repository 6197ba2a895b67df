//! One lane: the shards `s` with `s % lanes == lane` of one entity type, on one node.
//!
//! Reading order: this page (state and the fast door), `mail` (how a message finds its entity), `gate` (who may run where a
//! type is guarded by tenant), `life` (how lives begin and end), `keeper` (who is put to sleep
//! where there are too many), `meter` (what is said of the shards' loads), `tenure` (how grants begin and end, and the barrier), `sender` (how mail leaves for other nodes).

mod gate;
mod host;
mod keeper;
mod life;
mod mail;
mod meter;
mod sender;
mod tenure;
#[cfg(test)]
mod tests;

pub use host::{DataHead, LaneHost, Life, Receipt};
pub use life::Next;
pub use mail::{Arrival, Tell};
pub use meter::LoadBy;
pub use tenure::Order;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::stream::{Incoming, Outgoing, OutgoingOutput, StreamConfig};
use crate::collections::{Deadlines, EntityId};
use crate::entity::StopReason;
use crate::id::{Kind, NodeKey, ShardId, ShardKey, Slot, Token};
use crate::machine::{Fixed, Rules};
use crate::passivation::{Passivation, Sleepers};
use crate::shard::Residents;
use crate::shuffle::{FairQueues, Guard};
use crate::time::{Duration, Instant, soonest};

/// What a lane must know and cannot change.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// This node.
    pub me: NodeKey,
    /// The entity type.
    pub kind: Kind,
    /// Its number of shards.
    pub shards: NonZeroU32,
    /// Which lane this is.
    pub lane: u32,
    /// Of how many.
    pub lanes: NonZeroU32,
    /// When entities fall asleep.
    pub passivation: Passivation,
    /// How many messages may wait for one entity.
    pub mailbox: usize,
    /// How many timers the entities of a lane may have in all.
    pub timers: usize,
    /// The pause before an entity that failed is started again; doubles with each failure in a row.
    pub rest: Duration,
    /// The longest such pause.
    pub rest_max: Duration,
    /// Bounds and times of the streams.
    pub stream: Fixed<StreamConfig>,
    /// The rules in force.
    pub rules: Rules,
    /// Guards the entities by tenant.
    pub guard: Option<Guard>,
    /// What is said of the shards' loads; `None`: nothing, because nobody looks at them.
    pub loads: Option<LoadBy>,
}

/// One grant under which entities live here.
#[derive(Debug)]
struct Tenure {
    token: Token,
    /// Set while it drains: why its entities are stopped. When they are dropped by force stands in `drains`.
    drain: Option<StopReason>,
    /// How many lives began under it.
    activations: u32,
    /// What other nodes sent under it.
    incoming: Incoming,
}

/// What the lane knows of one of its shards.
#[derive(Debug)]
struct ShardState<M> {
    tenure: Option<Tenure>,
    outgoing: Option<Box<Outgoing<EntityId, M>>>,
    /// Entities of the shard, whatever their phase.
    residents: u32,
    /// What they weigh.
    weight: u64,
    /// Mail of local callers that a tenure's end gave back, until the end is complete.
    returned: Vec<sender::Returned<M>>,
}

/// What the fast door looks at.
#[derive(Clone, Copy, Debug, Default)]
struct Door {
    /// Owned, not draining, and nothing of this node's own is under way to it (D10).
    direct: bool,
    /// Handlers started since the load was last reported; wraps where it is not.
    handled: u32,
}

/// One lane. All calls take the present time; effects go to a [`LaneHost`].
#[derive(Debug)]
pub struct Lane<M> {
    config: LaneConfig,
    residents: Residents<M>,
    sleepers: Sleepers,
    /// If the type has a limit: who is put to sleep when there are too many.
    keeper: Option<Box<keeper::Keeper>>,
    shards: Vec<ShardState<M>>,
    /// Per shard.
    doors: Vec<Door>,
    /// No handler starts at or after this (the session's end less the margin).
    live_until: Instant,
    /// The lane is stopping everything; `halted` is owed.
    halting: bool,
    /// Idle entities whose mail waits for the session to be renewed.
    stalled: Vec<Slot>,
    /// Timers of entities, and the pauses of those that failed.
    timers: BTreeMap<(Instant, u64), life::Timer<M>>,
    next_timer: u64,
    /// Failures in a row, of those that failed.
    failures: BTreeMap<u32, u8>,
    /// Shards with takings to report.
    unflushed: BTreeSet<u32>,
    /// When drains are forced, by shard.
    drains: Deadlines,
    /// When outgoing streams have something to do, by shard.
    streams: Deadlines,
    /// Processes that are hard to reach, or count as out of the cluster.
    doubts: sender::Doubts,
    /// The last refusal sent; forgotten when a link changes.
    last_refusal: Option<mail::Refusal>,
    /// Reused between calls.
    scratch: Vec<OutgoingOutput>,
    /// If somebody looks at the loads of shards: what is said of them.
    meter: Option<Box<meter::Meter>>,
    /// If the type is guarded: who may run.
    gate: Option<Box<gate::Gate>>,
}

impl Door {
    #[inline]
    const fn count(&mut self) {
        self.handled = self.handled.wrapping_add(1);
    }
}

impl<M> Lane<M> {
    /// A lane that owns nothing yet and is not live.
    #[must_use]
    pub fn new(config: LaneConfig) -> Self {
        let lanes = config.lanes.get();
        let mine = (config.shards.get() + lanes - 1 - config.lane) / lanes;
        Self {
            residents: Residents::default(),
            sleepers: Sleepers::new(config.passivation.idle),
            keeper: config.passivation.limit.map(|limit| Box::new(keeper::Keeper::new(&config, limit))),
            shards: (0..mine)
                .map(|_| ShardState { tenure: None, outgoing: None, residents: 0, weight: 0, returned: Vec::new() })
                .collect(),
            doors: (0..mine).map(|_| Door::default()).collect(),
            live_until: Instant::ZERO,
            halting: false,
            stalled: Vec::new(),
            timers: BTreeMap::new(),
            next_timer: 0,
            failures: BTreeMap::new(),
            unflushed: BTreeSet::new(),
            drains: Deadlines::new(mine as usize),
            streams: Deadlines::new(mine as usize),
            doubts: sender::Doubts::default(),
            last_refusal: None,
            scratch: Vec::new(),
            meter: config.loads.map(|by| Box::new(meter::Meter::new(by, mine as usize))),
            gate: config.guard.map(|guard| Box::new(gate::Gate::new(guard))),
            config,
        }
    }

    /// The fast door. `Some` if a handler for `id` may start right now: the session lives, the shard is owned and not
    /// draining, nothing of this node is parked for it, and the entity is awake, idle and has no mail. The host then runs
    /// the handler itself; if that waits, it says so with [`busy`](Self::busy). O(1), allocates nothing. Closed where the
    /// type is guarded: a handler then waits for its seat.
    ///
    /// `shard` is the shard of `id` and belongs to this lane; `hash` is [`crate::hash::entity`] of it.
    #[inline]
    pub fn locate(&mut self, now: Instant, shard: ShardId, hash: u64, id: &str) -> Option<Slot> {
        let at = self.local(shard);
        if now >= self.live_until || !self.doors[at].direct || self.gate.is_some() {
            return None;
        }
        let slot = self.residents.find_free(hash, id)?;
        self.doors[at].count();
        self.touch(now, slot.index);
        Some(slot)
    }

    /// When [`expire`](Self::expire) next has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let timer = self.timers.keys().next().map(|(at, _)| *at);
        let timer = soonest(timer, self.keeper.as_ref().and_then(|keeper| keeper.deadline()));
        let timer = soonest(timer, self.meter.as_ref().and_then(|meter| meter.deadline()));
        soonest(soonest(timer, self.sleepers.deadline()), soonest(self.drains.first(), self.streams.first()))
    }

    /// Does what is due: idle entities fall asleep, timers fire, drains are forced, streams look again.
    pub fn expire(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        self.force_drains(now, host);
        self.put_idle_to_sleep(now, host);
        self.even(now, host);
        self.report_loads(now, host);
        self.fire_timers(now, host);
        self.expire_streams(now, host);
        self.admit(now, host);
    }

    /// The entity at that place is used.
    #[inline]
    fn touch(&mut self, now: Instant, index: u32) {
        self.sleepers.touch(now, index);
        if let Some(keeper) = &mut self.keeper {
            keeper.touch(index);
        }
    }

    /// Whether handlers may start at `now`.
    #[must_use]
    pub fn is_live(&self, now: Instant) -> bool {
        now < self.live_until
    }

    /// Whether one more may start, at `now` and at the host's own time.
    fn may_start(&self, now: Instant, host: &mut impl LaneHost<M>) -> bool {
        self.is_live(now) && host.may_start()
    }

    /// The grant under which a handler of `shard` could start at `now`, if any could.
    #[must_use]
    pub fn serves(&self, now: Instant, shard: ShardId) -> Option<Token> {
        let tenure = self.shards[self.local(shard)].tenure.as_ref()?;
        (self.is_live(now) && !self.is_ending(shard)).then_some(tenure.token)
    }

    /// Whether something waits for a handler or hook that may not start: the host is to look soon whether the session was
    /// renewed.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// Entities in any phase.
    #[must_use]
    pub fn residents(&self) -> usize {
        self.residents.len()
    }

    /// The queues of a guarded type, for inspection.
    #[must_use]
    pub fn queues(&self) -> Option<&FairQueues> {
        self.gate.as_ref().map(|gate| &gate.queues)
    }

    /// Who lives at `slot`, unless that life is over.
    #[must_use]
    pub fn id(&self, slot: Slot) -> Option<&EntityId> {
        self.residents.get(slot).map(|resident| &resident.id)
    }

    /// The grants held, in order of the shards; a shard that drains is among them.
    pub fn tenures(&self) -> impl Iterator<Item = (ShardId, Token)> {
        self.shards.iter().enumerate().filter_map(|(at, state)| Some((self.global(at), state.tenure.as_ref()?.token)))
    }

    /// Messages of this node's callers that are kept for `shard`: parked, under way, or waiting to be taken elsewhere.
    #[must_use]
    pub fn unsettled(&self, shard: ShardId) -> usize {
        self.shards[self.local(shard)].outgoing.as_ref().map_or(0, |outgoing| outgoing.len())
    }

    /// Where the stream of `shard` is open to, if to another node.
    #[must_use]
    pub fn route(&self, shard: ShardId) -> Option<NodeKey> {
        self.shards[self.local(shard)].outgoing.as_ref()?.home()
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &LaneConfig {
        &self.config
    }

    #[inline]
    fn local(&self, shard: ShardId) -> usize {
        debug_assert_eq!(shard.0 % self.config.lanes.get(), self.config.lane, "shard of another lane");
        (shard.0 / self.config.lanes.get()) as usize
    }

    fn global(&self, at: usize) -> ShardId {
        ShardId(u32::try_from(at).unwrap_or(u32::MAX) * self.config.lanes.get() + self.config.lane)
    }

    fn key(&self, shard: ShardId) -> ShardKey {
        ShardKey { kind: self.config.kind, shard }
    }

    /// Keeps the promise of [`locate`](Self::locate): recomputed whenever a tenure or a stream of the shard changes.
    fn refresh_direct(&mut self, at: usize) {
        let state = &self.shards[at];
        let owned = state.tenure.as_ref().is_some_and(|tenure| tenure.drain.is_none());
        self.doors[at].direct =
            owned && !self.halting && state.outgoing.as_ref().is_none_or(|outgoing| outgoing.is_empty());
    }

    /// Whether the tenure of the shard is ending, so that nothing may start in it.
    fn is_ending(&self, shard: ShardId) -> bool {
        self.halting || self.shards[self.local(shard)].tenure.as_ref().is_none_or(|tenure| tenure.drain.is_some())
    }
}
