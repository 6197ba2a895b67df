//! The driver: who is told what, in which order.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::region::{Region, Stage};
use super::{Event, Host, Seat, TypeConfig};
use crate::election::VoterChangeError;
use crate::entity::{EntityId, Reason, Refused};
use crate::hash;
use crate::id::{Kind, NodeId, NodeKey, ShardKey, Token};
use crate::machine::{Fixed, Rules};
use crate::node::{ConfigError, Input, Node, NodeConfig, Output};
use crate::passivation::Pool;
use crate::region::lane::{Arrival, DataHead, Lane, LaneConfig, Next, Order, Receipt, Tell};
use crate::region::stream::StreamConfig;
use crate::time::{Duration, Instant, soonest};
use crate::wire::{Control, KindReport};

/// A message of a caller on this node.
#[derive(Debug)]
pub struct Post<'a, M> {
    /// The entity.
    pub id: &'a str,
    /// The message.
    pub message: M,
    /// The caller waits for a reply.
    pub ask: bool,
    /// After this the message is of no use unless its handler has started.
    pub deadline: Option<Instant>,
}

/// One node on one thread: its control machines and the lanes of every registered type.
///
/// Every call takes the present time, which never goes back: read it after what the call hands over has come, not before, or
/// clocks that are right may seem to be wrong. At every wake, [`look`](Self::look) comes first. After a batch of calls, call [`flush`](Self::flush); whenever
/// [`deadline`](Self::deadline) has come (it may be now), call [`expire`](Self::expire): heartbeats leave from there.
#[derive(Debug)]
pub struct Driver<M> {
    pub(super) node: Node,
    /// Sorted by kind.
    regions: Vec<Region<M>>,
    /// What lanes told control, and control has not heard yet.
    inbox: VecDeque<Input>,
    /// Reused between calls.
    outputs: Vec<Output>,
    /// What lanes were last told of the session.
    live_until: Instant,
    left: bool,
    rules: Rules,
}

impl<M> Driver<M> {
    /// A node that has just started. Call [`expire`](Self::expire) next; a node that is
    /// [alone](NodeConfig::alone) then lives at once.
    ///
    /// # Errors
    /// The configuration is not safe.
    pub fn new(now: Instant, config: NodeConfig) -> Result<Self, ConfigError> {
        let rules = config.rules;
        Ok(Self {
            node: Node::new(now, config)?,
            regions: Vec::new(),
            inbox: VecDeque::new(),
            outputs: Vec::new(),
            live_until: Instant::ZERO,
            left: false,
            rules,
        })
    }

    /// Registers an entity type.
    ///
    /// # Errors
    /// The name, or another with the same hash, is registered already; or there would be a lane without a shard.
    pub fn register(
        &mut self,
        now: Instant,
        entity_type: TypeConfig,
        host: &mut (impl Host<M> + ?Sized),
    ) -> Result<Kind, ConfigError> {
        let TypeConfig { name, shards, lanes, hash, hosts, .. } = entity_type;
        let kind = hash::kind(name);
        let at = match self.regions.binary_search_by_key(&kind, |region| region.kind) {
            Ok(at) if self.regions[at].name == name => return Err(ConfigError::TypeTaken { entity_type: name }),
            Ok(at) => return Err(ConfigError::KindClash { entity_type: name, other: self.regions[at].name }),
            Err(at) => at,
        };
        if shards.get() > KindReport::SHARDS_MAX {
            return Err(ConfigError::Setting { name: "shards", must: "at most 1,048,576" });
        }
        if lanes > shards {
            return Err(ConfigError::Setting { name: "lanes", must: "at most the number of shards" });
        }
        if entity_type.guard.is_some_and(|guard| guard.fair().waiting_max() == 0) {
            return Err(ConfigError::Setting { name: "guard", must: "one with queues" });
        }
        let stream = Fixed::new(StreamConfig { rules: self.rules, ..entity_type.stream });
        let loads = entity_type.strategy.needs().loads.then_some(entity_type.loads);
        let lane = |lane: u32| {
            Lane::new(LaneConfig {
                me: self.node.me(),
                kind,
                shards,
                lane,
                lanes,
                passivation: entity_type.passivation,
                mailbox: entity_type.mailbox,
                timers: entity_type.timers,
                rest: entity_type.rest,
                rest_max: entity_type.rest_max,
                stream: stream.clone(),
                rules: self.rules,
                guard: entity_type.guard,
                loads,
            })
        };
        let region = Region {
            kind,
            name,
            shards,
            hash,
            lanes: (0..lanes.get()).map(lane).collect(),
            pool: entity_type.passivation.limit.map(|limit| Pool::new(&limit, lanes.get())),
        };
        self.regions.insert(at, region);
        self.order_all(now, Some(kind), Order::Live { until: self.live_until }, host);
        let report = KindReport { kind, shards: shards.get(), hosts };
        let mut outputs = mem::take(&mut self.outputs);
        self.node.register(now, report, lanes.get(), entity_type.strategy, &mut outputs);
        self.obey(now, outputs, host);
        self.settle(now, host);
        Ok(kind)
    }

