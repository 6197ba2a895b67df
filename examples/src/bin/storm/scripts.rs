//! Scripts: replayed, and made of failures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Options, Report, Script, shrink};

use crate::{Args, tell_one};

/// Runs a script, with the mutant it names unless another is given.
pub(crate) fn replay(args: &Args, path: &Path, mutant: Option<Rule>) -> Result<ExitCode, String> {
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let script = read.and_then(|text| text.parse::<Script>().map_err(|error| error.to_string()));
    let mut script = script.map_err(|error| format!("{}: {error}", path.display()))?;
    let expected = script.expect.clone().filter(|_| mutant.is_none() && script.options.mutant.is_some());
    script.options.only = args.only.clone().or(expected);
    script.options.mutant = mutant.or(script.options.mutant);
    let seeds = match args.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => script.options.seed..script.options.seed.saturating_add(script.tries),
    };
    let run = |seed| Cluster::new(Options { seed, trace: !args.quiet, ..script.options.clone() }).run();
    let mut last = None;
    for seed in seeds {
        let report = last.insert(run(seed));
        if report.violation.is_some() {
            break;
        }
    }
    let Some(mut report) = last else { return Err("no seed fits: nothing was run".into()) };
    let rest = [("--mutant", &args.mutant), ("--only", &args.only)];
    let rest = rest.into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", value.as_ref()?)));
    report.arguments = Some(format!("--script {} --seed {}{}", quoted(path), report.seed, rest.collect::<String>()));
    Ok(tell_one(args, report, script.options.mutant))
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:".contains(letter);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
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
