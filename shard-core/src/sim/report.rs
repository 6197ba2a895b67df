//! What a run found.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::marks::Marks;
use super::measure::{Gaps, Rebalance};
use super::script::Script;
use crate::machine::Rule;

/// What happened in a run. All are counts over the whole cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Events.
    pub events: u64,
    /// Control datagrams sent, and frames of links written.
    pub datagrams: u64,
    /// Frames of links written, those written again included.
    pub frames: u64,
    /// Grants that a lane began to serve.
    pub grants: u64,
    /// Drains ordered.
    pub drains: u64,
    /// Reigns begun.
    pub elections: u64,
    /// Sets of voters loaded, by each process that was told.
    pub voters_loaded: u64,
    /// Sessions that ended unrenewed.
    pub lapses: u64,
    /// Processes that crashed.
    pub crashes: u64,
    /// Processes that left.
    pub departures: u64,
    /// Entities put to sleep, idle ones and evicted ones.
    pub passivations: u64,
    /// Messages sent.
    pub messages: u64,
    /// Messages that a handler took.
    pub handled: u64,
    /// Messages whose sender was told that they did not run.
    pub not_run: u64,
    /// Messages whose sender was told that they may have run.
    pub in_doubt: u64,
    /// Those of them that a handler took: `messages` is `handled + not_run + in_doubt - handled_in_doubt + orphaned`.
    pub handled_in_doubt: u64,
    /// Messages not handled whose sender is gone.
    pub orphaned: u64,
    /// Messages whose sender lives and was told nothing.
    pub lost: u64,
    /// Messages handled twice.
    pub duplicated: u64,
    /// Messages handled after a later one.
    pub reordered: u64,
    /// Shards with two live owners.
    pub double_owners: u64,
    /// Two nodes that reigned at once.
    pub overlapping_reigns: u64,
    /// The longest time, in real milliseconds, that a shard once owned was served by nobody.
    pub longest_gap_millis: u64,
}

impl Counters {
    /// Adds another run's; of gaps it keeps the longest.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.fields().into_iter().zip(other.values()) {
            *sum.1 += more.1;
        }
        self.longest_gap_millis = self.longest_gap_millis.max(other.longest_gap_millis);
    }

    /// Every count with its name, in a fixed order; the longest gap comes apart.
    #[must_use]
    pub fn values(&self) -> [(&'static str, u64); 22] {
        let mut copy = *self;
        copy.fields().map(|(name, value)| (name, *value))
    }

    fn fields(&mut self) -> [(&'static str, &mut u64); 22] {
        [
            ("events", &mut self.events),
            ("datagrams", &mut self.datagrams),
            ("frames", &mut self.frames),
            ("grants", &mut self.grants),
            ("drains", &mut self.drains),
            ("elections", &mut self.elections),
            ("voters_loaded", &mut self.voters_loaded),
            ("lapses", &mut self.lapses),
            ("crashes", &mut self.crashes),
            ("departures", &mut self.departures),
            ("passivations", &mut self.passivations),
            ("messages", &mut self.messages),
            ("handled", &mut self.handled),
            ("not_run", &mut self.not_run),
            ("in_doubt", &mut self.in_doubt),
            ("handled_in_doubt", &mut self.handled_in_doubt),
            ("orphaned", &mut self.orphaned),
            ("lost", &mut self.lost),
            ("duplicated", &mut self.duplicated),
            ("reordered", &mut self.reordered),
            ("double_owners", &mut self.double_owners),
            ("overlapping_reigns", &mut self.overlapping_reigns),
        ]
    }
}

/// Every property that is checked, by its name; the module's page says what each means.
pub const PROPERTIES: &[&str] = &[
    "astray",
    "beside",
    "blind-checker",
    "bound",
    "busy-loop",
    "double-owner",
    "doubted",
    "duplicated",
    "election-after-heal",
    "election-storm",
    "false-alarm",
    "fence-order",
    "flapping",
    "lapse-after-heal",
    "liveness",
    "lost",
    "lost-update",
    "newest-refused",
    "overlapping-reigns",
    "ran-unowned",
    "reordered",
    "stale-write",
    "sum",
    "table-conflict",
    "term-regressed",
    "term-twice",
    "token-order",
    "told-not-run",
    "two-fates",
    "unlisted-owner",
];

/// A property that did not hold. The run ends with the first one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The property: one of [`PROPERTIES`].
    pub property: &'static str,
    /// Both witnesses.
    pub witness: String,
    /// When, in real milliseconds of the run.
    pub at_millis: u64,
    /// The last events before it, one line each: time, node, event, and who serves each shard.
    pub history: Vec<String>,
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What the `storm` example must be told to run it again: the seed, and all else that was asked for. `None` if something was
    /// set by hand ([`Options::arguments`](super::Options::arguments)).
    pub arguments: Option<String>,
    /// The rule that was broken on purpose.
    pub mutant: Option<Rule>,
    /// Whether its entities were guarded by tenant.
    pub guarded: bool,
    /// How long it ran, in real milliseconds of the cluster.
    pub millis: u64,
    /// A hash of all events: equal for equal runs.
    pub digest: u64,
    /// The counts.
    pub counters: Counters,
    /// The first property that did not hold.
    pub violation: Option<Violation>,
    /// How long shards were served by nobody, and why.
    pub gaps: Gaps,
    /// Rare places that it passed.
    pub marks: Marks,
    /// Of a drill: what its one change cost in moves.
    pub rebalance: Option<Rebalance>,
    /// What went wrong in it, and when: the run as a script.
    pub script: Option<Box<Script>>,
    /// A line for every event, if [`super::Options::trace`] asked for it.
    pub trace: Vec<String>,
}

impl Report {
    /// The command that runs it again and prints its events; or, if no argument says what was set by hand, what to do.
    #[must_use]
    pub fn replay(&self) -> String {
        const STORM: &str = "cargo run --release -p examples --bin storm --";
        match &self.arguments {
            Some(arguments) => alloc::format!("{STORM} {arguments}"),
            None => {
                alloc::format!("options were set by hand: write `Report::script` to FILE, then {STORM} --script FILE")
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, millis, violation, .. } = self;
        let Some(violation) = violation else {
            return write!(f, "seed {seed}: nothing wrong in {millis} ms, {} events", self.counters.events);
        };
        let Violation { property, witness, at_millis, history } = violation;
        for line in history {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {seed}: VIOLATION of `{property}` at {at_millis} ms")?;
        writeln!(f, "  {witness}")?;
        write!(f, "  replay: {}", self.replay())
    }
}
