//! The node that users hold.

use std::any::Any;
use std::boxed::Box;
use std::format;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::string::{String, ToString};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;
use std::time::Duration;
use std::vec::Vec;

use core::num::NonZeroU32;

use super::entity_host::{EntityHost, Factory, Population};
use super::events::{Event, EventStream};
use super::inbox::{Bounds, LaneDoor};
use super::lane::LaneTask;
use super::outgate::Outgate;
use super::peers::Peers;
use super::proxy_host::ProxyHost;
use super::region::Region;
use super::runtime::{Runtime, timeout};
use super::shared::{Counters, Shared, ToControl, lock};
use super::{clock, control, net};
use crate::allocation::{AllocationStrategy, LeastShard};
use crate::entity::host::turn;
use crate::entity::{Entities, Entity, Identity, Wire};
use crate::hash::{self, ShardHash};
use crate::id::{Incarnation, NodeId, NodeKey};
use crate::machine::{Fixed, Rules, Timing};
use crate::node::{ConfigError, Input, NodeConfig};
use crate::passivation::Passivation;
use crate::region::lane::{Lane, LaneConfig};
use crate::region::stream::StreamConfig;
use crate::wire::KindReport;
use crate::wire::link;

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
    timing: Timing,
    rebalance: Duration,
    lanes: Option<u32>,
    plain_tcp_anywhere: bool,
    stream: StreamConfig,
}

impl<R: Runtime> NodeBuilder<R> {
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

    /// Where other nodes reach this one, if that is not where it listens.
    pub fn advertise(self, address: impl Into<String>) -> Self {
        Self { advertise: Some(address.into()), ..self }
    }

    /// The voters and where they listen: 1, 3 or 5, the same on every node. They elect the coordinator, and they are the
    /// seeds through which others find the cluster. Without it, this node is the only voter.
    pub fn voters<A: Into<String>>(self, voters: impl IntoIterator<Item = (NodeId, A)>) -> Self {
        Self { voters: voters.into_iter().map(|(id, address)| (id, address.into())).collect(), ..self }
    }

    /// The protocol's times; [`Timing::lan`] unless said otherwise. The same on every node.
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
        let mut config = if alone { NodeConfig::alone(me) } else { NodeConfig::new(me, address.clone(), self.voters) };
        if config.voters.is_empty() {
            config.voters.push((me.id, address.clone()));
        }
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
            runtime.spawn(net::accept(Arc::clone(&shared), runtime.clone(), listener));
        }
        runtime.spawn(control::alarms(Arc::clone(&shared), runtime.clone()));
        runtime.spawn(control::run(Arc::clone(&shared), runtime.clone(), node));
        Ok(Node { shared, runtime, timing: config.timing, lanes, stream: Fixed::new(self.stream) })
    }
}

fn bind(address: &str) -> Result<TcpListener, ConfigError> {
    let mut addresses = address.to_socket_addrs().map_err(|error| io("resolving the listening address", &error))?;
    let first = addresses.next().ok_or(ConfigError::Setting { name: "listen", must: "an address that resolves" })?;
    TcpListener::bind(first).map_err(|error| ConfigError::Io { what: "binding", error: format!("{first}: {error}") })
}

fn io(what: &'static str, error: &std::io::Error) -> ConfigError {
    ConfigError::Io { what, error: error.to_string() }
}

/// From the system's entropy, by way of the standard library's keyed hasher: good enough for names that must not repeat.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u64(clock::now().as_nanos());
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// One node of a cluster. Dropping it stops it without handing anything over; [`leave`](Self::leave) does it properly.
pub struct Node<R: Runtime> {
    shared: Arc<Shared>,
    runtime: R,
    timing: Timing,
    lanes: u32,
    stream: Fixed<StreamConfig>,
}

impl<R: Runtime> core::fmt::Debug for Node<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node")
            .field("key", &self.shared.me)
            .field("cluster", &self.shared.cluster)
            .finish_non_exhaustive()
    }
}

impl<R: Runtime + Default> Node<R> {
    /// Begins a node of the cluster called `cluster`, on the executor that this is called on.
    pub fn builder(cluster: impl Into<String>) -> NodeBuilder<R> {
        Self::builder_on(R::default(), cluster)
    }
}

