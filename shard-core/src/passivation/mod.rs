//! Who is put to sleep, and when.
//!
//! An idle entity costs its state and a slot; this floor decides whose state goes first. [`Passivation`] is what users
//! configure. May import: collections, machine, ground.
//!
//! Idleness and limits are two things. For idleness there is [`Sleepers`] and its clock: every operation O(1), no timer per
//! entity. For limits there is [`PassivationPolicy`], a contract without one: told who is created, used and gone, it says who
//! must go. Each lane has an instance, whose memory of former entities outlives shards that leave and come; the limit is the
//! node's, and a [`Pool`] shares it out. It holds exactly: whoever weighs more than a lane may hold is picked itself, handles the mail
//! that woke it and goes, and nobody goes for its sake; a lane that has such a one is first in line for room that others give up
//! at their evening, and while they press for it all may miss it. What one entity has grown by, others make up for a sixteenth at a time, ten times a second. Whoever is picked handles the mail that it has by then, so an entity that is never without
//! mail goes as well; what comes later wakes its next life. While as many are being stopped as may be awake, no more are woken:
//! their mail is refused as full ([`Bound::Stopping`](crate::entity::Bound::Stopping)), so slow last hooks cannot fill the memory.
//!
//! Most policies are an [`Order`] in the frame [`Ordered`]: [`Lru`], [`Slru`], [`Mru`], [`Lfu`], [`Sieve`], [`S3Fifo`],
//! [`Random`]. [`TinyLfu`] is composed of a window, levels and a [`Sketch`]. [`PolicyChoice`] builds each by name, and the
//! simulator `passivation` of the examples compares them on traces. One of your own is given to a type with
//! [`Passivation::choosing_own`]; `sim::laws::check_policy` tries whether it keeps the contract.
//!
//! Which to take, by what the messages are like:
//!
//! | messages | take | why |
//! |---|---|---|
//! | not known | [`S3Fifo`] | at worst 1.5 points below [`Lru`] in the rows below, six and more above it in six of them |
//! | stable popularity, scans, loops | [`TinyLfu`] | nearest to the optimum there, the only one beside [`Mru`] that does well on loops; slow where popularity moves |
//! | what was used lately is used again | [`Lru`] | on traces of pure recency nothing beats it by much |
//! | loops and nothing else | [`Mru`] | keeps a fixed part awake |
//! | touches must cost next to nothing | [`Sieve`] | one store; near [`S3Fifo`] where popularity is stable, far behind where it moves |
//!
//! Hits in percent, a million messages (zipf 0.9 over 100,000 entities; a loop of 20,000; the same zipf interrupted by
//! scans; the same with popularity that moves on ten times) and a month of aircraft, by the simulator with seed 1:
//!
//! | trace, limit | optimum | [`Lru`] | [`Sieve`] | [`S3Fifo`] | [`TinyLfu`] |
//! |---|---|---|---|---|---|
//! | zipf 1,000 | 53.4 | 34.3 | 44.5 | 45.2 | 45.1 |
//! | zipf 10,000 | 76.6 | 60.4 | 66.2 | 66.7 | 67.6 |
//! | loop 1,000 | 4.9 | 0 | 0 | 0 | 0 |
//! | loop 10,000 | 49.0 | 0 | 0 | 0 | 48.2 |
//! | scan and zipf 1,000 | 35.7 | 22.7 | 29.6 | 30.3 | 30.0 |
//! | scan and zipf 10,000 | 51.0 | 33.7 | 43.6 | 42.8 | 44.6 |
//! | shifting 1,000 | 52.8 | 34.2 | 36.2 | 42.6 | 41.5 |
//! | shifting 10,000 | 74.0 | 59.1 | 49.4 | 57.7 | 52.9 |
//! | flights 300 | 55.4 | 15.0 | 16.5 | 27.5 | 28.3 |
//! | flights 1,000 | 79.3 | 61.2 | 53.1 | 60.6 | 58.8 |

mod choice;
mod climb;
mod lfu;
mod lru;
mod mru;
mod ordered;
mod own;
mod policy;
mod pool;
mod random;
mod rings;
mod s3_fifo;
mod sieve;
mod sketch;
mod sleepers;
mod slru;
#[cfg(test)]
mod tests;
mod tiny_lfu;
#[cfg(any(test, feature = "sim"))]
pub mod twins;

