//! (in work)

pub mod stream;
