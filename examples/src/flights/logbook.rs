//! An aircraft's whole state: its fold, which rows are in it, what came wrongly, and through which lives it came.

use serde::{Deserialize, Serialize};
use shard_core::entity::Fence;

use super::fold::{Flight, Fold};
use super::numbers::{Arrival, Numbers};

/// What an aircraft remembers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Logbook {
    /// Everything taken, in the order it came. Duplicates are folded too, so that the digest cannot hide one.
    pub(crate) fold: Fold,
    /// The rows taken.
    pub(crate) rows: Numbers,
    /// How many rows came again.
    pub(crate) duplicates: u64,
    /// How many rows came after a later one.
    pub(crate) late: u64,
    /// The lives this state has lived in, the present one last. A life that is not listed ended without saving.
    pub(crate) lives: Vec<Fence>,
}

impl Logbook {
    /// Takes row `number` and says how it came.
    pub(crate) fn take(&mut self, number: u32, flight: &Flight) -> Arrival {
        self.fold.add(flight);
        let arrival = self.rows.insert(number);
        match arrival {
            Arrival::Next => {}
            Arrival::Late => self.late += 1,
            Arrival::Again => self.duplicates += 1,
        }
        arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flights::fold::sample;

    #[test]
    fn rows_in_order_leave_no_mark() {
        let mut book = Logbook::default();
        for number in 1..=5 {
            assert_eq!(book.take(number, &sample(number)), Arrival::Next);
        }
        assert_eq!((book.duplicates, book.late), (0, 0));
        assert_eq!(book.fold, Fold::of(&(1..=5).map(sample).collect::<Vec<_>>()));
    }

    #[test]
    fn a_duplicate_is_counted_and_spoils_the_digest() {
        let mut book = Logbook::default();
        book.take(1, &sample(1));
        book.take(1, &sample(1));
        assert_eq!((book.duplicates, book.late), (1, 0));
        assert_ne!(book.fold.digest, Fold::of([&sample(1)]).digest);
    }

    #[test]
    fn disorder_is_counted_and_spoils_the_digest() {
        let mut book = Logbook::default();
        book.take(2, &sample(2));
        book.take(1, &sample(1));
        assert_eq!((book.duplicates, book.late), (0, 1));
        assert_ne!(book.fold.digest, Fold::of([&sample(1), &sample(2)]).digest);
    }
}
