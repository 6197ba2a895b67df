//! Storms: whole clusters under every harm the simulator knows, one per seed, on all cores.
//!
//! `storm --seeds 1000` runs a thousand; `--nodes N` sets the clusters' size; `--seed N` runs one and prints its events;
//! `--mutant NAME` breaks a rule and succeeds when the checkers notice; `--mutants` does so with every rule and prints a
//! table, with what kills those that its seeds do not miss; `--protocol all` counts the double owners of other systems' rules beside ours; `--guard` guards the entities by
//! tenant; `--dense` moves few shards without a pause; `--drills N` measures what single faults cost a cluster at rest, and
//! `--drill NAME --seed N` is one of them; `--script FILE` replays a script, and
//! `--shrink` makes one of the failure that a run finds, as short as it gets.

#[path = "storm/campaign.rs"]
mod campaign;
#[path = "storm/drills.rs"]
mod drills;
#[path = "storm/mutants.rs"]
mod mutants;
#[path = "storm/protocols.rs"]
mod protocols;
#[path = "storm/scripts.rs"]
mod scripts;
#[path = "storm/tell.rs"]
mod tell;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use examples::tool;
use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Drill, NODES_MAX, Options, PROPERTIES, Report};

/// So that a first seed and a number of seeds always add up.
const SEED_MAX: u64 = 1 << 62;
/// A simulated day.
const SECONDS_MAX: u64 = 86_400;
/// Of each drill.
const DRILLS_MAX: u64 = 1_000_000;

/// Runs simulated clusters through storms of faults and checks what must never happen.
#[derive(Parser, Debug)]
struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    from: u64,
    /// Guard the entities by tenant on every node: few seats, short queues.
    #[arg(long)]
    guard: bool,
    /// Few shards, much mail, and every shard moves again as soon as it rests. Its clusters have four nodes.
    #[arg(long, conflicts_with = "nodes")]
    dense: bool,
    /// Compare the double owners of these rules with ours, on the same seeds: `forced-timeout`, `gossip-leader`, or `all`.
    #[arg(long, conflicts_with_all = ["mutant", "only", "seed", "drills", "shrink"])]
    protocol: Option<String>,
    /// Nodes of every cluster (1, 2, 3, 5, 50, 1000, or what you like); 3 to 5 if not given. Large ones are slow: give them
    /// fewer seeds.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=NODES_MAX as u64))]
    nodes: Option<u64>,
    /// Run this one seed and print its events.
    #[arg(long, conflicts_with_all = ["seeds", "from", "drills"])]
    seed: Option<u64>,
    /// Break this rule on every node; success is to notice. An unknown name lists all.
    #[arg(long)]
    mutant: Option<String>,
    /// Look for this property only (`double-owner`, say): what a mutant breaks sooner does not end the run then. An unknown
    /// name lists all.
    #[arg(long)]
    only: Option<String>,
    /// Break each rule in turn, and print which are noticed in how many runs. Those that these seeds do not miss are looked
    /// for with scripts and seeds of their own, or the test that kills them is named; success is that each is killed.
    #[arg(long, conflicts_with_all = ["mutant", "seed", "drills", "protocol", "shrink"])]
    mutants: bool,
    /// So many runs of each single fault to a cluster at rest; what they cost stands in the report. Alone: with --seeds 0.
    #[arg(long, default_value_t = 0, conflicts_with = "mutant", value_parser = clap::value_parser!(u64).range(..=DRILLS_MAX))]
    drills: u64,
    /// One drill, with its events. An unknown name lists all.
    #[arg(long, requires = "seed", conflicts_with_all = ["dense", "seconds", "mutants", "protocol"])]
    drill: Option<String>,
    /// Replay a script (see the form in `shard_core::sim::Script`); with --seed instead of its own seeds.
    #[arg(long, conflicts_with_all = ["seeds", "from", "nodes", "seconds", "guard", "dense", "drill", "drills", "mutants", "protocol"])]
    script: Option<PathBuf>,
    /// Shorten the first failure found, or the script given, and print it as a script.
    #[arg(long)]
    shrink: bool,
    /// Runs that shortening may take.
    #[arg(long, default_value_t = 1_500)]
    budget: u32,
    /// One JSON object on the last line of the standard output.
    #[arg(long)]
    json: bool,
    /// Simulated seconds of harm per run; the calm comes on top.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: Option<u64>,
    /// Threads; as many as there are cores if not given.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    threads: Option<u64>,
    /// With a seed or script: print only the last events before a violation.
    #[arg(long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(code) => code,
        Err(why) => tool::end("storm", Err(why)),
    }
}

