//! The runtime of one's own keeps every promise that one node can keep, in about 150 lines.

#[path = "../src/bin/custom_runtime.rs"]
#[expect(dead_code, reason = "its `main`")]
mod custom_runtime;

use custom_runtime::Node;
use shard_core::driver::TypeConfig;
use shard_core::prelude::*;
use shard_core::sim::conformance::{Cluster, Embedding, Member, ProbeMessage, Setup, check};

struct Threads;

impl Embedding for Threads {
    fn nodes_max(&self) -> usize {
        1
    }

    fn cluster(&self, setup: &Setup) -> Box<dyn Cluster> {
        Box::new(One(setup.clone()))
    }
}

struct One(Setup);

impl Cluster for One {
    fn start(&mut self) -> Box<dyn Member> {
        let Setup { shards, passivation, .. } = self.0;
        let entities = TypeConfig { shards, passivation, ..TypeConfig::of::<ProbeMessage>() };
        Box::new(Thread(Node::start(entities, self.0.make())))
    }
}

struct Thread(Node<ProbeMessage>);

impl Member for Thread {
    fn probes(&self) -> Entities<ProbeMessage> {
        self.0.entities()
    }

    fn shards(&self) -> usize {
        unreachable!("only scenarios of several nodes ask")
    }

    fn leave(self: Box<Self>) -> bool {
        self.0.leave()
    }
}

#[test]
fn a_thread_and_a_channel_keep_every_promise_of_one_node() {
    assert!(check(&Threads) >= 15);
}

#[test]
fn it_is_a_page_of_code() {
    let lines = include_str!("../src/bin/custom_runtime.rs").lines().count();
    assert!(lines <= 180, "{lines} lines");
}