    /// The fast door. `Some` if a handler for `id` may start right now; the caller then runs it without telling the driver,
    /// unless it waits ([`busy`](Self::busy), then [`finished`](Self::finished)) or ends in anything but [`Next::Stay`]
    /// ([`finished`](Self::finished)). O(1) for a bounded number of types; allocates nothing.
    #[inline]
    pub fn locate(&mut self, now: Instant, kind: Kind, id: &str) -> Option<Seat> {
        let region = self.region(kind)?;
        let (hash, shard, lane) = region.place(id);
        let slot = region.lanes[lane as usize].locate(now, shard, hash, id)?;
        Some(Seat { kind, lane, slot })
    }

    /// Takes a message of a caller on this node, wherever its entity lives. Its fate is a handler or
    /// [`Host::undelivered`].
    ///
    /// # Errors
    /// The type is not registered, or this node has left; the message comes back.
    pub fn tell(
        &mut self,
        now: Instant,
        kind: Kind,
        post: Post<'_, M>,
        host: &mut (impl Host<M> + ?Sized),
    ) -> Result<(), Refused<M>> {
        let Post { id, message, ask, deadline } = post;
        if self.left {
            return Err(Refused { message, reason: Reason::Stopping });
        }
        let Some(region) = self.region(kind) else {
            return Err(Refused { message, reason: Reason::NoSuchType });
        };
        let (hash, shard, lane) = region.place(id);
        let tell = Tell { id, hash, shard, message, ask, deadline };
        self.with_lane(now, kind, lane, host, |lane, stage| lane.tell(now, tell, stage));
        Ok(())
    }

    /// A control frame came from `from`, for the life `to` of this node.
    pub fn receive(
        &mut self,
        now: Instant,
        from: NodeKey,
        to: NodeKey,
        message: Control,
        host: &mut (impl Host<M> + ?Sized),
    ) {
        self.hear(now, Input::Heard { from, to, message }, host);
    }

    /// A message came that `from` sent with [`Host::transmit`]; `body` is the message, or why its bytes are none of this
    /// build's. If `head.ask`, the answer goes back over the same link and ends in [`replied`](Self::replied) there.
    pub fn arrive(
        &mut self,
        now: Instant,
        from: NodeKey,
        head: DataHead,
        id: &str,
        body: Result<M, Reason>,
        host: &mut (impl Host<M> + ?Sized),
    ) {
        let DataHead { key, token, attempt, seq, first, .. } = head;
        let Some(lane) = self.lane_of(key) else { return };
        let hash = hash::entity(id);
        let arrival = Arrival { from, shard: key.shard, token, attempt, seq, first, id, hash, body };
        self.with_lane(now, key.kind, lane, host, |lane, stage| lane.arrive(now, arrival, stage));
    }

