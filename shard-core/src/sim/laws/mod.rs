//! The laws of allocation: one call that tries all of them on a strategy, over many generated clusters.
//!
//! ```
//! use shard_core::allocation::LeastShard;
//! use shard_core::sim::laws::Laws;
//!
//! // It says of itself that at most three shards are under way at once, and that it moves the least that must move.
//! Laws::new(LeastShard::default).at_most_in_flight(3).movement(1).check();
//! ```
//!
//! A breach says which law was broken and how, by which seed, and shows the smallest cluster found that breaks it;
//! [`Laws::from_seed`] tries that seed alone. The laws are tried in the order of [`Law::ALL`], each on all clusters before
//! the next one, since the later ones mean little where an earlier one is broken.
//!
//! Beside them, [`check_policy`] tries the contract of a passivation policy.

mod built_in;
mod dice;
mod policy;
mod shrink;
mod stage;
#[cfg(test)]
mod tests;
mod trials;
mod world;

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;

pub use built_in::{MakeBuiltIn, built_in};
pub use policy::check_policy;
pub use world::{Change, Place, World};

use crate::allocation::AllocationStrategy;
use crate::prng::{Prng, mix};
use crate::time::Duration;
use dice::Bytes;
use world::Traits;

/// A promise of every strategy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Law {
    /// It answers with candidates only, and proposes moves to candidates only.
    Candidates,
    /// It never moves what is on its way.
    InFlight,
    /// It keeps the limits of a plan and those of its own, what is in flight included, and stops when a plan is full.
    Limits,
    /// The same view and request give the same answer, from a new instance and from one that was asked before, on another view
    /// or in every round since the cluster began.
    Deterministic,
    /// The order in which nodes joined does not matter.
    Order,
    /// On a cluster that nobody disturbs, moves end within the stated number of rounds and never begin again.
    Rest,
    /// They also do after nodes have come, gone, closed and restarted in the midst of moves.
    Convergence,
    /// When one node joins or leaves, at most the stated factor of the least that must move moves.
    Movement,
}

impl Law {
    /// Every law, in the order in which they are tried.
    pub const ALL: [Self; 8] = [
        Self::Candidates,
        Self::InFlight,
        Self::Limits,
        Self::Deterministic,
        Self::Order,
        Self::Rest,
        Self::Convergence,
        Self::Movement,
    ];

