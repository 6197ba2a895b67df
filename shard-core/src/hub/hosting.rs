//! How entity types are hosted on a node, and reached from it.

use std::any::Any;
use std::boxed::Box;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use core::num::NonZeroU32;

use super::clock;
use super::entity_host::{EntityHost, Factory};
use super::inbox::{Bounds, LaneDoor};
use super::lane::{LaneTask, Turns};
use super::node::Node;
use super::outgate::Outgate;
use super::proxy_host::ProxyHost;
use super::region::Region;
use super::runtime::Runtime;
use super::shared::ToControl;
use super::traffic::Observed;
use crate::allocation::{AllocationStrategy, named};
use crate::entity::host::turn;
use crate::entity::{Entities, Entity, Identity, Wire};
use crate::hash::{self, ShardHash};
use crate::machine::Rules;
use crate::node::ConfigError;
use crate::passivation::{Limit, Passivation, Pool};
use crate::region::lane::{Lane, LaneConfig, LoadBy};
use crate::shuffle::Guard;
use crate::wire::KindReport;

pub(super) struct Options {
    shards: u32,
    hash: ShardHash,
    passivation: Passivation,
    strategy: Option<Box<dyn AllocationStrategy>>,
    guard: Option<Guard>,
    loads_by: LoadBy,
    /// The strategy looks at loads.
    loads: bool,
}

