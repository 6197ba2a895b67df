//! Harm: what goes wrong is drawn here, written down, and done.

use alloc::vec::Vec;

use super::cluster::{Cluster, about, rate};
use super::event::{Event, Harm};
use super::fault::{Fault, Paths, Who};
use super::marks::Mark;
use super::measure::Cause;
use super::options::ms;
use crate::node::Input;
use crate::time::{Duration, nanos};

const ALL: [Harm; 12] = [
    Harm::Crash,
    Harm::Blackout,
    Harm::Pause,
    Harm::Cut,
    Harm::Break,
    Harm::Leave,
    Harm::Resign,
    Harm::Drift,
    Harm::Starve,
    Harm::Capture,
    Harm::Succession,
    Harm::Voters,
];

/// Datagrams of one sort on one path that are dropped, or caught.
#[derive(Debug)]
pub(super) struct Filter {
    sort: &'static str,
    from: usize,
    to: usize,
    ends_at: u64,
    /// When they are let go; never, if they are dropped.
    release_at: Option<u64>,
}

/// What becomes of a datagram.
pub(super) enum Passage {
    Free,
    Dropped,
    HeldUntil(u64),
}

impl Cluster {
    pub(super) fn arm_all(&mut self) {
        for harm in ALL {
            self.arm(harm);
        }
    }

    fn arm(&mut self, harm: Harm) {
        let faults = &self.faults;
        let every = match harm {
            Harm::Crash => faults.crash_every,
            Harm::Blackout => faults.blackout_every,
            Harm::Pause => faults.pause_every,
            Harm::Cut => faults.cut_every,
            Harm::Break => faults.break_every,
            Harm::Leave => faults.leave_every,
            Harm::Resign => faults.resign_every,
            Harm::Drift => faults.drift_every,
            Harm::Starve => faults.starve_every,
            Harm::Capture => faults.capture_every,
            Harm::Succession => faults.succession_every,
            Harm::Voters => faults.voters_every,
        };
        if every.is_zero() {
            return;
        }
        let dice = if harm == Harm::Voters { &mut self.dice.voters } else { &mut self.dice.harm };
        let at = self.now + about(dice, every) + 1;
        if at < nanos(self.options.storm) {
            self.agenda.push(at, 0, 0, Event::Harm(harm));
        }
    }

    /// Draws what goes wrong, writes it down and does it.
    pub(super) fn harm(&mut self, harm: Harm) {
        self.arm(harm);
        if harm == Harm::Voters {
            return self.draw_voters();
        }
        let seats = self.seats.len() as u64;
        let seat = self.dice.harm.below(seats) as usize;
        let who = Who::Node(seat + 1);
        match harm {
            Harm::Crash if self.faults.crash_in_drain => {
                let down = self.downtime();
                self.lurking = Some(down);
            }
            Harm::Crash => {
                let down = self.downtime();
                self.do_now(Fault::Crash { who, down });
            }
            Harm::Blackout => {
                for number in 1..=self.seats.len() {
                    let down = Duration::from_nanos(self.dice.harm.below(200_000_000));
                    self.do_now(Fault::Crash { who: Who::Node(number), down });
                }
            }
            Harm::Pause => {
                let span = self.dice.harm.below(nanos(self.options.timing.session) * 2);
                let span = if self.dice.harm.chance(1, 2) { span / 8 } else { span };
                self.do_now(Fault::Pause { who, span: Duration::from_nanos(span) });
            }
            Harm::Cut => self.cut(seat),
            Harm::Break => {
                let open = self.open_connections();
                if let Some(number) = self.dice.harm.pick(&open).copied()
                    && let Some((from, to)) = self.ends_of(number)
                {
                    self.do_now(Fault::Break { from: Who::Node(from + 1), to: Who::Node(to + 1) });
                }
            }
            Harm::Leave => {
                let away = self.options.timing.session * self.dice.harm.between(0, 3) as u32;
                self.do_now(Fault::Leave { who, away });
            }
            Harm::Resign => self.do_now(Fault::Resign { who: Who::Coordinator }),
            Harm::Drift => {
                let rate = rate(&mut self.dice.harm, &self.options);
                self.do_now(Fault::Clock { who, rate });
            }
            Harm::Starve => {
                let paths = self.paths_of_reigning(self.options.timing.lease * 3);
                self.do_now(Fault::Drop { sort: "lease-request".into(), paths });
            }
            Harm::Capture => {
                let paths = self.paths_of_reigning(self.options.timing.lease);
                let later = self.dice.harm.below(nanos(self.options.timing.wait) * 2);
                let until = Duration::from_nanos(self.now + later) + paths.span;
                self.do_now(Fault::Hold { sort: "lease-request".into(), paths, until });
            }
            Harm::Voters => {}
            Harm::Succession => {
                // Somebody comes about when the coordinator dies.
                let down = Duration::from_nanos(self.dice.harm.between(1, 400_000_000));
                self.do_now(Fault::Crash { who, down });
                let at = self.now + nanos(down).saturating_sub(200_000_000) + self.dice.harm.below(400_000_000);
                let down = self.downtime();
                self.agenda.push(at, 0, 0, Event::Strike(Fault::Crash { who: Who::Coordinator, down }));
            }
        }
    }