    /// A receipt came that `from` sent with [`Host::receipt`].
    pub fn receipt(&mut self, now: Instant, from: NodeKey, receipt: Receipt<'_>, host: &mut (impl Host<M> + ?Sized)) {
        let (Receipt::Taken { key, .. }
        | Receipt::Closed { key, .. }
        | Receipt::Refuse { key, .. }
        | Receipt::Rejected { key, .. }) = receipt;
        let Some(lane) = self.lane_of(key) else { return };
        let shard = key.shard;
        self.with_lane(now, key.kind, lane, host, |lane, stage| match receipt {
            Receipt::Taken { token, upto, .. } => lane.taken(now, from, shard, token, upto, stage),
            Receipt::Closed { token, upto, beyond, .. } => lane.closed(now, from, shard, token, upto, beyond, stage),
            Receipt::Refuse { token, attempt, draining, hint, .. } => {
                lane.refused(now, from, shard, token, attempt, draining, hint, stage);
            }
            Receipt::Rejected { seq, reason, .. } => lane.rejected(from, shard, seq, reason, stage),
        });
    }

    /// The owner `from` answered the ask with number `seq`: here is the question, for the host to complete; `None` if
    /// nobody waits for it any more.
    pub fn replied(
        &mut self,
        now: Instant,
        from: NodeKey,
        key: ShardKey,
        seq: u64,
        host: &mut (impl Host<M> + ?Sized),
    ) -> Option<M> {
        let lane = self.lane_of(key)?;
        let mut question = None;
        self.with_lane(now, key.kind, lane, host, |lane, _| {
            question = lane.replied(from, key.shard, seq);
        });
        question
    }

    /// A handshake named a process and where it listens.
    pub fn met(&mut self, now: Instant, node: NodeKey, address: String, host: &mut (impl Host<M> + ?Sized)) {
        self.hear(now, Input::Met { node, address }, host);
    }

    /// The link to that process is up or down.
    pub fn link(&mut self, now: Instant, node: NodeKey, up: bool, host: &mut (impl Host<M> + ?Sized)) {
        self.order_all(now, None, Order::Link { node, up }, host);
        self.settle(now, host);
    }

    /// A handler started through [`locate`](Self::locate) waits.
    #[inline]
    pub fn busy(&mut self, seat: Seat) {
        if let Some(lane) = self.region(seat.kind).and_then(|region| region.lanes.get_mut(seat.lane as usize)) {
            lane.busy(seat.slot);
        }
    }

    /// The first hook is done; not `ready`: it failed, and the state is gone.
    pub fn started(&mut self, now: Instant, seat: Seat, ready: bool, host: &mut (impl Host<M> + ?Sized)) {
        self.with_lane(now, seat.kind, seat.lane, host, |lane, stage| lane.started(now, seat.slot, ready, stage));
    }

    /// A handler has returned, or was lost with its state ([`Next::Failed`]).
    pub fn finished(&mut self, now: Instant, seat: Seat, next: Next, host: &mut (impl Host<M> + ?Sized)) {
        self.with_lane(now, seat.kind, seat.lane, host, |lane, stage| lane.finished(now, seat.slot, next, stage));
    }

    /// The last hook is done, or all of it was dropped by order; the state is gone.
    pub fn stopped(&mut self, now: Instant, seat: Seat, host: &mut (impl Host<M> + ?Sized)) {
        self.with_lane(now, seat.kind, seat.lane, host, |lane, stage| lane.stopped(now, seat.slot, stage));
    }

    /// A message from an entity to itself `after` that long, as long as this life lasts. False: too many timers.
    pub fn schedule(&mut self, now: Instant, seat: Seat, after: Duration, message: M) -> bool {
        self.region(seat.kind)
            .and_then(|region| region.lanes.get_mut(seat.lane as usize))
            .is_some_and(|lane| lane.schedule(now, seat.slot, after, message))
    }

    /// Asks the entity `id` to stop once its mail is handled, if it is awake here.
    pub fn passivate(&mut self, now: Instant, kind: Kind, id: &str, host: &mut (impl Host<M> + ?Sized)) {
        let Some(region) = self.region(kind) else { return };
        let (hash, _, lane) = region.place(id);
        self.with_lane(now, kind, lane, host, |lane, stage| lane.passivate(now, hash, id, stage));
    }

    /// Leaves the cluster: hands all shards over, then says [`Event::Farewell`].
    pub fn leave(&mut self, now: Instant, host: &mut (impl Host<M> + ?Sized)) {
        self.hear(now, Input::Leave, host);
    }

