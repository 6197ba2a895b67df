//! The carrier.

mod clocks;
mod hearing;
mod reigning;
mod voters;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use super::clocks::Clocks;
use super::loads::OwnLoads;
use super::planner::Planner;
use super::traffic::OwnTraffic;
use super::{ConfigError, Explanation, Input, NodeConfig, Output, Peer};
use crate::allocation::AllocationStrategy;
use crate::coordinator::{self, Allocator, AllocatorConfig};
use crate::election::{Election, ElectionConfig, ElectionInput, ElectionOutput};
use crate::id::{Kind, NodeId, NodeKey, ShardId, ShardKey, Term};
use crate::machine::{Fixed, Machine, Outbox, Rule};
use crate::region::lane::Order;
use crate::session::{self, Session, SessionConfig};
use crate::time::{Instant, soonest};
use crate::wire::{Control, Directory, KindReport};

/// Addresses remembered at most; the directory replaces them anyway.
const ADDRESSES_MAX: usize = 65_536;

/// Processes remembered as counted out, at most: as many as lanes remember.
const ABSENT_MAX: usize = 4_096;

/// The control side of one process.
pub struct Node {
    config: NodeConfig,
    election: Election,
    session: Session,
    allocator: Allocator,
    planner: Planner,
    loads: OwnLoads,
    traffic: OwnTraffic,
    /// Frames to this node itself.
    loopback: VecDeque<Control>,
    addresses: BTreeMap<NodeId, String>,
    directory: Directory,
    /// What is known of clocks that cannot be trusted.
    clocks: Clocks,
    /// Processes that were counted out of the cluster and may come back.
    absent: BTreeSet<NodeKey>,
    /// How many lanes each registered type has.
    lanes: BTreeMap<Kind, u32>,
    /// The session whose end the lanes still owe an answer for, and which of them.
    halting: Option<(u64, BTreeSet<(Kind, u32)>)>,
    /// The reign whose end the voters are not told before the lanes have stopped (E8).
    owed: Option<Term>,
    /// This node wants to leave, but resigns first.
    departing: Option<Departing>,
    /// Which voter is asked next.
    next_voter: usize,
    left: bool,
}

/// A coordinator that leaves hands over its reign before its shards, so that nobody waits for either.
struct Departing {
    /// What the session is told then: `HandOver` or `Leave`.
    how: session::Input,
    /// The reign that it gives up.
    term: Term,
    /// When it leaves in any case.
    give_up_at: Instant,
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node").field("me", &self.config.me).field("session", &self.session).finish_non_exhaustive()
    }
}

impl Node {
    /// A node that has just started and knows nobody but the voters' addresses.
    ///
    /// # Errors
    /// The configuration is not safe.
    pub fn new(now: Instant, config: NodeConfig) -> Result<Self, ConfigError> {
        config.timing.check()?;
        let me = config.me;
        let mut voters: Vec<NodeId> = config.voters.iter().map(|(id, _)| *id).collect();
        voters.sort_unstable();
        // In the middle of a change there may be two or four of them.
        let election = if config.version > 1 { ElectionConfig::during_change } else { ElectionConfig::new };
        let mut election = election(me, voters, config.timing.clone())?
            .with_version(config.version)
            .with_seed(config.seed)
            .with_rules(config.rules);
        if config.alone {
            election = election.alone()?;
        }
        let mut addresses: BTreeMap<NodeId, String> = config.voters.iter().cloned().collect();
        addresses.insert(me.id, config.address.clone());
        let (timing, rules) = (config.timing.clone(), config.rules);
        let session = SessionConfig {
            me,
            address: config.address.clone(),
            facts: config.facts.clone(),
            timing: timing.clone(),
            rules,
        };
        let mut allocator = Allocator::new(AllocatorConfig { me, timing, rules, alone: config.alone });
        allocator.handle(now, coordinator::Input::Peers(alloc::vec![me]), &mut |_| {});
        Ok(Self {
            election: Election::new(now, Fixed::new(election)),
            session: Session::new(now, session),
            allocator,
            planner: Planner::new(now, &config)?,
            loads: OwnLoads::default(),
            traffic: OwnTraffic::default(),
            loopback: VecDeque::new(),
            addresses,
            directory: Directory::default(),
            clocks: Clocks::new(config.timing.rate_error_permille, config.rules),
            absent: BTreeSet::new(),
            lanes: BTreeMap::new(),
            halting: None,
            owed: None,
            departing: None,
            next_voter: 0,
            left: false,
            config,
        })
    }

