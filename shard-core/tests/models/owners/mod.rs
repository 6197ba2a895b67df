//! Coordinator and regions: the real [`Allocator`] and two real [`Session`]s, one shard. At most one live owner (I1), and
//! nobody's claim meets a table that says otherwise (I7).
//!
//! Who reigns is not decided here: a reign may end at any moment and another begin ([`Source::Reigns`]), as the voters' model
//! promises. Or an external authority holds a key, loses it at any moment, and the coordinator that had it does not notice
//! ([`Source::Authority`]); what makes or keeps an owner is then held back until the authority confirms (rule X2). Grants
//! and drains come whenever the allocator would take them, so the result holds for every strategy.
//!
//! The voters' lists (early exit) are one board ([`Lists::Kept`]): what a majority of the voters holds, at any moment stored
//! anew, and read by the next reign, or not read in time. Without them ([`Lists::Ignored`]) every quarantine lasts W.

mod form;

use std::collections::VecDeque;

use shard_core::coordinator::{self, Allocator, AllocatorConfig, Stage};
use shard_core::id::{Incarnation, Kind, NodeId, NodeKey, ShardId, ShardKey, Term, Token};
use shard_core::machine::{Machine, Notice, Rule, Rules, Timing};
use shard_core::session::{self, Session, SessionConfig};
use shard_core::time::{Duration, Instant};
use shard_core::wire::{Control, Facts, KindReport, List};
use stateright::{Model, Property};

use crate::normal::{FAR, Mail, NOW, Names, UNIT, pass};

const REGIONS: usize = 2;
const KEY: ShardKey = ShardKey { kind: Kind(7), shard: ShardId(0) };

/// The model and its bounds.
#[derive(Clone)]
pub(crate) struct Owners {
    pub(crate) rules: Rules,
    pub(crate) source: Source,
    pub(crate) lists: Lists,
    /// Nodes that may reign. Whoever lost the reign releases nothing any more, so one stands for all that ever have it; a
    /// loser that goes on needs a place of its own. Then each is elected once, in turn.
    pub(crate) seats: usize,
    /// Late frames of one kind between the coordinator and one region that can still matter; of more, the oldest are lost.
    pub(crate) late: usize,
    /// How often regions may crash in all.
    pub(crate) crashes: u8,
    /// Whether shards are ever moved on purpose.
    pub(crate) drains: bool,
    /// Machines look at the clock only when something wakes them.
    pub(crate) lazy: bool,
    /// Whether what leads to harm is harm: a live owner that is not in the table (I4), a claim that the table denies (I7).
    pub(crate) strict: bool,
    pub(crate) timing: Timing,
}

/// Where reigns come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// One reign at a time; the next may begin at any moment.
    Reigns,
    /// A key at an external authority, and how well its holder uses it.
    Authority(Confirm),
}

/// What the voters do with the lists of sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lists {
    /// They confirm each at once, and tell no successor: the quarantine always lasts W.
    Ignored,
    /// They store each some time later and tell successors.
    Kept,
}

/// When a coordinator lets go what it decided (rule X2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Confirm {
    /// Once the authority confirmed, after the decision, that the key is its own.
    After,
    /// At once: it asks nobody.
    Never,
    /// On any confirmation, even one that was asked for before the decision.
    Before,
    /// Once a replica that may not have heard of the loss confirmed it.
    Stale,
    /// As `After`, but its window begins up to W before the key was created (rule X1).
    EarlyWindow,
}

/// A whole world at one moment, in normal form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    seats: Vec<Seat>,
    /// Who has the key.
    holder: Option<usize>,
    /// Who may be elected next.
    next: usize,
    regions: Vec<Region>,
    mail: Vec<Mail>,
    /// What a majority of the voters holds: whether nobody else can have a live session, and who may.
    board: Option<(bool, Vec<NodeKey>)>,
    crashes: u8,
    /// I7 was broken.
    conflict: bool,
}

