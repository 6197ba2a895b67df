//! One process: its control, its lanes, its links; and what their orders do.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::cluster::Cluster;
use super::event::Event;
use super::leave::Departure;
use super::links::Links;
use super::marks::Mark;
use super::model::Message;
use super::options::ms;
use crate::id::{Incarnation, NodeId, NodeKey, ShardId, ShardKey, Slot, Term, Token};
use crate::machine::{Fixed, Notice};
use crate::node::{Input, Node, NodeConfig, Output};
use crate::passivation::{Passivation, PolicyChoice, Pool};
use crate::region::lane::{Lane, LaneConfig, LoadBy, Next, Order};
use crate::region::stream::StreamConfig;
use crate::time::{Instant, nanos};
use crate::wire::KindReport;

/// Up to so many nodes, each is linked to each from the start.
const MESH: usize = 16;

/// One process while it lives.
pub(super) struct Process {
    pub(super) key: NodeKey,
    pub(super) life: u32,
    pub(super) node: Node,
    pub(super) lanes: Vec<Berth>,
    pub(super) links: Links,
    /// Processes known to be gone for good.
    pub(super) gone: BTreeSet<NodeKey>,
    /// Processes whose lanes were told that they are hard to reach.
    pub(super) doubtful: BTreeSet<NodeKey>,
    /// Processes whose links had no room when a lane asked.
    pub(super) crowded: BTreeSet<NodeKey>,
    /// The greatest term that its region has obeyed.
    pub(super) obeyed: Option<Term>,
    /// When its reign began, until it may place shards.
    pub(super) elected_at: Option<Instant>,
    /// It leaves.
    pub(super) departure: Option<Departure>,
    /// It is about to be told to load other voters.
    pub(super) loads: bool,
    /// What its lanes have of the limit, if there is one.
    pub(super) pool: Option<Pool>,
    /// When the timers are set for, in real time.
    pub(super) node_timer: u64,
    pub(super) link_timer: u64,
    /// What lanes last said to control arrives then.
    answers_at: u64,
}

/// A lane and what runs in it.
pub(super) struct Berth {
    pub(super) lane: Lane<Message>,
    /// The entity and grant of each slot's present life.
    pub(super) lives: BTreeMap<(u32, u32), (usize, Token)>,
    pub(super) runs: BTreeMap<u64, Run>,
    pub(super) timer: u64,
    orders_at: u64,
    pub(super) mail_at: u64,
}

/// A hook or handler that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) slot: Slot,
    pub(super) entity: usize,
    pub(super) shard: ShardId,
    pub(super) token: Token,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Start { ready: bool },
    Handle { message: Message, next: Next },
    Stop,
}

impl Cluster {
    /// A process starts at `seat`.
    pub(super) fn boot(&mut self, seat: usize) {
        if self.seats[seat].process.is_some() {
            return;
        }
        let now = self.local(seat);
        let rules = self.options.rules();
        let options = &self.options;
        let key = NodeKey { id: id_of(seat), incarnation: Incarnation(self.dice.life.next_u64()) };
        let version = self.seats[seat].version;
        let mut config = NodeConfig::new(key, address(seat), self.voters_of(version));
        config.version = version;
        config.timing = options.timing.clone();
        config.rebalance = options.rebalance;
        config.rules = rules;
        let node = Node::new(now, config).expect("the simulator's times keep the inequalities");
        let stream = Fixed::new(StreamConfig { rules, ..options.stream.clone() });
        let idle = (!options.handlers.idle.is_zero()).then_some(options.handlers.idle);
        let most = options.handlers.awake_max as u64;
        let policy = PolicyChoice::ALL[options.handlers.policy % PolicyChoice::ALL.len()];
        let limit = Passivation::weighing(most, 1).choosing(policy).limit.filter(|_| most > 0);
        let strategy = options.strategy.make();
        let needs = strategy.needs();
        let lanes = (0..options.lanes).map(|lane| Berth {
            lane: Lane::new(LaneConfig {
                me: key,
                kind: self.kind,
                shards: NonZeroU32::new(options.shards).unwrap_or(NonZeroU32::MIN),
                lane,
                lanes: NonZeroU32::new(options.lanes).unwrap_or(NonZeroU32::MIN),
                passivation: Passivation { idle, limit },
                mailbox: options.handlers.mailbox,
                timers: 16,
                rest: ms(5),
                rest_max: ms(50),
                stream: stream.clone(),
                rules,
                guard: options.make_guard(),
                loads: needs.loads.then_some(LoadBy::Messages),
            }),
            lives: BTreeMap::new(),
            runs: BTreeMap::new(),
            timer: u64::MAX,
            orders_at: 0,
            mail_at: 0,
        });
        let lanes = lanes.collect();
        let hosts = seat >= options.pure_voters;
        let report = KindReport { kind: self.kind, shards: options.shards, hosts };
        let lane_count = options.lanes;
        let place = &mut self.seats[seat];
        place.lives += 1;
        place.last_key = key;
        place.process = Some(Process {
            key,
            life: place.lives,
            node,
            lanes,
            links: Links::default(),
            gone: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            crowded: BTreeSet::new(),
            obeyed: None,
            elected_at: None,
            departure: None,
            loads: false,
            pool: limit.map(|limit| Pool::new(&limit, options.lanes)),
            node_timer: u64::MAX,
            link_timer: u64::MAX,
            answers_at: 0,
        });
        let life = place.lives;
        self.note(seat, || alloc::format!("starts as {key}"));
        self.node_call(seat, |node, now, out| node.register(now, report, lane_count, strategy, out));
        let first = self.now + self.dice.work.between(0, 50_000_000);
        self.agenda.push(first, seat, life, Event::Work);
        self.tell_to_load(seat, 100_000_000);
    }

