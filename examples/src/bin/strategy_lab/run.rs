//! One strategy's cluster: the coordinator's part as far as strategies can tell, with a stopwatch.
//!
//! As in the planner of a real node: what has no home is placed one by one, each seen by the next; a round of moves is asked
//! for through the [`Ledger`] with its limits; what moves is under way for a round, and then put where the plan said if that
//! node still takes it, else placed anew.

use std::time::Instant as Clock;

use shard_core::allocation::{AllocationStrategy, Layout, Ledger, Limits, NodeIx, NodeView, Request, Stats, ZoneIx};
use shard_core::id::{Incarnation, NodeId, NodeKey, ShardId};
use shard_core::prng::{Prng, mix};
use shard_core::time::{Duration, Instant};

use super::Args;
use super::strategies::Contestant;

/// How often a coordinator plans unless told otherwise.
const ROUND: Duration = Duration::from_secs(2);
/// So many rounds without a move are rest: longer than shards stay after a move under any strategy here.
const QUIET: u32 = 200;

/// Something that happens to the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Join,
    Crash,
    Leave,
}

impl Event {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let found = [Self::Join, Self::Crash, Self::Leave].into_iter().find(|event| event.name() == name);
        found.ok_or_else(|| format!("no event is called {name:?}; there are join, crash, leave"))
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Crash => "crash",
            Self::Leave => "leave",
        }
    }

    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::Join => "join: a node comes",
            Self::Crash => "crash: a node vanishes, and its shards need others",
            Self::Leave => "leave: a node gives its shards away in good order and goes",
        }
    }
}

/// The workload, the same for all.
pub(crate) struct Lab {
    nodes: Vec<NodeView>,
    pub(crate) loads: Vec<u32>,
    events: Vec<Event>,
    seed: u64,
    watch: u32,
    patience: u32,
}

/// What came of one event, or of the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Rounds until nothing moved any more; `None`: it did not come to rest in time.
    pub(crate) rounds: Option<u32>,
    /// Shards that were moved by a plan.
    pub(crate) moved: usize,
    /// Shards that had lost their node and found another, or had none at the start.
    pub(crate) placed: usize,
    /// Moves and placements that count beside the least.
    pub(crate) changed: usize,
    /// The least that had to change places.
    pub(crate) least: usize,
    /// The fullest node beside the mean.
    pub(crate) by_count: f64,
    pub(crate) by_load: f64,
    /// Moves in the rounds watched after rest.
    pub(crate) churn: usize,
}

impl Outcome {
    /// How many times the least; of the start, nothing is the least.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.least > 0).then(|| self.changed as f64 / self.least as f64)
    }
}

/// A strategy and what came of it.
pub(crate) struct Run {
    pub(crate) contestant: Contestant,
    pub(crate) outcomes: Vec<Outcome>,
    /// Round by round until rest, the rounds watched left out.
    pub(crate) history: Vec<Sample>,
    stopwatch: Stopwatch,
}

/// A round, as the page draws it.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Which outcome it belongs to.
    pub(crate) phase: usize,
    pub(crate) by_count: f64,
    pub(crate) by_load: f64,
}

/// Nanoseconds.
#[derive(Default)]
struct Stopwatch {
    rest: Vec<u64>,
    busy: Vec<u64>,
    place: Vec<u64>,
}

impl Run {
    /// The medians of a plan without moves, of one with some, and of a placement, in nanoseconds.
    pub(crate) fn costs(&self) -> [Option<u64>; 3] {
        [&self.stopwatch.rest, &self.stopwatch.busy, &self.stopwatch.place].map(|times| {
            let mut times = times.clone();
            times.sort_unstable();
            times.get(times.len() / 2).copied()
        })
    }
}

/// Nanoseconds in words.
pub(crate) fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

impl Lab {
    pub(crate) fn new(args: &Args, events: Vec<Event>, loads: Vec<u32>) -> Result<Self, String> {
        let mut left = usize::from(args.nodes);
        for event in &events {
            left = if *event == Event::Join { left + 1 } else { left - 1 };
            if left == 0 {
                return Err(format!("--events: with {} nodes at the start, nobody is left after them", args.nodes));
            }
        }
        let nodes = (0..usize::from(args.nodes)).map(|n| node(n, args.seed)).collect();
        Ok(Self { nodes, loads, events, seed: args.seed, watch: args.watch, patience: args.patience })
    }