/// A would-be coordinator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Seat {
    me: NodeKey,
    allocator: Allocator,
    /// What waits for a confirmation, the last for each region.
    held: Vec<Mail>,
    /// A confirmation is under way to it.
    answer: bool,
    /// A list on its way to the voters, and whether they have it.
    listing: Option<(List, bool)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Region {
    me: NodeKey,
    session: Session,
    /// The grant that the lanes were told to drain.
    draining: Option<Token>,
}

/// What may happen next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Clocks make steps: one if the bit is unset, two if it is set; the seats' first, then the regions'.
    Tick(u32),
    /// A reign begins; whether it learns in time what the voters hold.
    Elect(usize, bool),
    /// A majority of the voters stores a list.
    Store(usize),
    /// The coordinator hears of it.
    Stored(usize),
    /// The authority loses the key.
    KeyLoss,
    /// The authority confirms: what is held goes out.
    Confirm(usize),
    /// The authority confirms; the answer takes its time.
    Ask(usize),
    /// That answer arrives: what is held goes out.
    Answer(usize),
    /// A region hears of a reign.
    Announce(usize, usize),
    /// A region's timer fires: a heartbeat, or the end of its session.
    Beat(usize),
    /// A coordinator's timer fires.
    Expire(usize),
    /// The planner places the shard.
    Allocate(usize, usize),
    /// The planner takes the shard away from its owner.
    Drain(usize),
    /// A region's lanes have drained the shard.
    Dropped(usize),
    /// A region's process dies and starts again.
    Crash(usize),
    /// A message arrives.
    Deliver(Mail),
}

impl Owners {
    /// Sessions of `session` steps, a wait of `wait`; two late frames, drains, no crash.
    pub(crate) fn new(session: u32, wait: u32) -> Self {
        let (margin, tick) = (Duration::from_nanos(1), Duration::from_nanos(1));
        // A heartbeat every step, but never sooner: else they would pile up in no time.
        let timing = Timing {
            rate_error_permille: 333,
            heartbeat: UNIT - tick,
            session: UNIT * session,
            wait: UNIT * wait,
            margin,
            ..Timing::lan()
        };
        let reign = Timing { lease: timing.drifted(timing.reign), silence: timing.drifted(timing.reign), ..timing };
        assert_eq!(reign.check(), Ok(()));
        Self {
            rules: Rules::all(),
            source: Source::Reigns,
            lists: Lists::Ignored,
            seats: 1,
            late: 2,
            crashes: 0,
            drains: true,
            lazy: false,
            strict: true,
            timing: reign,
        }
    }

    /// The same, but without `rule`.
    pub(crate) fn without(self, rule: Rule) -> Self {
        Self { rules: self.rules.and_without(rule), ..self }
    }

    fn seat(&self, seat: usize) -> Seat {
        let me = NodeKey { id: NodeId(9 + seat as u64), incarnation: Incarnation(1) };
        let config = AllocatorConfig { me, timing: self.timing.clone(), rules: self.rules, alone: false };
        Seat { me, allocator: Allocator::new(config), held: Vec::new(), answer: false, listing: None }
    }

    fn region(&self, me: NodeKey) -> Region {
        let config = SessionConfig {
            me,
            address: String::new(),
            facts: Facts::default(),
            timing: self.timing.clone(),
            rules: self.rules,
        };
        let mut session = Session::new(NOW, config);
        let kind = KindReport { kind: KEY.kind, shards: 1, hosts: true };
        session.handle(NOW, session::Input::Registered(kind), &mut |_| {});
        Region { me, session, draining: None }
    }

