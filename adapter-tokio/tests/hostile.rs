//! A node's port in hostile hands: every connection is dropped with a reason, and the cluster goes on.

use std::net::TcpListener;
use std::time::Duration;

use adapter_tokio::{Event, EventStream, Node};
use serde::{Deserialize, Serialize};
use shard_core::id::{Incarnation, NodeId, NodeKey, Term};
use shard_core::prelude::*;
use shard_core::prng::Prng;
use shard_core::wire::link::{Hello, PROTOCOL};
use shard_core::wire::{Control, codec, frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Serialize, Deserialize)]
struct Ping;
messages! { enum EchoMessage as "echo" { 1 => Ping -> u64 } }
#[derive(Default)]
struct Echo(u64);
impl Entity for Echo {
    type Message = EchoMessage;
}
impl Handle<Ping> for Echo {
    async fn handle(&mut self, _: Ping, _: &mut Context<'_, Self>) -> u64 {
        self.0 += 1;
        self.0
    }
}

struct Victim {
    node: Node,
    echoes: Entities<EchoMessage>,
    events: EventStream,
}

async fn victim() -> Victim {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = Node::builder("prey").id(NodeId(1)).listener(listener).start().await.unwrap();
    let echoes = node.sharding::<Echo>().shards(4).start().await.unwrap();
    let events = node.events();
    tokio::time::timeout(Duration::from_secs(30), node.joined()).await.expect("joined in time").unwrap();
    Victim { node, echoes, events }
}

impl Victim {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.node.address()).await.unwrap()
    }

    /// What the node says about the next connection that it drops.
    async fn reason(&mut self) -> String {
        let told = async {
            loop {
                if let Some(Event::PeerRefused { why, .. }) = self.events.next().await {
                    return why;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), told).await.expect("a reason in time")
    }

    /// The node still serves.
    async fn serves(&self) {
        let answer = self.echoes.clone().within(Duration::from_secs(20)).ask("e", Ping).await;
        assert!(answer.is_ok(), "{answer:?}");
    }
}

fn hello(cluster: &str, protocol: u16) -> Hello {
    let from = NodeKey { id: NodeId(66), incarnation: Incarnation(6) };
    Hello { cluster: cluster.into(), protocol, from, to: None, address: String::new(), aside: false }
}

