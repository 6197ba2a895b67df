//! Shards whose entities talk to each other come together in a live cluster: lanes observe who says what to whom, nodes say
//! it, and the coordinator's strategy moves.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::time::Duration;

use adapter_tokio::Node;
use serde::{Deserialize, Serialize};
use shard_core::allocation::{LeastShard, Repartitioning, Shared, Switch, Why};
use shard_core::hash::ShardHash;
use shard_core::id::{NodeId, ShardId};
use shard_core::node::Cause;
use shard_core::prelude::*;

const SHARDS: u32 = 16;

/// Tell that one something.
#[derive(Serialize, Deserialize)]
struct Call(String);
#[derive(Serialize, Deserialize)]
struct Hear;
#[derive(Serialize, Deserialize)]
struct Where;
messages! { enum FriendMessage as "friend" { 1 => Call -> (), 2 => Hear -> (), 3 => Where -> u64 } }

struct Friend(u64);
impl Entity for Friend {
    type Message = FriendMessage;
}
impl Handle<Call> for Friend {
    async fn handle(&mut self, Call(other): Call, ctx: &mut Context<'_, Self>) {
        // Half of it after a wait, so that it is said on the executor and not on the lane.
        let friends = ctx.entities::<FriendMessage>();
        let _ = friends.tell(&other, Hear);
        tokio::task::yield_now().await;
        let _ = friends.tell(&other, Hear);
    }
}
impl Handle<Hear> for Friend {
    async fn handle(&mut self, _: Hear, _: &mut Context<'_, Self>) {}
}
impl Handle<Where> for Friend {
    async fn handle(&mut self, _: Where, _: &mut Context<'_, Self>) -> u64 {
        self.0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_that_talk_to_each_other_come_together() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let voters = [(NodeId(1), listener.local_addr().unwrap().to_string())];
    let watched = Shared::new(Switch::new());
    let mut nodes = Vec::new();
    for id in 1..=2 {
        let builder = Node::builder("friends").voters(voters.clone()).rebalance_interval(Duration::from_millis(200));
        let builder = if id == 1 {
            builder.id(NodeId(1)).listener(listener.try_clone().unwrap())
        } else {
            builder.listen("127.0.0.1:0")
        };
        let node = builder.start().await.expect("it starts");
        let strategy = Repartitioning::new(LeastShard::default(), watched.clone())
            .cooling_down(shard_core::time::Duration::from_millis(500));
        let make = move |_: &_| Friend(id);
        let friends =
            node.sharding::<Friend>().shards(SHARDS).allocation(strategy).start_with(make).await.expect("it starts");
        tokio::time::timeout(Duration::from_secs(30), node.joined()).await.expect("in time").expect("it joins");
        nodes.push((node, friends));
    }
    // One entity of each shard; shard 2n talks to shard 2n + 1, and to no other.
    let mut of = BTreeMap::<ShardId, String>::new();
    let shards = NonZeroU32::new(SHARDS).unwrap();
    for number in 0.. {
        let id = format!("friend-{number}");
        of.entry(ShardHash::default().shard(&id, shards)).or_insert(id);
        if of.len() == SHARDS as usize {
            break;
        }
    }
    let ids: Vec<String> = of.into_values().collect();
    let friends = nodes[0].1.clone().within(Duration::from_secs(30));
    let apart = async || {
        let mut homes = Vec::new();
        for id in &ids {
            homes.push(friends.ask(id, Where).await.expect("answered"));
        }
        homes.chunks(2).filter(|pair| pair[0] != pair[1]).count()
    };
    let before = apart().await;
    assert!(before > 0, "chance has not put them together already");
    let together = async {
        while apart().await > 0 {
            for pair in ids.chunks(2) {
                for _ in 0..20 {
                    friends.send(&pair[0], Call(pair[1].clone())).await.expect("taken");
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), together).await;
    let report = watched.change(|switch| switch.report());
    ended.unwrap_or_else(|_| panic!("{before} pairs were apart: {report:?}"));
    assert!(report.moves >= before as u64, "{report:?}");
    let mut counts = BTreeMap::<u64, usize>::new();
    let mut moved = 0;
    for id in &ids {
        *counts.entry(friends.ask(id, Where).await.expect("answered")).or_default() += 1;
        let tenure = nodes[0].0.explain::<Friend>(id).await.expect("it is the coordinator").tenure.expect("somebody's");
        moved += usize::from(matches!(tenure.cause, Cause::Moved { why: Why::Affinity, .. }));
    }
    assert!(counts.values().all(|count| *count >= SHARDS as usize / 2 - 2), "nodes stay even: {counts:?}");
    assert!(moved >= before, "{moved} were moved for what they talk to");
    for (node, _) in nodes.drain(1..) {
        node.leave().await;
    }
}