    /// A process ends, and with it all it knew.
    pub(super) fn kill(&mut self, seat: usize) {
        let Some(process) = self.seats[seat].process.take() else { return };
        self.model.gone(process.key);
        self.checker.forget(seat);
        self.drop_connections_of(seat, process.life);
        self.seats[seat].paused_until = 0;
        self.seats[seat].frozen = false;
    }

    // ---- control ----------------------------------------------------------------------------------------------------

    pub(super) fn node_call(&mut self, seat: usize, call: impl FnOnce(&mut Node, Instant, &mut Vec<Output>)) {
        let now = self.local(seat);
        let wall = self.wall(seat);
        let Some(process) = &mut self.seats[seat].process else { return };
        let mut outputs = Vec::new();
        process.node.handle(now, Input::Look { wall }, &mut outputs);
        call(&mut process.node, now, &mut outputs);
        process.node.expire(now, &mut outputs);
        for output in outputs {
            self.node_says(seat, output);
        }
        self.set_node_timer(seat);
    }

    fn node_says(&mut self, seat: usize, output: Output) {
        match output {
            Output::Send { to, message } => self.send_control(seat, to, message),
            Output::NeedWall => {
                let at = self.now + 100_000;
                self.push_here(at, seat, Event::Answer(Input::Wall(self.wall(seat))));
            }
            Output::Order { order, .. } => {
                let shard = match order {
                    Order::Own { shard, .. } | Order::Drain { shard, .. } | Order::Home { shard, .. } => shard,
                    _ => return,
                };
                self.order_lane(seat, self.lane_of(shard), order);
            }
            Output::All(order @ Order::Live { .. }) => self.live(seat, order),
            Output::All(order) => {
                if order == Order::Halt {
                    self.dead(seat);
                }
                self.order_all(seat, order);
            }
            // A small cluster is a full mesh; in a large one links are made when something is to be said.
            Output::Reach { node, .. } if self.seats.len() <= MESH => self.reach(seat, node),
            Output::Reach { .. } => {}
            Output::Gone(node) => self.peer_gone(seat, node),
            Output::Lapsed => {
                self.counters.lapses += 1;
                if self.holds_shards(seat) {
                    self.mark(Mark::LapseWithShards);
                }
                self.touch_all(seat);
                self.note(seat, || "session lapsed".into());
            }
            Output::Elected(term) => {
                self.counters.elections += 1;
                self.elected_at(seat, true);
                self.note(seat, || alloc::format!("elected {term}"));
            }
            Output::Deposed(term) => {
                self.elected_at(seat, false);
                self.note(seat, || alloc::format!("deposed {term}"));
            }
            Output::Joined => self.note(seat, || "session joined".into()),
            Output::Farewell => {
                self.counters.departures += 1;
                if self.checker.has_reigned(seat) {
                    self.mark(Mark::CoordinatorLeft);
                }
                self.note(seat, || "left".into());
                let departure = self.seats[seat].process.as_ref().and_then(|process| process.departure);
                let back = self.now + departure.map_or(0, |departure| departure.away);
                self.kill(seat);
                self.agenda.push(back + 1, seat, 0, Event::Boot);
            }
            Output::Notice(notice) => self.hear_notice(seat, notice),
            Output::VotersInForce { version } => self.voters_in_force(seat, version),
            Output::NodeUp(_) | Output::NodeDown(_) | Output::KindRefused { .. } => {}
        }
    }

    /// The flag that lanes share: in force before anything else is done, however long other orders take.
    fn live(&mut self, seat: usize, order: Order) {
        for lane in 0..self.options.lanes as usize {
            if !self.lane_is_live(seat, lane) {
                self.touch_all(seat);
                if self.holds_shards(seat) {
                    self.mark(Mark::RevivedInMargin);
                }
            }
            self.note(seat, || alloc::format!("lane {lane}: {order:?}"));
            self.lane_call(seat, lane, |lane, now, host| lane.order(now, order, host));
        }
    }

