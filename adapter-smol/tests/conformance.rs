//! The list of what every embedding owes its users, on smol, and in clusters of nodes on both.

use adapter_smol::Smol;
use adapter_tokio::Tokio;
use shard_core::sim::conformance::{self, hub::Hub};

#[test]
fn smol_keeps_the_promises() {
    assert_eq!(conformance::check(&Hub::on(Smol::default())), conformance::scenarios().len());
}

#[test]
fn nodes_on_tokio_and_smol_keep_them_together() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mixed = Hub::on(Tokio::new(runtime.handle().clone())).and_on(Smol::default());
    assert_eq!(conformance::check(&mixed), conformance::scenarios().len());
}
