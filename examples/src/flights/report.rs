//! How the run came out, for people and for programs.

use std::fmt::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::accounts::{AircraftReport, Balance};
use super::csv::Table;
use super::notes::{Notes, Tally};
use super::rejects;

/// How many aircraft count as the busiest.
const BUSIEST: usize = 10;

/// Everything the report is made of.
pub(crate) struct Outcome<'a> {
    /// The input.
    pub(crate) table: &'a Table,
    /// What every aircraft said, by its place in the table.
    pub(crate) reports: Vec<Option<AircraftReport>>,
    /// The accounts, closed.
    pub(crate) balance: Balance,
    /// How often a shard moved.
    pub(crate) moved_shards: usize,
    /// How many nodes the cluster began with.
    pub(crate) nodes: usize,
    /// How long the stream took.
    pub(crate) took: Duration,
    /// Whether a node was to be killed.
    pub(crate) kill: bool,
    /// What happened to the cluster.
    pub(crate) notes: Notes,
    /// What went wrong with it.
    pub(crate) problems: Vec<String>,
}

/// The verdict on a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// Every aircraft is what a plain fold of the file makes of it.
    Ok,
    /// A node was killed, and every row is accounted for.
    Accounted,
    /// Anything else.
    Failed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Accounted => "accounted",
            Self::Failed => "failed",
        })
    }
}

/// The outcome as programs read it. The names and their order are a promise.
#[derive(Serialize)]
struct Summary {
    rows: usize,
    rejected: usize,
    delivered: u64,
    lost: u64,
    lost_state: u64,
    in_doubt: u64,
    unsent: u64,
    silent: u64,
    duplicated: u64,
    reordered: u64,
    moved_shards: usize,
    nodes: usize,
    seconds: f64,
    rows_per_second: f64,
    verdict: Verdict,
}

