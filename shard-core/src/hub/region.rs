//! The doors of one entity type on this node: where callers, readers and control put what a lane shall do.

use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::vec::Vec;

use core::num::NonZeroU32;

use super::answering::Answering;
use super::inbox::{ArrivalItem, LaneDoor, ReceiptItem, TellItem};
use super::shared::{DataFrame, Door, Shared, count};
use super::traffic::Observed;
use crate::collections::EntityId;
use crate::entity::{Alarm, Clock, DecodeError, Reason, Route, Wire};
use crate::hash::{self, ShardHash};
use crate::id::{Kind, NodeKey, ShardId, ShardKey};
use crate::passivation::Pool;
use crate::region::lane::Order;
use crate::time::Instant;

/// The doors of one type.
pub(super) struct Region<M> {
    pub(super) shared: Arc<Shared>,
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    pub(super) shards: NonZeroU32,
    pub(super) hash: ShardHash,
    pub(super) lanes: Vec<LaneDoor<M>>,
    /// If the type has a limit of awake entities: whose is what of it.
    pub(super) pool: Option<Mutex<Pool>>,
    /// If the strategy looks at it: which shards talk to each other.
    pub(super) observed: Option<Observed>,
    /// The cluster counts the shards of this type otherwise: no id can be told where it lives.
    pub(super) refused: AtomicBool,
}

impl<M> Region<M> {
    #[inline]
    fn lane(&self, shard: ShardId) -> (&LaneDoor<M>, usize) {
        let lanes = self.lanes.len();
        (&self.lanes[shard.0 as usize % lanes], shard.0 as usize / lanes)
    }

    fn place(&self, id: &str) -> (u64, ShardId) {
        let hash = hash::entity(id);
        (hash, self.hash.shard_hashed(id, hash, self.shards))
    }
}

impl<M: Wire> Route<M> for Region<M> {
    fn send(&self, id: &str, message: M, deadline: Option<Instant>) -> Result<(), (M, Reason)> {
        if self.refused.load(Ordering::Relaxed) {
            return Err((message, Reason::NoSuchType));
        }
        let (hash, shard) = self.place(id);
        if let Some(observed) = &self.observed {
            observed.said(self.kind, shard);
        }
        let (lane, at) = self.lane(shard);
        lane.tell(at, TellItem { id: EntityId::from(id), hash, shard, message, deadline })
    }

    fn poll_ready(&self, id: &str, waker: &Waker) -> Poll<()> {
        if self.refused.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        let (_, shard) = self.place(id);
        let (lane, at) = self.lane(shard);
        if lane.has_room(at, waker) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<M: Wire> Clock for Region<M> {
    fn now(&self) -> Instant {
        self.shared.now()
    }

    fn wake_at(&self, at: Instant, waker: &Waker) -> Alarm {
        self.shared.wake_at(at, waker)
    }

    fn forget(&self, alarm: Alarm) {
        self.shared.forget(alarm);
    }
}

impl<M: Wire> Door for Region<M> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shard_of(&self, id: &str) -> ShardId {
        self.hash.shard(id, self.shards)
    }

    fn data(&self, from: NodeKey, data: DataFrame<'_>) -> bool {
        let DataFrame { shard, token, attempt, seq, first, ask, entity, tag, body } = data;
        if shard.0 >= self.shards.get() {
            // A peer that counts the shards otherwise; the coordinator has refused one of the two.
            count(&self.shared.tallies.peers_refused, 1);
            return true;
        }
        let (lane, _) = self.lane(shard);
        let bytes = entity.len() + body.len();
        if !lane.takes(bytes) {
            return false;
        }
        let reply = ask.then(|| {
            let key = ShardKey { kind: self.kind, shard };
            Box::new(Answering { shared: Arc::clone(&self.shared), to: from, key, seq }) as Box<_>
        });
        // `Deserialize` is the user's code, and here is the task that reads for all types: a panic in it is a garbled message.
        let decoded = catch_unwind(AssertUnwindSafe(|| M::decode(tag, body, reply)));
        let body = decoded.unwrap_or(Err(DecodeError::Garbled)).map_err(|error| error.reason(tag));
        let (id, hash) = (EntityId::from(entity), hash::entity(entity));
        lane.arrive(ArrivalItem { from, shard, token, attempt, seq, first, id, hash, body }, bytes);
        true
    }

    fn receipt(&self, shard: ShardId, item: ReceiptItem, bytes: usize) -> bool {
        if shard.0 >= self.shards.get() {
            return true;
        }
        let (lane, _) = self.lane(shard);
        let takes = lane.takes(bytes);
        if takes {
            lane.receipt(item, bytes);
        }
        takes
    }

    fn order(&self, shard: ShardId, order: Order) {
        if shard.0 < self.shards.get() {
            self.lane(shard).0.order(order);
        }
    }

    fn all(&self, order: Order) {
        for lane in &self.lanes {
            lane.order(order);
        }
    }

    fn is_quiet(&self) -> bool {
        self.lanes.iter().all(LaneDoor::is_quiet)
    }

    fn refuse(&self, refused: bool) {
        self.refused.store(refused, Ordering::Relaxed);
    }

    fn close(&self, reason: Reason) {
        for lane in &self.lanes {
            lane.close(reason);
        }
    }

    fn pool(&self) -> Option<&Mutex<Pool>> {
        self.pool.as_ref()
    }
}