    /// Goes on to the next set of voters; see [`Node::load_voters`].
    ///
    /// # Errors
    /// As there.
    pub fn load_voters(
        &mut self,
        now: Instant,
        version: u32,
        voters: Vec<(NodeId, String)>,
        host: &mut (impl Host<M> + ?Sized),
    ) -> Result<(), VoterChangeError> {
        let mut outputs = mem::take(&mut self.outputs);
        let loaded = self.node.load_voters(now, version, voters, &mut outputs);
        self.obey(now, outputs, host);
        self.settle(now, host);
        loaded
    }

    /// What the wall clock shows, in milliseconds, read in the same moment as `now`. Said at every wake, before anything else,
    /// it lets the node notice that its machine was frozen, and give up what others may have taken over; see
    /// [`Input::Look`](crate::node::Input::Look). Optional, and pointless for a node that is alone.
    pub fn look(&mut self, now: Instant, wall: u64, host: &mut (impl Host<M> + ?Sized)) {
        self.hear(now, Input::Look { wall }, host);
    }

    /// Does what is due; an early call changes nothing.
    pub fn expire(&mut self, now: Instant, host: &mut (impl Host<M> + ?Sized)) {
        let mut outputs = mem::take(&mut self.outputs);
        self.node.expire(now, &mut outputs);
        self.obey(now, outputs, host);
        self.settle(now, host);
        let inbox = &mut self.inbox;
        for region in &mut self.regions {
            region.each_lane(inbox, host, |lane, stage| {
                if lane.deadline().is_some_and(|at| at <= now) {
                    lane.expire(now, stage);
                }
            });
        }
        self.settle(now, host);
        self.flush(host);
    }

