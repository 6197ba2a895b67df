//! What tables, lanes and lists are made of: places that outlive their tenants, found by hash, ordered by use.
//!
//! Promises: every operation is O(1) unless its line says otherwise, a slab beyond a thousand places grows without
//! copying, and no order that depends on a hash can be observed. The lane puts them together: an [`Index`] finds a place
//! in a [`Slab`] by the hash of an [`EntityId`], and a [`Recency`] list over the same places knows who has slept longest.
//! May import the ground floor.

mod deadlines;
mod entity_id;
mod index;
mod recency;
mod slab;

pub use deadlines::Deadlines;
pub use entity_id::EntityId;
pub use index::Index;
pub use recency::Recency;
pub use slab::Slab;