    /// Lets a coordinator hear something, or its timer fire. Commands leave at once.
    fn tell(&self, world: &mut World, seat: usize, now: Instant, input: Option<coordinator::Input>) {
        let mut out = VecDeque::new();
        let Seat { me, allocator, held, listing, .. } = &mut world.seats[seat];
        if let Some(input) = input {
            allocator.handle(now, input, &mut out);
        }
        allocator.expire(NOW, &mut out);
        while let Some(output) = out.pop_front() {
            match output {
                coordinator::Output::Publish(list) if self.lists == Lists::Kept => *listing = Some((list, false)),
                coordinator::Output::Publish(List { term, version, .. }) => {
                    allocator.handle(NOW, coordinator::Input::Confirmed { term, version }, &mut out);
                    allocator.expire(NOW, &mut out);
                }
                coordinator::Output::Send { to, message: Control::Ack(mut ack) } => {
                    // The directory says nothing of who owns what.
                    ack.directory = None;
                    ack.open = false;
                    let mail = Mail { from: *me, to, message: Control::Ack(ack) };
                    if matches!(self.source, Source::Reigns | Source::Authority(Confirm::Never)) {
                        world.mail.push(mail);
                    } else {
                        held.retain(|before| before.to != to);
                        held.push(mail);
                    }
                }
                coordinator::Output::Send { to, message: message @ Control::Dead { .. } } => {
                    world.mail.push(Mail { from: *me, to, message });
                }
                coordinator::Output::Notice(Notice::ConflictingClaim { .. }) => world.conflict = self.strict,
                // Announcements are steps of their own, and nobody asks for homes here.
                _ => {}
            }
        }
    }

    /// Lets a region hear something, or its timer fire. Its lanes stop at once when told.
    fn say(&self, world: &mut World, region: usize, input: Option<session::Input>) {
        let mut out = Vec::new();
        let Region { me, session, draining } = &mut world.regions[region];
        match input {
            Some(input) => session.handle(NOW, input, &mut out),
            None => session.expire(NOW, &mut out),
        }
        let mut stopped = None;
        for output in out {
            match output {
                session::Output::Send { to, message: message @ Control::Heartbeat(_) } => {
                    world.mail.push(Mail { from: *me, to, message });
                }
                session::Output::Drain { token, .. } => *draining = Some(token),
                session::Output::StopAll { session } => (*draining, stopped) = (None, Some(session)),
                _ => {}
            }
        }
        if let Some(session) = stopped {
            self.say(world, region, Some(session::Input::LanesStopped { session }));
        }
    }

    fn confirms(&self, world: &World, seat: usize) -> bool {
        world.holder == Some(seat) || self.source == Source::Authority(Confirm::Stale)
    }
}

impl World {
    /// What is under way.
    pub(crate) fn mail(&self) -> &[Mail] {
        &self.mail
    }

    /// The process that a region is now.
    pub(crate) fn region(&self, region: usize) -> NodeKey {
        self.regions[region].me
    }

    /// The live owners.
    pub(crate) fn owners(&self) -> impl Iterator<Item = NodeKey> {
        self.regions.iter().filter(|region| region.session.owns(NOW, KEY).is_some()).map(|region| region.me)
    }

    /// Every live owner stands in the table of whoever may grant: what I1 rests on.
    fn table_covers_the_owners(&self) -> bool {
        let granting = |seat: &&Seat| seat.allocator.may_allocate(NOW);
        let listed = |seat: &Seat| seat.allocator.place(KEY).map(|place| place.owner);
        self.seats.iter().filter(granting).all(|seat| self.owners().all(|owner| listed(seat) == Some(owner)))
    }

    /// The greatest counter that anybody knows of.
    fn latest(&self) -> u64 {
        Names::of(|f| self.clone().each_mark(f)).counters().last().copied().unwrap_or(0)
    }
}

