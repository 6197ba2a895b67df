//! Reads the file of flights: rows that can be used, in the file's order, and what is wrong with each of the others.
//!
//! The file is taken line by line, so a quote left open, or a line of a gigabyte, spoils its own line and not the rest.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;

use ::csv::{ByteRecord, ReaderBuilder};

use super::fold::Flight;

/// The longest line that is looked at, in bytes.
const LINE_MAX: usize = 16 * 1024;
/// The longest text in a field, in bytes: carriers, airports and tail numbers are far shorter.
const TEXT_MAX: usize = 32;

/// One usable row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// Its line in the file, from 1.
    pub(crate) line: u64,
    /// Its aircraft: an index into [`Table::tails`].
    pub(crate) aircraft: usize,
    /// Its number within the aircraft, from 1.
    pub(crate) number: u32,
    /// The rest of it.
    pub(crate) flight: Flight,
}

/// A whole file.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The usable rows, in the file's order.
    pub(crate) rows: Vec<Row>,
    /// Tail numbers, in the order of their first row.
    pub(crate) tails: Vec<String>,
    /// What is wrong with the header; then no row can be used.
    pub(crate) header: Vec<Why>,
    /// The lines that cannot be used.
    pub(crate) rejects: Vec<Reject>,
}

/// A line that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reject {
    /// Its number in the file, from 1.
    pub(crate) line: u64,
    /// What is wrong with it.
    pub(crate) why: Why,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Why {
    /// The file is empty.
    NoHeader,
    /// No tail number: nobody knows which aircraft flew.
    NoTail,
    /// The header or the line lacks the column.
    MissingColumn(&'static str),
    /// The column holds something else than a number in its range.
    BadNumber(&'static str, String),
    /// The column holds bytes that are no UTF-8.
    BadUtf8(&'static str),
    /// The column's text is empty.
    Empty(&'static str),
    /// The column's text is longer than anything real.
    TooLong(&'static str),
    /// The line is longer than anything real.
    LineTooLong,
    /// The line is no record at all.
    NoRecord,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeader => f.write_str("there is none"),
            Self::NoTail => f.write_str("no tail number"),
            Self::MissingColumn(column) => write!(f, "column `{column}` is missing"),
            Self::BadNumber(column, text) => write!(f, "column `{column}`: {text:?} is not a number in its range"),
            Self::BadUtf8(column) => write!(f, "column `{column}` is not UTF-8"),
            Self::Empty(column) => write!(f, "column `{column}` is empty"),
            Self::TooLong(column) => write!(f, "column `{column}` is longer than {TEXT_MAX} bytes"),
            Self::LineTooLong => write!(f, "longer than {LINE_MAX} bytes"),
            Self::NoRecord => f.write_str("not a record"),
        }
    }
}

/// Reads the file at `path`.
///
/// # Errors
/// It cannot be opened or read. What a line holds is never an error.
pub(crate) fn open(path: &Path) -> io::Result<Table> {
    read(BufReader::new(File::open(path)?))
}

/// Reads a whole table: a header, then one row per line. Empty lines count for nothing.
///
/// # Errors
/// Those of `input`.
pub(crate) fn read(mut input: impl BufRead) -> io::Result<Table> {
    let mut table = Table::default();
    let mut lines = Lines::default();
    let header = lines.next(&mut input)?.unwrap_or(Err(Why::NoHeader)).and_then(record);
    let columns = Columns::of(header.as_ref().unwrap_or(&ByteRecord::new()));
    table.header = header.map_or_else(|why| vec![why], |_| columns.missing().map(Why::MissingColumn).collect());
    let mut aircraft = HashMap::new();
    let mut counts: Vec<u32> = Vec::new();
    while let Some(line) = lines.next(&mut input)? {
        if line.as_ref().is_ok_and(|line| line.is_empty()) {
            continue;
        }
        match line.and_then(record).and_then(|record| columns.parse(&record)) {
            Ok((tail, flight)) => {
                let index = *aircraft.entry(tail).or_insert_with_key(|tail| {
                    table.tails.push(tail.clone());
                    counts.push(0);
                    counts.len() - 1
                });
                counts[index] += 1;
                table.rows.push(Row { line: lines.number, aircraft: index, number: counts[index], flight });
            }
            Err(why) => table.rejects.push(Reject { line: lines.number, why }),
        }
    }
    Ok(table)
}

/// Lines of bounded length, counted.
#[derive(Default)]
struct Lines {
    number: u64,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line without its end, or what is wrong with it; none at the end of the input.
    fn next(&mut self, input: &mut impl BufRead) -> io::Result<Option<Result<&[u8], Why>>> {
        self.buffer.clear();
        self.number += 1;
        let limit = LINE_MAX as u64 + 2;
        if input.by_ref().take(limit).read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        let whole = self.buffer.len() < LINE_MAX + 2 || self.buffer.ends_with(b"\n");
        if !whole {
            input.skip_until(b'\n')?;
            return Ok(Some(Err(Why::LineTooLong)));
        }
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        Ok(Some(Ok(line.strip_suffix(b"\r").unwrap_or(line))))
    }
}

fn record(line: &[u8]) -> Result<ByteRecord, Why> {
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).buffer_capacity(512).from_reader(line);
    let mut record = ByteRecord::new();
    match reader.read_byte_record(&mut record) {
        Ok(true) => Ok(record),
        Ok(false) | Err(_) => Err(Why::NoRecord),
    }
}

/// The columns a row is made of, as the header spells them.
const NAMES: [&str; 12] = [
    "month",
    "day",
    "sched_dep_time",
    "dep_delay",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
];

/// Where each column of [`NAMES`] stands; the file may hold others beside them, in any order.
struct Columns([Option<usize>; NAMES.len()]);

impl Columns {
    fn of(header: &ByteRecord) -> Self {
        Self(NAMES.map(|name| header.iter().position(|field| unmarked(field) == name.as_bytes())))
    }

    fn missing(&self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().zip(self.0).filter(|(_, place)| place.is_none()).map(|(name, _)| name)
    }

    fn parse(&self, record: &ByteRecord) -> Result<(String, Flight), Why> {
        let flight = Flight {
            month: self.within(record, 0, 1..=12)?,
            day: self.within(record, 1, 1..=31)?,
            departs: self.within(record, 2, 0..=2_400)?,
            departure_delay: self.optional(record, 3)?,
            arrival_delay: self.optional(record, 4)?,
            carrier: self.text(record, 5)?,
            number: self.number(record, 6)?,
            origin: self.text(record, 8)?,
            destination: self.text(record, 9)?,
            air_minutes: self.optional(record, 10)?,
            miles: self.number(record, 11)?,
        };
        match self.text(record, 7) {
            Ok(tail) if tail == ABSENT => Err(Why::NoTail),
            Err(Why::Empty(_)) => Err(Why::NoTail),
            tail => Ok((tail?, flight)),
        }
    }

    fn field<'a>(&self, record: &'a ByteRecord, column: usize) -> Result<&'a str, Why> {
        let name = NAMES[column];
        let bytes = self.0[column].and_then(|at| record.get(at)).ok_or(Why::MissingColumn(name))?;
        if bytes.len() > TEXT_MAX {
            return Err(Why::TooLong(name));
        }
        std::str::from_utf8(bytes).map(str::trim).map_err(|_| Why::BadUtf8(name))
    }

    fn text(&self, record: &ByteRecord, column: usize) -> Result<String, Why> {
        match self.field(record, column)? {
            "" => Err(Why::Empty(NAMES[column])),
            text => Ok(text.to_owned()),
        }
    }

    fn number<T: FromStr>(&self, record: &ByteRecord, column: usize) -> Result<T, Why> {
        let text = self.field(record, column)?;
        text.parse().map_err(|_| Why::BadNumber(NAMES[column], text.to_owned()))
    }

    fn within<T: FromStr + PartialOrd>(
        &self,
        record: &ByteRecord,
        column: usize,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<T, Why> {
        let number = self.number(record, column)?;
        if range.contains(&number) {
            return Ok(number);
        }
        Err(Why::BadNumber(NAMES[column], self.field(record, column)?.to_owned()))
    }

    fn optional<T: FromStr>(&self, record: &ByteRecord, column: usize) -> Result<Option<T>, Why> {
        match self.field(record, column)? {
            "" | ABSENT => Ok(None),
            _ => self.number(record, column).map(Some),
        }
    }
}

/// How R, which the data comes from, writes a value that is not there.
const ABSENT: &str = "NA";

/// A header's field without the mark that some programs put before a file's first byte.
fn unmarked(field: &[u8]) -> &[u8] {
    field.strip_prefix(b"\xef\xbb\xbf").unwrap_or(field).trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "month,day,sched_dep_time,dep_delay,arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance\n";

    fn table(lines: &[&str]) -> Table {
        read(format!("{HEADER}{}", lines.join("\n")).as_bytes()).expect("memory is readable")
    }

    fn rejects(table: &Table) -> Vec<(u64, String)> {
        table.rejects.iter().map(|reject| (reject.line, reject.why.to_string())).collect()
    }

    #[test]
    fn a_row_is_read_into_its_columns() {
        let table = table(&["1,2,515,2,-11,UA,1545,N14228,EWR,IAH,227,1400"]);
        let flight = Flight {
            month: 1,
            day: 2,
            departs: 515,
            departure_delay: Some(2),
            arrival_delay: Some(-11),
            carrier: "UA".into(),
            number: 1545,
            origin: "EWR".into(),
            destination: "IAH".into(),
            air_minutes: Some(227),
            miles: 1_400,
        };
        assert_eq!(table.rows, [Row { line: 2, aircraft: 0, number: 1, flight }]);
        assert_eq!((table.tails, table.rejects), (vec!["N14228".to_owned()], vec![]));
    }

    #[test]
    fn rows_are_numbered_within_their_aircraft() {
        let table = table(&[
            "1,1,515,,,UA,1,N1,EWR,IAH,,1400",
            "1,1,515,,,UA,2,N2,EWR,IAH,,1400",
            "1,1,515,,,UA,3,N1,EWR,IAH,,1400",
        ]);
        let numbered: Vec<_> = table.rows.iter().map(|row| (table.tails[row.aircraft].as_str(), row.number)).collect();
        assert_eq!(numbered, [("N1", 1), ("N2", 1), ("N1", 2)]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_the_rest_goes_on() {
        let text = [
            HEADER.as_bytes(),
            b"1,1,515,2,11,UA,1545,,EWR,IAH,227,1400\n",
            b"1,1,515,2,11,UA,1545,NA,EWR,IAH,227,1400\n",
            b"1,1,515,2,11,UA,1545,N1,EWR,IAH\n",
            b"1,1,515,2,eleven,UA,1545,N1,EWR,IAH,227,1400\n",
            b"13,1,515,2,11,UA,1545,N1,EWR,IAH,227,1400\n",
            b"1,1,515,2,11,U\xff,1545,N1,EWR,IAH,227,1400\n",
            b"1,1,515,2,11,UA,1545,N1,,IAH,227,1400\n",
            b"1,1,515,2,11,UA,1545,N123456789012345678901234567890123,EWR,IAH,227,1400\n",
            b"\n",
            b"1,1,515,2,11,UA,-1,N1,EWR,IAH,227,1400\n",
            b"1,1,515,2,11,UA,1545,N1,EWR,IAH,227,1400",
        ]
        .concat();
        let table = read(&text[..]).expect("memory is readable");
        let expected = [
            (2, "no tail number"),
            (3, "no tail number"),
            (4, "column `air_time` is missing"),
            (5, "column `arr_delay`: \"eleven\" is not a number in its range"),
            (6, "column `month`: \"13\" is not a number in its range"),
            (7, "column `carrier` is not UTF-8"),
            (8, "column `origin` is empty"),
            (9, "column `tailnum` is longer than 32 bytes"),
            (11, "column `flight`: \"-1\" is not a number in its range"),
        ];
        assert_eq!(rejects(&table), expected.map(|(line, why)| (line, why.to_owned())));
        assert_eq!(table.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [12]);
    }

    #[test]
    fn a_quote_left_open_spoils_its_own_line_only() {
        let table = table(&["1,1,515,2,11,\"UA,1545,N1,EWR,IAH,227,1400", "1,1,515,2,11,UA,1545,N1,EWR,IAH,227,1400"]);
        assert_eq!((table.rows.len(), table.rejects.len()), (1, 1));
    }

    #[test]
    fn a_line_without_end_is_refused_without_being_kept() {
        let long = format!("1,1,{}", "5".repeat(LINE_MAX * 3));
        let table = table(&[&long, "1,1,515,2,11,UA,1545,N1,EWR,IAH,227,1400"]);
        assert_eq!(rejects(&table), [(2, format!("longer than {LINE_MAX} bytes"))]);
        assert_eq!(table.rows[0].line, 3);
    }

    #[test]
    fn columns_may_stand_in_any_order_among_others_and_be_quoted() {
        let text = "\u{feff}\"year\",\"distance\",\"month\",\"day\",\"sched_dep_time\",\"dep_delay\",\"arr_delay\",\"carrier\",\"flight\",\
                    \"origin\",\"tailnum\",\"dest\",\"air_time\"\r\n2013,1400,1,2,515,NA,NA,\"UA\",1545,\"EWR\",\"N1\",\"IAH\",NA\r\n";
        let table = read(text.as_bytes()).expect("memory is readable");
        assert_eq!(rejects(&table), []);
        assert_eq!((table.rows[0].flight.miles, table.rows[0].flight.air_minutes), (1_400, None));
        assert_eq!(table.tails, ["N1"]);
    }

    #[test]
    fn a_header_without_a_column_is_named_and_rejects_every_row() {
        let text = format!("{}1,1,515,2,11,UA,1545,N1,EWR,227,1400\n", HEADER.replace("dest,", ""));
        let table = read(text.as_bytes()).expect("memory is readable");
        assert_eq!(table.header, [Why::MissingColumn("dest")]);
        assert_eq!(rejects(&table), [(2, "column `dest` is missing".to_owned())]);
    }

    #[test]
    fn a_header_that_is_no_record_is_named_and_rejects_every_row() {
        let text = format!("{}\n1,2\n", "m".repeat(LINE_MAX * 2));
        let table = read(text.as_bytes()).expect("memory is readable");
        assert_eq!(table.header, [Why::LineTooLong]);
        assert_eq!(rejects(&table), [(2, "column `month` is missing".to_owned())]);
    }

    #[test]
    fn an_empty_file_is_a_table_without_a_header() {
        let table = read(&b""[..]).expect("memory is readable");
        assert!(table.rows.is_empty() && table.rejects.is_empty());
        assert_eq!(table.header, [Why::NoHeader]);
    }

    #[test]
    fn the_shipped_file_is_the_real_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flights-2013-01.csv");
        let table = open(&path).expect("shipped");
        assert_eq!(table.rows.len() + table.rejects.len(), 27_004);
        assert_eq!(table.header, []);
        assert!(table.rejects.iter().all(|reject| reject.why == Why::NoTail));
        assert_eq!((table.rejects.len(), table.tails.len()), (155, 3_148));
    }
}
