//! What one run is: everything is drawn from the seed, and everything can be set.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use core::fmt;

use super::fault::Fault;
use super::links::BYTES;
use super::protocol::Protocol;

use crate::allocation::{AllocationStrategy, Hash, LeastShard};
use crate::machine::{Rule, Rules, Timing};
use crate::passivation::PolicyChoice;
use crate::prng::Prng;
use crate::region::stream::StreamConfig;
use crate::shuffle::{FairConfig, FlowKey, Guard};
use crate::time::Duration;
use crate::wire::link::LinkConfig;

/// Which strategy places the shards. Each process makes its own.
#[derive(Clone)]
pub struct Strategy(Arc<dyn Fn() -> Box<dyn AllocationStrategy> + Send + Sync>);

impl Strategy {
    /// One that `make` makes.
    #[must_use]
    pub fn new<S: AllocationStrategy + 'static>(make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Box::new(make())))
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.make().name()
    }

    pub(super) fn make(&self) -> Box<dyn AllocationStrategy> {
        (self.0)()
    }
}

impl fmt::Debug for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str((self.0)().name())
    }
}

/// One run. [`Options::from_seed`] draws all of it; change what must differ.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of everything random.
    pub seed: u64,
    /// How many nodes; the first `voters` of them vote.
    pub nodes: usize,
    /// How many of them vote at first: 1, 3 or 5.
    pub voters: usize,
    /// How many of the voters host nothing.
    pub pure_voters: usize,
    /// The shards of the one entity type.
    pub shards: u32,
    /// Entities in each shard.
    pub entities_per_shard: u32,
    /// Lanes of each node: 1 to 4.
    pub lanes: u32,
    /// How shards are placed.
    pub strategy: Strategy,
    /// The protocol's times.
    pub timing: Timing,
    /// The streams' bounds and times.
    pub stream: StreamConfig,
    /// The links' bounds and times.
    pub link: LinkConfig,
    /// How often a coordinator looks for a better balance.
    pub rebalance: Duration,
    /// How long the harm lasts.
    pub storm: Duration,
    /// What harm there is.
    pub faults: Faults,
    /// What goes wrong besides, and when.
    pub script: Vec<(Duration, Fault)>,
    /// Nodes, by number, that are not there until a [`Fault::Start`] or the calm.
    pub absent: Vec<usize>,
    /// One change is made to a cluster at rest: shards without a gap and moves are counted as well.
    pub drill: bool,
    /// What entities do.
    pub handlers: Handlers,
    /// Draws a guard by tenant that every lane has; 0: none.
    pub guard: u64,
    /// Entities write to a store that checks fences.
    pub store: bool,
    /// From then on until the calm, whatever runs a handler of the first entity crashes; zero: never.
    pub poison_from: Duration,
    /// Only so many nodes, the first, have callers; 0: all.
    pub callers: usize,
    /// The mean pause between two batches of messages of one node.
    pub work_every: Duration,
    /// Shards never rest before the calm; see [`with_dense_moves`](Self::with_dense_moves).
    pub dense: bool,
    /// By which rules shards are given out.
    pub protocol: Protocol,
    /// A rule that all nodes break; the checkers should notice.
    pub mutant: Option<Rule>,
    /// Look for this property only, by the name in [`Violation`](super::Violation): what a mutant breaks sooner does not end
    /// the run then.
    pub only: Option<String>,
    /// Keep a line for every event, not only for the last ones before a violation.
    pub trace: bool,
}

/// How often harm is done, on average over the whole cluster; zero: never. Shares are of 1,000.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Datagrams lost.
    pub loss_permille: u64,
    /// Datagrams delivered twice.
    pub duplicate_permille: u64,
    /// Datagrams that are late, up to more than W.
    pub tail_permille: u64,
    /// The mean delay of everything that travels.
    pub delay: Duration,
    /// Frames of a link that vanish although their connection lives; the link must notice.
    pub frame_loss_permille: u64,
    /// Frames in flight on a connection that breaks and that arrive nevertheless, later.
    pub late_frame_permille: u64,
    /// The longest way between a node's control and its lanes.
    pub inbox: Duration,
    /// Between crashes of one process, which forgets everything.
    pub crash_every: Duration,
    /// Between crashes of all processes at once.
    pub blackout_every: Duration,
    /// Between pauses of one process: it does nothing while its clock runs.
    pub pause_every: Duration,
    /// Between cuts of the network.
    pub cut_every: Duration,
    /// Between breaks of one connection.
    pub break_every: Duration,
    /// Between graceful departures; whoever left joins again later.
    pub leave_every: Duration,
    /// Between requests to whoever reigns to resign.
    pub resign_every: Duration,
    /// Between changes of one clock's rate.
    pub drift_every: Duration,
    /// Clocks run wrong by up to the bound that the timing allows.
    pub drift: bool,
    /// The last node joins late.
    pub late_joiner: bool,
    /// Between times in which a coordinator's lease requests do not reach some voters, while all else does.
    pub starve_every: Duration,
    /// Between times in which they are caught, and let go later.
    pub capture_every: Duration,
    /// Between crashes of a coordinator within 200 ms of which another node comes.
    pub succession_every: Duration,
    /// Between changes of the voters, one at a time.
    pub voters_every: Duration,
    /// Crashes wait until a drain is under way, and strike the node that drains.
    pub crash_in_drain: bool,
}

