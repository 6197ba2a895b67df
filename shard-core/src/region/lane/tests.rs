//! Lanes, one fact at a time; the host writes down what it was ordered.

mod gate;
mod keeper;
mod meter;

use std::num::NonZeroU32;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::entity::{Fate, Reason, StopReason};
use crate::id::{Incarnation, NodeId};
use crate::machine::Notice;
use crate::wire::Home;

type Host = Vec<String>;

impl LaneHost<u32> for Host {
    fn start(&mut self, _: Slot, life: Life) {
        self.push(std::format!("start {}", life.id));
    }
    fn run(&mut self, _: Slot, message: u32) {
        self.push(std::format!("run {message}"));
    }
    fn stop(&mut self, _: Slot, why: StopReason) {
        self.push(std::format!("stop {why:?}"));
    }
    fn loads(&mut self, loads: &[(ShardId, u32)]) {
        let loads: Vec<_> = loads.iter().map(|(shard, load)| (shard.0, *load)).collect();
        self.push(std::format!("loads {loads:?}"));
    }
    fn cancel(&mut self, _: Slot) {
        self.push("cancel".to_string());
    }
    fn discard(&mut self, _: Slot) {
        self.push("discard".to_string());
    }
    fn may_start(&mut self) -> bool {
        !self.iter().any(|line| line == "time is up")
    }
    fn withdraw(&mut self, message: u32) {
        self.push(std::format!("withdraw {message}"));
    }
    fn weigh(&mut self, _: &EntityId, message: &u32) -> Result<u32, Reason> {
        if *message == HUGE { Err(Reason::TooLarge { bytes: 9, limit: 1 }) } else { Ok(1) }
    }
    fn transmit(&mut self, to: NodeKey, _: DataHead, _: &EntityId, body: &u32) {
        self.push(std::format!("send {body} to {}", to.id));
    }
    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>) {
        let what = match receipt {
            Receipt::Taken { upto, .. } => std::format!("taken {upto}"),
            Receipt::Closed { upto, beyond, .. } => std::format!("closed {upto} {beyond:?}"),
            Receipt::Refuse { hint: Some((node, token)), .. } => std::format!("refuse, now {token} at {}", node.id),
            Receipt::Refuse { draining, .. } => std::format!("refuse, draining: {draining}"),
            Receipt::Rejected { seq, reason, .. } => std::format!("rejected {seq}: {reason}"),
        };
        self.push(std::format!("{what} to {}", to.id));
    }
    fn lookup(&mut self, shard: ShardId) {
        self.push(std::format!("lookup {shard}"));
    }
    fn undelivered(&mut self, _: &EntityId, message: u32, fate: Fate) {
        self.push(std::format!("{message} {fate}"));
    }
    fn owned(&mut self, _: ShardId, _: Token) {}
    fn lost(&mut self, _: ShardId) {}
    fn dropped(&mut self, shard: ShardId, _: Token) {
        self.push(std::format!("dropped {shard}"));
    }
    fn halted(&mut self) {
        self.push("halted".to_string());
    }
    fn notice(&mut self, _: Notice) {}
}

/// Too long for any link.
const HUGE: u32 = 999;
const SHARD: ShardId = ShardId(0);
const TOKEN: Token = Token { counter: 1, node: NodeId(1), number: 1 };
const PEER: NodeKey = NodeKey { id: NodeId(2), incarnation: Incarnation(1) };

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A lane with one shard, owned and live until 1 s, and what it ordered.
fn lane() -> (Lane<u32>, Host) {
    guarded(None)
}

/// The same of a type that puts entities to sleep so.
fn sleepy(passivation: Passivation) -> (Lane<u32>, Host) {
    begin(None, passivation)
}

/// The same of a type that may be guarded.
fn guarded(guard: Option<Guard>) -> (Lane<u32>, Host) {
    begin(guard, Passivation::after(Duration::from_millis(500)))
}

