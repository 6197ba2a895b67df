//! The input that could not be used: every line of it named, in few words. Lines with one fault share an entry, neighbours
//! among them a range.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::csv::{Reject, Table, Why};

/// How long a line of line numbers may grow, in characters.
const WIDTH: usize = 110;

/// Writes what is wrong with the header, and then every rejected line.
pub(crate) fn write(out: &mut String, table: &Table) -> fmt::Result {
    for why in &table.header {
        writeln!(out, "header (line 1): {why}")?;
    }
    if table.rejects.is_empty() {
        return Ok(());
    }
    writeln!(out, "rejected input: {} rows", table.rejects.len())?;
    let mut faults: Vec<_> = by_fault(&table.rejects).into_values().collect();
    faults.sort_by_key(|rejects| rejects[0].line);
    faults.iter().try_for_each(|rejects| fault(out, rejects))
}

/// The rejects of each fault, in the file's order. One column with bad numbers is one fault, whatever stands there.
fn by_fault(rejects: &[Reject]) -> BTreeMap<Why, Vec<&Reject>> {
    let mut faults: BTreeMap<Why, Vec<&Reject>> = BTreeMap::new();
    for reject in rejects {
        let fault = match &reject.why {
            Why::BadNumber(column, _) => Why::BadNumber(column, String::new()),
            why => why.clone(),
        };
        faults.entry(fault).or_default().push(reject);
    }
    faults
}

fn fault(out: &mut String, rejects: &[&Reject]) -> fmt::Result {
    let first = rejects[0];
    if rejects.len() == 1 {
        return writeln!(out, "  line {}: {}", first.line, first.why);
    }
    match &first.why {
        Why::BadNumber(column, text) => {
            let rows = rejects.len();
            writeln!(out, "  {rows} rows: column `{column}` is not a number in its range, as {text:?} in the first")?;
        }
        why => writeln!(out, "  {} rows: {why}", rejects.len())?,
    }
    let mut line = "    lines".to_owned();
    let ranges = ranges(rejects.iter().map(|reject| reject.line));
    for (at, range) in ranges.iter().enumerate() {
        if line.len() + range.len() > WIDTH {
            writeln!(out, "{line}")?;
            line = "     ".to_owned();
        }
        write!(line, " {range}{}", if at + 1 < ranges.len() { "," } else { "" })?;
    }
    writeln!(out, "{line}")
}

/// Rising numbers, neighbours as one range.
fn ranges(numbers: impl Iterator<Item = u64>) -> Vec<String> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): (u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(header: Vec<Why>, rejects: Vec<Reject>) -> String {
        let mut out = String::new();
        write(&mut out, &Table { header, rejects, ..Table::default() }).expect("a String takes everything");
        out
    }

    fn bad(line: u64, text: &str) -> Reject {
        Reject { line, why: Why::BadNumber("distance", text.into()) }
    }

    #[test]
    fn lines_with_one_fault_share_an_entry_and_neighbours_a_range() {
        let missing = |line| Reject { line, why: Why::MissingColumn("dest") };
        let rejects = vec![bad(3, "far"), missing(4), missing(5), missing(6), bad(7, "near"), missing(9)];
        let rejects = rejects.into_iter().chain([Reject { line: 12, why: Why::NoTail }]).collect();
        let expected = "rejected input: 7 rows\n  \
                        2 rows: column `distance` is not a number in its range, as \"far\" in the first\n    lines 3, 7\n  \
                        4 rows: column `dest` is missing\n    lines 4-6, 9\n  \
                        line 12: no tail number\n";
        assert_eq!(text(vec![], rejects), expected);
    }

    #[test]
    fn every_one_of_thousands_of_rejected_lines_is_named() {
        let lines: Vec<u64> = (1..3_000).map(|at| at * 3).collect();
        let text = text(vec![], lines.iter().map(|line| bad(*line, "far")).collect());
        let named: Vec<u64> =
            text.lines().skip(2).flat_map(|line| line.split([' ', ','])).filter_map(|word| word.parse().ok()).collect();
        assert_eq!(named, lines);
        assert!(text.lines().all(|line| line.len() <= WIDTH + 2), "{text}");
    }

    #[test]
    fn a_header_without_a_column_is_reported_with_its_line() {
        let text = text(vec![Why::MissingColumn("dest"), Why::MissingColumn("day")], vec![]);
        assert_eq!(text, "header (line 1): column `dest` is missing\nheader (line 1): column `day` is missing\n");
    }
}