pub use choice::PolicyChoice;
pub use climb::HillClimb;
pub use lfu::Lfu;
pub use lru::Lru;
pub use mru::Mru;
pub use ordered::{Order, Ordered};
pub use own::{MakePolicy, Policy, Setting};
pub use policy::{Census, PassivationPolicy, Tally};
pub(crate) use pool::step_down;
pub use pool::{EVEN_EVERY, EVEN_SOON, Evened, LaneReport, LimitReport, Pool, Wish};
pub use random::Random;
pub use rings::Rings;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use sketch::Sketch;
pub use sleepers::Sleepers;
pub use slru::Slru;
pub use tiny_lfu::{TinyLfu, TinyLfuConfig};

use core::num::{NonZeroU32, NonZeroU64};

use crate::time::Duration;

/// When entities are put to sleep without asking for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passivation {
    /// An entity that got no mail for this long is stopped. `None`: never for idleness.
    pub idle: Option<Duration>,
    /// How many may be awake on one node, and who goes if there are more. `None`: as many as there are.
    pub limit: Option<Limit>,
}

/// How many entities of a type may be awake on one node, and who goes if there are more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// At most so much is awake, without those that are being stopped: exactly, but while it has been lowered, or one entity has
    /// grown, and the others follow in steps.
    pub at_most: NonZeroU64,
    /// For a limit by weight: what an entity counts until it says otherwise
    /// ([`Context::weighs`](crate::entity::Context::weighs)). `None`: a limit by number, under which each counts one, whatever
    /// it says.
    pub each: Option<NonZeroU32>,
    /// Who goes.
    pub policy: Policy,
}

impl Limit {
    /// What an entity counts when it wakes.
    #[must_use]
    pub const fn weight(&self) -> NonZeroU32 {
        match self.each {
            Some(each) => each,
            None => NonZeroU32::MIN,
        }
    }
}

impl Passivation {
    /// Never, unless the entity asks.
    #[must_use]
    pub const fn never() -> Self {
        Self { idle: None, limit: None }
    }

    /// After `idle` without mail.
    #[must_use]
    pub const fn after(idle: Duration) -> Self {
        Self { idle: Some(idle), limit: None }
    }

    /// Whenever more than `cap` are awake on this node, and not for idleness ([`and_after`](Self::and_after) adds that); who goes is [`PolicyChoice::default`]'s matter, or as
    /// [`choosing`](Self::choosing) says. `cap` is anything that is not zero; zero is taken for one.
    #[must_use]
    pub const fn at_most(cap: u64) -> Self {
        Self::limited(cap, None)
    }

    /// Whenever those awake weigh more than `cap` in sum: bytes, say. Each entity counts `each` until it says what it weighs
    /// ([`Context::weighs`](crate::entity::Context::weighs)). Zeros are taken for ones.
    #[must_use]
    pub const fn weighing(cap: u64, each: u32) -> Self {
        let each = match NonZeroU32::new(each) {
            Some(each) => each,
            None => NonZeroU32::MIN,
        };
        Self::limited(cap, Some(each))
    }

    const fn limited(cap: u64, each: Option<NonZeroU32>) -> Self {
        let at_most = match NonZeroU64::new(cap) {
            Some(cap) => cap,
            None => NonZeroU64::MIN,
        };
        let policy = Policy::Known(PolicyChoice::S3Fifo);
        Self { idle: None, limit: Some(Limit { at_most, each, policy }) }
    }

    /// The same, with another policy for the limit. Without a limit it changes nothing.
    #[must_use]
    pub const fn choosing(self, policy: PolicyChoice) -> Self {
        self.by(Policy::Known(policy))
    }

    /// The same, with a policy of your own for the limit: `make` is called once for each lane. See [`Policy::Own`]. Without a
    /// limit it changes nothing.
    #[must_use]
    pub const fn choosing_own(self, make: MakePolicy) -> Self {
        self.by(Policy::Own(make))
    }

    const fn by(self, policy: Policy) -> Self {
        match self.limit {
            Some(limit) => Self { limit: Some(Limit { policy, ..limit }), ..self },
            None => self,
        }
    }

    /// The same, and after `idle` without mail as well.
    #[must_use]
    pub const fn and_after(self, idle: Duration) -> Self {
        Self { idle: Some(idle), ..self }
    }
}

impl Default for Passivation {
    /// Five minutes without mail, no limit.
    fn default() -> Self {
        Self::after(Duration::from_secs(300))
    }
}
