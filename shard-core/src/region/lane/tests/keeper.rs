//! A limit of awake entities, in a lane.

use super::*;
use crate::passivation::PolicyChoice;

const LONG: Instant = Instant::from_millis(1_000_000);

fn limited(most: u64) -> (Lane<u32>, Host) {
    let (mut lane, mut host) = sleepy(Passivation::at_most(most).choosing(PolicyChoice::Lru));
    lane.order(ms(0), Order::Live { until: LONG }, &mut host);
    (lane, host)
}

fn counts(lane: &Lane<u32>) -> (u32, u32, u32) {
    let census = lane.census().expect("it has a limit");
    (census.awake.count, census.pinned.count, census.stopping.count)
}

#[test]
fn one_too_many_puts_to_sleep_whom_the_policy_picks_and_counts_it_until_it_is_gone() {
    let (mut lane, mut host) = limited(2);
    let (a, _) = (awake(&mut lane, "a", &mut host), awake(&mut lane, "b", &mut host));
    tell(&mut lane, ms(2), "a", 1, &mut host);
    lane.finished(ms(2), a, Next::Stay, &mut host);
    host.clear();
    tell(&mut lane, ms(3), "c", 1, &mut host);
    assert_eq!(host, ["start c", "stop Evicted"]);
    assert_eq!(counts(&lane), (2, 0, 1));
    let b = slot(&lane, "b");
    lane.stopped(ms(4), b, &mut host);
    assert_eq!(counts(&lane), (2, 0, 0));
}

#[test]
fn one_that_is_picked_while_busy_handles_the_mail_it_has_and_what_comes_later_wakes_its_next_life() {
    let (mut lane, mut host) = limited(1);
    let a = awake(&mut lane, "a", &mut host);
    for message in 1..=3 {
        tell(&mut lane, ms(2), "a", message, &mut host);
    }
    tell(&mut lane, ms(3), "b", 9, &mut host);
    assert_eq!(host, ["run 1", "start b"]);
    tell(&mut lane, ms(4), "a", 4, &mut host);
    for _ in 1..=3 {
        lane.finished(ms(5), a, Next::Stay, &mut host);
    }
    assert_eq!(host, ["run 1", "start b", "run 2", "run 3", "stop Evicted"], "not for ever while mail comes");
    lane.stopped(ms(6), a, &mut host);
    let a = slot(&lane, "a");
    lane.started(ms(7), a, true, &mut host);
    assert_eq!(host[5..], ["start a", "run 4"]);
}

#[test]
fn whoever_asks_to_sleep_takes_the_mail_it_has_and_no_more() {
    let (mut lane, mut host) = lane();
    let a = awake(&mut lane, "a", &mut host);
    for message in 1..=2 {
        tell(&mut lane, ms(2), "a", message, &mut host);
    }
    lane.finished(ms(3), a, Next::Passivate, &mut host);
    tell(&mut lane, ms(4), "a", 3, &mut host);
    lane.finished(ms(5), a, Next::Stay, &mut host);
    assert_eq!(host, ["run 1", "run 2", "stop Asked"]);
    lane.stopped(ms(6), a, &mut host);
    assert_eq!(host[3..], ["start a"]);
}

#[test]
fn a_newcomer_that_is_picked_at_once_still_handles_what_woke_it() {
    for policy in [PolicyChoice::TinyLfu, PolicyChoice::ClimbingTinyLfu] {
        let (mut lane, mut host) = sleepy(Passivation::at_most(2).choosing(policy));
        for id in ["a", "b"] {
            let slot = awake(&mut lane, id, &mut host);
            for _ in 0..5 {
                lane.locate(ms(2), SHARD, crate::hash::entity(id), id).expect("idle");
                lane.finished(ms(2), slot, Next::Stay, &mut host);
            }
        }
        host.clear();
        for message in 1..=3 {
            tell(&mut lane, ms(3), "c", message, &mut host);
        }
        let c = slot(&lane, "c");
        lane.started(ms(4), c, true, &mut host);
        for _ in 1..=3 {
            lane.finished(ms(5), c, Next::Stay, &mut host);
        }
        assert_eq!(host.iter().filter(|line| line.starts_with("run")).count(), 3, "{policy:?}: {host:?}");
    }
}

