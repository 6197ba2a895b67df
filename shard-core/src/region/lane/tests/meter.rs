//! What a lane says of its shards' loads.

use super::*;
use crate::region::lane::LoadBy;

const LONG: Instant = Instant::from_millis(1_000_000);

fn measured(by: LoadBy) -> (Lane<u32>, Host) {
    let (lane, _) = lane();
    let mut config = lane.config().clone();
    (config.loads, config.passivation) = (Some(by), Passivation::never());
    let (mut lane, mut host) = (Lane::new(config), Host::new());
    lane.order(ms(0), Order::Live { until: LONG }, &mut host);
    lane.order(ms(0), Order::Own { shard: SHARD, token: TOKEN }, &mut host);
    (lane, host)
}

/// Has the entity handle so many messages, half of them through the fast door.
fn handle(lane: &mut Lane<u32>, now: Instant, messages: u32, host: &mut Host) {
    let slot = slot(lane, "a");
    for message in 0..messages {
        if message % 2 == 0 {
            assert_eq!(lane.locate(now, SHARD, crate::hash::entity("a"), "a"), Some(slot));
        } else {
            tell(lane, now, "a", message, host);
            lane.finished(now, slot, Next::Stay, host);
        }
    }
    host.clear();
}

fn report(lane: &mut Lane<u32>, host: &mut Host) -> (u64, Vec<String>) {
    let at = lane.deadline().expect("a report is due");
    host.clear();
    lane.expire(at, host);
    (at.since(ms(0)).as_millis() as u64, host.to_vec())
}

#[test]
fn messages_of_a_minute_are_counted_at_both_doors_and_what_ceases_is_forgotten_by_halves() {
    let (mut lane, mut host) = measured(LoadBy::Messages);
    awake(&mut lane, "a", &mut host); // with one message
    handle(&mut lane, ms(100), 99, &mut host);
    assert_eq!(report(&mut lane, &mut host), (5_000, std::vec!["loads [(0, 1200)]".to_string()]));
    for (at, load) in [(10_000, 600), (15_000, 300), (20_000, 150), (25_000, 75), (30_000, 37)] {
        assert_eq!(report(&mut lane, &mut host), (at, std::vec![std::format!("loads [(0, {load})]")]));
    }
    for _ in 0..8 {
        report(&mut lane, &mut host);
    }
    assert_eq!(report(&mut lane, &mut host).1, ["loads [(0, 0)]"]);
}

#[test]
fn nothing_is_said_where_nothing_is_owned_and_a_new_grant_is_measured_anew() {
    let (mut lane, mut host) = measured(LoadBy::Messages);
    awake(&mut lane, "a", &mut host);
    handle(&mut lane, ms(100), 9, &mut host);
    lane.order(ms(4_000), Order::Drain { shard: SHARD, token: TOKEN, deadline: ms(9_000), leaving: false }, &mut host);
    let a = slot(&lane, "a");
    lane.stopped(ms(4_001), a, &mut host);
    assert_eq!(report(&mut lane, &mut host).1, [""; 0]);
    assert_eq!(lane.deadline(), None);
    // It comes back; a report that falls due at once would be about no time at all.
    let token = Token { counter: 7, ..TOKEN };
    lane.order(ms(20_000), Order::Own { shard: SHARD, token }, &mut host);
    assert_eq!(report(&mut lane, &mut host), (25_000, std::vec!["loads [(0, 0)]".to_string()]));
}

#[test]
fn entities_and_their_weight_are_those_awake() {
    let (mut lane, mut host) = measured(LoadBy::Entities);
    let a = awake(&mut lane, "a", &mut host);
    awake(&mut lane, "b", &mut host);
    assert_eq!(report(&mut lane, &mut host).1, ["loads [(0, 2)]"]);
    lane.finished(ms(5_001), a, Next::Stay, &mut host);
    lane.passivate(ms(5_001), crate::hash::entity("a"), "a", &mut host);
    lane.stopped(ms(5_002), a, &mut host);
    assert_eq!(report(&mut lane, &mut host).1, ["loads [(0, 1)]"]);

    let (mut lane, mut host) = measured(LoadBy::Weight);
    let a = awake(&mut lane, "a", &mut host);
    awake(&mut lane, "b", &mut host);
    lane.weighed(ms(2), a, NonZeroU32::new(70).expect("not zero"), &mut host);
    assert_eq!(report(&mut lane, &mut host).1, ["loads [(0, 71)]"]);
    lane.weighed(ms(5_001), a, NonZeroU32::new(3).expect("not zero"), &mut host);
    assert_eq!(report(&mut lane, &mut host).1, ["loads [(0, 4)]"]);
    lane.passivate(ms(10_001), crate::hash::entity("a"), "a", &mut host);
    lane.stopped(ms(10_002), a, &mut host);
    assert_eq!(report(&mut lane, &mut host).1, ["loads [(0, 1)]"]);
}
