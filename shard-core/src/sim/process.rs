//! One process: its control, its lanes, its links; and what their orders do.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroUsize};

use super::cluster::Cluster;
use super::event::{Event, Frame};
use super::host::{Effect, Hands};
use super::model::{Asker, Message};
use super::options::ms;
use crate::entity::StopReason;
use crate::id::{Incarnation, NodeId, NodeKey, ShardId, ShardKey, Slot, Token};
use crate::machine::Fixed;
use crate::node::{Input, Node, NodeConfig, Output};
use crate::passivation::Passivation;
use crate::region::lane::{Arrival, Lane, LaneConfig, Next, Order, Tell};
use crate::region::stream::StreamConfig;
use crate::time::{Duration, Instant, nanos};
use crate::wire::link::{LinkReceiver, LinkSender};
use crate::wire::{KindReport, Stream};

/// One process while it lives.
pub(super) struct Process {
    pub(super) key: NodeKey,
    pub(super) life: u32,
    pub(super) node: Node,
    pub(super) lanes: Vec<Berth>,
    pub(super) senders: BTreeMap<NodeKey, LinkSender<Frame>>,
    pub(super) receivers: BTreeMap<NodeId, LinkReceiver>,
    /// Processes known to be gone for good.
    pub(super) gone: BTreeSet<NodeKey>,
    /// Processes whose lanes were told that they are hard to reach.
    pub(super) doubtful: BTreeSet<NodeKey>,
    pub(super) leaving: bool,
    awake: usize,
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
    lives: BTreeMap<(u32, u32), (usize, Token)>,
    pub(super) runs: BTreeMap<u64, Run>,
    pub(super) timer: u64,
    orders_at: u64,
    mail_at: u64,
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
        let voters = (0..options.voters).map(|at| (id_of(at), address(at))).collect();
        let mut config = NodeConfig::new(key, address(seat), voters);
        config.timing = options.timing.clone();
        config.rebalance = options.rebalance;
        config.rules = rules;
        let node = Node::new(now, config).expect("the simulator's times keep the inequalities");
        let stream = Fixed::new(StreamConfig { rules, ..options.stream.clone() });
        let idle = (!options.handlers.idle.is_zero()).then_some(options.handlers.idle);
        let lanes = (0..options.lanes).map(|lane| Berth {
            lane: Lane::new(LaneConfig {
                me: key,
                kind: self.kind,
                shards: NonZeroU32::new(options.shards).unwrap_or(NonZeroU32::MIN),
                lane,
                lanes: NonZeroU32::new(options.lanes).unwrap_or(NonZeroU32::MIN),
                passivation: Passivation { idle, at_most: NonZeroUsize::new(options.handlers.awake_max) },
                mailbox: options.handlers.mailbox,
                timers: 16,
                rest: ms(5),
                rest_max: ms(50),
                stream: stream.clone(),
                rules,
            }),
            lives: BTreeMap::new(),
            runs: BTreeMap::new(),
            timer: u64::MAX,
            orders_at: 0,
            mail_at: 0,
        });
        let lanes = lanes.collect();
        let hosts = seat >= options.pure_voters;
        let (report, strategy) =
            (KindReport { kind: self.kind, shards: options.shards, hosts }, options.strategy.make());
        let lane_count = options.lanes;
        let place = &mut self.seats[seat];
        place.lives += 1;
        place.last_key = key;
        place.process = Some(Process {
            key,
            life: place.lives,
            node,
            lanes,
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            gone: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            leaving: false,
            awake: 0,
            node_timer: u64::MAX,
            link_timer: u64::MAX,
            answers_at: 0,
        });
        let life = place.lives;
        self.note(seat, || alloc::format!("starts as {key}"));
        self.node_call(seat, |node, now, out| node.register(now, report, lane_count, strategy, out));
        let first = self.now + self.dice.work.between(0, 50_000_000);
        self.agenda.push(first, seat, life, Event::Work);
    }

    /// A process ends, and with it all it knew.
    pub(super) fn kill(&mut self, seat: usize) {
        let Some(process) = self.seats[seat].process.take() else { return };
        self.model.gone(process.key);
        self.checker.forget(seat);
        self.drop_connections_of(seat, process.life);
        self.seats[seat].paused_until = 0;
    }

    // ---- control ----------------------------------------------------------------------------------------------------

    pub(super) fn node_call(&mut self, seat: usize, call: impl FnOnce(&mut Node, Instant, &mut Vec<Output>)) {
        let now = self.local(seat);
        let Some(process) = &mut self.seats[seat].process else { return };
        let mut outputs = Vec::new();
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
                let wall = 1_000_000 + self.now / 1_000_000 + self.seats[seat].wall_skew;
                let at = self.now + 100_000;
                self.push_here(at, seat, Event::Answer(Input::Wall(wall)));
            }
            Output::Order { order, .. } => {
                let shard = match order {
                    Order::Own { shard, .. } | Order::Drain { shard, .. } | Order::Home { shard, .. } => shard,
                    _ => return,
                };
                self.order_lane(seat, self.lane_of(shard), order);
            }
            Output::All(order) => self.order_all(seat, order),
            Output::Reach { node, .. } => self.reach(seat, node),
            Output::Gone(node) => self.peer_gone(seat, node),
            Output::Lapsed => {
                self.counters.lapses += 1;
                self.note(seat, || "session lapsed".into());
            }
            Output::Elected(term) => {
                self.counters.elections += 1;
                self.note(seat, || alloc::format!("elected {term}"));
            }
            Output::Deposed(term) => self.note(seat, || alloc::format!("deposed {term}")),
            Output::Joined => self.note(seat, || "session joined".into()),
            Output::Farewell => {
                self.counters.departures += 1;
                self.note(seat, || "left".into());
                self.kill(seat);
                let back = self.now + nanos(self.options.timing.session) * self.dice.life.between(0, 3);
                self.agenda.push(back + 1, seat, 0, Event::Boot);
            }
            Output::Notice(notice) => self.note(seat, || alloc::format!("notice {notice:?}")),
            Output::NodeUp(_) | Output::NodeDown(_) | Output::KindRefused { .. } => {}
        }
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
    fn answer(&mut self, seat: usize, input: Input) {
        let delay = self.dice.net.below(nanos(self.faults.inbox) + 1);
        let now = self.now;
        let Some(process) = &mut self.seats[seat].process else { return };
        process.answers_at = process.answers_at.max(now + delay);
        let at = process.answers_at;
        self.push_here(at, seat, Event::Answer(input));
    }

    // ---- lanes ------------------------------------------------------------------------------------------------------

    pub(super) fn lane_call<R>(
        &mut self,
        seat: usize,
        lane: usize,
        call: impl FnOnce(&mut Lane<Message>, Instant, &mut Hands<'_>) -> R,
    ) -> Option<R> {
        let now = self.local(seat);
        let mut effects = Vec::new();
        let awake_max = self.options.handlers.awake_max;
        let process = self.seats[seat].process.as_mut()?;
        let mut hands = Hands { me: process.key, effects: &mut effects, awake: &mut process.awake, awake_max };
        let lane_machine = &mut process.lanes[lane].lane;
        let result = call(lane_machine, now, &mut hands);
        lane_machine.flush(&mut hands);
        for effect in effects {
            self.lane_says(seat, lane, effect);
        }
        self.set_lane_timer(seat, lane);
        Some(result)
    }

    fn lane_says(&mut self, seat: usize, lane: usize, effect: Effect) {
        match effect {
            Effect::Start(slot, life) => {
                let entity = self.entity_named(life.id.as_str());
                if let Some(process) = &mut self.seats[seat].process {
                    process.lanes[lane].lives.insert((slot.index, slot.generation), (entity, life.token));
                }
                let ready = !self.dice.work.chance(self.options.handlers.fail_permille, 1_000);
                self.begin(seat, lane, slot, What::Start { ready });
            }
            Effect::Run(slot, message) => self.run_handler(seat, lane, slot, message),
            Effect::Stop(slot, why) => {
                self.counters.passivations += u64::from(matches!(why, StopReason::Idle | StopReason::Evicted));
                self.begin(seat, lane, slot, What::Stop);
            }
            Effect::Cancel(slot) => self.cancel(seat, lane, slot),
            Effect::Discard(slot) => {
                if let Some(process) = &mut self.seats[seat].process {
                    process.lanes[lane].lives.remove(&(slot.index, slot.generation));
                }
            }
            Effect::Send(to, frame) => self.send_frame(seat, lane, to, frame),
            Effect::Lookup(shard) => self.answer(seat, Input::Lookup { key: self.key(shard) }),
            Effect::Undelivered(message, fate) => {
                self.note(seat, || alloc::format!("message {} is told `{fate}`", message.index));
                let result = self.model.told(message.index, fate);
                self.judge(result);
            }
            Effect::Owned => self.counters.grants += 1,
            Effect::Lost => {}
            Effect::Dropped(shard, token) => {
                self.note(seat, || alloc::format!("{shard} dropped ({token})"));
                self.answer(seat, Input::Dropped { key: self.key(shard), token });
            }
            Effect::Halted => {
                self.note(seat, || alloc::format!("lane {lane} halted"));
                let (kind, lane) = (self.kind, lane as u32);
                self.answer(seat, Input::Halted { kind, lane });
            }
            Effect::Notice(notice) => self.note(seat, || alloc::format!("lane notice {notice:?}")),
        }
    }

    /// A handler starts: here the message is taken.
    pub(super) fn run_handler(&mut self, seat: usize, lane: usize, slot: Slot, message: Message) {
        let odds = &self.options.handlers;
        let (fail, stop) = (odds.fail_permille, odds.stop_permille);
        let roll = self.dice.work.below(1_000);
        let next = match roll {
            _ if roll < fail => Next::Failed,
            _ if roll < fail + stop => Next::Stop,
            _ if roll < fail + stop * 2 => Next::Passivate,
            _ => Next::Stay,
        };
        self.begin(seat, lane, slot, What::Handle { message, next });
    }

    fn begin(&mut self, seat: usize, lane: usize, slot: Slot, what: What) {
        let Some(process) = &self.seats[seat].process else { return };
        let Some(&(entity, token)) = process.lanes[lane].lives.get(&(slot.index, slot.generation)) else { return };
        let shard = self.entities[entity].shard;
        let run = Run { slot, entity, shard, token, what };
        self.note(seat, || alloc::format!("e{entity} {what:?} under {token}"));
        self.check_run(seat, lane, &run);
        if let What::Handle { message, .. } = what {
            let result = self.model.handled(message.index, entity);
            self.judge(result);
        }
        let odds = &self.options.handlers;
        let long = self.dice.work.chance(odds.long_permille, 1_000);
        let span = if long { self.options.timing.margin * 4 } else { odds.time };
        let took = self.dice.work.below(nanos(span) + 1);
        self.runs += 1;
        let number = self.runs;
        if let Some(process) = &mut self.seats[seat].process {
            process.lanes[lane].runs.insert(number, run);
        }
        self.push_here(self.now + took, seat, Event::Done { lane, run: number });
    }

    /// What runs for the slot shall be dropped; that takes a moment.
    fn cancel(&mut self, seat: usize, lane: usize, slot: Slot) {
        let Some(process) = &self.seats[seat].process else { return };
        let found = process.lanes[lane].runs.iter().find(|(_, run)| run.slot == slot).map(|(number, _)| *number);
        if let Some(run) = found {
            let at = self.now + self.dice.work.below(nanos(self.options.handlers.time) + 1);
            self.push_here(at, seat, Event::Cancelled { lane, run });
        }
    }

    pub(super) fn run_is_over(&mut self, seat: usize, lane: usize, run: u64, cancelled: bool) {
        let Some(process) = &mut self.seats[seat].process else { return };
        let Some(Run { slot, what, .. }) = process.lanes[lane].runs.remove(&run) else { return };
        if let What::Handle { message, .. } = what {
            self.reply(seat, message);
        }
        let over = match (cancelled, what) {
            (true, _) | (false, What::Stop) => {
                if let Some(process) = &mut self.seats[seat].process {
                    process.lanes[lane].lives.remove(&(slot.index, slot.generation));
                }
                self.lane_call(seat, lane, |lane, now, host| lane.stopped(now, slot, host))
            }
            (false, What::Start { ready }) => {
                self.lane_call(seat, lane, |lane, now, host| lane.started(now, slot, ready, host))
            }
            (false, What::Handle { next, .. }) => {
                self.lane_call(seat, lane, |lane, now, host| lane.finished(now, slot, next, host))
            }
        };
        debug_assert!(over.is_some(), "the process lives");
    }

    /// A handler returned, or was dropped: whoever asked is told.
    fn reply(&mut self, seat: usize, message: Message) {
        match message.asker {
            Asker::Nobody => {}
            Asker::Here => {
                let result = self.model.replied(message.index);
                self.judge(result);
            }
            Asker::There { from, shard, seq } => {
                let fate = crate::wire::ReplyFate::Answer(message);
                let frame = Stream::Reply { key: self.key(shard), seq, fate };
                self.send_frame(seat, self.lane_of(shard), from, frame);
            }
        }
    }

    /// A frame of a link reaches its lane.
    pub(super) fn mail(&mut self, seat: usize, lane: usize, from: NodeKey, frame: Frame) {
        match frame {
            Stream::Data { key, token, attempt, seq, first, entity, body, .. } => {
                let hash = crate::hash::entity(&entity);
                let (shard, id) = (key.shard, entity.as_str());
                let arrival = Arrival { from, shard, token, attempt, seq, first, id, hash, body: Ok(body) };
                self.lane_call(seat, lane, |lane, now, host| lane.arrive(now, arrival, host));
            }
            Stream::Taken { key, token, upto } => {
                self.lane_call(seat, lane, |lane, now, host| lane.taken(now, from, key.shard, token, upto, host));
            }
            Stream::Closed { key, token, upto, beyond } => {
                self.lane_call(seat, lane, |lane, now, host| {
                    lane.closed(now, from, key.shard, token, upto, &beyond, host);
                });
            }
            Stream::Refuse { key, token, attempt, draining, hint } => {
                self.lane_call(seat, lane, |lane, now, host| {
                    lane.refused(now, from, key.shard, token, attempt, draining, hint, host);
                });
            }
            Stream::Rejected { key, seq, reason, tag, .. } => {
                let reason = crate::entity::Reason::from_wire(reason, tag);
                self.lane_call(seat, lane, |lane, _, host| lane.rejected(from, key.shard, seq, reason, host));
            }
            Stream::Reply { key, seq, .. } => {
                let asked = self.lane_call(seat, lane, |lane, _, _| lane.replied(from, key.shard, seq));
                if let Some(Some(message)) = asked {
                    let result = self.model.replied(message.index);
                    self.judge(result);
                }
            }
        }
    }

    /// A link delivered a frame: into the lane's inbox.
    pub(super) fn deliver(&mut self, seat: usize, from: NodeKey, frame: Frame) {
        let key = match &frame {
            Stream::Data { key, .. }
            | Stream::Taken { key, .. }
            | Stream::Closed { key, .. }
            | Stream::Refuse { key, .. }
            | Stream::Rejected { key, .. }
            | Stream::Reply { key, .. } => *key,
        };
        let lane = self.lane_of(key.shard);
        let delay = self.dice.net.below(nanos(self.faults.inbox) / 4 + 1);
        let now = self.now;
        let Some(process) = &mut self.seats[seat].process else { return };
        let berth = &mut process.lanes[lane];
        berth.mail_at = berth.mail_at.max(now + delay);
        let at = berth.mail_at;
        self.push_here(at, seat, Event::Mail { lane, from, frame });
    }

    /// A caller on this node sends one message.
    pub(super) fn send_message(&mut self, seat: usize, entity: usize, ask: bool) {
        let Some(process) = &self.seats[seat].process else { return };
        let message = self.model.sent(process.key, entity, ask);
        self.note(seat, || {
            alloc::format!("message {} to e{entity}{}", message.index, if ask { ", an ask" } else { "" })
        });
        let (name, hash, shard) =
            (self.entities[entity].name.clone(), self.entities[entity].hash, self.entities[entity].shard);
        let lane = self.lane_of(shard);
        let patience = nanos(self.options.timing.session) * self.dice.work.between(1, 4);
        let awake = self.lane_call(seat, lane, |lane, now, host| {
            if let Some(slot) = lane.locate(now, shard, hash, &name) {
                return Some(slot);
            }
            let deadline = ask.then(|| now + Duration::from_nanos(patience));
            lane.tell(now, Tell { id: &name, hash, shard, message, ask, deadline }, host);
            None
        });
        if let Some(Some(slot)) = awake {
            // The fast door: the host runs the handler itself and says that it did not return at once.
            self.lane_call(seat, lane, |lane, _, _| lane.busy(slot));
            self.run_handler(seat, lane, slot, message);
        }
    }

    pub(super) fn process_mut(&mut self, seat: usize) -> Option<&mut Process> {
        self.seats[seat].process.as_mut()
    }

    fn key(&self, shard: ShardId) -> ShardKey {
        ShardKey { kind: self.kind, shard }
    }

    pub(super) fn lane_of(&self, shard: ShardId) -> usize {
        (shard.0 % self.options.lanes) as usize
    }

    fn entity_named(&self, name: &str) -> usize {
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
