//! What is needed to start a node.

use std::boxed::Box;
use std::format;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::string::{String, ToString};
use std::sync::Arc;
use std::time::Duration;
use std::vec::Vec;

use super::events::Event;
use super::node::Node;
use super::peers::Peers;
use super::runtime::Runtime;
use super::shared::Shared;
use super::{clock, control, inbound, net, vitals};
use crate::allocation::Stats;
use crate::entity::ASK_LIMIT;
use crate::id::{Incarnation, NodeId, NodeKey};
use crate::machine::{Fixed, Timing};
use crate::node::{ConfigError, NodeConfig};
use crate::region::stream::StreamConfig;
use crate::wire::{Facts, link};

/// What a network is taken for when the times are looked at: a slow local one, and timers that are this late.
const ROUND_TRIP: Duration = Duration::from_millis(10);
const TICK: Duration = Duration::from_millis(20);

/// What is needed to start a node. See [`Node::builder`].
#[must_use = "nothing happens before `start`"]
#[derive(Debug)]
pub struct NodeBuilder<R> {
    runtime: R,
    cluster: String,
    id: Option<NodeId>,
    listen: Option<String>,
    listener: Option<TcpListener>,
    advertise: Option<String>,
    voters: Vec<(NodeId, String)>,
    voters_version: u32,
    timing: Timing,
    rebalance: Duration,
    lanes: Option<u32>,
    plain_tcp_anywhere: bool,
    facts: Facts,
    measure: Option<vitals::Measure>,
    allocation: Option<String>,
    stream: StreamConfig,
}

impl<R: Runtime> NodeBuilder<R> {
    pub(super) fn new(runtime: R, cluster: String) -> Self {
        Self {
            runtime,
            cluster,
            id: None,
            listen: None,
            listener: None,
            advertise: None,
            voters: Vec::new(),
            voters_version: 1,
            timing: Timing::lan(),
            rebalance: Duration::from_secs(2),
            lanes: None,
            plain_tcp_anywhere: false,
            facts: Facts::default(),
            measure: None,
            allocation: None,
            // Callers meet 4,096 messages per shard; what comes while a lane is at work is let in beyond it.
            stream: StreamConfig { messages_max: 8_192, bytes_max: 2 << 20, ..StreamConfig::default() },
        }
    }

    /// This node's lasting id. Voters need one; others draw a random one without it.
    pub fn id(self, id: NodeId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Where to listen, `host:port`; port 0 lets the system choose. Without it, and without voters, the cluster is this one
    /// node, has no network, and starts at once.
    pub fn listen(self, address: impl Into<String>) -> Self {
        Self { listen: Some(address.into()), ..self }
    }

    /// A listener that is bound already, instead of [`listen`](Self::listen).
    pub fn listener(self, listener: TcpListener) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// Where other nodes reach this one, if that is not where it listens. It must be said when the node listens on every
    /// address of its machine (`0.0.0.0`, `[::]`): that is nowhere to dial.
    pub fn advertise(self, address: impl Into<String>) -> Self {
        Self { advertise: Some(address.into()), ..self }
    }

    /// The voters and where they listen: 1, 3 or 5, the same on every node. They elect the coordinator, and they are the
    /// seeds through which others find the cluster. Without it, this node is the only voter.
    pub fn voters<A: Into<String>>(self, voters: impl IntoIterator<Item = (NodeId, A)>) -> Self {
        Self { voters: voters.into_iter().map(|(id, address)| (id, address.into())).collect(), ..self }
    }

    /// Which set of voters that is: 1, unless [`Node::load_voters`] has changed them since the cluster began. From 2 on there
    /// may be two or four of them, for as long as a change takes. A node must never start with a lower version than it ran.
    pub fn voters_version(self, version: u32) -> Self {
        Self { voters_version: version, ..self }
    }

    /// The protocol's times; [`Timing::lan`] unless said otherwise. The same on every node. Unsafe ones are refused at the
    /// [`start`](Self::start); ones that are too short for round trips of 10 ms are logged as [`Event::TimingTight`].
    pub fn timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// How often a coordinator looks for a better balance; 2 s unless said otherwise.
    pub fn rebalance_interval(self, every: Duration) -> Self {
        Self { rebalance: every, ..self }
    }

    /// How many lanes each type has on this node; a power of two near four per worker unless said otherwise.
    pub fn lanes(self, lanes: u32) -> Self {
        Self { lanes: Some(lanes), ..self }
    }

    /// What the node is for; as often as it has roles. Filters and strategies of [`allocation`](crate::allocation) see it, and
    /// what the following say.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.facts.roles.push(role.into());
        self
    }

