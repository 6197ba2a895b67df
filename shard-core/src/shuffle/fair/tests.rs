//! Fairness, bounds, and the hazards of the original, each with the issue that told of it.

use alloc::{collections::BTreeMap, vec::Vec};

use super::*;
use crate::prng::Prng;
use crate::shuffle::dealer::DealerError;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A set, what runs in it, and what was said so far.
struct World {
    set: FairQueues,
    now: Instant,
    next_id: u64,
    running: BTreeMap<u64, Permit>,
    /// In the order in which they were let through.
    started: Vec<u64>,
    rejected: Vec<u64>,
}

impl World {
    fn new(queues: u32, hand: u32, length: u32, seats: u32) -> Self {
        Self::of(FairConfig::new(queues, hand, length, seats).expect("legal"))
    }

    fn of(config: FairConfig) -> Self {
        let set = FairQueues::new(config);
        let (running, started, rejected) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { set, now: ms(0), next_id: 0, running, started, rejected }
    }

    fn input(&mut self, input: FairInput) {
        let Self { set, now, running, started, rejected, .. } = self;
        set.handle(*now, input, &mut |output| match output {
            FairOutput::Execute(permit) => {
                started.push(permit.id());
                running.insert(permit.id(), permit);
            }
            FairOutput::Reject(id) => rejected.push(id),
        });
    }

    fn arrive(&mut self, request: FairRequest) -> u64 {
        self.next_id += 1;
        self.input(FairInput::Arrived(FairRequest { id: self.next_id, ..request }));
        self.next_id
    }

    fn flow(&mut self, flow: u64) -> u64 {
        self.arrive(FairRequest::new(0, flow))
    }

    fn finish(&mut self, id: u64) {
        let permit = self.running.remove(&id).expect("it runs");
        self.input(FairInput::Finished(permit));
    }

    /// Lets time pass, and whatever is due happen.
    fn pass(&mut self, to: Instant) {
        self.now = to;
        let Self { set, running, started, .. } = self;
        set.expire(to, &mut |output| {
            if let FairOutput::Execute(permit) = output {
                started.push(permit.id());
                running.insert(permit.id(), permit);
            }
        });
    }

    fn is_empty(&self) -> bool {
        self.set.waiting() == 0 && self.set.executing() == 0 && self.set.seats_in_use() == 0
    }
}

/// Seat-milliseconds that each flow was given while all of them had more to do: flows as (queue, seats, milliseconds each).
fn shares(seats: u32, flows: &[(u64, u32, u64)], millis: u64) -> Vec<u64> {
    let mut world = World::new(16, 1, 10_000, seats);
    let mut owner = BTreeMap::new();
    for _ in 0..4_000 {
        for (at, (flow, seats, _)) in flows.iter().enumerate() {
            let id = world.arrive(FairRequest { seats: *seats, ..FairRequest::new(0, *flow) });
            owner.insert(id, at);
        }
    }
    let mut shares = alloc::vec![0; flows.len()];
    let mut ends: BTreeMap<(u64, u64), ()> = BTreeMap::new();
    let mut seen = 0;
    for at in 0..millis {
        world.now = ms(at);
        loop {
            for id in &world.started[seen..] {
                let (_, seats, each) = flows[owner[id]];
                shares[owner[id]] += u64::from(seats) * each;
                ends.insert((at + each, *id), ());
            }
            seen = world.started.len();
            let Some(((due, id), ())) = ends.first_key_value().map(|(key, value)| (*key, *value)) else { break };
            if due > at {
                break;
            }
            ends.remove(&(due, id));
            world.finish(id);
        }
    }
    shares
}

#[test]
fn flows_that_want_more_get_the_same_work_whatever_their_requests_are_like() {
    for flows in [
        // Alike; long and short; wide and narrow.
        [(1, 1, 10), (2, 1, 10), (3, 1, 10)],
        [(1, 1, 100), (2, 1, 1), (3, 1, 10)],
        [(1, 4, 10), (2, 1, 10), (3, 2, 10)],
    ] {
        let shares = shares(4, &flows, 3_000);
        let (least, most) = (shares.iter().min().expect("three"), shares.iter().max().expect("three"));
        assert!(*most as f64 <= *least as f64 * 1.2, "{flows:?}: {shares:?}");
        assert!(shares.iter().sum::<u64>() > 4 * 3_000 * 8 / 10, "seats don't stand empty: {shares:?}");
    }
}

