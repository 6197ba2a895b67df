//! Three voters in a bad world: thousands of short runs, each from one seed, that must keep I2 and I5; and the mutants that
//! the same runs must catch.

use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::string::String;
use std::vec::Vec;

use super::bench::{drifting, timed};
use crate::election::{Election, ElectionInput, ElectionOutput};
use crate::id::{NodeKey, Term};
use crate::machine::{Machine, Rule, Rules, Timing};
use crate::time::{Duration, Instant};
use crate::wire::Control;

const MILLI: u64 = 1_000_000;
const CLEAR: (u64, u64) = (0, 4);

#[test]
fn reigns_are_disjoint_and_contiguous_in_any_weather() {
    let mut elections = 0;
    for seed in 0..4_000 {
        let run = World::new(seed, Rules::all()).run(12_000);
        assert_eq!(run.broken, None, "seed {seed}");
        elections += run.elections;
    }
    assert!(elections > 8_000, "a world in which nobody reigns proves nothing: {elections}");
}

#[test]
fn the_same_weather_catches_the_mutants() {
    let rules = [
        Rule::DriftFactor,
        Rule::VoterSilence,
        Rule::ReignFromSend,
        Rule::ContiguousReign,
        Rule::AdvanceFirst,
        Rule::OneRound,
        Rule::ReleaseTerm,
    ];
    for rule in rules {
        let caught = (0..4_000).any(|seed| World::new(seed, Rules::without(rule)).run(12_000).broken.is_some());
        assert!(caught, "{} survives", rule.mutant());
    }
}

#[test]
fn one_seed_gives_one_history() {
    let (a, b) = (World::new(7, Rules::all()).run(12_000), World::new(7, Rules::all()).run(12_000));
    assert_eq!((a.events, a.elections, &a.nodes[0].machine), (b.events, b.elections, &b.nodes[0].machine));
}

/// Good clocks leave little room between T_c and T_v, so rules that do not speak of drift show sooner.
fn steady() -> Timing {
    let (reign, lease) = (Duration::from_millis(1_000), Duration::from_millis(1_021));
    Timing { reign, lease, silence: lease, ..Timing::lan() }
}

enum Event {
    Mail { to: usize, from: NodeKey, message: Control },
    Timer { node: usize },
    Crash { node: usize },
    Pause { node: usize },
    Resume { node: usize },
    Weather,
}

struct Node {
    machine: Election,
    /// Clock ticks per 1000 real ones: an extreme of rho, or right.
    rate: u64,
    offset: u64,
    paused: Option<Vec<Event>>,
    timer: u64,
    /// I5: reigns of this process that were seen to have ended.
    ended: BTreeSet<Term>,
}

struct World {
    dice: u64,
    rules: Rules,
    timing: Timing,
    real: u64,
    order: u64,
    queue: BTreeMap<(u64, u64), Event>,
    nodes: Vec<Node>,
    /// Per direction: how much mail is lost, in percent, and how late it is at most, in milliseconds.
    links: [[(u64, u64); 3]; 3],
    /// Wall clocks that stand still make lives repeat their counters.
    wall_stands: bool,
    elections: usize,
    events: usize,
    broken: Option<String>,
}

impl World {
    fn new(seed: u64, rules: Rules) -> Self {
        let mut world = Self {
            dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678,
            rules,
            timing: if seed % 4 < 2 { drifting() } else { steady() },
            real: 0,
            order: 0,
            queue: BTreeMap::new(),
            nodes: Vec::new(),
            links: [[CLEAR; 3]; 3],
            wall_stands: seed.is_multiple_of(2),
            elections: 0,
            events: 0,
            broken: None,
        };
        for node in 0..3 {
            let rho = u64::from(world.timing.rate_error_permille);
            let rate = [1_000 - rho, 1_000, 1_000 + rho][usize::try_from(world.roll(3)).unwrap()];
            let offset = world.roll(10_000) * MILLI;
            let machine = Election::new(Instant::from_nanos(offset), timed(node, 1, rules, world.timing.clone()));
            world.nodes.push(Node { machine, rate, offset, paused: None, timer: u64::MAX, ended: BTreeSet::new() });
            world.arm(usize::try_from(node).unwrap());
        }
        for node in 0..3 {
            let (crash, pause) = (world.roll(20_000), world.roll(12_000));
            world.at(crash, Event::Crash { node });
            world.at(pause, Event::Pause { node });
        }
        world.at(0, Event::Weather);
        world
    }

