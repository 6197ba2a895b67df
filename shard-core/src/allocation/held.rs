//! Shards that a strategy shall leave where they are.

use alloc::vec::Vec;

use super::ClusterView;
use super::layout::Seat;
use crate::id::ShardId;

/// Memory for a view with some shards held.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    seats: Vec<Seat>,
}

impl Held {
    pub(super) const fn new() -> Self {
        Self { seats: Vec::new() }
    }

    /// The same view, where the shards given seem to be on their way to where they are: they count and weigh as before, no
    /// strategy offers them, and a plan [within](super::Plan::within) it moves none of them. Shards on their way elsewhere
    /// still are. O(shards).
    pub(super) fn hold<'a>(
        &'a mut self,
        view: &ClusterView<'a>,
        shards: impl Iterator<Item = ShardId>,
    ) -> ClusterView<'a> {
        self.seats.clear();
        self.seats.extend_from_slice(view.seats);
        for shard in shards {
            if let Some(seat) = self.seats.get_mut(shard.0 as usize)
                && !seat.is_moving()
            {
                *seat = seat.held();
            }
        }
        ClusterView { seats: &self.seats, ..*view }
    }
}
