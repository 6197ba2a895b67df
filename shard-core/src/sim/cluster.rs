//! The loop: one event after the other, each followed by the checkers.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;

use super::audit::Audit;
use super::calm::Calm;
use super::checker::Checker;
use super::clock::Clock;
use super::event::{Agenda, Event, Scheduled};
use super::fault::Fault;
use super::harm::Filter;
use super::marks::{Mark, Marks};
use super::measure::{Blame, Gaps};
use super::model::{Model, Totals};
use super::network::Connection;
use super::options::{Faults, Options};
use super::process::{Process, id_of};
use super::report::{Counters, PROPERTIES, Report, Violation};
use super::script::Script;
use super::store::Store;
use crate::id::{Incarnation, Kind, NodeKey, ShardId};
use crate::prng::{Prng, mix};
use crate::region::lane::Order;
use crate::time::{Duration, Instant, nanos};

/// Lines kept for a violation.
const HISTORY: usize = 60;
/// No honest run has so many events per simulated second.
const EVENTS_PER_SECOND_MAX: u64 = 200_000;

/// A machine on which processes live, one after the other.
pub(super) struct Seat {
    pub(super) clock: Clock,
    pub(super) wall_skew: u64,
    pub(super) lives: u32,
    pub(super) last_key: NodeKey,
    pub(super) paused_until: u64,
    /// The process does nothing and its clock stands still.
    pub(super) frozen: bool,
    /// The version of the voters that its processes start with.
    pub(super) version: u32,
    pub(super) process: Option<Process>,
}

/// An entity of the one type.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) hash: u64,
    pub(super) shard: ShardId,
}

/// Randomness, apart for each part, so that a change in one leaves the others alone.
pub(super) struct Dice {
    pub(super) net: Prng,
    pub(super) life: Prng,
    pub(super) work: Prng,
    pub(super) harm: Prng,
    pub(super) voters: Prng,
    pub(super) store: Prng,
}

/// A cluster in one thread; see the module's page.
pub struct Cluster {
    pub(super) options: Options,
    /// The harm in force.
    pub(super) faults: Faults,
    pub(super) kind: Kind,
    /// Real time, in nanoseconds.
    pub(super) now: u64,
    pub(super) agenda: Agenda,
    pub(super) seats: Vec<Seat>,
    /// The sets of voters that there were, by seat; the last is in force, or is to be.
    pub(super) voters: Vec<Vec<usize>>,
    pub(super) entities: Vec<Subject>,
    /// Until when frames from the one seat do not reach the other.
    pub(super) cuts: Vec<Vec<u64>>,
    /// Until when datagrams from the one seat are late at the other.
    pub(super) clogs: Vec<Vec<u64>>,
    /// Datagrams that are dropped or caught.
    pub(super) filters: Vec<Filter>,
    /// A crash that waits for the next drain, and how long the process will be down.
    pub(super) lurking: Option<Duration>,
    /// Shards whose owner crashed.
    pub(super) bereaved: BTreeSet<ShardId>,
    /// A clock has run beyond its bound, or stood still.
    pub(super) clocks_are_broken: bool,
    /// Every fault that struck, with its moment: the script of the run.
    pub(super) struck: Vec<(u64, Fault)>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) connections_made: u64,
    pub(super) runs: u64,
    pub(super) model: Model,
    /// Where entities keep their state.
    pub(super) store: Store,
    pub(super) checker: Checker,
    pub(super) calm: Calm,
    pub(super) blames: Blame,
    pub(super) audit: Audit,
    pub(super) gaps: Gaps,
    pub(super) marks: Marks,
    pub(super) counters: Counters,
    pub(super) dice: Dice,
    /// Up while every shard moves again as soon as it rests.
    pub(super) restless: Option<Arc<AtomicBool>>,
    pub(super) violation: Option<(&'static str, String)>,
    digest: u64,
    history: VecDeque<String>,
    trace: Vec<String>,
}

impl core::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cluster").field("options", &self.options).field("now", &self.now).finish_non_exhaustive()
    }
}

