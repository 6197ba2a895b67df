//! What shards weigh.

use std::collections::HashSet;
use std::fs::File;
use std::num::NonZeroU32;
use std::path::Path;

use shard_core::hash::ShardHash;
use shard_core::prng::Prng;

/// What every shard weighs where all weigh the same, and the heaviest where they do not.
const UNIFORM: u32 = 1_000;
const HEAVIEST: f64 = 1e6;

/// Per shard.
pub(crate) fn open(name: &str, shards: u32, seed: u64) -> Result<Vec<u32>, String> {
    match name.split_once(':') {
        None if name == "uniform" => Ok(vec![UNIFORM; shards as usize]),
        None if name == "flights" => flights(shards),
        Some(("zipf", exponent)) => {
            let exponent = exponent.parse().ok().filter(|it: &f64| (0.0..=4.0).contains(it));
            let exponent = exponent.ok_or_else(|| format!("--load {name}: the exponent is a number from 0 to 4"))?;
            let weight = |rank: u32| (HEAVIEST / f64::from(rank).powf(exponent)).max(1.0) as u32;
            let mut loads: Vec<u32> = (1..=shards).map(weight).collect();
            Prng::new(seed).fork("loads").shuffle(&mut loads);
            Ok(loads)
        }
        Some(("file", path)) => file(Path::new(path), shards),
        _ => Err(format!("no load is called {name:?}; there are uniform, zipf:EXPONENT, flights, file:PATH")),
    }
}

/// How many rows of the shipped month each shard gets if an aircraft is an entity, as in the program `flights`.
fn flights(shards: u32) -> Result<Vec<u32>, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flights-2013-01.csv");
    let count = NonZeroU32::new(shards).ok_or("no shards")?;
    let mut loads = vec![0; shards as usize];
    for row in rows(&path, ["tailnum"])? {
        let (_, [tail]) = row?;
        if !tail.is_empty() {
            loads[ShardHash::default().shard(&tail, count).0 as usize] += 1;
        }
    }
    Ok(loads)
}

fn file(path: &Path, shards: u32) -> Result<Vec<u32>, String> {
    let mut loads = vec![0; shards as usize];
    let mut named = HashSet::new();
    for row in rows(path, ["shard", "load"])? {
        let (line, [shard, load]) = row?;
        let wrong = |what: &str| format!("{}, line {line}: {what}", path.display());
        let shard = shard.parse().ok().filter(|shard: &u32| *shard < shards);
        let shard = shard.ok_or_else(|| wrong(&format!("a shard is a number from 0 to {}", shards - 1)))?;
        let load = load.parse().map_err(|_| wrong("a load is a whole number below 2^32"))?;
        if !named.insert(shard) {
            return Err(wrong(&format!("shard {shard} is there twice")));
        }
        loads[shard as usize] = load;
    }
    if loads.iter().all(|load| *load == 0) {
        return Err(format!("{}: nothing weighs anything", path.display()));
    }
    Ok(loads)
}

type Row<const N: usize> = Result<(u64, [String; N]), String>;

/// The columns of those names, row by row, with the line of each.
fn rows<const N: usize>(path: &Path, columns: [&str; N]) -> Result<impl Iterator<Item = Row<N>>, String> {
    let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let mut table = csv::Reader::from_reader(File::open(path).map_err(|error| wrong(&error))?);
    let headers = table.headers().map_err(|error| wrong(&error))?.clone();
    let mut places = [0; N];
    for (place, column) in places.iter_mut().zip(columns) {
        *place = headers
            .iter()
            .position(|header| header.trim() == column)
            .ok_or_else(|| wrong(&format!("no column is called {column:?}")))?;
    }
    let name = path.display().to_string();
    Ok(table.into_records().map(move |record| {
        let record = record.map_err(|error| format!("{name}: {error}"))?;
        let line = record.position().map_or(0, csv::Position::line);
        Ok((line, places.map(|place| record.get(place).unwrap_or("").trim().to_owned())))
    }))
}
