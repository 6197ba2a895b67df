//! Shards of which no two share more than a bound: searched for, remembered, and released.
//!
//! The rule is that of AWS's Infima (a shard spreads over cells of a lattice of which no two share a value of any
//! dimension); the search is ours: it tries everything before it says that there is nothing, and it never answers with part
//! of a shard.

use alloc::{collections::BTreeMap, vec, vec::Vec};
use core::fmt;

use super::lattice::Lattice;
use crate::prng::mix;

/// Why a tenant has no shard. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoShard {
    /// The lattice has no such shard, whoever else has which: too few cells apart from each other have so many endpoints.
    /// Add endpoints, or ask for fewer.
    TooSmall {
        /// How many cells a shard takes.
        cells: usize,
        /// How many endpoints of each.
        per_cell: usize,
    },
    /// Every shard that there is shares too much with one that somebody has. Release some, add endpoints, or raise the
    /// bound.
    Exhausted {
        /// How many shards are assigned.
        assigned: usize,
    },
    /// The search took too long: there may be a shard or not. Allow it more steps, or do as for
    /// [`Exhausted`](Self::Exhausted).
    GaveUp {
        /// How many steps it made.
        steps: u64,
    },
    /// Another shard shares more than the bound with the one that was to be adopted: the record is damaged, or was written
    /// under a greater bound.
    Overlaps {
        /// Whose shard.
        tenant: u64,
    },
}

impl fmt::Display for NoShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { cells, per_cell } => {
                write!(f, "no {cells} cells apart from each other have {per_cell} endpoints each: add endpoints")
            }
            Self::Exhausted { assigned } => {
                write!(f, "every shard left shares too much with one of the {assigned} assigned: release some")
            }
            Self::GaveUp { steps } => write!(f, "no shard found in {steps} steps: allow more"),
            Self::Overlaps { tenant } => write!(f, "the shard shares too much with that of tenant {tenant:016x}"),
        }
    }
}

impl core::error::Error for NoShard {}

/// Assigns shards to tenants such that no two share more than a bound. It holds every shard assigned; write them down, and
/// [`adopt`](Self::adopt) them after a restart.
#[derive(Clone, Debug)]
pub struct BoundedOverlap {
    overlap_max: usize,
    steps_max: u64,
    shards: BTreeMap<u64, Assigned>,
    /// Who has each endpoint: seats of [`Assigned`].
    holders: BTreeMap<u64, Vec<u32>>,
    /// Seats that released tenants left.
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Assigned {
    /// A small number that nobody else has, to count by.
    seat: u32,
    endpoints: Vec<u64>,
}

impl BoundedOverlap {
    /// No two tenants share more than `overlap_max` endpoints. A bound of a shard's size or more is none.
    #[must_use]
    pub const fn new(overlap_max: usize) -> Self {
        Self { overlap_max, steps_max: 1_000_000, shards: BTreeMap::new(), holders: BTreeMap::new(), free: Vec::new() }
    }

    /// How many steps one search may take; a million unless said otherwise.
    #[must_use]
    pub fn searching_for(self, steps_max: u64) -> Self {
        Self { steps_max, ..self }
    }

    /// The shard of `tenant` (its hash): the one it has, or a fresh one of `per_cell` endpoints in each of
    /// [`Lattice::width`] cells that share no value of any dimension. Endpoints that few have come first, then those that
    /// the tenant's hash prefers, so load stays even and the answer depends on nothing but the calls made before.
    ///
    /// Every choice is tried before it fails: O(steps allowed) at worst, a few steps while there is room.
    ///
    /// # Errors
    /// If there is no shard, or none was found in the steps allowed: [`NoShard`] says which.
    pub fn assign(&mut self, tenant: u64, lattice: &Lattice, per_cell: usize) -> Result<&[u64], NoShard> {
        if !self.shards.contains_key(&tenant) {
            let endpoints = self.search(tenant, lattice, per_cell)?;
            self.record(tenant, endpoints);
        }
        Ok(&self.shards[&tenant].endpoints)
    }

