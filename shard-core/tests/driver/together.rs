//! Drivers wired together in memory, on one virtual clock: join, move, order, leave.

use std::collections::{BTreeMap, VecDeque};

use shard_core::driver::{Driver, Event, Host, Post, Seat, TypeConfig};
use shard_core::entity::{Fate, Reason, StopReason};
use shard_core::id::{Incarnation, Kind, NodeId, NodeKey};
use shard_core::node::{NodeConfig, Peer};
use shard_core::prelude::*;
use shard_core::region::lane::{DataHead, Life, Next, Receipt};
use shard_core::time::Instant;
use shard_core::wire::{Control, Stream};

/// Who sent it, and its number among those of this sender to this entity.
type Note = (NodeKey, u32);

enum Frame {
    Control(NodeKey, Control),
    Mail(Stream<Note>),
}

enum Owed {
    Started(Seat),
    Finished(Seat),
    Stopped(Seat),
}

/// A host whose handlers return at once.
struct Desk {
    me: NodeKey,
    peers: BTreeMap<NodeId, NodeKey>,
    owed: VecDeque<Owed>,
    sent: Vec<(NodeId, Frame)>,
    lives: BTreeMap<Seat, EntityId>,
    taken: Vec<(EntityId, Note)>,
    fates: Vec<Fate>,
    events: Vec<Event>,
}

impl Host<Note> for Desk {
    fn start(&mut self, seat: Seat, life: Life) {
        self.lives.insert(seat, life.id);
        self.owed.push_back(Owed::Started(seat));
    }
    fn run(&mut self, seat: Seat, message: Note) {
        self.taken.push((self.lives[&seat].clone(), message));
        self.owed.push_back(Owed::Finished(seat));
    }
    fn stop(&mut self, seat: Seat, _: StopReason) {
        self.owed.push_back(Owed::Stopped(seat));
    }
    fn cancel(&mut self, seat: Seat) {
        self.owed.push_back(Owed::Stopped(seat));
    }
    fn discard(&mut self, _: Seat) {}
    fn weigh(&mut self, _: Kind, _: &Note) -> Result<u32, Reason> {
        Ok(12)
    }
    fn control(&mut self, to: Peer, message: Control) {
        let key = match to {
            Peer::Key(key) => key,
            Peer::Id(id) => self.peers[&id],
        };
        self.sent.push((to.id(), Frame::Control(key, message)));
    }
    fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &Note) {
        let DataHead { key, token, attempt, seq, first, ask } = head;
        let mail = Stream::Data { key, token, attempt, seq, first, ask, entity: id.to_string(), body: *body };
        self.sent.push((to.id, Frame::Mail(mail)));
    }
    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>) {
        let mail = match receipt {
            Receipt::Taken { key, token, upto } => Stream::Taken { key, token, upto },
            Receipt::Closed { key, token, upto, beyond } => {
                Stream::Closed { key, token, upto, beyond: beyond.to_vec() }
            }
            Receipt::Refuse { key, token, attempt, draining, hint } => {
                Stream::Refuse { key, token, attempt, draining, hint }
            }
            Receipt::Rejected { key, token, seq, reason } => {
                let (reason, tag) = reason.to_wire();
                Stream::Rejected { key, token, seq, reason, tag }
            }
        };
        self.sent.push((to.id, Frame::Mail(mail)));
    }
    fn reach(&mut self, node: NodeKey, _: String) {
        self.peers.insert(node.id, node);
    }
    fn gone(&mut self, _: NodeKey) {}
    fn undelivered(&mut self, _: Kind, _: &EntityId, _: Note, fate: Fate) {
        self.fates.push(fate);
    }
    fn wall(&mut self) -> u64 {
        1
    }
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

struct World {
    now: Instant,
    kind: Kind,
    sites: Vec<(Driver<Note>, Desk)>,
    /// Every frame takes a millisecond.
    wire: BTreeMap<(Instant, u64), (NodeKey, NodeId, Frame)>,
    frames: u64,
    /// The next number per sender and entity.
    numbers: BTreeMap<(NodeKey, String), u32>,
}

impl World {
    fn new() -> Self {
        let kind = shard_core::hash::kind("note");
        let (sites, wire, numbers) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self { now: Instant::from_millis(1_000), kind, sites, wire, frames: 0, numbers }
    }

