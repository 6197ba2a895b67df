//! Many runs: on all cores, and added up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Counters, Gaps, Marks, Options, Report};

use crate::{Args, drills, options, scripts, tell, verdict};

/// What many runs found.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) runs: u64,
    pub(crate) millis: u64,
    pub(crate) counters: Counters,
    pub(crate) gaps: Gaps,
    pub(crate) marks: Marks,
    pub(crate) bad: Vec<Report>,
    /// Seeds under which a machine's own assertion failed.
    pub(crate) panics: Vec<u64>,
}

impl Sum {
    pub(crate) fn found(&self) -> u64 {
        (self.bad.len() + self.panics.len()) as u64
    }

    pub(crate) fn take(&mut self, report: Report) {
        self.runs += 1;
        self.millis += report.millis;
        self.counters.add(&report.counters);
        self.gaps.add(&report.gaps);
        self.marks.add(&report.marks);
        if report.violation.is_some() {
            self.bad.push(report);
        }
    }
}

/// Runs the seeds on all cores, until `enough` violations are found.
pub(crate) fn sweep(args: &Args, mutant: Option<Rule>, enough: usize, progress: bool) -> Sum {
    sweep_with(args, enough, progress, |seed| options(args, seed, mutant))
}

/// The same, of runs as `options` makes them.
pub(crate) fn sweep_with(args: &Args, enough: usize, progress: bool, options: impl Fn(u64) -> Options + Sync) -> Sum {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, stop, sum) = (AtomicU64::new(args.from), AtomicBool::new(false), Mutex::new(Sum::default()));
    let end = args.from.saturating_add(args.seeds);
    let began = Instant::now();
    let worker = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            // An assertion of a machine is a find as well.
            let options = options(seed);
            let run = catch_unwind(AssertUnwindSafe(|| Cluster::new(options).run()));
            let Ok(mut sum) = sum.lock() else { return };
            match run {
                Ok(report) => sum.take(report),
                Err(_) => {
                    sum.runs += 1;
                    sum.panics.push(seed);
                }
            }
            if sum.found() >= enough as u64 {
                stop.store(true, Ordering::Relaxed);
            }
            let often = if args.nodes.is_some_and(|nodes| nodes >= 50) { 1 } else { 50 };
            if progress && sum.runs.is_multiple_of(often) {
                let rate = sum.runs as f64 / began.elapsed().as_secs_f64();
                eprint!("\r{} of {} runs, {rate:.1}/s, {} bad ", sum.runs, args.seeds, sum.found());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..args.threads.map_or(cores, |threads| threads as usize) {
            scope.spawn(worker);
        }
    });
    if progress {
        eprintln!();
    }
    let mut sum = sum.into_inner().unwrap_or_default();
    sum.bad.sort_by_key(|report| report.seed);
    sum.panics.sort_unstable();
    sum
}

/// Many runs, and their sum.
pub(crate) fn storm(args: &Args, mutant: Option<Rule>) -> ExitCode {
    let began = Instant::now();
    let enough = if mutant.is_some() { 1 } else { 5 };
    let sum = sweep(args, mutant, enough, true);
    let seconds = began.elapsed().as_secs_f64();
    for report in &sum.bad {
        println!("{report}\n");
    }
    for seed in &sum.panics {
        let arguments = options(args, *seed, mutant).arguments().unwrap_or_default();
        println!("seed {seed}: an assertion failed; replay: storm {arguments}\n");
    }
    if args.seeds > 0 {
        tell::sum(&sum, seconds);
    }
    if args.shrink
        && let Some(report) = sum.bad.first()
    {
        scripts::shrink_and_print(args, report);
    }
    let drills = (args.drills > 0).then(|| drills::run(args));
    if let Some(drills) = &drills {
        println!("{drills}");
    }
    let found = sum.found() + drills.as_ref().map_or(0, |drills| drills.bad.len() as u64);
    println!("{}", if found == 0 { "no violation" } else { "VIOLATIONS" });
    if args.json {
        println!("{}", tell::json(&sum, seconds, drills.as_ref()));
    }
    verdict(mutant, found)
}
