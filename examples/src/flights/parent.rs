//! Drives the run: reads the file, starts the cluster, streams, collects, closes the accounts and reports.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use super::Options;
use super::accounts::{Balance, balance};
use super::cluster::Cluster;
use super::collect::collect;
use super::csv::{Table, open};
use super::progress::Progress;
use super::report::{Outcome, Verdict, rejects};
use super::stream::Stream;

/// Runs the main job and prints its report on stdout.
pub(crate) fn run(options: &Options) -> ExitCode {
    let path = options.file();
    let table = match open(&path) {
        Ok(table) => table,
        Err(error) => return unusable(&format!("cannot read {}: {error}", path.display())),
    };
    if table.rows.is_empty() {
        let mut text = format!("{} holds no row that can be used\n", path.display());
        rejects(&mut text, &table.rejects).expect("a String takes everything");
        return unusable(text.trim_end());
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return unusable(&format!("no runtime: {error}")),
    };
    let outcome = runtime.block_on(drive(options, &table));
    print!("{}", outcome.text());
    if options.json {
        println!("{}", outcome.json());
    }
    match outcome.verdict() {
        Verdict::Ok | Verdict::Accounted => ExitCode::SUCCESS,
        Verdict::Failed => ExitCode::FAILURE,
    }
}

fn unusable(text: &str) -> ExitCode {
    eprintln!("flights: {text}");
    ExitCode::from(2)
}

async fn drive<'a>(options: &Options, table: &'a Table) -> Outcome<'a> {
    let mut outcome = Outcome {
        table,
        reports: Vec::new(),
        // What stands until the cluster runs: nothing was sent.
        balance: Balance { unsent: table.rows.len() as u64, ..Balance::default() },
        moved_shards: 0,
        nodes: usize::from(options.nodes),
        took: Duration::ZERO,
        kill: options.kill,
        notes: Vec::new(),
        problems: Vec::new(),
    };
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            outcome.problems.push(format!("no temporary directory: {error}"));
            return outcome;
        }
    };
    let began = std::time::Instant::now();
    eprintln!("starting {} nodes", options.nodes);
    let mut cluster = match Cluster::start(options, scratch.path()).await {
        Ok(cluster) => cluster,
        Err(problem) => {
            outcome.problems.push(format!("the cluster did not start: {problem}"));
            return outcome;
        }
    };
    // A new cluster grants no shard before every session that an earlier one might have granted is over.
    collect(&mut cluster, &table.tails[..1]).await;
    eprintln!("all nodes serve after {:.1} s", began.elapsed().as_secs_f64());

    let mut stream = Stream::new(table, usize::from(options.nodes), options.speed, options.kill);
    let mut progress = Progress::new(table.rows.len());
    outcome.took = stream.run(&mut cluster, &mut progress).await;
    eprintln!("asking {} aircraft what they remember", table.tails.len());
    outcome.reports = collect(&mut cluster, &table.tails).await;
    outcome.balance = balance(table, &stream.accounts, &outcome.reports, &cluster.bereft);
    outcome.moved_shards = cluster.grants.moved();
    outcome.notes = std::mem::take(&mut cluster.notes);
    outcome.problems = std::mem::take(&mut cluster.problems);
    cluster.end().await;
    if outcome.verdict() == Verdict::Failed {
        outcome.notes.push(format!("the nodes' logs and saved aircraft are kept in {}", scratch.keep().display()));
    }
    outcome
}

/// A directory for this run's logs and saved aircraft, removed at the end.
struct Scratch(Option<PathBuf>);

impl Scratch {
    fn new() -> io::Result<Self> {
        // The clock only makes the name new: a directory that exists already is refused.
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = std::env::temp_dir().join(format!("flights-{}-{nanos}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(Some(path)))
    }

    fn path(&self) -> &Path {
        self.0.as_deref().expect("taken only by `keep`, which consumes it")
    }

    fn keep(mut self) -> PathBuf {
        self.0.take().expect("taken only here")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // What cannot be removed stays for the system to clean up.
            let _ = fs::remove_dir_all(path);
        }
    }
}