    /// From a voter that reigns, mostly, to one or two others.
    fn paths_of_reigning(&mut self, most: Duration) -> Paths {
        let voters = self.voters().to_vec();
        let reigning = voters.iter().copied().find(|seat| self.reigning(*seat).is_some());
        let reigning = reigning.filter(|_| self.dice.harm.chance(3, 4));
        let from = reigning.unwrap_or_else(|| voters[self.dice.harm.below(voters.len() as u64) as usize]);
        let mut to: Vec<Who> = Vec::new();
        for seat in voters.into_iter().filter(|seat| *seat != from) {
            if to.is_empty() || self.dice.harm.chance(1, 2) {
                to.push(Who::Node(seat + 1));
            }
        }
        if to.is_empty() {
            to.push(Who::Everyone);
        }
        let span = Duration::from_nanos(self.dice.harm.below(nanos(most)) + 1);
        Paths { from: alloc::vec![Who::Node(from + 1)], to, both: false, span }
    }

    fn downtime(&mut self) -> Duration {
        let timing = &self.options.timing;
        let spans = [ms(1), timing.heartbeat, timing.session, timing.wait * 2];
        self.dice.harm.pick(&spans).copied().unwrap_or_default()
    }

    /// A handler of the first entity started at `seat`: if it is poisoned, the process dies of it.
    pub(super) fn taste(&mut self, seat: usize, entity: usize) {
        let from = nanos(self.options.poison_from);
        if entity == 0 && from > 0 && self.now >= from && !self.calm.has_begun() {
            let fault = Fault::Crash { who: Who::Node(seat + 1), down: Duration::from_secs(3_600) };
            self.agenda.push(self.now + 1, 0, 0, Event::Strike(fault));
        }
    }

    /// A drain begins at `seat`: a crash that lurks for one strikes before it is over.
    pub(super) fn drain_is_met(&mut self, seat: usize) {
        if let Some(down) = self.lurking.take() {
            let most = nanos(self.options.handlers.time + self.options.faults.inbox) * 2;
            let at = self.now + self.dice.harm.below(most + 1) + 1;
            let fault = Fault::Crash { who: Who::Node(seat + 1), down };
            self.agenda.push(at, 0, 0, Event::Strike(fault));
        }
    }

    pub(super) fn do_now(&mut self, fault: Fault) {
        self.strike(&fault);
        self.struck.push((self.now, fault));
    }

    /// Does one fault that was not drawn a moment ago, but earlier, or by whoever wrote the script.
    pub(super) fn strike_later(&mut self, fault: Fault) {
        if self.calm.has_begun() {
            return;
        }
        self.do_now(fault);
    }

