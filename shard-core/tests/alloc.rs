//! An awake entity's message costs no allocation: counted.

#![allow(missing_docs)]
// Counting allocations takes a global allocator, and that takes `unsafe`; the crate under test forbids it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use shard_core::driver::{Alone, Engine, TypeConfig};
use shard_core::entity::{Accepts, Alarm, CatchUnwind, Clock, Services};
use shard_core::id::{Incarnation, NodeId, NodeKey};
use shard_core::node::NodeConfig;
use shard_core::passivation::{PassivationPolicy, PolicyChoice};
use shard_core::prelude::*;
use shard_core::time::Instant;

/// Counts what the calling thread allocates, so tests beside it do not count.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

struct Add(u64);
struct Whole(u64);
messages! { enum SumMessage as "sum" { Add -> u64, Whole -> u64 } }

#[derive(Default)]
struct Sum(u64);
impl Entity for Sum {
    type Message = SumMessage;
}
impl Handle<Add> for Sum {
    async fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) -> u64 {
        self.0 += n;
        self.0
    }
}
impl Handle<Whole> for Sum {
    async fn handle(&mut self, Whole(due): Whole, _: &mut Context<'_, Self>) -> u64 {
        assert_eq!(self.0, due);
        self.0
    }
}

#[derive(Default)]
struct Time(AtomicU64);
impl Clock for Time {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
    fn wake_at(&self, _: Instant, _: &Waker) -> Alarm {
        Alarm::NONE
    }
}
impl Services for Time {
    fn session_until(&self) -> Instant {
        Instant::NEVER
    }
    fn registered(&self, _: &str) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

fn engine() -> Engine<Sum, Alone> {
    let me = NodeKey { id: NodeId(1), incarnation: Incarnation(1) };
    let mut engine = Engine::new(
        NodeConfig::alone(me),
        TypeConfig::of::<SumMessage>(),
        |_| Sum::default(),
        CatchUnwind,
        Arc::new(Time::default()),
        Alone::default(),
    )
    .expect("the configuration is safe");
    engine.run(None, |_| Waker::noop().clone());
    engine
}

fn tell<Q>(engine: &mut Engine<Sum, Alone>, id: &str, message: Q)
where
    SumMessage: Accepts<Q>,
{
    engine.tell(id, Accepts::wrap(message, ReplyTo::nobody()), None);
}

/// 12 bytes, and the longest that is kept in place.
const IDS: [&str; 3] = ["user-1234567", "twenty-two-bytes-long!", ""];

#[test]
fn a_message_to_an_awake_entity_allocates_nothing() {
    let mut engine = engine();
    for id in IDS {
        for _ in 0..10 {
            tell(&mut engine, id, Add(1));
            engine.run(None, |_| Waker::noop().clone());
        }
    }
    let seen = allocations(|| {
        for _ in 0..10_000 {
            for id in IDS {
                tell(&mut engine, id, Add(1));
            }
        }
    });
    for id in IDS {
        tell(&mut engine, id, Whole(10_010));
    }
    assert_eq!(seen, 0);
}

#[test]
fn turning_the_loop_with_nothing_due_allocates_nothing() {
    let mut engine = engine();
    tell(&mut engine, IDS[0], Add(1));
    engine.run(None, |_| Waker::noop().clone());
    let seen = allocations(|| {
        for _ in 0..10_000 {
            tell(&mut engine, IDS[0], Add(1));
            engine.run(None, |_| Waker::noop().clone());
        }
    });
    assert_eq!(seen, 0);
}

#[test]
fn the_slow_way_to_an_awake_entity_allocates_nothing_either() {
    use shard_core::driver::{Driver, Event, Host, Post, Seat};
    use shard_core::entity::Fate;
    use shard_core::id::Kind;
    use shard_core::node::Peer;
    use shard_core::region::lane::{DataHead, Life, Next, Receipt};
    use shard_core::wire::Control;

    /// Remembers the last seat that was ordered to do something.
    #[derive(Default)]
    struct Last(Option<Seat>);
    impl Host<u64> for Last {
        fn start(&mut self, seat: Seat, _: Life) {
            self.0 = Some(seat);
        }
        fn run(&mut self, seat: Seat, _: u64) {
            self.0 = Some(seat);
        }
        fn stop(&mut self, _: Seat, _: StopReason) {}
        fn cancel(&mut self, _: Seat) {}
        fn discard(&mut self, _: Seat) {}
        fn weigh(&mut self, _: Kind, _: &u64) -> Result<u32, Reason> {
            Ok(8)
        }
        fn control(&mut self, _: Peer, _: Control) {}
        fn transmit(&mut self, _: NodeKey, _: DataHead, _: &EntityId, _: &u64) {}
        fn receipt(&mut self, _: NodeKey, _: Receipt<'_>) {}
        fn reach(&mut self, _: NodeKey, _: String) {}
        fn gone(&mut self, _: NodeKey) {}
        fn undelivered(&mut self, _: Kind, _: &EntityId, _: u64, _: Fate) {}
        fn wall(&mut self) -> u64 {
            0
        }
        fn event(&mut self, _: Event) {}
    }

    let (now, mut host) = (Instant::ZERO, Last::default());
    let me = NodeKey { id: NodeId(1), incarnation: Incarnation(1) };
    let mut driver = Driver::new(now, NodeConfig::alone(me)).expect("the configuration is safe");
    let kind = driver.register(now, TypeConfig::new("sum"), &mut host).expect("the first of its name");
    while driver.deadline().is_some_and(|at| at <= now) {
        driver.expire(now, &mut host);
    }
    let post = |message| Post { id: IDS[1], message, ask: false, deadline: None };
    driver.tell(now, kind, post(0), &mut host).expect("the type is known");
    while driver.deadline().is_some_and(|at| at <= now) {
        driver.expire(now, &mut host);
    }
    let seat = host.0.take().expect("it was started");
    driver.started(now, seat, true, &mut host);
    driver.finished(now, seat, Next::Stay, &mut host);

    let located = allocations(|| {
        for _ in 0..10_000 {
            assert_eq!(driver.locate(now, kind, IDS[1]), Some(seat));
        }
    });
    let told = allocations(|| {
        for n in 0..10_000 {
            driver.tell(now, kind, post(n), &mut host).expect("the type is known");
            driver.finished(now, seat, Next::Stay, &mut host);
        }
    });
    assert_eq!((located, told), (0, 0));
}

#[test]
fn a_hand_costs_no_allocation() {
    use shard_core::shuffle::{Dealer, FlowKey, Isolation, Member, Pick, QueueChooser, Roster, ShardSize, Waiting};

    let mut members: Vec<_> = (0..30).map(|id| Member::new(id, id % 3)).collect();
    let mut picks = [Pick::default(); 30];
    let mut chooser = QueueChooser::shortest();
    let key = FlowKey::new(1);
    let count = allocations(|| {
        let dealer = Dealer::new(128, 6).expect("legal");
        let roster = Roster::new(&mut members).expect("ids differ");
        for tenant in ["a", "b", "c"] {
            let hash = key.hash("tenant", tenant);
            chooser.choose(&dealer.deal(hash), |_| Waiting::default()).expect("a card");
            assert_eq!(roster.deal(hash, ShardSize::Members(7), &mut picks).map(<[Pick]>::len), Ok(7));
            assert_eq!(roster.lookback(hash, ShardSize::All, Instant::ZERO, &mut picks).map(<[Pick]>::len), Ok(30));
        }
        assert!(Isolation::new(128, 6).expect("a hand").squished(16) < 0.03);
    });
    assert_eq!(count, 0);
}

#[test]
fn policies_allocate_for_new_places_only() {
    for choice in PolicyChoice::ALL {
        let mut policy = choice.build(1_000, 1);
        let mut picked = 1_000;
        let mut come = |policy: &mut dyn PassivationPolicy, number: u64| {
            let place = picked;
            policy.created(place, number << 32, 1, &mut |index| picked = index);
            policy.removed(picked);
        };
        (0..1_000_u32).for_each(|index| policy.created(index, u64::from(index) << 32, 1, &mut |_| ()));
        come(&mut *policy, 1_000);
        let count = allocations(|| {
            for number in 1_001..5_000 {
                policy.touched(number as u32 % 1_000);
                come(&mut *policy, number);
            }
        });
        assert_eq!(count, 0, "{}", choice.name());
    }
}
