//! A mini-world for streams over links: four nodes, two shards of two entities, an ideal coordinator that never lets two
//! tenures overlap; everything else goes wrong.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::{string::String, vec::Vec};

use super::net::{Connection, Ledger, Mail, Packet, Random};
use super::{config, key};
use crate::id::{Kind, NodeId, NodeKey, ShardId, ShardKey, Token};
use crate::machine::{Fixed, Rules};
use crate::region::stream::{Entry, Incoming, Outgoing, OutgoingInput};
use crate::time::{Duration, Instant};
use crate::wire::Home;
use crate::wire::link::{Arrival, Confirmed, Identity, LinkConfig, LinkReceiver, LinkSender, PROTOCOL, PeerGone};

pub(super) const NODES: usize = 4;
pub(super) const SHARDS: usize = 2;
pub(super) const ENTITIES: usize = 2;

pub(super) enum Event {
    Wake(NodeKey),
    Packet {
        connection: usize,
        towards: usize,
        packet: Packet,
        delayed: bool,
    },
    /// One end (0: dialler) learns that the connection is gone.
    Lost {
        connection: usize,
        end: usize,
    },
    DialFailed(NodeKey, usize),
    HandlerDone {
        owner: NodeKey,
        shard: usize,
        token: Token,
        entity: usize,
    },
    /// Control mail to the coordinator, and from it.
    Lookup(NodeKey, usize),
    Confirmed(usize, Token),
    Free {
        shard: usize,
        token: Token,
        closed: bool,
    },
    Home(NodeKey, usize, Home),
    Grant {
        to: NodeKey,
        session: u64,
        shard: usize,
        token: Token,
    },
    Drain(NodeKey, usize, Token),
    Gone(NodeKey, NodeKey),
    Restart(usize),
}

pub(super) struct Node {
    pub(super) key: NodeKey,
    pub(super) alive: bool,
    pub(super) paused_until: Instant,
    pub(super) session: u64,
    pub(super) tx: Vec<LinkSender<Mail>>,
    pub(super) rx: Vec<LinkReceiver>,
    pub(super) doubtful: [bool; NODES],
    dialling: [usize; NODES],
    pub(super) full: [bool; NODES],
    pub(super) streams: Vec<Outgoing<u8, u64>>,
    pub(super) tenures: [Option<Tenure>; SHARDS],
    pub(super) gone: BTreeSet<NodeKey>,
    pub(super) wake_at: Instant,
}

pub(super) struct Tenure {
    pub(super) incoming: Incoming,
    pub(super) draining: bool,
    pub(super) boxes: [VecDeque<Post>; ENTITIES],
    pub(super) running: [bool; ENTITIES],
}

pub(super) struct Post {
    pub(super) from: NodeKey,
    pub(super) seq: u64,
    pub(super) message: u64,
    pub(super) local: Option<Entry<u8, u64>>,
}

/// What the coordinator knows of a shard.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    pub(super) node: NodeKey,
    token: Token,
    confirmed: bool,
    pub(super) draining: bool,
    closed: bool,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) random: Random,
    pub(super) nodes: Vec<Node>,
    pub(super) seats: Vec<Seat>,
    pub(super) connections: Vec<Connection>,
    pub(super) ledger: Ledger,
    /// The last message of a sender that an entity's handler was started with.
    pub(super) latest: BTreeMap<(NodeKey, usize, u8), Option<u64>>,
    events: BTreeMap<(Instant, u64), Event>,
    order: u64,
    grants: u32,
    rules: Rules,
    link: Fixed<LinkConfig>,
}

pub(super) fn shard_key(shard: usize) -> ShardKey {
    ShardKey { kind: Kind(1), shard: ShardId(shard as u32) }
}

pub(super) fn place(node: NodeKey) -> usize {
    node.id.0 as usize
}

impl Node {
    fn new(key: NodeKey, rules: Rules, link: &Fixed<LinkConfig>) -> Self {
        Self {
            key,
            alive: true,
            paused_until: Instant::ZERO,
            session: 1,
            tx: (0..NODES).map(|_| LinkSender::new(link.clone(), None)).collect(),
            rx: (0..NODES).map(|_| LinkReceiver::new(link.clone())).collect(),
            doubtful: [false; NODES],
            dialling: [usize::MAX; NODES],
            full: [false; NODES],
            streams: (0..SHARDS).map(|_| Outgoing::new(config(rules), key)).collect(),
            tenures: [const { None }; SHARDS],
            gone: BTreeSet::new(),
            wake_at: Instant::NEVER,
        }
    }

