//! Clusters of real nodes over loopback TCP, in one process.

use std::net::TcpListener;
use std::time::Duration;

use adapter_tokio::Node;
use serde::{Deserialize, Serialize};
use shard_core::id::NodeId;
use shard_core::prelude::*;

#[derive(Serialize, Deserialize)]
struct Add(u64);
#[derive(Serialize, Deserialize)]
struct Get;
messages! {
    enum CounterMessage as "counter" {
        1 => Add -> u64,
        2 => Get -> Vec<u64>,
    }
}

#[derive(Default)]
struct Counter {
    seen: Vec<u64>,
}
impl Entity for Counter {
    type Message = CounterMessage;
}
impl Handle<Add> for Counter {
    async fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) -> u64 {
        self.seen.push(n);
        self.seen.len() as u64
    }
}
impl Handle<Get> for Counter {
    async fn handle(&mut self, _: Get, _: &mut Context<'_, Self>) -> Vec<u64> {
        self.seen.clone()
    }
}

async fn within<T>(seconds: u64, what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), future).await.unwrap_or_else(|_| panic!("{what}: not in time"))
}

async fn cluster(size: u64) -> Vec<(Node, Entities<CounterMessage>)> {
    let listeners: Vec<_> = (0..size).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let voters: Vec<_> =
        (1..).map(NodeId).zip(listeners.iter().map(|l| l.local_addr().unwrap().to_string())).take(3).collect();
    let mut nodes = Vec::new();
    for (id, listener) in (1..).zip(listeners) {
        let node =
            Node::builder("test").id(NodeId(id)).listener(listener).voters(voters.clone()).start().await.unwrap();
        let counters = node.sharding::<Counter>().shards(16).start().await.unwrap();
        nodes.push((node, counters));
    }
    for (node, _) in &nodes {
        within(30, "joining", node.joined()).await.unwrap();
    }
    nodes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_starts_at_once_and_answers() {
    let node = Node::builder("one").start().await.unwrap();
    let counters = node.sharding::<Counter>().start().await.unwrap();
    for n in 0..100 {
        counters.tell("a", Add(n)).unwrap();
    }
    let seen = within(5, "the answer", counters.ask("a", Get)).await.unwrap();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    assert!(within(5, "leaving", node.leave()).await.clean);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_reach_every_entity_from_everywhere_in_order() {
    let nodes = cluster(3).await;
    for (at, (_, counters)) in nodes.iter().enumerate() {
        for id in 0..50 {
            for n in 0..20 {
                counters.tell(format!("e-{at}-{id}"), Add(n)).unwrap();
            }
        }
    }
    for (at, (_, counters)) in nodes.iter().enumerate() {
        for id in 0..50 {
            let seen = within(20, "the answer", counters.ask(format!("e-{at}-{id}"), Get)).await.unwrap();
            assert_eq!(seen, (0..20).collect::<Vec<_>>(), "e-{at}-{id}");
        }
    }
    for (node, _) in &nodes {
        println!("{:?}", node.status());
    }
}
