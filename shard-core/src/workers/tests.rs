//! Scripts that can be read, the cases of Orleans, and the pool against a naive twin.

use std::collections::BTreeMap;
use std::vec::Vec;

use core::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::entity::{Bound, Reason, StopReason};

fn config(at_most: u32, waiting_max: usize) -> PoolConfig {
    PoolConfig { waiting_max, ..PoolConfig::at_most(at_most) }
}

fn number(n: u64) -> WorkerNumber {
    WorkerNumber(n)
}

/// A pool whose workers all run something.
fn busy(at_most: u32) -> Pool<u32> {
    busy_seeded(at_most, 1)
}

fn busy_seeded(at_most: u32, seed: u64) -> Pool<u32> {
    let mut pool = Pool::new(config(at_most, 100), seed);
    for n in 1..=u64::from(at_most) {
        assert_eq!(pool.offer(n as u32), Ok(Placed::Starts(number(n))));
        assert_eq!(pool.next(number(n)), Next::Run(n as u32));
    }
    pool
}

#[test]
fn a_hundred_calls_one_after_the_other_make_one_worker() {
    let mut pool = Pool::new(PoolConfig::at_most(4), 1);
    for call in 0..100 {
        let placed = if call == 0 { Placed::Starts(number(1)) } else { Placed::Wakes(number(1)) };
        assert_eq!(pool.offer(call), Ok(placed));
        assert_eq!(pool.next(number(1)), Next::Run(call));
        assert_eq!(pool.next(number(1)), Next::Wait);
        assert_eq!(pool.look(), None, "nobody ever waited");
    }
    assert_eq!((pool.made(), pool.census()), (1, Census { workers: 1, idle: 1, waiting: 0 }));
}

#[test]
fn blocking_calls_make_a_worker_each_until_there_are_four_and_four_waiters_drain() {
    let mut pool = busy(4);
    for message in 5..=8 {
        assert_eq!(pool.offer(message), Ok(Placed::Waits(number(u64::from(message) - 4))));
    }
    assert_eq!(pool.census(), Census { workers: 4, idle: 0, waiting: 4 });
    for n in 1..=4 {
        assert_eq!(pool.next(number(n)), Next::Run(n as u32 + 4));
        assert_eq!(pool.next(number(n)), Next::Wait);
    }
    assert_eq!(pool.census(), Census { workers: 4, idle: 4, waiting: 0 });
}

#[test]
fn the_first_idle_one_is_taken_and_else_the_one_with_the_fewest_waiting() {
    let mut pool = busy(3);
    assert_eq!((pool.next(number(3)), pool.next(number(2))), (Next::Wait, Next::Wait));
    assert_eq!(pool.offer(4), Ok(Placed::Wakes(number(2))), "in the order of their making, not of their waiting");
    assert_eq!(pool.offer(5), Ok(Placed::Wakes(number(3))));
    let order: Vec<_> = (6..10).map(|message| pool.offer(message)).collect();
    assert_eq!(order, [1, 2, 3, 1].map(|n| Ok(Placed::Waits(number(n)))));
    assert_eq!(pool.next(number(1)), Next::Run(6));
    assert_eq!(pool.next(number(1)), Next::Run(9));
    assert_eq!(pool.offer(10), Ok(Placed::Waits(number(1))));
}

#[test]
fn a_full_pool_gives_the_message_back() {
    let mut pool = Pool::new(config(1, 2), 1);
    assert!(pool.offer(0).is_ok() && pool.offer(1).is_ok() && pool.offer(2).is_ok());
    assert!(!pool.has_room());
    assert_eq!(pool.offer(3), Err((3, Reason::Full(Bound::Workers))));
    assert_eq!(pool.next(number(1)), Next::Run(0));
    assert_eq!(pool.offer(3), Err((3, Reason::Full(Bound::Workers))), "what is in a hand does not wait");
    assert_eq!(pool.next(number(1)), Next::Run(1));
    assert!(pool.has_room() && pool.offer(3).is_ok());
}

#[test]
fn without_a_queue_a_message_is_taken_only_if_a_worker_is_there_at_once() {
    let mut pool = Pool::new(config(2, 0), 1);
    assert!(pool.offer(0).is_ok() && pool.offer(1).is_ok());
    assert_eq!(pool.offer(2), Err((2, Reason::Full(Bound::Workers))));
    assert_eq!((pool.next(number(1)), pool.next(number(1))), (Next::Run(0), Next::Wait));
    assert_eq!(pool.offer(2), Ok(Placed::Wakes(number(1))));
}