/// What the simulated entities do.
#[derive(Clone, Debug)]
pub struct Handlers {
    /// The longest ordinary handler or hook.
    pub time: Duration,
    /// Handlers that take longer than the margin.
    pub long_permille: u64,
    /// Handlers that fail, so that the entity starts again.
    pub fail_permille: u64,
    /// Handlers after which the entity asks to stop.
    pub stop_permille: u64,
    /// Idle entities fall asleep after this; zero: never.
    pub idle: Duration,
    /// Most entities awake on one node; zero: no cap.
    pub awake_max: usize,
    /// Who goes if there are more: a number of [`PolicyChoice::ALL`](crate::passivation::PolicyChoice::ALL).
    pub policy: usize,
    /// How much mail an entity may have waiting.
    pub mailbox: usize,
}

impl Options {
    /// Draws a run. Which faults exist at all is drawn first, so that each can be met without the others.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut prng = Prng::new(seed).fork("options");
        let nodes = prng.between(3, 5) as usize;
        let voters = match (prng.chance(1, 4), nodes) {
            (true, _) => 1,
            (false, 5) if prng.fork("five").chance(1, 3) => 5,
            (false, _) => 3,
        };
        let pure_voters = if nodes > 3 && prng.chance(1, 3) { (nodes - 2).min(voters) } else { 0 };
        let timing = timing(*prng.pick(&[1, 1, 2]).unwrap_or(&1));
        let strategy = if prng.chance(1, 2) { Strategy::new(|| Hash) } else { Strategy::new(|| LeastShard::new(1, 3)) };
        Self {
            seed,
            nodes,
            voters,
            pure_voters,
            shards: prng.between(4, 12) as u32,
            entities_per_shard: prng.between(1, 4) as u32,
            lanes: prng.between(1, 4) as u32,
            strategy,
            stream: stream(),
            link: link(if prng.chance(1, 3) { prng.between(2, 8) as usize } else { ROOMY }),
            rebalance: ms(prng.between(200, 800)),
            storm: ms(16_000),
            faults: Faults::draw(&mut prng, &timing),
            script: Vec::new(),
            absent: Vec::new(),
            drill: false,
            handlers: Handlers::draw(&mut prng, &timing),
            guard: if prng.fork("guard").chance(1, 8) { guard_of(seed) } else { 0 },
            store: prng.fork("store").chance(1, 2),
            poison_from: Duration::ZERO,
            callers: 0,
            work_every: ms(*prng.pick(&[40, 80, 160]).unwrap_or(&80)),
            timing,
            dense: false,
            protocol: Protocol::default(),
            mutant: None,
            only: None,
            trace: false,
        }
    }

    /// The same run with another strategy.
    #[must_use]
    pub fn with_strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// The same run by other rules.
    #[must_use]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// The same run with one rule broken on every node.
    #[must_use]
    pub fn with_mutant(mut self, rule: Rule) -> Self {
        self.mutant = Some(rule);
        self
    }

    /// The same run with so much time for harm.
    #[must_use]
    pub fn with_storm(mut self, storm: Duration) -> Self {
        self.storm = storm;
        self
    }

    /// The same run with a guard by tenant on every node.
    #[must_use]
    pub fn with_guard(mut self) -> Self {
        self.guard = guard_of(self.seed);
        self
    }

    /// Few seats, short queues, and one tenant for the entities whose names end alike.
    pub(super) fn make_guard(&self) -> Option<Guard> {
        let mut prng = (self.guard > 0).then(|| Prng::new(self.guard).fork("guard"))?;
        let mut within = |low: u32, high: u32| prng.between(low.into(), high.into()) as u32;
        let (queues, seats, length) = (within(1, 8), within(1, 4), within(1, 6));
        let mut fair = FairConfig::new(queues, within(1, queues.min(3)), length, seats).ok()?;
        if within(0, 1) > 0 {
            fair = fair.seats_per_flow(within(1, seats)).ok()?;
        }
        let key = FlowKey::new(self.guard.into());
        Some(Guard::by_tenant(fair, key, |id| id.get(id.len().saturating_sub(1)..).unwrap_or(id)))
    }

    /// The same run with a line for every event.
    #[must_use]
    pub fn with_trace(mut self) -> Self {
        self.trace = true;
        self
    }

    pub(super) fn rules(&self) -> Rules {
        let rules = self.protocol.rules();
        self.mutant.map_or(rules, |mutant| rules.and_without(mutant))
    }
}

impl Faults {
    /// No harm at all, and a fast network.
    #[must_use]
    pub fn none() -> Self {
        Self { delay: Duration::from_micros(300), inbox: Duration::from_micros(50), ..Self::default() }
    }

