//! Other systems' rules beside ours, on the same seeds.

use std::process::ExitCode;

use serde_json::json;
use shard_core::sim::Protocol;

use crate::{Args, campaign, options, unknown};

/// Counts, for each of the rules asked for and for ours, the runs in which a shard had two live owners. Success: ours had
/// none.
pub(crate) fn compare(args: &Args, name: &str) -> Result<ExitCode, String> {
    let asked = Protocol::by_name(name);
    if asked.is_none() && name != "all" {
        let names = Protocol::ALL.iter().map(|protocol| protocol.name()).chain(["all"]);
        return Err(unknown("set of rules", name, &names.collect::<Vec<_>>()));
    }
    // Rules that are off trip assertions of the machines; what they say would fill the screen.
    std::panic::set_hook(Box::new(|_| {}));
    println!("{:<16} {:>8} {:>18} {:>8}", "rules", "runs", "with two owners", "share");
    let (mut rows, mut ours) = (Vec::new(), 0);
    let wanted =
        |protocol: &&Protocol| asked.is_none_or(|asked| **protocol == asked || **protocol == Protocol::SingleOwner);
    for protocol in Protocol::ALL.iter().filter(wanted) {
        let sum = campaign::sweep_with(args, usize::MAX, false, |seed| {
            let mut options = options(args, seed, None).with_protocol(*protocol);
            // The run goes on until there are two owners of one shard, whatever else is broken on the way.
            options.only = Some("double-owner".into());
            options
        });
        let (bad, runs) = (sum.bad.len() as u64, sum.runs);
        if *protocol == Protocol::SingleOwner {
            ours = bad;
        }
        let share = 100.0 * bad as f64 / runs.max(1) as f64;
        println!("{:<16} {runs:>8} {bad:>18} {share:>7.1}%", protocol.name());
        let first = sum.bad.first().map(|report| report.seed);
        rows.push(json!({ "rules": protocol.name(), "runs": runs, "double_owner_runs": bad, "first_seed": first }));
    }
    if args.json {
        println!("{}", json!({ "protocols": rows }));
    }
    Ok(if ours == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
