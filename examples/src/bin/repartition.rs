//! What it gains to move shards towards those they talk to: calls from node to node, before and after.
//!
//! `repartition` deals shards to nodes by count, lets entities call each other, observes on every node which shards do, in
//! sketches of fixed size, and repartitions until nothing moves any more. Three graphs: groups whose members call each other,
//! spread over a few shards that follow each other; the same with parts of groups on any shards; and everybody calling anybody,
//! where there is nothing to gain and nothing must move. Exit code 1 if the first does not save half of its remote calls, or
//! the last one moves a shard. `--json` prints one object instead of the table.

#[path = "repartition/traffic.rs"]
mod traffic;

use std::num::NonZeroU32;
use std::process::ExitCode;

use clap::Parser;
use examples::tool::{end, say};
use serde_json::{Value, json};
use shard_core::allocation::{
    AllocationStrategy, HeavyPairs, Layout, LeastShard, Ledger, Limits, NodeIx, NodeView, Repartitioning, Request,
    Switch,
};
use shard_core::id::{Incarnation, NodeId, NodeKey, ShardId};
use shard_core::prng::mix;
use shard_core::time::{Duration, Instant};

use traffic::{Graph, Traffic};

/// As long as a shard stays after a move, so that every round sees all shards.
const ROUND: Duration = Duration::from_secs(60);
/// Rounds in which the sketches see calls before the first plan.
const WARM_UP: u32 = 3;
/// So many rounds without a move are rest.
const QUIET: u32 = 20;
/// Of a hundred remote calls, so many must be gone on the clustered graph, and so many may be added on the random one.
const SAVED_MIN: f64 = 50.0;
const ADDED_MAX: f64 = 1.0;

/// Moves shards towards what they talk to, and counts calls between nodes.
#[derive(Parser, Debug)]
#[command(name = "repartition")]
struct Args {
    /// Nodes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=1_000))]
    nodes: u16,
    /// Shards.
    #[arg(long, default_value = "512")]
    shards: NonZeroU32,
    /// Entities, in groups of 8 to 20.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    entities: u32,
    /// Pairs of shards that each node tracks.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pairs: u32,
    /// After so many rounds it is not waited for rest any more.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    patience: u32,
    /// What is drawn by chance is drawn from this.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object on the standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut missed = false;
    let worked = work(&args).map(|all_met| missed = !all_met);
    if worked.is_ok() && missed { ExitCode::FAILURE } else { end("repartition", worked) }
}

/// Whether the targets were met.
fn work(args: &Args) -> Result<bool, String> {
    let outcomes = Graph::ALL.map(|graph| (graph, run(graph, args)));
    let met = outcomes.iter().all(|(graph, outcome)| outcome.meets(*graph));
    if args.json {
        say(&format!("{}\n", object(args, &outcomes, met)))?;
    } else {
        say(&table(args, &outcomes))?;
    }
    Ok(met)
}

/// What came of one graph.
struct Outcome {
    calls: u64,
    /// Calls from node to node in one round.
    before: u64,
    after: u64,
    moves: usize,
    /// Until the last move; `None`: it did not come to rest in time.
    rounds: Option<u32>,
    /// How many shards the fullest node has more than the emptiest, at the most at any time.
    apart: u32,
}

impl Outcome {
    /// Of a hundred remote calls, how many are gone.
    fn saved(&self) -> f64 {
        if self.before == 0 { 0.0 } else { 100.0 - self.after as f64 * 100.0 / self.before as f64 }
    }

    fn meets(&self, graph: Graph) -> bool {
        match graph {
            Graph::Clustered => self.saved() >= SAVED_MIN && self.rounds.is_some(),
            Graph::Scattered => self.saved() >= -ADDED_MAX,
            Graph::Random => self.saved() >= -ADDED_MAX && self.moves == 0,
        }
    }
}

fn run(graph: Graph, args: &Args) -> Outcome {
    let mut traffic = Traffic::new(graph, args.entities, args.shards, args.seed);
    let mut strategy = Repartitioning::new(LeastShard::default(), Switch::new());
    let mut layout = deal(&mut strategy, args);
    let mut sketches: Vec<HeavyPairs> =
        (0..args.nodes).map(|_| HeavyPairs::new(args.pairs as usize, args.shards.get())).collect();
    // The same calls are looked at before and after.
    let sample = traffic.clone();
    let (calls, before) = remote(&layout, sample.clone());
    let (mut ledger, mut moves, mut last, mut rounds) = (Ledger::new(), 0, 0, None);
    let mut apart = spread(&layout);
    for round in 0..WARM_UP + args.patience {
        observe(&layout, &mut traffic, &mut sketches);
        if round < WARM_UP {
            continue;
        }
        tell(&mut layout, &sketches);
        let now = at(round);
        let made = ledger.round(&mut strategy, &layout.view(now, args.seed), Limits::default());
        made.iter().for_each(|m| layout.settle(now, m.shard, m.to));
        moves += made.len();
        last = if made.is_empty() { last } else { round + 1 - WARM_UP };
        apart = apart.max(spread(&layout));
        if round + 1 - WARM_UP - last >= QUIET {
            rounds = Some(last);
            break;
        }
    }
    let (_, after) = remote(&layout, sample);
    Outcome { calls, before, after, moves, rounds, apart }
}