impl Outcome<'_> {
    /// The verdict: without a kill nothing may be missing; with one, nothing may be missing unexplained.
    pub(crate) fn verdict(&self) -> Verdict {
        let explained = self.balance.is_explained() && self.problems.is_empty();
        match (explained, self.kill) {
            (true, true) => Verdict::Accounted,
            (true, false) if self.balance.lost() == 0 => Verdict::Ok,
            _ => Verdict::Failed,
        }
    }

    /// One JSON object on one line.
    pub(crate) fn json(&self) -> String {
        let rows = self.table.rows.len();
        let seconds = self.took.as_secs_f64();
        let rate = if seconds > 0.0 { rows as f64 / seconds } else { 0.0 };
        let balance = &self.balance;
        let summary = Summary {
            rows,
            rejected: self.table.rejects.len(),
            delivered: balance.delivered,
            lost: balance.lost(),
            lost_state: balance.lost_state,
            in_doubt: balance.in_doubt,
            unsent: balance.unsent,
            silent: balance.silent,
            duplicated: balance.duplicated,
            reordered: balance.reordered,
            moved_shards: self.moved_shards,
            nodes: self.nodes,
            seconds: (seconds * 1_000.0).round() / 1_000.0,
            rows_per_second: rate.round(),
            verdict: self.verdict(),
        };
        serde_json::to_string(&summary).expect("numbers and a word")
    }

    /// The whole report, in lines.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a String takes everything");
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        rejects::write(out, self.table)?;
        self.busiest(out)?;
        self.totals(out)?;
        self.happenings(out)?;
        self.losses(out)?;
        list(out, "differences", &self.balance.differences)?;
        list(out, "problems", &self.problems)?;
        let Balance { delivered, duplicated, reordered, .. } = self.balance;
        let lost = self.balance.lost();
        let (verdict, moved) = (self.verdict(), self.moved_shards);
        writeln!(out, "\n{delivered} of {} rows delivered, {moved} shards moved", self.table.rows.len())?;
        writeln!(out, "verdict: {verdict} ({lost} lost, {duplicated} duplicated, {reordered} reordered)")
    }

    /// Changes and lapses first, all of them: what strangers cause cannot push them out.
    fn happenings(&self, out: &mut String) -> fmt::Result {
        let Notes { changes, lapses, refusals, troubles } = &self.notes;
        let lapses = lapses.iter().map(|(node, times)| {
            let often = if *times > 1 { format!(" {times} times") } else { String::new() };
            format!("node {node}: its session lapsed{often}, and what its aircraft had in memory went")
        });
        list(out, "in the cluster", &changes.iter().cloned().chain(lapses).collect::<Vec<_>>())?;
        counts(out, "troubles", troubles)?;
        counts(out, "connections dropped because of what came over them", refusals)
    }

    fn busiest(&self, out: &mut String) -> fmt::Result {
        let known = self.table.tails.iter().zip(&self.reports);
        let mut known: Vec<_> = known.filter_map(|(tail, report)| Some((tail, report.as_ref()?))).collect();
        if known.is_empty() {
            return Ok(());
        }
        known.sort_by(|(a, x), (b, y)| y.logbook.fold.flights.cmp(&x.logbook.fold.flights).then_with(|| a.cmp(b)));
        writeln!(out, "\nten busiest aircraft")?;
        writeln!(
            out,
            "{:<10} {:>7} {:>9} {:>9} {:>8} {:>9}  {:<5} {:>4}  digest",
            "tail", "flights", "cancelled", "miles", "minutes", "delay min", "last", "node"
        )?;
        for (tail, report) in known.into_iter().take(BUSIEST) {
            let fold = &report.logbook.fold;
            writeln!(
                out,
                "{tail:<10} {:>7} {:>9} {:>9} {:>8} {:>9}  {:<5} {:>4}  {:016x}",
                fold.flights,
                fold.cancelled,
                fold.miles,
                fold.air_minutes,
                fold.arrival_delay,
                fold.last_destination,
                report.node,
                fold.digest
            )?;
        }
        Ok(())
    }

    fn totals(&self, out: &mut String) -> fmt::Result {
        let folds = || self.reports.iter().flatten().map(|report| &report.logbook.fold);
        let aircraft = folds().count();
        let flights: u64 = folds().map(|fold| fold.flights).sum();
        let cancelled: u64 = folds().map(|fold| fold.cancelled).sum();
        let miles: u64 = folds().map(|fold| fold.miles).sum();
        let minutes: u64 = folds().map(|fold| fold.air_minutes).sum();
        let delay: i64 = folds().map(|fold| fold.arrival_delay).sum();
        writeln!(
            out,
            "\ntotals: {aircraft} aircraft, {flights} flights, {cancelled} cancelled, {miles} miles, {minutes} minutes in \
             the air, {delay} minutes of arrival delay"
        )
    }

    fn losses(&self, out: &mut String) -> fmt::Result {
        let balance = &self.balance;
        if balance.lost() == 0 {
            return Ok(());
        }
        let Balance { lost_state, in_doubt, unsent, silent, .. } = balance;
        writeln!(
            out,
            "\nmissing rows: {lost_state} lost with in-memory state, {in_doubt} in doubt, {unsent} unsent, {silent} silent"
        )?;
        for (reason, rows) in &balance.reasons {
            writeln!(out, "  {rows} {reason}")?;
        }
        if balance.bereft.is_empty() {
            return Ok(());
        }
        writeln!(out, "aircraft that lost in-memory state ({}), with the rows each lost:", balance.bereft.len())?;
        for chunk in balance.bereft.iter().collect::<Vec<_>>().chunks(8) {
            let line: Vec<_> = chunk.iter().map(|(tail, rows)| format!("{tail} {rows}")).collect();
            writeln!(out, "  {}", line.join(", "))?;
        }
        Ok(())
    }
}

fn list(out: &mut String, title: &str, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}:")?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