    /// Where the node stands: a rack, a data centre.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.facts.zone = zone.into();
        self
    }

    /// Anything else about it, by key.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.metadata.push((key.into(), value.into()));
        self
    }

    /// The version of the application it runs; a greater one is newer. 0 unless said otherwise.
    pub fn app_version(mut self, version: u64) -> Self {
        self.facts.version = version;
        self
    }

    /// How much it can carry, compared to other nodes; 1 unless said otherwise.
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.facts.capacity = capacity;
        self
    }

    /// Measures the node's resources, about once a second, instead of what Linux says of this process's container. Entities
    /// are counted by the node, whatever `measure` says of them. It runs on a task of the node: it must not wait. If it panics,
    /// nothing but the entities is known that time.
    pub fn stats(self, measure: impl FnMut() -> Stats + Send + 'static) -> Self {
        Self { measure: Some(vitals::Measure(Box::new(measure))), ..self }
    }

    /// By which [named](crate::allocation::named) strategy shards are placed while this node is the coordinator, of types for
    /// which nothing else is said here; `least-shard` unless said otherwise. For configurations that are text.
    pub fn allocation_named(self, name: impl Into<String>) -> Self {
        Self { allocation: Some(name.into()), ..self }
    }

    /// How long a message may wait for its entity to be reached; 30 s unless said otherwise. After it an unsent message
    /// has not run, a sent one is in doubt.
    pub fn give_up_after(mut self, span: Duration) -> Self {
        self.stream.give_up_after = span;
        self
    }

    /// Plain TCP is neither encrypted nor authenticated: whoever reaches the port can do whatever a node can. It is
    /// therefore bound to loopback addresses only, unless this says that the network is trusted.
    pub fn allow_plain_tcp_anywhere(self) -> Self {
        Self { plain_tcp_anywhere: true, ..self }
    }

    /// Starts the node. It joins in the background; [`Node::joined`] waits for that.
    ///
    /// # Errors
    /// The configuration is unsafe or incomplete, or the address cannot be bound.
    pub async fn start(self) -> Result<Node<R>, ConfigError> {
        let Self { runtime, cluster, .. } = self;
        if cluster.is_empty() {
            let must = "a name that is not empty: it tells the nodes of this cluster from those of others";
            return Err(ConfigError::Setting { name: "cluster", must });
        }
        let mut randomness = [0_u64; 3];
        for word in &mut randomness {
            *word = random();
        }
        let alone = self.listen.is_none() && self.listener.is_none() && self.voters.is_empty();
        let id = self.id.unwrap_or(NodeId(randomness[0]));
        let me = NodeKey { id, incarnation: Incarnation(randomness[1]) };
        let listener = match (self.listener, self.listen) {
            (Some(listener), _) => Some(listener),
            (None, Some(address)) => Some(bind(&address)?),
            (None, None) if alone => None,
            (None, None) => {
                let must = "set with `listen` or `listener` when there are voters: other nodes must reach this one";
                return Err(ConfigError::Setting { name: "listen", must });
            }
        };
        let local = match &listener {
            Some(listener) => Some(listener.local_addr().map_err(|error| io("reading the listening address", &error))?),
            None => None,
        };
        if let Some(local) = local
            && !local.ip().is_loopback()
            && !self.plain_tcp_anywhere
        {
            return Err(ConfigError::NotLoopback { address: local.to_string() });
        }
        let address = self.advertise.or_else(|| local.map(|local: SocketAddr| local.to_string())).unwrap_or_default();
        if !alone && !can_be_dialled(&address) {
            let must = "set to an address and port where other nodes reach this one: where it listens, every address of \
                        the machine, is nowhere to dial";
            return Err(ConfigError::Setting { name: "advertise", must });
        }
        let mut config = if alone { NodeConfig::alone(me) } else { NodeConfig::new(me, address.clone(), self.voters) };
        if config.voters.is_empty() {
            config.voters.push((me.id, address.clone()));
        }
        if self.voters_version == 0 {
            return Err(ConfigError::Setting { name: "voters_version", must: "at least 1" });
        }
        self.facts.check().map_err(|(name, must)| ConfigError::Setting { name, must })?;
        config.facts = self.facts;
        if let Some(name) = self.allocation {
            config.allocation = name;
        }
        config.version = self.voters_version;
        config.timing = self.timing;
        config.rebalance = self.rebalance;
        config.seed = randomness[2];
        let lanes = match self.lanes {
            Some(0) => return Err(ConfigError::Setting { name: "lanes", must: "at least 1" }),
            Some(lanes) => lanes,
            None => u32::try_from((runtime.workers() * 4).next_power_of_two()).unwrap_or(64).min(64),
        };

        let node = crate::node::Node::new(clock::now(), config.clone())?;
        let identity =
            link::Identity { cluster: cluster.clone(), protocol: link::PROTOCOL, node: me, address: address.clone() };
        let peers = Peers::new(identity, link::LinkConfig::default());
        let shared = {
            let (spawn, logger) = (control::spawner(runtime.clone()), runtime.clone());
            let log = Box::new(move |event: &Event| logger.log(event));
            Arc::new(Shared::new(me, cluster, address, peers, spawn, log))
        };
        for (id, address) in &config.voters {
            shared.peers.reach(*id, address);
        }
        {
            let (weak, runtime) = (Arc::downgrade(&shared), runtime.clone());
            shared.peers.start_with(Box::new(move |peer| {
                if let Some(shared) = weak.upgrade() {
                    runtime.spawn(net::write_to(shared, runtime.clone(), peer));
                }
            }));
        }
        if let Some(listener) = listener {
            listener.set_nonblocking(true).map_err(|error| io("making the listener non-blocking", &error))?;
            let listener = runtime.listen(listener).map_err(|error| io("listening", &error))?;
            runtime.spawn(inbound::accept(Arc::clone(&shared), runtime.clone(), listener));
        }
        for warning in config.timing.warnings(ROUND_TRIP, TICK) {
            shared.emit(Event::TimingTight(warning));
        }
        if let Some(warning) = config.timing.impatient(ASK_LIMIT) {
            shared.emit(Event::TimingTight(warning));
        }
        runtime.spawn(control::alarms(Arc::clone(&shared), runtime.clone()));
        runtime.spawn(vitals::watch(Arc::clone(&shared), runtime.clone(), self.measure));
        runtime.spawn(control::run(Arc::clone(&shared), runtime.clone(), node));
        let (timing, allocation) = (config.timing, config.allocation);
        Ok(Node { shared, runtime, timing, lanes, allocation, stream: Fixed::new(self.stream) })
    }
}

fn bind(address: &str) -> Result<TcpListener, ConfigError> {
    let mut addresses = address.to_socket_addrs().map_err(|error| io("resolving the listening address", &error))?;
    let first = addresses.next().ok_or(ConfigError::Setting { name: "listen", must: "an address that resolves" })?;
    TcpListener::bind(first).map_err(|error| ConfigError::Io { what: "binding", error: format!("{first}: {error}") })
}

/// Whether the address names one place. A host name is taken at its word.
fn can_be_dialled(address: &str) -> bool {
    match address.parse::<SocketAddr>() {
        Ok(address) => !address.ip().to_canonical().is_unspecified() && address.port() != 0,
        Err(_) => !address.is_empty(),
    }
}

fn io(what: &'static str, error: &std::io::Error) -> ConfigError {
    ConfigError::Io { what, error: error.to_string() }
}

/// From the system's entropy, by way of the standard library's keyed hasher: good enough for names that must not repeat.
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u64(clock::now().as_nanos());
    hasher.write_u32(std::process::id());
    hasher.finish()
}
