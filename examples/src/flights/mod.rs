//! The main job: a month of real flights runs through a cluster of real processes.
//!
//! `cargo run --release -p examples --bin flights` starts node processes on loopback (the program runs itself again for
//! each), streams a file of flights through them, lets one node join and one leave in mid-stream, and then asks every
//! aircraft what it saw. One entity per aircraft folds its rows; a plain fold of the file says what it must have seen.
//!
//! ```text
//!   mod       the command line
//!   parent    drives the run                                            child    one node process
//!   stream, changes, collect   its phases; progress                     entity   an aircraft
//!   cluster   the nodes as the parent knows them; fleet: the processes  shelf    where planned stops put its state
//!      └────────────── protocol: one line of JSON per order or word ──────────┘
//!   plan, pace                     who enters where, who joins, leaves, dies, and when
//!   csv, rejects                   rows and what is wrong with others
//!   fold, numbers, logbook         what an aircraft remembers: pure, the same for entity and reference
//!   accounts, grants, report       the fate of every row, of every shard, and the verdict; notes: what else happened
//! ```
//! Two questions keep the verdict honest. *Did the row count?* Every row carries its number within the aircraft, and the
//! aircraft says which numbers it has. *Did it count in order, once?* The digest depends on the order of what was folded.

mod accounts;
mod changes;

mod child;
mod cluster;
mod collect;
mod csv;
mod entity;
mod fleet;
mod fold;
mod grants;
mod logbook;
mod notes;
mod numbers;
mod pace;
mod parent;
mod plan;
mod progress;
mod protocol;
mod rejects;
mod report;
mod shelf;
mod stream;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::{Deserialize, Serialize};
use shard_core::allocation::{self, AllocationStrategy};

/// Runs the program with the process's own arguments. The exit code is 0 for the verdicts `ok` and `accounted`, 1 for
/// `failed`, 2 for arguments or a file that cannot be read, and 128 and the signal's number for a run that a signal ended.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Node) => child::run(),
        None => parent::run(&cli.options),
    }
}

/// A month of real flights through a cluster of processes, every row accounted for.
#[derive(Parser)]
#[command(name = "flights", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Command {
    /// One node, driven over stdin and stdout.
    #[command(hide = true)]
    Node,
}

#[derive(clap::Args, Clone, Debug)]
struct Options {
    /// Flights to stream, with the columns of the shipped file [default: examples/data/flights-2013-01.csv]
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Node processes at the start; one more joins in mid-stream
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=32))]
    nodes: u16,
    /// Shards that the aircraft are spread over
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    shards: u32,
    /// How shards are placed on nodes
    #[arg(long, value_enum, default_value_t = Strategy::LeastShard)]
    strategy: Strategy,
    /// Rows per second at most [default: as fast as they settle]
    #[arg(long, value_name = "ROWS_PER_S", value_parser = clap::value_parser!(u32).range(1..))]
    speed: Option<u32>,
    /// Kill one node process (SIGKILL) in mid-stream and account for what that cost
    #[arg(long)]
    kill: bool,
    /// Print the outcome as one JSON object on the last line of stdout
    #[arg(long)]
    json: bool,
}

impl Options {
    /// The file to stream: the one named, or else the shipped one, wherever the program is started.
    fn file(&self) -> PathBuf {
        let shipped = || {
            let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/flights-2013-01.csv");
            if built.is_file() { built } else { PathBuf::from("examples/data/flights-2013-01.csv") }
        };
        self.file.clone().unwrap_or_else(shipped)
    }
}

/// How shards are placed.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Strategy {
    /// Shard modulo the number of nodes.
    Hash,
    /// The node with the fewest shards.
    LeastShard,
}

impl Strategy {
    /// The strategy itself, as every node uses it.
    fn rule(self) -> Box<dyn AllocationStrategy> {
        match self {
            Self::Hash => Box::new(allocation::Hash),
            Self::LeastShard => Box::new(allocation::LeastShard::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_have_the_documented_defaults() {
        let options = Cli::parse_from(["flights"]).options;
        assert_eq!((options.nodes, options.shards, options.strategy), (3, 64, Strategy::LeastShard));
        assert!(options.speed.is_none() && !options.kill && !options.json);
        assert!(options.file().is_file(), "the shipped file is found");
    }

    #[test]
    fn strategies_are_spelt_as_documented() {
        let parsed = |text| Cli::try_parse_from(["flights", "--strategy", text]).map(|cli| cli.options.strategy);
        assert_eq!(parsed("hash").ok(), Some(Strategy::Hash));
        assert_eq!(parsed("least-shard").ok(), Some(Strategy::LeastShard));
        assert!(parsed("random").is_err());
    }

    #[test]
    fn a_cluster_of_no_nodes_and_a_speed_of_nothing_are_refused() {
        assert!(Cli::try_parse_from(["flights", "--nodes", "0"]).is_err());
        assert!(Cli::try_parse_from(["flights", "--speed", "0"]).is_err());
    }
}