    fn strike(&mut self, fault: &Fault) {
        match fault {
            Fault::Crash { who, down } => self.each(*who, |cluster, seat| cluster.crash_for(seat, nanos(*down))),
            Fault::Start { who } => self.each(*who, |cluster, seat| {
                cluster.blame(&[seat], Cause::Join);
                cluster.boot(seat);
            }),
            Fault::Pause { who, span } => self.each(*who, |cluster, seat| cluster.pause(seat, nanos(*span))),
            Fault::Freeze { who, span } => self.each(*who, |cluster, seat| cluster.freeze(seat, nanos(*span))),
            Fault::Cut(paths) => self.block(paths, false),
            Fault::Slow(paths) => self.block(paths, true),
            Fault::Break { from, to } => {
                let (from, to) = (self.seats_of(*from), self.seats_of(*to));
                for number in self.open_connections() {
                    let ends = self.ends_of(number);
                    if ends.is_some_and(|(dialler, other)| from.contains(&dialler) && to.contains(&other)) {
                        self.break_connection(number);
                    }
                }
            }
            Fault::Leave { who, away } => self.each(*who, |cluster, seat| cluster.leave(seat, nanos(*away))),
            Fault::Resign { who } => self.each(*who, |cluster, seat| {
                cluster.blame(&[seat], Cause::Resign);
                cluster.note(seat, || "is asked to resign".into());
                cluster.push_here(cluster.now, seat, Event::Answer(Input::Resign));
            }),
            Fault::Enlist { who } => self.each(*who, |cluster, seat| cluster.change_voters(seat, true)),
            Fault::Retire { who } => self.each(*who, |cluster, seat| cluster.change_voters(seat, false)),
            Fault::Clock { who, rate } => self.each(*who, |cluster, seat| {
                let now = cluster.now;
                cluster.blame(&[seat], Cause::Clock);
                cluster.note(seat, || alloc::format!("clock runs at {rate} ppm"));
                cluster.seats[seat].clock.run_at(now, *rate);
                let rho = u64::from(cluster.options.timing.rate_error_permille) * 1_000;
                cluster.clocks_are_broken |= rate.abs_diff(1_000_000) > rho;
            }),
            Fault::Drop { sort, paths } => self.filter(sort, paths, None),
            Fault::Hold { sort, paths, until } => self.filter(sort, paths, Some(nanos(*until))),
        }
    }

    fn each(&mut self, who: Who, mut strike: impl FnMut(&mut Self, usize)) {
        for seat in self.seats_of(who) {
            strike(self, seat);
        }
    }

    /// Who that is now.
    fn seats_of(&self, who: Who) -> Vec<usize> {
        let seats = 0..self.seats.len();
        let reigns = |seat: &usize| self.reigning(*seat).is_some();
        match who {
            Who::Node(number) => seats.filter(|seat| seat + 1 == number).collect(),
            Who::Coordinator => seats.filter(reigns).take(1).collect(),
            Who::Other => seats
                .rev()
                .filter(|seat| *seat >= self.options.pure_voters && self.seats[*seat].process.is_some())
                .find(|seat| !reigns(seat))
                .into_iter()
                .collect(),
            Who::Everyone => seats.collect(),
        }
    }

    fn crash_for(&mut self, seat: usize, down: u64) {
        if self.seats[seat].process.is_some() {
            let cause = if self.reigning(seat).is_some() { Cause::CoordinatorCrash } else { Cause::Crash };
            self.blame(&[seat], cause);
            self.counters.crashes += 1;
            self.mark_crash(seat);
            self.note(seat, || alloc::format!("crashes for {} ms", down / 1_000_000));
            self.kill(seat);
            self.agenda.push(self.now + down + 1, seat, 0, Event::Boot);
        }
    }

    fn mark_crash(&mut self, seat: usize) {
        let reigns = self.reigning(seat).is_some();
        let Some(process) = &self.seats[seat].process else { return };
        let lanes = &process.lanes;
        let drains = lanes.iter().any(|berth| {
            let mut held = berth.lane.tenures();
            berth.lane.is_live(self.local(seat)) && held.any(|(shard, _)| !self.serves(seat, shard))
        });
        let met = [
            (reigns, Mark::CoordinatorCrashed),
            (drains, Mark::CrashInDrain),
            (lanes.iter().any(|berth| !berth.runs.is_empty()), Mark::CrashInHandler),
            (process.node.is_halting(), Mark::CrashWhileHalting),
            (process.departure.is_some(), Mark::CrashWhileLeaving),
        ];
        self.bereaved.extend(lanes.iter().flat_map(|berth| berth.lane.tenures()).map(|(shard, _)| shard));
        met.into_iter().filter(|(met, _)| *met).for_each(|(_, mark)| self.mark(mark));
    }

    fn pause(&mut self, seat: usize, span: u64) {
        // A pause is never prolonged: what waits for its end would change its order.
        if self.seats[seat].process.is_some() && self.seats[seat].paused_until <= self.now {
            self.blame(&[seat], Cause::Pause);
            if self.reigning(seat).is_some() {
                self.mark(Mark::CoordinatorPaused);
            }
            self.note(seat, || alloc::format!("pauses for {} ms", span / 1_000_000));
            self.seats[seat].paused_until = self.now + span;
        }
    }

    fn freeze(&mut self, seat: usize, span: u64) {
        if self.seats[seat].process.is_some() && self.seats[seat].paused_until <= self.now {
            let (now, until) = (self.now, self.now + span);
            self.blame(&[seat], Cause::Pause);
            self.note(seat, || alloc::format!("is frozen for {} ms", span / 1_000_000));
            self.seats[seat].clock.freeze(now, until);
            (self.seats[seat].paused_until, self.seats[seat].frozen) = (until, true);
            self.clocks_are_broken = true;
            self.push_here(until, seat, Event::Wake);
            self.touch_all(seat);
        }
    }

