//! A small world for tests: two would-be coordinators, a few regions, one clock each, and mail that waits until it is
//! delivered. Who reigns is decided by the test (the abstract reign source). It knows nothing of the rules.

use alloc::{collections::BTreeMap, string::String, vec, vec::Vec};

use super::{Allocator, AllocatorConfig, Input, Output};
use crate::{
    id::{Incarnation, Kind, NodeId, NodeKey, ShardId, ShardKey, Term, Token},
    machine::{Machine, Notice, Rules, Timing},
    session::{self, Session, SessionConfig},
    time::{Duration, Instant},
    wire::{Control, KindReport, List},
};

pub(super) const KIND: Kind = Kind(7);
pub(super) const SHARDS: u32 = 3;

pub(super) fn shard(number: u32) -> ShardKey {
    ShardKey { kind: KIND, shard: ShardId(number) }
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// H = 10 ms, D = 1 s, rho = 5 %.
pub(super) fn timing() -> Timing {
    tight(Timing { rate_error_permille: 50, heartbeat: ms(10), session: ms(1_000), margin: ms(1), ..Timing::lan() })
}

/// W as short as it may be.
pub(super) fn tight(timing: Timing) -> Timing {
    Timing { wait: timing.drifted(timing.session), ..timing }
}

#[derive(Clone, Debug)]
pub(super) struct Mail {
    pub(super) from: NodeKey,
    pub(super) to: NodeKey,
    pub(super) message: Control,
}

/// What the lanes of a region know and do.
#[derive(Clone, Default, Debug)]
pub(super) struct Lanes {
    pub(super) held: BTreeMap<ShardKey, Token>,
    pub(super) until: Instant,
    pub(super) drains: Vec<(ShardKey, Token)>,
    pub(super) stops: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) key: NodeKey,
    pub(super) clock: Instant,
    pub(super) session: Session,
    pub(super) lanes: Lanes,
    pub(super) farewell: bool,
    /// Lanes stop at once when told.
    pub(super) prompt: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) key: NodeKey,
    pub(super) clock: Instant,
    pub(super) allocator: Allocator,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    rules: Rules,
    timing: Timing,
    pub(super) seats: Vec<Seat>,
    pub(super) reigning: Option<usize>,
    pub(super) counter: u64,
    pub(super) regions: Vec<Region>,
    pub(super) mail: Vec<Mail>,
    pub(super) wanted: Vec<ShardKey>,
    /// The most live owners that one shard ever had at once.
    pub(super) owners_max: usize,
    /// Claims that met a table which says otherwise (I7).
    pub(super) conflicts: usize,
    /// Grants that were not greater than one before (I3).
    pub(super) token_regressions: usize,
    pub(super) tokens: BTreeMap<ShardKey, Token>,
    pub(super) learned: Option<u64>,
    pub(super) grants: usize,
}

impl World {
    pub(super) fn new(rules: Rules, timing: Timing, regions: u64) -> Self {
        let mut world = Self {
            rules,
            timing,
            seats: Vec::new(),
            reigning: None,
            counter: 0,
            regions: Vec::new(),
            mail: Vec::new(),
            wanted: Vec::new(),
            owners_max: 0,
            conflicts: 0,
            token_regressions: 0,
            tokens: BTreeMap::new(),
            learned: None,
            grants: 0,
        };
        // Clocks start anywhere but at zero: no reading may mean "never".
        let clock = Instant::from_millis(1_000_000);
        for id in [100, 101] {
            let key = NodeKey { id: NodeId(id), incarnation: Incarnation(1) };
            let config = AllocatorConfig { me: key, timing: world.timing.clone(), rules, alone: false };
            world.seats.push(Seat { key, clock, allocator: Allocator::new(config) });
        }
        for id in 0..regions {
            let key = NodeKey { id: NodeId(id), incarnation: Incarnation(1) };
            let region = world.born(key, clock);
            world.regions.push(region);
            world.peers_met(key);
        }
        world
    }

    fn born(&self, key: NodeKey, clock: Instant) -> Region {
        let config = SessionConfig {
            me: key,
            address: String::from("there"),
            facts: crate::wire::Facts::default(),
            timing: self.timing.clone(),
            rules: self.rules,
        };
        let mut session = Session::new(clock, config);
        let registered = session::Input::Registered(KindReport { kind: KIND, shards: SHARDS, hosts: true });
        session.handle(clock, registered, &mut |_| {});
        Region { key, clock, session, lanes: Lanes::default(), farewell: false, prompt: true }
    }

    fn peers_met(&mut self, node: NodeKey) {
        for seat in 0..self.seats.len() {
            self.tell(seat, Input::Met { node });
        }
    }