#[test]
fn a_mouse_is_served_next_however_long_the_elephants_queues_are() {
    let mut world = World::new(64, 6, 50, 1);
    let elephant: Vec<u64> = (0..400).map(|_| world.flow(7)).collect();
    // Its hand is full, one runs, the rest is turned away.
    assert_eq!((world.set.waiting(), world.rejected.len()), (300, 99));
    let mouse = world.flow(64);
    world.now = ms(3);
    world.finish(elephant[0]);
    // At most one of each of the elephant's queues, all of which came before, is let through first.
    for _ in 0..6 {
        if world.started.last() == Some(&mouse) {
            return;
        }
        world.now = world.now + Duration::from_millis(3);
        let running = *world.started.last().expect("one runs");
        world.finish(running);
    }
    assert_eq!(world.started.last(), Some(&mouse));
}

#[test]
fn flows_whose_hands_overlap_are_served_evenly() {
    // kubernetes #105160: a scan that always began with the first card gave overlapping hands uneven shares. Hands of two
    // from three queues: both flows have queue 0 first.
    let dealer = Dealer::new(3, 2).expect("legal");
    let hash = |hand: [u32; 2]| (0..6).find(|hash| *dealer.deal(*hash) == hand).expect("one of six");
    let (a, b) = (hash([0, 1]), hash([0, 2]));
    let mut world = World::new(3, 2, 1_000, 1);
    let mut owner = BTreeMap::new();
    for _ in 0..600 {
        for flow in [a, b] {
            owner.insert(world.flow(flow), flow);
        }
    }
    for _ in 0..600 {
        world.now = world.now + Duration::from_millis(3);
        let running = *world.started.last().expect("one runs");
        world.finish(running);
    }
    let of_a = world.started.iter().filter(|id| owner[id] == a).count();
    assert!(of_a.abs_diff(300) < 30, "{of_a} of 600");
}

#[test]
fn a_queue_that_shrinks_away_keeps_its_seats_and_moves_nobody() {
    // kubernetes #140884: a queue with a lingering request was taken for empty, and the queues behind it moved up.
    let mut world = World::new(8, 1, 10, 2);
    let lingering = FairRequest { final_seats: 1, extra: Duration::from_secs(1), ..FairRequest::new(0, 6) };
    let id = world.arrive(lingering);
    world.finish(id);
    assert_eq!(world.set.queues().nth(6).map(|queue| (queue.executing, queue.seats)), Some((0, 1)));
    let other = world.flow(4);
    world.input(FairInput::Configured(FairConfig::new(4, 1, 10, 2).expect("legal")));
    assert_eq!(world.set.queues().len(), 7, "the last one goes, number 6 holds a seat, number 4 a request");
    world.finish(other);
    assert_eq!(world.set.queues().len(), 7, "number 5 is idle but not the last");
    assert_eq!(world.set.deadline(), Some(ms(1_000)));
    world.pass(ms(999));
    assert_eq!(world.set.seats_in_use(), 1);
    world.pass(ms(1_000));
    assert_eq!((world.set.queues().len(), world.is_empty()), (4, true));
    // Requests that wait in surplus queues are served there.
    let mut world = World::new(8, 1, 10, 1);
    let ids: Vec<u64> = (0..8).map(|flow| world.flow(flow)).collect();
    world.input(FairInput::Configured(FairConfig::without_queues(1).expect("legal")));
    ids.iter().for_each(|id| world.finish(*id));
    assert_eq!((world.started.len(), world.is_empty(), world.set.queues().len()), (8, true, 0));
}

#[test]
fn idle_time_is_no_credit() {
    // kubernetes #95979, #91567, #91761: a queue that had been idle, or short of requests, piled up credit and then starved the others.
    let mut world = World::new(4, 1, 1_000, 1);
    // Flow 1 alone for a second of work.
    for step in 0..333 {
        world.now = ms(step * 3);
        let id = world.flow(1);
        world.now = ms(step * 3 + 3);
        world.finish(id);
    }
    // Both want everything now: flow 2, idle so far, may not catch up on what it missed.
    let mut owner = BTreeMap::new();
    for _ in 0..100 {
        for flow in [1, 2] {
            owner.insert(world.flow(flow), flow);
        }
    }
    let before = world.started.len();
    for _ in 0..60 {
        world.now = world.now + Duration::from_millis(3);
        let running = *world.started.last().expect("one runs");
        world.finish(running);
    }
    let of_one = world.started[before..].iter().filter(|id| owner[id] == 1).count();
    assert!(of_one.abs_diff(30) <= 2, "{of_one} of 60");
}

