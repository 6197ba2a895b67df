//! Scripts: for each, the mutant that it names breaks the property that it expects, and the protocol as it is keeps all.
#![cfg(feature = "sim")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use shard_core::sim::{Cluster, Options, PROPERTIES, Report, Script};

#[test]
fn every_script_kills_its_mutant_and_spares_the_protocol() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = fs::read_dir(folder).expect("scripts").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    let mut wrong = Vec::new();
    for path in &paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a script reads");
        let script: Script = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        if script.remarks.is_empty() {
            wrong.push(format!("{name}: it does not say what happens"));
        }
        let seeds = || script.options.seed..script.options.seed + script.tries;
        let Some(mutant) = script.options.mutant else {
            // What once went wrong in the protocol itself, and may not again.
            let reports = seeds().map(|seed| Cluster::new(Options { seed, ..script.options.clone() }).run());
            let failed = reports.filter(|report| report.violation.is_some());
            wrong.extend(failed.map(|report| format!("{name}: the protocol itself fails\n{report}")));
            continue;
        };
        if !name.starts_with(mutant.mutant()) {
            wrong.push(format!("{name}: it is for {}", mutant.mutant()));
        }
        let expect = script.expect.as_deref().unwrap_or_else(|| panic!("{name}: it expects nothing"));
        let killed = seeds().find(|seed| breaks(&script, *seed, expect));
        let Some(killer) = killed else {
            wrong.push(format!("{name}: no seed of {:?} breaks `{expect}` any more", seeds()));
            continue;
        };
        let sound = Options { mutant: None, seed: killer, ..script.options.clone() };
        let report = Cluster::new(sound).run();
        if report.violation.is_some() {
            wrong.push(format!("{name}: the protocol itself fails\n{report}"));
        }
    }
    assert!(paths.len() >= 10, "the scripts were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the run breaks that property, or trips the assertion that the script names. Another one is no kill.
fn breaks(script: &Script, seed: u64, expect: &str) -> bool {
    let options = Options { seed, only: Some(expect.to_owned()), ..script.options.clone() };
    let run: Result<Report, _> = catch_unwind(AssertUnwindSafe(|| Cluster::new(options).run()));
    match run {
        Ok(report) => report.violation.is_some_and(|violation| violation.property == expect),
        Err(said) => {
            let said =
                said.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| said.downcast_ref().cloned());
            said.is_some() && said == script.assertion
        }
    }
}

/// Whoever names a property to look for gets it, and whoever reads the page finds it.
#[test]
fn every_property_stands_in_the_list_and_on_the_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sim");
    let page = fs::read_to_string(folder.join("mod.rs")).expect("the page");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("sources") {
        let path = entry.expect("a file").path();
        if !path.is_file() {
            continue;
        }
        let text = fs::read_to_string(path).expect("it reads");
        for begin in ["violated(", "Err((", "Some((", "| ("] {
            let names =
                text.split(begin).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
            found.extend(names.map(ToOwned::to_owned));
        }
    }
    assert_eq!(found, PROPERTIES.iter().map(|name| (*name).to_owned()).collect());
    let silent: Vec<_> = PROPERTIES.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(silent.is_empty(), "not on the page: {silent:?}");
}
