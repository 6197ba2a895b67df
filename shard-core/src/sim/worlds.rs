//! Kinds of runs besides the storms of a small cluster: clusters of another size, clusters at rest, and drills.

use alloc::vec::Vec;

use super::fault::{Fault, Paths, Who};
use super::options::{Faults, Handlers, Options, ROOMY, Strategy, link, ms, stream, timing};
use crate::allocation::LeastShard;
use crate::machine::Timing;
use crate::prng::Prng;
use crate::region::stream::StreamConfig;
use crate::time::Duration;
use crate::wire::link::LinkConfig;

/// From so many nodes on, a cluster runs with the default times of a local network: heartbeats are most of its work.
const LARGE: usize = 20;

/// One change to a cluster at rest, with the default times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Drill {
    /// A node that does not reign crashes.
    Crash,
    /// The coordinator's node crashes.
    CoordinatorCrash,
    /// A node that does not reign is cut off.
    Cut,
    /// The coordinator's node is cut off.
    CoordinatorCut,
    /// A node leaves gracefully.
    Leave,
    /// The coordinator's node leaves gracefully.
    CoordinatorLeave,
    /// The coordinator resigns.
    Resign,
    /// A node joins.
    Join,
    /// A node is paused for half a session.
    Pause,
}

impl Drill {
    /// Every drill.
    pub const ALL: [Self; 9] = [
        Self::Crash,
        Self::CoordinatorCrash,
        Self::Cut,
        Self::CoordinatorCut,
        Self::Leave,
        Self::CoordinatorLeave,
        Self::Resign,
        Self::Join,
        Self::Pause,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::CoordinatorCrash => "coordinator-crash",
            Self::Cut => "cut",
            Self::CoordinatorCut => "coordinator-cut",
            Self::Leave => "leave",
            Self::CoordinatorLeave => "coordinator-leave",
            Self::Resign => "resign",
            Self::Join => "join",
            Self::Pause => "pause",
        }
    }

    fn fault(self, nodes: usize) -> Fault {
        let away = Duration::from_secs(3_600);
        let cut = |who| {
            let (from, to) = (Vec::from([who]), Vec::from([Who::Everyone]));
            Fault::Cut(Paths { from, to, both: true, span: ms(6_000) })
        };
        match self {
            Self::Crash => Fault::Crash { who: Who::Other, down: away },
            Self::CoordinatorCrash => Fault::Crash { who: Who::Coordinator, down: away },
            Self::Cut => cut(Who::Other),
            Self::CoordinatorCut => cut(Who::Coordinator),
            Self::Leave => Fault::Leave { who: Who::Other, away },
            Self::CoordinatorLeave => Fault::Leave { who: Who::Coordinator, away },
            Self::Resign => Fault::Resign { who: Who::Coordinator },
            Self::Join => Fault::Start { who: Who::Node(nodes) },
            Self::Pause => Fault::Pause { who: Who::Other, span: Timing::lan().session / 2 },
        }
    }
}

impl Options {
    /// A cluster of five in which nothing goes wrong, with the simulator's short times. Scripts start from it.
    #[must_use]
    pub fn calm(seed: u64) -> Self {
        let timing = timing(1);
        Self {
            seed,
            nodes: 5,
            voters: 3,
            pure_voters: 0,
            shards: 12,
            entities_per_shard: 2,
            lanes: 1,
            strategy: Strategy::new(|| LeastShard::new(1, 3)),
            timing,
            stream: stream(),
            link: link(ROOMY),
            rebalance: ms(500),
            storm: ms(16_000),
            faults: Faults::none(),
            script: Vec::new(),
            absent: Vec::new(),
            drill: false,
            handlers: Handlers {
                time: Duration::from_micros(10),
                long_permille: 0,
                fail_permille: 0,
                stop_permille: 0,
                idle: Duration::ZERO,
                awake_max: 0,
                policy: 0,
                mailbox: 1_000,
            },
            guard: 0,
            store: false,
            dense: false,
            poison_from: Duration::ZERO,
            callers: 0,
            work_every: ms(80),
            protocol: super::protocol::Protocol::default(),
            mutant: None,
            only: None,
            trace: false,
        }
    }

    /// One change to a cluster at rest of so many nodes, at a random moment, and what it cost.
    #[must_use]
    pub fn drill(drill: Drill, seed: u64, nodes: usize) -> Self {
        let mut prng = Prng::new(seed).fork("drill");
        let mut options = Self { drill: true, ..Self::calm(seed) };
        options.resize(nodes, &mut prng);
        options.use_default_times();
        options.strategy = Strategy::new(|| LeastShard::new(1, 3));
        options.faults = Faults { delay: Duration::from_micros(500), drift: true, ..Faults::none() };
        // Shards are placed when somebody wants them, so each is called a few times a second.
        options.work_every = ms(if nodes >= LARGE { 400 } else { 50 });
        if drill == Drill::Join {
            options.absent.push(nodes);
        }
        let at = ms(15_000) + Duration::from_nanos(prng.below(4_000_000_000));
        options.script.push((at, drill.fault(nodes)));
        options.storm = at + ms(15_000);
        options
    }

    /// The same storm over a cluster of so many nodes. From 20 nodes on with the default times of a local network.
    #[must_use]
    pub fn with_nodes(mut self, nodes: usize) -> Self {
        let mut prng = Prng::new(self.seed).fork("nodes");
        self.resize(nodes.max(1), &mut prng);
        if self.nodes >= LARGE {
            self.use_default_times();
            self.lanes = 1;
            self.faults = Faults::draw(&mut prng, &self.timing);
            self.handlers.idle = self.handlers.idle.min(ms(3_000));
            self.handlers.mailbox = 64;
            self.work_every = ms(400);
            // A blackout of so many is a run of its own; and single faults come as often as to a small cluster.
            self.faults.blackout_every *= 2;
        }
        self
    }

    fn resize(&mut self, nodes: usize, prng: &mut Prng) {
        self.nodes = nodes;
        self.voters = match nodes {
            1 | 2 => 1,
            3 | 4 => *prng.pick(&[1, 3]).unwrap_or(&3),
            _ => *prng.pick(&[3, 3, 5]).unwrap_or(&3),
        };
        self.pure_voters = if nodes > 3 && prng.chance(1, 3) { (nodes - 2).min(self.voters) } else { 0 };
        if nodes >= LARGE {
            self.shards = nodes as u32 * 2;
            self.entities_per_shard = 1;
        }
    }

    fn use_default_times(&mut self) {
        self.timing = Timing::lan();
        self.timing.drain = ms(2_000);
        self.stream = StreamConfig { give_up_after: ms(10_000), messages_max: 64, ..StreamConfig::default() };
        self.link = LinkConfig { bytes_max: self.link.bytes_max, ..LinkConfig::default() };
        self.rebalance = ms(2_000);
    }
}