/// Does what is asked for; an error is what of the arguments makes no sense.
fn run(args: &Args) -> Result<ExitCode, String> {
    let mutant = args.mutant.as_deref().map(|name| {
        let names = || Rule::ALL.iter().map(|rule| rule.mutant()).collect::<Vec<_>>();
        Rule::by_mutant(name).ok_or_else(|| unknown("mutant", name, &names()))
    });
    let mutant = mutant.transpose()?;
    if let Some(only) = args.only.as_deref().filter(|only| !PROPERTIES.contains(only)) {
        return Err(unknown("property", only, PROPERTIES));
    }
    if args.nodes == Some(1) && (args.drills > 0 || args.drill.is_some()) {
        return Err("a drill needs two nodes at least".into());
    }
    if let Some(path) = &args.script {
        return scripts::replay(args, path, mutant);
    }
    if args.seeds == 0 && (args.drills == 0 || args.mutants || args.protocol.is_some()) {
        return Err("no seeds, and nothing else to do: nothing was run".into());
    }
    if args.mutants {
        return Ok(mutants::all(args));
    }
    if let Some(name) = &args.protocol {
        return protocols::compare(args, name);
    }
    match (args.seed, &args.drill) {
        (Some(seed), Some(name)) => {
            let names = || Drill::ALL.map(Drill::name);
            let drill = Drill::ALL.into_iter().find(|drill| drill.name() == name);
            let drill = drill.ok_or_else(|| unknown("drill", name, &names()))?;
            Ok(replay(args, drills::options(args, drill, seed, mutant), mutant))
        }
        (Some(seed), None) => Ok(replay(args, options(args, seed, mutant), mutant)),
        (None, _) => Ok(campaign::storm(args, mutant)),
    }
}

/// There is no such thing, but there are these.
fn unknown(what: &str, name: &str, names: &[&str]) -> String {
    format!("there is no {what} {name:?}; there are:\n  {}", names.join("\n  "))
}

/// The run of one seed.
fn options(args: &Args, seed: u64, mutant: Option<Rule>) -> Options {
    let mut options = Options::from_seed(seed);
    if let Some(nodes) = args.nodes {
        options = options.with_nodes(nodes as usize);
    }
    if let Some(seconds) = args.seconds {
        options = options.with_storm(Duration::from_secs(seconds));
    }
    if args.guard {
        options = options.with_guard();
    }
    if args.dense {
        options = options.with_dense_moves();
    }
    options.mutant = mutant;
    options.only.clone_from(&args.only);
    options
}

/// One run, with its events.
fn replay(args: &Args, mut options: Options, mutant: Option<Rule>) -> ExitCode {
    println!("{options:#?}");
    options.trace = !args.quiet;
    tell_one(args, Cluster::new(options).run(), mutant)
}

/// One run's events, and what it found.
fn tell_one(args: &Args, report: Report, mutant: Option<Rule>) -> ExitCode {
    for line in &report.trace {
        println!("{line}");
    }
    println!("{report}");
    if args.shrink {
        scripts::shrink_and_print(args, &report);
    }
    let failed = report.violation.is_some();
    if args.json {
        let mut sum = campaign::Sum::default();
        sum.take(report);
        println!("{}", tell::json(&sum, 0.0, None));
    }
    verdict(mutant, u64::from(failed))
}

/// Without a mutant, success is that nothing was seen; with one, that something was.
fn verdict(mutant: Option<Rule>, violations: u64) -> ExitCode {
    if (violations > 0) == mutant.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