impl<R: Runtime> Node<R> {
    /// Begins a node on a given executor.
    pub fn builder_on(runtime: R, cluster: impl Into<String>) -> NodeBuilder<R> {
        NodeBuilder {
            runtime,
            cluster: cluster.into(),
            id: None,
            listen: None,
            listener: None,
            advertise: None,
            voters: Vec::new(),
            timing: Timing::lan(),
            rebalance: Duration::from_secs(2),
            lanes: None,
            plain_tcp_anywhere: false,
            // Callers meet 4,096 messages per shard; what comes while a lane is at work is let in beyond it.
            stream: StreamConfig { messages_max: 8_192, bytes_max: 2 << 20, ..StreamConfig::default() },
        }
    }

    /// This process, as the cluster knows it.
    #[must_use]
    pub fn key(&self) -> NodeKey {
        self.shared.me
    }

    /// Where other nodes reach it; empty without a network.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Begins hosting entities of type `E` on this node.
    pub fn sharding<E: Entity>(&self) -> Sharding<'_, R, E>
    where
        E::Message: Wire,
    {
        Sharding { node: self, options: Options::default(), entity: PhantomData }
    }

    /// Begins sending to entities of a type that lives on other nodes.
    pub fn proxy<M: Wire>(&self) -> Proxy<'_, R, M> {
        Proxy { node: self, options: Options::default(), message: PhantomData }
    }

    /// What happens from now on.
    #[must_use]
    pub fn events(&self) -> EventStream {
        self.shared.events.listen()
    }

    /// Waits until this node's session lives and the coordinator knows its types. Bound it with a timeout of your own: a
    /// cluster without a quorum never gets there.
    ///
    /// # Errors
    /// The cluster counts the shards of a type otherwise, or the node has stopped.
    pub async fn joined(&self) -> Result<(), ConfigError> {
        poll_fn(|cx| {
            let mut standing = lock(&self.shared.standing);
            if let Some((kind, (node, cluster))) = standing.refused.iter().next() {
                let name = self.shared.door(*kind).map_or("?", |door| door.name());
                let (entity_type, cluster, node) = (name.to_string(), *cluster, *node);
                return Poll::Ready(Err(ConfigError::ShardCount { entity_type, cluster, node }));
            }
            if standing.left {
                return Poll::Ready(Err(ConfigError::Stopped));
            }
            if standing.live && standing.confirmed {
                return Poll::Ready(Ok(()));
            }
            standing.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// How the node stands right now.
    #[must_use]
    pub fn status(&self) -> Status {
        let standing = lock(&self.shared.standing).clone();
        let name = |kind| self.shared.door(kind).map_or_else(String::new, |door| door.name().to_string());
        Status {
            node: self.shared.me,
            live: standing.live,
            reigning: standing.reigning,
            coordinator: standing.term.map(|term| term.node),
            nodes: standing.nodes,
            shards: standing.shards.into_iter().map(|(kind, owned)| (name(kind), owned)).collect(),
            counters: self.shared.tallies.read(),
        }
    }

    /// [`leave_within`](Self::leave_within) 10 s.
    pub async fn leave(self) -> LeaveReport {
        self.leave_within(Duration::from_secs(10)).await
    }

    /// Hands all shards over, waits until what this node's callers sent is settled and what it said is acknowledged, then
    /// leaves and stops. If that takes longer than `limit`, it stops all the same, and its session runs out.
    pub async fn leave_within(self, limit: Duration) -> LeaveReport {
        let begun = clock::now();
        let shared = Arc::clone(&self.shared);
        shared.input(Input::HandOver);
        // Its own mail may take as long as it likes; but the node must also get around to leaving.
        let patience = begun + limit.mul_f32(0.8);
        while !shared.is_at_rest() && clock::now() < patience {
            self.runtime.sleep(Duration::from_millis(5)).await;
        }
        shared.input(Input::Leave);
        let left = poll_fn(|cx| {
            let mut standing = lock(&shared.standing);
            if standing.left {
                return Poll::Ready(());
            }
            standing.waiting.push(cx.waker().clone());
            Poll::Pending
        });
        let rest = (begun + limit).since(clock::now()).max(Duration::from_millis(100));
        let clean = timeout(&self.runtime, rest, left).await.is_some();
        LeaveReport { clean, took: clock::now().since(begun), counters: shared.tallies.read() }
    }

    fn register<M: Wire>(
        &self,
        options: &mut Options,
        hosts: bool,
    ) -> Result<(Arc<Region<M>>, Entities<M>), ConfigError> {
        let shards =
            NonZeroU32::new(options.shards).ok_or(ConfigError::Setting { name: "shards", must: "at least 1" })?;
        if options.shards > MAX_SHARDS {
            return Err(ConfigError::Setting { name: "shards", must: "at most 1,048,576" });
        }
        if self.shared.is_stopped() {
            return Err(ConfigError::Stopped);
        }
        let cap = options.passivation.at_most.map_or(usize::MAX, core::num::NonZero::get);
        // A small cap would be uneven over many lanes.
        let lanes = if cap / 64 < self.lanes as usize && cap < usize::MAX { 1 } else { self.lanes.min(options.shards) };
        let kind = hash::kind(M::TYPE_NAME);
        let bounds = Bounds { lane: 65_536, shard: u32::try_from(self.stream.messages_max).unwrap_or(u32::MAX) / 2 };
        let region = Arc::new(Region {
            shared: Arc::clone(&self.shared),
            kind,
            name: M::TYPE_NAME,
            shards,
            hash: options.hash,
            lanes: (0..lanes)
                .map(|lane| LaneDoor::new(((shards.get() + lanes - 1 - lane) / lanes) as usize, bounds))
                .collect(),
        });
        let entities = Entities::new(Arc::clone(&region) as Arc<_>);
        let references: Arc<dyn Any + Send + Sync> = Arc::new(entities.clone());
        self.shared.add_door(kind, Arc::clone(&region) as Arc<_>, references).map_err(|other| {
            if other == M::TYPE_NAME {
                ConfigError::TypeTaken { entity_type: M::TYPE_NAME }
            } else {
                ConfigError::KindClash { entity_type: M::TYPE_NAME, other }
            }
        })?;
        let strategy = options.strategy.take().unwrap_or_else(|| Box::new(LeastShard::default()));
        let kind = KindReport { kind, shards: shards.get(), hosts };
        self.shared.tell_control(ToControl::Register { kind, lanes, strategy });
        Ok((region, entities))
    }

    fn lane_config<M>(&self, region: &Region<M>, options: &Options, lane: u32) -> LaneConfig {
        LaneConfig {
            me: self.shared.me,
            kind: region.kind,
            shards: region.shards,
            lane,
            lanes: NonZeroU32::new(u32::try_from(region.lanes.len()).unwrap_or(1)).unwrap_or(NonZeroU32::MIN),
            passivation: options.passivation,
            mailbox: 4_096,
            timers: 65_536,
            rest: Duration::from_millis(100),
            rest_max: Duration::from_secs(10),
            stream: self.stream.clone(),
            rules: Rules::all(),
        }
    }

    /// The protocol's times that this node runs with.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }
}

impl<R: Runtime> Drop for Node<R> {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// Shards of one type, at most.
const MAX_SHARDS: u32 = 1 << 20;

struct Options {
    shards: u32,
    hash: ShardHash,
    passivation: Passivation,
    strategy: Option<Box<dyn AllocationStrategy>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { shards: 64, hash: ShardHash::default(), passivation: Passivation::default(), strategy: None }
    }
}

/// How a type is hosted. See [`Node::sharding`].
#[must_use = "nothing happens before `start`"]
pub struct Sharding<'a, R: Runtime, E> {
    node: &'a Node<R>,
    options: Options,
    entity: PhantomData<fn() -> E>,
}

impl<R: Runtime, E> core::fmt::Debug for Sharding<'_, R, E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sharding").field("shards", &self.options.shards).finish_non_exhaustive()
    }
}