fn begin(guard: Option<Guard>, passivation: Passivation) -> (Lane<u32>, Host) {
    let mut lane = Lane::new(LaneConfig {
        me: NodeKey { id: NodeId(1), incarnation: Incarnation(1) },
        kind: Kind(1),
        shards: NonZeroU32::MIN,
        lane: 0,
        lanes: NonZeroU32::MIN,
        passivation,
        mailbox: 8,
        timers: 8,
        rest: Duration::from_millis(10),
        rest_max: Duration::from_millis(100),
        stream: Fixed::new(StreamConfig::default()),
        rules: Rules::all(),
        guard,
        loads: None,
    });
    let mut host = Host::new();
    lane.order(ms(0), Order::Live { until: ms(1_000) }, &mut host);
    lane.order(ms(0), Order::Own { shard: SHARD, token: TOKEN }, &mut host);
    (lane, host)
}

fn tell(lane: &mut Lane<u32>, now: Instant, id: &str, message: u32, host: &mut Host) {
    let hash = crate::hash::entity(id);
    lane.tell(now, Tell { id, hash, shard: SHARD, message, ask: false, deadline: None }, host);
}

fn arrive(lane: &mut Lane<u32>, now: Instant, id: &str, seq: u64, host: &mut Host) {
    let (hash, body) = (crate::hash::entity(id), Ok(seq as u32));
    let first = seq == 1;
    let arrival = Arrival { from: PEER, shard: SHARD, token: TOKEN, attempt: 1, seq, first, id, hash, body };
    lane.arrive(now, arrival, host);
}

fn slot(lane: &Lane<u32>, id: &str) -> Slot {
    lane.residents.find(crate::hash::entity(id), id).expect("it is here")
}

/// An awake entity, with the transcript emptied.
fn awake(lane: &mut Lane<u32>, id: &str, host: &mut Host) -> Slot {
    tell(lane, ms(1), id, 0, host);
    let slot = slot(lane, id);
    lane.started(ms(1), slot, true, host);
    lane.finished(ms(1), slot, Next::Stay, host);
    host.clear();
    slot
}

#[test]
fn a_message_wakes_its_entity_and_later_ones_wait_their_turn() {
    let (mut lane, mut host) = lane();
    tell(&mut lane, ms(1), "a", 1, &mut host);
    tell(&mut lane, ms(1), "a", 2, &mut host);
    let slot = slot(&lane, "a");
    lane.started(ms(2), slot, true, &mut host);
    lane.finished(ms(3), slot, Next::Stay, &mut host);
    assert_eq!(host, ["start a", "run 1", "run 2"]);
}

#[test]
fn the_fast_door_is_open_only_for_an_idle_entity_of_a_live_shard() {
    let (mut lane, mut host) = lane();
    let slot = awake(&mut lane, "a", &mut host);
    let hash = crate::hash::entity("a");
    assert_eq!(lane.locate(ms(999), SHARD, hash, "a"), Some(slot));
    assert_eq!(lane.locate(ms(1_000), SHARD, hash, "a"), None, "the session less the margin is over");
    lane.busy(slot);
    assert_eq!(lane.locate(ms(2), SHARD, hash, "a"), None, "it is busy");
    lane.finished(ms(2), slot, Next::Stay, &mut host);
    lane.order(ms(3), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(900), leaving: false }, &mut host);
    assert_eq!(lane.locate(ms(3), SHARD, hash, "a"), None, "the shard drains");
}

#[test]
fn no_first_hook_begins_outside_the_session() {
    let (mut lane, mut host) = lane();
    arrive(&mut lane, ms(1_000), "a", 1, &mut host);
    assert_eq!(host, [""; 0], "the session may be over and another node may own the shard");
    lane.order(ms(1_001), Order::Live { until: ms(2_000) }, &mut host);
    let slot = slot(&lane, "a");
    lane.started(ms(1_002), slot, true, &mut host);
    assert_eq!(host, ["start a", "run 1"]);
}

#[test]
fn a_failed_entity_does_not_start_again_outside_the_session() {
    let (mut lane, mut host) = lane();
    let slot = awake(&mut lane, "a", &mut host);
    tell(&mut lane, ms(980), "a", 1, &mut host);
    tell(&mut lane, ms(980), "a", 2, &mut host);
    lane.finished(ms(995), slot, Next::Failed, &mut host);
    lane.expire(ms(1_100), &mut host);
    assert_eq!(host, ["run 1"]);
    lane.order(ms(1_101), Order::Live { until: ms(2_000) }, &mut host);
    assert_eq!(host, ["run 1", "start a"]);
}

