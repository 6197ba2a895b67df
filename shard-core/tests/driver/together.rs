//! Drivers wired together in memory.
