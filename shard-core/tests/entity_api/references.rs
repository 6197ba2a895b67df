//! References over a route that keeps the mail in a bounded box, with a clock turned by hand.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll, Wake, Waker};

use shard_core::entity::{Accepts, Alarm, Bound, Clock, Protocol, Route};
use shard_core::prelude::*;
use shard_core::time::Instant;

use crate::counter::{Add, CounterMessage, Get};

/// Where the mail lies.
pub(crate) struct Post<M>(Mutex<Inner<M>>);

struct Inner<M> {
    now: Instant,
    room: usize,
    mail: Vec<(String, M, Option<Instant>)>,
    waits_for_room: Vec<Waker>,
    alarms: Vec<(u64, Instant, Waker)>,
    alarms_set: u64,
}

pub(crate) fn post<M: Protocol>(room: usize) -> (Entities<M>, Arc<Post<M>>) {
    let post = Arc::new(Post(Mutex::new(Inner {
        now: Instant::ZERO,
        room,
        mail: Vec::new(),
        waits_for_room: Vec::new(),
        alarms: Vec::new(),
        alarms_set: 0,
    })));
    (Entities::new(post.clone()), post)
}

impl<M> Post<M> {
    pub(crate) fn ids(&self) -> Vec<String> {
        self.0.lock().unwrap().mail.iter().map(|(id, ..)| id.clone()).collect()
    }

    pub(crate) fn take(&self) -> M {
        let mut inner = self.0.lock().unwrap();
        inner.waits_for_room.drain(..).for_each(Waker::wake);
        inner.mail.remove(0).1
    }

    fn alarms(&self) -> usize {
        self.0.lock().unwrap().alarms.len()
    }

    fn pass(&self, time: Duration) {
        let mut inner = self.0.lock().unwrap();
        let now = inner.now + time;
        inner.now = now;
        inner.alarms.iter().filter(|(_, at, _)| *at <= now).for_each(|(_, _, waker)| waker.wake_by_ref());
    }
}

impl<M: Send> Clock for Post<M> {
    fn now(&self) -> Instant {
        self.0.lock().unwrap().now
    }

    fn wake_at(&self, at: Instant, waker: &Waker) -> Alarm {
        let mut inner = self.0.lock().unwrap();
        inner.alarms_set += 1;
        let number = inner.alarms_set;
        inner.alarms.push((number, at, waker.clone()));
        Alarm(number)
    }

    fn forget(&self, alarm: Alarm) {
        let alarms = &mut self.0.lock().unwrap().alarms;
        let at = alarms.iter().position(|(number, ..)| *number == alarm.0).expect("forgotten once, and set before");
        alarms.remove(at);
    }
}

impl<M: Send> Route<M> for Post<M> {
    fn send(&self, id: &str, message: M, deadline: Option<Instant>) -> Result<(), (M, Reason)> {
        let mut inner = self.0.lock().unwrap();
        if inner.mail.len() == inner.room {
            return Err((message, Reason::Full(Bound::Lane)));
        }
        inner.mail.push((id.into(), message, deadline));
        Ok(())
    }

    fn poll_ready(&self, _: &str, waker: &Waker) -> Poll<()> {
        let mut inner = self.0.lock().unwrap();
        if inner.mail.len() < inner.room {
            return Poll::Ready(());
        }
        inner.waits_for_room.push(waker.clone());
        Poll::Pending
    }
}

#[test]
fn a_refused_message_comes_back() {
    let (counters, _) = post::<CounterMessage>(1);
    counters.tell("a", Add(1)).unwrap();
    let refused = counters.tell("a", Add(2)).unwrap_err();
    assert_eq!((refused.message, refused.reason), (Add(2), Reason::Full(Bound::Lane)));
}

#[test]
fn a_refused_ask_has_its_message_inside_and_sets_no_alarm() {
    let (counters, post) = post::<CounterMessage>(0);
    let error = now(counters.ask("a", Get)).unwrap().unwrap_err();
    assert!(matches!(error, AskError::Refused(Refused { message: Get, reason: Reason::Full(_) })));
    assert!(!error.may_have_run());
    assert_eq!(post.alarms(), 0);
}

#[test]
fn an_ask_is_sent_before_it_is_awaited() {
    let (counters, post) = post::<CounterMessage>(9);
    let asked = counters.ask("a", Get);
    counters.tell("b", Add(1)).unwrap();
    assert_eq!(post.ids(), ["a", "b"]);
    drop(asked);
    assert!(post.take().is_ask());
    assert!(!post.take().is_ask());
}

#[test]
fn an_answered_ask_leaves_no_alarm_behind() {
    let (counters, post) = post::<CounterMessage>(9);
    let (waker, wakes) = waker();
    let mut asked = pin!(counters.ask("a", Get));
    assert!(asked.as_mut().poll(&mut Poller::from_waker(&waker)).is_pending());
    assert!(asked.as_mut().poll(&mut Poller::from_waker(&waker)).is_pending());
    assert_eq!(post.alarms(), 1, "one alarm however often it is polled");
    let (_, reply) = Accepts::<Get>::unwrap(post.take()).unwrap();
    assert!(reply.is_wanted());
    reply.send(4);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(matches!(asked.as_mut().poll(&mut Poller::from_waker(&waker)), Poll::Ready(Ok(4))));
    assert_eq!(post.alarms(), 0);
}

