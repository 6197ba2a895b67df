//! The fate of every row, and what the cluster must answer for.
//!
//! While the stream runs, each row's fate is what the node it entered at said of it. At the end every aircraft says which
//! rows it has. Laid side by side, every accepted row is in exactly one place:
//!
//! | in the final state? | fate | counted as |
//! |---|---|---|
//! | yes | any | delivered |
//! | no | handled in a life that died with its node | lost_state |
//! | no | may have run | in_doubt |
//! | no | did not run, and the sender was told why | unsent |
//! | no | handled in a life that is part of the final state, or none at all | **silent** |
//!
//! A row in the final state that was also handled in a life that is no part of it ran twice.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use shard_core::entity::Fence;

use super::csv::Table;
use super::fold::Fold;
use super::logbook::Logbook;
use super::numbers::Arrival;

/// What became of a row, by the word of the node it entered at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// A handler took it, on `node`, in the life `fence`.
    Delivered {
        /// Where.
        node: u64,
        /// In which of the aircraft's lives.
        fence: Fence,
        /// How it came, as the aircraft saw it.
        arrival: Arrival,
    },
    /// A handler may have taken it.
    InDoubt(String),
    /// No handler took it.
    Unsent(String),
}

/// The fates so far.
#[derive(Debug)]
pub(crate) struct Accounts {
    fates: Vec<Option<Fate>>,
    settled: usize,
}

impl Accounts {
    /// Accounts of `rows` rows, all without a fate.
    pub(crate) fn new(rows: usize) -> Self {
        Self { fates: vec![None; rows], settled: 0 }
    }

    /// Notes the fate of row `row`; the first word counts. Whether this was it.
    pub(crate) fn settle(&mut self, row: usize, fate: Fate) -> bool {
        let Some(place @ None) = self.fates.get_mut(row) else { return false };
        *place = Some(fate);
        self.settled += 1;
        true
    }

    /// How many rows have a fate.
    pub(crate) fn settled(&self) -> usize {
        self.settled
    }
}

/// What one aircraft says at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct AircraftReport {
    /// Everything it remembers.
    pub(crate) logbook: Logbook,
    /// The node it says so on.
    pub(crate) node: u64,
}

/// How the run came out. Counts are rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Balance {
    /// In the final states.
    pub(crate) delivered: u64,
    /// Handled, then lost with the memory of a node that died or lost its session.
    pub(crate) lost_state: u64,
    /// May have run; not in the final states.
    pub(crate) in_doubt: u64,
    /// Never ran, and the sender knows.
    pub(crate) unsent: u64,
    /// Gone without a word.
    pub(crate) silent: u64,
    /// Ran twice.
    pub(crate) duplicated: u64,
    /// Ran after a later row, or the digest says that something did.
    pub(crate) reordered: u64,
    /// Aircraft that lost state, with the number of rows each.
    pub(crate) bereft: BTreeMap<String, u64>,
    /// Why rows were unsent or in doubt, with the number of rows each.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// Everything that must not be, in words.
    pub(crate) differences: Vec<String>,
}

impl Balance {
    /// Accepted rows that are in no final state.
    pub(crate) fn lost(&self) -> u64 {
        self.lost_state + self.in_doubt + self.unsent + self.silent
    }

    /// Whether every row that is missing is explained, and none ran twice or out of order.
    pub(crate) fn is_explained(&self) -> bool {
        self.silent == 0 && self.duplicated == 0 && self.reordered == 0 && self.differences.is_empty()
    }
}

/// Lays the fates beside the aircraft's reports (one place per tail number). `dead` are the nodes that lost their memory:
/// they were killed, died or let their session lapse.
pub(crate) fn balance(
    table: &Table,
    accounts: &Accounts,
    reports: &[Option<AircraftReport>],
    dead: &BTreeSet<u64>,
) -> Balance {
    let mut rows_of: Vec<Vec<usize>> = vec![Vec::new(); table.tails.len()];
    for (at, row) in table.rows.iter().enumerate() {
        rows_of[row.aircraft].push(at);
    }
    let mut balance = Balance::default();
    for ((tail, rows), report) in table.tails.iter().zip(&rows_of).zip(reports) {
        let case = Case { tail, rows, table, fates: &accounts.fates, dead };
        match report {
            Some(report) => {
                case.place_rows(&report.logbook, &mut balance);
                case.check_order(&report.logbook, &mut balance);
            }
            None => {
                balance.differences.push(format!("{tail}: gave no report"));
                case.place_rows(&Logbook::default(), &mut balance);
            }
        }
    }
    balance
}