    /// The start, and then every event.
    pub(crate) fn phases(&self) -> impl Iterator<Item = Option<Event>> + '_ {
        std::iter::once(None).chain(self.events.iter().copied().map(Some))
    }

    pub(crate) fn run(&self, contestant: Contestant) -> Run {
        let mut stage = Stage {
            lab: self,
            strategy: (contestant.make)(&self.nodes),
            layout: Layout::new(self.loads.len() as u32),
            nodes: self.nodes.clone(),
            born: self.nodes.len(),
            now: Instant::ZERO + Duration::from_secs(3_600),
            seeds: Prng::new(self.seed).fork("rounds"),
            ledger: Ledger::new(),
            flights: Vec::new(),
            leaving: None,
            outcome: Outcome::default(),
            stopwatch: Stopwatch::default(),
        };
        // The same nodes are hit whatever the strategy does with the seeds.
        let mut fate = Prng::new(self.seed).fork("events");
        let (mut outcomes, mut history) = (Vec::new(), Vec::new());
        for (phase, event) in self.phases().enumerate() {
            stage.outcome = Outcome::default();
            stage.happens(event, &mut fate);
            stage.come_to_rest(phase, &mut history);
            outcomes.push(stage.outcome.clone());
        }
        Run { contestant, outcomes, history, stopwatch: stage.stopwatch }
    }
}

/// Node number `n` of all that ever were.
fn node(n: usize, seed: u64) -> NodeView {
    let id = NodeKey { id: NodeId(mix(seed, n as u64)), incarnation: Incarnation(1) };
    let mut node = NodeView::new(id, format!("node-{:04}", n + 1));
    node.zone = ZoneIx((n % 3) as u16);
    if n.is_multiple_of(4) {
        node.roles.push("big".into());
    }
    node
}

struct Stage<'a> {
    lab: &'a Lab,
    strategy: Box<dyn AllocationStrategy>,
    layout: Layout,
    nodes: Vec<NodeView>,
    /// How many nodes there ever were.
    born: usize,
    now: Instant,
    seeds: Prng,
    ledger: Ledger,
    /// What arrives in the next round, and where.
    flights: Vec<(ShardId, NodeKey)>,
    leaving: Option<NodeKey>,
    outcome: Outcome,
    stopwatch: Stopwatch,
}

