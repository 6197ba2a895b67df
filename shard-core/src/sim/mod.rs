//! (in work)
#[cfg(feature = "std")]
pub mod conformance;
