//! Every rule broken in turn: by storms, and where those are not meant to find it, by what is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use serde_json::{Map, json};
use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Kill, Options, Script, kills};

use crate::{Args, campaign};

/// Breaks every rule and looks who notices: the storms asked for, else the directed runs of the rule's own. Success: each
/// is noticed here, or by a test of the machine that `cargo test` runs.
pub(crate) fn all(args: &Args) -> ExitCode {
    // Broken rules trip assertions of the machines; what they say would fill the screen.
    std::panic::set_hook(Box::new(|_| {}));
    println!("{:<34} {:>6} {:>6}  first seed, and what was seen", "mutant", "bad", "runs");
    let (mut by_storms, mut directed, mut by_tests, mut missed) = (0, 0, 0, Vec::new());
    let mut noticed = Map::new();
    for rule in Rule::ALL {
        let sum = campaign::sweep(args, Some(*rule), 5, false);
        let mut seen: Vec<_> = sum.bad.iter().filter_map(|report| Some(report.violation.as_ref()?.property)).collect();
        seen.extend(sum.panics.first().map(|_| "assertion"));
        seen.sort_unstable();
        seen.dedup();
        let first = sum.bad.iter().map(|report| report.seed).chain(sum.panics.iter().copied()).min();
        let mut line = json!({ "first_seed": first, "bad": sum.found(), "runs": sum.runs });
        let said = match (first, first.is_none().then(|| elsewhere(*rule)).flatten()) {
            (Some(first), _) => {
                by_storms += 1;
                format!("{first} {}", seen.join(", "))
            }
            (None, Some((said, ran))) => {
                *(if ran { &mut directed } else { &mut by_tests }) += 1;
                line["killed"] = said.clone().into();
                said
            }
            (None, None) => {
                missed.push(rule.mutant());
                "NOT NOTICED".into()
            }
        };
        println!("{:<34} {:>6} {:>6}  {said}", rule.mutant(), sum.found(), sum.runs);
        noticed.insert(rule.mutant().into(), line);
    }
    println!(
        "{} rules: {by_storms} noticed by these storms, {directed} by directed runs here, {by_tests} by tests that cargo test \
         runs, {} by nothing",
        Rule::ALL.len(),
        missed.len()
    );
    if !missed.is_empty() {
        println!("not noticed: {}", missed.join(", "));
    }
    if args.json {
        println!(
            "{}",
            json!({ "mutants": noticed, "by_storms": by_storms, "directed": directed, "by_tests": by_tests, "missed": missed })
        );
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// By what the rule's mutant is killed besides, and whether that ran here. A directed run that finds nothing any more counts
/// for nothing.
fn elsewhere(rule: Rule) -> Option<(String, bool)> {
    let all = kills(rule);
    let ran = all.iter().find_map(|kill| match kill {
        Kill::Script { text, .. } => by_script(text).map(|seed| format!("{kill}, seed {seed}")),
        Kill::Storm { first, last, property } => (*first..=*last)
            .find(|seed| breaks(Options::from_seed(*seed).with_mutant(rule), property))
            .map(|seed| format!("{kill}, seed {seed}")),
        Kill::Test { .. } | Kill::Covered { .. } => None,
    });
    if let Some(ran) = ran {
        return Some((ran, true));
    }
    let test = all.iter().find(|kill| matches!(kill, Kill::Test { .. }))?;
    let covered = all.iter().find(|kill| matches!(kill, Kill::Covered { .. }));
    Some((covered.map_or_else(|| test.to_string(), |covered| format!("{covered}; both are killed {test}")), false))
}

/// The seed under which the script breaks what it expects.
fn by_script(text: &str) -> Option<u64> {
    let script: Script = text.parse().ok()?;
    let expect = script.expect?;
    let mut seeds = script.options.seed..script.options.seed.saturating_add(script.tries);
    seeds.find(|seed| breaks(Options { seed: *seed, ..script.options.clone() }, &expect))
}

fn breaks(options: Options, property: &str) -> bool {
    let options = Options { only: Some(property.to_owned()), ..options };
    let run = catch_unwind(AssertUnwindSafe(|| Cluster::new(options).run()));
    run.is_ok_and(|report| report.violation.is_some_and(|violation| violation.property == property))
}
