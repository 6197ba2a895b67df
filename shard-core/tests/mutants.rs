//! Every rule that can be broken is missed by something that `cargo test` runs, and by what it is said to be missed.
#![cfg(feature = "sim")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Kill, Options, Script, kills};

#[test]
fn every_rule_is_killed_somewhere() {
    let mut wrong = Vec::new();
    for rule in Rule::ALL {
        let kills = kills(*rule);
        if !kills.iter().any(|kill| !matches!(kill, Kill::Covered { .. })) {
            wrong.push(format!("{}: killed by nothing", rule.mutant()));
        }
        let lies =
            kills.iter().filter_map(|kill| lie(*rule, kill).map(|why| format!("{}: {kill}: {why}", rule.mutant())));
        wrong.extend(lies);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is not true of it.
fn lie(rule: Rule, kill: &Kill) -> Option<String> {
    match *kill {
        Kill::Storm { first, last, property } => {
            (!(first..=last).any(|seed| breaks(rule, seed, property))).then(|| format!("no seed breaks `{property}`"))
        }
        // `sim_scripts.rs` runs it.
        Kill::Script { text, .. } => match text.parse::<Script>() {
            Ok(script) if script.options.mutant == Some(rule) && script.expect.is_some() => None,
            Ok(_) => Some("it is about another rule".into()),
            Err(error) => Some(error.to_string()),
        },
        Kill::Test { file, name } => {
            let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).ok()?;
            let Some((before, after)) = text.split_once(&format!("\nfn {name}(")) else {
                return Some("there is no such test".into());
            };
            // What stands between it and what comes before.
            let attributes: Vec<_> = before.lines().rev().take_while(|line| line.starts_with(['#', '/'])).collect();
            let is_test = attributes.contains(&"#[test]") && !attributes.iter().any(|line| line.contains("ignore"));
            let body = after.split_once("\n}\n").map_or(after, |(body, _)| body);
            let named = body.contains(&format!("Rule::{rule:?}"));
            (!is_test || !named).then(|| format!("run by cargo test: {is_test}; about this rule: {named}"))
        }
        Kill::Covered { by } => (by == rule || kills(by).iter().any(|kill| matches!(kill, Kill::Covered { .. })))
            .then(|| "by nothing that is shown to be needed itself".into()),
    }
}

fn breaks(rule: Rule, seed: u64, property: &str) -> bool {
    let options = Options { only: Some(property.to_owned()), ..Options::from_seed(seed).with_mutant(rule) };
    let run = catch_unwind(AssertUnwindSafe(|| Cluster::new(options).run()));
    run.is_ok_and(|report| report.violation.is_some_and(|violation| violation.property == property))
}

/// Every script of a mutant stands in the table.
#[test]
fn no_script_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let known: BTreeSet<_> = Rule::ALL
        .iter()
        .flat_map(|rule| kills(*rule))
        .collect::<Vec<_>>()
        .into_iter()
        .filter_map(|kill| match kill {
            Kill::Script { name, .. } => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    let mut there = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("scripts") {
        let path = entry.expect("a file").path();
        let script: Script = fs::read_to_string(&path).expect("it reads").parse().expect("a script");
        if script.options.mutant.is_some() {
            there.insert(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    assert_eq!(known, there);
}
