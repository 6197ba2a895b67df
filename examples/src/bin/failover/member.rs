//! One process of the cluster, seen from both sides: what it does, and how its parent starts and ends it.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use adapter_tokio::Node;
use serde::{Deserialize, Serialize};
use shard_core::id::NodeId;
use shard_core::prelude::*;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, stdin};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Shards of the one type.
pub(super) const SHARDS: u32 = 64;

/// Which node are you on?
#[derive(Serialize, Deserialize)]
pub(super) struct Where;

messages! {
    pub(super) enum HereMessage as "here" { 1 => Where -> u64 }
}

struct Here(u64);

impl Entity for Here {
    type Message = HereMessage;
}

impl Handle<Where> for Here {
    async fn handle(&mut self, _: Where, _: &mut Context<'_, Self>) -> u64 {
        self.0
    }
}

/// As many addresses on loopback as that, which nobody listens on.
pub(super) fn free_addresses(many: u64) -> Result<Vec<String>, String> {
    let listeners = (0..many).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>();
    let addresses = listeners.and_then(|all| all.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>());
    addresses.map(|all| all.iter().map(ToString::to_string).collect()).map_err(|error| format!("no port: {error}"))
}

/// The voters among them.
pub(super) fn voters(addresses: &[String]) -> Vec<(NodeId, String)> {
    (1..).map(NodeId).zip(addresses.iter().cloned()).take(3).collect()
}

/// Lives as the member at that place, until stdin ends; leaves first if it is told to.
pub(super) async fn live(place: &str, addresses: &str) -> i32 {
    match serve(place, addresses).await {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("member {place}: {why}");
            1
        }
    }
}

async fn serve(place: &str, addresses: &str) -> Result<(), Failure> {
    let (place, addresses): (usize, Vec<String>) = (place.parse()?, addresses.split(',').map(Into::into).collect());
    let id = place as u64 + 1;
    let node = Node::builder("failover")
        .id(NodeId(id))
        .listen(&*addresses[place])
        .voters(voters(&addresses))
        .rebalance_interval(Duration::from_millis(250))
        .start()
        .await?;
    node.sharding::<Here>().shards(SHARDS).start_with(move |_| Here(id)).await?;
    node.joined().await?;
    println!("joined");
    let mut orders = BufReader::new(stdin()).lines();
    if orders.next_line().await?.is_some_and(|order| order == "leave") {
        let report = node.leave_within(Duration::from_secs(30)).await;
        println!("{}", if report.clean { "left" } else { "left shards behind" });
    }
    Ok(())
}

/// A member as its parent has it. It ends with its parent.
pub(super) struct Member {
    child: Child,
    orders: ChildStdin,
    words: Lines<BufReader<ChildStdout>>,
}

impl Member {
    pub(super) async fn start(place: usize, addresses: &[String]) -> Result<Self, String> {
        let start = || {
            Command::new(std::env::current_exe()?)
                .args(["--member", &place.to_string(), &addresses.join(",")])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
        };
        let mut child = start().map_err(|error| format!("no process: {error}"))?;
        let (Some(orders), Some(words)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process without pipes".into());
        };
        Ok(Self { child, orders, words: BufReader::new(words).lines() })
    }

    /// Waits until it has joined.
    pub(super) async fn joined(&mut self, limit: Duration) -> Result<(), String> {
        self.hear("joined", limit).await
    }

    async fn hear(&mut self, word: &str, limit: Duration) -> Result<(), String> {
        match timeout(limit, self.words.next_line()).await {
            Ok(Ok(Some(heard))) if heard == word => Ok(()),
            Ok(Ok(heard)) => Err(format!("a member said {heard:?} instead of {word:?}")),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("a member did not say {word:?} within {limit:?}")),
        }
    }

    /// Tells it to leave, and waits until it has.
    pub(super) async fn leave(&mut self, limit: Duration) -> Result<(), String> {
        self.orders.write_all(b"leave\n").await.map_err(|error| error.to_string())?;
        self.hear("left", limit).await?;
        self.child.wait().await.map(drop).map_err(|error| error.to_string())
    }

    /// `SIGKILL`.
    pub(super) async fn kill(&mut self) -> Result<(), String> {
        self.child.kill().await.map_err(|error| error.to_string())
    }

    pub(super) async fn end(mut self) {
        let _ = self.child.kill().await;
    }
}
