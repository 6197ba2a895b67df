//! One tenant's poison in whole simulated clusters.

use serde_json::json;
use shard_core::sim::{Poison, Toll};

use super::Told;

/// The clusters, and how many of them.
#[derive(clap::Args, Debug)]
pub(super) struct Clusters {
    /// Nodes that host tenants; three more vote and call.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=60))]
    hosts: u16,
    /// Nodes in a tenant's hand, and shards of each tenant.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=15))]
    hand: u32,
    /// Tenants, the poisoned one among them.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..=400))]
    tenants: u32,
    /// How many clusters, each from one seed.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
}

/// Beyond so many standard errors, the calculator and the clusters disagree.
const ERRORS_MAX: f64 = 4.0;

/// Runs them, and whether everything came as dealt and calculated.
pub(super) fn poison(clusters: &Clusters) -> Result<(Told, bool), String> {
    let Clusters { hosts, hand, tenants, seeds, from } = *clusters;
    let hosts = usize::from(hosts);
    if hand as usize > hosts {
        return Err(format!("a hand of {hand} nodes is more than the {hosts} there are"));
    }
    let Some(end) = from.checked_add(seeds).filter(|_| seeds > 0) else {
        return Err("one cluster is the least that shows anything, and seeds end before 2^64".into());
    };
    let (mut toll, mut text, mut rows) = (Toll::default(), String::new(), Vec::new());
    let isolation = Poison { seed: from, hosts, hand, tenants }.isolation();
    for seed in from..end {
        let run = Poison { seed, hosts, hand, tenants }.run();
        text += &format!("{run}\n");
        rows.push(json!({
            "seed": seed, "killed": run.killed, "shared": run.shared, "unaffected": run.unaffected, "dead": run.dead,
            "wrong": run.wrong,
        }));
        toll.add(&run);
    }
    let (law, others) = (isolation.overlap(), toll.others());
    text += &format!("{:>12} {:>10} {:>12} {:>12}\n", "nodes lost", "tenants", "share", "calculated");
    for (lost, (seen, expected)) in toll.shared.iter().zip(law.iter()).enumerate() {
        text += &format!("{lost:>12} {seen:>10} {:>12.6} {expected:>12.6}\n", *seen as f64 / others as f64);
    }
    let off = toll.deviation_squared(&isolation).sqrt();
    let share = toll.unaffected as f64 / others as f64;
    text += &format!("fully unaffected: {share:.4} of {others} other tenants, calculated {:.4}, ", law[0]);
    text += &format!("{off:.2} standard errors off (at most {ERRORS_MAX})\n");
    let right = toll.wrong == 0 && off <= ERRORS_MAX;
    text += if right { "every hand died alone, as dealt\n" } else { "NOT AS DEALT OR CALCULATED\n" };
    let object = json!({
        "hosts": hosts, "hand": hand, "tenants": tenants, "runs": rows, "shared": toll.shared, "calculated": &*law,
        "unaffected": toll.unaffected, "others": others, "standard_errors": off, "wrong": toll.wrong,
        "verdict": if right { "ok" } else { "failed" },
    });
    Ok(((text, object), right))
}
