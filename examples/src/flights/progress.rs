//! What is to be seen while the stream runs: a bar on a terminal, plain lines elsewhere. All of it goes to stderr.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::cluster::{Cluster, id};

/// How often the figures are worked out anew.
const REFRESH: Duration = Duration::from_millis(200);
/// How often a plain line is written.
const LINE: Duration = Duration::from_secs(2);

/// The view of a stream.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    rows: usize,
    refreshed: Instant,
    written: Instant,
    settled: usize,
    rate: f64,
}

impl Progress {
    /// The view of a stream of `rows` rows.
    pub(crate) fn new(rows: usize) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30.cyan/blue} {pos}/{len} {elapsed} {msg}");
            ProgressBar::new(rows as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let now = Instant::now();
        Self { bar, rows, refreshed: now, written: now, settled: 0, rate: 0.0 }
    }

    /// Shows that `settled` rows are settled, and how the cluster stands.
    pub(crate) fn show(&mut self, settled: usize, cluster: &Cluster) {
        let elapsed = self.refreshed.elapsed();
        if elapsed < REFRESH {
            return;
        }
        self.rate = (settled - self.settled) as f64 / elapsed.as_secs_f64();
        (self.settled, self.refreshed) = (settled, Instant::now());
        let text = standing(self.rate, cluster);
        match &self.bar {
            Some(bar) => {
                bar.set_position(settled as u64);
                bar.set_message(text);
            }
            None if self.written.elapsed() >= LINE => {
                self.written = Instant::now();
                eprintln!("{settled}/{} {text}", self.rows);
            }
            None => {}
        }
    }

    /// Tells of one event, above the bar.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn standing(rate: f64, cluster: &Cluster) -> String {
    let live = cluster.members.iter().enumerate().filter(|(_, member)| member.is_live());
    let owned: Vec<_> = live.map(|(node, member)| format!("n{}:{}", id(node), member.status.owned)).collect();
    let moves = cluster.grants.moved();
    format!("{rate:.0} rows/s | {} nodes live | shards {} | {moves} moves", owned.len(), owned.join(" "))
}