impl<R: Runtime, E: Entity> Sharding<'_, R, E>
where
    E::Message: Wire,
{
    /// How many shards the type has, in the whole cluster and for ever: the same on every node. 64 unless said otherwise.
    pub fn shards(mut self, shards: u32) -> Self {
        self.options.shards = shards;
        self
    }

    /// How an id becomes a shard; the same on every node.
    pub fn hash(mut self, hash: ShardHash) -> Self {
        self.options.hash = hash;
        self
    }

    /// When entities are put to sleep: after five minutes without mail unless said otherwise.
    pub fn passivation(mut self, passivation: Passivation) -> Self {
        self.options.passivation = passivation;
        self
    }

    /// How shards are placed while this node is the coordinator; [`LeastShard`] unless said otherwise.
    pub fn allocation(mut self, strategy: impl AllocationStrategy + 'static) -> Self {
        self.options.strategy = Some(Box::new(strategy));
        self
    }

    /// Starts hosting; each entity begins as `E::default()`.
    ///
    /// # Errors
    /// The type is registered already, or a setting is of no use.
    pub async fn start(self) -> Result<Entities<E::Message>, ConfigError>
    where
        E: Default,
    {
        self.start_with(|_| E::default()).await
    }

    /// Starts hosting; `factory` makes each entity. It runs on the lane: leave what waits to [`Entity::started`].
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(
        mut self,
        factory: impl Fn(&Identity) -> E + Send + Sync + 'static,
    ) -> Result<Entities<E::Message>, ConfigError> {
        let (region, entities) = self.node.register::<E::Message>(&mut self.options, true)?;
        let cap = self.options.passivation.at_most.map_or(usize::MAX, core::num::NonZero::get);
        let population = Arc::new(Population { awake: AtomicUsize::new(0), cap });
        let factory: Factory<E> = Arc::new(factory);
        for lane in 0..u32::try_from(region.lanes.len()).unwrap_or(0) {
            let out = Outgate::new(Arc::clone(&self.node.shared), Arc::clone(&region), lane);
            let host = EntityHost::new(out, Arc::clone(&population), Arc::clone(&factory), turn::<E>);
            let core = Lane::new(self.node.lane_config(&region, &self.options, lane));
            let runtime = self.node.runtime.clone();
            self.node.runtime.spawn_lane(LaneTask::new(core, host).run(runtime));
        }
        Ok(entities)
    }
}

