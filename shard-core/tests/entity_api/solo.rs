//! What entities can do, each on `Solo`.

use std::sync::{Arc, Mutex};

use shard_core::entity::{AskFailure, Protocol};
use shard_core::prelude::*;
use shard_core::testing::Solo;

use crate::counter::{Add, Counter, CounterMessage, Get};

pub struct Note(&'static str);
pub struct Read;
pub struct Hold;
pub struct Release;
pub struct Leave;
pub struct LeaveWith(&'static str);
pub struct Stop;
pub struct Fail(&'static str);
pub struct Later(u64, &'static str);
pub struct Tell(&'static str);
pub struct Who;
pub struct Left;
pub struct Elsewhere;
messages! {
    pub enum DiaryMessage as "diary" {
        Note -> (),
        Read -> Vec<&'static str>,
        Hold -> usize,
        Release -> (),
        Leave -> (),
        LeaveWith -> (),
        Stop -> (),
        Fail -> (),
        Later -> (),
        Tell -> Result<(), Reason>,
        Who -> (String, u64, Fence),
        Left -> Duration,
        Elsewhere -> Result<(), Reason>,
    }
}

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what happens to it, beyond its own lives.
struct Diary {
    log: Log,
    notes: Vec<&'static str>,
    held: Vec<ReplyTo<usize>>,
    starts_to_fail: Arc<Mutex<u32>>,
}

impl Entity for Diary {
    type Message = DiaryMessage;

    async fn started(&mut self, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let mut failing = self.starts_to_fail.lock().unwrap();
        if *failing > 0 {
            *failing -= 1;
            return Err("the store is away".into());
        }
        self.log.lock().unwrap().push(format!("started {}", ctx.identity().activation()));
        Ok(())
    }

    async fn stopping(&mut self, why: StopReason, _: &mut Context<'_, Self>) {
        self.log.lock().unwrap().push(format!("stopping {why:?} {:?}", self.notes));
    }
}

impl Handle<Note> for Diary {
    async fn handle(&mut self, Note(text): Note, _: &mut Context<'_, Self>) {
        self.notes.push(text);
    }
}

impl Handle<Read> for Diary {
    async fn handle(&mut self, _: Read, _: &mut Context<'_, Self>) -> Vec<&'static str> {
        self.notes.clone()
    }
}

impl HandleDeferred<Hold> for Diary {
    async fn handle_deferred(&mut self, _: Hold, reply: ReplyTo<usize>, _: &mut Context<'_, Self>) {
        self.held.push(reply);
    }
}

impl Handle<Release> for Diary {
    async fn handle(&mut self, _: Release, _: &mut Context<'_, Self>) {
        self.held.retain(ReplyTo::is_wanted);
        let waiting = self.held.len();
        self.held.drain(..).for_each(|reply| reply.send(waiting));
    }
}

impl Handle<Leave> for Diary {
    async fn handle(&mut self, _: Leave, ctx: &mut Context<'_, Self>) {
        ctx.passivate();
        ctx.passivate();
    }
}

impl Handle<LeaveWith> for Diary {
    async fn handle(&mut self, LeaveWith(text): LeaveWith, ctx: &mut Context<'_, Self>) {
        ctx.passivate_with(Note(text));
    }
}

impl Handle<Stop> for Diary {
    async fn handle(&mut self, _: Stop, ctx: &mut Context<'_, Self>) {
        ctx.stop();
    }
}

impl Handle<Fail> for Diary {
    async fn handle(&mut self, Fail(why): Fail, ctx: &mut Context<'_, Self>) {
        ctx.restart(why);
        ctx.passivate();
    }
}

impl Handle<Later> for Diary {
    async fn handle(&mut self, Later(seconds, text): Later, ctx: &mut Context<'_, Self>) {
        ctx.schedule(Duration::from_secs(seconds), Note(text));
    }
}

impl Handle<Tell> for Diary {
    async fn handle(&mut self, Tell(text): Tell, ctx: &mut Context<'_, Self>) -> Result<(), Reason> {
        ctx.me().tell(Note(text))?;
        self.notes.push("told");
        Ok(())
    }
}

impl Handle<Who> for Diary {
    async fn handle(&mut self, _: Who, ctx: &mut Context<'_, Self>) -> (String, u64, Fence) {
        (ctx.identity().to_string(), ctx.identity().activation(), ctx.fence())
    }
}

impl Handle<Left> for Diary {
    async fn handle(&mut self, _: Left, ctx: &mut Context<'_, Self>) -> Duration {
        ctx.session_left()
    }
}

impl Handle<Elsewhere> for Diary {
    async fn handle(&mut self, _: Elsewhere, ctx: &mut Context<'_, Self>) -> Result<(), Reason> {
        Ok(ctx.entities::<CounterMessage>().tell("c", Add(7))?)
    }
}

#[test]
fn a_counter_adds_what_it_is_told() {
    let mut counter = Solo::new("c", |_| Counter::default());
    counter.tell(Add(2));
    counter.tell(Add(3));
    assert_eq!(counter.ask(Get), 5);
    assert_eq!(CounterMessage::TYPE_NAME, "counter");
    assert_eq!(CounterMessage::MESSAGES, [(1, "Add"), (2, "Get")]);
}

#[test]
fn an_entity_starts_with_its_first_message() {
    let (mut diary, log) = diary();
    assert!(!diary.is_awake());
    diary.tell(Note("a"));
    assert!(diary.is_awake());
    assert_eq!(lines(&log), ["started 1"]);
    assert_eq!(diary.ask(Read), ["a"]);
}

#[test]
fn a_deferred_answer_comes_when_it_is_given() {
    let (mut diary, _) = diary();
    let mut first = diary.ask_later(Hold);
    drop(diary.ask_later(Hold));
    assert_eq!(first.take(), None);
    diary.tell(Release);
    assert_eq!(first.take(), Some(Ok(1)), "the second asker had given up");
}

#[test]
fn a_dropped_question_ends_without_an_answer() {
    let (mut diary, _) = diary();
    let mut answer = diary.ask_later(Hold);
    diary.stop(StopReason::Idle);
    assert_eq!(answer.take(), Some(Err(AskFailure::NoReply(NoReply::Ended))));
}

#[test]
#[should_panic(expected = "`diary/d` has not answered yet")]
fn asking_for_a_deferred_answer_at_once_fails_the_test() {
    diary().0.ask(Hold);
}

#[test]
fn passivation_stops_and_the_next_message_starts_afresh() {
    let (mut diary, log) = diary();
    diary.tell(Note("a"));
    diary.tell(Leave);
    assert!(!diary.is_awake());
    assert!(diary.ask(Read).is_empty());
    assert_eq!(lines(&log), ["started 1", "stopping Asked [\"a\"]", "started 2"]);
}

#[test]
fn the_own_last_message_is_handled_before_the_end() {
    let (mut diary, log) = diary();
    diary.tell(LeaveWith("last"));
    assert_eq!(lines(&log), ["started 1", "stopping Asked [\"last\"]"]);
}

#[test]
fn stop_ends_this_life_and_drops_what_it_scheduled() {
    let (mut diary, log) = diary();
    diary.tell(Later(1, "too late"));
    diary.tell(Stop);
    assert_eq!(lines(&log), ["started 1", "stopping Asked []"]);
    diary.wake();
    diary.advance(Duration::from_secs(2));
    assert!(diary.ask(Read).is_empty());
}

#[test]
fn restart_beats_passivation_and_keeps_the_cause() {
    let (mut diary, log) = diary();
    diary.tell(Note("bad"));
    diary.tell(Fail("out of step"));
    assert!(diary.is_awake(), "it starts again without mail");
    assert_eq!(diary.activations(), 2);
    assert_eq!(diary.failures()[0].to_string(), "out of step");
    assert_eq!(lines(&log), ["started 1", "stopping Failed [\"bad\"]", "started 2"]);
}

#[test]
fn mail_waits_while_the_entity_does_not_start() {
    let (mut diary, log) = diary_failing(2);
    diary.tell(Note("a"));
    assert!(!diary.is_awake());
    diary.tell(Note("b"));
    assert_eq!(diary.ask(Read), ["a", "b"]);
    assert_eq!(diary.failures().len(), 2);
    assert_eq!(lines(&log), ["started 3"]);
}

#[test]
#[should_panic(expected = "`diary/d` is not running: the store is away")]
fn asking_an_entity_that_does_not_start_fails_the_test() {
    diary_failing(1).0.ask(Read);
}

#[test]
fn scheduled_messages_come_at_their_time_in_order() {
    let (mut diary, _) = diary();
    diary.tell(Later(2, "second"));
    diary.tell(Later(1, "first"));
    diary.tell(Later(2, "third"));
    diary.advance(Duration::from_millis(1_999));
    assert_eq!(diary.ask(Read), ["first"]);
    diary.advance(Duration::from_millis(1));
    assert_eq!(diary.ask(Read), ["first", "second", "third"]);
}

#[test]
fn it_knows_who_it_is_and_each_life_has_a_greater_fence() {
    let (mut diary, _) = diary();
    let (name, life, first) = diary.ask(Who);
    assert_eq!((name.as_str(), life), ("diary/d", 1));
    diary.tell(Stop);
    let (_, life, second) = diary.ask(Who);
    assert_eq!(life, 2);
    assert!(second > first);
}

#[test]
fn the_session_runs_out_with_the_clock() {
    let (mut diary, _) = diary();
    diary.set_session_left(Duration::from_secs(3));
    diary.advance(Duration::from_secs(1));
    assert_eq!(diary.ask(Left), Duration::from_secs(2));
    diary.advance(Duration::from_secs(9));
    assert_eq!(diary.ask(Left), Duration::ZERO);
}

#[test]
fn a_type_that_is_not_registered_refuses() {
    let (mut diary, _) = diary();
    assert_eq!(diary.ask(Elsewhere), Err(Reason::NoSuchType));
}

#[test]
fn a_registered_type_is_found_by_its_protocol() {
    let (mut diary, _) = diary();
    let (counters, post) = crate::references::post::<CounterMessage>(9);
    diary.register(counters);
    assert_eq!(diary.ask(Elsewhere), Ok(()));
    assert_eq!(post.ids(), ["c"]);
}

#[cfg(feature = "std")]
#[test]
fn what_it_tells_itself_is_a_later_turn() {
    let (mut diary, _) = diary();
    assert_eq!(diary.ask(Tell("me")), Ok(()));
    assert_eq!(diary.ask(Read), ["told", "me"]);
}

/// Takes turns with itself: pending once, woken by itself.
struct Slow;
pub struct Yield;
pub struct Hang;
messages! { pub enum SlowMessage as "slow" { Yield -> u8, Hang -> () } }
impl Entity for Slow {
    type Message = SlowMessage;
}
impl Handle<Yield> for Slow {
    async fn handle(&mut self, _: Yield, _: &mut Context<'_, Self>) -> u8 {
        let mut polls = 0;
        std::future::poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            if polls == 3 { std::task::Poll::Ready(polls) } else { std::task::Poll::Pending }
        })
        .await
    }
}
impl Handle<Hang> for Slow {
    async fn handle(&mut self, _: Hang, _: &mut Context<'_, Self>) {
        std::future::pending::<()>().await;
    }
}

#[test]
fn a_handler_that_wakes_itself_is_polled_again() {
    assert_eq!(Solo::new("s", |_| Slow).ask(Yield), 3);
}

#[test]
#[should_panic(expected = "`slow/s` waits in a handler or hook for something that no one in this test will bring")]
fn a_handler_that_hangs_fails_the_test() {
    Solo::new("s", |_| Slow).tell(Hang);
}

/// One message type in two protocols, with two answers; and messages that are types of other crates.
mod shared {
    use super::*;

    messages! { pub enum SumMessage as "sum" { u64 -> u64, String -> usize } }
    messages! { pub enum TextMessage as "text" { u64 -> String } }

    struct Sum(u64);
    impl Entity for Sum {
        type Message = SumMessage;
    }
    impl Handle<u64> for Sum {
        async fn handle(&mut self, n: u64, _: &mut Context<'_, Self>) -> u64 {
            self.0 += n;
            self.0
        }
    }
    impl Handle<String> for Sum {
        async fn handle(&mut self, text: String, _: &mut Context<'_, Self>) -> usize {
            text.len()
        }
    }

    struct Text;
    impl Entity for Text {
        type Message = TextMessage;
    }
    impl Handle<u64> for Text {
        async fn handle(&mut self, n: u64, _: &mut Context<'_, Self>) -> String {
            n.to_string()
        }
    }

    #[test]
    fn one_message_in_two_protocols_has_two_answers() {
        let mut sum = Solo::new("s", |_| Sum(1));
        assert_eq!(sum.ask(4_u64), 5);
        assert_eq!(sum.ask(String::from("four")), 4);
        assert_eq!(Solo::new("t", |_| Text).ask(4_u64), "4");
    }
}

fn diary() -> (Solo<Diary>, Log) {
    diary_failing(0)
}

fn diary_failing(starts: u32) -> (Solo<Diary>, Log) {
    let log = Log::default();
    let starts_to_fail = Arc::new(Mutex::new(starts));
    let pages = log.clone();
    let solo = Solo::new("d", move |_| Diary {
        log: pages.clone(),
        notes: Vec::new(),
        held: Vec::new(),
        starts_to_fail: starts_to_fail.clone(),
    });
    (solo, log)
}

fn lines(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}