    /// The process dies with all it knew and starts again at once.
    pub(super) fn crash(&mut self, r: usize) {
        let Region { key, clock, .. } = self.regions[r];
        let key = NodeKey { incarnation: Incarnation(key.incarnation.0 + 1), ..key };
        self.regions[r] = self.born(key, clock);
        self.peers_met(key);
    }

    pub(super) fn elect(&mut self, seat: usize) {
        self.depose();
        self.counter += 1;
        self.reigning = Some(seat);
        let term = Term { counter: self.counter, node: self.seats[seat].key };
        self.tell(seat, Input::Elected { term });
        self.tell(seat, Input::Evidence { term, complete: false, carried: vec![] });
    }

    pub(super) fn depose(&mut self) {
        if let Some(seat) = self.reigning.take()
            && let Some(term) = self.seats[seat].allocator.term()
        {
            self.tell(seat, Input::Lost { term });
        }
    }

    pub(super) fn tell(&mut self, seat: usize, input: Input) {
        let mut out = Vec::new();
        let Seat { allocator, clock, .. } = &mut self.seats[seat];
        allocator.handle(*clock, input, &mut out);
        self.obey_coordinator(seat, out);
    }

    pub(super) fn expire_coordinator(&mut self, seat: usize) {
        let mut out = Vec::new();
        let Seat { allocator, clock, .. } = &mut self.seats[seat];
        allocator.expire(*clock, &mut out);
        self.obey_coordinator(seat, out);
    }

