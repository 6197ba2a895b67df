//! Nodes that are needed for something else at certain hours.

use alloc::string::String;

use shard_core::allocation::{ClusterView, Filter, NodeIx};
use shard_core::time::{Duration, Instant};

/// Keeps nodes with a role free of shards during a part of the day. It is a filter: with
/// [`only`](shard_core::allocation::AllocationStrategy::only), shards are moved away when the time has come, and the inner
/// strategy decides whether they come back when it is over.
///
/// ```
/// use shard_core::allocation::{AllocationStrategy, LeastShard};
/// use shard_core::time::Duration;
/// use strategies_contrib::DrainByTime;
///
/// let hours = |hours: u64| Duration::from_secs(hours * 3_600);
/// // Reports run from ten at night to four in the morning; the host's clock began at half past six.
/// let drain = DrainByTime::new("reports", hours(22), hours(4)).clock_began_at(hours(6) + hours(1) / 2);
/// let strategy = LeastShard::default().only(drain);
/// ```
///
/// While every candidate is to be drained, none is: a shard is better off on a busy node than nowhere. A strategy has no
/// calendar, only the coordinator's clock; a coordinator on another host has another one, so tell each host when its own
/// began, and expect the hours to drift if the clock does.
#[derive(Clone, Debug)]
pub struct DrainByTime {
    role: String,
    from: Duration,
    until: Duration,
    clock_began_at: Duration,
}

const DAY: u64 = 24 * 3_600;

impl DrainByTime {
    /// Nodes with `role` are to be free of shards from `from` until before `until`, both counted from midnight. If `until`
    /// is not the later one, it is that of the next day; if both are the same, there is no such time.
    #[must_use]
    pub fn new(role: impl Into<String>, from: Duration, until: Duration) -> Self {
        Self { role: role.into(), from, until, clock_began_at: Duration::ZERO }
    }

    /// The time of day at [`Instant::ZERO`]; midnight unless said otherwise.
    #[must_use]
    pub fn clock_began_at(self, clock_began_at: Duration) -> Self {
        Self { clock_began_at, ..self }
    }

    fn is_time(&self, now: Instant) -> bool {
        let of_day = |time: Duration| time.as_secs() % DAY;
        let now = of_day(self.clock_began_at + now.since(Instant::ZERO));
        let (from, until) = (of_day(self.from), of_day(self.until));
        if from <= until { (from..until).contains(&now) } else { now >= from || now < until }
    }
}

impl Filter for DrainByTime {
    /// O(candidates) while it is time, and O(1) else.
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool {
        let drained = |ix: NodeIx| view.node(ix).has_role(&self.role);
        !self.is_time(view.now()) || !drained(node) || view.candidates().iter().all(|ix| drained(*ix))
    }
}
