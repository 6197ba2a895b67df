//! Traces: who gets the next message.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use shard_core::hash;
use shard_core::prng::Prng;

use super::Args;

/// A scan of as many entities as this interrupts [`ZIPF`] messages.
const SCAN: usize = 10_000;
const ZIPF: usize = 20_000;
/// How often popularity moves on in a trace that shifts.
const SHIFTS: usize = 10;
/// The exponent of traces that are partly Zipf's.
const EXPONENT: f64 = 0.9;

/// A trace that has been read or made up.
pub(crate) struct Trace {
    /// As it was asked for.
    pub(crate) name: String,
    /// The entity of each message, by the order of first appearance.
    pub(crate) messages: Vec<u32>,
    /// How many entities appear.
    pub(crate) entities: u32,
    /// Lines of its file that name no entity.
    pub(crate) nameless: usize,
}

/// The hash by which policies know an entity.
pub(crate) fn hash(entity: u32) -> u64 {
    hash::entity(&entity.to_string())
}

/// Whether the name is not of a trace that is made up or shipped, so a file.
pub(crate) fn is_file(name: &str) -> bool {
    !matches!(name, "loop" | "scan+zipf" | "shifting" | "flights") && !name.starts_with("zipf:")
}

/// Makes up the trace of that name, or reads the file.
pub(crate) fn open(name: &str, args: &Args) -> Result<Trace, String> {
    let (messages, entities) = (args.messages as usize, args.entities as usize);
    let mut prng = Prng::new(args.seed).fork("trace");
    let ids: Vec<u64> = match name {
        "loop" => (0..messages).map(|at| (at % (entities / 5)) as u64).collect(),
        "scan+zipf" => {
            let zipf = Zipf::new(entities, EXPONENT);
            let mut scanned = entities as u64;
            let mut next = |at: usize| {
                if at % (ZIPF + SCAN) < ZIPF {
                    return zipf.draw(&mut prng);
                }
                scanned += 1;
                scanned
            };
            (0..messages).map(&mut next).collect()
        }
        "shifting" => {
            let zipf = Zipf::new(entities, EXPONENT);
            let shift = |at: usize| (at * SHIFTS / messages * (entities / SHIFTS)) as u64;
            (0..messages).map(|at| (zipf.draw(&mut prng) + shift(at)) % entities as u64).collect()
        }
        "flights" => {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flights-2013-01.csv");
            return read(name, &path, Some("tailnum"));
        }
        _ => match name.split_once(':') {
            Some(("zipf", exponent)) => {
                let exponent = exponent.parse().ok().filter(|it| (0.0..=10.0).contains(it));
                let exponent = exponent.ok_or_else(|| format!("{name}: the exponent is a number from 0 to 10"))?;
                let zipf = Zipf::new(entities, exponent);
                (0..messages).map(|_| zipf.draw(&mut prng)).collect()
            }
            _ => return read(name, Path::new(name), args.column.as_deref()),
        },
    };
    Ok(Trace::of(name, ids))
}

impl Trace {
    fn of<T: Eq + std::hash::Hash>(name: &str, ids: impl IntoIterator<Item = T>) -> Self {
        let mut known = HashMap::new();
        let mut number = |id| {
            let next = known.len() as u32;
            *known.entry(id).or_insert(next)
        };
        let messages = ids.into_iter().map(&mut number).collect();
        Self { name: name.to_owned(), messages, entities: known.len() as u32, nameless: 0 }
    }
}

fn read(name: &str, path: &Path, column: Option<&str>) -> Result<Trace, String> {
    let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let (mut ids, mut nameless) = (Vec::new(), 0);
    let mut message = |id: &str| if id.is_empty() { nameless += 1 } else { ids.push(id.to_owned()) };
    if let Some(column) = column {
        let mut table = csv::Reader::from_reader(file);
        let at = table.headers().map_err(|error| wrong(&error))?.iter().position(|header| header == column);
        let at = at.ok_or_else(|| wrong(&format!("no column is called {column:?}")))?;
        for record in table.records() {
            let record = record.map_err(|error| wrong(&error))?;
            message(record.get(at).unwrap_or("").trim());
        }
    } else {
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|error| wrong(&error))?;
            // Some editors put a mark before the first line that says how the file is encoded.
            let line = line.trim_start_matches('\u{feff}').trim();
            if !line.is_empty() && !line.starts_with('#') {
                message(line.split([',', ' ', '\t']).next().unwrap_or(""));
            }
        }
    }
    if ids.is_empty() {
        return Err(wrong(&"it has no message"));
    }
    Ok(Trace { nameless, ..Trace::of(name, ids) })
}

/// Entity `n` is drawn in proportion to `(n + 1) ^ -exponent`.
struct Zipf {
    /// Of 2^53: below which number a draw means this entity or an earlier one.
    below: Vec<u64>,
}

const WHOLE: u64 = 1 << 53;

impl Zipf {
    fn new(entities: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=entities)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        Self { below: sums.into_iter().map(|part| (part / sum * WHOLE as f64) as u64).collect() }
    }

    fn draw(&self, prng: &mut Prng) -> u64 {
        let drawn = prng.below(WHOLE);
        self.below.partition_point(|below| *below <= drawn).min(self.below.len() - 1) as u64
    }
}
