//! How long shards are without an owner when real processes die: real sockets, real `SIGKILL`, default times.
//!
//! Starts a cluster of processes (this program, again), keeps asking an entity of every shard, and then, round after round,
//! kills the coordinator's process, kills another node, and restarts all of them one after the other in good order. Prints
//! for each kind of fault how long it took from the fault to the first answer to a question asked after it, for the entities
//! that lived on the process (victims) and all others (bystanders); and how the questions asked meanwhile ended. Fails if
//! a planned restart cost a single one, or if anybody was never told.

#[path = "failover/member.rs"]
mod member;
#[path = "failover/probe.rs"]
mod probe;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use adapter_tokio::Node;
use clap::Parser;
use serde_json::json;
use shard_core::id::NodeId;

use member::{HereMessage, Member, SHARDS, free_addresses, voters};
use probe::{Probes, Toll};

/// How long a process may take to join, or the cluster to come to rest: far longer than it should, so that it ends only if
/// something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Parser, Debug)]
struct Args {
    /// Processes; the first three of them vote.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(3..=20))]
    nodes: u64,
    /// How often each fault is done.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// One JSON object on the standard output, and nothing else.
    #[arg(long)]
    json: bool,
    /// For the processes that this one starts: which it is, and where all of them listen.
    #[arg(long, hide = true, num_args = 2)]
    member: Option<Vec<String>>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(member) = &args.member {
        let code = runtime.block_on(member::live(&member[0], &member[1]));
        // The thread that reads stdin cannot be stopped.
        std::process::exit(code);
    }
    match runtime.block_on(measure(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// What is done to the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// `SIGKILL` for the process that reigns.
    Coordinator,
    /// `SIGKILL` for one that does not.
    Other,
    /// It leaves, and is started again.
    Restart,
}

/// What it was, the budget for the p99 of its victims, and what it cost.
struct Row {
    name: &'static str,
    budget: Option<u64>,
    toll: Toll,
}

async fn measure(args: &Args) -> Result<bool, String> {
    let addresses = free_addresses(args.nodes)?;
    let mut members = Vec::new();
    for place in 0..addresses.len() {
        members.push(Member::start(place, &addresses).await?);
    }
    for member in &mut members {
        member.joined(PATIENCE).await?;
    }
    let caller = Node::builder("failover").voters(voters(&addresses)).listen("127.0.0.1:0").start();
    let caller = caller.await.map_err(|error| error.to_string())?;
    let here = caller.proxy::<HereMessage>().shards(SHARDS).start().await.map_err(|error| error.to_string())?;
    let probes = Probes::start(here);
    let mut rows = [
        Row { name: "coordinator killed", budget: Some(2_000), toll: Toll::default() },
        Row { name: "node killed", budget: Some(3_200), toll: Toll::default() },
        Row { name: "node restarted", budget: None, toll: Toll::default() },
    ];
    let kinds = [Fault::Coordinator, Fault::Other, Fault::Restart];
    for round in 0..args.rounds {
        for (kind, row) in kinds.into_iter().zip(&mut rows) {
            // All of them in turn, if it is planned.
            let times = if kind == Fault::Restart { members.len() } else { 1 };
            for turn in 0..times {
                at_rest(&probes, &members).await?;
                let reigns = coordinator(&caller, members.len())?;
                let place = match kind {
                    Fault::Coordinator => reigns,
                    Fault::Other => (reigns + 1 + round as usize % (members.len() - 1)) % members.len(),
                    Fault::Restart => turn,
                };
                probes.begin(NodeId(place as u64 + 1));
                let began = Instant::now();
                if kind == Fault::Restart {
                    members[place].leave(PATIENCE).await?;
                } else {
                    members[place].kill().await?;
                }
                members[place] = Member::start(place, &addresses).await?;
                members[place].joined(PATIENCE).await?;
                probes.answered(PATIENCE).await?;
                row.toll.add(probes.end().await);
                if !args.json {
                    eprintln!(
                        "round {}: {}, node {}, {:.1} s",
                        round + 1,
                        row.name,
                        place + 1,
                        began.elapsed().as_secs_f64()
                    );
                }
            }
        }
    }
    let asked = probes.stop().await;
    for member in members {
        member.end().await;
    }
    Ok(report(args, &rows, asked))
}

/// Waits until every member has its share again, and everybody has been answered for a while.
async fn at_rest(probes: &Probes, members: &[Member]) -> Result<(), String> {
    let limit = Instant::now() + PATIENCE;
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_secs(2) {
        if Instant::now() > limit {
            return Err(format!("the cluster does not come to rest; homes: {:?}", probes.homes()));
        }
        if probes.homes().len() < members.len() || probes.waiting(Duration::from_millis(250)) > 0 {
            since = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn coordinator(caller: &Node, members: usize) -> Result<usize, String> {
    let reigns = caller.status().coordinator.map(|key| key.id.0 as usize);
    reigns.filter(|id| (1..=members).contains(id)).map(|id| id - 1).ok_or_else(|| "nobody reigns".to_owned())
}

fn report(args: &Args, rows: &[Row], (asked, answered): (u64, u64)) -> bool {
    let planned = &rows[2].toll;
    let fine = planned.failed() == 0 && rows.iter().all(|row| row.toll.silent == 0);
    let mut text = format!(
        "{:<20} {:<11} {:>7} {:>7} {:>7} {:>7} {:>8}\n",
        "ms to the next answer", "", "count", "p50", "p99", "max", "budget"
    );
    for row in rows {
        for (role, gaps) in [("victims", &row.toll.victims), ("bystanders", &row.toll.bystanders)] {
            let budget = row.budget.filter(|_| role == "victims").map_or_else(String::new, |budget| budget.to_string());
            let at = |share: usize| gaps.at(share);
            let _ = writeln!(
                text,
                "{:<20}  {role:<11} {:>7} {:>7} {:>7} {:>7} {budget:>8}",
                row.name,
                gaps.len(),
                at(500),
                at(990),
                at(1_000)
            );
        }
    }
    let _ = writeln!(text, "{:<20}  {:>8} {:>9} {:>9} {:>8}", "questions", "answered", "not run", "in doubt", "untold");
    for row in rows {
        let Toll { answered, not_run, in_doubt, silent, .. } = &row.toll;
        let _ = writeln!(text, "{:<20}  {answered:>8} {not_run:>9} {in_doubt:>9} {silent:>8}", row.name);
    }
    let verdict = if fine { "ok" } else { "failed" };
    let _ = writeln!(
        text,
        "{asked} asked, {answered} answered, {} processes, {} rounds: {verdict}",
        args.nodes, args.rounds
    );
    if args.json {
        let rows: Vec<_> = rows.iter().map(|row| json!({
            "fault": row.name, "budget_p99_ms": row.budget, "victims": row.toll.victims.figures(),
            "bystanders": row.toll.bystanders.figures(), "answered": row.toll.answered, "not_run": row.toll.not_run,
            "in_doubt": row.toll.in_doubt, "untold": row.toll.silent,
        })).collect();
        println!(
            "{}",
            json!({ "nodes": args.nodes, "rounds": args.rounds, "faults": rows, "asked": asked, "answered": answered, "verdict": verdict })
        );
    } else {
        print!("{text}");
    }
    fine
}
