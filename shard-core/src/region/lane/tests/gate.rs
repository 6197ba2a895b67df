//! The gate: whose turn it is, who is turned away, and what becomes of those that wait.

use super::*;
use crate::shard::Phase;
use crate::shuffle::{FairConfig, FlowKey};

/// `t1/cart` is of the tenant `t1`.
fn tenant_of(id: &str) -> &str {
    id.split('/').next().unwrap_or(id)
}

/// So many queues of which a tenant has `hand`, each of so many messages, so many seats for a tenant and in all.
fn lane_of(queues: u32, hand: u32, length: u32, per_tenant: u32, seats: u32) -> (Lane<u32>, Host) {
    let fair = FairConfig::new(queues, hand, length, seats).and_then(|fair| fair.seats_per_flow(per_tenant));
    guarded(Some(Guard::by_tenant(fair.expect("legal"), FlowKey::new(5), tenant_of)))
}

/// Says that what was ordered last for the entity is done.
fn done(lane: &mut Lane<u32>, at: u64, id: &str, host: &mut Host) {
    let slot = slot(lane, id);
    match lane.residents.get(slot).map(|resident| resident.phase) {
        Some(Phase::Starting) => lane.started(ms(at), slot, true, host),
        Some(Phase::Busy) => lane.finished(ms(at), slot, Next::Stay, host),
        phase => panic!("nothing runs for {id}: {phase:?}"),
    }
}

/// Seats taken, entities that wait, messages that wait.
fn counts(lane: &Lane<u32>) -> (u32, usize, u32) {
    let gate = lane.gate.as_ref().expect("guarded");
    assert!(gate.granted.is_empty(), "whoever may run was told");
    assert_eq!(gate.waiting.len(), gate.queues.waiting());
    assert_eq!(gate.mail.values().sum::<u32>(), gate.places.values().map(|place| place.mail).sum::<u32>());
    (gate.queues.seats_in_use(), gate.queues.waiting(), gate.mail.values().sum())
}

#[test]
fn a_seat_is_held_from_the_first_hook_to_the_end_of_the_handler() {
    let (mut lane, mut host) = lane_of(1, 1, 9, 9, 1);
    tell(&mut lane, ms(1), "t/a", 1, &mut host);
    tell(&mut lane, ms(1), "t/b", 2, &mut host);
    assert_eq!((&host[..], counts(&lane)), (&["start t/a".to_string()][..], (1, 1, 2)), "b does not even wake");
    done(&mut lane, 2, "t/a", &mut host);
    assert_eq!((host.last().map(String::as_str), counts(&lane)), (Some("run 1"), (1, 1, 1)));
    done(&mut lane, 3, "t/a", &mut host);
    assert_eq!((host.last().map(String::as_str), counts(&lane)), (Some("start t/b"), (1, 0, 1)));
    done(&mut lane, 4, "t/b", &mut host);
    done(&mut lane, 5, "t/b", &mut host);
    assert_eq!(counts(&lane), (0, 0, 0));
    let (a, hash) = (slot(&lane, "t/a"), crate::hash::entity("t/a"));
    assert_eq!(lane.locate(ms(6), SHARD, hash, "t/a"), None, "the fast door is closed, though {a:?} is idle");
}

#[test]
fn messages_of_an_entity_keep_their_order_whatever_queues_its_tenant_has() {
    // Eight queues in every hand, three seats: entities take turns in any order, each entity's messages in theirs.
    let (mut lane, mut host) = lane_of(8, 8, 9, 9, 3);
    for message in 0..7 {
        for (at, id) in ["t/a", "t/b", "u/a", "u/b"].into_iter().enumerate() {
            tell(&mut lane, ms(1), id, at as u32 * 100 + message, &mut host);
        }
    }
    let mut at = 1;
    while counts(&lane) != (0, 0, 0) {
        at += 1;
        let busy = |id: &&str| {
            let slot = slot(&lane, id);
            lane.residents.get(slot).is_some_and(|it| matches!(it.phase, Phase::Starting | Phase::Busy))
        };
        let running: Vec<&str> = ["u/b", "t/a", "u/a", "t/b"].into_iter().filter(busy).collect();
        assert!((1..=3).contains(&running.len()), "{running:?}");
        done(&mut lane, at, running[at as usize % running.len()], &mut host);
    }
    let ran: Vec<u32> = host.iter().filter_map(|line| line.strip_prefix("run ")?.parse().ok()).collect();
    assert_eq!(ran.len(), 28);
    for entity in 0..4 {
        let own: Vec<u32> = ran.iter().copied().filter(|message| message / 100 == entity).collect();
        assert!(own.is_sorted() && own.len() == 7, "{own:?}");
    }
    assert!(!ran.is_sorted(), "and entities did take turns");
}