#[test]
fn what_waits_for_a_worker_that_panics_goes_to_others_in_order() {
    let mut pool = busy(3);
    (4..13).for_each(|message| assert!(pool.offer(message).is_ok()));
    assert_eq!(pool.next(number(3)), Next::Run(6));
    let scattered = pool.gone(number(1), Gone::Failed);
    let expected = [Placed::Starts(number(4)), Placed::Waits(number(4)), Placed::Waits(number(4))];
    assert_eq!((scattered.placed.as_slice(), scattered.refused.len()), (&expected[..], 0));
    assert_eq!(pool.census(), Census { workers: 3, idle: 0, waiting: 7 });
    let run: Vec<_> = (0..3).map(|_| pool.next(number(4))).collect();
    assert_eq!(run, [4, 7, 10].map(Next::Run));
}

#[test]
fn who_cannot_be_started_hands_over_and_the_last_one_refuses() {
    let mut pool = Pool::new(PoolConfig::at_most(3), 1);
    assert_eq!(pool.offer(1), Ok(Placed::Starts(number(1))));
    assert_eq!(pool.offer(2), Ok(Placed::Starts(number(2))));
    assert_eq!(pool.gone(number(1), Gone::NeverStarted).placed, [Placed::Waits(number(2))]);
    assert_eq!(pool.offer(3), Ok(Placed::Waits(number(2))), "no other is tried before the next look");
    assert_eq!(pool.look(), None);
    assert_eq!(pool.offer(4), Ok(Placed::Starts(number(3))));
    assert_eq!(pool.gone(number(3), Gone::NeverStarted).placed, [Placed::Waits(number(2))]);
    let scattered = pool.gone(number(2), Gone::NeverStarted);
    assert_eq!((scattered.placed.len(), scattered.refused), (0, [2, 1, 3, 4].to_vec()));
    assert_eq!(pool.census(), Census::default());
    assert_eq!(pool.offer(5), Ok(Placed::Starts(number(4))), "without anybody one is always tried");
}

#[test]
fn who_asks_to_end_hands_over_and_counts_until_it_is_gone() {
    let mut pool = busy(1);
    assert_eq!(pool.offer(2), Ok(Placed::Waits(number(1))));
    assert_eq!(pool.leaves(number(1), StopReason::Asked).placed, [Placed::Waits(number(1))], "there is no other");
    assert_eq!(pool.offer(3), Ok(Placed::Waits(number(1))));
    assert_eq!((pool.next(number(1)), pool.census().workers), (Next::Stop(StopReason::Asked), 1));
    let scattered = pool.gone(number(1), Gone::Stopped);
    assert_eq!(scattered.placed, [Placed::Starts(number(2)), Placed::Waits(number(2))]);
    assert_eq!((pool.next(number(2)), pool.next(number(2))), (Next::Run(2), Next::Run(3)));
}

#[test]
fn idle_workers_go_one_at_a_time_once_somebody_waited_and_the_last_goes_too() {
    for seed in 0..20 {
        let mut pool = busy_seeded(4, seed);
        for message in 5..=12 {
            assert!(pool.offer(message).is_ok());
        }
        assert_eq!(pool.look(), None, "all are busy");
        for n in 1..=4 {
            while pool.next(number(n)) != Next::Wait {}
        }
        let mut gone = Vec::new();
        for _ in 0..8 {
            if let Some(n) = pool.look() {
                assert_eq!(pool.next(n), Next::Stop(StopReason::Idle));
                assert_eq!(pool.gone(n, Gone::Stopped).placed, []);
                gone.push(n);
            }
        }
        gone.sort_unstable();
        assert_eq!(gone, [1, 2, 3, 4].map(number));
        assert!(pool.is_empty() && pool.look().is_none());
    }
}

#[test]
fn removal_waits_for_its_idle_cycles_and_can_be_off() {
    for cycles in [Some(3), None] {
        let removal = cycles.and_then(NonZeroU32::new).map(|idle_cycles| Removal { idle_cycles });
        let mut pool = Pool::new(PoolConfig { removal, ..config(1, 9) }, 1);
        (0..3).for_each(|message| assert!(pool.offer(message).is_ok()));
        assert_eq!(pool.look(), None);
        while pool.next(number(1)) != Next::Wait {}
        // The backlog went, which outweighs it once; then three idle cycles.
        let looks: Vec<_> = (0..4).map(|_| pool.look()).collect();
        let last = cycles.map(|_| number(1));
        assert_eq!(looks, [None, None, None, last]);
    }
}