/// One aircraft's rows and what was said of them.
struct Case<'a> {
    tail: &'a str,
    /// Indices into the table, by number.
    rows: &'a [usize],
    table: &'a Table,
    fates: &'a [Option<Fate>],
    dead: &'a BTreeSet<u64>,
}

impl Case<'_> {
    fn place_rows(&self, logbook: &Logbook, balance: &mut Balance) {
        for (number, row) in (1u32..).zip(self.rows) {
            let fate = self.fates[*row].as_ref();
            if logbook.rows.contains(number) {
                balance.delivered += 1;
                self.check_single(number, fate, logbook, balance);
                continue;
            }
            match fate {
                Some(Fate::Delivered { node, fence, arrival }) if self.died(*node, *fence, logbook) => {
                    balance.lost_state += 1;
                    // The counters of that life died with it.
                    balance.duplicated += u64::from(*arrival == Arrival::Again);
                    balance.reordered += u64::from(*arrival == Arrival::Late);
                    *balance.bereft.entry(self.tail.to_owned()).or_default() += 1;
                }
                Some(Fate::InDoubt(why)) => {
                    balance.in_doubt += 1;
                    *balance.reasons.entry(format!("in doubt: {why}")).or_default() += 1;
                }
                Some(Fate::Unsent(why)) => {
                    balance.unsent += 1;
                    *balance.reasons.entry(format!("unsent: {why}")).or_default() += 1;
                }
                Some(Fate::Delivered { node, fence, .. }) => {
                    balance.silent += 1;
                    self.differ(balance, number, &format!("handled on node {node} under {}, then gone", fence.token));
                }
                None => {
                    balance.silent += 1;
                    self.differ(balance, number, "gone without a word");
                }
            }
        }
    }

    /// Whether the life `fence` ended with its node's memory: no state that came after it descends from it.
    fn died(&self, node: u64, fence: Fence, logbook: &Logbook) -> bool {
        self.dead.contains(&node) && !logbook.lives.contains(&fence)
    }

    /// A row in the final state must have run in one of its lives, and nowhere else.
    fn check_single(&self, number: u32, fate: Option<&Fate>, logbook: &Logbook, balance: &mut Balance) {
        match fate {
            Some(Fate::Delivered { node, fence, .. }) if !logbook.lives.contains(fence) => {
                balance.duplicated += 1;
                self.differ(balance, number, &format!("handled on node {node} in another life, and again"));
            }
            Some(Fate::Unsent(why)) => self.differ(balance, number, &format!("ran, though reported unsent: {why}")),
            Some(Fate::Delivered { .. } | Fate::InDoubt(_)) | None => {}
        }
    }

    /// Compares what the aircraft made of its rows with a plain fold of the same rows, in the file's order.
    fn check_order(&self, logbook: &Logbook, balance: &mut Balance) {
        let known = logbook.rows.iter().filter_map(|number| self.rows.get(number as usize - 1));
        let expected = Fold::of(known.map(|row| &self.table.rows[*row].flight));
        let (again, late) = (logbook.duplicates, logbook.late + self.lives_that_fell());
        balance.duplicated += again;
        balance.reordered += late;
        if again + late > 0 {
            balance.differences.push(format!("{}: {again} rows came again, {late} came late", self.tail));
        } else if expected != logbook.fold {
            balance.reordered += 1;
            let (want, have) = (expected.digest, logbook.fold.digest);
            balance.differences.push(format!("{}: digest {have:016x}, a plain fold gives {want:016x}", self.tail));
        }
        for number in logbook.rows.iter().filter(|number| *number as usize > self.rows.len()) {
            self.differ(balance, number, "is not in the file");
        }
    }

    /// How many rows ran in an earlier life than a row before them: disorder that no single life could see.
    fn lives_that_fell(&self) -> u64 {
        let mut newest = None;
        let mut fell = 0;
        for row in self.rows {
            let Some(Fate::Delivered { fence, .. }) = &self.fates[*row] else { continue };
            fell += u64::from(newest.is_some_and(|newest| *fence < newest));
            newest = newest.max(Some(*fence));
        }
        fell
    }

    fn differ(&self, balance: &mut Balance, number: u32, what: &str) {
        let line = self.rows.get(number as usize - 1).map(|row| self.table.rows[*row].line);
        let line = line.map_or_else(|| "no line".to_owned(), |line| format!("line {line}"));
        balance.differences.push(format!("{} row {number} ({line}): {what}", self.tail));
    }
}

#[cfg(test)]
mod tests;
