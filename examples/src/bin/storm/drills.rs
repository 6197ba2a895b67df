//! What one fault costs a cluster at rest with the default times, and how many shards one change moves.

use std::fmt;

use shard_core::machine::Rule;
use shard_core::sim::{Cluster, Counters, Drill, Gaps, Options, Report};

use crate::Args;

/// What all drills found.
#[derive(Default)]
pub(crate) struct Drills {
    pub(crate) runs: u64,
    pub(crate) nodes: usize,
    pub(crate) gaps: Gaps,
    /// Per kind of change: moves, and the least that were needed.
    pub(crate) moves: Vec<(&'static str, u64, u64)>,
    /// Per kind of fault: messages, and of how many the sender was told that they did not run, or that they may have.
    pub(crate) fates: Vec<(&'static str, [u64; 3])>,
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
        let mut fates = [0; 3];
        for seed in args.from..args.from + args.drills {
            let report = Cluster::new(options(args, drill, seed, None)).run();
            drills.runs += 1;
            drills.gaps.add(&report.gaps);
            let Counters { messages, not_run, in_doubt, .. } = report.counters;
            fates.iter_mut().zip([messages, not_run, in_doubt]).for_each(|(sum, more)| *sum += more);
            if let Some(rebalance) = report.rebalance {
                moves += rebalance.moves;
                minimum += rebalance.minimum;
            }
            if report.violation.is_some() {
                drills.bad.push(report);
            }
        }
        drills.fates.push((drill.name(), fates));
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
        for (name, [messages, not_run, in_doubt]) in &self.fates {
            writeln!(f, "mail during {name:<18} {messages:>8} messages, {not_run:>6} not run, {in_doubt:>6} in doubt")?;
        }
        for (name, moves, minimum) in &self.moves {
            let ratio = *moves as f64 / (*minimum).max(1) as f64;
            writeln!(f, "moves after {name:<18} {moves:>6}, at least {minimum:>6}: {ratio:.2}")?;
        }
        Ok(())
    }
}