#[test]
fn a_closed_pool_runs_what_it_has_and_empties() {
    let mut pool = busy(3);
    assert!(pool.offer(4).is_ok());
    assert_eq!(pool.next(number(2)), Next::Wait);
    assert_eq!(pool.close(), [number(2)]);
    assert_eq!(pool.offer(5), Err((5, Reason::Stopping)));
    assert!(pool.has_room(), "nobody is kept waiting for room that never comes");
    let leaving = Next::Stop(StopReason::NodeLeaving);
    assert_eq!((pool.next(number(2)), pool.next(number(3))), (leaving.clone(), leaving.clone()));
    assert_eq!((pool.next(number(1)), pool.next(number(1))), (Next::Run(4), leaving));
    (1..=3).for_each(|n| assert_eq!(pool.gone(number(n), Gone::Stopped).placed, []));
    assert!(pool.is_empty());
}

#[test]
fn what_a_worker_sends_itself_reaches_that_one_or_nobody() {
    let mut pool = busy(2);
    assert_eq!(pool.next(number(2)), Next::Wait);
    assert_eq!(pool.offer_to(number(1), 8), Ok(Placed::Waits(number(1))));
    assert_eq!(pool.offer_to(number(2), 9), Ok(Placed::Wakes(number(2))));
    assert_eq!((pool.next(number(1)), pool.next(number(2))), (Next::Run(8), Next::Run(9)));
    assert_eq!(pool.leaves(number(1), StopReason::Asked).placed, []);
    assert_eq!((pool.offer_to(number(1), 8), pool.offer_to(number(7), 8)), (Err(8), Err(8)));
}

#[test]
fn an_abandoned_pool_gives_back_all_that_nobody_began() {
    let mut pool = busy(2);
    (3..=6).for_each(|message| assert!(pool.offer(message).is_ok()));
    assert_eq!((pool.abandon(), pool.census().waiting), ([3, 5, 4, 6].to_vec(), 0));
    assert_eq!(pool.offer(7), Err((7, Reason::Stopping)));
}

/// What the naive twin knows of a worker.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// It starts, was called, or runs.
    Busy,
    Idle,
    Stopping,
}

/// The rules once more: one list of messages, each with its worker, and every question answered by going through it.
struct Twin {
    config: PoolConfig,
    workers: BTreeMap<u64, State>,
    /// Message, worker, and whether it is in its hand.
    mail: Vec<(u32, u64, bool)>,
    made: u64,
    controller: Controller,
    sore: bool,
    closed: bool,
}

impl Twin {
    fn waiting(&self) -> usize {
        self.mail.iter().filter(|(_, _, hand)| !hand).count()
    }

    fn queue(&self, worker: u64) -> usize {
        self.mail.iter().filter(|(_, of, hand)| *of == worker && !hand).count()
    }

    fn idle(&self) -> Vec<u64> {
        self.workers.iter().filter(|(_, state)| **state == State::Idle).map(|(n, _)| *n).collect()
    }

    fn room_for_one(&self) -> bool {
        self.workers.is_empty() || (!self.sore && self.workers.len() < self.config.at_most.get() as usize)
    }

    fn offer(&mut self, message: u32) -> Result<Placed, (u32, Reason)> {
        if self.closed {
            return Err((message, Reason::Stopping));
        }
        let at_once = !self.idle().is_empty() || self.room_for_one();
        if !at_once && self.waiting() >= self.config.waiting_max {
            return Err((message, Reason::Full(Bound::Workers)));
        }
        Ok(self.place(message, true).expect("there is somebody, or one is made"))
    }

    fn place(&mut self, message: u32, grow: bool) -> Option<Placed> {
        if let Some(first) = self.idle().first() {
            self.workers.insert(*first, State::Busy);
            self.mail.push((message, *first, true));
            return Some(Placed::Wakes(number(*first)));
        }
        if grow && self.room_for_one() {
            self.made += 1;
            self.workers.insert(self.made, State::Busy);
            self.mail.push((message, self.made, true));
            return Some(Placed::Starts(number(self.made)));
        }
        let stays = |n: &u64| self.workers[n] != State::Stopping;
        let some_stay = self.workers.keys().any(stays);
        let among = self.workers.keys().filter(|n| !some_stay || stays(n));
        let least = *among.min_by_key(|n| (self.queue(**n), **n))?;
        self.mail.push((message, least, false));
        Some(Placed::Waits(number(least)))
    }

