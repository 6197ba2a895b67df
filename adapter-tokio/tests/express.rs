//! Megabytes of mail on a slow path do not hold up heartbeats: control frames have a connection of their own beside it.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use adapter_tokio::Node;
use serde::{Deserialize, Serialize};
use shard_core::id::NodeId;
use shard_core::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes in a second that a connection carries in the direction of whoever dialled it.
const RATE: f64 = 500_000.0;

#[derive(Serialize, Deserialize)]
struct Note(Vec<u8>);
#[derive(Serialize, Deserialize)]
struct Count;
messages! { enum LogMessage as "log" { 1 => Note -> (), 2 => Count -> u64 } }

#[derive(Default)]
struct Log(u64);
impl Entity for Log {
    type Message = LogMessage;
}
impl Handle<Note> for Log {
    async fn handle(&mut self, _: Note, _: &mut Context<'_, Self>) {
        self.0 += 1;
    }
}
impl Handle<Count> for Log {
    async fn handle(&mut self, _: Count, _: &mut Context<'_, Self>) -> u64 {
        self.0
    }
}

/// A slow path to `target`: what is dialled here is carried there, and counted.
fn path(door: TcpListener, target: String, dialled: Arc<AtomicUsize>) {
    door.set_nonblocking(true).unwrap();
    let door = tokio::net::TcpListener::from_std(door).unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = door.accept().await {
            dialled.fetch_add(1, Ordering::Relaxed);
            let Ok(far) = TcpStream::connect(&target).await else { continue };
            let (mut from_near, mut to_near) = near.into_split();
            let (mut from_far, mut to_far) = far.into_split();
            tokio::spawn(async move {
                let (mut buffer, began, mut carried) = (vec![0; 8_192], Instant::now(), 0);
                while let Ok(read @ 1..) = from_near.read(&mut buffer).await {
                    carried += read;
                    if to_far.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                    let due = Duration::from_secs_f64(carried as f64 / RATE);
                    tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
                }
            });
            tokio::spawn(async move { tokio::io::copy(&mut from_far, &mut to_near).await });
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_outlives_a_path_that_is_full_of_mail() {
    let doors: Vec<_> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<String> = doors.iter().map(|door| door.local_addr().unwrap().to_string()).collect();
    let dialled = Arc::new(AtomicUsize::new(0));
    let mut nodes = Vec::new();
    for ((number, door), address) in (1..).zip(doors).zip(&addresses) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        path(door, listener.local_addr().unwrap().to_string(), Arc::clone(&dialled));
        let builder = Node::builder("express").id(NodeId(number)).listener(listener).advertise(address);
        let node = builder.voters([(NodeId(1), addresses[0].clone())]).start().await.expect("it starts");
        let logs = node.sharding::<Log>().shards(8).start().await.expect("it starts");
        let joined = tokio::time::timeout(Duration::from_secs(30), node.joined()).await;
        joined.expect("it joins in time").expect("it joins");
        nodes.push((node, logs));
    }
    let (_, logs) = &nodes[1];
    let waiting = logs.clone().within(Duration::from_secs(30));
    for id in 0..64 {
        waiting.ask(format!("log-{id}"), Count).await.expect("placed");
    }
    let (calm, connections) = (nodes[1].0.status().counters.sessions_lost, dialled.load(Ordering::Relaxed));
    // Far more than the path carries, so what is said last waits behind all that the link holds: some eight seconds' worth.
    let began = Instant::now();
    let mut refused = 0;
    while began.elapsed() < Duration::from_secs(12) {
        for id in 0..64 {
            refused += u32::from(logs.tell(format!("log-{id}"), Note(vec![7; 20_000])).is_err());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(refused > 0, "the path was full");
    let status = nodes[1].0.status();
    assert!(status.live && status.counters.sessions_lost == calm, "{status:?}");
    assert!(dialled.load(Ordering::Relaxed) > connections, "control frames have a connection of their own by now");
}
