//! Where an aircraft's state lies between a planned stop and the next start: two files per tail number.
//!
//! The fence file names the life that claimed the state; the state file holds what the last planned stop saved. A life
//! claims before it reads, so an older one that is still about can no longer save over it. That check guards against a
//! broken promise, not against two owners at the very same instant: keeping those apart is the cluster's work.
//! Nothing is written per row: a killed process loses what it folded since its last planned stop.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Serialize, de::DeserializeOwned};
use shard_core::entity::{Failure, Fence};
use shard_core::name::Name;

use super::logbook::Logbook;

/// A directory of saved aircraft, shared by all nodes.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    directory: PathBuf,
}

impl Shelf {
    /// The shelf in `directory`, which must exist.
    pub(crate) fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Claims the aircraft for the life `fence`, then reads what was saved; an aircraft never saved starts empty.
    ///
    /// # Errors
    /// A later life has claimed it, or the files cannot be read or written.
    pub(crate) fn claim(&self, id: &str, fence: Fence) -> Result<Logbook, Failure> {
        let stamped: Option<Fence> = read(&self.path(id, "fence"))?;
        if let Some(later) = stamped.filter(|stamped| *stamped > fence) {
            return Err(format!("{id}: life {fence:?} may not claim what {later:?} holds").into());
        }
        self.write(id, "fence", fence, &fence)?;
        Ok(read(&self.path(id, "state"))?.unwrap_or_default())
    }

    /// Saves the aircraft at a planned stop of the life `fence`.
    ///
    /// # Errors
    /// Another life holds the claim, or the files cannot be read or written. The state saved before stays.
    pub(crate) fn save(&self, id: &str, fence: Fence, logbook: &Logbook) -> Result<(), Failure> {
        let stamped: Option<Fence> = read(&self.path(id, "fence"))?;
        if stamped != Some(fence) {
            return Err(format!("{id}: life {fence:?} may not save over {stamped:?}").into());
        }
        Ok(self.write(id, "state", fence, logbook)?)
    }

    fn path(&self, id: &str, what: &str) -> PathBuf {
        self.directory.join(format!("{}.{what}", Name::of(id)))
    }

    /// Writes aside and renames, so that a reader finds the old value or the new one, never half of one. Each life writes
    /// its own file aside.
    fn write(&self, id: &str, what: &str, fence: Fence, value: &impl Serialize) -> io::Result<()> {
        let Fence { token, activation } = fence;
        let aside = self.path(id, &format!("{what}.{}-{}-{}-{activation}", token.counter, token.node, token.number));
        fs::write(&aside, serde_json::to_vec(value)?)?;
        fs::rename(&aside, self.path(id, what))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A shelf in a directory of its own, for tests.
#[cfg(test)]
pub(crate) fn scratch(name: &str) -> Shelf {
    let directory = std::env::temp_dir().join(format!("shelf-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("the temporary directory is writable");
    Shelf::new(directory)
}

/// The life `activation` of the grant `number`, for tests.
#[cfg(test)]
pub(crate) fn life(number: u32, activation: u64) -> Fence {
    let token = shard_core::id::Token { counter: 1, node: shard_core::id::NodeId(1), number };
    Fence { token, activation }
}

#[cfg(test)]
impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0.directory);
    }
}

/// A scratch shelf that goes away with the test.
#[cfg(test)]
pub(crate) struct Scratch(pub(crate) Shelf);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flights::fold::sample;

    fn book(rows: u32) -> Logbook {
        let mut book = Logbook::default();
        (1..=rows).for_each(|number| {
            book.take(number, &sample(number));
        });
        book
    }

    #[test]
    fn what_a_planned_stop_saved_is_found_by_the_next_life() {
        let shelf = Scratch(scratch("next-life"));
        assert_eq!(shelf.0.claim("N1", life(1, 1)).expect("free"), Logbook::default());
        shelf.0.save("N1", life(1, 1), &book(3)).expect("claimed");
        assert_eq!(shelf.0.claim("N1", life(2, 1)).expect("older claim"), book(3));
    }

    #[test]
    fn an_older_life_can_neither_claim_nor_save() {
        let shelf = Scratch(scratch("older-life"));
        shelf.0.claim("N1", life(1, 1)).expect("free");
        shelf.0.claim("N1", life(2, 1)).expect("older claim");
        assert!(shelf.0.save("N1", life(1, 1), &book(3)).is_err());
        assert!(shelf.0.claim("N1", life(1, 2)).is_err());
        assert_eq!(shelf.0.claim("N1", life(2, 2)).expect("own claim"), Logbook::default());
    }

    #[test]
    fn ids_that_are_no_file_names_are_escaped() {
        let shelf = Scratch(scratch("escaped"));
        shelf.0.claim("../N1", life(1, 1)).expect("escaped");
        shelf.0.save("../N1", life(1, 1), &book(1)).expect("claimed");
        let files = fs::read_dir(&shelf.0.directory).expect("exists").count();
        assert_eq!(files, 2, "nothing was written elsewhere or left aside");
    }

    #[test]
    fn a_spoilt_file_is_an_error_not_an_empty_aircraft() {
        let shelf = Scratch(scratch("spoilt"));
        fs::write(shelf.0.path("N1", "state"), b"{").expect("writable");
        assert!(shelf.0.claim("N1", life(1, 1)).is_err());
    }
}
