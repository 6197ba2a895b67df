//! How much each shard of a lane is used: what placement rules that look at loads are told.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::{Lane, LaneHost};
use crate::id::{ShardId, Slot};
use crate::time::{Duration, Instant};

/// How often a lane reports.
pub(super) const METER_EVERY: Duration = Duration::from_secs(5);

/// What the load of a shard is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum LoadBy {
    /// Messages handled in a minute: half of it that of the last five seconds, a quarter that of the five before, and so on.
    #[default]
    Messages,
    /// Entities awake.
    Entities,
    /// What those weigh that are awake, as they say ([`Context::weighs`](crate::entity::Context::weighs)); until they do, what the
    /// type's limit counts for each, or one.
    Weight,
}

/// What a lane keeps to say it.
#[derive(Debug)]
pub(super) struct Meter {
    by: LoadBy,
    /// The next report, while a shard is owned.
    next: Option<Instant>,
    /// By shard.
    gauges: Vec<Gauge>,
    /// Reused between reports.
    said: Vec<(ShardId, u32)>,
}

/// One shard under its present grant.
#[derive(Clone, Copy, Debug)]
struct Gauge {
    /// Since when its messages are counted.
    since: Instant,
    /// Its load by the last report.
    load: Option<u32>,
}

impl Meter {
    pub(super) fn new(by: LoadBy, shards: usize) -> Self {
        let gauge = Gauge { since: Instant::ZERO, load: None };
        Self { by, next: None, gauges: alloc::vec![gauge; shards], said: Vec::new() }
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

impl Gauge {
    /// The messages in a minute, if so many came since it was last asked; `None`: too early to say.
    fn rate(&mut self, now: Instant, handled: u32) -> Option<u32> {
        let elapsed = now.since(self.since).as_millis().max(1);
        if elapsed < METER_EVERY.as_millis() / 2 {
            return None;
        }
        let sample = u128::from(handled) * 60_000 / elapsed;
        // Rounded to the sample's side, so that a load that stays is reached.
        let rate = match self.load {
            None => sample,
            Some(load) if u128::from(load) < sample => (u128::from(load) + sample).div_ceil(2),
            Some(load) => u128::midpoint(load.into(), sample),
        };
        Some(u32::try_from(rate).unwrap_or(u32::MAX))
    }
}

impl<M> Lane<M> {
    /// A shard came here: it is measured from now on.
    pub(super) fn meter_owned(&mut self, now: Instant, at: usize) {
        let Some(meter) = &mut self.meter else { return };
        meter.gauges[at] = Gauge { since: now, load: None };
        self.doors[at].handled = 0;
        meter.next.get_or_insert(now + METER_EVERY);
    }

    /// An entity says what it weighs.
    pub(super) fn reweigh(&mut self, slot: Slot, weight: NonZeroU32) {
        let Some(resident) = self.residents.get_mut(slot) else { return };
        let (shard, before) = (resident.shard, core::mem::replace(&mut resident.weight, weight));
        let at = self.local(shard);
        let state = &mut self.shards[at];
        state.weight = state.weight + u64::from(weight.get()) - u64::from(before.get());
    }

    /// Says the loads of the shards that are owned, if it is time. O(shards of the lane).
    pub(super) fn report_loads(&mut self, now: Instant, host: &mut impl LaneHost<M>) {
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.next.is_some_and(|next| now >= next)) else {
            return;
        };
        let mut said = core::mem::take(&mut meter.said);
        said.clear();
        let mut owns = false;
        for (at, state) in self.shards.iter().enumerate() {
            if state.tenure.is_none() {
                continue;
            }
            owns = true;
            let gauge = &mut meter.gauges[at];
            let load = match meter.by {
                LoadBy::Messages => gauge.rate(now, self.doors[at].handled),
                LoadBy::Entities => Some(state.residents),
                LoadBy::Weight => Some(u32::try_from(state.weight).unwrap_or(u32::MAX)),
            };
            let Some(load) = load else { continue };
            *gauge = Gauge { since: now, load: Some(load) };
            self.doors[at].handled = 0;
            let shard = at as u32 * self.config.lanes.get() + self.config.lane;
            said.push((ShardId(shard), load));
        }
        meter.next = owns.then_some(now + METER_EVERY);
        if !said.is_empty() {
            host.loads(&said);
        }
        if let Some(meter) = &mut self.meter {
            meter.said = said;
        }
    }
}