    /// Takes up a shard that was assigned in an earlier life.
    ///
    /// # Errors
    /// If it shares more than the bound with another tenant's.
    pub fn adopt(&mut self, tenant: u64, endpoints: &[u64]) -> Result<(), NoShard> {
        let mut endpoints = endpoints.to_vec();
        endpoints.sort_unstable();
        endpoints.dedup();
        let former = self.shards.get(&tenant).map(|assigned| assigned.seat);
        let shared = |other: &Assigned| other.endpoints.iter().filter(|it| endpoints.contains(it)).count();
        let size = endpoints.len();
        let clash = self.shards.iter().find(|(_, other)| {
            let bound = if other.endpoints.len().min(size) <= self.overlap_max { usize::MAX } else { self.overlap_max };
            Some(other.seat) != former && shared(other) > bound
        });
        if let Some((tenant, _)) = clash {
            return Err(NoShard::Overlaps { tenant: *tenant });
        }
        self.release(tenant);
        self.record(tenant, endpoints);
        Ok(())
    }

    /// Gives a tenant's shard up, so that others may share more of it; whether it had one.
    pub fn release(&mut self, tenant: u64) -> bool {
        let Some(Assigned { seat, endpoints }) = self.shards.remove(&tenant) else { return false };
        for endpoint in endpoints {
            if let Some(holders) = self.holders.get_mut(&endpoint) {
                holders.retain(|holder| *holder != seat);
                if holders.is_empty() {
                    self.holders.remove(&endpoint);
                }
            }
        }
        self.free.push(seat);
        true
    }

    /// The shard of a tenant, ascending.
    #[must_use]
    pub fn shard(&self, tenant: u64) -> Option<&[u64]> {
        self.shards.get(&tenant).map(|assigned| &*assigned.endpoints)
    }

    /// Every tenant with its shard, by tenant: what to write down, and what an inspection shows.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (u64, &[u64])> {
        self.shards.iter().map(|(tenant, assigned)| (*tenant, &*assigned.endpoints))
    }

    /// Who is harmed, and by how many endpoints, when `failed` are down: the blast radius of a failure, by tenant.
    /// O(tenants x shard x failed).
    pub fn harmed(&self, failed: &[u64]) -> impl Iterator<Item = (u64, usize)> {
        self.shards().filter_map(move |(tenant, shard)| {
            let lost = shard.iter().filter(|endpoint| failed.contains(endpoint)).count();
            (lost > 0).then_some((tenant, lost))
        })
    }

    fn record(&mut self, tenant: u64, endpoints: Vec<u64>) {
        let seat = self.free.pop().unwrap_or(self.shards.len() as u32);
        endpoints.iter().for_each(|endpoint| self.holders.entry(*endpoint).or_default().push(seat));
        self.shards.insert(tenant, Assigned { seat, endpoints });
    }

    fn search(&self, tenant: u64, lattice: &Lattice, per_cell: usize) -> Result<Vec<u64>, NoShard> {
        let size = lattice.width() * per_cell;
        let popularity = |endpoint| self.holders.get(&endpoint).map_or(0, Vec::len);
        // A bound that no shard can break need not be counted.
        let bound = (self.overlap_max < size).then_some(self.overlap_max as u32);
        let mut search = Search::new(tenant, lattice, per_cell, popularity, self.steps_max);
        search.bound = bound;
        search.holders = Some(&self.holders);
        search.shared = vec![0; self.shards.len() + self.free.len()];
        match search.run() {
            Found::Shard(shard) => Ok(shard),
            Found::TooManySteps => Err(NoShard::GaveUp { steps: self.steps_max }),
            Found::Nothing if bound.is_none() => Err(NoShard::TooSmall { cells: lattice.width(), per_cell }),
            // Is it the others, or the lattice?
            Found::Nothing => match Search::new(tenant, lattice, per_cell, |_| 0, self.steps_max).run() {
                Found::Nothing => Err(NoShard::TooSmall { cells: lattice.width(), per_cell }),
                _ => Err(NoShard::Exhausted { assigned: self.shards.len() }),
            },
        }
    }
}