fn at(round: u32) -> Instant {
    Instant::ZERO + ROUND.saturating_mul(round + 1)
}

/// Every shard finds a node, as in a cluster that starts.
fn deal(strategy: &mut impl AllocationStrategy, args: &Args) -> Layout {
    let node = |n: u16| {
        let id = NodeKey { id: NodeId(mix(args.seed, u64::from(n))), incarnation: Incarnation(1) };
        NodeView::new(id, format!("10.0.0.{n}:2550"))
    };
    let mut layout = Layout::new(args.shards.get());
    layout.set_nodes((0..args.nodes).map(node).collect());
    for shard in (0..args.shards.get()).map(ShardId) {
        let request = Request::new(shard, mix(args.seed, u64::from(shard.0)));
        if let Some(ix) = strategy.place(&layout.view(Instant::ZERO, args.seed), &request) {
            layout.settle(Instant::ZERO, shard, ix);
        }
    }
    layout
}

/// A round of calls: all of them, and those that go from node to node.
fn remote(layout: &Layout, mut traffic: Traffic) -> (u64, u64) {
    let view = layout.view(Instant::ZERO, 0);
    let (mut all, mut remote) = (0, 0);
    traffic.round(|from, to| {
        all += 1;
        remote += u64::from(view.home(from) != view.home(to));
    });
    (all, remote)
}

/// A round of calls, each seen by the node it comes from; what was seen before counts half.
fn observe(layout: &Layout, traffic: &mut Traffic, sketches: &mut [HeavyPairs]) {
    let view = layout.view(Instant::ZERO, 0);
    sketches.iter_mut().for_each(HeavyPairs::halve);
    traffic.round(|from, to| {
        if let Some(ix) = view.home(from) {
            sketches[ix.at()].add(from, to, 1);
        }
    });
}

/// The coordinator hears from all nodes.
fn tell(layout: &mut Layout, sketches: &[HeavyPairs]) {
    layout.set_edges(sketches.iter().flat_map(HeavyPairs::edges).collect());
    let mut said = std::collections::BTreeMap::<ShardId, u32>::new();
    sketches.iter().flat_map(HeavyPairs::said).for_each(|(shard, weight)| *said.entry(shard).or_default() += weight);
    said.into_iter().for_each(|(shard, weight)| layout.set_said(shard, weight));
}

fn spread(layout: &Layout) -> u32 {
    let view = layout.view(Instant::ZERO, 0);
    let counts = || (0..view.nodes().len() as u16).map(|ix| view.count(NodeIx(ix)));
    counts().max().unwrap_or(0) - counts().min().unwrap_or(0)
}

fn table(args: &Args, outcomes: &[(Graph, Outcome)]) -> String {
    let Args { nodes, shards, entities, seed, .. } = args;
    let mut text =
        format!("{entities} entities on {shards} shards on {nodes} nodes, seed {seed}; per round of calls\n\n");
    text += &format!(
        "{:>10} {:>9} {:>9} {:>7} {:>9} {:>7} {:>7} {:>6} {:>7} {:>6}\n",
        "graph", "calls", "remote", "", "then", "", "saved", "moves", "rounds", "apart"
    );
    for (graph, it) in outcomes {
        let share = |calls: u64| format!("{:.1} %", calls as f64 * 100.0 / it.calls.max(1) as f64);
        let rounds = it.rounds.map_or("never".into(), |rounds| rounds.to_string());
        let missed = if it.meets(*graph) { "" } else { "  target missed" };
        text += &format!(
            "{:>10} {:>9} {:>9} {:>7} {:>9} {:>7} {:>5.1} % {:>6} {rounds:>7} {:>6}{missed}\n",
            graph.name(),
            it.calls,
            it.before,
            share(it.before),
            it.after,
            share(it.after),
            it.saved(),
            it.moves,
            it.apart
        );
    }
    text + LEGEND
}

const LEGEND: &str = "
remote, then  calls from node to node with shards dealt by count, and when repartitioning rests
rounds        until nothing moved any more, a minute each
apart         how many shards the fullest node had more than the emptiest, at the most
targets       clustered: half of the remote calls saved; random: none added beyond a hundredth, and no shard moved
";

fn object(args: &Args, outcomes: &[(Graph, Outcome)], met: bool) -> Value {
    let outcome = |(graph, it): &(Graph, Outcome)| {
        json!({
            "graph": graph.name(),
            "calls": it.calls,
            "remote_before": it.before,
            "remote_after": it.after,
            "saved_percent": it.saved(),
            "moves": it.moves,
            "rounds": it.rounds,
            "apart": it.apart,
            "met": it.meets(*graph),
        })
    };
    json!({
        "nodes": args.nodes,
        "shards": args.shards,
        "entities": args.entities,
        "pairs": args.pairs,
        "seed": args.seed,
        "graphs": outcomes.iter().map(outcome).collect::<Vec<_>>(),
        "verdict": if met { "pass" } else { "fail" },
    })
}