#[test]
fn a_request_wider_than_all_seats_runs_alone_and_is_not_passed_by_for_ever() {
    let mut world = World::new(4, 1, 1_000, 3);
    for _ in 0..3 {
        world.flow(3);
    }
    let wide = world.arrive(FairRequest { seats: 9, ..FairRequest::new(0, 2) });
    for _ in 0..100 {
        world.flow(3);
    }
    for _ in 0..103 {
        world.now = world.now + Duration::from_millis(3);
        let oldest = *world.running.keys().find(|id| **id != wide).unwrap_or(&wide);
        world.finish(oldest);
        if world.running.contains_key(&wide) {
            assert_eq!(world.running.len(), 1, "nothing beside it");
            // It is charged for nine seats, so about nine narrow ones go first.
            assert!(world.started.len() <= 3 + 9 + 1, "{:?}", world.started);
            return;
        }
    }
    panic!("the wide one starves: {:?}", world.started);
}

#[test]
fn wide_final_work_is_counted_with_and_without_queues() {
    // kubernetes #107964: without queues, seats were not resized when the final work was the wider part.
    let with = FairConfig::new(4, 1, 10, 4).expect("legal");
    let without = FairConfig::without_queues(4).expect("legal");
    for config in [with, without] {
        let mut world = World::of(config);
        let wide_end = FairRequest { final_seats: 3, extra: Duration::from_millis(100), ..FairRequest::new(0, 1) };
        let id = world.arrive(wide_end);
        assert_eq!(world.set.seats_in_use(), 3, "what it will take is kept for it");
        world.finish(id);
        assert_eq!(world.set.seats_in_use(), 3);
        let beside = world.arrive(FairRequest { seats: 2, ..FairRequest::new(0, 2) });
        assert!(!world.running.contains_key(&beside));
        world.pass(ms(100));
        assert_eq!(world.set.seats_in_use(), if world.running.contains_key(&beside) { 2 } else { 0 });
    }
}

#[test]
fn without_queues_there_is_a_seat_or_there_is_none() {
    let mut world = World::of(FairConfig::without_queues(2).expect("legal"));
    let ids: Vec<u64> = (0..3).map(|_| world.flow(1)).collect();
    assert_eq!((&world.started[..], &world.rejected[..]), (&ids[..2], &ids[2..]));
    world.finish(ids[0]);
    let again = world.flow(1);
    assert!(world.running.contains_key(&again));
}

#[test]
fn who_withdraws_leaves_no_trace() {
    let mut world = World::new(4, 2, 10, 1);
    let running = world.flow(1);
    let waiting = world.flow(1);
    world.input(FairInput::Withdrawn(waiting));
    world.input(FairInput::Withdrawn(running));
    world.input(FairInput::Withdrawn(99));
    assert_eq!((world.set.waiting(), world.set.executing()), (0, 1), "who runs is not withdrawn");
    assert!(world.set.queues().all(|queue| queue.waiting == Waiting::default()));
    world.finish(running);
    assert!(world.is_empty());
}

#[test]
fn a_configuration_is_checked_before_any_of_it_is_applied() {
    // kubernetes #87314.
    assert_eq!(FairConfig::new(512, 8, 1, 1), Err(FairConfigError::Dealer(DealerError::TooMuchEntropy { bits: 72 })));
    assert_eq!(FairConfig::new(4, 1, 0, 1), Err(FairConfigError::NoLength));
    assert_eq!(FairConfig::new(4, 1, 1, 0), Err(FairConfigError::NoSeats));
    assert_eq!(FairConfig::without_queues(0), Err(FairConfigError::NoSeats));
}

#[test]
fn whatever_happens_nothing_is_lost_and_every_bound_holds() {
    // Includes handlers that fail (kubernetes #111852): a permit comes back on every way out.
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let (queues, seats, length) = (prng.between(2, 9) as u32, prng.between(1, 5) as u32, prng.between(1, 4) as u32);
        let mut world = World::new(queues, 2, length, seats);
        let mut limits = (queues, length);
        let mut withdrawn = Vec::new();
        for _ in 0..600 {
            world.pass(world.now + Duration::from_micros(prng.below(4_000)));
            match prng.below(10) {
                0..5 => {
                    let extra = Duration::from_millis(prng.below(2) * prng.below(20));
                    let (seats, final_seats) = (prng.below(7) as u32, prng.below(4) as u32);
                    world.arrive(FairRequest { seats, final_seats, extra, ..FairRequest::new(0, prng.next_u64()) });
                }
                5..8 => {
                    let ids: Vec<u64> = world.running.keys().copied().collect();
                    if let Some(id) = prng.pick(&ids) {
                        world.finish(*id);
                    }
                }
                8 => {
                    let id = 1 + prng.below(world.next_id.max(1));
                    if world.set.waiting.contains_key(&id) {
                        withdrawn.push(id);
                    }
                    world.input(FairInput::Withdrawn(id));
                }
                _ => {
                    let queues = prng.between(2, 9) as u32;
                    limits = (limits.0.max(queues), length);
                    world.input(FairInput::Configured(FairConfig::new(queues, 2, length, seats).expect("legal")));
                }
            }
            let view: Vec<_> = world.set.queues().collect();
            assert!(view.len() <= limits.0 as usize);
            assert!(view.iter().all(|queue| queue.waiting.requests <= length), "{view:?}");
            assert_eq!(view.iter().map(|queue| queue.seats).sum::<u32>(), world.set.seats_in_use());
            assert!(world.set.seats_in_use() <= seats.max(6));
            if world.set.seats_in_use() > seats {
                assert!(world.set.executing() + world.set.lingering.len() == 1, "too wide runs alone");
            }
        }
        while !world.is_empty() {
            if let Some(id) = world.running.keys().next().copied() {
                world.finish(id);
            }
            world.pass(world.now + Duration::from_millis(30));
        }
        assert_eq!(world.set.deadline(), None, "seed {seed}: nothing lingers");
        let told = world.started.len() + world.rejected.len() + withdrawn.len();
        assert_eq!(told as u64, world.next_id, "seed {seed}: every request has one fate");
    }
}

