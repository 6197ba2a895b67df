//! What it costs to find an awake entity: `locate` of one lane, beside the floor that no index can go below, a plain map
//! with the id inside its bucket, in the same run.
//!
//! Budgets: 20 ns at 1,000; at 1 million 4 times the floor (uniform) and 3 times (zipf 1.0).

use core::{hint::black_box, num::NonZeroU32, time::Duration};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hashbrown::HashTable;
use shard_core::{
    driver::{Driver, Event, Host, Post, Seat, TypeConfig},
    entity::{EntityId, Fate, Reason, StopReason},
    hash,
    id::{Incarnation, Kind, NodeId, NodeKey},
    node::{NodeConfig, Peer},
    passivation::Passivation,
    prng::Prng,
    region::lane::{DataHead, Life, Next, Receipt},
    time::Instant,
    wire::Control,
};

/// Ids asked for in turn, so that the processor cannot learn them: 8 MiB of text at most.
const ASKED: usize = 1 << 19;

/// A host that starts and runs everything at once.
#[derive(Default)]
struct Ready {
    started: Vec<Seat>,
    finished: Vec<Seat>,
}

impl Host<()> for Ready {
    fn start(&mut self, seat: Seat, _: Life) {
        self.started.push(seat);
    }
    fn run(&mut self, seat: Seat, (): ()) {
        self.finished.push(seat);
    }
    fn stop(&mut self, _: Seat, _: StopReason) {}
    fn cancel(&mut self, _: Seat) {}
    fn discard(&mut self, _: Seat) {}
    fn weigh(&mut self, _: Kind, (): &()) -> Result<u32, Reason> {
        Ok(0)
    }
    fn control(&mut self, _: Peer, _: Control) {}
    fn transmit(&mut self, _: NodeKey, _: DataHead, _: &EntityId, (): &()) {}
    fn receipt(&mut self, _: NodeKey, _: Receipt<'_>) {}
    fn reach(&mut self, _: NodeKey, _: String) {}
    fn gone(&mut self, _: NodeKey) {}
    fn undelivered(&mut self, _: Kind, _: &EntityId, (): (), _: Fate) {}
    fn wall(&mut self) -> u64 {
        0
    }
    fn event(&mut self, _: Event) {}
}

/// A node alone with `count` awake entities.
fn driver(count: usize) -> (Driver<()>, Kind) {
    let (now, mut host) = (Instant::ZERO, Ready::default());
    let me = NodeKey { id: NodeId(1), incarnation: Incarnation(1) };
    let mut driver = Driver::new(now, NodeConfig::alone(me)).expect("the configuration is safe");
    let shards = NonZeroU32::new(64).expect("not zero");
    let entities =
        TypeConfig { shards, passivation: Passivation::after(Duration::from_secs(300)), ..TypeConfig::new("e") };
    let kind = driver.register(now, entities, &mut host).expect("the first of its name");
    while driver.deadline().is_some_and(|at| at <= now) {
        driver.expire(now, &mut host);
    }
    for n in 0..count {
        let post = Post { id: &name(n), message: (), ask: false, deadline: None };
        driver.tell(now, kind, post, &mut host).expect("the type is known");
        while driver.deadline().is_some_and(|at| at <= now) {
            driver.expire(now, &mut host);
        }
        while let Some(seat) = host.started.pop() {
            driver.started(now, seat, true, &mut host);
        }
        while let Some(seat) = host.finished.pop() {
            driver.finished(now, seat, Next::Stay, &mut host);
        }
    }
    assert_eq!(driver.residents(kind), count);
    (driver, kind)
}

fn name(n: usize) -> String {
    format!("user-{n:07}")
}

/// Ids in the order in which they are asked for. Zipf 1.0 by the inverse of its continuous distribution: rank r is asked
/// for about 1/r as often as the first. Ranks are spread over the ids, so that neighbours in rank are none in memory.
fn asked(count: usize, zipf: bool) -> Vec<String> {
    let mut prng = Prng::new(7);
    let pick = |prng: &mut Prng| {
        let uniform = prng.below(count as u64) as usize;
        if !zipf {
            return uniform;
        }
        let u = prng.next_u64() as f64 / u64::MAX as f64;
        let rank = ((count as f64).powf(u) as usize).min(count) - 1;
        (rank * 7_919_317) % count
    };
    (0..ASKED).map(|_| name(pick(&mut prng))).collect()
}

fn route(c: &mut Criterion) {
    let now = Instant::ZERO;
    for count in [1_000, 1_000_000] {
        let (mut driver, kind) = driver(count);
        let mut floor: HashTable<(EntityId, u32)> = HashTable::new();
        for n in 0..count {
            let id = EntityId::from(name(n));
            let hash_of = |(id, _): &(EntityId, u32)| hash::spread(hash::entity(id.as_str()));
            floor.insert_unique(hash_of(&(id.clone(), 0)), (id, n as u32), hash_of);
        }
        for (law, zipf) in [("uniform", false), ("zipf 1.0", true)] {
            let ids = asked(count, zipf);
            let mut at = 0;
            let mut next = || {
                at = (at + 1) % ASKED;
                ids[at].as_str()
            };
            let mut group = c.benchmark_group(format!("route/{law}"));
            group.bench_function(BenchmarkId::new("plain map", count), |b| {
                b.iter(|| {
                    let id = next();
                    let hash = hash::spread(hash::entity(id));
                    black_box(floor.find(hash, |(known, _)| known.as_bytes() == id.as_bytes()).map(|(_, n)| *n))
                });
            });
            group.bench_function(BenchmarkId::new("locate", count), |b| {
                b.iter(|| {
                    let seat = driver.locate(now, kind, next());
                    black_box(seat).expect("everyone is awake")
                });
            });
            group.finish();
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = route
}
criterion_main!(benches);
