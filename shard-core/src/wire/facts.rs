//! What an operator says about a node, and it says to the coordinator: what placement rules look at.

use alloc::{string::String, vec::Vec};

/// What an operator says about a node; strategies and filters see it in their
/// [`NodeView`](crate::allocation::NodeView). It goes to the coordinator with the node's report of its types and shards.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Facts {
    /// What it is for.
    pub roles: Vec<String>,
    /// Where it stands: a rack, a data centre; empty: not said.
    pub zone: String,
    /// Anything else, by key.
    pub metadata: Vec<(String, String)>,
    /// The version of the application it runs; a greater one is newer.
    pub version: u64,
    /// How much it can carry, compared to other nodes; 1 unless said otherwise.
    pub capacity: u32,
}

impl Default for Facts {
    fn default() -> Self {
        Self { roles: Vec::new(), zone: String::new(), metadata: Vec::new(), version: 0, capacity: 1 }
    }
}

impl Facts {
    /// Roles, at most.
    pub const ROLES_MAX: usize = 32;
    /// Metadata, at most.
    pub const METADATA_MAX: usize = 32;
    /// Bytes of one text, at most.
    pub const TEXT_MAX: usize = 128;

    /// What is wrong with them, as a setting and what it must be. A coordinator takes facts of which something is wrong for
    /// facts of which nothing is said.
    ///
    /// # Errors
    /// There are too many, one is too long, a key is there twice, or the capacity is zero.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let long = |text: &String| text.len() > Self::TEXT_MAX;
        if self.roles.len() > Self::ROLES_MAX || self.roles.iter().any(long) {
            return Err(("roles", "at most 32, of at most 128 bytes each"));
        }
        if long(&self.zone) {
            return Err(("zone", "at most 128 bytes long"));
        }
        if self.metadata.len() > Self::METADATA_MAX || self.metadata.iter().any(|(key, value)| long(key) || long(value))
        {
            return Err(("metadata", "at most 32 pairs, of at most 128 bytes each side"));
        }
        let twice =
            |(at, (key, _)): (usize, &(String, String))| self.metadata[..at].iter().any(|(other, _)| other == key);
        if self.metadata.iter().enumerate().any(twice) {
            return Err(("metadata", "one value for each key"));
        }
        if self.capacity == 0 {
            return Err(("capacity", "at least 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    #[test]
    fn facts_have_bounds() {
        assert_eq!(Facts::default().check(), Ok(()));
        let long = "x".repeat(Facts::TEXT_MAX + 1);
        let pair = |key: &str| (key.to_owned(), String::new());
        let wrong = |facts: Facts| facts.check().unwrap_err().0;
        assert_eq!(wrong(Facts { roles: [long.clone()].into(), ..Facts::default() }), "roles");
        assert_eq!(wrong(Facts { roles: alloc::vec![String::new(); 33], ..Facts::default() }), "roles");
        assert_eq!(wrong(Facts { zone: long.clone(), ..Facts::default() }), "zone");
        assert_eq!(wrong(Facts { metadata: [pair("a"), pair("b"), pair("a")].into(), ..Facts::default() }), "metadata");
        assert_eq!(wrong(Facts { metadata: [("a".to_owned(), long)].into(), ..Facts::default() }), "metadata");
        assert_eq!(wrong(Facts { capacity: 0, ..Facts::default() }), "capacity");
    }
}