    /// Registers an entity type with `lanes` lanes on this node, and how its shards are placed when this node reigns.
    pub fn register(
        &mut self,
        now: Instant,
        kind: KindReport,
        lanes: u32,
        strategy: Box<dyn AllocationStrategy>,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) {
        self.lanes.insert(kind.kind, lanes);
        self.planner.register(kind, strategy);
        self.tell_session(now, session::Input::Registered(kind), out);
        self.settle(now, out);
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Instant, input: Input, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.left {
            return;
        }
        self.clocks.now = now;
        self.look_at_the_reign(now, out);
        match input {
            Input::Heard { from, to, message } => self.heard(now, from, to, message, out),
            Input::Met { node, address } => {
                self.learn_address(node.id, &address);
                self.tell_allocator(now, coordinator::Input::Met { node }, out);
            }
            Input::Wall(wall) => self.tell_election(now, ElectionInput::Start { wall }, out),
            Input::Look { wall } => self.look_at_the_clocks(now, wall, out),
            Input::Loads { kind, loads } => self.loads.measured(kind, loads),
            Input::Traffic(traffic) => self.traffic.observed(traffic),
            Input::Measured(stats) => self.tell_session(now, session::Input::Measured(stats), out),
            Input::Dropped { key, token } => self.tell_session(now, session::Input::Dropped { key, token }, out),
            Input::Halted { kind, lane } => self.halted(now, kind, lane, out),
            Input::Lookup { key } => {
                if let Some(term) = self.session.term() {
                    self.send(Peer::Key(term.node), Control::Lookup { key }, out);
                }
            }
            Input::Resign => self.resign(now, out),
            Input::HandOver => self.depart(now, session::Input::HandOver, out),
            Input::Leave => self.depart(now, session::Input::Leave, out),
        }
        self.settle(now, out);
    }

    /// Does what is due. Call it after each batch of inputs too: heartbeats and commands leave from here, one for all.
    pub fn expire(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.left {
            return;
        }
        self.clocks.now = now;
        self.look_at_the_reign(now, out);
        let mut outputs = Vec::new();
        self.session.expire(now, &mut outputs);
        self.session_says(now, outputs, out);
        let mut outputs = Vec::new();
        self.allocator.expire(now, &mut outputs);
        self.allocator_says(now, outputs, out);
        self.planner.rebalance(now, &self.allocator);
        self.settle(now, out);
    }

