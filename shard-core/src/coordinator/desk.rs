//! A desk for the allocator's tests: nodes that write heartbeats by hand, and short names.

use alloc::{boxed::Box, string::String, vec, vec::Vec};

use super::*;
use crate::{
    id::{Incarnation, Kind, NodeId, ShardId, Token},
    machine::Machine,
    time::Instant,
    wire::{Ack, Heartbeat, Home, KindReport, List, Owned, Report},
};

pub(super) const ME: NodeKey = node(9);
pub(super) const A: NodeKey = node(1);
pub(super) const B: NodeKey = node(2);
pub(super) const KIND: Kind = Kind(3);
pub(super) const TERM: Term = Term { counter: 10, node: ME };
/// After the window of the default times, in milliseconds.
pub(super) const OPEN: u64 = 3_061;

pub(super) const fn node(id: u64) -> NodeKey {
    NodeKey { id: NodeId(id), incarnation: Incarnation(7) }
}

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_millis(5_000 + millis)
}

pub(super) fn shard(number: u32) -> ShardKey {
    ShardKey { kind: KIND, shard: ShardId(number) }
}

pub(super) fn token(number: u32) -> Token {
    Token { counter: 10, node: ME.id, number }
}

pub(super) fn old_token(number: u32) -> Token {
    Token { counter: 3, node: NodeId(8), number }
}

/// A node's side of the talk, good enough to write heartbeats with.
#[derive(Clone)]
pub(super) struct Pen {
    pub(super) node: NodeKey,
    pub(super) beat: Heartbeat,
}

impl Pen {
    pub(super) fn new(node: NodeKey) -> Self {
        let kinds = vec![KindReport { kind: KIND, shards: 8, hosts: true }];
        let beat = Heartbeat {
            term: TERM,
            session: 1,
            sequence: 0,
            applied: 0,
            ack_seen: 0,
            leaving: false,
            settled: true,
            report_version: 1,
            report: Some(Box::new(Report { kinds, ..Report::default() })),
            stats: None,
            loads: Vec::new(),
            traffic: None,
            directory: u64::MAX,
            address: String::from("there"),
        };
        Self { node, beat }
    }

    pub(super) fn shards(mut self, shards: u32) -> Self {
        self.report().kinds[0].shards = shards;
        self
    }

    pub(super) fn report(&mut self) -> &mut Report {
        self.beat.report_version += 1;
        self.beat.report.as_mut().expect("it always reports")
    }

    pub(super) fn owns(&mut self, key: ShardKey, token: Token) {
        self.report().owned.push(Owned { key, token });
    }

    pub(super) fn drops_all(&mut self) {
        self.report().owned.clear();
    }
}

pub(super) struct Desk {
    pub(super) allocator: Allocator,
    /// What was published.
    pub(super) lists: Vec<List>,
    /// The voters confirm at once.
    pub(super) confirm: bool,
}

impl Desk {
    pub(super) fn elected() -> Self {
        Self::with(false)
    }

    pub(super) fn with(alone: bool) -> Self {
        let config = AllocatorConfig { me: ME, timing: Timing::lan(), rules: Rules::all(), alone };
        let mut desk = Self { allocator: Allocator::new(config), lists: vec![], confirm: true };
        desk.tell(0, Input::Elected { term: TERM });
        desk.tell(0, Input::Evidence { term: TERM, complete: false, carried: vec![] });
        desk
    }

    pub(super) fn tell(&mut self, millis: u64, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.allocator.handle(at(millis), input, &mut out);
        self.voters(millis, out)
    }

    pub(super) fn expire(&mut self, millis: u64) -> Vec<Output> {
        let mut out = Vec::new();
        self.allocator.expire(at(millis), &mut out);
        self.voters(millis, out)
    }

    /// Voters that store every list at once.
    fn voters(&mut self, millis: u64, out: Vec<Output>) -> Vec<Output> {
        let mut rest = Vec::new();
        for output in out {
            if let Output::Publish(list) = output {
                self.lists.push(list.clone());
                if self.confirm {
                    rest.extend(self.tell(millis, Input::Confirmed { term: list.term, version: list.version }));
                }
            } else {
                rest.push(output);
            }
        }
        rest
    }

    pub(super) fn hear(&mut self, millis: u64, from: NodeKey, message: Control) -> Vec<Output> {
        self.tell(millis, Input::Heard { from, message })
    }

    /// The node sends its next heartbeat, which says that the last ack arrived.
    pub(super) fn beat(&mut self, millis: u64, pen: &mut Pen) -> Vec<Output> {
        pen.beat.ack_seen = pen.beat.sequence;
        pen.beat.sequence += 1;
        self.hear(millis, pen.node, Control::Heartbeat(pen.beat.clone()))
    }

    pub(super) fn lookup(&mut self, millis: u64, from: NodeKey, number: u32) -> Vec<Output> {
        self.hear(millis, from, Control::Lookup { key: shard(number) })
    }

    pub(super) fn allocate(&mut self, millis: u64, number: u32, to: NodeKey) -> Option<Place> {
        self.tell(millis, Input::Allocate { key: shard(number), to });
        self.allocator.place(shard(number)).filter(|place| place.owner == to)
    }

    /// Allocated, obeyed and confirmed.
    pub(super) fn settle(&mut self, millis: u64, number: u32, pen: &mut Pen) -> Vec<Output> {
        let place = self.allocate(millis, number, pen.node).expect("it may be placed");
        pen.owns(shard(number), place.token);
        pen.beat.applied += 1;
        self.beat(millis, pen)
    }
}

pub(super) fn ack_of(out: &[Output]) -> &Ack {
    let found = out.iter().find_map(|output| match output {
        Output::Send { message: Control::Ack(ack), .. } => Some(ack),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no ack in {out:?}"))
}

pub(super) fn dead(to: NodeKey, session: u64) -> Output {
    Output::Send { to, message: Control::Dead { term: TERM, session } }
}

pub(super) fn home(to: NodeKey, number: u32, home: Option<Home>) -> Output {
    Output::Send { to, message: Control::Home { term: TERM, key: shard(number), home } }
}

pub(super) fn announce(to: NodeKey) -> Output {
    Output::Send { to, message: Control::Announce { term: TERM, committed: 0 } }
}

/// A reign whose window is over, with nodes A and B registered and heard just now.
pub(super) fn open() -> (Desk, Pen, Pen) {
    let mut desk = Desk::elected();
    let (mut a, mut b) = (Pen::new(A), Pen::new(B));
    for millis in [0, 2_000, OPEN] {
        desk.beat(millis, &mut a);
        desk.beat(millis, &mut b);
    }
    desk.expire(OPEN);
    (desk, a, b)
}
