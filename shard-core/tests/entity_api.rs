//! The surface that applications touch, used as they use it: entities on `Solo`, references over a small route, the
//! codec between two "nodes", and what a turn costs.
#![cfg(feature = "alloc")]
// Messages are `pub`, as their readers will write them.
#![allow(unreachable_pub)]

#[path = "entity_api/cost.rs"]
mod cost;
#[path = "entity_api/references.rs"]
mod references;
#[path = "entity_api/solo.rs"]
mod solo;
#[cfg(feature = "wire")]
#[path = "entity_api/wire.rs"]
mod wire;

/// The counter of the front page.
mod counter {
    use shard_core::prelude::*;

    #[derive(Debug, PartialEq)]
    pub struct Add(pub u64);
    pub struct Get;
    messages! { pub enum CounterMessage as "counter" { Add -> (), Get -> u64 } }

    #[derive(Default)]
    pub struct Counter {
        pub sum: u64,
    }

    impl Entity for Counter {
        type Message = CounterMessage;
    }

    impl Handle<Add> for Counter {
        async fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) {
            self.sum += n;
        }
    }

    impl Handle<Get> for Counter {
        async fn handle(&mut self, _: Get, _: &mut Context<'_, Self>) -> u64 {
            self.sum
        }
    }
}
