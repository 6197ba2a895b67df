//! Shuffle sharding: every tenant gets its own small hand of queues or nodes, and few tenants share all of a hand.
//!
//! One tenant that floods or crashes whatever serves it (an *elephant*) harms its own hand and no more; another tenant
//! (a *mouse*) is hurt badly only if every card of its hand lies in the hands of elephants. How likely that is can be
//! calculated ([`Isolation`]), so a hand's size is advised rather than guessed ([`Advice`]). Isolation is only as good as
//! the identity that is hashed: a tenant that can spread over many identities reaches every card.
//!
//! | to | take | cards are |
//! |---|---|---|
//! | put requests of one process into queues | [`Dealer`], then [`QueueChooser`] | numbers `0..deck`; a changed deck deals anew |
//! | let so many handlers of an entity type run, by tenant | `Guard` (feature `alloc`) | queues, on every node |
//! | let so many requests run at a time, fairly | `FairQueues`, or `Admission`, which also holds them (feature `alloc`) | queues, by virtual time |
//! | keep tenants on nodes that come and go | [`Roster`] | members with lasting ids; one change of nodes, one change of a hand |
//! | serve the members of a hand that are up | [`usable`] | any order of members |
//! | bound what two tenants share, by search | `BoundedOverlap` (feature `alloc`) | endpoints in a `Lattice` of zones and the like |
//! | bound it by algebra | [`PolynomialHands`] | one of a prime number of nodes in each zone |
//! | follow members through crashes | `Attendance` (feature `alloc`) | members; a crash deals nothing anew before its time |
//!
//! Everything here works without `alloc`, on slices and fixed arrays, unless it says otherwise; nothing depends on the
//! order in which its input lies. May import the ground floor and the contract. It stands below `allocation`, whose
//! strategy `ByTenant` deals hands of nodes.
//!
//! ```
//! use shard_core::shuffle::{Dealer, FlowKey, QueueChooser, Waiting, Work};
//!
//! let dealer = Dealer::new(128, 6)?;
//! let key = FlowKey::new(0x5eed_5eed); // From the host: random, and the same on every node that must agree.
//! let hand = dealer.deal(key.hash("api", "tenant-42"));
//!
//! let mut queues = [Waiting { requests: 0, work: Work::ZERO }; 128];
//! let queue = QueueChooser::shortest().choose(&hand, |card| queues[card as usize]).expect("a hand has cards");
//! queues[queue as usize].requests += 1;
//! # Ok::<(), shard_core::shuffle::DealerError>(())
//! ```

#[cfg(feature = "alloc")]
mod admission;
mod advice;
#[cfg(feature = "alloc")]
mod attendance;
#[cfg(feature = "alloc")]
mod bounded;
mod dealer;
#[cfg(feature = "alloc")]
mod fair;
mod flow;
#[cfg(feature = "alloc")]
mod guard;
mod health;
mod isolation;
#[cfg(feature = "alloc")]
mod lattice;
pub(crate) mod log2;
mod polynomial;
mod queue;
mod rendezvous;
mod roster;
#[cfg(test)]
mod tests;

#[cfg(feature = "alloc")]
pub use admission::{Admission, AdmissionInput, AdmissionOutput};
pub use advice::{Advice, SeatWarning};
#[cfg(feature = "alloc")]
pub use attendance::{Attendance, Attended, Heard};
#[cfg(feature = "alloc")]
pub use bounded::{BoundedOverlap, NoShard};
pub use dealer::{Cards, DECK_MAX, Dealer, DealerError, ENTROPY_BITS_MAX, HAND_MAX, Hand, required_bits};
#[cfg(feature = "alloc")]
pub use fair::{FairConfig, FairConfigError, FairInput, FairOutput, FairQueues, FairRequest, Permit, QueueView};
pub use flow::FlowKey;
#[cfg(feature = "sha256")]
pub use flow::kubernetes_flow_hash;
#[cfg(feature = "alloc")]
pub use guard::Guard;
pub use health::{AllDown, Usable, WhenAllDown, usable};
pub use isolation::{Distribution, Isolation, IsolationError, combinations, tenants_max};
#[cfg(feature = "alloc")]
pub use lattice::{Lattice, LatticeError};
pub use polynomial::{PolynomialError, PolynomialHands};
pub use queue::{Measure, QueueBounds, QueueChooser, QueueFull, Waiting, Work, choose};
pub use rendezvous::{Pick, ShardSize, TooSmall};
pub use roster::{Member, Mode, Roster, RosterError};