#[test]
fn the_pinned_stay_whatever_comes_and_count() {
    let (mut lane, mut host) = sleepy(Passivation::at_most(2).and_after(Duration::from_millis(100)));
    lane.order(ms(0), Order::Live { until: LONG }, &mut host);
    let a = awake(&mut lane, "a", &mut host);
    lane.pin(ms(1), a, true, &mut host);
    for (at, id) in ["b", "c", "d"].into_iter().enumerate() {
        let slot = awake(&mut lane, id, &mut host);
        lane.expire(ms(2 + at as u64), &mut host);
        assert_eq!(lane.id(slot).map(EntityId::as_str), Some(id));
    }
    assert_eq!(counts(&lane).1, 1);
    assert!(lane.locate(ms(10), SHARD, crate::hash::entity("a"), "a").is_some(), "its mail comes by the fast door");
    lane.finished(ms(10), a, Next::Stay, &mut host);
    lane.expire(ms(900), &mut host);
    assert!(lane.id(a).is_some(), "a is not idle, it is pinned");
    lane.pin(ms(901), a, false, &mut host);
    host.clear();
    lane.expire(ms(1_001), &mut host);
    assert!(host.contains(&"stop Idle".to_string()), "{host:?}");
}

#[test]
fn what_entities_weigh_counts() {
    let (mut lane, mut host) = sleepy(Passivation::weighing(100, 10).choosing(PolicyChoice::Lru));
    let (a, b) = (awake(&mut lane, "a", &mut host), awake(&mut lane, "b", &mut host));
    lane.weighed(ms(2), a, NonZeroU32::new(80).unwrap(), &mut host);
    assert_eq!((host.len(), lane.census().unwrap().held()), (0, 90));
    lane.weighed(ms(3), b, NonZeroU32::new(30).unwrap(), &mut host);
    assert_eq!(host, ["stop Evicted"]);
    assert_eq!(lane.census().unwrap().held(), 30, "a is the one that goes: it was used first");
}

/// A type that says what it weighs, for a node whose limit is by number.
#[test]
fn under_a_limit_by_number_each_counts_one_whatever_it_says() {
    let (mut lane, mut host) = limited(2);
    let a = awake(&mut lane, "a", &mut host);
    lane.weighed(ms(2), a, NonZeroU32::new(4_096).unwrap(), &mut host);
    awake(&mut lane, "b", &mut host);
    assert_eq!((counts(&lane), host.len()), ((2, 0, 0), 0));
}

#[test]
fn a_flood_of_newcomers_waits_for_last_hooks_that_take_long() {
    let (mut lane, mut host) = limited(2);
    for at in 0..66 {
        let id = std::format!("e{at}");
        awake(&mut lane, &id, &mut host);
    }
    assert_eq!(counts(&lane), (2, 0, 64));
    tell(&mut lane, ms(3), "late", 7, &mut host);
    assert_eq!(host, [std::format!("7 {}", Fate::NotRun(Reason::Full(crate::entity::Bound::Stopping)))]);
    let first = slot(&lane, "e0");
    lane.stopped(ms(4), first, &mut host);
    host.clear();
    tell(&mut lane, ms(5), "late", 8, &mut host);
    assert_eq!(host, ["start late", "stop Evicted"]);
}

#[test]
fn a_life_after_a_failure_is_neither_pinned_nor_picked_and_weighs_what_a_new_one_does() {
    let (mut lane, mut host) = sleepy(Passivation::weighing(100, 10).choosing(PolicyChoice::Lru));
    let a = awake(&mut lane, "a", &mut host);
    lane.weighed(ms(2), a, NonZeroU32::new(60).unwrap(), &mut host);
    lane.pin(ms(2), a, true, &mut host);
    tell(&mut lane, ms(3), "a", 1, &mut host);
    tell(&mut lane, ms(3), "a", 2, &mut host);
    lane.finished(ms(4), a, Next::Failed, &mut host);
    assert_eq!(counts(&lane), (0, 1, 0), "it rests and counts");
    lane.expire(ms(20), &mut host);
    assert_eq!((counts(&lane), lane.census().unwrap().held()), ((1, 0, 0), 10));
}