#[test]
fn an_elephant_fills_its_own_seats_and_queues_and_is_told_so() {
    // Hands of two of eight queues, two seats for each: a tenant runs two at a time and has six messages waiting.
    let (mut lane, mut host) = lane_of(8, 2, 3, 2, 8);
    for number in 0..20 {
        tell(&mut lane, ms(1), &std::format!("elephant/{number}"), number, &mut host);
    }
    let starts = host.iter().filter(|line| line.starts_with("start")).count();
    let refused = host.iter().filter(|line| line.ends_with("tenant has as much waiting as it may")).count();
    // The two that have a seat wait for their hooks, so their messages wait as well.
    assert_eq!((starts, refused, counts(&lane)), (2, 14, (2, 4, 6)), "{host:?}");
    assert_eq!(lane.residents(), 6, "who is turned away is not woken, and pushes nobody out");
    // Its handlers never end. Every mouse whose hand is not the elephant's is served at once.
    host.clear();
    let mut served = 0;
    for mouse in 0..20 {
        let id = std::format!("mouse-{mouse}/x");
        tell(&mut lane, ms(2), &id, 100 + mouse, &mut host);
        if host.last().is_some_and(|line| *line == std::format!("start {id}")) {
            served += 1;
            done(&mut lane, 3, &id, &mut host);
            done(&mut lane, 4, &id, &mut host);
        }
    }
    assert!(served >= 18, "{served} of 20: {host:?}");
    assert_eq!(counts(&lane).0, 2, "the elephant's two");
}

#[test]
fn one_entity_that_floods_counts_for_its_tenant_as_well() {
    let (mut lane, mut host) = lane_of(4, 1, 3, 9, 1);
    (1..=6).for_each(|message| tell(&mut lane, ms(1), "t/a", message, &mut host));
    // The first has its seat but waits for its hook.
    let full = "not delivered: the entity's tenant has as much waiting as it may";
    assert_eq!(host[1..], [4, 5, 6].map(|message| std::format!("{message} {full}")));
    done(&mut lane, 2, "t/a", &mut host);
    tell(&mut lane, ms(2), "t/b", 7, &mut host);
    assert_eq!(counts(&lane), (1, 1, 3), "one runs, so there is room for one more of the tenant");
}

#[test]
fn a_sender_elsewhere_is_told_by_a_receipt() {
    let (mut lane, mut host) = lane_of(1, 1, 1, 1, 1);
    for (seq, id) in [(1, "t/a"), (2, "t/b"), (3, "t/c")] {
        arrive(&mut lane, ms(1), id, seq, &mut host);
    }
    let rejected = |seq| std::format!("rejected {seq}: the entity's tenant has as much waiting as it may to n2");
    let withdraw = "withdraw ".to_string();
    // One message waits for its hook, and that is all that the tenant may.
    assert_eq!(host, ["start t/a".to_string(), rejected(2), withdraw.clone() + "2", rejected(3), withdraw + "3"]);
}

#[test]
fn a_seat_comes_back_however_the_handler_ends() {
    // A panic; a first hook that fails; an entity that stops itself; one that is dropped by force.
    let (mut lane, mut host) = lane_of(1, 1, 9, 9, 1);
    tell(&mut lane, ms(1), "t/a", 1, &mut host);
    tell(&mut lane, ms(1), "t/b", 2, &mut host);
    done(&mut lane, 1, "t/a", &mut host);
    let (a, b) = (slot(&lane, "t/a"), slot(&lane, "t/b"));
    tell(&mut lane, ms(1), "t/a", 3, &mut host);
    lane.finished(ms(2), a, Next::Failed, &mut host);
    assert_eq!(host, ["start t/a", "run 1", "start t/b"], "it panicked: the other goes on while it rests");
    lane.started(ms(3), b, false, &mut host);
    assert_eq!(counts(&lane), (0, 0, 2), "both rest");
    lane.expire(ms(50), &mut host);
    assert_eq!((host.last().map(String::as_str), counts(&lane)), (Some("start t/a"), (1, 1, 2)));
    done(&mut lane, 51, "t/a", &mut host);
    lane.finished(ms(52), a, Next::Stop, &mut host);
    assert_eq!(host[4..], ["run 3", "stop Asked", "start t/b"], "a last hook needs no seat");
    lane.stopped(ms(53), a, &mut host);
    assert_eq!(counts(&lane), (1, 0, 1));
    // By force: the seat is free when nothing runs any more, not before.
    lane.order(ms(60), Order::Halt, &mut host);
    assert_eq!((host.last().map(String::as_str), counts(&lane).0), (Some("cancel"), 1));
    lane.stopped(ms(61), b, &mut host);
    assert_eq!(counts(&lane), (0, 0, 0));
    assert!(host.contains(&"halted".to_string()) && host.contains(&"lookup s0".to_string()), "{host:?}");
}

