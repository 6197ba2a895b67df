//! One node on one thread: the engine alone, on a clock that the test turns, and drivers wired together in memory.

#![allow(missing_docs)]

#[path = "driver/alone.rs"]
mod alone;
#[path = "driver/together.rs"]
mod together;
