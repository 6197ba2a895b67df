//! What operators say about nodes, and what nodes measure, reaches the strategies of a live cluster.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapter_tokio::{ConfigError, Node};
use serde::{Deserialize, Serialize};
use shard_core::allocation::{
    AllocationStrategy, ClusterView, LeastShard, Needs, NodeIx, NodeView, Plan, Request, Stats, Why, ZoneIx,
};
use shard_core::id::NodeId;
use shard_core::node::Cause;
use shard_core::prelude::*;

#[derive(Serialize, Deserialize)]
struct Where;
messages! { enum ProbeMessage as "probe" { 1 => Where -> u64 } }

struct Probe(u64);
impl Entity for Probe {
    type Message = ProbeMessage;
}
impl Handle<Where> for Probe {
    async fn handle(&mut self, _: Where, _: &mut Context<'_, Self>) -> u64 {
        self.0
    }
}

type Seen = Arc<Mutex<Vec<NodeView>>>;

/// The default, which keeps what it last saw.
struct Watching(LeastShard, Seen);
impl AllocationStrategy for Watching {
    fn name(&self) -> &'static str {
        "watching"
    }
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.0.place(view, request)
    }
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        *self.1.lock().unwrap() = view.nodes().to_vec();
        self.0.plan(view, plan);
    }
}

async fn within<T>(seconds: u64, what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), future).await.unwrap_or_else(|_| panic!("{what}: not in time"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_go_only_where_the_role_is_and_strategies_see_all_that_was_said() {
    let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let voters: Vec<_> =
        (1..).map(NodeId).zip(listeners.iter().map(|listener| listener.local_addr().unwrap().to_string())).collect();
    let seen = Seen::default();
    let mut nodes = Vec::new();
    for ((id, _), listener) in voters.clone().into_iter().zip(listeners) {
        let mut builder = Node::builder("facts").id(id).listener(listener).voters(voters.clone());
        builder = builder.zone(if id.0 == 3 { "west" } else { "east" }).metadata("rack", id.0.to_string());
        builder = builder.app_version(7 + id.0).capacity(2).rebalance_interval(Duration::from_millis(200));
        if id.0 > 1 {
            builder = builder.role("backend").role(format!("number-{}", id.0));
        }
        let node = builder.start().await.expect("it starts");
        let strategy = Watching(LeastShard::default(), Arc::clone(&seen))
            .only(|view: &ClusterView<'_>, ix| view.node(ix).has_role("backend"));
        let make = move |_: &_| Probe(id.0);
        let probes =
            node.sharding::<Probe>().shards(16).allocation(strategy).start_with(make).await.expect("it starts");
        nodes.push((node, probes));
    }
    for (node, _) in &nodes {
        within(30, "joining", node.joined()).await.expect("it joins");
    }
    let mut homes = [0; 4];
    for id in 0..200 {
        let home =
            within(30, "an answer", nodes[0].1.ask(format!("probe-{id}").as_str(), Where)).await.expect("answered");
        homes[home as usize] += 1;
    }
    assert_eq!(homes[1], 0, "the first node has no such role: {homes:?}");
    assert!(homes[2] > 40 && homes[3] > 40, "{homes:?}");

    let measured = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let seen = seen.lock().unwrap().clone();
            let entities: u32 = seen.iter().filter_map(|node| node.stats).map(|stats| stats.entities).sum();
            if seen.len() == 3 && entities == 200 {
                return seen;
            }
        }
    };
    let seen = within(30, "statistics", measured).await;
    let of = |id: u64| seen.iter().find(|node| node.id.id == NodeId(id)).expect("it is in the view");
    assert_eq!(of(2).roles, ["backend", "number-2"]);
    assert_eq!((of(1).zone, of(2).zone, of(3).zone), (ZoneIx(0), ZoneIx(0), ZoneIx(1)));
    assert_eq!((of(3).metadata("rack"), of(3).version, of(3).capacity), (Some("3"), 10, 2));
    #[cfg(target_os = "linux")]
    for node in &seen {
        let stats = node.stats.expect("it said so");
        assert!(stats.memory_used > 0 && stats.memory_limit >= stats.memory_used, "{stats:?}");
        assert!(stats.cpu_permille <= 1_000, "{stats:?}");
    }
    for (node, _) in nodes.drain(1..) {
        node.leave().await;
    }
}

#[tokio::test]
async fn facts_that_are_too_long_are_refused_by_name() {
    let refused = |builder: adapter_tokio::NodeBuilder| async { builder.start().await.map(drop) };
    let long = "x".repeat(129);
    for (name, builder) in [
        ("roles", Node::builder("facts").role(long.clone())),
        ("zone", Node::builder("facts").zone(long.clone())),
        ("metadata", Node::builder("facts").metadata("a", "1").metadata("a", "2")),
        ("capacity", Node::builder("facts").capacity(0)),
    ] {
        let error = refused(builder).await.expect_err(name);
        assert!(matches!(error, ConfigError::Setting { name: found, .. } if found == name), "{error}");
    }
}

#[tokio::test]
async fn a_node_can_be_measured_by_its_user_and_name_its_strategy() {
    let seen = Seen::default();
    let measured = || Stats { cpu_permille: 123, memory_used: 4, memory_limit: 5, entities: 999 };
    let mut calls = 0;
    // The first time it panics, which ends nothing.
    let measure = move || {
        calls += 1;
        assert!(calls > 1, "as a user's code may");
        measured()
    };
    let builder = Node::builder("facts").stats(measure).zone("eu-1a").allocation_named("zone-spread");
    let node = builder.rebalance_interval(Duration::from_millis(100)).start().await.expect("it starts");
    let strategy = Watching(LeastShard::default(), Arc::clone(&seen));
    let probes = node.sharding::<Probe>().allocation(strategy).start_with(|_| Probe(1)).await.expect("it starts");
    within(10, "an answer", probes.ask("probe-1", Where)).await.expect("answered");
    let said = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let seen = seen.lock().unwrap().first().map(|node| (node.stats, node.zone_name.clone()));
            if let Some((Some(stats @ Stats { entities: 1, cpu_permille: 1.., .. }), zone)) = seen {
                return (stats, zone);
            }
        }
    };
    let (stats, zone) = within(10, "what was measured", said).await;
    assert_eq!((stats, zone.as_str()), (Stats { entities: 1, ..measured() }, "eu-1a"));
    node.leave().await;

    let error = Node::builder("facts").allocation_named("zone-sprad").start().await.expect_err("it is refused");
    assert!(matches!(&error, ConfigError::UnknownStrategy(unknown) if unknown.name == "zone-sprad"), "{error}");
    assert!(error.to_string().contains("zone-spread"), "{error}");
}