    /// When [`expire`](Self::expire) next has something to do. O(shards).
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let lanes = self.regions.iter().flat_map(|region| &region.lanes).map(Lane::deadline);
        lanes.fold(self.node.deadline(), soonest)
    }

    /// Reports to other nodes what was taken of their mail: one receipt per sender and shard, so call it once per batch.
    pub fn flush(&mut self, host: &mut (impl Host<M> + ?Sized)) {
        let inbox = &mut self.inbox;
        for region in &mut self.regions {
            region.each_lane(inbox, host, |lane, stage| lane.flush(stage));
        }
    }

    /// The control machines, to look at.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Who sits there, unless that life is over.
    #[must_use]
    pub fn id(&self, seat: Seat) -> Option<&EntityId> {
        let at = self.regions.binary_search_by_key(&seat.kind, |region| region.kind).ok()?;
        self.regions[at].lanes.get(seat.lane as usize)?.id(seat.slot)
    }

    /// The shards held here, with their grants; those that drain are among them.
    pub fn tenures(&self) -> impl Iterator<Item = (ShardKey, Token)> {
        self.regions.iter().flat_map(|region| {
            let kind = region.kind;
            region
                .lanes
                .iter()
                .flat_map(move |lane| lane.tenures().map(move |(shard, token)| (ShardKey { kind, shard }, token)))
        })
    }

    /// Entities of a type on this node, in any phase.
    #[must_use]
    pub fn residents(&self, kind: Kind) -> usize {
        let regions = self.regions.iter().filter(|region| region.kind == kind);
        regions.flat_map(|region| &region.lanes).map(Lane::residents).sum()
    }

    /// No handler starts at or after this: the session's end less the margin, as far as it is known.
    #[must_use]
    pub fn live_until(&self) -> Instant {
        self.live_until
    }

    /// Whether this node has left the cluster.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.left
    }

    #[inline]
    pub(super) fn region(&mut self, kind: Kind) -> Option<&mut Region<M>> {
        let at = self.regions.binary_search_by_key(&kind, |region| region.kind).ok()?;
        self.regions.get_mut(at)
    }

    /// The lane of a shard that a peer named; `None` if this node counts the shards otherwise, or has no such type.
    fn lane_of(&mut self, key: ShardKey) -> Option<u32> {
        let region = self.region(key.kind)?;
        (key.shard.0 < region.shards.get()).then(|| region.lane_of(key.shard))
    }

    /// Calls a lane, then carries what it owes control.
    pub(super) fn with_lane<H: Host<M> + ?Sized>(
        &mut self,
        now: Instant,
        kind: Kind,
        lane: u32,
        host: &mut H,
        call: impl FnOnce(&mut Lane<M>, &mut Stage<'_, H>),
    ) {
        let Ok(at) = self.regions.binary_search_by_key(&kind, |region| region.kind) else { return };
        let Region { lanes, pool, .. } = &mut self.regions[at];
        let Some(core) = lanes.get_mut(lane as usize) else { return };
        call(core, &mut Stage { kind, lane, host, inbox: &mut self.inbox, pool: pool.as_mut() });
        self.settle(now, host);
    }

    pub(super) fn hear(&mut self, now: Instant, input: Input, host: &mut (impl Host<M> + ?Sized)) {
        self.inbox.push_back(input);
        self.settle(now, host);
    }

    /// Carries what lanes told control until there is nothing left.
    fn settle(&mut self, now: Instant, host: &mut (impl Host<M> + ?Sized)) {
        while let Some(input) = self.inbox.pop_front() {
            let mut outputs = mem::take(&mut self.outputs);
            self.node.handle(now, input, &mut outputs);
            self.obey(now, outputs, host);
        }
    }

    /// Does what control ordered: the one place where every effect of the node has its arm.
    fn obey(&mut self, now: Instant, mut outputs: Vec<Output>, host: &mut (impl Host<M> + ?Sized)) {
        for output in outputs.drain(..) {
            match output {
                Output::Send { to, message } => host.control(to, message),
                Output::NeedWall => self.inbox.push_back(Input::Wall(host.wall())),
                Output::Order { kind, order } => self.order(now, kind, order, host),
                Output::All(order) => {
                    match order {
                        Order::Live { until } => self.live_until = until,
                        Order::Halt => self.live_until = Instant::ZERO,
                        _ => {}
                    }
                    self.order_all(now, None, order, host);
                }
                Output::Reach { node, address } => host.reach(node, address),
                Output::Gone(node) => {
                    self.order_all(now, None, Order::PeerGone(node), host);
                    host.gone(node);
                }
                Output::NodeUp(node) => host.event(Event::NodeUp(node)),
                Output::NodeDown(node) => host.event(Event::NodeDown(node)),
                Output::Joined => host.event(Event::Joined),
                Output::Lapsed => host.event(Event::Lapsed),
                Output::Elected(term) => host.event(Event::Elected(term)),
                Output::Deposed(term) => host.event(Event::Deposed(term)),
                Output::KindRefused { kind, cluster, node_shards } => {
                    self.order_all(now, Some(kind), Order::Refused, host);
                    host.event(Event::KindRefused { kind, cluster, node_shards });
                }
                Output::VotersInForce { version } => host.event(Event::VotersInForce { version }),
                Output::Farewell => {
                    self.left = true;
                    let inbox = &mut self.inbox;
                    for region in &mut self.regions {
                        region.each_lane(inbox, host, |lane, stage| lane.abandon(now, stage));
                    }
                    host.event(Event::Farewell);
                }
                Output::Notice(notice) => host.event(Event::Notice(notice)),
            }
        }
        self.outputs = outputs;
    }

    /// An order for the lane of the shard that it names.
    fn order(&mut self, now: Instant, kind: Kind, order: Order, host: &mut (impl Host<M> + ?Sized)) {
        let Some(shard) = order.shard() else { return self.order_all(now, Some(kind), order, host) };
        let Some(lane) = self.lane_of(ShardKey { kind, shard }) else { return };
        let Some(region) = self.regions.iter_mut().find(|region| region.kind == kind) else { return };
        let Region { lanes, pool, .. } = region;
        let stage = &mut Stage { kind, lane, host, inbox: &mut self.inbox, pool: pool.as_mut() };
        lanes[lane as usize].order(now, order, stage);
    }

    /// An order for every lane, of one type or of all.
    fn order_all(&mut self, now: Instant, kind: Option<Kind>, order: Order, host: &mut (impl Host<M> + ?Sized)) {
        let inbox = &mut self.inbox;
        for region in self.regions.iter_mut().filter(|region| kind.is_none_or(|kind| region.kind == kind)) {
            region.each_lane(inbox, host, |lane, stage| lane.order(now, order, stage));
        }
    }
}