    /// Cuts one seat off, one way or both ways; or the halves from each other; or single paths. Or delays what is sent on them.
    fn cut(&mut self, seat: usize) {
        let span = self.dice.harm.below(nanos(self.options.timing.session) * 3);
        let span = Duration::from_nanos(if self.dice.harm.chance(1, 2) { span / 4 } else { span });
        let pattern = self.dice.harm.below(7);
        let (me, all) = (alloc::vec![Who::Node(seat + 1)], alloc::vec![Who::Everyone]);
        let paths = |from: &[Who], to: &[Who], both| Paths { from: from.into(), to: to.into(), both, span };
        match pattern {
            0 => self.do_now(Fault::Cut(paths(&me, &all, true))),
            1 => self.do_now(Fault::Cut(paths(&me, &all, false))),
            2 => self.do_now(Fault::Cut(paths(&all, &me, false))),
            3 => {
                let numbers = (1..=self.seats.len()).map(Who::Node);
                let (ours, theirs): (Vec<Who>, Vec<Who>) = numbers.partition(|_| self.dice.harm.chance(1, 2));
                if !ours.is_empty() && !theirs.is_empty() {
                    self.do_now(Fault::Cut(paths(&ours, &theirs, true)));
                }
            }
            // It is heard by nobody while what it hears is old.
            4 => {
                self.do_now(Fault::Cut(paths(&me, &all, false)));
                self.do_now(Fault::Slow(paths(&all, &me, false)));
            }
            // A whole neighbourhood is slow.
            5 => self.do_now(Fault::Slow(paths(&me, &all, true))),
            _ => {
                for from in 1..=self.seats.len() {
                    let to: Vec<Who> = (1..=self.seats.len())
                        .filter(|to| *to != from && self.dice.harm.chance(1, 3))
                        .map(Who::Node)
                        .collect();
                    if !to.is_empty() {
                        self.do_now(Fault::Cut(paths(&[Who::Node(from)], &to, false)));
                    }
                }
            }
        }
    }

    fn pairs_of(&self, paths: &Paths) -> Vec<(usize, usize)> {
        let expand = |all: &[Who]| all.iter().flat_map(|who| self.seats_of(*who)).collect::<Vec<_>>();
        let (from, to) = (expand(&paths.from), expand(&paths.to));
        let there = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
        let back = there.clone().filter(|_| paths.both).map(|(from, to)| (to, from));
        there.chain(back).filter(|(from, to)| from != to).collect()
    }

    fn block(&mut self, paths: &Paths, slow: bool) {
        let until = self.now + nanos(paths.span);
        for (from, to) in self.pairs_of(paths) {
            let ends = if slow { &mut self.clogs[from][to] } else { &mut self.cuts[from][to] };
            *ends = (*ends).max(until);
        }
        let struck: Vec<usize> = paths.from.iter().flat_map(|who| self.seats_of(*who)).collect();
        let reigning = struck.iter().any(|seat| self.reigning(*seat).is_some());
        self.blame(&struck, if reigning { Cause::CoordinatorCut } else { Cause::Cut });
        self.note(0, || alloc::format!("{} {paths}", if slow { "slow" } else { "cut" }));
    }

    fn filter(&mut self, sort: &str, paths: &Paths, release_at: Option<u64>) {
        let Some(sort) = super::fault::known(sort) else { return };
        let ends_at = self.now + nanos(paths.span);
        for (from, to) in self.pairs_of(paths) {
            self.filters.push(Filter { sort, from, to, ends_at, release_at });
        }
        self.blame(&[], Cause::Mail);
        let what = if release_at.is_some() { "held" } else { "dropped" };
        self.note(0, || alloc::format!("{sort} {paths} {what}"));
    }

    /// Whether a datagram of that sort passes.
    pub(super) fn passage(&mut self, sort: &'static str, from: usize, to: usize) -> Passage {
        let now = self.now;
        self.filters.retain(|filter| filter.ends_at > now);
        let fits = |filter: &&Filter| filter.sort == sort && filter.from == from && filter.to == to;
        match self.filters.iter().find(fits) {
            None => Passage::Free,
            Some(Filter { release_at: None, .. }) => Passage::Dropped,
            Some(Filter { release_at: Some(at), .. }) => Passage::HeldUntil((*at).max(now)),
        }
    }
}
