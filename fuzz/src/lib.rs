//! Fuzz bodies as ordinary functions; their corpora are replayed by `cargo test`.
