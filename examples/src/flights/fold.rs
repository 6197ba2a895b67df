//! One flight, and what an aircraft makes of its flights. Pure: the entity and the reference run the same code.

use serde::{Deserialize, Serialize};

/// One row of the file, without the tail number, which is the entity's id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Flight {
    /// Column `month`, 1 to 12.
    pub(crate) month: u8,
    /// Column `day`, 1 to 31.
    pub(crate) day: u8,
    /// Column `sched_dep_time`: local time as hhmm.
    pub(crate) departs: u16,
    /// Column `dep_delay`, in minutes; none for a cancelled flight.
    pub(crate) departure_delay: Option<i32>,
    /// Column `arr_delay`, in minutes; none for a flight that never arrived.
    pub(crate) arrival_delay: Option<i32>,
    /// Column `carrier`.
    pub(crate) carrier: String,
    /// Column `flight`.
    pub(crate) number: u32,
    /// Column `origin`.
    pub(crate) origin: String,
    /// Column `dest`.
    pub(crate) destination: String,
    /// Column `air_time`, in minutes; none means cancelled (or diverted).
    pub(crate) air_minutes: Option<u32>,
    /// Column `distance`, in miles.
    pub(crate) miles: u32,
}

impl Flight {
    /// Hands `each` the row's canonical bytes: the columns in the file's order; numbers little-endian in their own width,
    /// an optional number after one byte 0 (none) or 1 (some), a text after its length in four bytes. No two rows share
    /// their bytes.
    fn canonical(&self, mut each: impl FnMut(&[u8])) {
        each(&[self.month, self.day]);
        each(&self.departs.to_le_bytes());
        optional(self.departure_delay.map(i32::to_le_bytes), &mut each);
        optional(self.arrival_delay.map(i32::to_le_bytes), &mut each);
        text(&self.carrier, &mut each);
        each(&self.number.to_le_bytes());
        text(&self.origin, &mut each);
        text(&self.destination, &mut each);
        optional(self.air_minutes.map(u32::to_le_bytes), &mut each);
        each(&self.miles.to_le_bytes());
    }
}

fn optional(bytes: Option<[u8; 4]>, each: &mut impl FnMut(&[u8])) {
    match bytes {
        None => each(&[0]),
        Some(bytes) => {
            each(&[1]);
            each(&bytes);
        }
    }
}

fn text(text: &str, each: &mut impl FnMut(&[u8])) {
    // A field is at most 32 bytes long (see `csv`), so the length fits.
    each(&(text.len() as u32).to_le_bytes());
    each(text.as_bytes());
}

/// What an aircraft makes of its flights, in the order it folded them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Fold {
    /// Rows folded.
    pub(crate) flights: u64,
    /// Rows without air time.
    pub(crate) cancelled: u64,
    /// Miles of the flights that flew.
    pub(crate) miles: u64,
    /// Minutes in the air.
    pub(crate) air_minutes: u64,
    /// Sum of the arrival delays, in minutes; early arrivals count negative.
    pub(crate) arrival_delay: i64,
    /// Where the last flight that flew went.
    pub(crate) last_destination: String,
    /// FNV-1a, 64 bits, over the canonical bytes of all rows one after the other: d = (d xor byte) * prime for each byte.
    /// It depends on the order of the rows.
    pub(crate) digest: u64,
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl Default for Fold {
    fn default() -> Self {
        Self {
            flights: 0,
            cancelled: 0,
            miles: 0,
            air_minutes: 0,
            arrival_delay: 0,
            last_destination: String::new(),
            digest: FNV_BASIS,
        }
    }
}

impl Fold {
    /// Folds one more flight.
    pub(crate) fn add(&mut self, flight: &Flight) {
        self.flights += 1;
        match flight.air_minutes {
            None => self.cancelled += 1,
            Some(minutes) => {
                self.miles += u64::from(flight.miles);
                self.air_minutes += u64::from(minutes);
                self.last_destination.clone_from(&flight.destination);
            }
        }
        self.arrival_delay += i64::from(flight.arrival_delay.unwrap_or(0));
        let digest = &mut self.digest;
        flight.canonical(|bytes| {
            for byte in bytes {
                *digest = (*digest ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
            }
        });
    }

    /// The fold of `flights`, in their order.
    pub(crate) fn of<'a>(flights: impl IntoIterator<Item = &'a Flight>) -> Self {
        let mut fold = Self::default();
        flights.into_iter().for_each(|flight| fold.add(flight));
        fold
    }
}

