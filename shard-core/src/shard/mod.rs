//! The life cycles of entities.
//!
//! [`Residents`] holds the entities of one lane: found by id in one probe, each in one [`Phase`], each with the mail that
//! waits for it. It knows nothing of nodes, sessions or streams; the region above decides when a life begins and ends.
//! May import: passivation, entity, collections, machine, ground.
//!
//! ```text
//!              create                 started              run
//!   (no slot) --------> [Starting] --------------> [Idle] <----> [Busy]
//!       ^                  ^   | failed              |             | asked to, failed
//!       |           retry  |   v                     | stop        v
//!       |                [Resting]                   +-------> [Stopping]
//!       |   no mail waits                                          |
//!       +----------------------------------------------------------+  mail waits: back to [Starting], a fresh incarnation
//! ```

mod mail;
mod residents;

pub use mail::{Mail, Origin};
pub use residents::{Leaving, Phase, Resident, Residents};