    /// Takes all of a worker's mail: its hand first, then in order.
    fn take_all(&mut self, worker: u64) -> Vec<u32> {
        let mut taken: Vec<_> = self.mail.iter().filter(|(_, of, _)| *of == worker).copied().collect();
        self.mail.retain(|(_, of, _)| *of != worker);
        taken.sort_by_key(|(_, _, hand)| !hand);
        taken.into_iter().map(|(message, _, _)| message).collect()
    }

    fn next(&mut self, worker: u64) -> Next<u32> {
        if self.workers[&worker] == State::Stopping {
            return Next::Stop(StopReason::Idle);
        }
        let hand = self.mail.iter().position(|(_, of, hand)| *of == worker && *hand);
        if let Some(at) = hand.or_else(|| self.mail.iter().position(|(_, of, _)| *of == worker)) {
            self.workers.insert(worker, State::Busy);
            return Next::Run(self.mail.remove(at).0);
        }
        if self.closed {
            self.workers.insert(worker, State::Stopping);
            return Next::Stop(StopReason::NodeLeaving);
        }
        self.workers.insert(worker, State::Idle);
        Next::Wait
    }

    fn scatter(&mut self, mail: Vec<u32>, grow: bool) -> Scattered<u32> {
        let mut scattered = Scattered { placed: Vec::new(), refused: Vec::new() };
        for message in mail {
            match self.place(message, grow) {
                Some(placed) => scattered.placed.push(placed),
                None => scattered.refused.push(message),
            }
        }
        scattered
    }

    fn leaves(&mut self, worker: u64) -> Scattered<u32> {
        self.workers.insert(worker, State::Stopping);
        let mail = self.take_all(worker);
        self.scatter(mail, true)
    }

    fn gone(&mut self, worker: u64, how: Gone) -> Scattered<u32> {
        self.workers.remove(&worker);
        if self.workers.is_empty() {
            self.controller.forget();
        }
        self.sore |= how == Gone::NeverStarted;
        let mail = self.take_all(worker);
        self.scatter(mail, how != Gone::NeverStarted)
    }
}

/// What a worker's task is at, as the host of these tests keeps it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Task {
    Starts,
    Waits,
    Called,
    Runs,
    Ends,
}

#[derive(Default)]
struct Host {
    tasks: BTreeMap<u64, Task>,
    run: Vec<u32>,
    refused: Vec<u32>,
}

impl Host {
    fn placed(&mut self, placed: Placed) {
        match placed {
            Placed::Starts(n) => assert_eq!(self.tasks.insert(n.0, Task::Starts), None, "no number comes twice"),
            Placed::Wakes(n) => assert_eq!(self.tasks.insert(n.0, Task::Called), Some(Task::Waits)),
            Placed::Waits(n) => assert_ne!(self.tasks[&n.0], Task::Waits),
        }
    }

    fn scattered(&mut self, scattered: Scattered<u32>) {
        scattered.placed.into_iter().for_each(|placed| self.placed(placed));
        self.refused.extend(scattered.refused);
    }
}

fn act() -> impl Strategy<Value = (u8, u8)> {
    (prop_oneof![0_u8..8, Just(0), Just(0), Just(1), Just(1)], any::<u8>())
}