/// A flight for tests: `number` tells it apart.
#[cfg(test)]
pub(crate) fn sample(number: u32) -> Flight {
    Flight {
        month: 1,
        day: 2,
        departs: 515,
        departure_delay: Some(-3),
        arrival_delay: Some(7),
        carrier: "UA".into(),
        number,
        origin: "EWR".into(),
        destination: "IAH".into(),
        air_minutes: Some(227),
        miles: 1_400,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fold_sums_what_flew_and_counts_what_did_not() {
        let cancelled = Flight { air_minutes: None, arrival_delay: None, destination: "MIA".into(), ..sample(2) };
        let fold = Fold::of(&[sample(1), cancelled]);
        assert_eq!((fold.flights, fold.cancelled, fold.miles, fold.air_minutes), (2, 1, 1_400, 227));
        assert_eq!((fold.arrival_delay, fold.last_destination.as_str()), (7, "IAH"));
    }

    #[test]
    fn the_digest_depends_on_the_order() {
        let (a, b) = (sample(1), sample(2));
        assert_ne!(Fold::of([&a, &b]).digest, Fold::of([&b, &a]).digest);
    }

    #[test]
    fn the_digest_depends_on_repetition_and_omission() {
        let (a, b) = (sample(1), sample(2));
        assert_ne!(Fold::of([&a, &b]).digest, Fold::of([&a, &b, &b]).digest);
        assert_ne!(Fold::of([&a, &b]).digest, Fold::of([&a]).digest);
    }

    #[test]
    fn every_column_enters_the_digest() {
        let base = sample(1);
        let changed = [
            Flight { month: 2, ..base.clone() },
            Flight { day: 3, ..base.clone() },
            Flight { departs: 516, ..base.clone() },
            Flight { departure_delay: None, ..base.clone() },
            Flight { arrival_delay: Some(8), ..base.clone() },
            Flight { carrier: "AA".into(), ..base.clone() },
            Flight { number: 9, ..base.clone() },
            Flight { origin: "JFK".into(), ..base.clone() },
            Flight { destination: "MIA".into(), ..base.clone() },
            Flight { air_minutes: Some(0), ..base.clone() },
            Flight { miles: 0, ..base.clone() },
        ];
        let digests: std::collections::BTreeSet<u64> =
            changed.iter().chain([&base]).map(|flight| Fold::of([flight]).digest).collect();
        assert_eq!(digests.len(), changed.len() + 1);
    }

    #[test]
    fn neighbouring_texts_do_not_run_together() {
        let left = Flight { origin: "AB".into(), destination: "C".into(), ..sample(1) };
        let right = Flight { origin: "A".into(), destination: "BC".into(), ..sample(1) };
        assert_ne!(Fold::of([&left]).digest, Fold::of([&right]).digest);
    }

    #[test]
    fn the_digest_of_one_known_row_stays_what_it_was() {
        // Written out by hand: the formula, once more and independently, over bytes in the documented order.
        let bytes: Vec<u8> = [
            &[1u8, 2][..],
            &515u16.to_le_bytes(),
            &[1],
            &(-3i32).to_le_bytes(),
            &[1],
            &7i32.to_le_bytes(),
            &[2, 0, 0, 0],
            b"UA",
            &5u32.to_le_bytes(),
            &[3, 0, 0, 0],
            b"EWR",
            &[3, 0, 0, 0],
            b"IAH",
            &[1],
            &227u32.to_le_bytes(),
            &1_400u32.to_le_bytes(),
        ]
        .concat();
        let digest = bytes.iter().fold(FNV_BASIS, |d, byte| (d ^ u64::from(*byte)).wrapping_mul(FNV_PRIME));
        assert_eq!(Fold::of([&sample(5)]).digest, digest);
    }
}
