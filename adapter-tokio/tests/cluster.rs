//! Clusters of real nodes over loopback TCP, in one process.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use adapter_tokio::{ConfigError, Event, Node};
use serde::{Deserialize, Serialize};
use shard_core::entity::{Fate, NoReply};
use shard_core::hash::ShardHash;
use shard_core::id::NodeId;
use shard_core::prelude::*;

#[derive(Serialize, Deserialize)]
struct Add(u64);
#[derive(Serialize, Deserialize)]
struct Get;
/// Answers with what it brought, so many times.
#[derive(Serialize, Deserialize)]
struct Echo(Vec<u8>, usize);
messages! {
    enum CounterMessage as "counter" {
        1 => Add -> u64,
        2 => Get -> Vec<u64>,
        3 => Echo -> Vec<u8>,
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
impl Handle<Echo> for Counter {
    async fn handle(&mut self, Echo(what, times): Echo, _: &mut Context<'_, Self>) -> Vec<u8> {
        what.repeat(times)
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

/// One more node, which is no voter.
async fn joiner(nodes: &[(Node, Entities<CounterMessage>)]) -> (Node, Entities<CounterMessage>) {
    let voters: Vec<_> = nodes.iter().take(3).map(|(node, _)| (node.key().id, node.address().to_string())).collect();
    let node = Node::builder("test").listen("127.0.0.1:0").voters(voters).start().await.unwrap();
    let counters = node.sharding::<Counter>().shards(16).start().await.unwrap();
    within(30, "joining", node.joined()).await.unwrap();
    (node, counters)
}

async fn until(seconds: u64, what: &str, mut holds: impl FnMut() -> bool) {
    within(seconds, what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

fn owned(node: &Node) -> usize {
    node.status().shards.iter().map(|(_, owned)| *owned).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_while_shards_move_to_a_joiner_and_away_from_a_leaver() {
    let mut nodes = cluster(3).await;
    let ids: Vec<String> = (0..40).map(|id| format!("e-{id}")).collect();
    let mut sent = 0_u64;
    let mut asks = Vec::new();
    let mut round = |nodes: &[(Node, Entities<CounterMessage>)], asks: &mut Vec<_>| {
        sent += 1;
        for (at, id) in ids.iter().enumerate() {
            // Each entity is fed by one node, so that its order is promised; the feeders are the voters.
            let (_, counters) = &nodes[at % 3];
            asks.push(tokio::spawn(counters.clone().within(Duration::from_secs(30)).ask(id.as_str(), Add(sent))));
        }
    };
    for _ in 0..5 {
        round(&nodes, &mut asks);
    }
    // All shards have a home before the joiner comes, so that it can only be given what moves.
    let shard = |id: &String| ShardHash::default().shard(id, NonZeroU32::new(16).unwrap());
    let asked_for = ids.iter().map(shard).collect::<BTreeSet<_>>().len();
    assert!(asked_for > 8);
    until(30, "the shards' first homes", || nodes.iter().map(|(node, _)| owned(node)).sum::<usize>() == asked_for)
        .await;
    nodes.push(joiner(&nodes).await);
    within(60, "shards moving to the joiner", async {
        while owned(&nodes[3].0) < 3 {
            round(&nodes, &mut asks);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let (leaver, _) = nodes.pop().unwrap();
    let leaving = tokio::spawn(leaver.leave());
    while !leaving.is_finished() {
        round(&nodes, &mut asks);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(leaving.await.unwrap().clean);
    let total = asks.len();
    for ask in asks {
        within(60, "an answer", ask).await.unwrap().unwrap_or_else(|error| panic!("{error} of {total}"));
    }
    for (at, id) in ids.iter().enumerate() {
        // State in memory ends with each move, so what is left is a run of numbers without gap or disorder.
        let seen = within(20, "the answer", nodes[at % 3].1.ask(id.as_str(), Get)).await.unwrap();
        assert!(seen.windows(2).all(|pair| pair[1] == pair[0] + 1), "{id}: {seen:?}");
        assert_eq!(seen.last().copied().unwrap_or(sent), sent, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_vanishes_is_replaced_and_what_it_may_have_run_is_told() {
    let mut nodes = cluster(3).await;
    // Not the coordinator, so that only the session of the lost node has to run out.
    let at = (0..3).find(|at| !nodes[*at].0.status().reigning).unwrap();
    for id in 0..200 {
        within(20, "an answer", nodes[at].1.ask(format!("e-{id}"), Add(1))).await.unwrap();
    }
    let (lost, _) = nodes.remove(at);
    drop(lost);
    for id in 0..200 {
        // Sent at once: parked or sent to the dead, told in either case, and answered by the new owner in the end.
        let id = format!("e-{id}");
        let answer = nodes[0].1.clone().within(Duration::from_secs(20)).ask(&id, Add(2)).await;
        if let Err(error) = answer {
            assert!(error.may_have_run(), "{id}: {error}");
        }
    }
    until(20, "all shards owned by the two that are left", || owned(&nodes[0].0) + owned(&nodes[1].0) == 16).await;
    for id in 0..200 {
        within(20, "an answer", nodes[1].1.ask(format!("e-{id}"), Get)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_shard_count_is_refused_with_both_numbers() {
    let nodes = cluster(1).await;
    let voters = vec![(nodes[0].0.key().id, nodes[0].0.address().to_string())];
    let node = Node::builder("test").listen("127.0.0.1:0").voters(voters).start().await.unwrap();
    let counters = node.sharding::<Counter>().shards(32).start().await.unwrap();
    let patient = counters.clone().within(Duration::from_secs(600));
    let early = patient.ask("early", Add(1));
    let error = within(30, "the refusal", node.joined()).await.unwrap_err();
    assert!(within(30, "an answer", early).await.unwrap_err().reason().is_some(), "it did not run, and is told so");
    let answer = within(30, "an answer", patient.ask("e", Add(1))).await;
    assert_eq!(answer.unwrap_err().reason(), Some(Reason::NoSuchType), "callers are told, not left to wait");
    assert_eq!(
        error.to_string(),
        "entity type `counter` has 16 shards in this cluster, but this node asks for 32; the number cannot differ"
    );
}

#[tokio::test]
async fn plain_tcp_stays_on_loopback_unless_told_otherwise() {
    let error = Node::builder("test").listen("0.0.0.0:0").start().await.unwrap_err();
    assert!(error.to_string().contains("allow_plain_tcp_anywhere"), "{error}");
    let anywhere = || Node::builder("test").listen("0.0.0.0:0").allow_plain_tcp_anywhere();
    drop(anywhere().advertise("localhost:7401").start().await.unwrap());
}

#[tokio::test]
async fn a_node_that_listens_everywhere_must_say_where_it_is_reached() {
    let anywhere = || Node::builder("test").listen("0.0.0.0:0").allow_plain_tcp_anywhere();
    for nowhere in [anywhere(), anywhere().advertise("0.0.0.0:7401"), anywhere().advertise("[::]:7401")] {
        let error = nowhere.start().await.unwrap_err();
        assert!(matches!(error, ConfigError::Setting { name: "advertise", .. }), "{error}");
    }
    for nowhere in ["", "127.0.0.1:0"] {
        let error = Node::builder("test").listen("127.0.0.1:0").advertise(nowhere).start().await.unwrap_err();
        assert!(matches!(error, ConfigError::Setting { name: "advertise", .. }), "{nowhere:?}: {error}");
    }
    drop(Node::builder("test").start().await.expect("a node without a network has no address"));
}

#[tokio::test]
async fn a_cluster_without_a_name_is_refused() {
    let error = Node::builder("").start().await.unwrap_err();
    assert!(matches!(error, ConfigError::Setting { name: "cluster", .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_longer_than_a_mebibyte_reaches_entities_on_its_own_node_only() {
    const LIMIT: u32 = 1 << 20;
    let nodes = cluster(1).await;
    let voters = vec![(nodes[0].0.key().id, nodes[0].0.address().to_string())];
    let client = Node::builder("test").listen("127.0.0.1:0").voters(voters).start().await.unwrap();
    let far = client.proxy::<CounterMessage>().shards(16).start().await.unwrap();
    within(30, "joining", client.joined()).await.unwrap();
    let (here, mut events) = (&nodes[0].1, client.events());
    within(20, "an answer", here.ask("a", Get)).await.expect("the shard has its home");

    let big = || vec![7; LIMIT as usize];
    let echo = within(20, "an answer", here.ask("a", Echo(big(), 2))).await.expect("nothing is encoded");
    assert_eq!(echo.len(), 2 * LIMIT as usize);

    let error = within(20, "the refusal", far.ask("a", Echo(big(), 1))).await.unwrap_err();
    let too_large = |reason| matches!(reason, Reason::TooLarge { bytes, limit: LIMIT } if bytes > LIMIT);
    assert!(!error.may_have_run() && error.reason().is_some_and(too_large), "{error}");
    far.tell("a", Echo(big(), 1)).expect("it is accepted at first");
    let told = within(20, "the event", async {
        loop {
            if let Some(Event::Undelivered { fate: Fate::NotRun(reason), tag: 3, .. }) = events.next().await {
                return reason;
            }
        }
    });
    assert!(too_large(told.await));

    let error = within(20, "the end", far.ask("a", Echo(vec![7; 600_000], 2))).await.unwrap_err();
    assert!(matches!(error, AskError::NoReply(NoReply::Ended)), "an answer too long for the way back: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_stops_node_by_node_and_its_last_node_has_nobody_to_hand_over_to() {
    static STOPPED: AtomicU32 = AtomicU32::new(0);
    #[derive(Serialize, Deserialize)]
    struct Wake;
    messages! { enum SleeperMessage as "sleeper" { 1 => Wake -> () } }
    #[derive(Default)]
    struct Sleeper;
    impl Entity for Sleeper {
        type Message = SleeperMessage;
        async fn stopping(&mut self, _: StopReason, _: &mut Context<'_, Self>) {
            STOPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    impl Handle<Wake> for Sleeper {
        async fn handle(&mut self, _: Wake, _: &mut Context<'_, Self>) {}
    }

    let mut nodes = cluster(3).await.into_iter().map(|(node, _)| node).collect::<Vec<_>>();
    let mut sleepers = Vec::new();
    for node in &nodes {
        sleepers.push(node.sharding::<Sleeper>().shards(16).start().await.unwrap());
    }
    for id in 0..60 {
        within(20, "an answer", sleepers[0].ask(format!("e-{id}"), Wake)).await.unwrap();
    }
    let (third, second, first) = (nodes.pop().unwrap(), nodes.pop().unwrap(), nodes.pop().unwrap());
    for node in [first, second] {
        let report = node.leave_within(Duration::from_secs(2)).await;
        assert!(report.clean, "two of the three voters were there, and one of them takes its shards: {report:?}");
    }
    // Alone it is no majority: nobody reigns who could take its shards, and nothing is stopped in good order.
    let report = third.leave_within(Duration::from_secs(1)).await;
    assert!(!report.clean && report.took < Duration::from_secs(3), "{report:?}");
    assert!(STOPPED.load(Ordering::SeqCst) < 60, "its entities ended without their last hook");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_reaches_entities_it_never_hosts() {
    let nodes = cluster(1).await;
    let voters = vec![(nodes[0].0.key().id, nodes[0].0.address().to_string())];
    let client = Node::builder("test").listen("127.0.0.1:0").voters(voters).start().await.unwrap();
    let counters = client.proxy::<CounterMessage>().shards(16).start().await.unwrap();
    within(30, "joining", client.joined()).await.unwrap();
    for id in 0..200 {
        assert_eq!(within(20, "an answer", counters.ask(format!("e-{id}"), Add(7))).await.unwrap(), 1);
    }
    assert_eq!(owned(&client), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_is_replaced_while_the_cluster_works() {
    let nodes = cluster(4).await;
    let without = |out: Option<NodeId>| {
        let voters = nodes.iter().map(|(node, _)| (node.key().id, node.address().to_string()));
        voters.filter(|(id, _)| Some(*id) != out).collect::<Vec<_>>()
    };
    let coordinator = nodes[0].0.status().coordinator.expect("somebody reigns").id;
    let early = nodes[0].0.load_voters(3, without(Some(coordinator))).await;
    assert!(matches!(early, Err(ConfigError::VoterChange(_))), "{early:?}");
    for (version, out) in [(2, None), (3, Some(coordinator))] {
        for (node, _) in &nodes {
            node.load_voters(version, without(out)).await.unwrap();
        }
        for id in 0..20 {
            within(20, "an answer", nodes[3].1.ask(format!("counter-{id}"), Add(1))).await.unwrap();
        }
        for (node, _) in &nodes {
            until(20, "the voters being in force", || node.status().voters_in_force >= version).await;
            assert_eq!(node.status().voters_version, version);
        }
    }
    // A coordinator that is no voter any more has resigned, or will in a moment.
    let (out, _) = nodes.iter().find(|(node, _)| node.key().id == coordinator).expect("it is still there");
    until(20, "the resignation", || !out.status().reigning).await;
    until(20, "a successor", || nodes.iter().any(|(node, _)| node.status().reigning)).await;
}

/// The coordinator's table is in memory only; what it says is enough to bring every shard back to its node after all were
/// stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_return_to_their_nodes_after_the_whole_cluster_was_stopped() {
    use shard_core::allocation::{Hash, LeastShard, Returning};
    use shard_core::id::ShardId;
    async fn start(homes: Option<Vec<(ShardId, NodeId)>>) -> Vec<(Node, Entities<CounterMessage>)> {
        let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let voters: Vec<_> =
            (1..).map(NodeId).zip(listeners.iter().map(|l| l.local_addr().unwrap().to_string())).collect();
        let mut nodes = Vec::new();
        for (id, listener) in (1..).zip(listeners) {
            let builder = Node::builder("test").id(NodeId(id)).listener(listener).voters(voters.clone());
            let node = builder.start().await.unwrap();
            let sharding = node.sharding::<Counter>().shards(16);
            let sharding = match &homes {
                // By hash they would go elsewhere, for the addresses are new.
                Some(homes) => sharding.allocation(Returning::new(LeastShard::default(), homes.iter().copied())),
                None => sharding.allocation(Hash),
            };
            let counters = sharding.start().await.unwrap();
            nodes.push((node, counters));
        }
        for (node, _) in &nodes {
            within(30, "joining", node.joined()).await.unwrap();
        }
        for id in 0..200 {
            within(30, "an answer", nodes[0].1.ask(format!("e-{id}"), Get)).await.unwrap();
        }
        nodes
    }
    async fn homes(nodes: &[(Node, Entities<CounterMessage>)]) -> Vec<(ShardId, NodeId)> {
        let (chief, _) = nodes.iter().find(|(node, _)| node.status().reigning).expect("somebody reigns");
        chief.homes::<Counter>().await
    }
    let nodes = start(None).await;
    let before = homes(&nodes).await;
    assert_eq!(before.len(), 16, "every shard was asked for");
    let other = nodes.iter().find(|(node, _)| !node.status().reigning).expect("one reigns");
    assert_eq!(other.0.homes::<Counter>().await, [], "only the coordinator knows");
    drop(nodes);
    let nodes = start(Some(before.clone())).await;
    assert_eq!(homes(&nodes).await, before);
}
