//! The stream: rows enter in the file's order, as fast as they settle or as the pace allows, and each is kept until its
//! fate is known.

use std::time::{Duration, Instant};

use super::accounts::{Accounts, Fate};
use super::changes::{Changes, TRICKLE};
use super::cluster::{Answer, Cluster, Phase};
use super::csv::Table;
use super::entity::Row;
use super::pace::Pace;
use super::plan::{Entrances, Entry};
use super::progress::Progress;

/// How long the stream waits for something to happen before it looks at its clock.
const TICK: Duration = Duration::from_millis(10);
/// How long no row may settle before the stream is given up: longer than the deadline of a row's question.
const STALL_LIMIT: Duration = Duration::from_secs(120);

/// A stream of one table's rows.
pub(crate) struct Stream<'a> {
    table: &'a Table,
    speed: Option<u32>,
    pace: Pace,
    entrances: Entrances,
    changes: Changes,
    sent: usize,
    /// The fates so far.
    pub(crate) accounts: Accounts,
}

impl<'a> Stream<'a> {
    /// The stream of `table` into `nodes` nodes, at most `speed` rows per second.
    pub(crate) fn new(table: &'a Table, nodes: usize, speed: Option<u32>, kill: bool) -> Self {
        Self {
            table,
            speed,
            pace: Pace::new(speed, Instant::now()),
            entrances: Entrances::new(table.tails.len(), nodes),
            changes: Changes::of(table.rows.len(), kill),
            sent: 0,
            accounts: Accounts::new(table.rows.len()),
        }
    }

    /// Runs until every row is settled and every change of the cluster is done, or nothing moves any more. How long it
    /// took.
    pub(crate) async fn run(&mut self, cluster: &mut Cluster, progress: &mut Progress) -> Duration {
        let began = Instant::now();
        let mut last_progress = began;
        let rows = self.table.rows.len();
        loop {
            self.changes.step(self.sent, cluster, progress);
            if !self.changes.recovering() {
                self.entrances.release();
            }
            self.send(cluster);
            if self.accounts.settled() == rows && self.changes.done() {
                break;
            }
            for answer in cluster.hear(TICK).await {
                last_progress = Instant::now();
                self.take(answer, cluster);
            }
            if last_progress.elapsed() > STALL_LIMIT {
                self.give_up(cluster);
                break;
            }
            progress.show(self.accounts.settled(), cluster);
        }
        progress.end();
        began.elapsed()
    }

    fn send(&mut self, cluster: &mut Cluster) {
        let now = Instant::now();
        let slow = self.changes.under_way().then_some(self.speed.map_or(TRICKLE, |speed| speed.min(TRICKLE)));
        self.pace.set(slow.or(self.speed), now);
        let open: Vec<_> = cluster.members.iter().map(|member| member.phase == Phase::Serving).collect();
        let limit = self.changes.limit();
        while self.sent < limit {
            let row = &self.table.rows[self.sent];
            let Entry::At(node) = self.entrances.next(row.aircraft, &open) else { return };
            if !cluster.has_room(node) || !self.pace.take(now) {
                return;
            }
            let tail = &self.table.tails[row.aircraft];
            cluster.send_row(node, self.sent, tail, Row { number: row.number, flight: row.flight.clone() });
            self.entrances.entered(row.aircraft, node);
            self.sent += 1;
        }
    }

    fn take(&mut self, answer: Answer, cluster: &Cluster) {
        if let Answer::Fate(row, fate) = answer
            && self.accounts.settle(row, fate)
        {
            let aircraft = self.table.rows[row].aircraft;
            self.entrances.settled(aircraft);
            if cluster.members[self.entrances.node(aircraft)].phase == Phase::Dead {
                self.entrances.hold(aircraft);
            }
        }
    }

    /// Rows that were never sent are known not to have run. Those that were have no fate, and are counted so.
    fn give_up(&mut self, cluster: &mut Cluster) {
        let open = self.sent - self.accounts.settled();
        cluster.problems.push(format!("no row settled for {STALL_LIMIT:?}: {open} were under way"));
        for row in self.sent..self.table.rows.len() {
            self.accounts.settle(row, Fate::Unsent("the stream was given up before it".to_owned()));
        }
    }
}