impl Stage<'_> {
    fn happens(&mut self, event: Option<Event>, fate: &mut Prng) {
        let shards = self.lab.loads.len();
        match event {
            None => {
                (0..).map(ShardId).zip(&self.lab.loads).for_each(|(shard, load)| self.layout.set_load(shard, *load));
            }
            Some(Event::Join) => {
                let mut node = node(self.born, self.lab.seed);
                node.up_since = self.now;
                self.nodes.push(node);
                self.born += 1;
                self.outcome.least = shards / self.nodes.len();
            }
            Some(Event::Crash) => {
                let at = fate.below(self.nodes.len() as u64) as usize;
                self.outcome.least = self.count(self.nodes[at].id) as usize;
                self.nodes.remove(at);
            }
            Some(Event::Leave) => {
                let at = fate.below(self.nodes.len() as u64) as usize;
                self.outcome.least = self.count(self.nodes[at].id) as usize;
                self.nodes[at].accepts = false;
                self.leaving = Some(self.nodes[at].id);
            }
        }
        self.layout.set_nodes(self.nodes.clone());
    }

    fn come_to_rest(&mut self, phase: usize, history: &mut Vec<Sample>) {
        let (mut last, mut quiet) = (0, 0);
        for round in 1..=self.lab.patience {
            let busy = self.round();
            quiet = if busy { 0 } else { quiet + 1 };
            last = if busy { round } else { last };
            let (by_count, by_load) = self.balance();
            if quiet <= 3 {
                history.push(Sample { phase, by_count, by_load });
            }
            if quiet == QUIET {
                self.outcome.rounds = Some(last);
                break;
            }
        }
        let Outcome { moved, placed, .. } = self.outcome;
        self.outcome.changed = if phase == 0 { moved } else { moved + placed };
        (self.outcome.by_count, self.outcome.by_load) = self.balance();
        for _ in 0..self.lab.watch {
            self.round();
        }
        self.outcome.churn = std::mem::replace(&mut self.outcome.moved, moved) - moved;
    }

    /// One round of a coordinator; whether anything moved.
    fn round(&mut self) -> bool {
        let mut busy = self.arrive();
        busy |= self.drain();
        busy |= self.place();
        self.report();
        let view = self.layout.view(self.now, self.seeds.next_u64());
        let began = Clock::now();
        let moves = self.ledger.round(&mut *self.strategy, &view, Limits::default());
        let took = began.elapsed().as_nanos() as u64;
        if moves.is_empty() { &mut self.stopwatch.rest } else { &mut self.stopwatch.busy }.push(took);
        self.flights.extend(moves.iter().map(|m| (m.shard, view.node(m.to).id)));
        for m in moves {
            self.layout.depart(m.shard, Some(m.to));
        }
        self.outcome.moved += moves.len();
        self.now = self.now + ROUND;
        busy || !moves.is_empty()
    }

    /// What was under way is where the plan said, or free if that node is gone.
    fn arrive(&mut self) -> bool {
        let flights = std::mem::take(&mut self.flights);
        for (shard, to) in &flights {
            let to = self.layout.find(*to).filter(|to| self.layout.view(self.now, 0).is_candidate(*to));
            match to {
                Some(to) => self.layout.settle(self.now, *shard, to),
                None => self.layout.free(*shard),
            }
        }
        !flights.is_empty()
    }

    /// Who leaves drops all it has at once, and is gone when it has nothing.
    fn drain(&mut self) -> bool {
        let Some(leaving) = self.leaving.take() else { return false };
        let ix = self.layout.find(leaving);
        let view = self.layout.view(self.now, 0);
        let own: Vec<ShardId> = view.shards().filter(|shard| view.home(*shard) == ix).collect();
        own.iter().for_each(|shard| self.layout.free(*shard));
        self.nodes.retain(|node| node.id != leaving);
        self.layout.set_nodes(self.nodes.clone());
        true
    }

    /// What has no home finds one; callers are drawn.
    fn place(&mut self) -> bool {
        let view = self.layout.view(self.now, 0);
        let free: Vec<ShardId> = view.shards().filter(|shard| view.home(*shard).is_none()).collect();
        let mut placed = false;
        for shard in free {
            let seed = self.seeds.next_u64();
            let view = self.layout.view(self.now, seed);
            let asker = NodeIx((mix(seed, 1) % view.nodes().len() as u64) as u16);
            let request = Request::new(shard, seed).asked_by(asker);
            let began = Clock::now();
            let chosen = self.strategy.place(&view, &request);
            self.stopwatch.place.push(began.elapsed().as_nanos() as u64);
            if let Some(ix) = chosen.filter(|ix| view.is_candidate(*ix)) {
                self.layout.settle(self.now, shard, ix);
                self.outcome.placed += 1;
                placed = true;
            }
        }
        placed
    }

    /// Nodes say what they carry: as many entities as their shards weigh, and half their processors at the mean load.
    fn report(&mut self) {
        let loads = self.node_loads();
        let total: u64 = loads.iter().sum();
        for (at, load) in loads.iter().enumerate() {
            let cpu = (500 * load * loads.len() as u64).checked_div(total).unwrap_or(0).min(1_000);
            let mut stats = Stats::default();
            (stats.cpu_permille, stats.entities) = (cpu as u16, u32::try_from(*load).unwrap_or(u32::MAX));
            self.layout.set_stats(NodeIx(at as u16), Some(stats));
        }
    }

    fn node_loads(&self) -> Vec<u64> {
        let view = self.layout.view(self.now, 0);
        let mut loads = vec![0; view.nodes().len()];
        for shard in view.shards() {
            if let Some(home) = view.home(shard) {
                loads[home.at()] += u64::from(view.load(shard).unwrap_or(0));
            }
        }
        loads
    }

    /// The fullest node beside the mean, by count and by load.
    fn balance(&self) -> (f64, f64) {
        let view = self.layout.view(self.now, 0);
        let counts: Vec<u64> = (0..view.nodes().len()).map(|at| u64::from(view.count(NodeIx(at as u16)))).collect();
        let uneven = |of: &[u64]| {
            let sum: u64 = of.iter().sum();
            let most = of.iter().max().copied().unwrap_or(0);
            if sum == 0 { 1.0 } else { most as f64 * of.len() as f64 / sum as f64 }
        };
        (uneven(&counts), uneven(&self.node_loads()))
    }

    fn count(&self, id: NodeKey) -> u32 {
        self.layout.find(id).map_or(0, |ix| self.layout.view(self.now, 0).count(ix))
    }
}
