//! The list of what every embedding owes its users, on tokio.

use adapter_tokio::Tokio;
use shard_core::sim::conformance::{self, hub::Hub};

#[test]
fn tokio_keeps_the_promises() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let held = conformance::check(&Hub::on(Tokio::new(runtime.handle().clone())));
    assert_eq!(held, conformance::scenarios().len());
}