type Loads = Arc<Mutex<Vec<Option<u32>>>>;

/// The default, which keeps the loads that it last saw.
struct Weighing(LeastShard, Loads);
impl AllocationStrategy for Weighing {
    fn name(&self) -> &'static str {
        "weighing"
    }
    fn needs(&self) -> Needs {
        Needs::NOTHING.with_loads()
    }
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.0.place(view, request)
    }
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        *self.1.lock().unwrap() = view.shards().map(|shard| view.load(shard)).collect();
        self.0.plan(view, plan);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strategies_see_what_each_shard_is_used_and_operators_why_it_is_where_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let voters = [(NodeId(1), listener.local_addr().unwrap().to_string())];
    let seen = Loads::default();
    let mut nodes = Vec::new();
    for id in 1..=2 {
        let builder = Node::builder("loads").voters(voters.clone()).rebalance_interval(Duration::from_millis(100));
        let builder = if id == 1 {
            builder.id(NodeId(1)).listener(listener.try_clone().unwrap())
        } else {
            builder.listen("127.0.0.1:0")
        };
        let node = builder.start().await.expect("it starts");
        let strategy = Weighing(LeastShard::default(), Arc::clone(&seen));
        let make = move |_: &_| Probe(id);
        let probes = node.sharding::<Probe>().shards(8).allocation(strategy).start_with(make).await.expect("it starts");
        within(30, "joining", node.joined()).await.expect("it joins");
        if id == 1 {
            // All shards are placed before the other node comes.
            for number in 0..100 {
                within(30, "an answer", probes.ask(format!("probe-{number}"), Where)).await.expect("answered");
            }
        }
        nodes.push((node, probes));
    }
    let moved = async {
        for number in (0..100).cycle() {
            let why = nodes[0].0.explain::<Probe>(format!("probe-{number}")).await.expect("it is the coordinator");
            let held = why.tenure.expect("it is somebody's");
            if let Cause::Moved { from: NodeId(1), why } = held.cause {
                assert_eq!(why, Why::Count);
                assert_ne!(held.owner, NodeId(1));
                return;
            }
            assert!(matches!(held.cause, Cause::Placed { asker: Some(NodeId(1)) }), "{held:?}");
        }
    };
    within(60, "a move", moved).await;
    assert_eq!(nodes[1].0.explain::<Probe>("probe-1").await, None, "it is not the coordinator");
    // All shards are awake; an entity of each node gets so much mail that its shard has by far the greatest load of all.
    let mut busy: [Option<String>; 2] = [const { None }; 2];
    for number in 0..100 {
        let id = format!("probe-{number}");
        let home = within(30, "an answer", nodes[0].1.ask(id.as_str(), Where)).await.expect("answered");
        busy[home as usize - 1].get_or_insert(id);
    }
    let busy = busy.map(|id| id.expect("both nodes have shards"));
    let known = async {
        loop {
            for id in busy.iter().flat_map(|id| [id; 50]) {
                nodes[0].1.ask(id.as_str(), Where).await.expect("answered");
            }
            let seen = seen.lock().unwrap().clone();
            // Two shards do nearly all there is to do, and the other six next to nothing.
            let mut loads: Vec<u32> = seen.into_iter().flatten().collect();
            loads.sort_unstable();
            if loads.len() == 8 && loads[6] > 1_000 && loads[5] < loads[6] / 10 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(60, "loads", known).await;
    for (node, _) in nodes.drain(1..) {
        node.leave().await;
    }
}
