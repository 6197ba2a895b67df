//! One list of what every embedding of the core owes its users; tokio, smol and a loop of your own run the same.
//!
//! # Why
//! The machines are proved by the simulator; what an embedding adds (tasks, wakers, alarms, sockets) is not. Each
//! [`Scenario`] asks real entities real questions and compares the answers. Implement [`Embedding`] in a test, then:
//! ```
//! use shard_core::sim::conformance::{Embedding, check};
//!
//! fn keeps_the_promises(mine: &impl Embedding) {
//!     check(mine);
//! }
//! ```
//! # What it promises
//! - Scenarios block the calling thread and poll asks on it, so any executor will do; each starts its own cluster.
//! - They wait for facts, not for times: a slow machine makes them slow, not red. Half a minute without the fact is red.
//! - A scenario for several nodes runs only where [`Embedding::nodes_max`] allows it. All nodes of a cluster live in one
//!   process, so that one [`Setup`] sees what all handlers did: no two handlers of an entity at once, ever.
//!
//! Needs the features `sim` and `std`.

#[cfg(feature = "std")]
pub mod hub;
pub mod probe;
mod scenarios;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::thread::{self, Thread};

pub use self::probe::{Probe, ProbeMessage};

use self::probe::Ledger;
use crate::entity::{Entities, Identity};
use crate::passivation::Passivation;
use crate::time::Duration;

/// A way to run nodes.
pub trait Embedding: Sync {
    /// How many nodes a cluster of it may have at once.
    fn nodes_max(&self) -> usize;

    /// A cluster without nodes. Its name, ports and lock are its own: clusters of earlier scenarios may still be ending.
    fn cluster(&self, setup: &Setup) -> Box<dyn Cluster>;
}

/// A cluster of one scenario. Dropping it ends what still runs.
pub trait Cluster {
    /// Starts one more node, which hosts [`Probe`]s as the setup says, and returns once it belongs to the cluster. The
    /// first node must be able to reign without the others.
    fn start(&mut self) -> Box<dyn Member>;
}

/// A node.
pub trait Member {
    /// Its references.
    fn probes(&self) -> Entities<ProbeMessage>;

    /// How many shards of the probes it holds.
    fn shards(&self) -> usize;

    /// Leaves the cluster and waits for it; whether all was handed over in time.
    fn leave(self: Box<Self>) -> bool;
}

/// How probes are to be registered.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of shards.
    pub shards: NonZeroU32,
    /// When probes fall asleep.
    pub passivation: Passivation,
    ledger: Arc<Ledger>,
}

impl Setup {
    fn new(shards: u32, passivation: Passivation) -> Self {
        Self { shards: NonZeroU32::new(shards).unwrap_or(NonZeroU32::MIN), passivation, ledger: Arc::default() }
    }

    /// What makes the probes, on every node of the cluster.
    pub fn make(&self) -> impl Fn(&Identity) -> Probe + Clone + Send + Sync + 'static {
        let ledger = Arc::clone(&self.ledger);
        move |identity| Probe::new(identity.id().clone(), Arc::clone(&ledger))
    }
}

/// Whether a scenario held, or what was seen instead.
pub type Verdict = Result<(), String>;

/// One promise, tried out.
pub struct Scenario {
    /// The promise, as a fact.
    pub name: &'static str,
    /// How many nodes it takes.
    pub nodes: usize,
    play: fn(&dyn Embedding) -> Verdict,
}

impl Scenario {
    /// Tries it.
    ///
    /// # Errors
    /// What was seen instead.
    pub fn run(&self, embedding: &dyn Embedding) -> Verdict {
        (self.play)(embedding)
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} nodes)", self.name, self.nodes)
    }
}

/// Every scenario, those for one node first.
#[must_use]
pub const fn scenarios() -> &'static [Scenario] {
    scenarios::ALL
}

/// Runs all that the embedding has nodes for, and returns how many that were.
///
/// # Panics
/// If one does not hold, after all have run: with the list of those.
pub fn check(embedding: &dyn Embedding) -> usize {
    let fitting: Vec<_> = scenarios().iter().filter(|scenario| scenario.nodes <= embedding.nodes_max()).collect();
    // They wait more than they work, each for a cluster of its own.
    let failed: Vec<String> = fitting
        .chunks(AT_ONCE)
        .flat_map(|some| {
            thread::scope(|scope| {
                let runs: Vec<_> = some.iter().map(|one| (one.name, scope.spawn(|| one.run(embedding)))).collect();
                let ended = runs.into_iter().map(|(name, run)| match run.join() {
                    Ok(verdict) => (name, verdict),
                    Err(_) => (name, Err("panicked".into())),
                });
                ended.filter_map(|(name, verdict)| Some(format!("{name}: {}", verdict.err()?))).collect::<Vec<_>>()
            })
        })
        .collect();
    assert!(failed.is_empty(), "{} of {} do not hold:\n{}", failed.len(), fitting.len(), failed.join("\n"));
    fitting.len()
}

/// Scenarios that run at once.
const AT_ONCE: usize = 8;
/// Half a minute, in pauses.
const PAUSES: u32 = 6_000;
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `fact` holds.
fn until(what: &str, mut fact: impl FnMut() -> bool) -> Verdict {
    for _ in 0..PAUSES {
        if fact() {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    Err(format!("waited in vain until {what}"))
}

/// Polls `future` on this thread until it ends.
fn wait<F: Future>(future: F) -> Result<F::Output, String> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    for _ in 0..PAUSES {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(output);
        }
        thread::park_timeout(PAUSE);
    }
    Err("an ask did not end, not even at its deadline".into())
}
