//! Endpoints in cells of a lattice: one coordinate per dimension that fails as a whole, such as zone and software version.

use alloc::{collections::BTreeMap, vec::Vec};
use core::fmt;

/// Where endpoints stand. A cell is one value of each dimension; values and endpoints have lasting ids. Which cells are
/// empty does not matter, nor does the order in which anything is added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lattice {
    dimensions: usize,
    /// Each with its endpoints, ascending; none is empty.
    cells: BTreeMap<Vec<u64>, Vec<u64>>,
    /// Where each endpoint stands.
    places: BTreeMap<u64, Vec<u64>>,
}

/// What cannot be done with a lattice. The fault is the caller's; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatticeError {
    /// A coordinate has too many or too few values.
    Dimensions {
        /// How many it has.
        given: usize,
        /// How many dimensions there are.
        dimensions: usize,
    },
    /// There is no such dimension.
    NoSuchDimension {
        /// The one asked for.
        dimension: usize,
        /// How many there are.
        dimensions: usize,
    },
    /// The endpoint stands in another cell. Remove it first: an endpoint in two cells would be shared without being seen.
    Elsewhere {
        /// The endpoint.
        endpoint: u64,
    },
}

impl fmt::Display for LatticeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dimensions { given, dimensions } => {
                write!(f, "a coordinate of {given} values in a lattice of {dimensions} dimensions")
            }
            Self::NoSuchDimension { dimension, dimensions } => {
                write!(f, "dimension {dimension} in a lattice of {dimensions}")
            }
            Self::Elsewhere { endpoint } => write!(f, "endpoint {endpoint} stands in another cell: remove it first"),
        }
    }
}

impl core::error::Error for LatticeError {}

impl Lattice {
    /// A lattice of `dimensions`, at least one, with nothing in it. One dimension is that of zones.
    ///
    /// # Panics
    /// If there are no dimensions.
    #[must_use]
    pub const fn new(dimensions: usize) -> Self {
        assert!(dimensions > 0, "endpoints stand somewhere");
        Self { dimensions, cells: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// Puts an endpoint into a cell. Nothing happens if it is there. O(log n + cell).
    ///
    /// # Errors
    /// If the coordinate does not fit, or the endpoint stands elsewhere.
    pub fn add(&mut self, coordinate: &[u64], endpoint: u64) -> Result<(), LatticeError> {
        if coordinate.len() != self.dimensions {
            return Err(LatticeError::Dimensions { given: coordinate.len(), dimensions: self.dimensions });
        }
        match self.places.get(&endpoint) {
            Some(place) if place == coordinate => return Ok(()),
            Some(_) => return Err(LatticeError::Elsewhere { endpoint }),
            None => self.places.insert(endpoint, coordinate.into()),
        };
        let cell = self.cells.entry(coordinate.into()).or_default();
        let at = cell.partition_point(|other| *other < endpoint);
        cell.insert(at, endpoint);
        Ok(())
    }

    /// Takes an endpoint out, and with the last of a cell the cell; whether it was there.
    pub fn remove(&mut self, endpoint: u64) -> bool {
        let Some(place) = self.places.remove(&endpoint) else { return false };
        if let Some(cell) = self.cells.get_mut(&place) {
            cell.retain(|other| *other != endpoint);
            if cell.is_empty() {
                self.cells.remove(&place);
            }
        }
        true
    }

    /// What is left when everything at `value` of `dimension` fails; the same if nothing stands there.
    ///
    /// # Errors
    /// If there is no such dimension.
    pub fn without(&self, dimension: usize, value: u64) -> Result<Self, LatticeError> {
        if dimension >= self.dimensions {
            return Err(LatticeError::NoSuchDimension { dimension, dimensions: self.dimensions });
        }
        let mut left = self.clone();
        left.cells.retain(|coordinate, _| coordinate[dimension] != value);
        left.places.retain(|_, coordinate| coordinate[dimension] != value);
        Ok(left)
    }

    /// How many dimensions there are.
    #[must_use]
    pub const fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Cells that are not empty, by coordinate, each with its endpoints in ascending order.
    pub fn cells(&self) -> impl ExactSizeIterator<Item = (&[u64], &[u64])> {
        self.cells.iter().map(|(coordinate, endpoints)| (&**coordinate, &**endpoints))
    }

    /// The endpoints of one cell, ascending; none if there is no such cell.
    #[must_use]
    pub fn cell(&self, coordinate: &[u64]) -> &[u64] {
        self.cells.get(coordinate).map_or(&[], |endpoints| endpoints)
    }

    /// How many endpoints there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many cells a shard can have if no two of them share a value of any dimension: the number of values of the
    /// dimension that has the fewest. With one dimension, every zone.
    #[must_use]
    pub fn width(&self) -> usize {
        let values = |dimension: usize| {
            let mut values: Vec<u64> = self.cells.keys().map(|coordinate| coordinate[dimension]).collect();
            values.sort_unstable();
            values.dedup();
            values.len()
        };
        (0..self.dimensions).map(values).min().unwrap_or(0)
    }
}