#[test]
fn what_waits_when_a_shard_drains_goes_to_the_next_owner_in_order() {
    let (mut lane, mut host) = lane_of(1, 1, 9, 9, 1);
    for (message, id) in [(1, "t/a"), (2, "t/b"), (3, "t/b"), (4, "t/a")] {
        tell(&mut lane, ms(1), id, message, &mut host);
    }
    arrive(&mut lane, ms(1), "t/c", 1, &mut host);
    done(&mut lane, 1, "t/a", &mut host);
    host.clear();
    lane.order(ms(3), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(900), leaving: true }, &mut host);
    assert_eq!(host, ["withdraw 1"], "its sender keeps the message of t/c");
    done(&mut lane, 4, "t/a", &mut host);
    let a = slot(&lane, "t/a");
    lane.stopped(ms(5), a, &mut host);
    let closed = "closed 0 [] to n2";
    assert_eq!(host[1..], ["stop NodeLeaving", closed, "lookup s0", "dropped s0"]);
    assert_eq!(counts(&lane), (0, 0, 0));
    let home = Home { node: PEER, token: Token { number: 2, ..TOKEN }, closed: true };
    host.clear();
    lane.order(ms(6), Order::Home { shard: SHARD, home: Some(home) }, &mut host);
    host.sort_unstable();
    assert_eq!(host, ["send 2 to n2", "send 3 to n2", "send 4 to n2"]);
}

#[test]
fn mail_for_an_entity_that_falls_asleep_wakes_it_in_its_turn() {
    let (mut lane, mut host) = lane_of(1, 1, 9, 9, 1);
    tell(&mut lane, ms(1), "t/a", 1, &mut host);
    done(&mut lane, 1, "t/a", &mut host);
    done(&mut lane, 1, "t/a", &mut host);
    lane.expire(ms(502), &mut host);
    tell(&mut lane, ms(503), "t/a", 2, &mut host);
    tell(&mut lane, ms(503), "t/b", 3, &mut host);
    assert_eq!(host[2..], ["stop Idle", "start t/b"]);
    let a = slot(&lane, "t/a");
    lane.stopped(ms(504), a, &mut host);
    assert_eq!(counts(&lane), (1, 1, 2), "its next life waits for a seat, and is not turned away");
    done(&mut lane, 505, "t/b", &mut host);
    done(&mut lane, 506, "t/b", &mut host);
    done(&mut lane, 507, "t/a", &mut host);
    assert_eq!(host[4..], ["run 3", "start t/a", "run 2"]);
}

#[test]
fn whoever_has_a_seat_outside_the_session_begins_when_it_is_renewed() {
    let (mut lane, mut host) = lane_of(1, 1, 9, 9, 1);
    tell(&mut lane, ms(1_000), "t/a", 1, &mut host);
    assert_eq!((host.len(), counts(&lane)), (0, (1, 0, 1)));
    lane.order(ms(1_001), Order::Live { until: ms(2_000) }, &mut host);
    done(&mut lane, 1_002, "t/a", &mut host);
    assert_eq!(host, ["start t/a", "run 1"]);
}

#[test]
fn a_timer_of_an_entity_waits_for_a_seat_like_any_message() {
    let (mut lane, mut host) = lane_of(1, 1, 9, 9, 1);
    tell(&mut lane, ms(1), "t/a", 1, &mut host);
    done(&mut lane, 1, "t/a", &mut host);
    done(&mut lane, 1, "t/a", &mut host);
    let a = slot(&lane, "t/a");
    assert!(lane.schedule(ms(2), a, Duration::from_millis(5), 7));
    tell(&mut lane, ms(3), "t/b", 2, &mut host);
    lane.expire(ms(8), &mut host);
    assert_eq!((host.last().map(String::as_str), counts(&lane)), (Some("start t/b"), (1, 1, 2)));
    done(&mut lane, 9, "t/b", &mut host);
    done(&mut lane, 9, "t/b", &mut host);
    assert_eq!(host.last().map(String::as_str), Some("run 7"));
}