    fn run(mut self, millis: u64) -> Self {
        while self.broken.is_none()
            && let Some(((at, _), event)) = self.queue.pop_first()
            && at < millis * MILLI
        {
            self.real = at;
            self.events += 1;
            self.note_ends();
            self.happen(event);
            self.check();
        }
        self
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Mail { to: node, .. } | Event::Timer { node } if self.nodes[node].paused.is_some() => {
                self.nodes[node].paused.as_mut().unwrap().push(event);
            }
            Event::Mail { to, from, message } => self.handle(to, ElectionInput::Heard { from, message }),
            Event::Timer { node } => self.expire(node),
            Event::Crash { node } => {
                let (clock, life) = (self.clock(node), self.nodes[node].machine.config().me().incarnation.0 + 1);
                self.nodes[node].machine =
                    Election::new(clock, timed(node as u64, life, self.rules, self.timing.clone()));
                self.nodes[node].timer = u64::MAX;
                self.arm(node);
                let next = 500 + self.roll(8_000);
                self.at(next, Event::Crash { node });
            }
            Event::Pause { node } => {
                self.nodes[node].paused.get_or_insert_default();
                let (end, next) = (self.roll(2_000), 2_000 + self.roll(10_000));
                self.at(end, Event::Resume { node });
                self.at(next, Event::Pause { node });
            }
            Event::Resume { node } => {
                // Mail that waited is taken before the timers.
                let waited = self.nodes[node].paused.take().unwrap_or_default();
                let (mail, timers): (Vec<_>, Vec<_>) =
                    waited.into_iter().partition(|event| matches!(event, Event::Mail { .. }));
                mail.into_iter().chain(timers).for_each(|event| {
                    self.note_ends();
                    self.happen(event);
                    self.check();
                });
            }
            Event::Weather => {
                // Each direction on its own: clear, lossy, slow or cut.
                let weathers = [CLEAR, CLEAR, CLEAR, (30, 50), (0, 1_500), (100, 0)];
                for from in 0..3 {
                    for to in 0..3 {
                        self.links[from][to] = weathers[usize::try_from(self.roll(6)).unwrap()];
                    }
                }
                let next = 200 + self.roll(2_000);
                self.at(next, Event::Weather);
            }
        }
    }

    fn handle(&mut self, node: usize, input: ElectionInput) {
        let (clock, mut out) = (self.clock(node), Vec::new());
        self.nodes[node].machine.handle(clock, input, &mut out);
        self.take(node, out);
    }

    fn expire(&mut self, node: usize) {
        let (clock, mut out) = (self.clock(node), Vec::new());
        self.nodes[node].timer = u64::MAX;
        let machine = &mut self.nodes[node].machine;
        let early = machine.deadline().is_some_and(|due| clock < due).then(|| machine.clone());
        machine.expire(clock, &mut out);
        if let Some(before) = early {
            assert_eq!((&before, out.len()), (&*machine, 0), "an early call changes nothing");
        }
        self.take(node, out);
    }

    fn take(&mut self, node: usize, out: Vec<ElectionOutput>) {
        for output in out {
            match output {
                ElectionOutput::Send { to, message } => self.send(node, usize::try_from(to.0).unwrap(), message),
                ElectionOutput::NeedWall => {
                    let wall = if self.wall_stands { 1 } else { self.real / MILLI };
                    self.handle(node, ElectionInput::Start { wall });
                }
                ElectionOutput::Elected { .. } => self.elections += 1,
                ElectionOutput::Lost { term, .. } => self.handle(node, ElectionInput::Stopped { term }),
                ElectionOutput::Evidence { .. }
                | ElectionOutput::Confirmed { .. }
                | ElectionOutput::Committed { .. }
                | ElectionOutput::Notice(_) => {}
            }
        }
        self.arm(node);
    }

    fn send(&mut self, node: usize, to: usize, message: Control) {
        let from = self.nodes[node].machine.config().me();
        let copies = if self.roll(20) == 0 { 2 } else { 1 };
        for _ in 0..copies {
            let (loss, late) = self.links[node][to];
            if self.roll(100) < loss {
                continue;
            }
            let late = if self.roll(50) == 0 { 4_000 } else { late };
            let delay = self.roll(late);
            // To whatever life of that node is there: the machines themselves must tell lives apart.
            self.at(delay, Event::Mail { to, from, message: message.clone() });
        }
    }

    /// Sets the node's timer to its deadline, up to 20 ms late; keeps an earlier one.
    fn arm(&mut self, node: usize) {
        let Some(due) = self.nodes[node].machine.deadline() else { return };
        let Node { rate, offset, timer, .. } = self.nodes[node];
        let real = (due.as_nanos().saturating_sub(offset) * 1_000).div_ceil(rate).max(self.real);
        if real < timer {
            self.nodes[node].timer = real;
            let slack = self.roll(20) * MILLI;
            self.order += 1;
            self.queue.insert((real + slack, self.order), Event::Timer { node });
        }
    }

    fn at(&mut self, millis: u64, event: Event) {
        self.order += 1;
        let spread = self.roll(MILLI);
        self.queue.insert((self.real + millis * MILLI + spread, self.order), event);
    }

    fn clock(&self, node: usize) -> Instant {
        let Node { rate, offset, .. } = self.nodes[node];
        Instant::from_nanos(offset + self.real / 1_000 * rate)
    }

    /// Before anything happens at this moment: which reigns have run out since the last event?
    fn note_ends(&mut self) {
        for node in 0..3 {
            let clock = self.clock(node);
            let Node { machine, ended, .. } = &mut self.nodes[node];
            if let Some(term) = machine.campaign().and_then(|campaign| campaign.term())
                && machine.valid_until().is_some_and(|until| until <= clock)
            {
                ended.insert(term);
            }
        }
    }

    /// A reign can begin or grow only by an event, so checking after each one is exact.
    fn check(&mut self) {
        let reigns: Vec<Term> = (0..3).filter_map(|node| self.nodes[node].machine.reigning(self.clock(node))).collect();
        if reigns.len() > 1 {
            self.broken = Some(format!("I2 at {} ms: {reigns:?} reign at once", self.real / MILLI));
        }
        if let Some(term) = reigns.iter().find(|term| self.nodes.iter().any(|node| node.ended.contains(term))) {
            self.broken = Some(format!("I5 at {} ms: {term} came back", self.real / MILLI));
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides.max(1)
    }
}
