//! What a turn costs: allocations, and the size of its future.

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::Cell as Count;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, Waker};

use shard_core::entity::host::{Cell, Tenure, turn};
use shard_core::entity::{Accepts, Alarm, Clock, Protocol, Services};
use shard_core::id::{ShardId, Token};
use shard_core::prelude::*;
use shard_core::time::Instant;

use crate::counter::{Add, Counter, CounterMessage, Get};
use crate::references::post;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Count<u64> = const { Count::new(0) };
}

// Safety: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // Safety: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // Safety: the caller's promise is the same.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Board;

impl Clock for Board {
    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn wake_at(&self, _: Instant, _: &Waker) -> Alarm {
        Alarm::NONE
    }
}

impl Services for Board {
    fn session_until(&self) -> Instant {
        Instant::NEVER
    }

    fn registered(&self, _: &str) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

#[test]
fn a_tell_allocates_nothing_from_turn_to_turn() {
    let mut place = Box::pin(None);
    let mut cell = Some(cell());
    let allocated = allocations(|| {
        for n in 0..500 {
            let message = CounterMessage::wrap(Add(n), ReplyTo::nobody());
            place.set(Some(turn(cell.take().expect("it came back"), message)));
            let running = place.as_mut().as_pin_mut().expect("just set");
            let Poll::Ready(mut back) = running.poll(&mut Poller::from_waker(Waker::noop())) else {
                panic!("it waits")
            };
            assert!(back.take_wishes().is_empty());
            cell = Some(back);
        }
    });
    assert_eq!(allocated, 0);
    assert_eq!(cell.expect("it came back").entity().sum, 499 * 500 / 2);
}

#[test]
fn an_ask_allocates_once() {
    let (counters, post) = post::<CounterMessage>(9);
    counters.tell("a", Add(1)).expect("there is room");
    drop(post.take());
    let keep = std::cell::RefCell::new(None);
    // The post itself writes the id down: one more.
    let told = allocations(|| counters.tell("a", Add(1)).expect("there is room"));
    let asked = allocations(|| *keep.borrow_mut() = Some(counters.ask("a", Get)));
    assert_eq!(asked, told + 1);
}

#[test]
fn a_small_handler_makes_a_small_turn() {
    assert_eq!(size_of::<ReplyTo<u64>>(), 24);
    assert_eq!(size_of::<Cell<Counter>>() - size_of::<Counter>() - size_of::<EntityId>(), 32);
    let message = CounterMessage::wrap(Add(1), ReplyTo::nobody());
    assert!(size_of_val(&turn(cell(), message)) <= 256);
}

#[test]
fn a_turn_can_move_to_another_thread() {
    fn away<T: Send + 'static>(_: T) {}
    away(turn(cell(), CounterMessage::wrap(Get, ReplyTo::nobody())));
}

fn cell() -> Box<Cell<Counter>> {
    let tenure = Tenure::new(CounterMessage::TYPE_NAME, ShardId(1), Token::default(), Arc::new(Board));
    Cell::new(Counter::default(), Identity::new(Arc::new(tenure), "c".into(), 1))
}

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Count::get);
    work();
    ALLOCATIONS.with(Count::get) - before
}
