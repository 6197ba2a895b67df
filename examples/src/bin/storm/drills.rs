//! What one fault costs a cluster at rest with the default times, and how many shards one change moves.

use std::fmt;

use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Drill, Gaps, Options, Report};

use crate::Args;

/// What all drills found.
#[derive(Default)]
pub(crate) struct Drills {
    pub(crate) runs: u64,
    pub(crate) nodes: usize,
    pub(crate) gaps: Gaps,
    /// Per kind of change: moves, and the least that were needed.
    pub(crate) moves: Vec<(&'static str, u64, u64)>,
    pub(crate) bad: Vec<Report>,
}

/// One drill.
pub(crate) fn options(args: &Args, drill: Drill, seed: u64, mutant: Option<Rule>) -> Options {
    let mut options = Options::drill(drill, seed, nodes(args));
    if args.guard {
        options = options.with_guard();
    }
    options.mutant = mutant;
    options.only.clone_from(&args.only);
    options
}

fn nodes(args: &Args) -> usize {
    args.nodes.map_or(5, |nodes| nodes as usize)
}

/// So many runs of each drill.
pub(crate) fn run(args: &Args) -> Drills {
    let mut drills = Drills { nodes: nodes(args), ..Drills::default() };
    for drill in Drill::ALL {
        let (mut moves, mut minimum) = (0, 0);
        for seed in args.from..args.from + args.drills {
            let report = Cluster::new(options(args, drill, seed, None)).run();
            drills.runs += 1;
            drills.gaps.add(&report.gaps);
            if let Some(rebalance) = report.rebalance {
                moves += rebalance.moves;
                minimum += rebalance.minimum;
            }
            if report.violation.is_some() {
                drills.bad.push(report);
            }
        }
        if matches!(drill, Drill::Join | Drill::Leave | Drill::CoordinatorLeave | Drill::Crash) {
            drills.moves.push((drill.name(), moves, minimum));
        }
    }
    drills
}

impl fmt::Display for Drills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in &self.bad {
            writeln!(f, "{report}\n")?;
        }
        writeln!(f, "{} drills: one fault to a cluster of {} at rest, default times", self.runs, self.nodes)?;
        write!(f, "{}", self.gaps)?;
        for (name, moves, minimum) in &self.moves {
            let ratio = *moves as f64 / (*minimum).max(1) as f64;
            writeln!(f, "moves after {name:<18} {moves:>6}, at least {minimum:>6}: {ratio:.2}")?;
        }
        Ok(())
    }
}
