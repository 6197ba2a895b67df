//! What happened to the cluster, for the report. It stays small whatever comes: what a stranger can cause as often as it
//! likes is counted by its cause, apart from what the report must name.

use std::collections::BTreeMap;

/// How many causes are counted apart; all others are counted as one.
const CAUSES_MAX: usize = 16;
/// How much of a cause is kept, in characters: it may quote what a stranger sent.
const CAUSE_MAX: usize = 160;

/// What happened to the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Notes {
    /// The changes, in their order: a handful in a run.
    pub(crate) changes: Vec<String>,
    /// The nodes whose session lapsed, and how often.
    pub(crate) lapses: BTreeMap<u64, u64>,
    /// Connections that nodes dropped because of what came over them.
    pub(crate) refusals: Tally,
    /// What else nodes had to tell: aircraft that failed, events that were missed.
    pub(crate) troubles: Tally,
}

impl Notes {
    /// `node` says that its session lapsed `times` times so far.
    pub(crate) fn lapsed(&mut self, node: u64, times: u64) {
        let known = self.lapses.entry(node).or_default();
        *known = times.max(*known);
    }
}

/// How often each of a few causes came.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    causes: BTreeMap<String, u64>,
    others: u64,
}

impl Tally {
    /// The cause came, so many times.
    pub(crate) fn add(&mut self, cause: &str, times: u64) {
        let cause: String = cause.chars().take(CAUSE_MAX).collect();
        let room = self.causes.len() < CAUSES_MAX;
        match self.causes.get_mut(&cause) {
            Some(count) => *count += times,
            None if room => drop(self.causes.insert(cause, times)),
            None => self.others += times,
        }
    }

    /// How often any of them came.
    pub(crate) fn total(&self) -> u64 {
        self.causes.values().sum::<u64>() + self.others
    }

    /// The causes with their counts, the most frequent first, and what was not counted apart last.
    pub(crate) fn list(&self) -> Vec<(&str, u64)> {
        let mut list: Vec<_> = self.causes.iter().map(|(cause, count)| (cause.as_str(), *count)).collect();
        list.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        if self.others > 0 {
            list.push(("other causes", self.others));
        }
        list
    }
}

/// What a cause has in common with others of its kind: everything but its numbers.
pub(crate) fn kind(cause: &str) -> String {
    let mut kind = String::with_capacity(cause.len());
    for letter in cause.chars() {
        match letter.is_ascii_digit() {
            false => kind.push(letter),
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_that_differ_in_numbers_only_are_of_one_kind() {
        assert_eq!(kind("unknown kind of frame 109"), "unknown kind of frame #");
        assert_eq!(kind("the peer speaks 2, this node 1"), "the peer speaks #, this node #");
    }

    #[test]
    fn a_flood_of_ever_new_causes_is_counted_and_not_kept() {
        let mut tally = Tally::default();
        (0..5_000).for_each(|at| tally.add(&format!("{at}{}", "x".repeat(5_000)), 1));
        tally.add("0", 2);
        assert_eq!((tally.causes.len(), tally.total()), (CAUSES_MAX, 5_002));
        assert!(tally.causes.keys().all(|cause| cause.len() == CAUSE_MAX));
        assert_eq!(tally.list().last(), Some(&("other causes", 5_002 - CAUSES_MAX as u64)));
    }

    #[test]
    fn the_most_frequent_cause_comes_first() {
        let mut tally = Tally::default();
        [("a", 1), ("b", 3), ("c", 2), ("a", 1)].iter().for_each(|(cause, times)| tally.add(cause, *times));
        assert_eq!(tally.list(), [("b", 3), ("a", 2), ("c", 2)]);
    }

    #[test]
    fn a_lapse_told_twice_counts_once() {
        let mut notes = Notes::default();
        [1, 1, 2, 1].iter().for_each(|times| notes.lapsed(3, *times));
        assert_eq!(notes.lapses, BTreeMap::from([(3, 2)]));
    }
}
