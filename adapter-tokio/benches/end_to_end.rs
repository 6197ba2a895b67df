//! From a caller's `tell` or `ask` to the handler and back: on one node, to a pool of workers, and between two nodes over
//! loopback TCP.
//!
//! `cargo bench -p adapter-tokio --bench end_to_end`; figures are per message. Two workers for one node; for two nodes, a
//! runtime with one worker each. Every run checks that each message ran exactly once.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use adapter_tokio::{Node, Tokio, Workers};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::{Deserialize, Serialize};
use shard_core::entity::Accepts;
use shard_core::id::NodeId;
use shard_core::prelude::*;
use tokio::runtime::{Builder, Runtime};

const ENTITIES: usize = 1_000;

static HANDLED: AtomicU64 = AtomicU64::new(0);

#[derive(Serialize, Deserialize)]
struct Count(u64);
#[derive(Serialize, Deserialize)]
struct Wait;
#[derive(Serialize, Deserialize)]
struct Hog;
#[derive(Serialize, Deserialize)]
struct Blob(Vec<u8>);
messages! {
    enum BenchMessage as "bench" {
        1 => Count -> u64,
        2 => Wait -> (),
        3 => Hog -> (),
        4 => Blob -> (),
    }
}

#[derive(Default)]
struct Bench {
    sum: u64,
}
impl Entity for Bench {
    type Message = BenchMessage;
}
impl Handle<Count> for Bench {
    async fn handle(&mut self, Count(n): Count, _: &mut Context<'_, Self>) -> u64 {
        HANDLED.fetch_add(1, Ordering::Relaxed);
        self.sum += n;
        self.sum
    }
}
impl Handle<Wait> for Bench {
    async fn handle(&mut self, _: Wait, _: &mut Context<'_, Self>) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
}
impl Handle<Hog> for Bench {
    async fn handle(&mut self, _: Hog, _: &mut Context<'_, Self>) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
        let until = Instant::now() + Duration::from_micros(100);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}
impl Handle<Blob> for Bench {
    async fn handle(&mut self, Blob(bytes): Blob, _: &mut Context<'_, Self>) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
        self.sum += bytes.len() as u64;
    }
}

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime")
}

fn ids(count: usize) -> Arc<Vec<String>> {
    Arc::new((0..count).map(|id| format!("entity-{id:06}")).collect())
}

/// One node of its own, with every entity awake.
fn one_node(runtime: &Runtime, ids: &[String]) -> (Node, Entities<BenchMessage>) {
    runtime.block_on(async {
        let node = Node::builder("bench").start().await.expect("a node");
        let entities = node.sharding::<Bench>().shards(256).start().await.expect("a type");
        let all = HANDLED.load(Ordering::Relaxed) + ids.len() as u64;
        for id in ids {
            entities.send(id, Count(0)).await.expect("room");
        }
        while HANDLED.load(Ordering::Relaxed) < all {
            tokio::task::yield_now().await;
        }
        (node, entities)
    })
}

/// Tells `total` messages from `producers` tasks and waits until all have run.
fn tell<Q>(
    runtime: &Runtime,
    entities: &Entities<BenchMessage>,
    ids: &Arc<Vec<String>>,
    producers: u64,
    total: u64,
    make: impl Fn(u64) -> Q + Copy + Send + 'static,
) -> Duration
where
    BenchMessage: Accepts<Q>,
    Q: Send + 'static,
{
    runtime.block_on(async {
        let before = HANDLED.load(Ordering::Relaxed);
        let begun = Instant::now();
        let tasks: Vec<_> = (0..producers)
            .map(|producer| {
                let (entities, ids) = (entities.clone(), Arc::clone(ids));
                tokio::spawn(async move {
                    for n in 0..total / producers {
                        let id = &ids[((n * 7919 + producer * 31) % ids.len() as u64) as usize];
                        let mut message = make(n);
                        while let Err(refused) = entities.tell(id, message) {
                            message = refused.message;
                            tokio::task::yield_now().await;
                        }
                        if n % 64 == 63 {
                            // As the peers' benches: producers share the workers with the lanes.
                            tokio::task::consume_budget().await;
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a producer");
        }
        let all = before + total / producers * producers;
        while HANDLED.load(Ordering::Relaxed) < all {
            tokio::task::yield_now().await;
        }
        assert_eq!(HANDLED.load(Ordering::Relaxed), all, "each message runs once");
        begun.elapsed()
    })
}

/// Asks `total` questions from `flights` tasks with one in flight each.
fn ask(
    runtime: &Runtime,
    entities: &Entities<BenchMessage>,
    ids: &Arc<Vec<String>>,
    flights: u64,
    total: u64,
) -> Duration {
    runtime.block_on(async {
        let begun = Instant::now();
        let tasks: Vec<_> = (0..flights)
            .map(|flight| {
                let (entities, ids) = (entities.clone(), Arc::clone(ids));
                tokio::spawn(async move {
                    for n in 0..total / flights {
                        let id = &ids[((n + flight * 7919) % ids.len() as u64) as usize];
                        entities.ask(id, Count(1)).await.expect("an answer");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("an asker");
        }
        begun.elapsed()
    })
}

fn local(c: &mut Criterion) {
    let runtime = runtime(2);
    let few = ids(ENTITIES);
    let (node, entities) = one_node(&runtime, &few);
    let mut group = c.benchmark_group("local");
    group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(4));
    group.bench_function("tell, 2 producers, 1,000 entities", |b| {
        b.iter_custom(|n| tell(&runtime, &entities, &few, 2, n.max(2), Count));
    });
    group.bench_function("tell, 1 % of the handlers wait", |b| {
        b.iter_custom(|n| {
            let waiting = n.div_ceil(100).max(2);
            tell(&runtime, &entities, &few, 2, n.max(2), Count) + tell(&runtime, &entities, &few, 2, waiting, |_| Wait)
        });
    });
    group.bench_function("tell, every handler waits", |b| {
        b.iter_custom(|n| tell(&runtime, &entities, &few, 2, n.max(2), |_| Wait));
    });
    group.bench_function("tell, every handler hogs 100 us", |b| {
        b.iter_custom(|n| tell(&runtime, &entities, &few, 2, n.max(2), |_| Hog));
    });
    group.bench_function("ask, 1 in flight", |b| b.iter_custom(|n| ask(&runtime, &entities, &few, 1, n)));
    group.bench_function("ask, 64 in flight", |b| {
        b.iter_custom(|n| ask(&runtime, &entities, &few, 64, n.max(64)));
    });
    runtime.block_on(node.leave());

    let many = ids(1_000_000);
    let (node, entities) = one_node(&runtime, &many);
    group.bench_function("tell, 2 producers, 1 million entities", |b| {
        b.iter_custom(|n| tell(&runtime, &entities, &many, 2, n.max(2), Count));
    });
    group.finish();
    runtime.block_on(node.leave());
}

/// Pools of two workers: what the same messages cost without ids and lanes.
fn workers(c: &mut Criterion) {
    let runtime = runtime(2);
    let (node, workers) = runtime.block_on(async {
        let node = Node::builder("bench").start().await.expect("a node");
        let workers = node.workers::<Bench>().at_most(2).start().await.expect("a pool");
        (node, workers)
    });
    let mut group = c.benchmark_group("workers");
    group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(4));
    for (name, waits) in [("tell, 2 producers", false), ("tell, every handler waits", true)] {
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                runtime.block_on(async {
                    let (begun, before) = (Instant::now(), HANDLED.load(Ordering::Relaxed));
                    let send = |workers: Workers<BenchMessage>| async move {
                        for _ in 0..n.div_ceil(2) {
                            let sent = if waits {
                                workers.send(Wait).await.is_ok()
                            } else {
                                workers.send(Count(1)).await.is_ok()
                            };
                            assert!(sent, "room");
                        }
                    };
                    let producers = [tokio::spawn(send(workers.clone())), tokio::spawn(send(workers.clone()))];
                    for producer in producers {
                        producer.await.expect("a producer");
                    }
                    let all = before + n.div_ceil(2) * 2;
                    while HANDLED.load(Ordering::Relaxed) < all {
                        tokio::task::yield_now().await;
                    }
                    assert_eq!(HANDLED.load(Ordering::Relaxed), all, "each message runs once");
                    begun.elapsed()
                })
            });
        });
    }
    for flights in [1, 64] {
        group.bench_function(format!("ask, {flights} in flight"), |b| {
            b.iter_custom(|n| {
                runtime.block_on(async {
                    let begun = Instant::now();
                    let ask = |workers: Workers<BenchMessage>| async move {
                        for _ in 0..n.div_ceil(flights) {
                            workers.ask(Count(1)).await.expect("an answer");
                        }
                    };
                    let askers: Vec<_> = (0..flights).map(|_| tokio::spawn(ask(workers.clone()))).collect();
                    for asker in askers {
                        asker.await.expect("an asker");
                    }
                    begun.elapsed()
                })
            });
        });
    }
    group.finish();
    runtime.block_on(node.leave());
}

fn between_nodes(c: &mut Criterion) {
    let (host_runtime, client_runtime) = (runtime(1), runtime(1));
    let few = ids(ENTITIES);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (host, _hosted) = host_runtime.block_on(async {
        let node = Node::builder("bench").id(NodeId(1)).listener(listener).start().await.expect("a node");
        let entities = node.sharding::<Bench>().shards(64).start().await.expect("a type");
        (node, entities)
    });
    let (client, entities) = client_runtime.block_on(async {
        let tokio = Tokio::new(tokio::runtime::Handle::current());
        let voters = [(NodeId(1), address)];
        let node = Node::builder_on(tokio, "bench").listen("127.0.0.1:0").voters(voters).start().await.expect("a node");
        let entities = node.proxy::<BenchMessage>().shards(64).start().await.expect("a proxy");
        node.joined().await.expect("joined");
        for id in few.iter() {
            entities.clone().within(Duration::from_secs(30)).ask(id, Count(0)).await.expect("awake");
        }
        (node, entities)
    });
    let mut group = c.benchmark_group("tcp");
    group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(4));
    group.bench_function("tell, 100-byte body", |b| {
        b.iter_custom(|n| tell(&client_runtime, &entities, &few, 2, n.max(2), |_| Blob(vec![7; 100])));
    });
    group.bench_function("ask, 1 in flight", |b| b.iter_custom(|n| ask(&client_runtime, &entities, &few, 1, n)));
    group.bench_function("ask, 64 in flight", |b| {
        b.iter_custom(|n| ask(&client_runtime, &entities, &few, 64, n.max(64)));
    });
    group.finish();
    client_runtime.block_on(client.leave());
    host_runtime.block_on(host.leave());
}

criterion_group!(benches, local, workers, between_nodes);
criterion_main!(benches);