impl Lattice {
    /// The shard of a tenant by its hash alone, without a bound on what tenants share and without memory: `per_cell`
    /// endpoints in each of [`width`](Self::width) cells that share no value of any dimension, ascending. With one dimension
    /// (zones) a change of endpoints changes a shard by one per cell at most; with more, the cells may change.
    ///
    /// # Errors
    /// [`NoShard::TooSmall`] if there is no such shard, and [`NoShard::GaveUp`] after a million steps.
    pub fn shard(&self, tenant: u64, per_cell: usize) -> Result<Vec<u64>, NoShard> {
        const STEPS_MAX: u64 = 1_000_000;
        match Search::new(tenant, self, per_cell, |_| 0, STEPS_MAX).run() {
            Found::Shard(shard) => Ok(shard),
            Found::Nothing => Err(NoShard::TooSmall { cells: self.width(), per_cell }),
            Found::TooManySteps => Err(NoShard::GaveUp { steps: STEPS_MAX }),
        }
    }
}

enum Found {
    Shard(Vec<u64>),
    Nothing,
    TooManySteps,
}

/// Goes through the shards of a lattice in a tenant's order until one is allowed.
struct Search<'a> {
    /// Coordinates and endpoints, in the order in which they are tried.
    cells: Vec<(&'a [u64], Vec<u64>)>,
    width: usize,
    per_cell: usize,
    bound: Option<u32>,
    holders: Option<&'a BTreeMap<u64, Vec<u32>>>,
    /// Per seat: how many of the chosen endpoints it has.
    shared: Vec<u32>,
    steps_left: u64,
    chosen_cells: Vec<usize>,
    chosen: Vec<u64>,
}

/// Which stream of draws orders cells.
const CELLS: u64 = 0x6365_6c6c_6365_6c6c;

impl<'a> Search<'a> {
    fn new(
        tenant: u64,
        lattice: &'a Lattice,
        per_cell: usize,
        popularity: impl Fn(u64) -> usize,
        steps_left: u64,
    ) -> Self {
        let cell_draw = |coordinate: &[u64]| coordinate.iter().fold(tenant ^ CELLS, |draw, value| mix(draw, *value));
        let enough = lattice.cells().filter(|(_, endpoints)| endpoints.len() >= per_cell);
        let mut cells: Vec<_> = enough
            .map(|(coordinate, endpoints)| {
                let mut endpoints = endpoints.to_vec();
                endpoints.sort_by_cached_key(|endpoint| (popularity(*endpoint), mix(tenant, *endpoint)));
                (coordinate, endpoints)
            })
            .collect();
        cells.sort_by_cached_key(|(coordinate, _)| cell_draw(coordinate));
        let (shared, chosen_cells, chosen) = (Vec::new(), Vec::new(), Vec::new());
        let (width, bound, holders) = (lattice.width(), None, None);
        Self { cells, width, per_cell, bound, holders, shared, steps_left, chosen_cells, chosen }
    }

    fn run(mut self) -> Found {
        if self.width == 0 || self.per_cell == 0 {
            return Found::Nothing;
        }
        match self.choose_cell(0) {
            Some(true) => {
                self.chosen.sort_unstable();
                Found::Shard(self.chosen)
            }
            Some(false) => Found::Nothing,
            None => Found::TooManySteps,
        }
    }

    /// Completes the shard with cells from `from` on; `None`: out of steps.
    fn choose_cell(&mut self, from: usize) -> Option<bool> {
        if self.chosen_cells.len() == self.width {
            return Some(true);
        }
        for cell in from..self.cells.len() {
            self.steps_left = self.steps_left.checked_sub(1)?;
            let (coordinate, chosen) = (self.cells[cell].0, &self.chosen_cells);
            let apart = |other: &usize| self.cells[*other].0.iter().zip(coordinate).all(|(a, b)| a != b);
            if !chosen.iter().all(apart) {
                continue;
            }
            self.chosen_cells.push(cell);
            if self.choose_endpoint(cell, 0, self.per_cell)? {
                return Some(true);
            }
            self.chosen_cells.pop();
        }
        Some(false)
    }

    /// Takes `needed` endpoints of a cell from `from` on, and completes the shard.
    fn choose_endpoint(&mut self, cell: usize, from: usize, needed: usize) -> Option<bool> {
        if needed == 0 {
            return self.choose_cell(cell + 1);
        }
        for at in from..=self.cells[cell].1.len() - needed {
            self.steps_left = self.steps_left.checked_sub(1)?;
            let endpoint = self.cells[cell].1[at];
            let allowed = self.count(endpoint, 1);
            if allowed {
                self.chosen.push(endpoint);
                if self.choose_endpoint(cell, at + 1, needed - 1)? {
                    return Some(true);
                }
                self.chosen.pop();
            }
            self.count(endpoint, -1);
            if self.cells[cell].1.len() < at + 1 + needed {
                break;
            }
        }
        Some(false)
    }

