//! Connections that are cut at arbitrary bytes lose, repeat and reorder nothing while both processes live (K1-K3).

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use adapter_tokio::Node;
use serde::{Deserialize, Serialize};
use shard_core::id::NodeId;
use shard_core::prelude::*;
use shard_core::prng::Prng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Serialize, Deserialize)]
struct Note(u64, Vec<u8>);
#[derive(Serialize, Deserialize)]
struct Read;
messages! { enum LogMessage as "log" { 1 => Note -> (), 2 => Read -> Vec<u64> } }
#[derive(Default)]
struct Log(Vec<u64>);
impl Entity for Log {
    type Message = LogMessage;
}
impl Handle<Note> for Log {
    async fn handle(&mut self, Note(n, _): Note, _: &mut Context<'_, Self>) {
        self.0.push(n);
    }
}
impl Handle<Read> for Log {
    async fn handle(&mut self, _: Read, _: &mut Context<'_, Self>) -> Vec<u64> {
        self.0.clone()
    }
}

/// A path to `target` that carries each connection for a random number of bytes and then cuts it in both directions.
struct Path {
    cutting: Arc<AtomicBool>,
    cuts: Arc<AtomicU64>,
}

fn path(listener: TcpListener, target: String, seed: u64) -> Path {
    let (cutting, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let path = Path { cutting: Arc::clone(&cutting), cuts: Arc::clone(&cuts) };
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        let mut prng = Prng::new(seed);
        while let Ok((mut near, _)) = listener.accept().await {
            let Ok(mut far) = TcpStream::connect(&target).await else { continue };
            let (cutting, cuts, life) = (Arc::clone(&cutting), Arc::clone(&cuts), prng.below(60_000) + 200);
            tokio::spawn(async move {
                let (mut there, mut back) = ([0; 1_000], [0; 1_000]);
                let mut carried = 0;
                loop {
                    let (from_near, read) = tokio::select! {
                        read = near.read(&mut there) => (true, read),
                        read = far.read(&mut back) => (false, read),
                    };
                    let Ok(mut read @ 1..) = read else { return };
                    carried += read as u64;
                    let cut = cutting.load(Ordering::Relaxed) && carried > life;
                    if cut {
                        read -= read / 3; // in the middle of a frame, most likely
                    }
                    let written = if from_near {
                        far.write_all(&there[..read]).await
                    } else {
                        near.write_all(&back[..read]).await
                    };
                    if cut || written.is_err() {
                        cuts.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                }
            });
        }
    });
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_at_any_byte_lose_repeat_and_reorder_nothing() {
    let mut nodes = Vec::new();
    let mut paths = Vec::new();
    let doors: Vec<_> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<String> = doors.iter().map(|door| door.local_addr().unwrap().to_string()).collect();
    for (number, door) in doors.into_iter().enumerate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        paths.push(path(door, listener.local_addr().unwrap().to_string(), number as u64));
        let node = Node::builder("cuts")
            .id(NodeId(number as u64 + 1))
            .listener(listener)
            .advertise(&addresses[number])
            .voters([(NodeId(1), addresses[0].clone())])
            .start()
            .await
            .unwrap();
        let logs = node.sharding::<Log>().shards(8).start().await.unwrap();
        tokio::time::timeout(Duration::from_secs(30), node.joined()).await.expect("joined in time").unwrap();
        nodes.push((node, logs));
    }
    // Every shard is placed, and both nodes own some, before the cutting begins.
    for id in 0..64 {
        let answer = nodes[0].1.clone().within(Duration::from_secs(20)).ask(format!("warm-{id}"), Read).await;
        answer.expect("placed");
    }
    paths.iter().for_each(|path| path.cutting.store(true, Ordering::Relaxed));

    let tasks: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(at, (_, logs))| {
            let logs = logs.clone().within(Duration::from_secs(60));
            tokio::spawn(async move {
                for n in 0..600_u64 {
                    for id in 0..16 {
                        let body = vec![n as u8; (n % 97) as usize];
                        logs.send(format!("from-{at}-{id}"), Note(n, body)).await.expect("room in time");
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for (at, (_, logs)) in nodes.iter().enumerate() {
        for id in 0..16 {
            let logs = logs.clone().within(Duration::from_secs(60));
            let seen = logs.ask(format!("from-{at}-{id}"), Read).await.expect("an answer");
            assert!(seen.iter().copied().eq(0..600), "from-{at}-{id}: {} of 600, {seen:?}", seen.len());
        }
    }
    let cuts: u64 = paths.iter().map(|path| path.cuts.load(Ordering::Relaxed)).sum();
    assert!(cuts >= 10, "only {cuts} cuts: the test shows nothing");
    for (node, _) in &nodes {
        assert_eq!(node.status().counters.in_doubt, 0, "{:?}", node.status().counters);
    }
}
