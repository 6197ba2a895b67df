//! Drives the run: reads the file, starts the cluster, streams, collects, closes the accounts and reports.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use super::Options;
use super::accounts::{Balance, balance};
use super::cluster::Cluster;
use super::collect::collect;
use super::csv::{Table, open};
use super::notes::Notes;
use super::progress::Progress;
use super::report::{Outcome, Verdict};
use super::stream::Stream;

/// How long it may take to remove a folder that a process just killed may still be about to write to.
const REMOVAL_LIMIT: Duration = Duration::from_secs(2);

/// Runs the main job and prints its report on stdout.
pub(crate) fn run(options: &Options) -> ExitCode {
    let path = options.file();
    let table = match open(&path) {
        Ok(table) => table,
        Err(error) => return unusable(&format!("cannot read {}: {error}", path.display())),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return unusable(&format!("no runtime: {error}")),
    };
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = drive(options, &table) => Ok(outcome),
            signal = ended() => Err(signal),
        }
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        // What was driven is dropped by now, and with it the nodes and the folder.
        Err((name, number)) => {
            eprintln!("flights: ended by {name}");
            return ExitCode::from(128 + number);
        }
    };
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

/// Waits for a signal that asks this process to end. Its name and number.
#[cfg(unix)]
async fn ended() -> (&'static str, u8) {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).expect("the system lets a process listen for the signals that end it");
    let mut hangup = listen(SignalKind::hangup());
    let mut interrupt = listen(SignalKind::interrupt());
    let mut terminate = listen(SignalKind::terminate());
    tokio::select! {
        _ = hangup.recv() => ("SIGHUP", 1),
        _ = interrupt.recv() => ("SIGINT", 2),
        _ = terminate.recv() => ("SIGTERM", 15),
    }
}

#[cfg(not(unix))]
async fn ended() -> (&'static str, u8) {
    tokio::signal::ctrl_c().await.expect("the system lets a process listen for its own end");
    ("an interrupt", 2)
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
        notes: Notes::default(),
        problems: Vec::new(),
    };
    if table.rows.is_empty() {
        outcome.nodes = 0;
        outcome.problems.push("the file holds no row that can be used, so no cluster was started".to_owned());
        return outcome;
    }
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            outcome.problems.push(format!("no temporary directory: {error}"));
            return outcome;
        }
    };
    let began = Instant::now();
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
        let kept = scratch.keep();
        outcome.notes.changes.push(format!("the nodes' logs and saved aircraft are kept in {}", kept.display()));
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
        let Some(path) = self.0.take() else { return };
        // The nodes were ended or killed before; one that was killed may still be about to write a last file.
        let begun = Instant::now();
        while fs::remove_dir_all(&path).is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            if begun.elapsed() > REMOVAL_LIMIT {
                eprintln!("flights: {} cannot be removed", path.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
