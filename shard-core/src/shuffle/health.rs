//! Who serves a tenant while members of its hand are down.
//!
//! A hand is dealt from members, not from members that are up: a crash that dealt fresh members would hand a tenant's
//! poison from one node to the next until all are down (cortex #3571). So health only chooses within the hand, and what
//! happens when nobody in it is up is said beforehand.

use core::fmt;

/// What to do while no member of a hand is up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum WhenAllDown {
    /// Keep to the hand: its members are tried although they look down, in case they only look so.
    #[default]
    Keep,
    /// Spill to as many other members that are up, the next in the tenant's order: service goes on, isolation does not.
    /// Count it.
    Spill,
    /// Refuse.
    Strict,
}

/// No member of the hand is up, and [`WhenAllDown::Strict`] (or an empty roster) leaves nobody else. The fault is of the
/// nodes, or of the tenant that took them down: try again later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllDown;

impl fmt::Display for AllDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no member of this tenant's hand is up: try again later")
    }
}

impl core::error::Error for AllDown {}

/// Who may serve, in the order of preference: see [`usable`].
#[derive(Clone, Debug)]
pub struct Usable<'a, T, F> {
    from: core::slice::Iter<'a, T>,
    left: usize,
    is_up: F,
    mode: Serving,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Serving {
    Hand,
    Kept,
    Spilled,
}

/// The members that serve a tenant now: those of its hand that are up, or what `when_all_down` says. `order` is the
/// tenant's whole order, as [`Roster::deal`](super::Roster::deal) deals it for [`ShardSize::All`](super::ShardSize::All);
/// the first `hand` of it are its hand. (Give the hand alone if nothing may spill.) O(hand) while any of the hand is up.
///
/// # Errors
/// If nobody may serve.
pub fn usable<T, F: Fn(&T) -> bool>(
    order: &[T],
    hand: usize,
    when_all_down: WhenAllDown,
    is_up: F,
) -> Result<Usable<'_, T, F>, AllDown> {
    let (own, others) = order.split_at(hand.min(order.len()));
    let left = own.len();
    if own.iter().any(&is_up) {
        return Ok(Usable { from: own.iter(), left, is_up, mode: Serving::Hand });
    }
    match when_all_down {
        WhenAllDown::Keep if !own.is_empty() => Ok(Usable { from: own.iter(), left, is_up, mode: Serving::Kept }),
        WhenAllDown::Spill if others.iter().any(&is_up) => {
            Ok(Usable { from: others.iter(), left, is_up, mode: Serving::Spilled })
        }
        _ => Err(AllDown),
    }
}

impl<T, F> Usable<'_, T, F> {
    /// Whether these are members of other hands.
    #[must_use]
    pub fn is_spilled(&self) -> bool {
        self.mode == Serving::Spilled
    }
}

impl<'a, T, F: Fn(&T) -> bool> Iterator for Usable<'a, T, F> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.left = self.left.checked_sub(1)?;
        match self.mode {
            Serving::Kept => self.from.next(),
            Serving::Hand | Serving::Spilled => self.from.find(|member| (self.is_up)(member)),
        }
    }
}