#[test]
fn no_entity_falls_asleep_outside_the_session() {
    let (mut lane, mut host) = lane();
    awake(&mut lane, "a", &mut host);
    lane.expire(ms(1_200), &mut host);
    assert_eq!(host, [""; 0], "its last hook might write");
    assert_eq!(lane.deadline(), Some(ms(1_700)), "it asks to be called again, but not at once");
    lane.order(ms(1_201), Order::Live { until: ms(3_000) }, &mut host);
    lane.expire(ms(1_701), &mut host);
    assert_eq!(host, ["stop Idle"]);
}

#[test]
fn a_drain_outside_the_session_waits_for_its_renewal_or_for_force() {
    let (mut lane, mut host) = lane();
    let a = awake(&mut lane, "a", &mut host);
    lane.order(ms(1_000), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(1_500), leaving: false }, &mut host);
    assert_eq!(host, [""; 0]);
    let (mut forced, mut other) = (lane, Host::new());
    forced.expire(ms(1_500), &mut other);
    assert_eq!(other, ["discard", "dropped s0"]);

    let (mut lane, mut host) = self::lane();
    assert_eq!(a, awake(&mut lane, "a", &mut host));
    lane.order(ms(1_000), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(1_500), leaving: false }, &mut host);
    lane.order(ms(1_001), Order::Live { until: ms(2_000) }, &mut host);
    lane.stopped(ms(1_002), a, &mut host);
    assert_eq!(host, ["stop Handoff", "dropped s0"]);
}

#[test]
fn a_shard_is_reported_dropped_only_after_its_last_hook() {
    let (mut lane, mut host) = lane();
    let slot = awake(&mut lane, "a", &mut host);
    arrive(&mut lane, ms(2), "a", 1, &mut host);
    lane.order(ms(3), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(900), leaving: false }, &mut host);
    lane.finished(ms(4), slot, Next::Stay, &mut host);
    lane.stopped(ms(5), slot, &mut host);
    assert_eq!(host, ["run 1", "stop Handoff", "closed 1 [] to n2", "dropped s0"]);
}

/// D7: a former owner that has sent there itself says where the shard lives now.
#[test]
fn a_former_owner_names_the_later_home_that_it_knows() {
    let (mut lane, mut host) = lane();
    lane.order(ms(3), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(900), leaving: false }, &mut host);
    host.clear();
    arrive(&mut lane, ms(4), "a", 1, &mut host);
    assert_eq!(host, ["refuse, draining: false to n2", "withdraw 1"], "it knows of none");
    let third = NodeKey { id: NodeId(3), ..PEER };
    let home = Home { node: third, token: Token { number: 2, ..TOKEN }, closed: true };
    tell(&mut lane, ms(5), "a", 1, &mut host);
    lane.order(ms(6), Order::Home { shard: SHARD, home: Some(home) }, &mut host);
    host.clear();
    arrive(&mut lane, ms(7), "a", 1, &mut host);
    assert_eq!(host, ["refuse, now 1@n1#2 at n3 to n2", "withdraw 1"]);
}

#[test]
fn a_halting_lane_tells_known_senders_to_wait_for_what_was_taken() {
    let (mut lane, mut host) = lane();
    let a = awake(&mut lane, "a", &mut host);
    let b = awake(&mut lane, "b", &mut host);
    tell(&mut lane, ms(2), "a", 0, &mut host);
    arrive(&mut lane, ms(2), "a", 1, &mut host);
    arrive(&mut lane, ms(2), "b", 2, &mut host);
    host.clear();
    lane.order(ms(3), Order::Halt, &mut host);
    arrive(&mut lane, ms(4), "a", 3, &mut host);
    // Had it said "not draining", the sender would have sent message 2 again, which runs already.
    assert_eq!(host, ["cancel", "cancel", "refuse, draining: true to n2", "withdraw 3"]);
    host.clear();
    lane.stopped(ms(5), a, &mut host);
    lane.stopped(ms(5), b, &mut host);
    assert!(host.contains(&"closed 0 [2] to n2".to_string()), "{host:?}");
    assert_eq!(host.last().map(String::as_str), Some("halted"));
}

