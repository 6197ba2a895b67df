//! Which entities are worth keeping awake: passivation policies on traces, beside the best that could have been done.
//!
//! `passivation --trace zipf:0.9,loop --limits 1000,10000` prints, for each policy, how many messages found their entity
//! awake and how many per thousand woke one that had been awake before; `--out page.html` draws it; `--json` prints one
//! object instead. Bring your own trace: a file with one message a line, the entity's id up to the first comma or blank;
//! blanks before it, lines that begin with `#` and empty ones do not count. Of a CSV with a header, `--column NAME` is the id;
//! lines that name no entity are left out, and their number is told.

#[path = "passivation/optimum.rs"]
mod optimum;
#[path = "passivation/page.rs"]
mod page;
#[path = "passivation/run.rs"]
mod run;
#[path = "passivation/trace.rs"]
mod trace;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use examples::tool::{end, say};
use serde_json::json;
use shard_core::passivation::PolicyChoice;

use run::{Figures, Run};
use trace::Trace;

/// Compares passivation policies on traces with Belady's optimum.
#[derive(Parser, Debug)]
struct Args {
    /// Traces, with commas: zipf:EXPONENT, loop, scan+zipf, shifting, flights (the aircraft of the shipped file), or a file.
    #[arg(long, value_delimiter = ',', default_value = "zipf:0.9,loop,scan+zipf,shifting,flights")]
    trace: Vec<String>,
    /// How many entities may be awake, with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000], value_parser = clap::value_parser!(u32).range(1..))]
    limits: Vec<u32>,
    /// Policies, with commas, or `all`.
    #[arg(long, value_delimiter = ',', default_value = "all")]
    policies: Vec<String>,
    /// Messages of a trace that is made up.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    messages: u32,
    /// Entities of a trace that is made up; a loop has a fifth of them.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10..=50_000_000))]
    entities: u32,
    /// What is drawn by chance is drawn from this.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The column of a CSV with a header that names the entity.
    #[arg(long)]
    column: Option<String>,
    /// Write a page with plots here.
    #[arg(long)]
    out: Option<PathBuf>,
    /// One JSON object on the standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    end("passivation", work(&Args::parse()))
}

fn work(args: &Args) -> Result<(), String> {
    let policies = policies(&args.policies)?;
    if args.column.is_some() && !args.trace.iter().any(|name| trace::is_file(name)) {
        return Err("--column is for a file of your own, and none is among the traces".to_owned());
    }
    let unwritable = |path: &Path, error| format!("cannot write {}: {error}", path.display());
    if let Some(path) = &args.out {
        OpenOptions::new().append(true).create(true).open(path).map_err(|error| unwritable(path, error))?;
    }
    // All traces are looked at before the first is run: a wrong name should not cost minutes.
    let traces = unique(&args.trace).iter().map(|name| trace::open(name, args)).collect::<Result<Vec<_>, _>>()?;
    let mut runs = Vec::new();
    for trace in &traces {
        for limit in &unique(&args.limits) {
            let run = run::run(trace, *limit, &policies, args.seed);
            if !args.json {
                say(&table(&run))?;
            }
            runs.push(run);
        }
    }
    if let Some(path) = &args.out {
        std::fs::write(path, page::page(&runs)).map_err(|error| unwritable(path, error))?;
    }
    if args.json {
        say(&format!("{}\n", json!({ "seed": args.seed, "runs": runs.iter().map(object).collect::<Vec<_>>() })))?;
    }
    Ok(())
}

fn policies(names: &[String]) -> Result<Vec<PolicyChoice>, String> {
    let known = || PolicyChoice::ALL.map(PolicyChoice::name).join(", ");
    let choice = |name: &String| {
        PolicyChoice::by_name(name).ok_or_else(|| format!("no policy is called {name:?}; there are all, {}", known()))
    };
    let chosen: Vec<_> = names.iter().filter(|name| *name != "all").map(choice).collect::<Result<_, _>>()?;
    Ok(if chosen.len() == names.len() { unique(&chosen) } else { PolicyChoice::ALL.into() })
}

/// Each once, where it first stood.
fn unique<T: Clone + PartialEq>(items: &[T]) -> Vec<T> {
    let mut kept = Vec::new();
    for item in items {
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    kept
}

fn table(run: &Run<'_>) -> String {
    let Trace { name, messages, entities, nameless } = run.trace;
    let left_out = if *nameless > 0 { format!(" ({nameless} lines named none)") } else { String::new() };
    let mut lines = format!(
        "{name}: {} messages for {entities} entities{left_out}, {} awake at most\n{:>20} {:>9} {:>9} {:>14} {:>9}\n",
        messages.len(),
        run.limit,
        "policy",
        "hits, %",
        "of best",
        "reawoken, o/oo",
        "to LRU"
    );
    let lru = run.figures("lru").map(Figures::hit_rate);
    for (policy, figures) in run.all() {
        let ahead = lru.map_or(String::new(), |lru| format!("{:+.2}", 100.0 * (figures.hit_rate() - lru)));
        let best = run.optimum.hit_rate();
        lines += &format!(
            "{policy:>20} {:>9.2} {:>9.2} {:>14.1} {ahead:>9}\n",
            100.0 * figures.hit_rate(),
            if best > 0.0 { 100.0 * figures.hit_rate() / best } else { 100.0 },
            figures.reactivations_per_thousand(),
        );
    }
    lines + "\n"
}

fn object(run: &Run<'_>) -> serde_json::Value {
    let policy = |(policy, figures): (&str, &Figures)| {
        json!({
            "policy": policy,
            "hit_rate": figures.hit_rate(),
            "reactivations_per_thousand": figures.reactivations_per_thousand(),
            "activations": figures.activations,
            "reactivations": figures.reactivations,
        })
    };
    json!({
        "trace": run.trace.name,
        "messages": run.trace.messages.len(),
        "nameless": run.trace.nameless,
        "entities": run.trace.entities,
        "limit": run.limit,
        "results": run.all().map(policy).collect::<Vec<_>>(),
    })
}