proptest! {
    #[test]
    fn the_pool_does_what_its_twin_does(
        (at_most, waiting_max, cycles, seed) in (1_u32..5, 0_usize..8, 1_u32..3, any::<u64>()),
        acts in proptest::collection::vec(act(), 0..200),
    ) {
        let removal = NonZeroU32::new(cycles).map(|idle_cycles| Removal { idle_cycles });
        let config = PoolConfig { removal, ..config(at_most, waiting_max) };
        let mut pool = Pool::new(config, seed);
        let mut twin = Twin {
            config,
            workers: BTreeMap::new(),
            mail: Vec::new(),
            made: 0,
            controller: Controller::new(NonZeroU32::new(cycles).unwrap()),
            sore: false,
            closed: false,
        };
        let mut host = Host::default();
        let (mut sent, mut accepted) = (0, 0);
        // At the end the pool is closed and everybody goes on until nobody is there.
        for (what, who) in acts.into_iter().chain([(7, 0)]) {
            let nth = |tasks: Vec<u64>| tasks.get(usize::from(who) % tasks.len().max(1)).copied();
            let some = |host: &Host, which: &[Task]| {
                nth(host.tasks.iter().filter(|(_, task)| which.contains(task)).map(|(n, _)| *n).collect())
            };
            match what {
                0 => {
                    sent += 1;
                    let offered = pool.offer(sent);
                    prop_assert_eq!(&offered, &twin.offer(sent));
                    if let Ok(placed) = offered {
                        accepted += 1;
                        host.placed(placed);
                    }
                }
                // Somebody's first hook or handler ends well, or it is woken, rightly or not.
                1..=2 => if let Some(n) = some(&host, &[Task::Starts, Task::Waits, Task::Called, Task::Runs]) {
                    step(&mut pool, &mut twin, &mut host, n)?;
                }
                3 => if let Some(n) = some(&host, &[Task::Starts, Task::Runs, Task::Ends]) {
                    let how = match host.tasks.remove(&n) {
                        Some(Task::Starts) => Gone::NeverStarted,
                        Some(Task::Runs) => Gone::Failed,
                        _ => Gone::Stopped,
                    };
                    let scattered = pool.gone(number(n), how);
                    prop_assert_eq!(&scattered, &twin.gone(n, how));
                    host.scattered(scattered);
                }
                4 => if let Some(n) = some(&host, &[Task::Ends]) {
                    host.tasks.remove(&n);
                    let scattered = pool.gone(number(n), Gone::Stopped);
                    prop_assert_eq!(&scattered, &twin.gone(n, Gone::Stopped));
                    host.scattered(scattered);
                }
                5 => if let Some(n) = some(&host, &[Task::Runs]) {
                    host.tasks.insert(n, Task::Ends);
                    let scattered = pool.leaves(number(n), StopReason::Asked);
                    prop_assert_eq!(&scattered, &twin.leaves(n));
                    host.scattered(scattered);
                }
                6 => {
                    twin.sore = false;
                    twin.controller.look(twin.waiting() as u64, twin.workers.len() as u64);
                    let idle = twin.idle();
                    let picked = pool.look();
                    prop_assert_eq!(picked.is_some(), twin.controller.is_due() && !idle.is_empty());
                    if let Some(WorkerNumber(n)) = picked {
                        prop_assert!(idle.contains(&n));
                        twin.controller.removed(idle.len() as u32);
                        twin.workers.insert(n, State::Stopping);
                        host.tasks.insert(n, Task::Called);
                    }
                }
                // Rarely, or there would be nothing to see.
                7 if who == 0 => {
                    let idle: Vec<u64> = pool.close().into_iter().map(|n| n.0).collect();
                    twin.closed = true;
                    prop_assert_eq!(idle, twin.idle());
                }
                _ => {}
            }
            let census = pool.census();
            prop_assert_eq!(census.waiting, twin.waiting());
            prop_assert_eq!((census.workers, census.idle), (twin.workers.len(), twin.idle().len()));
            prop_assert!(census.workers <= at_most as usize);
            prop_assert!(census.waiting == 0 || census.workers > 0, "somebody is there while messages wait");
        }
        while let Some((n, task)) = host.tasks.iter().next().map(|(n, task)| (*n, *task)) {
            if task == Task::Ends {
                host.tasks.remove(&n);
                let scattered = pool.gone(number(n), Gone::Stopped);
                prop_assert_eq!(&scattered, &twin.gone(n, Gone::Stopped));
                host.scattered(scattered);
            } else {
                step(&mut pool, &mut twin, &mut host, n)?;
            }
        }
        prop_assert!(pool.is_empty());
        host.run.extend(&host.refused);
        host.run.sort_unstable();
        host.run.dedup();
        prop_assert_eq!(host.run.len(), accepted, "each was run once or refused once");
    }
}

/// A worker goes on.
fn step(pool: &mut Pool<u32>, twin: &mut Twin, host: &mut Host, n: u64) -> Result<(), TestCaseError> {
    let (next, expected) = (pool.next(number(n)), twin.next(n));
    let same_kind = matches!((&next, &expected), (Next::Stop(_), Next::Stop(_)));
    prop_assert!(next == expected || same_kind, "{:?} {:?}", next, expected);
    let task = match next {
        Next::Run(message) => {
            prop_assert!(!host.run.contains(&message), "run twice");
            host.run.push(message);
            Task::Runs
        }
        Next::Wait => Task::Waits,
        Next::Stop(_) => Task::Ends,
    };
    host.tasks.insert(n, task);
    Ok(())
}
