//! Hands of members that come and go: highest random weight (rendezvous hashing, Thaler and Ravishankar 1998), zone by
//! zone.
//!
//! Every tenant has an order of the members of each zone, and an order of the zones, both drawn from its hash. It is dealt
//! the first of every zone, then the second of every zone, and so on, zones in its order, until the hand is full. So:
//! - a longer hand begins with the shorter one, and a hand longer than the roster is the whole roster;
//! - zones differ by one member at most, except those that have no more; which zones have one more differs by tenant;
//! - a member that comes, goes or changes its mode or weight changes a hand by one member at most (`k / n` of the hands,
//!   the least possible), and where it is in no hand, nothing;
//! - a zone more leaves the order of the others alone.

use core::cmp::Ordering;
use core::fmt;

use super::log2::{FRACTION_BITS, log2};
use super::roster::{Member, Mode, Roster};
use crate::prng::mix;
use crate::time::Instant;

/// How many members a hand has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ShardSize {
    /// Every active member: no sharding.
    All,
    /// That many in all, or every active member if there are fewer. Zero means [`All`](Self::All), as it does for
    /// operators who set a limit to zero to have none.
    Members(u32),
    /// That many in each zone, or all of it if it has fewer. Zero means [`All`](Self::All).
    PerZone(u32),
}

/// One member of a hand. A slice of these is the memory that [`Roster::deal`] works in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pick {
    member: u32,
    /// Its place in the tenant's order of its zone.
    rank: u32,
    weight: u32,
    /// The place of its zone in the tenant's order of zones.
    zone_draw: u64,
    zone: u64,
    draw: u64,
    /// Minus the binary logarithm of the draw as a fraction of 2^64; zero where weights are equal.
    distance: u64,
}

impl Pick {
    /// Its index in [`Roster::members`].
    #[must_use]
    pub const fn index(&self) -> usize {
        self.member as usize
    }

    /// The member with the smaller distance for its weight comes first (weighted rendezvous hashing, Schindelhauer and
    /// Schomaker 2005). Compared crosswise, so whole numbers decide and a weight concerns its own member only. A distance of
    /// zero is that of every member where weights are equal, and of nobody where they are not.
    fn order(&self, other: &Self) -> Ordering {
        let by_draw = || other.draw.cmp(&self.draw).then(self.member.cmp(&other.member));
        if self.distance == 0 && other.distance == 0 {
            return by_draw();
        }
        let mine = u128::from(self.distance) * u128::from(other.weight);
        let theirs = u128::from(other.distance) * u128::from(self.weight);
        mine.cmp(&theirs).then_with(by_draw)
    }
}

/// The slice of picks is too short. The fault is the caller's; nothing was dealt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooSmall {
    /// How many picks it must hold.
    pub needed: usize,
}

impl fmt::Display for TooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the slice must hold {} picks", self.needed)
    }
}

impl core::error::Error for TooSmall {}

/// Which stream of draws orders zones, so that zone 7 and member 7 have nothing in common.
const ZONES: u64 = 0x7a6f_6e65_7a6f_6e65;

impl<'a> Roster<'a> {
    /// The hand of a tenant, dealt into `picks`, in the order of preference; `tenant` is its hash, see
    /// [`FlowKey`](super::FlowKey). The same on every node that has the same roster.
    /// O(n + k log k), and a logarithm per member if weights differ; no allocation.
    ///
    /// # Errors
    /// If `picks` is shorter than the hand. As many as there are members always suffice.
    pub fn deal<'b>(&self, tenant: u64, size: ShardSize, picks: &'b mut [Pick]) -> Result<&'b [Pick], TooSmall> {
        let active = |zone: &[Member]| self.active(zone);
        let quota = Quota::new(tenant, size, self.zones().map(|(_, zone)| (zone[0].zone, active(zone))));
        let needed = self.zones().map(|(_, zone)| quota.of(zone[0].zone, active(zone))).sum();
        let Some(picks) = picks.get_mut(..needed) else { return Err(TooSmall { needed }) };
        let mut rest = &mut *picks;
        for (first, zone) in self.zones() {
            let (own, others) = rest.split_at_mut(quota.of(zone[0].zone, active(zone)));
            let drawn = self.draw(tenant, first, zone).filter(|(member, _)| member.mode == Mode::Active);
            keep_first(own, drawn.map(|(_, pick)| pick));
            (0..).zip(own).for_each(|(rank, pick)| pick.rank = rank);
            rest = others;
        }
        picks.sort_unstable_by_key(|pick| (pick.rank, core::cmp::Reverse(pick.zone_draw), pick.zone));
        Ok(picks)
    }

    /// Every member in which a reader may find what the tenant wrote at any time since `window_start`: whoever is still
    /// there and was in one of its hands of at most `size` since then. In no useful order, zones uneven, and for reading
    /// only. O(n log n), no allocation.
    ///
    /// A member that joined or changed its mode in the window may or may not have been dealt before, so it comes on top
    /// and takes nobody's place; one whose weight or zone changed may have stood anywhere, so it comes in any case; one
    /// that has been read-only for longer has nothing new. Where a size has been lowered, give
    /// the greatest of the window: readers learn of a greater one first, and of a smaller one last.
    ///
    /// # Errors
    /// If `picks` is shorter than the roster.
    pub fn lookback<'b>(
        &self,
        tenant: u64,
        size: ShardSize,
        window_start: Instant,
        picks: &'b mut [Pick],
    ) -> Result<&'b [Pick], TooSmall> {
        if picks.len() < self.members.len() {
            return Err(TooSmall { needed: self.members.len() });
        }
        let moved = |member: &Member| member.placed >= window_start && member.since < window_start;
        let recent = |member: &Member| {
            member.since >= window_start || member.changed >= window_start || member.placed >= window_start
        };
        let settled = |member: &Member| member.mode == Mode::Active && !recent(member);
        let all_settled = |zone: &[Member]| zone.iter().filter(|member| settled(member)).count();
        let mut kept = 0;
        for (first, zone) in self.zones() {
            // The most this zone can have had in a hand: other zones can only have been greater then than the members
            // that have been there all along.
            let own = zone[0].zone;
            let boundless = |(_, other): (usize, &[Member])| {
                (other[0].zone, if other[0].zone == own { usize::MAX } else { all_settled(other) })
            };
            let mut room = Quota::new(tenant, size, self.zones().map(boundless)).of(own, usize::MAX);
            let start = kept;
            for (_, pick) in
                self.draw(tenant, first, zone).filter(|(member, _)| member.mode == Mode::Active || recent(member))
            {
                picks[kept] = pick;
                kept += 1;
            }
            let drawn = &mut picks[start..kept];
            let moved = |pick: &Pick| moved(&self.members[pick.index()]);
            drawn.sort_unstable_by(|a, b| moved(b).cmp(&moved(a)).then(a.order(b)));
            let within = drawn.iter().take_while(|pick| {
                let fits = room > 0 || moved(pick);
                room -= usize::from(fits && settled(&self.members[pick.index()]));
                fits
            });
            kept = start + within.count();
        }
        Ok(&picks[..kept])
    }

    /// The draws of a zone's members.
    fn draw(
        &self,
        tenant: u64,
        first: usize,
        zone: &'a [Member],
    ) -> impl Iterator<Item = (&'a Member, Pick)> + use<'a> {
        let even = self.even;
        let zone_id = zone[0].zone;
        let zone_draw = zone_draw(tenant, zone_id);
        (first as u32..).zip(zone).map(move |(index, member)| {
            let draw = mix(tenant, member.id);
            // 64 whole bits minus the logarithm of a number of 64 bits; of zero, that of one.
            let distance = if even { 0 } else { (64 << FRACTION_BITS) - log2(draw.max(1)) };
            let weight = if even { 1 } else { member.weight.get() };
            (member, Pick { member: index, rank: 0, weight, zone_draw, zone: zone_id, draw, distance })
        })
    }
}