    /// The same flag, when the session is over.
    fn dead(&mut self, seat: usize) {
        self.touch_all(seat);
        for lane in 0..self.options.lanes as usize {
            self.lane_call(seat, lane, |lane, now, host| lane.order(now, Order::Live { until: Instant::ZERO }, host));
        }
    }

    /// What the wall clock of a seat shows, in milliseconds.
    fn wall(&self, seat: usize) -> u64 {
        1_000_000 + self.now / 1_000_000 + self.seats[seat].wall_skew
    }

    /// A process wakes, from being frozen perhaps: its host reads both clocks before it does anything else.
    pub(super) fn wake(&mut self, seat: usize) {
        self.node_call(seat, |_, _, _| {});
        self.seats[seat].frozen = false;
        self.touch_all(seat);
    }

    fn order_lane(&mut self, seat: usize, lane: usize, order: Order) {
        let delay = self.dice.net.below(nanos(self.faults.inbox) + 1);
        let now = self.now;
        let Some(process) = &mut self.seats[seat].process else { return };
        let berth = &mut process.lanes[lane];
        berth.orders_at = berth.orders_at.max(now + delay);
        let at = berth.orders_at;
        self.push_here(at, seat, Event::Order { lane, order });
    }

    pub(super) fn order_all(&mut self, seat: usize, order: Order) {
        for lane in 0..self.options.lanes as usize {
            self.order_lane(seat, lane, order);
        }
    }

    /// A lane speaks to control: late, but in order.
    pub(super) fn answer(&mut self, seat: usize, input: Input) {
        let delay = self.dice.net.below(nanos(self.faults.inbox) + 1);
        let now = self.now;
        let Some(process) = &mut self.seats[seat].process else { return };
        process.answers_at = process.answers_at.max(now + delay);
        let at = process.answers_at;
        self.push_here(at, seat, Event::Answer(input));
    }

    /// Something for the operator.
    pub(super) fn hear_notice(&mut self, seat: usize, notice: Notice) {
        self.note(seat, || alloc::format!("notice {notice:?}"));
        match notice {
            Notice::StaleTerm { .. } => self.mark(Mark::StaleDirective),
            Notice::NotYours { .. } => self.mark(Mark::ClaimOfAnother),
            Notice::Repeated { .. } => self.mark(Mark::FrameRepeated),
            Notice::CandidacyGivenUp { .. } => self.mark(Mark::CandidacyGivenUp),
            Notice::ResignationFailed { .. } => self.mark(Mark::ResignationFailed),
            Notice::DrainForced { .. } => self.mark(Mark::DrainForced),
            Notice::ClockBroken { .. } | Notice::ClockJumped { .. } if self.clocks_are_broken => {
                self.mark(Mark::ClockAlarm);
            }
            Notice::ClockBroken { .. } | Notice::ClockJumped { .. } => {
                self.violated("false-alarm", alloc::format!("every clock is within its bound: {notice}"));
            }
            Notice::ConflictingClaim { from, key } => {
                self.violated("table-conflict", alloc::format!("{from} claims {}, which has another owner", key.shard));
            }
            _ => {}
        }
    }

    fn elected_at(&mut self, seat: usize, reigns: bool) {
        let now = self.local(seat);
        if let Some(process) = &mut self.seats[seat].process {
            process.elected_at = reigns.then_some(now);
        }
    }

    pub(super) fn holds_shards(&self, seat: usize) -> bool {
        let process = self.seats[seat].process.as_ref();
        process.is_some_and(|process| process.lanes.iter().any(|berth| berth.lane.tenures().next().is_some()))
    }

    pub(super) fn lane_is_live(&self, seat: usize, lane: usize) -> bool {
        let process = self.seats[seat].process.as_ref();
        process.is_some_and(|process| process.lanes[lane].lane.is_live(self.local(seat)))
    }

    pub(super) fn process_mut(&mut self, seat: usize) -> Option<&mut Process> {
        self.seats[seat].process.as_mut()
    }

    pub(super) fn key(&self, shard: ShardId) -> ShardKey {
        ShardKey { kind: self.kind, shard }
    }

    pub(super) fn lane_of(&self, shard: ShardId) -> usize {
        (shard.0 % self.options.lanes) as usize
    }

    pub(super) fn entity_named(&self, name: &str) -> usize {
        name.trim_start_matches('e').parse().unwrap_or(0)
    }
}

pub(super) fn id_of(seat: usize) -> NodeId {
    NodeId(seat as u64 + 1)
}

pub(super) fn seat_of(id: NodeId) -> usize {
    id.0 as usize - 1
}

pub(super) fn address(seat: usize) -> alloc::string::String {
    alloc::format!("10.0.0.{}", seat + 1)
}