    pub(super) fn draw(prng: &mut Prng, timing: &Timing) -> Self {
        let session = timing.session;
        let every = |prng: &mut Prng, low: u64, high: u64| {
            if prng.chance(1, 2) { ms(prng.between(low, high)) } else { Duration::ZERO }
        };
        let share = |prng: &mut Prng, most: u64| if prng.chance(1, 2) { prng.between(1, most) } else { 0 };
        Self {
            loss_permille: share(prng, 300),
            duplicate_permille: share(prng, 100),
            tail_permille: share(prng, 80),
            delay: Duration::from_micros(prng.between(100, 2_000)),
            frame_loss_permille: share(prng, 3),
            late_frame_permille: share(prng, 500),
            inbox: match prng.below(3) {
                0 => Duration::from_micros(20),
                1 => Duration::from_millis(3),
                _ => session / 10,
            },
            crash_every: every(prng, 700, 4_000),
            blackout_every: if prng.chance(1, 6) { ms(prng.between(4_000, 12_000)) } else { Duration::ZERO },
            pause_every: every(prng, 300, 3_000),
            cut_every: every(prng, 400, 3_000),
            break_every: every(prng, 100, 1_500),
            leave_every: every(prng, 2_000, 8_000),
            resign_every: every(prng, 1_000, 5_000),
            drift_every: every(prng, 500, 5_000),
            drift: prng.chance(4, 5),
            late_joiner: prng.chance(1, 3),
            starve_every: if prng.chance(1, 4) { ms(prng.between(700, 4_000)) } else { Duration::ZERO },
            capture_every: if prng.chance(1, 4) { ms(prng.between(700, 4_000)) } else { Duration::ZERO },
            succession_every: if prng.chance(1, 4) { ms(prng.between(1_500, 6_000)) } else { Duration::ZERO },
            crash_in_drain: prng.chance(1, 3),
            // Drawn apart, like all that comes of it, so that seeds in which voters stay keep what they had.
            voters_every: {
                let mut prng = prng.fork("voters");
                if prng.chance(1, 3) { ms(prng.between(500, 5_000)) } else { Duration::ZERO }
            },
        }
    }
}

impl Handlers {
    fn draw(prng: &mut Prng, timing: &Timing) -> Self {
        let share = |prng: &mut Prng, most: u64| if prng.chance(1, 2) { prng.between(1, most) } else { 0 };
        Self {
            time: Duration::from_micros(*prng.pick(&[10, 2_000, 6_000, 15_000]).unwrap_or(&10)),
            long_permille: share(prng, 20),
            fail_permille: share(prng, 10),
            stop_permille: share(prng, 30),
            idle: if prng.chance(1, 2) { timing.session.permille(prng.between(50, 1_500)) } else { Duration::ZERO },
            awake_max: if prng.chance(1, 4) { prng.between(1, 8) as usize } else { 0 },
            mailbox: *prng.pick(&[3, 64, 1_000]).unwrap_or(&64),
            policy: prng.fork("policy").next_u64() as usize % PolicyChoice::ALL.len(),
        }
    }
}

/// The seed of the guard of a run.
fn guard_of(seed: u64) -> u64 {
    seed.wrapping_add(1).max(1)
}

trait Permille {
    fn permille(self, permille: u64) -> Self;
}

impl Permille for Duration {
    fn permille(self, permille: u64) -> Self {
        self * (permille as u32) / 1_000
    }
}

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Times five times shorter than the defaults, so that more happens in a simulated second, for clocks that are wrong by
/// 5 %: five times worse than the defaults assume.
pub(super) fn timing(scale: u32) -> Timing {
    let mut timing = Timing {
        rate_error_permille: 50,
        heartbeat: ms(100),
        session: ms(900),
        wait: ms(0),
        margin: ms(25),
        reign: ms(360),
        lease: ms(0),
        silence: ms(0),
        renew: ms(80),
        stagger: ms(25),
        candidacy: ms(60),
        evidence: ms(20),
        drain: ms(500),
    };
    for span in [
        &mut timing.heartbeat,
        &mut timing.session,
        &mut timing.margin,
        &mut timing.reign,
        &mut timing.renew,
        &mut timing.stagger,
        &mut timing.candidacy,
        &mut timing.evidence,
        &mut timing.drain,
    ] {
        *span *= scale;
    }
    timing.wait = timing.drifted(timing.session);
    timing.lease = timing.drifted(timing.reign);
    timing.silence = timing.lease;
    timing
}

pub(super) fn stream() -> StreamConfig {
    StreamConfig {
        retry_first: ms(10),
        retry_last: ms(200),
        ask_every: ms(50),
        close_wait: ms(500),
        give_up_after: ms(5_000),
        messages_max: 64,
        ..StreamConfig::default()
    }
}

/// Messages that a link of a run with wide links takes.
pub(super) const ROOMY: usize = 40_000;

pub(super) fn link(messages: usize) -> LinkConfig {
    LinkConfig {
        bytes_max: messages * BYTES,
        dial_first: ms(10),
        dial_last: ms(200),
        probe: ms(250),
        silent: ms(700),
        ack_delay: ms(3),
        ..LinkConfig::default()
    }
}