#[test]
fn mail_that_was_not_taken_when_a_tenure_ends_looks_for_the_next_owner() {
    let (mut lane, mut host) = lane();
    let slot = awake(&mut lane, "a", &mut host);
    for message in 1..=3 {
        tell(&mut lane, ms(2), "a", message, &mut host);
    }
    lane.order(ms(3), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(900), leaving: false }, &mut host);
    lane.finished(ms(4), slot, Next::Stay, &mut host);
    lane.stopped(ms(5), slot, &mut host);
    assert_eq!(host, ["run 1", "stop Handoff", "lookup s0", "dropped s0"]);
    let home = Home { node: PEER, token: Token { number: 2, ..TOKEN }, closed: true };
    host.clear();
    lane.order(ms(6), Order::Home { shard: SHARD, home: Some(home) }, &mut host);
    assert_eq!(host, ["send 2 to n2", "send 3 to n2"]);
}

#[test]
fn what_the_host_sees_end_in_the_middle_of_a_call_ends_there() {
    let (mut lane, mut host) = lane();
    let slot = awake(&mut lane, "a", &mut host);
    tell(&mut lane, ms(2), "a", 1, &mut host);
    tell(&mut lane, ms(2), "a", 2, &mut host);
    host.push("time is up".to_string());
    // For the call it is still 2 ms; for the host the session is over.
    lane.finished(ms(2), slot, Next::Stay, &mut host);
    tell(&mut lane, ms(2), "b", 3, &mut host);
    assert_eq!(host, ["run 1", "time is up"]);
    host.clear();
    lane.order(ms(3), Order::Live { until: ms(2_000) }, &mut host);
    assert_eq!(host, ["run 2", "start b"]);
}

#[test]
fn no_last_hook_begins_after_what_the_host_saw_end() {
    let over = || Host::from(["time is up".to_string()]);
    let drain = Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(900), leaving: false };
    let renewed = Order::Live { until: ms(2_000) };

    let (mut lane, mut host) = lane();
    awake(&mut lane, "a", &mut host);
    host = over();
    lane.order(ms(2), drain, &mut host);
    assert_eq!((host, lane.is_stalled()), (over(), true), "a drain's hooks may be many, and slow");
    let mut host = Host::new();
    lane.order(ms(3), renewed, &mut host);
    assert_eq!((host, lane.is_stalled()), (Host::from(["stop Handoff".to_string()]), false));

    let (mut lane, mut host) = self::lane();
    let a = awake(&mut lane, "a", &mut host);
    tell(&mut lane, ms(2), "a", 1, &mut host);
    lane.order(ms(2), drain, &mut host);
    host = over();
    lane.finished(ms(3), a, Next::Stay, &mut host);
    assert_eq!(host, over(), "nor when the last handler has returned");

    let (mut lane, mut host) = self::lane();
    awake(&mut lane, "a", &mut host);
    host = over();
    lane.expire(ms(600), &mut host);
    assert_eq!(host, over(), "nor to sleep");
    assert_eq!(lane.deadline(), Some(ms(1_100)));
}

#[test]
fn an_entity_that_stops_when_the_session_is_over_stops_before_its_mail_once_it_is_renewed() {
    let (mut lane, mut host) = lane();
    let a = awake(&mut lane, "a", &mut host);
    for message in 1..=2 {
        tell(&mut lane, ms(2), "a", message, &mut host);
    }
    lane.finished(ms(1_000), a, Next::Stop, &mut host);
    assert_eq!(host, ["run 1"], "its last hook might write");
    assert_eq!(lane.locate(ms(999), SHARD, crate::hash::entity("a"), "a"), None);
    host.clear();
    lane.order(ms(1_001), Order::Live { until: ms(2_000) }, &mut host);
    lane.stopped(ms(1_002), a, &mut host);
    assert_eq!(host, ["stop Asked", "start a"], "message 2 is for its next life");
}