impl Cluster {
    /// A cluster whose processes are about to start.
    #[must_use]
    pub fn new(mut options: Options) -> Self {
        let restless = options.restless();
        let prng = Prng::new(options.seed);
        let mut dice = Dice {
            net: prng.fork("net"),
            life: prng.fork("life"),
            work: prng.fork("work"),
            harm: prng.fork("harm"),
            voters: prng.fork("voters"),
            store: prng.fork("store"),
        };
        let mut clocks = prng.fork("clocks");
        let seats: Vec<Seat> = (0..options.nodes)
            .map(|seat| Seat {
                clock: Clock::new(clocks.below(1_000_000_000_000), rate(&mut clocks, &options)),
                wall_skew: clocks.below(20),
                lives: 0,
                last_key: NodeKey { id: id_of(seat), incarnation: Incarnation(0) },
                paused_until: 0,
                frozen: false,
                version: 1,
                process: None,
            })
            .collect();
        let entities = (0..options.shards * options.entities_per_shard)
            .map(|number| {
                let name = format!("e{number}");
                Subject { hash: crate::hash::entity(&name), shard: ShardId(number % options.shards), name }
            })
            .collect();
        let mut agenda = Agenda::default();
        for seat in 0..options.nodes {
            if options.absent.contains(&(seat + 1)) {
                continue;
            }
            let late = options.faults.late_joiner && seat + 1 == options.nodes;
            let at = if late { nanos(options.storm) / 3 } else { dice.life.below(200_000_000) };
            agenda.push(at, seat, 0, Event::Boot);
        }
        for (at, fault) in &options.script {
            agenda.push(nanos(*at), 0, 0, Event::Strike(fault.clone()));
        }
        agenda.push(nanos(options.storm), 0, 0, Event::Calm);
        let mut cluster = Self {
            faults: options.faults.clone(),
            kind: crate::hash::kind("sim"),
            now: 0,
            agenda,
            cuts: alloc::vec![alloc::vec![0; options.nodes]; options.nodes],
            clogs: alloc::vec![alloc::vec![0; options.nodes]; options.nodes],
            filters: Vec::new(),
            lurking: None,
            bereaved: BTreeSet::new(),
            clocks_are_broken: false,
            struck: Vec::new(),
            voters: alloc::vec![(0..options.voters).collect()],
            connections: BTreeMap::new(),
            connections_made: 0,
            runs: 0,
            model: Model::default(),
            store: Store::default(),
            checker: Checker::new(&options),
            calm: Calm::default(),
            blames: Blame::default(),
            audit: Audit::default(),
            gaps: Gaps::default(),
            marks: Marks::default(),
            counters: Counters::default(),
            dice,
            restless,
            violation: None,
            digest: 0,
            history: VecDeque::new(),
            trace: Vec::new(),
            seats,
            entities,
            options,
        };
        cluster.arm_all();
        cluster
    }

    /// Runs to the end, or to the first violation. One of those is run a second time, to write down what led to it.
    #[must_use]
    pub fn run(mut self) -> Report {
        self.play_until(u64::MAX);
        if self.violation.is_some() && !self.options.trace {
            let mut report = Self::new(self.options.with_trace()).run();
            report.trace.clear();
            return report;
        }
        self.report()
    }

    /// Runs to that moment, to the end, or to the first violation, whichever comes first.
    pub(super) fn play_until(&mut self, end: u64) {
        while self.violation.is_none() && !self.calm.is_over() {
            if self.agenda.next_at().is_some_and(|at| at > end) {
                return;
            }
            let Some(scheduled) = self.agenda.pop() else { break };
            self.step(scheduled);
        }
        self.audit_sum();
        self.audit_plan();
    }

    /// What became of it.
    pub(super) fn end(self) -> Report {
        self.report()
    }

    fn step(&mut self, scheduled: Scheduled) {
        let Scheduled { at, number, seat, life, event } = scheduled;
        debug_assert!(at >= self.now, "time goes on");
        self.now = at;
        let place = &self.seats[seat];
        if life != 0 && place.process.as_ref().is_none_or(|process| process.life != life) {
            return;
        }
        let of_the_world = matches!(
            event,
            Event::Harm(_) | Event::Strike(_) | Event::Calm | Event::Look | Event::Boot | Event::Store { .. }
        );
        if at < place.paused_until && place.process.is_some() && !of_the_world {
            // Timers that were set for this moment are set for the later one.
            self.put_off(seat, at, place.paused_until, life, event);
            return;
        }
        self.counters.events += 1;
        self.digest = mix(self.digest ^ at, number ^ ((seat as u64) << 56));
        self.watch_reign(seat);
        self.happen(seat, event);
        self.watch_reign(seat);
        self.check(seat);
        self.audit(seat);
        let most = EVENTS_PER_SECOND_MAX * (self.seats.len() as u64 / 5 + 1);
        if self.counters.events > most * (self.now / 1_000_000_000 + 1) {
            self.violated("busy-loop", format!("{} events", self.counters.events));
        }
    }

    fn put_off(&mut self, seat: usize, was: u64, until: u64, life: u32, event: Event) {
        if let Some(process) = &mut self.seats[seat].process {
            process.timer_put_off(&event, was, until);
        }
        self.agenda.push(until, seat, life, event);
    }

    fn happen(&mut self, seat: usize, event: Event) {
        let at = self.now;
        match event {
            Event::NodeTimer => self.node_timer(seat, at),
            Event::LaneTimer { lane } => self.lane_timer(seat, lane, at),
            Event::LinkTimer => self.link_timer(seat, at),
            Event::Control { from, to, message } => self.hear_control(seat, from, to, message),
            Event::Order { lane, order } => {
                if let Order::Drain { shard, .. } = order {
                    self.drain_begins(seat, shard);
                    self.drain_is_met(seat);
                    self.counters.drains += 1;
                    self.calm.moved(at);
                }
                self.note(seat, || format!("lane {lane}: {order:?}"));
                self.lane_call(seat, lane, |lane, now, host| lane.order(now, order, host));
            }
            Event::Mail { lane, from, frame } => {
                self.note(seat, || format!("lane {lane} from {from}: {frame:?}"));
                self.mail(seat, lane, from, frame);
            }
            Event::Answer(input) => {
                self.note(seat, || format!("control hears {input:?}"));
                self.node_call(seat, |node, now, out| node.handle(now, input, out));
            }
            Event::Done { lane, run } => self.run_is_over(seat, lane, run, false),
            Event::Cancelled { lane, run } => self.run_is_over(seat, lane, run, true),
            Event::Wire { connection, dialler, packet } => self.hear_wire(seat, connection, dialler, packet),
            Event::Work => self.work(seat),
            Event::Harm(harm) => self.harm(harm),
            Event::Strike(fault) => self.strike_later(fault),
            Event::Boot => self.boot(seat),
            Event::Wake => self.wake(seat),
            Event::Load => self.load(seat),
            Event::Part => self.part(seat),
            Event::Store { write } => self.stored(seat, write),
            Event::StoreAnswer { write } => self.store_answers(write),
            Event::Calm => self.begin_calm(),
            Event::Look => self.look(),
        }
    }