    /// Starts another node. The first one is the only voter.
    fn start(&mut self) -> usize {
        let id = self.sites.len() as u64 + 1;
        let me = NodeKey { id: NodeId(id), incarnation: Incarnation(id * 1_000) };
        let voter = NodeKey { id: NodeId(1), incarnation: Incarnation(1_000) };
        let mut desk = Desk {
            me,
            peers: BTreeMap::from([(voter.id, voter)]),
            owed: VecDeque::new(),
            sent: Vec::new(),
            lives: BTreeMap::new(),
            taken: Vec::new(),
            fates: Vec::new(),
            events: Vec::new(),
        };
        let config = NodeConfig::new(me, format!("node-{id}"), vec![(voter.id, "node-1".into())]);
        let mut driver = Driver::new(self.now, config).expect("the configuration is safe");
        driver.register(self.now, TypeConfig::new("note"), &mut desk).expect("the first of its name");
        self.sites.push((driver, desk));
        self.sites.len() - 1
    }

    fn tell(&mut self, site: usize, id: &str) {
        let (driver, desk) = &mut self.sites[site];
        let number = self.numbers.entry((desk.me, id.to_string())).or_insert(0);
        let post = Post { id, message: (desk.me, *number), ask: false, deadline: None };
        *number += 1;
        driver.tell(self.now, self.kind, post, desk).expect("the type is known and the node stays");
        self.pump();
    }

    /// Lets time pass, one event at a time.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let frame = self.wire.first_key_value().map(|((at, _), _)| *at);
            let timers = self.sites.iter().filter_map(|(driver, _)| driver.deadline()).min();
            let next = frame.into_iter().chain(timers).min().unwrap_or(end);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (from, to, frame) = entry.remove();
                self.deliver(from, to, frame);
                self.pump();
            }
            for site in 0..self.sites.len() {
                let (driver, desk) = &mut self.sites[site];
                if driver.deadline().is_some_and(|at| at <= self.now) {
                    driver.expire(self.now, desk);
                }
                driver.flush(desk);
                self.pump();
            }
        }
    }

    fn deliver(&mut self, from: NodeKey, to: NodeId, frame: Frame) {
        let now = self.now;
        let Some((driver, desk)) = self.sites.iter_mut().find(|(_, desk)| desk.me.id == to) else { return };
        match frame {
            Frame::Control(to, message) => {
                desk.peers.insert(from.id, from);
                driver.receive(now, from, to, message, desk);
            }
            Frame::Mail(Stream::Data { key, token, attempt, seq, first, ask, entity, body }) => {
                let head = DataHead { key, token, attempt, seq, first, ask };
                driver.arrive(now, from, head, &entity, Ok(body), desk);
            }
            Frame::Mail(Stream::Taken { key, token, upto }) => {
                driver.receipt(now, from, Receipt::Taken { key, token, upto }, desk);
            }
            Frame::Mail(Stream::Closed { key, token, upto, beyond }) => {
                driver.receipt(now, from, Receipt::Closed { key, token, upto, beyond: &beyond }, desk);
            }
            Frame::Mail(Stream::Refuse { key, token, attempt, draining, hint }) => {
                driver.receipt(now, from, Receipt::Refuse { key, token, attempt, draining, hint }, desk);
            }
            Frame::Mail(Stream::Rejected { key, token, seq, reason, tag }) => {
                let reason = Reason::from_wire(reason, tag);
                driver.receipt(now, from, Receipt::Rejected { key, token, seq, reason }, desk);
            }
            Frame::Mail(Stream::Reply { .. }) => unreachable!("nobody asks"),
        }
    }

    /// Answers what hosts owe and puts what they sent on the wire.
    fn pump(&mut self) {
        for (driver, desk) in &mut self.sites {
            while let Some(owed) = desk.owed.pop_front() {
                match owed {
                    Owed::Started(seat) => driver.started(self.now, seat, true, desk),
                    Owed::Finished(seat) => driver.finished(self.now, seat, Next::Stay, desk),
                    Owed::Stopped(seat) => driver.stopped(self.now, seat, desk),
                }
            }
            for (to, frame) in desk.sent.drain(..) {
                let at = self.now + Duration::from_millis(1);
                self.wire.insert((at, self.frames), (desk.me, to, frame));
                self.frames += 1;
            }
        }
    }

    fn shards(&self, site: usize) -> usize {
        self.sites[site].0.tenures().count()
    }

    /// Tells 40 entities from each of `sites` once in 20 ms, for `rounds` rounds.
    fn stream(&mut self, sites: &[usize], rounds: u32) {
        for _ in 0..rounds {
            for id in 0..40 {
                for site in sites {
                    self.tell(*site, &format!("e{id}"));
                }
            }
            self.pass(Duration::from_millis(20));
        }
    }

    /// Every note was taken exactly once and in order, per sender and entity, whichever nodes took it.
    fn check(&self) {
        // An entity lives at one node at a time, so sorting its notes by node could hide disorder: each node's own list
        // must ascend, and together they must have every number once.
        let mut all: BTreeMap<(NodeKey, String), Vec<u32>> = BTreeMap::new();
        for (_, desk) in &self.sites {
            assert_eq!(desk.fates, [], "{}", desk.me);
            let mut last: BTreeMap<(NodeKey, String), u32> = BTreeMap::new();
            for (id, (from, number)) in &desk.taken {
                let stream = (*from, id.to_string());
                assert!(last.insert(stream.clone(), *number).is_none_or(|last| last < *number), "{id} {from} {number}");
                all.entry(stream).or_default().push(*number);
            }
        }
        for (stream, numbers) in &mut all {
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..self.numbers[stream]), "{stream:?}: {numbers:?}");
        }
        assert_eq!(all.len(), self.numbers.len());
    }
}

