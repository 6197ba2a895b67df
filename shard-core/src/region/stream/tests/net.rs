//! The mini-world's network: connections that delay, break, lose what is under way, or deliver it late.

use alloc::vec::Vec;

use crate::id::NodeKey;
use crate::time::{Duration, Instant};
use crate::wire::Stream;
use crate::wire::link::{Hello, Unit, Welcome};

/// Mail of the mini-world: the body is a message number, the entity a digit.
pub(super) type Mail = Stream<u64, u8>;

impl Unit for Mail {
    fn frames(&self) -> u64 {
        1
    }
    fn bytes(&self) -> usize {
        100
    }
}

/// What travels on a connection.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    Hello(Hello),
    Welcome(Welcome),
    Ping,
    Frame(u64, Mail),
    Ack(u64),
}

pub(super) struct Connection {
    /// The dialler and the answerer, as the dialler found it.
    pub(super) ends: [NodeKey; 2],
    pub(super) open: bool,
    /// After the break: how many percent of the packets under way are lost, and how much later the others come.
    pub(super) loss: u64,
    pub(super) late: Duration,
    /// When the last packet towards each end arrives: later ones come after it.
    pub(super) last: [Instant; 2],
}

/// splitmix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn micros(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_nanos(from * 1_000 + self.below((to - from) * 1_000))
    }

    /// 0.1 to 2 ms; now and then up to 60 ms.
    pub(super) fn control_delay(&mut self) -> Duration {
        if self.chance(5) { self.micros(100, 60_000) } else { self.micros(100, 2_000) }
    }
}

/// What was promised to each message, and whether it was kept.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) messages: Vec<Record>,
    pub(super) violations: Vec<(&'static str, u64)>,
}

pub(super) struct Record {
    pub(super) sender: NodeKey,
    pub(super) shard: usize,
    pub(super) entity: u8,
    pub(super) handled: bool,
    pub(super) fate: Option<&'static str>,
}

impl Ledger {
    pub(super) fn new_message(&mut self, sender: NodeKey, shard: usize, entity: u8) -> u64 {
        self.messages.push(Record { sender, shard, entity, handled: false, fate: None });
        self.messages.len() as u64 - 1
    }

    /// A handler starts with `message`; `latest` is the last one of the same sender at the same entity.
    pub(super) fn handled(&mut self, message: u64, latest: &mut Option<u64>) {
        let record = &mut self.messages[message as usize];
        if record.handled {
            self.violations.push(("duplicate", message));
        } else if latest.is_some_and(|latest| latest > message) {
            self.violations.push(("reordered", message));
        }
        if matches!(record.fate, Some("unavailable" | "full")) {
            self.violations.push(("ran although reported as not run", message));
        }
        record.handled = true;
        *latest = (*latest).max(Some(message));
    }

    pub(super) fn fate(&mut self, message: u64, fate: &'static str) {
        let record = &mut self.messages[message as usize];
        if record.fate.is_some() {
            self.violations.push(("two fates", message));
        }
        if record.handled && fate != "in doubt" {
            self.violations.push(("reported as not run although it ran", message));
        }
        record.fate = Some(fate);
    }
}
