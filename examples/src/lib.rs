//! What people run first. Each program under `src/bin` is a thin door to a module here.

pub mod cart;
pub mod chart;
pub mod flights;
pub mod shop;
pub mod tool;

/// The README's code must compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