    /// When [`expire`](Self::expire) next has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.left {
            return None;
        }
        let machines = soonest(soonest(self.election.deadline(), self.session.deadline()), self.allocator.deadline());
        let departing = self.departing.as_ref().map(|departing| departing.give_up_at);
        soonest(soonest(machines, departing), self.planner.deadline(&self.allocator))
    }

    /// This process.
    #[must_use]
    pub fn me(&self) -> NodeKey {
        self.config.me
    }

    /// The session machine, to look at.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The election machine, to look at.
    #[must_use]
    pub fn election(&self) -> &Election {
        &self.election
    }

    /// The allocator, to look at; empty unless this node reigns.
    #[must_use]
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Where the shards of a type live, in ascending order, while this node reigns; nothing on other nodes.
    pub fn homes(&self, kind: Kind) -> impl Iterator<Item = (ShardId, NodeId)> {
        let places = self.allocator.places().filter(move |place| place.key.kind == kind);
        places.map(|place| (place.key.shard, place.owner.id))
    }

    /// Why a shard is where it is, while this node reigns; `None` on other nodes, or if there is no such shard. O(shards of the
    /// type).
    pub fn explain(&mut self, now: Instant, key: ShardKey) -> Option<Explanation> {
        self.planner.explain(now, &self.allocator, key)
    }

    /// Who is in the cluster, as the coordinator last said.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The term this node obeys.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.session.term()
    }

    /// Whether every lane has stopped what the end of a session asked for.
    #[must_use]
    pub fn is_halting(&self) -> bool {
        self.halting.is_some()
    }

    /// A reign that is over is over before anything else happens (contiguous reigns).
    fn look_at_the_reign(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.config.rules.on(Rule::AdvanceFirst) && self.election.deadline().is_some_and(|at| now >= at) {
            let mut outputs = Vec::new();
            self.election.expire(now, &mut outputs);
            self.election_says(now, outputs, out);
        }
    }

    /// Carries what is under way inside the process until nothing is.
    fn settle(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        loop {
            if let Some(message) = self.loopback.pop_front() {
                let me = self.config.me;
                self.heard(now, me, me, message, out);
                continue;
            }
            if let Some(input) = self.planner.next(now, &self.allocator) {
                self.tell_allocator(now, input, out);
                continue;
            }
            self.departs(now, out);
            if self.election.is_outgoing(now) {
                self.resign(now, out);
            }
            if self.loopback.is_empty() {
                return;
            }
        }
    }

    fn tell_election(&mut self, now: Instant, input: ElectionInput, out: &mut (impl Outbox<Output> + ?Sized)) {
        let mut outputs = Vec::new();
        self.election.handle(now, input, &mut outputs);
        self.election_says(now, outputs, out);
    }

    fn tell_session(&mut self, now: Instant, input: session::Input, out: &mut (impl Outbox<Output> + ?Sized)) {
        let mut outputs = Vec::new();
        self.session.handle(now, input, &mut outputs);
        self.session_says(now, outputs, out);
    }

    fn tell_allocator(&mut self, now: Instant, input: coordinator::Input, out: &mut (impl Outbox<Output> + ?Sized)) {
        let mut outputs = Vec::new();
        self.allocator.handle(now, input, &mut outputs);
        self.allocator_says(now, outputs, out);
    }

    fn election_says(&mut self, now: Instant, said: Vec<ElectionOutput>, out: &mut (impl Outbox<Output> + ?Sized)) {
        // First of all: the list that leaves below does not name this node any more, which relies on its clipped end (E8).
        self.clip(now, out);
        for output in said {
            match output {
                ElectionOutput::Send { to, message: Control::Reign { term, .. } } => {
                    let address = self.addresses.get(&term.node.id).cloned().unwrap_or_default();
                    self.send(Peer::Id(to), Control::Reign { term, address }, out);
                }
                ElectionOutput::Send { to, message } => self.send(Peer::Id(to), message, out),
                ElectionOutput::NeedWall => out.emit(Output::NeedWall),
                ElectionOutput::Elected { term } => {
                    out.emit(Output::Elected(term));
                    self.planner.reset(now);
                    self.tell_allocator(now, coordinator::Input::Elected { term }, out);
                }
                ElectionOutput::Evidence { term, complete, carried } => {
                    self.tell_allocator(now, coordinator::Input::Evidence { term, complete, carried }, out);
                }
                ElectionOutput::Confirmed { term, version } => {
                    self.tell_allocator(now, coordinator::Input::Confirmed { term, version }, out);
                }
                ElectionOutput::Committed { version } => self.in_force(now, version, out),
                ElectionOutput::Lost { term, resigned } => self.deposed(now, term, resigned, out),
                ElectionOutput::Notice(notice) => out.emit(Output::Notice(notice)),
            }
        }
    }

    fn session_says(&mut self, now: Instant, said: Vec<session::Output>, out: &mut (impl Outbox<Output> + ?Sized)) {
        for output in said {
            match output {
                session::Output::Send { to, mut message } => {
                    if let Control::Heartbeat(beat) = &mut message {
                        let session = &self.session;
                        beat.loads = self.loads.part(beat.term, |key| session.owns(now, key).is_some());
                        beat.traffic = self.traffic.part();
                    }
                    self.send(Peer::Key(to), message, out);
                }
                session::Output::AskVoters => self.ask_a_voter(out),
                session::Output::Joined { .. } => out.emit(Output::Joined),
                session::Output::Live { until } => out.emit(Output::All(Order::Live { until })),
                session::Output::Own { key, token } => {
                    out.emit(Output::Order { kind: key.kind, order: Order::Own { shard: key.shard, token } });
                }
                session::Output::Drain { key, token, deadline } => {
                    let leaving = self.session.leaving();
                    let order = Order::Drain { shard: key.shard, token, deadline, leaving };
                    out.emit(Output::Order { kind: key.kind, order });
                }
                session::Output::StopAll { session } => self.stop_all(now, session, out),
                session::Output::Lapsed { .. } => out.emit(Output::Lapsed),
                session::Output::KindRefused { kind, cluster, node_shards } => {
                    out.emit(Output::KindRefused { kind, cluster, node_shards });
                }
                session::Output::Committed { version } => {
                    self.tell_election(now, ElectionInput::Committed { version }, out);
                }
                session::Output::Directory(directory) => self.directory_is(directory, out),
                session::Output::Farewell => {
                    self.tell_election(now, ElectionInput::StepDown, out);
                    self.left = true;
                    out.emit(Output::Farewell);
                }
                session::Output::Notice(notice) => out.emit(Output::Notice(notice)),
            }
        }
    }

    fn allocator_says(
        &mut self,
        now: Instant,
        said: Vec<coordinator::Output>,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) {
        for output in said {
            match output {
                coordinator::Output::Send { to, message } => self.send(Peer::Key(to), message, out),
                coordinator::Output::Publish(list) => self.tell_election(now, ElectionInput::Publish(list), out),
                coordinator::Output::Resigned { term } => {
                    self.tell_election(now, ElectionInput::Resign { term }, out);
                }
                coordinator::Output::Wanted { key, asker } => self.planner.want(key, asker),
                // The directory tells every node, this one included.
                coordinator::Output::Freed { .. }
                | coordinator::Output::Joined { .. }
                | coordinator::Output::Gone { .. } => {}
                coordinator::Output::LearnedCounter(counter) => {
                    self.tell_election(now, ElectionInput::LearnedCounter(counter), out);
                }
                coordinator::Output::Notice(notice) => out.emit(Output::Notice(notice)),
            }
        }
    }

    /// The lanes must stop. If there are none, they have.
    fn stop_all(&mut self, now: Instant, session: u64, out: &mut (impl Outbox<Output> + ?Sized)) {
        let owing: BTreeSet<(Kind, u32)> =
            self.lanes.iter().flat_map(|(kind, lanes)| (0..*lanes).map(|lane| (*kind, lane))).collect();
        if owing.is_empty() || !self.config.rules.on(Rule::SessionBarrier) {
            out.emit(Output::All(Order::Halt));
            return self.tell_session(now, session::Input::LanesStopped { session }, out);
        }
        self.halting = Some((session, owing));
        out.emit(Output::All(Order::Halt));
    }

    fn ask_a_voter(&mut self, out: &mut (impl Outbox<Output> + ?Sized)) {
        let others: Vec<NodeId> =
            self.config.voters.iter().map(|(id, _)| *id).filter(|id| *id != self.config.me.id).collect();
        if let Some(to) = others.get(self.next_voter % others.len().max(1)) {
            self.send(Peer::Id(*to), Control::WhoReigns, out);
        }
        self.next_voter = self.next_voter.wrapping_add(1);
    }

    /// Who is in the cluster. While a young reign is still learning who lives, nobody is counted out because it has not
    /// registered yet: its directory comes again when it knows.
    fn directory_is(&mut self, mut directory: Directory, out: &mut (impl Outbox<Output> + ?Sized)) {
        let me = self.config.me;
        let before = core::mem::take(&mut self.directory);
        for entry in &directory.nodes {
            self.learn_address(entry.node.id, &entry.address);
            if entry.node != me {
                out.emit(Output::Reach { node: entry.node, address: entry.address.clone() });
            }
            if before.nodes.binary_search_by_key(&entry.node, |known| known.node).is_err() {
                out.emit(Output::NodeUp(entry.node));
                if self.absent.remove(&entry.node) {
                    out.emit(Output::All(Order::Member { node: entry.node, present: true }));
                }
            }
        }
        for gone in &directory.gone {
            if *gone != me && before.gone.binary_search(gone).is_err() {
                out.emit(Output::Gone(*gone));
                self.absent.remove(gone);
            }
        }
        let known = directory.nodes.len();
        for entry in before.nodes {
            if directory.nodes[..known].binary_search_by_key(&entry.node, |known| known.node).is_ok() {
                continue;
            }
            let gone = directory.gone.binary_search(&entry.node).is_ok();
            if gone || self.session.is_open() {
                out.emit(Output::NodeDown(entry.node));
                if !gone && self.absent.len() < ABSENT_MAX && self.absent.insert(entry.node) {
                    out.emit(Output::All(Order::Member { node: entry.node, present: false }));
                }
            } else {
                directory.nodes.push(entry);
            }
        }
        directory.nodes.sort_unstable();
        self.directory = directory;
    }

    fn learn_address(&mut self, node: NodeId, address: &str) {
        if address.is_empty() || node == self.config.me.id {
            return;
        }
        if self.addresses.len() < ADDRESSES_MAX || self.addresses.contains_key(&node) {
            self.addresses.insert(node, String::from(address));
        }
    }

    fn send(&mut self, to: Peer, mut message: Control, out: &mut (impl Outbox<Output> + ?Sized)) {
        if to == Peer::Key(self.config.me) || to == Peer::Id(self.config.me.id) {
            self.loopback.push_back(message);
        } else if self.may_send(to, &mut message) {
            out.emit(Output::Send { to, message });
        }
    }
}