impl Model for Owners {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let seats = (0..self.seats).map(|seat| self.seat(seat)).collect();
        let key = |region| NodeKey { id: NodeId(1 + region as u64), incarnation: Incarnation(1) };
        let regions = (0..REGIONS).map(|region| self.region(key(region))).collect();
        let mut world =
            World { seats, holder: None, next: 0, regions, mail: Vec::new(), board: None, crashes: 0, conflict: false };
        self.normal(&mut world);
        if self.lists == Lists::Ignored {
            return vec![world];
        }
        // Either the voters know nothing, or a reign before the first one here waited W and had nobody.
        vec![World { board: Some((true, Vec::new())), ..world.clone() }, world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend((0..1_u32 << (world.seats.len() + REGIONS)).map(Step::Tick));
        let authority = self.source != Source::Reigns;
        if world.holder.is_some() && authority {
            steps.push(Step::KeyLoss);
        }
        for (seat, Seat { allocator, held, answer, listing, .. }) in world.seats.iter().enumerate() {
            if (world.holder.is_none() || !authority) && world.next == seat {
                steps.push(Step::Elect(seat, false));
                if world.board.is_some() {
                    steps.push(Step::Elect(seat, true));
                }
            }
            if let Some((_, stored)) = listing {
                steps.push(if *stored { Step::Stored(seat) } else { Step::Store(seat) });
            }
            if self.source == Source::Authority(Confirm::Before) {
                if world.holder == Some(seat) && !answer {
                    steps.push(Step::Ask(seat));
                }
                if *answer && !held.is_empty() {
                    steps.push(Step::Answer(seat));
                }
            } else if !held.is_empty() && self.confirms(world, seat) {
                steps.push(Step::Confirm(seat));
            }
            if self.lazy && allocator.deadline().is_some_and(|at| at <= NOW) {
                steps.push(Step::Expire(seat));
            }
            let Some(term) = allocator.term() else { continue };
            for (region, Region { me, session, .. }) in world.regions.iter().enumerate() {
                if session.term().is_none_or(|known| known < term) {
                    steps.push(Step::Announce(seat, region));
                }
                if allocator.placeable(NOW, KEY, *me) {
                    steps.push(Step::Allocate(seat, region));
                }
            }
            let placed = allocator.place(KEY);
            if self.drains && placed.is_some_and(|place| matches!(place.stage, Stage::Granting | Stage::Held)) {
                steps.push(Step::Drain(seat));
            }
        }
        for (region, Region { session, draining, .. }) in world.regions.iter().enumerate() {
            if session.deadline().is_some_and(|at| at <= NOW) {
                steps.push(Step::Beat(region));
            }
            if draining.is_some() {
                steps.push(Step::Dropped(region));
            }
            if world.crashes < self.crashes {
                steps.push(Step::Crash(region));
            }
        }
        steps.extend(world.mail.iter().cloned().map(Step::Deliver));
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        match step {
            Step::Tick(bits) => {
                let steps = |clock: usize| 1 + (bits >> clock & 1);
                let seats = world.seats.len();
                for (clock, seat) in world.seats.iter_mut().enumerate() {
                    seat.allocator.each_mark(&mut pass(steps(clock)));
                }
                for (clock, region) in world.regions.iter_mut().enumerate() {
                    region.session.each_mark(&mut pass(steps(seats + clock)));
                }
            }
            Step::Elect(seat, told) => {
                let early = self.source == Source::Authority(Confirm::EarlyWindow);
                let since = if early { NOW - self.timing.wait } else { NOW };
                let term = Term { counter: world.latest() + 1, node: world.seats[seat].me };
                let Seat { held, answer, listing, .. } = &mut world.seats[seat];
                held.clear();
                (*answer, *listing) = (false, None);
                world.holder = Some(seat);
                world.next += usize::from(self.seats > 1);
                self.tell(&mut world, seat, since, Some(coordinator::Input::Elected { term }));
                // A majority without one is no evidence, and nobody need be named by the rest.
                let evidence = world.board.clone().filter(|_| told);
                let (complete, carried) = evidence.unwrap_or_default();
                self.tell(&mut world, seat, NOW, Some(coordinator::Input::Evidence { term, complete, carried }));
            }
            Step::Store(seat) => {
                let (list, stored) = world.seats[seat].listing.as_mut()?;
                *stored = true;
                world.board = Some((list.complete, list.members.clone()));
            }
            Step::Stored(seat) => {
                let (List { term, version, .. }, _) = world.seats[seat].listing.take()?;
                self.tell(&mut world, seat, NOW, Some(coordinator::Input::Confirmed { term, version }));
            }
            Step::KeyLoss => {
                let lost = world.holder.take()?;
                // It does not notice, but nothing that it decides will ever be released: as if it were not there.
                if matches!(self.source, Source::Authority(Confirm::After | Confirm::EarlyWindow)) {
                    let term = world.seats[lost].allocator.term()?;
                    world.seats[lost].held.clear();
                    self.tell(&mut world, lost, NOW, Some(coordinator::Input::Lost { term }));
                }
            }
            Step::Confirm(seat) => {
                let held = core::mem::take(&mut world.seats[seat].held);
                world.mail.extend(held);
            }
            Step::Ask(seat) => world.seats[seat].answer = true,
            Step::Answer(seat) => {
                world.seats[seat].answer = false;
                let held = core::mem::take(&mut world.seats[seat].held);
                world.mail.extend(held);
            }
            Step::Announce(seat, region) => {
                let from = world.seats[seat].me;
                let term = world.seats[seat].allocator.term()?;
                let to = world.regions[region].me;
                let message = Control::Announce { term, committed: 0 };
                self.say(&mut world, region, Some(session::Input::Heard { from, to, message }));
            }
            Step::Beat(region) => self.say(&mut world, region, None),
            Step::Expire(seat) => self.tell(&mut world, seat, NOW, None),
            Step::Allocate(seat, region) => {
                let to = world.regions[region].me;
                self.tell(&mut world, seat, NOW, Some(coordinator::Input::Allocate { key: KEY, to }));
            }
            Step::Drain(seat) => {
                // Only a coordinator that breaks the rule looks at this deadline.
                let within = if self.rules.on(Rule::NoForcedHandoff) { FAR.since(NOW) } else { UNIT };
                self.tell(&mut world, seat, NOW, Some(coordinator::Input::Drain { key: KEY, within }));
            }
            Step::Dropped(region) => {
                let token = world.regions[region].draining.take()?;
                self.say(&mut world, region, Some(session::Input::Dropped { key: KEY, token }));
            }
            Step::Crash(region) => {
                let me = world.regions[region].me;
                let me = NodeKey { incarnation: Incarnation(me.incarnation.0 + 1), ..me };
                world.regions[region] = self.region(me);
                world.crashes += 1;
            }
            Step::Deliver(mail) => self.deliver(&mut world, mail),
        }
        self.normal(&mut world);
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("I1: one live owner", |_, world: &World| world.owners().count() <= 1),
            Property::always("I4: the table covers the owners", |model: &Self, world: &World| {
                !model.strict || world.table_covers_the_owners()
            }),
            Property::always("I7: no conflicting claim", |_, world: &World| !world.conflict),
            Property::sometimes("each region owns the shard", |_, world: &World| {
                world.regions[0].session.owns(NOW, KEY).is_some()
            }),
            Property::sometimes("the other region owns the shard", |_, world: &World| {
                world.regions[1].session.owns(NOW, KEY).is_some()
            }),
            Property::sometimes("a reign adopts", |_, world: &World| {
                let adopted = |seat: &Seat| {
                    let token = seat.allocator.place(KEY).map(|place| place.token.counter);
                    token.is_some() && token < seat.allocator.term().map(|term| term.counter)
                };
                world.seats.iter().any(adopted)
            }),
        ]
    }
}

impl Owners {
    fn deliver(&self, world: &mut World, mail: Mail) {
        let Mail { from, to, message } = mail;
        if let Some(seat) = world.seats.iter().position(|seat| seat.me == to) {
            self.tell(world, seat, NOW, Some(coordinator::Input::Heard { from, message }));
        } else if let Some(region) = world.regions.iter().position(|region| region.me.id == to.id) {
            self.say(world, region, Some(session::Input::Heard { from, to, message }));
        }
    }
}