#[test]
fn a_voter_starts_a_cluster_and_serves_it_by_itself() {
    let mut world = World::new();
    world.start();
    world.pass(Duration::from_secs(10));
    world.stream(&[0], 5);
    world.pass(Duration::from_secs(1));
    world.check();
    assert!(world.shards(0) > 0);
}

#[test]
fn mail_keeps_its_order_while_shards_move_to_a_node_that_joins_and_back_when_it_leaves() {
    let mut world = World::new();
    world.start();
    world.pass(Duration::from_secs(10));
    world.stream(&[0], 10);
    let before = world.shards(0);
    world.start();
    world.stream(&[0], 50);
    world.stream(&[0, 1], 400);
    let (here, there) = (world.shards(0), world.shards(1));
    assert!(there > 0 && here + there == before, "{here} and {there} of {before}");
    assert!(world.sites[0].1.events.iter().any(|event| matches!(event, Event::NodeUp(node) if node.id == NodeId(2))));

    world.pass(Duration::from_secs(1));
    let (driver, desk) = &mut world.sites[1];
    driver.leave(world.now, desk);
    world.pump();
    world.stream(&[0], 400);
    world.pass(Duration::from_secs(5));
    assert!(world.sites[1].0.has_left());
    assert_eq!((world.shards(0), world.shards(1)), (before, 0));
    world.check();
}

#[test]
fn a_node_that_hears_nothing_drops_its_shards_and_says_so() {
    let mut world = World::new();
    world.start();
    world.pass(Duration::from_secs(10));
    world.start();
    world.stream(&[0, 1], 400);
    assert!(world.shards(1) > 0);
    // The second node goes on alone, cut off.
    let (driver, mut desk) = world.sites.pop().expect("it was started");
    let mut alone = driver;
    for millis in 0..5_000 {
        let now = world.now + Duration::from_millis(millis);
        while let Some(owed) = desk.owed.pop_front() {
            match owed {
                Owed::Started(seat) => alone.started(now, seat, true, &mut desk),
                Owed::Finished(seat) => alone.finished(now, seat, Next::Stay, &mut desk),
                Owed::Stopped(seat) => alone.stopped(now, seat, &mut desk),
            }
        }
        alone.expire(now, &mut desk);
    }
    assert!(desk.events.contains(&Event::Lapsed));
    assert_eq!(alone.tenures().count(), 0);
    assert_eq!(alone.live_until(), Instant::ZERO);
    // The first node takes over.
    world.pass(Duration::from_secs(10));
    world.stream(&[0], 5);
    world.pass(Duration::from_secs(2));
    let seen = world.sites[0].1.taken.len();
    world.stream(&[0], 1);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.sites[0].1.taken.len(), seen + 40, "every entity lives at the first node");
}
