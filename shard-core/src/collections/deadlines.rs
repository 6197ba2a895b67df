//! Deadlines of places that are numbered densely.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::time::Instant;

/// At most one deadline per place. Setting the one that a place already has is O(1); a change is O(log n), and so is
/// taking the first that is due.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    by_place: Vec<Option<Instant>>,
    order: BTreeSet<(Instant, u32)>,
}

impl Deadlines {
    /// For places `0..places`.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self { by_place: alloc::vec![None; places], order: BTreeSet::new() }
    }

    /// Gives `place` this deadline, or none, instead of the one it has.
    pub fn set(&mut self, place: u32, deadline: Option<Instant>) {
        let Some(known) = self.by_place.get_mut(place as usize) else { return };
        if *known == deadline {
            return;
        }
        if let Some(old) = core::mem::replace(known, deadline) {
            self.order.remove(&(old, place));
        }
        if let Some(new) = deadline {
            self.order.insert((new, place));
        }
    }

    /// The earliest.
    #[must_use]
    pub fn first(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes the deadline of the place that is due first, if any is due at `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let &(at, place) = self.order.first()?;
        if at > now {
            return None;
        }
        self.set(place, None);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_a_new_deadline_replaces_the_old_one() {
        let ms = Instant::from_millis;
        let mut deadlines = Deadlines::new(4);
        deadlines.set(1, Some(ms(30)));
        deadlines.set(2, Some(ms(10)));
        deadlines.set(3, Some(ms(20)));
        deadlines.set(2, Some(ms(40)));
        deadlines.set(3, None);
        deadlines.set(9, Some(ms(1)));
        assert_eq!(deadlines.first(), Some(ms(30)));
        assert_eq!(deadlines.pop_due(ms(29)), None);
        assert_eq!(deadlines.pop_due(ms(50)), Some(1));
        assert_eq!(deadlines.pop_due(ms(50)), Some(2));
        assert_eq!(deadlines.pop_due(ms(50)), None);
        assert_eq!(deadlines.first(), None);
    }
}
