//! A real process is killed: those who wait for it are told, and others can leave as if it had never been.
//!
//! The test starts itself as the process to be killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use adapter_tokio::Node;
use serde::{Deserialize, Serialize};
use shard_core::entity::{AskError, NoReply};
use shard_core::id::NodeId;
use shard_core::machine::Timing;
use shard_core::prelude::*;

const VOTERS: &str = "KILLED_VOTERS";
const VICTIM: u64 = 77;

#[derive(Serialize, Deserialize)]
struct WhereAreYou;
#[derive(Serialize, Deserialize)]
struct Ponder;
messages! {
    enum ThinkerMessage as "thinker" {
        1 => WhereAreYou -> u64,
        2 => Ponder -> (),
    }
}

struct Thinker {
    home: u64,
}
impl Entity for Thinker {
    type Message = ThinkerMessage;
}
impl Handle<WhereAreYou> for Thinker {
    async fn handle(&mut self, _: WhereAreYou, _: &mut Context<'_, Self>) -> u64 {
        self.home
    }
}
impl Handle<Ponder> for Thinker {
    async fn handle(&mut self, _: Ponder, _: &mut Context<'_, Self>) {
        std::future::pending::<()>().await;
    }
}

async fn start(
    id: u64,
    voters: Vec<(NodeId, String)>,
    listener: std::net::TcpListener,
) -> (Node, Entities<ThinkerMessage>) {
    let node = Node::builder("killed")
        .id(NodeId(id))
        .listener(listener)
        .voters(voters)
        .timing(Timing { session: Duration::from_millis(1_500), wait: Duration::from_millis(1_540), ..Timing::lan() })
        .rebalance_interval(Duration::from_millis(100))
        .start()
        .await
        .expect("a node");
    let thinkers =
        node.sharding::<Thinker>().shards(16).start_with(move |_| Thinker { home: id }).await.expect("a type");
    node.joined().await.expect("the same count everywhere");
    (node, thinkers)
}

/// The process that is killed. By itself it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Ok(voters) = std::env::var(VOTERS) else { return };
    let voters = (1..).map(NodeId).zip(voters.split(',').map(String::from)).collect();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let _node = start(VICTIM, voters, listener).await;
    println!("\njoined");
    std::future::pending::<()>().await;
}

/// A process of ours, which ends with the test however that ends.
struct Victim(Child);

impl Victim {
    fn kill(&mut self) {
        self.0.kill().expect("SIGKILL");
        self.0.wait().expect("dead");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_victim(voters: &str) -> Victim {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "victim", "--nocapture"])
        .env(VOTERS, voters)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let output = child.stdout.take().expect("its output");
    let victim = Victim(child);
    assert!(BufReader::new(output).lines().map_while(Result::ok).any(|line| line == "joined"), "it never joined");
    victim
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asked_a_killed_process_is_told_and_who_stays_can_leave() {
    let listeners: Vec<_> = (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let addresses: Vec<_> = listeners.iter().map(|at| at.local_addr().expect("bound").to_string()).collect();
    let voters: Vec<_> = (1..).map(NodeId).zip(addresses.clone()).collect();
    let starts = (1..).zip(listeners).map(|(id, listener)| tokio::spawn(start(id, voters.clone(), listener)));
    let mut nodes = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        nodes.push(start.await.expect("started"));
    }
    let mut victim = start_victim(&addresses.join(","));

    // Every shard lives somewhere, and some come to the newcomer.
    let ids: Vec<_> = (0..64).map(|id| format!("t-{id}")).collect();
    let (_, thinkers) = &nodes[0];
    let found = async {
        loop {
            let mut at_victim = Vec::new();
            for id in &ids {
                if thinkers.ask(id, WhereAreYou).await.is_ok_and(|home| home == VICTIM) {
                    at_victim.push(id.clone());
                }
            }
            if !at_victim.is_empty() {
                return at_victim;
            }
        }
    };
    let at_victim = tokio::time::timeout(Duration::from_secs(60), found).await.expect("shards move to the newcomer");
    let patient = thinkers.clone().within(Duration::from_secs(600));
    let asks: Vec<_> = at_victim.iter().map(|id| patient.ask(id, Ponder)).collect();
    // Another question behind them on the same link, so that they have surely arrived.
    let _ = thinkers.ask(&at_victim[0], WhereAreYou).await;
    victim.kill();

    for ask in asks {
        let answer = tokio::time::timeout(Duration::from_secs(60), ask).await.expect("told long before the limit");
        assert!(matches!(answer, Err(AskError::NoReply(NoReply::Disconnected))), "{answer:?}");
    }

    // A node leaves: what it has to say to the dead one keeps it no longer than its last words.
    let (node, _) = nodes.pop().expect("three nodes");
    let limit = Duration::from_secs(120);
    let report = node.leave_within(limit).await;
    assert!(report.clean);
    assert!(report.took < limit.mul_f32(0.8), "it waited for the dead: {:?}", report.took);
}
