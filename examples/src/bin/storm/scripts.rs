//! Scripts: replayed, and made of failures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Report, Script, shrink};

use crate::{Args, verdict};

/// Runs a script, with the mutant it names unless another is given.
pub(crate) fn replay(args: &Args, path: &Path, mutant: Option<Rule>) -> ExitCode {
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let script = read.and_then(|text| text.parse::<Script>().map_err(|error| error.to_string()));
    let mut script = match script {
        Ok(script) => script,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    };
    script.options.only = script.expect.clone().filter(|_| mutant.is_none() && script.options.mutant.is_some());
    script.options.mutant = mutant.or(script.options.mutant);
    let mut last = None;
    for seed in script.options.seed..script.options.seed + script.tries {
        let mut options = script.options.clone();
        options.seed = seed;
        options.trace = !args.quiet;
        let report = Cluster::new(options).run();
        let found = report.violation.is_some();
        last = Some(report);
        if found {
            break;
        }
    }
    let Some(report) = last else { return ExitCode::FAILURE };
    for line in &report.trace {
        println!("{line}");
    }
    println!("{report}");
    if args.shrink {
        shrink_and_print(args, &report);
    }
    verdict(script.options.mutant, u64::from(report.violation.is_some()))
}

/// The failure of a run as a script, as short as it gets.
pub(crate) fn shrink_and_print(args: &Args, report: &Report) {
    let (Some(script), Some(violation)) = (&report.script, &report.violation) else { return };
    let property = violation.property;
    let (short, runs) = shrink(script, args.budget, |script| fails(script, property));
    let faults = (script.options.script.len(), short.options.script.len());
    println!("shortened in {runs} runs, from {} faults to {}; replay with --script:\n\n{short}", faults.0, faults.1);
}

/// When the run breaks `property`, if it does.
fn fails(script: &Script, property: &str) -> Option<Duration> {
    let options = script.options.clone();
    let run = catch_unwind(AssertUnwindSafe(|| Cluster::new(options).run()));
    let violation = run.ok()?.violation?;
    (violation.property == property).then(|| Duration::from_millis(violation.at_millis))
}