    /// Counts an endpoint for, or no longer for, everybody who has it; whether nobody shares too much.
    fn count(&mut self, endpoint: u64, by: i32) -> bool {
        let (Some(bound), Some(holders)) = (self.bound, self.holders) else { return true };
        let mut allowed = true;
        for seat in holders.get(&endpoint).into_iter().flatten() {
            let shared = &mut self.shared[*seat as usize];
            *shared = shared.wrapping_add_signed(by);
            allowed &= *shared <= bound;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::super::tenants_max;
    use super::*;
    use alloc::collections::BTreeSet;

    /// One dimension, zones `0..zones`, each with its endpoints.
    fn zones(zones: &[&[u64]]) -> Lattice {
        let mut lattice = Lattice::new(1);
        for (zone, endpoints) in (0..).zip(zones) {
            endpoints.iter().for_each(|endpoint| lattice.add(&[zone], *endpoint).expect("fresh"));
        }
        lattice
    }

    fn one_zone(endpoints: u64) -> Lattice {
        zones(&[&(0..endpoints).collect::<Vec<_>>()])
    }

    /// Assigns until there is no more, and checks every pair.
    fn fill(sharder: &mut BoundedOverlap, lattice: &Lattice, per_cell: usize, bound: usize) -> (usize, NoShard) {
        let mut shards: Vec<Vec<u64>> = Vec::new();
        for tenant in 0.. {
            match sharder.assign(mix(1, tenant), lattice, per_cell) {
                Ok(shard) => {
                    assert_eq!(shard.len(), lattice.width() * per_cell, "never part of a shard");
                    for other in &shards {
                        assert!(shard.iter().filter(|it| other.contains(it)).count() <= bound, "{shard:?}, {other:?}");
                    }
                    shards.push(shard.to_vec());
                }
                Err(why) => return (shards.len(), why),
            }
        }
        unreachable!("endpoints are finite")
    }

    #[test]
    fn about_as_many_shards_as_the_original_finds_and_no_more_than_can_be() {
        // Endpoints, per shard, bound, and the least that Infima's random search found in five runs.
        for (endpoints, size, bound, least) in [
            (5, 4, 2, 1),
            (20, 4, 2, 215),
            (20, 4, 1, 22),
            (12, 3, 1, 18),
            (8, 2, 1, 28),
            (5, 3, 1, 2),
            (50, 4, 1, 166),
        ] {
            let (found, why) = fill(&mut BoundedOverlap::new(bound), &one_zone(endpoints), size, bound);
            std::println!("{size} of {endpoints}, {bound} shared: {found} shards");
            assert_eq!(why, NoShard::Exhausted { assigned: found });
            // Both are greedy, and how far greed gets varies by some 3 % with the order of the draws.
            assert!(found * 20 >= least * 19, "{size} of {endpoints}, {bound} shared: {found}, not {least}");
            assert!(found as u128 <= tenants_max(endpoints as u32, size as u32, bound as u32));
        }
    }

    #[test]
    fn shards_spread_over_zones_and_over_every_dimension() {
        let ten = |from: u64| (from..from + 10).collect::<Vec<_>>();
        let two_zones = zones(&[&ten(0), &ten(10)]);
        assert!(fill(&mut BoundedOverlap::new(2), &two_zones, 2, 2).0 >= 45);
        let mut square = Lattice::new(2);
        (0..20).for_each(|it| square.add(&[it % 2, it / 2 % 2], it).expect("fresh"));
        let mut sharder = BoundedOverlap::new(2);
        assert!(fill(&mut sharder, &square, 2, 2).0 >= 20);
        for (_, shard) in sharder.shards() {
            let cells: BTreeSet<_> = shard.iter().map(|it| (it % 2, it / 2 % 2)).collect();
            let cells: Vec<_> = cells.into_iter().collect();
            assert!(cells.len() == 2 && cells[0].0 != cells[1].0 && cells[0].1 != cells[1].1, "{cells:?}");
        }
    }

    #[test]
    fn a_zone_that_is_used_up_is_told_and_never_left_out() {
        // The original answered with one endpoint instead of two.
        let lattice = zones(&[&[1, 2, 3], &[9]]);
        let mut sharder = BoundedOverlap::new(0);
        assert_eq!(sharder.assign(1, &lattice, 1).map(<[u64]>::len), Ok(2));
        assert_eq!(sharder.assign(2, &lattice, 1), Err(NoShard::Exhausted { assigned: 1 }));
        assert_eq!(sharder.assign(1, &lattice, 1).map(<[u64]>::len), Ok(2), "who has a shard keeps it");
        // The original panicked.
        assert_eq!(sharder.assign(2, &lattice, 2), Err(NoShard::TooSmall { cells: 2, per_cell: 2 }));
        assert_eq!(BoundedOverlap::new(9).assign(2, &zones(&[]), 1), Err(NoShard::TooSmall { cells: 0, per_cell: 1 }));
        let few_steps = BoundedOverlap::new(0).searching_for(1).assign(1, &lattice, 1).err();
        assert_eq!(few_steps, Some(NoShard::GaveUp { steps: 1 }));
    }

    #[test]
    fn a_bound_as_great_as_a_shard_is_none() {
        let mut sharder = BoundedOverlap::new(4);
        for tenant in 0..100 {
            assert_eq!(sharder.assign(tenant, &one_zone(4), 4), Ok(&[0, 1, 2, 3][..]));
        }
    }

    #[test]
    fn releasing_makes_room_and_adopting_restores() {
        let lattice = one_zone(8);
        let mut sharder = BoundedOverlap::new(1);
        let (found, _) = fill(&mut sharder, &lattice, 2, 1);
        assert_eq!(found, 28);
        let (tenant, shard) = sharder.shards().next().map(|(tenant, shard)| (tenant, shard.to_vec())).expect("one");
        assert!(sharder.release(tenant) && !sharder.release(tenant));
        assert_eq!(sharder.assign(77, &lattice, 2), Ok(&*shard), "the one that is free");
        let mut restored = BoundedOverlap::new(1);
        sharder.shards().for_each(|(tenant, shard)| restored.adopt(tenant, shard).expect("as it was"));
        assert!(restored.shards().eq(sharder.shards()));
        assert_eq!(restored.adopt(5, &shard), Err(NoShard::Overlaps { tenant: 77 }));
        assert_eq!(restored.harmed(&shard).map(|(_, lost)| lost).sum::<usize>(), 2 * 7);
    }

    #[test]
    fn sparse_lattices_are_searched_to_the_end() {
        // The only two cells apart from each other are the corners; the original failed on half of the ids.
        let mut lattice = Lattice::new(2);
        for (x, y, endpoint) in [(0, 0, 1), (0, 1, 2), (1, 1, 3)] {
            lattice.add(&[x, y], endpoint).expect("fresh");
        }
        for tenant in 0..100 {
            assert_eq!(lattice.shard(tenant, 1), Ok(vec![1, 3]));
        }
        assert_eq!(lattice.shard(1, 2), Err(NoShard::TooSmall { cells: 2, per_cell: 2 }));
    }

    #[test]
    fn failures_compose() {
        let mut lattice = Lattice::new(2);
        (0..20).for_each(|it| lattice.add(&[it % 2, it / 2 % 2], it).expect("fresh"));
        let half = lattice.without(0, 1).expect("a dimension");
        let quarter = half.without(1, 0).expect("a dimension");
        assert_eq!((half.len(), quarter.len(), half.without(0, 7).map(|it| it.len())), (10, 5, Ok(10)));
        assert_eq!(
            lattice.without(2, 0).map(|_| ()),
            Err(super::super::LatticeError::NoSuchDimension { dimension: 2, dimensions: 2 })
        );
        assert!(lattice.remove(0) && !lattice.remove(0) && lattice.cell(&[9, 9]).is_empty());
        assert!(lattice.add(&[0], 1).is_err() && lattice.add(&[0, 0], 1).is_err() && lattice.add(&[1, 0], 1).is_ok());
    }
}
