//! A seeded random world over the real machines: loss, repeats, mail later than W, clocks 5 % fast and slow, pauses,
//! lapses, elections, crashes with amnesia, drains, leaves. After every step: one owner per shard, no conflicting claim,
//! growing tokens.

use alloc::vec::Vec;

use super::{
    Input,
    world::{Mail, SHARDS, World, ms, shard, tight},
};
use crate::{
    machine::{Machine, Rule, Rules, Timing},
    session,
    time::Duration,
};

const REGIONS: u64 = 3;

/// A small generator: the world must not depend on the crate's own one.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.roll(100) < chance
    }
}

/// What one run may suffer, drawn per seed.
struct Weather {
    loss: u64,
    repeat: u64,
    late: u64,
    pause: u64,
    crash: u64,
    elect: u64,
    drain: u64,
    cut: u64,
    slow_lanes: bool,
    leave: bool,
}

struct Swarm {
    world: World,
    dice: Dice,
    weather: Weather,
    now: u64,
    /// Clock rates in percent: the coordinators', then the regions'.
    rates: [u64; 2 + REGIONS as usize],
    paused_until: [u64; 2 + REGIONS as usize],
    /// Until when a region's mail is lost: to it, from it.
    cut_until: [(u64, u64); REGIONS as usize],
    post: Vec<(u64, Mail)>,
    deposed_until: u64,
}

fn timing() -> Timing {
    tight(Timing { rate_error_permille: 50, heartbeat: ms(40), session: ms(200), margin: ms(10), ..Timing::lan() })
}

impl Swarm {
    fn new(rules: Rules, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut often = |chances: &[u64]| chances[dice.roll(chances.len() as u64) as usize];
        let weather = Weather {
            loss: often(&[0, 5, 30]),
            repeat: often(&[0, 5, 20]),
            late: often(&[0, 3, 15]),
            pause: often(&[0, 0, 1]),
            crash: often(&[0, 0, 1]),
            elect: often(&[0, 1, 3]),
            drain: often(&[0, 5, 20]),
            cut: often(&[0, 1, 2]),
            slow_lanes: often(&[0, 1]) == 1,
            leave: often(&[0, 0, 0, 1]) == 1,
        };
        let rates = core::array::from_fn(|_| often(&[95, 100, 105]));
        let mut world = World::new(rules, timing(), REGIONS);
        world.regions.iter_mut().for_each(|region| region.prompt = !weather.slow_lanes);
        world.elect(0);
        Self {
            world,
            dice,
            weather,
            now: 0,
            rates,
            paused_until: [0; 5],
            cut_until: [(0, 0); 3],
            post: Vec::new(),
            deposed_until: u64::MAX,
        }
    }

    fn run(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            self.step();
            let world = &self.world;
            if world.owners_max > 1 || world.conflicts > 0 || world.token_regressions > 0 {
                return false;
            }
        }
        true
    }

    fn step(&mut self) {
        let millis = 1 + self.dice.roll(12);
        self.now += millis;
        let [a, b, regions @ ..] = self.rates;
        for (seat, rate) in self.world.seats.iter_mut().zip([a, b]) {
            seat.clock = seat.clock + Duration::from_micros(millis * rate * 10);
        }
        for (region, rate) in self.world.regions.iter_mut().zip(regions) {
            region.clock = region.clock + Duration::from_micros(millis * rate * 10);
        }
        self.world.look();
        self.trouble();
        self.post_arrives();
        self.timers();
        self.plan();
        self.collect();
    }

    fn trouble(&mut self) {
        if self.dice.percent(self.weather.elect) {
            self.world.depose();
            self.deposed_until = self.now + self.dice.roll(60);
        }
        if self.now >= self.deposed_until {
            self.deposed_until = u64::MAX;
            let seat = self.dice.roll(2) as usize;
            self.world.elect(seat);
        }
        let r = self.dice.roll(REGIONS) as usize;
        if self.dice.percent(self.weather.crash) {
            self.world.crash(r);
            self.world.regions[r].prompt = !self.weather.slow_lanes;
        }
        if self.dice.percent(self.weather.pause) {
            let who = self.dice.roll(5) as usize;
            self.paused_until[who] = self.now + self.dice.roll(400);
        }
        if self.dice.percent(self.weather.cut) {
            let (to, from) = (self.now + self.dice.roll(400), self.now + self.dice.roll(400));
            self.cut_until[r] = match self.dice.roll(3) {
                0 => (to, 0),
                1 => (0, from),
                _ => (to, from),
            };
        }
        if self.weather.leave && self.dice.roll(100) == 0 {
            self.world.say(r, session::Input::Leave);
        }
    }

    fn awake(&self, who: usize) -> bool {
        self.now >= self.paused_until[who]
    }

    fn post_arrives(&mut self) {
        let mut arrived = Vec::new();
        let now = self.now;
        self.post.retain(|(at, mail)| {
            let due = *at <= now;
            if due {
                arrived.push(mail.clone());
            }
            !due
        });
        for mail in arrived {
            let id = mail.to.id.0;
            let who = if id >= 100 { id - 100 } else { id + 2 };
            if self.awake(who as usize) {
                self.world.deliver(&mail);
            } else {
                self.post.push((self.paused_until[who as usize], mail));
            }
        }
    }

    fn timers(&mut self) {
        for r in 0..REGIONS as usize {
            if !self.awake(r + 2) {
                continue;
            }
            if self.world.regions[r].session.deadline().is_some_and(|at| at <= self.world.regions[r].clock) {
                self.world.expire_region(r);
            }
            if self.weather.slow_lanes && self.dice.percent(20) {
                self.world.lanes_stop(r);
            }
            if self.dice.percent(30) {
                self.world.lanes_drain(r);
            }
        }
        for seat in 0..2 {
            let due = self.world.seats[seat].allocator.deadline().is_some_and(|at| at <= self.world.seats[seat].clock);
            if due && self.awake(seat) {
                self.world.expire_coordinator(seat);
            }
        }
    }

    /// The planner places what is wanted anywhere, and drains at random.
    fn plan(&mut self) {
        let Some(seat) = self.world.reigning.filter(|seat| self.awake(*seat)) else { return };
        let key = shard(self.dice.roll(SHARDS.into()) as u32);
        let to = self.world.regions[self.dice.roll(REGIONS) as usize].key;
        self.world.tell(seat, Input::Allocate { key, to });
        if self.dice.percent(self.weather.drain) {
            self.world.tell(seat, Input::Drain { key, within: ms(30) });
        }
    }

    fn collect(&mut self) {
        for mail in core::mem::take(&mut self.world.mail) {
            let cut = |id: u64| self.cut_until.get(id as usize).copied().unwrap_or_default();
            if self.now < cut(mail.to.id.0).0 || self.now < cut(mail.from.id.0).1 {
                continue;
            }
            let copies = 1 + usize::from(self.dice.percent(self.weather.repeat));
            for _ in 0..copies {
                if self.dice.percent(self.weather.loss) {
                    continue;
                }
                let delay = if self.dice.percent(self.weather.late) { self.dice.roll(500) } else { self.dice.roll(10) };
                self.post.push((self.now + 1 + delay, mail.clone()));
            }
        }
    }
}