fn counts(out: &mut String, title: &str, tally: &Tally) -> fmt::Result {
    if tally.total() == 0 {
        return Ok(());
    }
    writeln!(out, "\n{title}: {}", tally.total())?;
    tally.list().iter().try_for_each(|(cause, times)| writeln!(out, "  {times:>7} {cause}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::flights::csv::{Reject, Row, Why};
    use crate::flights::fold::sample;
    use crate::flights::logbook::Logbook;

    fn table() -> Table {
        let row = |number| Row { line: 2, aircraft: 0, number, flight: sample(number) };
        let rejects = vec![
            Reject { line: 4, why: Why::NoTail },
            Reject { line: 5, why: Why::NoTail },
            Reject { line: 9, why: Why::MissingColumn("dest") },
        ];
        Table { rows: vec![row(1), row(2)], tails: vec!["N1".into()], rejects, ..Table::default() }
    }

    fn outcome(table: &Table, balance: Balance, kill: bool) -> Outcome<'_> {
        let mut logbook = Logbook::default();
        logbook.take(1, &sample(1));
        Outcome {
            table,
            reports: vec![Some(AircraftReport { logbook, node: 2 })],
            balance,
            moved_shards: 5,
            nodes: 3,
            took: Duration::from_millis(500),
            kill,
            notes: Notes { changes: vec!["node 4 joined".into()], ..Notes::default() },
            problems: vec![],
        }
    }

    fn whole() -> Balance {
        Balance { delivered: 2, ..Balance::default() }
    }

    fn maimed() -> Balance {
        Balance { delivered: 1, lost_state: 1, bereft: BTreeMap::from([("N1".to_owned(), 1)]), ..Balance::default() }
    }

    #[test]
    fn the_json_line_has_exactly_the_promised_keys() {
        let table = table();
        let line = outcome(&table, whole(), false).json();
        assert_eq!(
            line,
            "{\"rows\":2,\"rejected\":3,\"delivered\":2,\"lost\":0,\"lost_state\":0,\"in_doubt\":0,\"unsent\":0,\"silent\":0,\
             \"duplicated\":0,\"reordered\":0,\"moved_shards\":5,\"nodes\":3,\"seconds\":0.5,\"rows_per_second\":4.0,\
             \"verdict\":\"ok\"}"
        );
    }

    #[test]
    fn a_loss_fails_a_run_without_a_kill_and_is_accounted_for_in_one_with() {
        let table = table();
        assert_eq!(outcome(&table, maimed(), false).verdict(), Verdict::Failed);
        assert_eq!(outcome(&table, maimed(), true).verdict(), Verdict::Accounted);
        assert_eq!(outcome(&table, whole(), true).verdict(), Verdict::Accounted);
    }

    #[test]
    fn silence_repetition_disorder_and_problems_fail_every_run() {
        let table = table();
        for balance in [
            Balance { silent: 1, ..whole() },
            Balance { duplicated: 1, ..whole() },
            Balance { reordered: 1, ..whole() },
            Balance { differences: vec!["N1".into()], ..whole() },
        ] {
            for kill in [false, true] {
                assert_eq!(outcome(&table, balance.clone(), kill).verdict(), Verdict::Failed, "{balance:?}");
            }
        }
        let problem = Outcome { problems: vec!["node 2 died".into()], ..outcome(&table, whole(), true) };
        assert_eq!(problem.verdict(), Verdict::Failed);
    }

    #[test]
    fn the_report_names_rejects_losses_and_changes() {
        let table = table();
        let text = outcome(&table, maimed(), true).text();
        for part in [
            "2 rows: no tail number\n    lines 4-5\n",
            "line 9: column `dest` is missing",
            "node 4 joined",
            "1 lost with in-memory state",
            "  N1 1\n",
            "totals: 1 aircraft, 1 flights",
            "verdict: accounted (1 lost, 0 duplicated, 0 reordered)",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }

    #[test]
    fn a_flood_of_refused_connections_hides_neither_changes_nor_lapses() {
        let table = table();
        let mut flooded = outcome(&table, whole(), false);
        for at in 0..100_000 {
            flooded.notes.refusals.add(&format!("node 1: a frame of {at} bytes"), 1);
            flooded.notes.refusals.add("node 2: closed before it introduced itself", 1);
        }
        flooded.notes.changes.push("node 3 left".into());
        flooded.notes.lapsed(2, 1);
        flooded.notes.lapsed(5, 3);
        let text = flooded.text();
        for part in [
            "  node 4 joined\n  node 3 left\n",
            "  node 2: its session lapsed, and",
            "  node 5: its session lapsed 3 times, and",
            "came over them: 200000\n   100000 node 2: closed before it introduced itself\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(text.lines().count() < 50, "{text}");
    }

    #[test]
    fn every_difference_is_named() {
        let table = table();
        let differences: Vec<_> = (0..200).map(|at| format!("N{at} row 1: gone")).collect();
        let text = outcome(&table, Balance { differences: differences.clone(), ..whole() }, false).text();
        assert!(differences.iter().all(|difference| text.contains(difference)), "{text}");
    }
}