#[test]
fn an_abandoned_lane_drops_what_runs_and_tells_what_waits() {
    let (mut lane, mut host) = lane();
    awake(&mut lane, "a", &mut host);
    tell(&mut lane, ms(2), "a", 1, &mut host);
    tell(&mut lane, ms(2), "a", 2, &mut host);
    arrive(&mut lane, ms(2), "a", 1, &mut host);
    host.clear();
    lane.abandon(ms(3), &mut host);
    let fate = Fate::NotRun(Reason::Stopping);
    assert_eq!(host, ["cancel".to_string(), "withdraw 1".to_string(), std::format!("2 {fate}")]);
    assert_eq!(lane.residents(), 0);
}

#[test]
fn what_is_not_taken_is_withdrawn_so_that_its_asker_goes_on_waiting() {
    let (mut lane, mut host) = lane();
    awake(&mut lane, "a", &mut host);
    tell(&mut lane, ms(2), "a", 7, &mut host);
    arrive(&mut lane, ms(2), "a", 1, &mut host);
    arrive(&mut lane, ms(2), "a", 1, &mut host);
    host.clear();
    lane.order(ms(3), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(900), leaving: false }, &mut host);
    arrive(&mut lane, ms(3), "a", 2, &mut host);
    assert_eq!(host, ["refuse, draining: true to n2", "withdraw 2"]);
    host.clear();
    let slot = slot(&lane, "a");
    lane.finished(ms(4), slot, Next::Stay, &mut host);
    lane.stopped(ms(4), slot, &mut host);
    assert!(host.contains(&"withdraw 1".to_string()), "{host:?}");
}

#[test]
fn what_no_link_carries_is_told_when_its_shard_moves() {
    let (mut lane, mut host) = lane();
    let slot = awake(&mut lane, "a", &mut host);
    for message in [1, HUGE, 2] {
        tell(&mut lane, ms(2), "a", message, &mut host);
    }
    lane.order(ms(3), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(900), leaving: false }, &mut host);
    lane.finished(ms(4), slot, Next::Stay, &mut host);
    host.clear();
    lane.stopped(ms(4), slot, &mut host);
    let fate = Fate::NotRun(Reason::TooLarge { bytes: 9, limit: 1 });
    assert!(host.contains(&std::format!("{HUGE} {fate}")), "{host:?}");
    assert_eq!(lane.unsettled(SHARD), 1, "the other goes to the next owner");
}

/// The dense storm found it: mail told while an own tenure drains went to a former owner, past what waited here.
#[test]
fn what_is_told_while_a_shard_drains_waits_behind_what_waits_for_its_entities() {
    let (mut lane, mut host) = lane();
    let later = |number| Token { number, ..TOKEN };
    lane.order(ms(1), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(500), leaving: false }, &mut host);
    // The shard goes to a peer, which takes a message, and comes back.
    let there = Home { node: PEER, token: later(2), closed: true };
    tell(&mut lane, ms(2), "a", 1, &mut host);
    lane.order(ms(2), Order::Home { shard: SHARD, home: Some(there) }, &mut host);
    lane.taken(ms(3), PEER, SHARD, later(2), 1, &mut host);
    lane.order(ms(4), Order::Own { shard: SHARD, token: later(3) }, &mut host);
    host.clear();
    tell(&mut lane, ms(5), "a", 2, &mut host);
    lane.order(ms(6), Order::Drain { shard: SHARD, token: later(3), deadline: ms(500), leaving: false }, &mut host);
    tell(&mut lane, ms(7), "a", 3, &mut host);
    // Word of the former home comes late as well.
    lane.order(ms(8), Order::Home { shard: SHARD, home: Some(there) }, &mut host);
    assert_eq!(host.iter().filter(|line| line.starts_with("send")).count(), 0, "{host:?}");
    let a = slot(&lane, "a");
    lane.started(ms(9), a, true, &mut host);
    lane.stopped(ms(9), a, &mut host);
    let next = Home { node: PEER, token: later(4), closed: true };
    lane.order(ms(10), Order::Home { shard: SHARD, home: Some(next) }, &mut host);
    let sent: Vec<_> = host.iter().filter(|line| line.starts_with("send")).collect();
    assert_eq!(sent, ["send 2 to n2", "send 3 to n2"]);
}