    /// What it is called in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Candidates => "candidates",
            Self::InFlight => "in-flight",
            Self::Limits => "limits",
            Self::Deterministic => "deterministic",
            Self::Order => "order",
            Self::Rest => "rest",
            Self::Convergence => "convergence",
            Self::Movement => "movement",
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A law that a strategy broke.
#[derive(Clone)]
#[non_exhaustive]
pub struct Breach {
    /// Which.
    pub law: Law,
    /// The strategy's name.
    pub strategy: &'static str,
    /// The seed of the cluster on which it was broken first, for [`Laws::from_seed`]; `None` if that came out of bytes.
    pub seed: Option<u64>,
    /// How it was broken on `world`.
    pub how: String,
    /// The smallest cluster found on which it is broken.
    pub world: World,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` breaks the law `{}`", self.strategy, self.law)?;
        if let Some(seed) = self.seed {
            write!(f, " (seed {seed:#x})")?;
        }
        write!(f, ": {}\n{}", self.how, self.world)
    }
}

impl fmt::Debug for Breach {
    /// As it is displayed, so that a test that unwraps can be read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Breach {}

/// What a strategy says of itself.
#[derive(Clone, Debug)]
struct Terms {
    movement: Option<u32>,
    moves_per_shard: Option<u32>,
    own_limit: Option<usize>,
    memory: Option<Duration>,
    rest_within: Option<u32>,
    quiet_rounds: u32,
}

impl Terms {
    /// Moves are under way for up to four rounds, and a plan may take one at a time; some are made twice.
    fn rounds_to_rest(&self, shards: usize) -> u32 {
        self.rest_within.unwrap_or(64 + 10 * shards as u32)
    }
}

/// The laws, about to be tried on a strategy; [`check`](Self::check) does it.
#[derive(Clone, Debug)]
#[must_use = "nothing is tried before `check`"]
pub struct Laws<F> {
    make: F,
    terms: Terms,
    traits: Traits,
    laws: Vec<Law>,
    seeds: Seeds,
}

#[derive(Clone, Copy, Debug)]
enum Seeds {
    Many(u32),
    One(u64),
}

/// Clusters are of up to this many nodes and shards, the first ones much smaller.
const NODES_MAX: u64 = 9;
const SHARDS_MAX: u64 = 60;
/// Trials to make a breach smaller.
const SHRINKING: u32 = 2_000;

impl<S: AllocationStrategy + 'static, F: Fn() -> S> Laws<F> {
    /// The laws, for the strategy that `make` makes anew.
    pub fn new(make: F) -> Self {
        let terms = Terms {
            movement: None,
            moves_per_shard: None,
            own_limit: None,
            memory: None,
            rest_within: None,
            quiet_rounds: 200,
        };
        Self { make, terms, traits: Traits::default(), laws: Law::ALL.to_vec(), seeds: Seeds::Many(200) }
    }

    /// It moves at most `factor` times the least that must move. That least is, when a node joins, an even share of the
    /// shards; when one leaves, what it had or an even share, whichever is more. Without this, [`Law::Movement`] is not tried.
    pub fn movement(mut self, factor: u32) -> Self {
        self.terms.movement = Some(factor);
        self
    }

    /// From any cluster, it comes to rest with at most `moves` moves per shard: [`Law::Rest`] looks whether it does, and
    /// [`Law::Movement`] is broken if it does not.
    pub fn moving_per_shard(mut self, moves: u32) -> Self {
        self.terms.moves_per_shard = Some(moves);
        self
    }

    /// It keeps a limit of its own: at most `moves` under way at once, whoever began them.
    pub fn at_most_in_flight(mut self, moves: usize) -> Self {
        self.terms.own_limit = Some(moves);
        self
    }

    /// It remembers what it saw, for `time` at most: an instance that has seen other nodes may answer differently, and rest
    /// is what comes after it has forgotten.
    pub fn remembering(mut self, time: Duration) -> Self {
        self.terms.memory = Some(time + Duration::from_secs(1));
        self
    }

    /// On a stable view it rests within `rounds`. Unless said otherwise: ten per shard, and 64, which is enough where plans
    /// take one move at a time and moves take four rounds.
    pub fn resting_within(mut self, rounds: u32) -> Self {
        self.terms.rest_within = Some(rounds);
        self
    }

    /// Once it rests, it is watched for `rounds` more; 200 unless said otherwise.
    pub fn resting_for(mut self, rounds: u32) -> Self {
        self.terms.quiet_rounds = rounds;
        self
    }

    /// Some nodes have the role `role`.
    pub fn role(mut self, role: &str) -> Self {
        self.traits.roles.push(role.into());
        self
    }

    /// Some nodes have one of `values` as their operator's value for `key`.
    pub fn metadata(mut self, key: &str, values: &[&str]) -> Self {
        self.traits.metadata.push((key.into(), values.iter().map(|value| (*value).into()).collect()));
        self
    }

    /// Shards talk to each other: for strategies that look at edges.
    pub fn talking(mut self) -> Self {
        self.traits.talking = true;
        self
    }

    /// The clock begins `time` later: for strategies that look at it. A round takes a second.
    pub fn starting_at(mut self, time: Duration) -> Self {
        self.traits.start = time;
        self
    }

    /// Only these laws are tried.
    pub fn only(mut self, laws: &[Law]) -> Self {
        self.laws = Law::ALL.into_iter().filter(|law| laws.contains(law)).collect();
        self
    }

    /// Each law is tried on `cases` clusters; two hundred unless said otherwise.
    pub fn cases(mut self, cases: u32) -> Self {
        self.seeds = Seeds::Many(cases);
        self
    }

    /// The laws are tried on the cluster of `seed` alone: that of a breach.
    pub fn from_seed(mut self, seed: u64) -> Self {
        self.seeds = Seeds::One(seed);
        self
    }

    /// Tries the laws.
    ///
    /// # Panics
    /// If one is broken, with the [`Breach`].
    #[track_caller]
    pub fn check(&self) {
        if let Err(breach) = self.run() {
            panic!("{breach}");
        }
    }

    /// Tries the laws.
    ///
    /// # Errors
    /// The first that is broken.
    pub fn run(&self) -> Result<(), Box<Breach>> {
        for law in &self.laws {
            match self.seeds {
                Seeds::One(seed) => self.attempt(*law, &self.draw(*law, seed), Some(seed))?,
                // The number of a case is in its seed, as it says how large the cluster may be.
                Seeds::Many(cases) => (0..u64::from(cases)).try_for_each(|case| {
                    let seed = mix(0x1a75, case) << 8 | (case * 256 / u64::from(cases)).min(255);
                    self.attempt(*law, &self.draw(*law, seed), Some(seed))
                })?,
            }
        }
        Ok(())
    }

    /// What the strategy is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        (self.make)().name()
    }

    /// Tries the laws on the cluster that `data` describes: whatever the bytes are, they describe one. Nothing is made
    /// smaller, since a fuzzer does that better.
    ///
    /// # Errors
    /// The first that is broken.
    pub fn run_bytes(&self, data: &[u8]) -> Result<(), Box<Breach>> {
        let mut dice = Bytes(data);
        let world = World::draw(&mut dice, &self.traits, NODES_MAX, SHARDS_MAX);
        let even = world.clone().evened(&mut dice, &self.traits);
        self.laws.iter().try_for_each(|law| {
            let world = if *law == Law::Movement { &even } else { &world };
            self.one(*law, world).map_err(|(law, how)| self.breach(law, how, None, world.clone()))
        })
    }

    fn draw(&self, law: Law, seed: u64) -> World {
        let mut dice = Prng::new(seed);
        let size = (seed & 255) + 1;
        let world =
            World::draw(&mut dice, &self.traits, 1 + (NODES_MAX - 1) * size / 256, 1 + (SHARDS_MAX - 1) * size / 256);
        if law == Law::Movement { world.evened(&mut dice, &self.traits) } else { world }
    }

    fn one(&self, law: Law, world: &World) -> Result<(), (Law, String)> {
        trials::attempt(law, &|| Box::new((self.make)()), &self.terms, world)
    }

    fn attempt(&self, law: Law, world: &World, seed: Option<u64>) -> Result<(), Box<Breach>> {
        let Err((broken, _)) = self.one(law, world) else { return Ok(()) };
        let same = |world: &World| self.one(law, world).err().filter(|(law, _)| *law == broken);
        let world = shrink::shrink(world, SHRINKING, |world| same(world).is_some());
        let how = same(&world).map_or_else(|| String::from("it did once, and not again"), |(_, how)| how);
        Err(self.breach(broken, how, seed, world))
    }

    fn breach(&self, law: Law, how: String, seed: Option<u64>, world: World) -> Box<Breach> {
        Box::new(Breach { law, strategy: (self.make)().name(), seed, how, world })
    }
}
