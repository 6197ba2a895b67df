//! Which allocation strategy for which cluster: all of them on the same nodes, shards and loads.
//!
//! `strategy-lab --nodes 20 --shards 1000 --load zipf:0.8 --events join,crash,leave` starts a cluster, lets things happen to
//! it, and says of each strategy how long it took to find rest, how many shards changed places beside the least that had
//! to, how even it was then, whether it stayed at rest, and what a plan costs. `--out lab.html` draws it; `--json` prints one
//! object instead. Loads of your own: `--load file:PATH`, a CSV with the columns `shard` and `load`.

#[path = "strategy_lab/load.rs"]
mod load;
#[path = "strategy_lab/page.rs"]
mod page;
#[path = "strategy_lab/run.rs"]
mod run;
#[path = "strategy_lab/strategies.rs"]
mod strategies;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use examples::tool::{end, say};
use serde_json::{Value, json};

use run::{Event, Lab, Outcome, Run, duration};
use strategies::Contestant;

/// Compares allocation strategies on one workload.
#[derive(Parser, Debug)]
#[command(name = "strategy-lab")]
struct Args {
    /// Nodes at the start; they stand in three zones.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=2_000))]
    nodes: u16,
    /// Shards.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    shards: u32,
    /// What shards weigh: uniform, zipf:EXPONENT, flights (rows of the shipped file, by aircraft), or file:PATH, a CSV with
    /// the columns shard and load; shards it does not name weigh nothing.
    #[arg(long, default_value = "zipf:0.8")]
    load: String,
    /// What happens, one after the other, each when all is at rest: join, crash, leave.
    #[arg(long, value_delimiter = ',', default_value = "join,crash,leave")]
    events: Vec<String>,
    /// Strategies, with commas, or `all`.
    #[arg(long, value_delimiter = ',', default_value = "all")]
    strategies: Vec<String>,
    /// How many further rounds are watched for moves once all is at rest.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    watch: u32,
    /// After so many rounds it is not waited for rest any more.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    patience: u32,
    /// What is drawn by chance is drawn from this.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a page with plots here.
    #[arg(long)]
    out: Option<PathBuf>,
    /// One JSON object on the standard output, and nothing else.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    end("strategy-lab", work(&Args::parse()))
}

fn work(args: &Args) -> Result<(), String> {
    let contestants = strategies::named(&args.strategies)?;
    let events = args.events.iter().map(|name| Event::named(name)).collect::<Result<Vec<_>, _>>()?;
    let loads = load::open(&args.load, args.shards, args.seed)?;
    let lab = Lab::new(args, events, loads)?;
    let runs: Vec<Run> = contestants.into_iter().map(|contestant| lab.run(contestant)).collect();
    if let Some(path) = &args.out {
        let page = page::page(args, &lab, &runs);
        std::fs::write(path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    if args.json {
        return say(&format!("{}\n", object(args, &lab, &runs)));
    }
    say(&table(args, &lab, &runs))
}

fn table(args: &Args, lab: &Lab, runs: &[Run]) -> String {
    let mut text = format!("{}\n", page::workload(args, lab));
    for (at, event) in lab.phases().enumerate() {
        let _ = writeln!(text, "\n{}", event.map_or("start: every shard finds a node", Event::sentence));
        let moved = if event.is_some() { "moved/least" } else { "moved" };
        let _ = writeln!(
            text,
            "{:>24} {:>7} {moved:>15} {:>9} {:>9} {:>6}",
            "strategy", "rounds", "max/mean", "by load", "churn"
        );
        for run in runs {
            let it = &run.outcomes[at];
            let moved = match it.ratio() {
                Some(ratio) => format!("{}/{} = {ratio:.1}", it.changed, it.least),
                None => it.changed.to_string(),
            };
            let rounds = it.rounds.map_or("never".into(), |rounds| rounds.to_string());
            let name = run.contestant.name;
            let _ = writeln!(
                text,
                "{name:>24} {rounds:>7} {moved:>15} {:>9.2} {:>9.2} {:>6}",
                it.by_count, it.by_load, it.churn
            );
        }
    }
    let _ = writeln!(
        text,
        "\n{:>24} {:>12} {:>12} {:>12}  for",
        "what it costs", "plan at rest", "plan, moves", "placement"
    );
    for run in runs {
        let [rest, busy, place] = run.costs().map(|time| time.map_or("-".into(), duration));
        let Contestant { name, purpose, .. } = run.contestant;
        let _ = writeln!(text, "{name:>24} {rest:>12} {busy:>12} {place:>12}  {purpose}");
    }
    text + LEGEND
}

const LEGEND: &str = "
rounds       until nothing moved any more (a coordinator plans every two seconds)
moved/least  shards that changed places, beside the least that had to: a new node's even share, or what the lost one had
max/mean     the fullest node beside the mean, by count of shards and by load; 1.00 is even
churn        moves while everything was at rest and watched further; anything but 0 is a strategy that never settles
";

fn object(args: &Args, lab: &Lab, runs: &[Run]) -> Value {
    let outcome = |(event, it): (Option<Event>, &Outcome)| {
        json!({
            "event": event.map_or("start", Event::name),
            "rounds": it.rounds,
            "moved": it.moved,
            "placed": it.placed,
            "least": it.least,
            "max_over_mean_count": it.by_count,
            "max_over_mean_load": it.by_load,
            "churn": it.churn,
        })
    };
    let run = |run: &Run| {
        let [rest, busy, place] = run.costs();
        json!({
            "strategy": run.contestant.name,
            "purpose": run.contestant.purpose,
            "contributed": run.contestant.is_contributed(),
            "outcomes": lab.phases().zip(&run.outcomes).map(outcome).collect::<Vec<_>>(),
            "measured_ns": { "plan_at_rest": rest, "plan_with_moves": busy, "placement": place },
        })
    };
    json!({
        "nodes": args.nodes,
        "shards": args.shards,
        "load": args.load,
        "seed": args.seed,
        "watch": args.watch,
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    })
}