/// How many of `seeds` break a promise; with the grants obeyed.
fn bad_runs(rules: Rules, seeds: core::ops::Range<u64>, steps: u32, enough: usize) -> (usize, usize, Option<u64>) {
    let (mut bad, mut grants, mut first) = (0, 0, None);
    for seed in seeds {
        let mut swarm = Swarm::new(rules, seed);
        if !swarm.run(steps) {
            bad += 1;
            first = first.or(Some(seed));
            if bad >= enough {
                break;
            }
        }
        grants += swarm.world.grants;
    }
    (bad, grants, first)
}

#[test]
fn thousands_of_short_lives_see_no_double_owner() {
    let (bad, grants, first) = bad_runs(Rules::all(), 0..6_000, 200, 1);
    assert_eq!(bad, 0, "first bad seed: {first:?}");
    assert!(grants > 20_000, "a world in which nothing happens proves nothing: {grants} grants");
}

/// Prints how fast each rule's absence is found: `cargo test -p shard-core -- --ignored --nocapture mutants`.
#[test]
#[ignore = "asserts nothing: prints a table, by cargo test -p shard-core -- --ignored --nocapture mutants"]
fn mutants_found_by_the_swarm() {
    for rule in Rule::ALL {
        let found = bad_runs(Rules::without(*rule), 0..6_000, 200, 5);
        std::println!("{:>26} {found:?}", rule.mutant());
    }
}

#[test]
fn the_same_lives_with_a_rule_missing_do() {
    let often_fatal = [
        Rule::DriftFactor,
        Rule::Quarantine,
        Rule::NoForcedHandoff,
        Rule::ValidityFromSend,
        Rule::Incarnation,
        Rule::TermOfCommands,
        Rule::SessionBump,
        Rule::AppliedBeforeFree,
        Rule::SequenceGrows,
        Rule::SessionGrows,
        Rule::SessionBarrier,
    ];
    for rule in often_fatal {
        let (bad, _, _) = bad_runs(Rules::without(rule), 0..6_000, 200, 1);
        assert!(bad > 0, "{rule:?} off, and nothing happened");
    }
}

#[test]
fn after_trouble_every_node_lives_and_every_shard_that_is_asked_for_has_one_owner() {
    for seed in 0..150 {
        let mut swarm = Swarm::new(Rules::all(), seed);
        swarm.run(200);
        swarm.weather = Weather {
            loss: 0,
            repeat: 0,
            late: 0,
            pause: 0,
            crash: 0,
            elect: 0,
            drain: 0,
            cut: 0,
            slow_lanes: swarm.weather.slow_lanes,
            leave: false,
        };
        if swarm.world.reigning.is_none() {
            swarm.world.elect(0);
        }
        swarm.deposed_until = u64::MAX;
        assert!(swarm.run(400));
        let regions = &swarm.world.regions;
        let stays = |region: &&super::world::Region| !region.session.leaving();
        for region in regions.iter().filter(stays) {
            assert!(region.session.is_live(region.clock), "seed {seed}: {} is not live", region.key);
        }
        assert!(
            regions.iter().all(|region| !region.session.leaving() || region.farewell),
            "seed {seed}: still leaving"
        );
        if regions.iter().any(|region| !region.session.leaving()) {
            for number in 0..SHARDS {
                assert!(swarm.world.owner(number).is_some(), "seed {seed}: shard {number} has no owner");
            }
        }
    }
}
