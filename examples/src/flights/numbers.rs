//! The row numbers an aircraft has seen, as ranges: short, however many there are, as long as few are missing.

use serde::{Deserialize, Serialize};

/// How a number came, given those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Arrival {
    /// Greater than all before it.
    Next,
    /// New, but a greater one came before it: out of order.
    Late,
    /// Seen before: a duplicate.
    Again,
}

/// A set of row numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Numbers {
    /// First and last of each range, ascending, with a gap between neighbours.
    ranges: Vec<(u32, u32)>,
}

impl Numbers {
    /// Adds `number` and says how it came. O(ranges).
    pub(crate) fn insert(&mut self, number: u32) -> Arrival {
        let at = self.ranges.partition_point(|(_, last)| *last < number);
        if self.ranges.get(at).is_some_and(|(first, _)| *first <= number) {
            return Arrival::Again;
        }
        let joins_left = at > 0 && self.ranges[at - 1].1 + 1 == number;
        let joins_right = self.ranges.get(at).is_some_and(|(first, _)| number + 1 == *first);
        let arrival = if at == self.ranges.len() { Arrival::Next } else { Arrival::Late };
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = number,
            (false, true) => self.ranges[at].0 = number,
            (false, false) => self.ranges.insert(at, (number, number)),
        }
        arrival
    }

    /// Whether `number` is in the set. O(log ranges).
    #[must_use]
    pub(crate) fn contains(&self, number: u32) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < number);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= number)
    }

    /// All numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[u32]) -> Numbers {
        let mut set = Numbers::default();
        for number in numbers {
            set.insert(*number);
        }
        set
    }

    #[test]
    fn numbers_in_order_are_one_range() {
        let set = of(&[1, 2, 3, 4]);
        assert_eq!(set.ranges, [(1, 4)]);
    }

    #[test]
    fn a_gap_is_no_disorder_but_its_filling_is() {
        let mut set = of(&[1, 2]);
        assert_eq!(set.insert(5), Arrival::Next);
        assert_eq!(set.insert(4), Arrival::Late);
        assert_eq!(set.insert(3), Arrival::Late);
        assert_eq!(set.ranges, [(1, 5)]);
    }

    #[test]
    fn what_was_seen_is_seen_again() {
        let mut set = of(&[1, 2, 3, 7]);
        assert!([1, 2, 3, 7].into_iter().all(|number| set.insert(number) == Arrival::Again));
        assert_eq!(set.ranges, [(1, 3), (7, 7)]);
    }

    #[test]
    fn any_order_gives_the_same_set() {
        for order in [[5, 1, 3, 2, 4], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [1, 5, 2, 4, 3]] {
            assert_eq!(of(&order).ranges, [(1, 5)], "{order:?}");
        }
    }

    #[test]
    fn membership_and_listing_agree() {
        let set = of(&[2, 9, 3, 12]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [2, 3, 9, 12]);
        assert!((0..20).all(|number| set.contains(number) == [2, 3, 9, 12].contains(&number)));
    }
}