/// The node closes the connection in the end.
async fn is_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut said)).await;
    assert!(closed.is_ok(), "the connection stays open");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_bytes_are_dropped() {
    let mut victim = victim().await;
    let mut prng = Prng::new(7);
    for round in 0..50 {
        let bytes: Vec<u8> = (0..prng.below(2_000) + 5).map(|_| prng.next_u64() as u8).collect();
        let mut stream = victim.connect().await;
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        is_closed(stream).await;
        let why = victim.reason().await;
        assert!(!why.is_empty(), "round {round}");
    }
    victim.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_length_is_refused_before_anything_is_kept_for_it() {
    let mut victim = victim().await;
    let mut stream = victim.connect().await;
    stream.write_all(&[0xff, 0xff, 0xff, 0xff, 1]).await.unwrap();
    is_closed(stream).await;
    let why = victim.reason().await;
    assert!(why.contains("4294967295") || why.contains("4294967294"), "{why}");
    victim.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_cluster_and_another_version_are_told_what_is_wrong() {
    let mut victim = victim().await;
    for (hello, expected) in [
        (hello("predators", PROTOCOL), "wrong cluster: the dialler belongs to \"predators\", this node to \"prey\""),
        (hello("prey", PROTOCOL + 1), "wrong protocol version: the peer speaks 5, this node 4"),
    ] {
        let mut stream = victim.connect().await;
        let mut bytes = Vec::new();
        frame::write_hello(&mut bytes, &hello);
        stream.write_all(&bytes).await.unwrap();
        let said = is_closed(stream).await;
        assert_eq!(victim.reason().await, expected);
        assert!(String::from_utf8_lossy(&said).contains(expected), "the dialler is told too");
    }
    victim.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_frame_and_then_silence_does_not_hold_the_door_open() {
    let mut victim = victim().await;
    // Before the introduction, and in the middle of a frame after it.
    let mut stranger = victim.connect().await;
    stranger.write_all(&[30, 0, 0]).await.unwrap();
    assert_eq!(victim.reason().await, "did not introduce itself in time");
    is_closed(stranger).await;

    let mut guest = victim.connect().await;
    let mut bytes = Vec::new();
    frame::write_hello(&mut bytes, &hello("prey", PROTOCOL));
    guest.write_all(&bytes).await.unwrap();
    let mut welcome = [0; 4];
    guest.read_exact(&mut welcome).await.unwrap();
    guest.write_all(&[200, 0, 0, 0, 4, 1, 2, 3]).await.unwrap();
    assert_eq!(victim.reason().await, "stopped in the middle of a frame");
    is_closed(guest).await;

    let mut guest = victim.connect().await;
    guest.write_all(&bytes).await.unwrap();
    guest.read_exact(&mut welcome).await.unwrap();
    assert_eq!(victim.reason().await, "said nothing after its introduction");
    is_closed(guest).await;
    victim.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_talks_nonsense_or_forges_directives_changes_nothing() {
    let mut victim = victim().await;
    let mut guest = victim.connect().await;
    let mut bytes = Vec::new();
    frame::write_hello(&mut bytes, &hello("prey", PROTOCOL));
    guest.write_all(&bytes).await.unwrap();
    let mut welcome = [0; 4];
    guest.read_exact(&mut welcome).await.unwrap();
    bytes.clear();
    frame::write_ping(&mut bytes);
    frame::write_control(&mut bytes, |out| out.extend_from_slice(&[0xff; 40]));
    guest.write_all(&bytes).await.unwrap();
    is_closed(guest).await;
    assert!(!victim.reason().await.is_empty());

    // Well-formed directives in a reign that is not in force, from a node that does not hold it.
    let mut guest = victim.connect().await;
    bytes.clear();
    frame::write_hello(&mut bytes, &hello("prey", PROTOCOL));
    guest.write_all(&bytes).await.unwrap();
    guest.read_exact(&mut welcome).await.unwrap();
    bytes.clear();
    frame::write_ping(&mut bytes);
    let term = Term { counter: 1 << 61, node: victim.node.key() };
    for message in
        [Control::Dead { term, session: 1 }, Control::Announce { term, committed: 0 }, Control::Nack { max_term: term }]
    {
        frame::write_control(&mut bytes, |out| codec::encode_control(out, &message));
    }
    guest.write_all(&bytes).await.unwrap();
    for _ in 0..20 {
        victim.serves().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_silent_strangers_do_not_shut_out_the_others() {
    let victim = victim().await;
    let mut strangers = Vec::new();
    for _ in 0..400 {
        strangers.push(victim.connect().await);
    }
    victim.serves().await;
    let refused = async {
        while victim.node.status().counters.peers_refused < 400 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), refused).await.expect("all strangers dropped");
    victim.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_frames_of_all_connections_together_are_bounded() {
    let mut victim = victim().await;
    let mut bytes = Vec::new();
    frame::write_hello(&mut bytes, &hello("prey", PROTOCOL));
    // The head of a message of a million bytes, and most of it.
    frame::write_ping(&mut bytes);
    bytes.extend_from_slice(&1_000_000_u32.to_le_bytes());
    bytes.resize(bytes.len() + 990_000, 6);
    let guests = (0..120).map(|_| {
        let (bytes, address) = (bytes.clone(), victim.node.address().to_string());
        tokio::spawn(async move {
            let mut guest = TcpStream::connect(address).await.unwrap();
            let _ = guest.write_all(&bytes).await;
            let _ = is_closed(guest).await;
        })
    });
    let guests: Vec<_> = guests.collect();
    while victim.reason().await != "too many connections stopped in the middle of a frame" {}
    for guest in guests {
        guest.await.unwrap();
    }
    victim.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_connections_for_control_frames_alone_one_is_kept_and_strangers_get_none() {
    let mut victim = victim().await;
    let aside = Hello { to: Some(victim.node.status().node), aside: true, ..hello("prey", PROTOCOL) };
    let greet = async |hello: &Hello, ping: bool| {
        let mut stream = victim.connect().await;
        let mut bytes = Vec::new();
        frame::write_hello(&mut bytes, hello);
        if ping {
            frame::write_ping(&mut bytes);
        }
        stream.write_all(&bytes).await.unwrap();
        let mut said = [0; 5];
        stream.read_exact(&mut said).await.unwrap();
        stream
    };
    // A stranger has no link that it could be beside.
    let said = is_closed(greet(&aside, false).await).await;
    assert!(String::from_utf8_lossy(&said).contains("has no link here"), "{said:?}");
    // The link, and it is answered, so it is met.
    let link = greet(&hello("prey", PROTOCOL), true).await;
    let mut tries = Vec::new();
    let mut first = greet(&aside, true).await;
    for _ in 0..3 {
        tries.push(greet(&aside, true).await);
    }
    // It speaks on, so it is not for silence that it is closed.
    let replaced = async {
        let (mut ping, mut said) = (Vec::new(), [0; 64]);
        frame::write_ping(&mut ping);
        while first.write_all(&ping).await.is_ok() {
            let read = tokio::time::timeout(Duration::from_millis(100), first.read(&mut said)).await;
            if matches!(read, Ok(Ok(0) | Err(_))) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), replaced).await.expect("only the latest is kept");
    drop((link, tries));
    assert!(victim.reason().await.contains("has no link here"));
    victim.serves().await;
}