    fn obey_coordinator(&mut self, seat: usize, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send { to, message } => self.mail.push(Mail { from: self.seats[seat].key, to, message }),
                // Voters that store every list at once.
                Output::Publish(List { term, version, .. }) => self.tell(seat, Input::Confirmed { term, version }),
                Output::Wanted { key, .. } => self.wanted.push(key),
                Output::LearnedCounter(counter) => self.learned = Some(counter),
                Output::Notice(Notice::ConflictingClaim { .. }) => self.conflicts += 1,
                _ => {}
            }
        }
    }

    pub(super) fn say(&mut self, r: usize, input: session::Input) {
        let mut out = Vec::new();
        let Region { session, clock, .. } = &mut self.regions[r];
        session.handle(*clock, input, &mut out);
        self.obey_session(r, out);
    }

    pub(super) fn expire_region(&mut self, r: usize) {
        let mut out = Vec::new();
        let Region { session, clock, .. } = &mut self.regions[r];
        session.expire(*clock, &mut out);
        self.obey_session(r, out);
    }

    fn obey_session(&mut self, r: usize, out: Vec<session::Output>) {
        let from = self.regions[r].key;
        for output in out {
            let lanes = &mut self.regions[r].lanes;
            match output {
                session::Output::Send { to, message } => self.mail.push(Mail { from, to, message }),
                session::Output::Live { until } => lanes.until = until,
                session::Output::Own { key, token } => {
                    lanes.held.insert(key, token);
                    self.grants += 1;
                    let greatest = self.tokens.entry(key).or_default();
                    self.token_regressions += usize::from(token <= *greatest);
                    *greatest = token.max(*greatest);
                }
                session::Output::Drain { key, token, .. } => lanes.drains.push((key, token)),
                session::Output::StopAll { session } => lanes.stops.push(session),
                session::Output::AskVoters => self.hint(from),
                session::Output::Farewell => self.regions[r].farewell = true,
                _ => {}
            }
        }
        if self.regions[r].prompt {
            self.lanes_stop(r);
        }
        self.look();
    }

    /// A voter says who reigns.
    fn hint(&mut self, to: NodeKey) {
        let Some(Seat { key, allocator, .. }) = self.reigning.map(|seat| &self.seats[seat]) else { return };
        if let Some(term) = allocator.term() {
            self.mail.push(Mail { from: *key, to, message: Control::Reign { term, address: String::new() } });
        }
    }

    /// The lanes obey every `StopAll` so far.
    pub(super) fn lanes_stop(&mut self, r: usize) {
        for session in core::mem::take(&mut self.regions[r].lanes.stops) {
            self.regions[r].lanes.held.clear();
            self.regions[r].lanes.drains.clear();
            self.say(r, session::Input::LanesStopped { session });
        }
    }

    /// The lanes finish every drain so far.
    pub(super) fn lanes_drain(&mut self, r: usize) {
        for (key, token) in core::mem::take(&mut self.regions[r].lanes.drains) {
            if self.regions[r].lanes.held.get(&key) == Some(&token) {
                self.regions[r].lanes.held.remove(&key);
            }
            self.say(r, session::Input::Dropped { key, token });
        }
    }

    /// Hands a message to whoever has the node id now; its envelope names the process it was meant for.
    pub(super) fn deliver(&mut self, mail: &Mail) {
        let Mail { from, to, message } = mail.clone();
        if let Some(r) = self.regions.iter().position(|region| region.key.id == to.id) {
            self.say(r, session::Input::Heard { from, to, message });
        } else if let Some(seat) = self.seats.iter().position(|seat| seat.key == to) {
            self.tell(seat, Input::Heard { from, message });
        }
        self.look();
    }

    /// Checks I1: by the sessions, and by the lanes, which stop by themselves at `Live { until }`.
    pub(super) fn look(&mut self) {
        for number in 0..SHARDS {
            let key = shard(number);
            let owns = |region: &&Region| region.session.owns(region.clock, key).is_some();
            let serves = |region: &&Region| region.clock < region.lanes.until && region.lanes.held.contains_key(&key);
            let owners = self.regions.iter().filter(owns).count();
            let servers = self.regions.iter().filter(serves).count();
            self.owners_max = self.owners_max.max(owners).max(servers);
        }
    }

    // What follows serves directed scripts.

    /// Moves clocks, by milliseconds: the coordinators', then each region's.
    pub(super) fn tick(&mut self, coordinator: u64, regions: &[u64]) {
        self.seats.iter_mut().for_each(|seat| seat.clock = seat.clock + ms(coordinator));
        for (region, millis) in self.regions.iter_mut().zip(regions) {
            region.clock = region.clock + ms(*millis);
        }
        self.look();
    }

    /// Moves all clocks alike and lets the coordinators look.
    pub(super) fn pass(&mut self, millis: u64) {
        let all = vec![millis; self.regions.len()];
        self.tick(millis, &all);
        for seat in 0..self.seats.len() {
            self.expire_coordinator(seat);
        }
    }

    /// Takes all waiting mail from one node to another out of the post.
    pub(super) fn take(&mut self, from: NodeKey, to: NodeKey) -> Vec<Mail> {
        let all = core::mem::take(&mut self.mail);
        let (taken, rest) = all.into_iter().partition(|mail| mail.from == from && mail.to == to);
        self.mail = rest;
        taken
    }

    fn seat(&self) -> NodeKey {
        self.seats[self.reigning.unwrap_or(0)].key
    }

    /// Lets a region send what is due 10 ms later; its heartbeat is held in the hand, not delivered.
    pub(super) fn beat(&mut self, r: usize) -> Vec<Mail> {
        self.pass(10);
        self.expire_region(r);
        let (from, to) = (self.regions[r].key, self.seat());
        self.take(from, to)
    }

    /// What the coordinator has for a region, held in the hand.
    pub(super) fn for_region(&mut self, r: usize) -> Vec<Mail> {
        let (from, to) = (self.seat(), self.regions[r].key);
        self.take(from, to)
    }

    pub(super) fn deliver_all(&mut self, mail: &[Mail]) {
        mail.iter().for_each(|mail| self.deliver(mail));
    }

    /// The region hears who reigns.
    pub(super) fn announce(&mut self, r: usize) {
        let from = self.seat();
        let Some(term) = self.seats[self.reigning.unwrap_or(0)].allocator.term() else { return };
        let to = self.regions[r].key;
        self.deliver(&Mail { from, to, message: Control::Announce { term, committed: 0 } });
    }

    /// Two whole rounds of heartbeat and ack: the region is live and known to hear.
    pub(super) fn rounds(&mut self, r: usize) {
        for _ in 0..2 {
            let beats = self.beat(r);
            self.deliver_all(&beats);
            let acks = self.for_region(r);
            self.deliver_all(&acks);
        }
    }

    /// The planner places a shard, if it may; the acks that carry the grant are held in the hand.
    pub(super) fn grant(&mut self, number: u32, r: usize) -> Vec<Mail> {
        let seat = self.reigning.unwrap_or(0);
        let to = self.regions[r].key;
        self.tell(seat, Input::Allocate { key: shard(number), to });
        self.expire_coordinator(seat);
        self.for_region(r)
    }

    /// The planner drains a shard; nothing is sent before the next ack.
    pub(super) fn drain(&mut self, number: u32, within: Duration) {
        self.tell(self.reigning.unwrap_or(0), Input::Drain { key: shard(number), within });
    }

    pub(super) fn owner(&self, number: u32) -> Option<usize> {
        let owns = |region: &Region| region.session.owns(region.clock, shard(number)).is_some();
        self.regions.iter().position(owns)
    }
}