    /// The time on a seat's clock.
    pub(super) fn local(&self, seat: usize) -> Instant {
        self.seats[seat].clock.at(self.now)
    }

    /// Schedules something for the present process of a seat.
    pub(super) fn push_here(&mut self, at: u64, seat: usize, event: Event) {
        if let Some(process) = &self.seats[seat].process {
            let life = process.life;
            self.agenda.push(at, seat, life, event);
        }
    }

    pub(super) fn mark(&mut self, mark: Mark) {
        self.marks.meet(mark);
    }

    pub(super) fn violated(&mut self, property: &'static str, witness: String) {
        debug_assert!(PROPERTIES.contains(&property), "`{property}` has no name in the list");
        let wanted = self.options.only.as_deref().is_none_or(|only| only == property);
        if wanted && self.violation.is_none() {
            self.violation = Some((property, witness));
        }
    }

    pub(super) fn judge(&mut self, result: Result<(), (&'static str, String)>) {
        let Err((property, witness)) = result else { return };
        match property {
            "duplicated" => self.counters.duplicated += 1,
            "reordered" => self.counters.reordered += 1,
            _ => {}
        }
        self.violated(property, witness);
    }

    /// Writes a line, if somebody wants to read it.
    pub(super) fn note(&mut self, seat: usize, text: impl FnOnce() -> String) {
        if !self.options.trace {
            return;
        }
        let key =
            self.seats[seat].process.as_ref().map_or_else(|| format!("({})", id_of(seat)), |p| format!("{}", p.key));
        let shards = if self.seats.len() < 10 { self.options.shards } else { 0 };
        let strip: String = (0..shards).map(|shard| self.who_serves(ShardId(shard))).collect();
        let micros = self.now / 1_000;
        let line = format!("{:>5}.{:06} {key:<8} [{strip}] {}", micros / 1_000_000, micros % 1_000_000, text());
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(line.clone());
        self.trace.push(line);
    }

    fn report(mut self) -> Report {
        let millis = self.now / 1_000_000;
        let Totals { handled, not_run, in_doubt, handled_in_doubt, orphaned } = self.model.totals();
        let violation = self.violation.take().map(|(property, witness)| {
            match property {
                "double-owner" => self.counters.double_owners += 1,
                "overlapping-reigns" => self.counters.overlapping_reigns += 1,
                _ => {}
            }
            let history = core::mem::take(&mut self.history).into();
            Violation { property, witness, at_millis: millis, history }
        });
        let expect = violation.as_ref().map(|violation| violation.property);
        let script = expect.is_some().then(|| Box::new(Script::of(&self.options, &self.struck, expect)));
        self.counters.messages = self.model.entries.len() as u64;
        self.counters.longest_gap_millis = self.checker.longest_gap() / 1_000_000;
        let counters = Counters { handled, not_run, in_doubt, handled_in_doubt, orphaned, ..self.counters };
        Report {
            seed: self.options.seed,
            arguments: self.options.arguments(),
            mutant: self.options.mutant,
            guarded: self.options.guard > 0,
            millis,
            digest: self.digest,
            counters,
            violation,
            gaps: self.gaps,
            marks: self.marks,
            script,
            rebalance: self.blames.rebalance,
            trace: self.trace,
        }
    }
}

/// A rate within the bound: mostly one of the extremes, which is where the inequalities are tight.
pub(super) fn rate(prng: &mut Prng, options: &Options) -> u64 {
    if !options.faults.drift {
        return 1_000_000;
    }
    let rho = u64::from(options.timing.rate_error_permille) * 1_000;
    match prng.below(5) {
        0 | 1 => 1_000_000 - rho,
        2 | 3 => 1_000_000 + rho,
        _ => prng.between(1_000_000 - rho, 1_000_000 + rho),
    }
}

/// A pause whose mean is about `mean`, short ones likelier than long ones: the integer cousin of an exponential.
pub(super) fn about(prng: &mut Prng, mean: Duration) -> u64 {
    let mean = nanos(mean);
    let halvings = u64::from(prng.next_u64().leading_zeros().min(6));
    (mean / 3 * 2).saturating_mul(halvings) + prng.below(mean / 3 * 2 + 1)
}