fn zone_draw(tenant: u64, zone: u64) -> u64 {
    mix(tenant ^ ZONES, zone)
}

/// Leaves in `kept` the first of `drawn`, in their order. There are at least as many drawn as kept.
fn keep_first(kept: &mut [Pick], mut drawn: impl Iterator<Item = Pick>) {
    if kept.is_empty() {
        return;
    }
    kept.iter_mut().zip(&mut drawn).for_each(|(place, pick)| *place = pick);
    // A heap with the last of the kept on top: each of the others either replaces it or is of no interest.
    (0..kept.len() / 2).rev().for_each(|at| sift_down(kept, at));
    for pick in drawn {
        if pick.order(&kept[0]).is_lt() {
            kept[0] = pick;
            sift_down(kept, 0);
        }
    }
    kept.sort_unstable_by(Pick::order);
}

fn sift_down(heap: &mut [Pick], mut at: usize) {
    loop {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        if left >= heap.len() {
            return;
        }
        let later = if right < heap.len() && heap[right].order(&heap[left]).is_gt() { right } else { left };
        if heap[later].order(&heap[at]).is_le() {
            return;
        }
        heap.swap(at, later);
        at = later;
    }
}

/// How many members of each zone a hand has: `level` of every zone that has so many, and one more of the first few, in
/// the tenant's order, of those zones that have more.
struct Quota<Z> {
    tenant: u64,
    level: usize,
    extras: usize,
    zones: Z,
}

impl<Z: Iterator<Item = (u64, usize)> + Clone> Quota<Z> {
    /// For zones given by id and number of members.
    fn new(tenant: u64, size: ShardSize, zones: Z) -> Self {
        let (level, extras) = match size {
            ShardSize::All | ShardSize::Members(0) | ShardSize::PerZone(0) => (usize::MAX, 0),
            ShardSize::PerZone(members) => (members as usize, 0),
            ShardSize::Members(members) => level(members as usize, &zones),
        };
        Self { tenant, level, extras, zones }
    }

    /// For a zone with `members` members.
    fn of(&self, zone: u64, members: usize) -> usize {
        if members <= self.level || self.extras == 0 {
            return members.min(self.level);
        }
        let place = |zone: u64| (core::cmp::Reverse(zone_draw(self.tenant, zone)), zone);
        let own = place(zone);
        let ahead = self.zones.clone().filter(|(other, has)| *has > self.level && place(*other) < own).count();
        self.level + usize::from(ahead < self.extras)
    }
}

/// The greatest level to which `members` fill all zones, and how many are left over.
fn level<Z: Iterator<Item = (u64, usize)> + Clone>(members: usize, zones: &Z) -> (usize, usize) {
    let filled = |level: usize| zones.clone().fold(0_usize, |sum, (_, has)| sum.saturating_add(has.min(level)));
    if filled(usize::MAX) <= members {
        return (usize::MAX, 0);
    }
    // Either a zone alone has more than `members`, or all of them together do.
    let (mut low, mut high) = (0, members + 1);
    // filled(low) <= members < filled(high)
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if filled(middle) <= members { low = middle } else { high = middle }
    }
    (low, members - filled(low))
}
