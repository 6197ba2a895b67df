//! Storms: whole clusters under every harm the simulator knows, one per seed, on all cores.
//!
//! `storm --seeds 1000` runs a thousand; `--seed N` runs one and prints its events; `--mutant NAME` breaks a rule and
//! succeeds when the checkers notice; `--mutants` does so with every rule and prints a table.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Counters, Options, Report};

/// Runs simulated clusters through storms of faults and checks what must never happen.
#[derive(Parser, Debug)]
struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Run this one seed and print its events.
    #[arg(long)]
    seed: Option<u64>,
    /// Break this rule on every node; success is to notice. An unknown name lists all.
    #[arg(long)]
    mutant: Option<String>,
    /// Break each rule in turn, and print which are noticed in how many runs.
    #[arg(long)]
    mutants: bool,
    /// One JSON object on the last line of the standard output.
    #[arg(long)]
    json: bool,
    /// Simulated seconds of harm per run; the calm comes on top.
    #[arg(long)]
    seconds: Option<u64>,
    /// Threads; as many as there are cores if not given.
    #[arg(long)]
    threads: Option<usize>,
    /// With a seed: print only the last events before a violation.
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
    if args.mutants {
        return mutants(&args);
    }
    match args.seed {
        Some(seed) => replay(&args, seed, mutant),
        None => storm(&args, mutant),
    }
}

fn options(args: &Args, seed: u64, mutant: Option<Rule>) -> Options {
    let mut options = Options::from_seed(seed);
    if let Some(seconds) = args.seconds {
        options = options.with_storm(Duration::from_secs(seconds));
    }
    options.mutant = mutant;
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
    if args.json {
        println!("{}", json(1, &report.counters, report.violation.as_slice(), report.millis as f64, 0.0));
    }
    verdict(mutant, u64::from(report.violation.is_some()))
}

/// What many runs found.
#[derive(Default)]
struct Sum {
    runs: u64,
    millis: u64,
    counters: Counters,
    bad: Vec<Report>,
    /// Seeds under which a machine's own assertion failed.
    panics: Vec<u64>,
}

impl Sum {
    fn found(&self) -> u64 {
        (self.bad.len() + self.panics.len()) as u64
    }
}

/// Runs `seeds` on all cores, until `enough` violations are found.
fn sweep(args: &Args, mutant: Option<Rule>, enough: usize, progress: bool) -> Sum {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, stop, sum) = (AtomicU64::new(args.from), AtomicBool::new(false), Mutex::new(Sum::default()));
    let end = args.from.saturating_add(args.seeds);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..args.threads.unwrap_or(cores).max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    // An assertion of a machine is a find as well.
                    let options = options(args, seed, mutant);
                    let run = AssertUnwindSafe(|| Cluster::new(options).run());
                    let Ok(report) = catch_unwind(run) else {
                        let Ok(mut sum) = sum.lock() else { return };
                        sum.runs += 1;
                        sum.panics.push(seed);
                        if sum.panics.len() + sum.bad.len() >= enough {
                            stop.store(true, Ordering::Relaxed);
                        }
                        continue;
                    };
                    let Ok(mut sum) = sum.lock() else { return };
                    sum.runs += 1;
                    sum.millis += report.millis;
                    sum.counters.add(&report.counters);
                    if report.violation.is_some() {
                        sum.bad.push(report);
                        if sum.panics.len() + sum.bad.len() >= enough {
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                    if progress && sum.runs.is_multiple_of(50) {
                        let rate = sum.runs as f64 / began.elapsed().as_secs_f64();
                        eprint!("\r{} of {} runs, {rate:.0}/s, {} bad ", sum.runs, args.seeds, sum.bad.len());
                    }
                }
            });
        }
    });
    if progress {
        eprintln!();
    }
    let mut sum = sum.into_inner().unwrap_or_default();
    sum.bad.sort_by_key(|report| report.seed);
    sum
}

/// Many runs, and their sum.
fn storm(args: &Args, mutant: Option<Rule>) -> ExitCode {
    let began = Instant::now();
    let enough = if mutant.is_some() { 1 } else { 5 };
    let sum = sweep(args, mutant, enough, true);
    let seconds = began.elapsed().as_secs_f64();
    for report in &sum.bad {
        println!("{report}\n");
    }
    for seed in &sum.panics {
        println!("seed {seed}: an assertion failed; replay: storm --seed {seed}\n");
    }
    println!(
        "{} runs, {:.1} h of cluster time, {:.1} s, {:.1} runs/s",
        sum.runs,
        sum.millis as f64 / 3.6e6,
        seconds,
        sum.runs as f64 / seconds
    );
    for (name, value) in sum.counters.values() {
        println!("  {name:<20} {value:>14}");
    }
    println!("  {:<20} {:>14}", "longest gap, ms", sum.counters.longest_gap_millis);
    println!("{}", if sum.found() == 0 { "no violation" } else { "VIOLATIONS" });
    if args.json {
        let violations: Vec<_> = sum.bad.iter().filter_map(|report| report.violation.clone()).collect();
        println!("{}", json(sum.runs, &sum.counters, &violations, sum.millis as f64, seconds));
    }
    verdict(mutant, sum.found())
}

/// Every rule broken in turn.
fn mutants(args: &Args) -> ExitCode {
    // Broken rules trip assertions of the machines; what they say would fill the screen.
    std::panic::set_hook(Box::new(|_| {}));
    println!("{:<34} {:>6} {:>6}  first seed, and what was seen", "mutant", "bad", "runs");
    for rule in Rule::ALL {
        let sum = sweep(args, Some(*rule), 5, false);
        let mut seen: Vec<_> = sum.bad.iter().filter_map(|report| Some(report.violation.as_ref()?.property)).collect();
        seen.extend(sum.panics.first().map(|_| "assertion"));
        seen.sort_unstable();
        seen.dedup();
        let first = sum.bad.iter().map(|report| report.seed).chain(sum.panics.iter().copied()).min();
        let first = first.map_or_else(|| "-".to_owned(), |seed| seed.to_string());
        println!("{:<34} {:>6} {:>6}  {first} {}", rule.mutant(), sum.found(), sum.runs, seen.join(", "));
    }
    ExitCode::SUCCESS
}

/// Without a mutant, success is that nothing was seen; with one, that something was.
fn verdict(mutant: Option<Rule>, violations: u64) -> ExitCode {
    if (violations > 0) == mutant.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn json(
    runs: u64,
    counters: &Counters,
    violations: &[shard_core::sim::Violation],
    millis: f64,
    seconds: f64,
) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    object.insert("runs".into(), runs.into());
    for (name, value) in counters.values() {
        object.insert(name.into(), value.into());
    }
    object.insert("longest_gap_millis".into(), counters.longest_gap_millis.into());
    object.insert("simulated_seconds".into(), (millis / 1e3).into());
    object.insert("seconds".into(), seconds.into());
    let properties: Vec<_> = violations.iter().map(|violation| violation.property).collect();
    object.insert("violations".into(), properties.into());
    object.insert("verdict".into(), if violations.is_empty() { "ok" } else { "failed" }.into());
    object.into()
}