#[test]
fn a_lane_looks_at_its_share_each_second_while_anybody_is_awake() {
    let (mut lane, mut host) = limited(2);
    assert_eq!(lane.deadline(), None);
    let a = awake(&mut lane, "a", &mut host);
    assert_eq!(lane.deadline(), Some(ms(1_001)));
    lane.expire(ms(1_001), &mut host);
    assert_eq!(lane.deadline(), Some(ms(2_001)));
    lane.finished(ms(1_002), a, Next::Stop, &mut host);
    lane.stopped(ms(1_003), a, &mut host);
    lane.expire(ms(2_001), &mut host);
    assert_eq!(lane.deadline(), None);
}

#[test]
fn one_that_stops_for_idleness_or_because_it_asks_is_stopping_and_leaves_its_room() {
    let (mut lane, mut host) = sleepy(Passivation::at_most(2).and_after(Duration::from_millis(100)));
    lane.order(ms(0), Order::Live { until: LONG }, &mut host);
    awake(&mut lane, "a", &mut host);
    lane.expire(ms(150), &mut host);
    assert_eq!((host.last().map(String::as_str), counts(&lane)), (Some("stop Idle"), (0, 0, 1)));
    let b = awake(&mut lane, "b", &mut host);
    tell(&mut lane, ms(151), "b", 1, &mut host);
    lane.finished(ms(152), b, Next::Passivate, &mut host);
    assert_eq!(counts(&lane), (0, 0, 2));
    awake(&mut lane, "c", &mut host);
    awake(&mut lane, "d", &mut host);
    assert_eq!(counts(&lane), (2, 0, 2), "those who stop take no room of others");
}

#[test]
fn one_that_is_heavier_than_all_that_is_allowed_goes_itself_and_nobody_for_its_sake() {
    let (mut lane, mut host) = sleepy(Passivation::weighing(100, 10));
    let (a, _) = (awake(&mut lane, "a", &mut host), awake(&mut lane, "b", &mut host));
    lane.weighed(ms(2), a, NonZeroU32::new(4_000).unwrap(), &mut host);
    assert_eq!((host.as_slice(), lane.census().unwrap().held()), (&["stop Evicted".to_string()][..], 10));
    assert!(lane.id(slot(&lane, "b")).is_some());
}

#[test]
fn what_one_has_grown_by_others_make_up_for_in_steps() {
    let (mut lane, mut host) = sleepy(Passivation::weighing(10_000, 10).choosing(PolicyChoice::Lru));
    lane.order(ms(0), Order::Live { until: LONG }, &mut host);
    let giant = awake(&mut lane, "giant", &mut host);
    for at in 0..990 {
        awake(&mut lane, &std::format!("e{at}"), &mut host);
    }
    lane.locate(ms(2), SHARD, crate::hash::entity("giant"), "giant").expect("idle");
    lane.finished(ms(2), giant, Next::Stay, &mut host);
    host.clear();
    lane.weighed(ms(3), giant, NonZeroU32::new(6_000).unwrap(), &mut host);
    let mut steps = Vec::new();
    let mut now = 3;
    while lane.census().unwrap().held() > 10_000 {
        let gone = host.iter().filter(|line| *line == "stop Evicted").count();
        steps.push(gone);
        host.clear();
        now += 100;
        lane.expire(ms(now), &mut host);
    }
    assert!(steps.len() > 4 && steps.iter().all(|gone| *gone <= 100), "{steps:?}");
    assert!(lane.census().unwrap().held() > 9_000 && lane.id(giant).is_some());
}