    fn identity(&self) -> Identity {
        Identity { cluster: String::from("c"), protocol: PROTOCOL, node: self.key, address: String::new() }
    }
}

impl World {
    pub(super) fn new(seed: u64, rules: Rules, frames_max: u64) -> Self {
        let link = Fixed::new(LinkConfig { rules, frames_max, ..LinkConfig::default() });
        let mut world = Self {
            now: Instant::ZERO,
            random: Random(seed),
            nodes: (0..NODES).map(|id| Node::new(key(id as u64, 1), rules, &link)).collect(),
            seats: Vec::new(),
            connections: Vec::new(),
            ledger: Ledger::default(),
            latest: BTreeMap::new(),
            events: BTreeMap::new(),
            order: 0,
            grants: 0,
            rules,
            link,
        };
        for shard in 0..SHARDS {
            let seat = world.grant(shard, true);
            world.seats.push(seat);
        }
        (0..NODES).for_each(|place| world.tend(place));
        world
    }

    pub(super) fn after(&mut self, delay: Duration, event: Event) {
        self.order += 1;
        self.events.insert((self.now + delay, self.order), event);
    }

    pub(super) fn mail(&mut self, event: Event) {
        let delay = self.random.control_delay();
        self.after(delay, event);
    }

    /// Runs until `end`.
    pub(super) fn run_until(&mut self, end: Instant) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            self.now = entry.key().0;
            let event = entry.remove();
            self.happen(event);
        }
        self.now = end;
    }

    /// The node that an event is for, if it still lives; a paused one gets it later.
    fn reach(&mut self, node: NodeKey, event: Event) -> Option<(usize, Event)> {
        let host = &self.nodes[place(node)];
        if !host.alive || host.key != node {
            return None;
        }
        if host.paused_until > self.now {
            let pause = host.paused_until.since(self.now);
            self.after(pause, event);
            return None;
        }
        Some((place(node), event))
    }

    fn happen(&mut self, event: Event) {
        let node = match &event {
            Event::Lookup(..) | Event::Confirmed(..) | Event::Free { .. } | Event::Restart(_) => {
                return self.coordinate(event);
            }
            Event::Wake(node) | Event::DialFailed(node, _) | Event::Home(node, ..) | Event::Drain(node, ..) => *node,
            Event::Gone(node, _) | Event::HandlerDone { owner: node, .. } | Event::Grant { to: node, .. } => *node,
            Event::Lost { connection, end } => self.connections[*connection].ends[*end],
            Event::Packet { connection, towards, packet, delayed } => {
                let line = &self.connections[*connection];
                if !line.open && !delayed {
                    let (late, loss) = (line.late, line.loss);
                    if !self.random.chance(loss) {
                        let (connection, towards, packet) = (*connection, *towards, packet.clone());
                        self.after(late, Event::Packet { connection, towards, packet, delayed: true });
                    }
                    return;
                }
                line.ends[*towards]
            }
        };
        if let Some((place, event)) = self.reach(node, event) {
            self.happen_at(place, event);
            self.tend(place);
        }
    }

    fn happen_at(&mut self, at: usize, event: Event) {
        let now = self.now;
        match event {
            Event::Wake(_) => self.nodes[at].wake_at = Instant::NEVER,
            Event::DialFailed(_, peer) => self.nodes[at].tx[peer].failed(now),
            Event::Lost { connection, end } => {
                let peer = place(self.connections[connection].ends[1 - end]);
                let node = &mut self.nodes[at];
                if end == 0 && node.dialling[peer] == connection {
                    node.dialling[peer] = usize::MAX;
                    node.tx[peer].failed(now);
                } else if end == 0 {
                    node.tx[peer].disconnected(now, connection as u64);
                } else {
                    node.rx[peer].disconnected(connection as u64);
                }
            }
            Event::Packet { connection, towards, packet, .. } => self.arrived(at, connection, towards, packet),
            Event::HandlerDone { shard, token, entity, .. } => {
                if let Some(tenure) = self.nodes[at].tenures[shard].as_mut().filter(|t| t.incoming.token() == token) {
                    tenure.running[entity] = false;
                }
            }
            Event::Home(_, shard, home) => self.tell(at, shard, OutgoingInput::Home(home)),
            Event::Grant { session, shard, token, .. } => {
                if session == self.nodes[at].session {
                    let incoming = Incoming::new(config(self.rules), token);
                    let boxes = [const { VecDeque::new() }; ENTITIES];
                    let tenure = Tenure { incoming, draining: false, boxes, running: [false; ENTITIES] };
                    assert!(self.nodes[at].tenures[shard].replace(tenure).is_none());
                    self.mail(Event::Confirmed(shard, token));
                }
            }
            Event::Drain(_, shard, token) => {
                if let Some(tenure) = self.nodes[at].tenures[shard].as_mut().filter(|t| t.incoming.token() == token) {
                    tenure.draining = true;
                    tenure.incoming.drain();
                }
            }
            Event::Gone(_, gone) => self.peer_gone(at, gone),
            Event::Lookup(..) | Event::Confirmed(..) | Event::Free { .. } | Event::Restart(_) => unreachable!(),
        }
    }

    // ---- the coordinator --------------------------------------------------------------------------------------------

    fn grant(&mut self, shard: usize, closed: bool) -> Seat {
        let live: Vec<usize> = (0..NODES).filter(|place| self.nodes[*place].alive).collect();
        let node = &self.nodes[live[self.random.below(live.len() as u64) as usize]];
        self.grants += 1;
        let token = Token { counter: 1, node: NodeId(0), number: self.grants };
        let seat = Seat { node: node.key, token, confirmed: false, draining: false, closed };
        let session = node.session;
        self.mail(Event::Grant { to: seat.node, session, shard, token });
        seat
    }

    fn coordinate(&mut self, event: Event) {
        match event {
            Event::Lookup(from, shard) => {
                let seat = self.seats[shard];
                // Now and then it names a home that has not yet heard of its grant.
                if seat.confirmed || self.random.chance(30) {
                    let home = Home { node: seat.node, token: seat.token, closed: seat.closed };
                    self.mail(Event::Home(from, shard, home));
                }
            }
            Event::Confirmed(shard, token) => {
                let seat = &mut self.seats[shard];
                seat.confirmed |= seat.token == token;
            }
            Event::Free { shard, token, closed } => {
                if self.seats[shard].token == token {
                    if self.nodes.iter().any(|node| node.alive) {
                        self.seats[shard] = self.grant(shard, closed);
                    } else {
                        self.after(Duration::from_millis(50), Event::Free { shard, token, closed });
                    }
                }
            }
            Event::Restart(at) => {
                let old = self.nodes[at].key;
                let key = key(at as u64, old.incarnation.0 + 1);
                self.nodes[at] = Node::new(key, self.rules, &self.link);
                self.tend(at);
            }
            _ => unreachable!(),
        }
    }

    /// Begins a planned move, unless one is under way.
    pub(super) fn move_shard(&mut self, shard: usize) {
        let seat = &mut self.seats[shard];
        if seat.confirmed && !seat.draining {
            seat.draining = true;
            let event = Event::Drain(seat.node, shard, seat.token);
            self.mail(event);
        }
    }

    pub(super) fn kill(&mut self, at: usize) {
        let dead = self.nodes[at].key;
        self.nodes[at].alive = false;
        for connection in 0..self.connections.len() {
            if self.connections[connection].ends.contains(&dead) {
                self.break_connection(connection);
            }
        }
        let delay = self.random.micros(100_000, 300_000);
        for shard in 0..SHARDS {
            if self.seats[shard].node == dead {
                self.after(delay, Event::Free { shard, token: self.seats[shard].token, closed: false });
            }
        }
        for other in (0..NODES).filter(|other| *other != at) {
            let to = self.nodes[other].key;
            self.after(delay, Event::Gone(to, dead));
        }
        let delay = self.random.micros(50_000, 600_000);
        self.after(delay, Event::Restart(at));
    }

    /// The session of a node ends although the process lives.
    pub(super) fn lapse(&mut self, at: usize) {
        if !self.nodes[at].alive || self.nodes[at].paused_until > self.now {
            return;
        }
        self.nodes[at].session += 1;
        let delay = self.random.micros(50_000, 300_000);
        for shard in 0..SHARDS {
            self.end_tenure(at, shard, true);
            if self.seats[shard].node == self.nodes[at].key {
                self.after(delay, Event::Free { shard, token: self.seats[shard].token, closed: false });
            }
        }
        self.tend(at);
    }

    pub(super) fn break_connection(&mut self, connection: usize) {
        let loss = [100, 100, 50, 0][self.random.below(4) as usize];
        let late = self.random.micros(0, 100_000);
        let line = &mut self.connections[connection];
        if line.open {
            (line.open, line.loss, line.late) = (false, loss, late);
            for end in [0, 1] {
                let delay = self.random.micros(0, 5_000);
                self.after(delay, Event::Lost { connection, end });
            }
        }
    }

    // ---- a node: links ----------------------------------------------------------------------------------------------

    pub(super) fn send(&mut self, connection: usize, towards: usize, packet: Packet) {
        let delay = self.random.micros(100, 1_000);
        let line = &mut self.connections[connection];
        if line.open {
            line.last[towards] = (self.now + delay).max(line.last[towards] + Duration::from_nanos(1));
            let delay = line.last[towards].since(self.now);
            self.after(delay, Event::Packet { connection, towards, packet, delayed: false });
        }
    }

    pub(super) fn dial(&mut self, at: usize, peer: usize) {
        let target = &self.nodes[peer];
        let from = self.nodes[at].key;
        if !target.alive {
            return self.after(Duration::from_millis(1), Event::DialFailed(from, peer));
        }
        let ends = [from, target.key];
        let hello = self.nodes[at].identity().hello(self.nodes[at].tx[peer].peer());
        self.connections.push(Connection { ends, open: true, loss: 100, late: Duration::ZERO, last: [self.now; 2] });
        let connection = self.connections.len() - 1;
        self.nodes[at].dialling[peer] = connection;
        self.send(connection, 1, Packet::Hello(hello));
    }

    fn arrived(&mut self, at: usize, connection: usize, towards: usize, packet: Packet) {
        let now = self.now;
        let peer = place(self.connections[connection].ends[1 - towards]);
        let id = connection as u64;
        match packet {
            Packet::Hello(hello) => {
                let identity = self.nodes[at].identity();
                let welcome = self.nodes[at].rx[peer].hello(&identity, id, &hello).unwrap();
                self.send(connection, 0, Packet::Welcome(welcome));
            }
            Packet::Welcome(_) if self.nodes[at].dialling[peer] != connection => self.break_connection(connection),
            Packet::Welcome(welcome) => match self.nodes[at].tx[peer].connected(now, id, welcome) {
                Ok(gone) => {
                    self.nodes[at].dialling[peer] = usize::MAX;
                    self.send(connection, 1, Packet::Ping);
                    if let Some(gone) = gone {
                        self.pair_over(at, gone);
                    }
                }
                Err(_) => self.break_connection(connection),
            },
            Packet::Ack(upto) => {
                if self.nodes[at].tx[peer].acked(now, id, upto, &mut |_| ()).is_err() {
                    self.break_connection(connection);
                }
                if core::mem::take(&mut self.nodes[at].full[peer]) {
                    (0..SHARDS).for_each(|shard| self.tell(at, shard, OutgoingInput::Room));
                }
            }
            Packet::Ping => {
                self.confirm(at, peer, connection);
                self.nodes[at].rx[peer].ping(now, id);
            }
            Packet::Frame(seq, mail) => {
                self.confirm(at, peer, connection);
                match self.nodes[at].rx[peer].frame(now, id, seq) {
                    Arrival::Deliver => {
                        let from = self.nodes[at].rx[peer].peer().unwrap();
                        self.deliver(at, from, mail);
                    }
                    Arrival::Duplicate => {}
                    Arrival::Gap | Arrival::Stale => self.break_connection(connection),
                }
            }
        }
    }

    fn confirm(&mut self, at: usize, peer: usize, connection: usize) {
        if let Confirmed::Opened { gone, replaced } = self.nodes[at].rx[peer].confirm(self.now, connection as u64) {
            if let Some(replaced) = replaced {
                self.break_connection(replaced as usize);
            }
            let from = self.nodes[at].rx[peer].peer();
            let former = self.nodes[at].tx[peer].peer().filter(|known| Some(*known) != from);
            for old in [gone, former].into_iter().flatten() {
                self.peer_gone(at, old);
            }
        }
    }

    fn peer_gone(&mut self, at: usize, old: NodeKey) {
        let now = self.now;
        self.nodes[at].rx[place(old)].gone(old);
        if let Some(connection) =
            self.nodes[at].tx[place(old)].connection().filter(|_| self.nodes[at].tx[place(old)].peer() == Some(old))
        {
            self.break_connection(connection as usize);
        }
        let nothing = PeerGone { old, sent: VecDeque::new(), unsent: VecDeque::new() };
        let gone = self.nodes[at].tx[place(old)].gone(now, old).unwrap_or(nothing);
        self.pair_over(at, gone);
    }
}
