//! Storms: whole clusters under every harm the simulator knows, one per seed, on all cores.
//!
//! `storm --seeds 1000` runs a thousand; `--nodes N` sets the clusters' size; `--seed N` runs one and prints its events;
//! `--mutant NAME` breaks a rule and succeeds when the checkers notice; `--mutants` does so with every rule and prints a
//! table; `--protocol all` counts the double owners of other systems' rules beside ours; `--guard` guards the entities by
//! tenant; `--dense` moves few shards without a pause; `--drills N` measures what single faults cost a cluster at rest; `--script FILE` replays a script, and
//! `--shrink` makes one of the failure that a run finds, as short as it gets.

#[path = "storm/campaign.rs"]
mod campaign;
#[path = "storm/drills.rs"]
mod drills;
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
use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Options};

/// So that a first seed and a number of seeds always add up.
const SEED_MAX: u64 = 1 << 62;

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
    /// Few shards, much mail, and every shard moves again as soon as it rests.
    #[arg(long)]
    dense: bool,
    /// Compare the double owners of these rules with ours, on the same seeds: `forced-timeout`, `gossip-leader`, or `all`.
    #[arg(long)]
    protocol: Option<String>,
    /// Nodes of every cluster (1, 2, 3, 5, 50, 1000, or what you like); 3 to 5 if not given. Large ones are slow: give them
    /// fewer seeds.
    #[arg(long)]
    nodes: Option<usize>,
    /// Run this one seed and print its events.
    #[arg(long)]
    seed: Option<u64>,
    /// Break this rule on every node; success is to notice. An unknown name lists all.
    #[arg(long)]
    mutant: Option<String>,
    /// Look for this property only (`double-owner`, say): what a mutant breaks sooner does not end the run then.
    #[arg(long)]
    only: Option<String>,
    /// Break each rule in turn, and print which are noticed in how many runs; success is to notice all.
    #[arg(long)]
    mutants: bool,
    /// So many runs of each single fault to a cluster at rest; what they cost stands in the report. Alone: with --seeds 0.
    #[arg(long, default_value_t = 0)]
    drills: u64,
    /// Replay a script (see the form in `shard_core::sim::Script`).
    #[arg(long)]
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
    #[arg(long)]
    seconds: Option<u64>,
    /// Threads; as many as there are cores if not given.
    #[arg(long)]
    threads: Option<usize>,
    /// With a seed or script: print only the last events before a violation.
    #[arg(long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mutant = match args.mutant.as_deref().map(|name| Rule::by_mutant(name).ok_or(name)) {
        None => None,
        Some(Ok(rule)) => Some(rule),
        Some(Err(name)) => {
            eprintln!("no mutant is called {name:?}; there are:");
            Rule::ALL.iter().for_each(|rule| eprintln!("  {}", rule.mutant()));
            return ExitCode::FAILURE;
        }
    };
    if args.nodes == Some(0) {
        eprintln!("a cluster has at least one node");
        return ExitCode::FAILURE;
    }
    if let Some(path) = &args.script {
        return scripts::replay(&args, path, mutant);
    }
    if args.seeds == 0 && args.drills == 0 {
        eprintln!("storm: neither seeds nor drills: nothing would be shown");
        return ExitCode::FAILURE;
    }
    if args.mutants {
        return campaign::mutants(&args);
    }
    if let Some(name) = &args.protocol {
        return protocols::compare(&args, name);
    }
    match args.seed {
        Some(seed) => replay(&args, seed, mutant),
        None => campaign::storm(&args, mutant),
    }
}

/// The run of one seed.
fn options(args: &Args, seed: u64, mutant: Option<Rule>) -> Options {
    let mut options = Options::from_seed(seed);
    if let Some(nodes) = args.nodes {
        options = options.with_nodes(nodes);
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
fn replay(args: &Args, seed: u64, mutant: Option<Rule>) -> ExitCode {
    let mut options = options(args, seed, mutant);
    println!("{options:#?}");
    options.trace = !args.quiet;
    let report = Cluster::new(options).run();
    for line in &report.trace {
        println!("{line}");
    }
    println!("{report}");
    if args.shrink {
        scripts::shrink_and_print(args, &report);
    }
    if args.json {
        let mut sum = campaign::Sum::default();
        let failed = report.violation.is_some();
        sum.take(report);
        println!("{}", tell::json(&sum, 0.0, None));
        return verdict(mutant, u64::from(failed));
    }
    verdict(mutant, u64::from(report.violation.is_some()))
}

/// Without a mutant, success is that nothing was seen; with one, that something was.
fn verdict(mutant: Option<Rule>, violations: u64) -> ExitCode {
    if (violations > 0) == mutant.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
