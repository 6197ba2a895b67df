//! What people run first. Each program under `src/bin` is a thin door to a module here.

pub mod flights;