impl Default for Options {
    fn default() -> Self {
        let (hash, passivation) = (ShardHash::default(), Passivation::default());
        let loads_by = LoadBy::default();
        Self { shards: 64, hash, passivation, strategy: None, guard: None, loads_by, loads: false }
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

impl<'a, R: Runtime, E: Entity> Sharding<'a, R, E>
where
    E::Message: Wire,
{
    pub(super) fn new(node: &'a Node<R>) -> Self {
        Self { node, options: Options::default(), entity: PhantomData }
    }

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

    /// When entities are put to sleep: after five minutes without mail unless said otherwise. A limit holds for the type on
    /// this node as a whole: its lanes share it, and even it out each second. [`Node::limits`] tells how it goes, and
    /// [`Node::set_limit`] changes it.
    pub fn passivation(mut self, passivation: Passivation) -> Self {
        self.options.passivation = passivation;
        self
    }

    /// How shards are placed while this node is the coordinator; by the node's
    /// [default](super::NodeBuilder::allocation_named), which is [`LeastShard`](crate::allocation::LeastShard), unless said
    /// otherwise. By a name: `allocation(named("zone-spread")?)`.
    pub fn allocation(mut self, strategy: impl AllocationStrategy + 'static) -> Self {
        self.options.strategy = Some(Box::new(strategy));
        self
    }

    /// What the load of a shard is, for strategies that look at loads ([`WeightedMove`](crate::allocation::WeightedMove),
    /// [`Rebalancing`](crate::allocation::Rebalancing), yours): the messages it handles, unless said otherwise. With other
    /// strategies nothing is measured. Say the same on every node.
    pub fn load_by(mut self, load: LoadBy) -> Self {
        self.options.loads_by = load;
        self
    }

    /// Guards the entities of the type on this node by tenant: so many handlers at a time, and those that wait take turns by
    /// tenant ([`FairConfig`](crate::shuffle::FairConfig)); off unless said. A message for which its tenant has no room comes
    /// back as [`Reason::Full`](crate::entity::Reason::Full) with [`Bound::Tenant`](crate::entity::Bound::Tenant), to whichever
    /// node sent it; it has not run.
    ///
    /// A guarded type has one lane, so that its numbers are the node's, and its handlers run as tasks of their own: one that
    /// waits, or holds its thread, or never ends, keeps its own seat and nobody else's. That costs a few allocations per
    /// message. So that no tenant can take all seats, say [`FairConfig::seats_per_flow`](crate::shuffle::FairConfig) as well.
    pub fn guard(mut self, guard: Guard) -> Self {
        self.options.guard = Some(guard);
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
        let factory: Factory<E> = Arc::new(factory);
        let guarded = self.options.guard.is_some();
        self.node.start_lanes(&region, &self.options, |out| {
            let host = EntityHost::new(out, Arc::clone(&factory), turn::<E>);
            if guarded { host.apart() } else { host }
        });
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

impl<'a, R: Runtime, M: Wire> Proxy<'a, R, M> {
    pub(super) fn new(node: &'a Node<R>) -> Self {
        Self { node, options: Options::default(), message: PhantomData }
    }

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
        self.node.start_lanes(&region, &self.options, |out| ProxyHost { out });
        Ok(entities)
    }
}

impl<R: Runtime> Node<R> {
    fn register<M: Wire>(
        &self,
        options: &mut Options,
        hosts: bool,
    ) -> Result<(Arc<Region<M>>, Entities<M>), ConfigError> {
        let shards =
            NonZeroU32::new(options.shards).ok_or(ConfigError::Setting { name: "shards", must: "at least 1" })?;
        if options.shards > KindReport::SHARDS_MAX {
            return Err(ConfigError::Setting { name: "shards", must: "at most 1,048,576" });
        }
        if self.shared.is_stopped() {
            return Err(ConfigError::Stopped);
        }
        if options.guard.is_some_and(|guard| guard.fair().waiting_max() == 0) {
            return Err(ConfigError::Setting { name: "guard", must: "one with queues" });
        }
        // A small limit would be uneven over many lanes, and seats are counted in one place.
        let limit = options.passivation.limit;
        let few_of = |limit: Limit| limit.at_most.get() / u64::from(limit.weight().get()) / 64 < u64::from(self.lanes);
        let small = limit.is_some_and(few_of);
        let few = options.guard.is_some() || small;
        let lanes = if few { 1 } else { self.lanes.min(options.shards) };
        let kind = hash::kind(M::TYPE_NAME);
        let bounds = Bounds { lane: 65_536, shard: u32::try_from(self.stream.messages_max).unwrap_or(u32::MAX) / 2 };
        let strategy = match options.strategy.take() {
            Some(strategy) => strategy,
            None => named(&self.allocation).map_err(ConfigError::UnknownStrategy)?,
        };
        let needs = strategy.needs();
        options.loads = hosts && (needs.loads || needs.traffic);
        let region = Arc::new(Region {
            shared: Arc::clone(&self.shared),
            kind,
            name: M::TYPE_NAME,
            shards,
            hash: options.hash,
            lanes: (0..lanes)
                .map(|lane| LaneDoor::new(((shards.get() + lanes - 1 - lane) / lanes) as usize, bounds))
                .collect(),
            pool: limit.filter(|_| hosts).map(|limit| Mutex::new(Pool::new(&limit, lanes))),
            observed: (hosts && needs.traffic).then(|| Observed::new(clock::now(), shards.get())),
            refused: AtomicBool::new(false),
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
        let kind = KindReport { kind, shards: shards.get(), hosts };
        // Before control hears of it: whoever waits for `joined` from now on waits for this type too.
        self.shared.stand(|standing| {
            standing.registered += 1;
            standing.confirmed = false;
        });
        self.shared.tell_control(ToControl::Register { kind, lanes, strategy });
        Ok((region, entities))
    }

    fn start_lanes<M: Wire, H: Turns<M> + 'static>(
        &self,
        region: &Arc<Region<M>>,
        options: &Options,
        host: impl Fn(Outgate<M>) -> H,
    ) {
        for lane in 0..u32::try_from(region.lanes.len()).unwrap_or(0) {
            let host = host(Outgate::new(Arc::clone(&self.shared), Arc::clone(region), lane));
            let core = Lane::new(self.lane_config(region, options, lane));
            self.runtime.spawn_lane(LaneTask::new(core, host).run(self.runtime.clone()));
        }
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
            guard: options.guard,
            loads: options.loads.then_some(options.loads_by),
        }
    }
}