/// How a type that lives elsewhere is reached. See [`Node::proxy`].
#[must_use = "nothing happens before `start`"]
pub struct Proxy<'a, R: Runtime, M> {
    node: &'a Node<R>,
    options: Options,
    message: PhantomData<fn() -> M>,
}

impl<R: Runtime, M> core::fmt::Debug for Proxy<'_, R, M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Proxy").field("shards", &self.options.shards).finish_non_exhaustive()
    }
}

impl<R: Runtime, M: Wire> Proxy<'_, R, M> {
    /// How many shards the type has, as its hosts say it.
    pub fn shards(mut self, shards: u32) -> Self {
        self.options.shards = shards;
        self
    }

    /// How an id becomes a shard, as its hosts say it.
    pub fn hash(mut self, hash: ShardHash) -> Self {
        self.options.hash = hash;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// The type is registered already, or a setting is of no use.
    pub async fn start(mut self) -> Result<Entities<M>, ConfigError> {
        let (region, entities) = self.node.register::<M>(&mut self.options, false)?;
        for lane in 0..u32::try_from(region.lanes.len()).unwrap_or(0) {
            let host = ProxyHost { out: Outgate::new(Arc::clone(&self.node.shared), Arc::clone(&region), lane) };
            let core = Lane::new(self.node.lane_config(&region, &self.options, lane));
            let runtime = self.node.runtime.clone();
            self.node.runtime.spawn_lane(LaneTask::new(core, host).run(runtime));
        }
        Ok(entities)
    }
}

/// How a node stands. See [`Node::status`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The node.
    pub node: NodeKey,
    /// Its session lives: it may own shards.
    pub live: bool,
    /// It is the coordinator.
    pub reigning: bool,
    /// The coordinator it obeys.
    pub coordinator: Option<NodeKey>,
    /// Who is in the cluster, as the coordinator last said.
    pub nodes: Vec<NodeKey>,
    /// Shards owned here, per type.
    pub shards: Vec<(String, usize)>,
    /// Counts since the start.
    pub counters: Counters,
}

/// How leaving went. See [`Node::leave_within`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaveReport {
    /// Every shard was handed over. If not, the node's session runs out, and its shards live elsewhere after that.
    pub clean: bool,
    /// How long it took.
    pub took: Duration,
    /// Counts since the start.
    pub counters: Counters,
}
