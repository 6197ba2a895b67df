//! The nodes of [`crate::hub`] as an [`Embedding`]: what the adapters' tests run the list on.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use std::net::TcpListener;

use super::probe::Probe;
use super::{Cluster, Embedding, Member, ProbeMessage, Setup, wait};
use crate::entity::Entities;
use crate::hub::{Node, Runtime};
use crate::id::NodeId;
use crate::time::Duration;

/// Nodes on one executor, or on several in turn.
pub struct Hub {
    hosts: Vec<Box<dyn Host>>,
}

impl Hub {
    /// All nodes on `runtime`.
    #[must_use]
    pub fn on<R: Runtime>(runtime: R) -> Self {
        Self { hosts: alloc::vec![Box::new(On(runtime))] }
    }

    /// And the next one on `runtime`: with two, the first and third node of a cluster run on the one, the second on the
    /// other.
    #[must_use]
    pub fn and_on<R: Runtime>(mut self, runtime: R) -> Self {
        self.hosts.push(Box::new(On(runtime)));
        self
    }
}

impl core::fmt::Debug for Hub {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hub").field("executors", &self.hosts.len()).finish()
    }
}

impl Embedding for Hub {
    fn nodes_max(&self) -> usize {
        3
    }

    fn cluster(&self, setup: &Setup) -> Box<dyn Cluster> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("conformance-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let hosts = self.hosts.iter().map(|host| host.again()).collect();
        Box::new(Nodes { name, setup: setup.clone(), hosts, started: 0, seed: None })
    }
}

struct Nodes {
    name: String,
    setup: Setup,
    hosts: Vec<Box<dyn Host>>,
    started: usize,
    /// The first node, which is the only voter.
    seed: Option<String>,
}

impl Cluster for Nodes {
    fn start(&mut self) -> Box<dyn Member> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a port");
        let address = listener.local_addr().expect("a bound listener has an address").to_string();
        let seed = self.seed.get_or_insert(address).clone();
        self.started += 1;
        let number = u64::try_from(self.started).expect("few nodes");
        self.hosts[(self.started - 1) % self.hosts.len()].start(&self.name, NodeId(number), listener, seed, &self.setup)
    }
}

/// Starts nodes on one kind of executor.
trait Host: Send + Sync {
    fn start(&self, cluster: &str, id: NodeId, listener: TcpListener, seed: String, setup: &Setup) -> Box<dyn Member>;
    fn again(&self) -> Box<dyn Host>;
}

struct On<R>(R);

impl<R: Runtime> Host for On<R> {
    fn start(&self, cluster: &str, id: NodeId, listener: TcpListener, seed: String, setup: &Setup) -> Box<dyn Member> {
        let started = wait(async {
            let builder = Node::builder_on(self.0.clone(), cluster).id(id).listener(listener);
            let builder = builder.voters([(NodeId(1), seed)]).rebalance_interval(Duration::from_millis(200));
            let node = builder.start().await?;
            let sharding = node.sharding::<Probe>().shards(setup.shards.get()).passivation(setup.passivation);
            let probes = sharding.start_with(setup.make()).await?;
            node.joined().await?;
            Ok::<_, crate::node::ConfigError>((node, probes))
        });
        let (node, probes) = started.expect("joins in time").expect("the configuration is good");
        Box::new(Started { node, probes })
    }

    fn again(&self) -> Box<dyn Host> {
        Box::new(Self(self.0.clone()))
    }
}

struct Started<R: Runtime> {
    node: Node<R>,
    probes: Entities<ProbeMessage>,
}

impl<R: Runtime> Member for Started<R> {
    fn probes(&self) -> Entities<ProbeMessage> {
        self.probes.clone()
    }

    fn shards(&self) -> usize {
        self.node.status().shards.iter().map(|(_, owned)| owned).sum()
    }

    fn leave(self: Box<Self>) -> bool {
        wait(self.node.leave()).is_ok_and(|report| report.clean)
    }
}