/// kubernetes #115409: requests that never end take no more than their flow's share, though nobody else asks for seats.
#[test]
fn a_flow_whose_requests_never_end_holds_its_own_seats_only() {
    let config = FairConfig::new(16, 4, 50, 64).and_then(|fair| fair.seats_per_flow(8)).expect("legal");
    let mut world = World::of(config);
    (0..100).for_each(|_| _ = world.flow(7));
    assert_eq!((world.running.len(), world.set.waiting()), (8, 92), "56 seats are free");
    // Everybody else runs at once, also whoever shares all queues with it: what waits there is not in the way.
    for flow in (8..1_000).map(|flow| flow * 0x9e37_79b9_7f4a) {
        let id = world.flow(flow);
        world.finish(id);
    }
    assert_eq!(FairConfig::new(1, 1, 1, 1).and_then(|fair| fair.seats_per_flow(0)), Err(FairConfigError::NoSeats));
}

/// Few requests that never end among those of others, in whichever queue: nothing waits behind them for ever.
#[test]
fn what_waits_behind_requests_that_never_end_passes_them_by() {
    let config = FairConfig::new(8, 2, 50, 100).and_then(|fair| fair.seats_per_flow(2)).expect("legal");
    for elephant in 0..40_u64 {
        for mouse in (0..40_u64).filter(|mouse| *mouse != elephant) {
            let mut world = World::of(config);
            let own: Vec<u64> = (0..2).map(|_| world.flow(mouse)).collect();
            let stuck: Vec<u64> = (0..5).map(|_| world.flow(elephant)).collect();
            let mut left: Vec<u64> = own.into_iter().chain((0..6).map(|_| world.flow(mouse))).collect();
            while let Some(at) = left.iter().position(|id| world.running.contains_key(id)) {
                world.finish(left.remove(at));
            }
            assert_eq!(left, [0; 0], "{mouse} waits for {elephant}");
            assert_eq!(stuck.iter().filter(|id| world.running.contains_key(id)).count(), 2);
        }
    }
}

#[test]
fn one_wider_than_its_flows_share_runs_alone_of_its_flow() {
    let config = FairConfig::new(1, 1, 9, 8).and_then(|fair| fair.seats_per_flow(2)).expect("legal");
    let mut world = World::of(config);
    let wide = world.arrive(FairRequest { seats: 4, ..FairRequest::new(0, 1) });
    let (narrow, other) = (world.flow(1), world.flow(2));
    assert_eq!(world.started, [wide, other]);
    world.finish(wide);
    assert_eq!(world.started, [wide, other, narrow]);
}

#[test]
fn who_goes_on_is_not_turned_away_by_a_full_queue() {
    let mut world = World::new(1, 1, 1, 1);
    let (first, second) = (world.flow(1), world.flow(1));
    let turned_away = world.flow(1);
    assert_eq!(world.rejected, [turned_away]);
    world.finish(first);
    let third = world.flow(1);
    // The first wants more: it goes behind those that waited.
    let again = world.arrive(FairRequest { again: true, ..FairRequest::new(0, 1) });
    assert_eq!((world.started.len(), world.set.waiting()), (2, 2));
    [second, third, again].into_iter().for_each(|id| world.finish(id));
    assert_eq!(world.rejected, [turned_away]);
}

#[test]
fn an_early_expiry_changes_nothing() {
    let mut world = World::new(4, 1, 10, 1);
    for flow in 0..4 {
        world.flow(flow);
    }
    let before = alloc::format!("{:?}", world.set);
    world.pass(ms(500));
    assert_eq!(alloc::format!("{:?}", world.set), before);
}
