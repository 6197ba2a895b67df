//! The id of an entity. A stand-in with the API of `collections::EntityId`, which replaces it (inline up to 22 bytes).

use alloc::{string::String, sync::Arc};
use core::fmt;

/// The id of an entity within its type: any text. Ordered and hashed by its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(Arc<str>);

impl EntityId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for EntityId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for EntityId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<String> for EntityId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