#[test]
fn a_dropped_ask_leaves_no_alarm_and_is_not_wanted() {
    let (counters, post) = post::<CounterMessage>(9);
    let mut asked = counters.ask("a", Get);
    assert!(now(&mut asked).is_none());
    drop(asked);
    assert_eq!(post.alarms(), 0);
    assert!(!Accepts::<Get>::unwrap(post.take()).unwrap().1.is_wanted());
}

#[test]
fn an_ask_ends_at_its_limit_and_no_sooner() {
    let (counters, post) = post::<CounterMessage>(9);
    let mut asked = counters.entity("a").within(Duration::from_millis(5)).ask(Get);
    post.pass(Duration::from_micros(4_999));
    assert!(now(&mut asked).is_none());
    post.pass(Duration::from_micros(1));
    let error = now(&mut asked).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "no reply: no answer within 5ms (it may have run)");
    assert!(error.may_have_run());
}

#[test]
fn an_answer_that_comes_with_the_deadline_counts() {
    let (counters, post) = post::<CounterMessage>(9);
    let asked = counters.within(Duration::from_millis(5)).ask("a", Get);
    post.pass(Duration::from_millis(5));
    Accepts::<Get>::unwrap(post.take()).unwrap().1.send(1);
    assert!(matches!(now(asked), Some(Ok(1))));
}

#[test]
fn an_ask_turned_back_later_says_that_it_did_not_run() {
    let (counters, post) = post::<CounterMessage>(9);
    let asked = counters.ask("a", Get);
    post.take().refuse(Reason::NoHome);
    let error = now(asked).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "question not delivered: no node hosts the entity's shard");
    assert!(!error.may_have_run());
}

#[test]
fn a_question_that_is_dropped_says_that_it_may_have_run() {
    let (counters, post) = post::<CounterMessage>(9);
    let asked = counters.ask("a", Get);
    drop(post.take());
    assert!(matches!(now(asked), Some(Err(AskError::NoReply(NoReply::Ended)))));
}

#[test]
fn send_waits_for_room() {
    let (counters, post) = post::<CounterMessage>(1);
    counters.tell("a", Add(1)).unwrap();
    let (waker, wakes) = waker();
    let mut sending = pin!(counters.send("b", Add(2)));
    assert!(sending.as_mut().poll(&mut Poller::from_waker(&waker)).is_pending());
    drop(post.take());
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(matches!(sending.as_mut().poll(&mut Poller::from_waker(&waker)), Poll::Ready(Ok(()))));
    assert_eq!(post.ids(), ["b"]);
}

#[test]
fn send_gives_up_at_its_limit_and_gives_the_message_back() {
    let (counters, post) = post::<CounterMessage>(0);
    let counter = counters.entity("a").within(Duration::from_secs(1));
    let (waker, wakes) = waker();
    let mut sending = Box::pin(counter.send(Add(2)));
    assert!(sending.as_mut().poll(&mut Poller::from_waker(&waker)).is_pending());
    post.pass(Duration::from_secs(1));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    let Poll::Ready(Err(refused)) = sending.as_mut().poll(&mut Poller::from_waker(&waker)) else { panic!("it waits") };
    assert_eq!((refused.message, refused.reason), (Add(2), Reason::Expired));
    drop(sending);
    assert_eq!(post.alarms(), 0);
}

#[test]
fn an_envelope_goes_to_the_entity_it_names() {
    struct Command {
        counter: String,
        by: u64,
    }
    impl Envelope for Command {
        type Message = Add;
        fn extract_entity_id(&self) -> &str {
            &self.counter
        }
        fn extract_entity_message(self) -> Add {
            Add(self.by)
        }
    }
    let (counters, post) = post::<CounterMessage>(1);
    counters.route(Command { counter: "x".into(), by: 3 }).unwrap();
    assert_eq!(post.ids(), ["x"]);
    let refused = counters.route(Command { counter: "y".into(), by: 4 }).unwrap_err();
    assert_eq!(refused.message, Add(4));
}

#[test]
fn references_are_equal_by_id_and_can_be_shown() {
    let (counters, _) = post::<CounterMessage>(1);
    assert_eq!(counters.entity("a"), counters.entity("a").within(Duration::ZERO));
    assert_ne!(counters.entity("a"), counters.entity("b"));
    assert_eq!(format!("{:?} {:?}", counters, counters.entity("a")), "Entities(counter) EntityRef(counter/a)");
    assert_eq!(format!("{:?}", counters.ask("a", Get)), "Ask(waiting)");
}

#[test]
fn futures_of_references_can_move_between_threads() {
    fn sendable<T: Send>(_: &T) {}
    let (counters, _) = post::<CounterMessage>(9);
    sendable(&counters);
    sendable(&counters.ask("a", Get));
    sendable(&counters.send("a", Add(1)));
    assert!(size_of_val(&counters.ask("a", Get)) <= 64);
}

fn now<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    match std::pin::Pin::new(&mut future).poll(&mut Poller::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn waker() -> (Waker, Arc<Wakes>) {
    let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
    (wakes.clone().into(), wakes)
}
