//! Voters and coordinators: three real [`Election`]s. At most one reign at a time (I2), and no reign comes back (I5).
//!
//! Two nodes campaign at any time they like, with any counter that orders them differently; the third only votes. Frames may
//! come late, twice, in any order or never; any node may crash at any time and forget everything; each clock makes one step
//! or two while the others make one.

use shard_core::election::{Campaign, Election, ElectionConfig, ElectionInput, ElectionOutput};
use shard_core::id::{Incarnation, NodeId, NodeKey, Term};
use shard_core::machine::{Fixed, Machine, Mark, Rule, Rules, Timing};
use shard_core::time::{Duration, Instant};
use shard_core::wire::Control;
use stateright::{Model, Property};

use crate::normal::{FAR, Mail, NOW, Names, SPACE, UNIT, mail_marks, pass, settle};

const NODES: usize = 3;
/// Lives of one node that a state can still name.
const LIVES: u64 = 12;

/// The model and its bounds.
pub(crate) struct Voters {
    pub(crate) rules: Rules,
    /// How many of the three nodes campaign.
    pub(crate) candidates: usize,
    /// How often nodes may crash in all; none: as often as they like.
    pub(crate) crashes: Option<u8>,
    /// Machines look at the clock only when something wakes them.
    pub(crate) lazy: bool,
    pub(crate) configs: Vec<Vec<Fixed<ElectionConfig>>>,
}

/// A whole world at one moment, in normal form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    nodes: Vec<Node>,
    mail: Vec<Mail>,
    crashes: u8,
    /// I5 was broken.
    revived: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    me: NodeKey,
    machine: Election,
    /// The term that it still names was in force and is no more.
    over: bool,
}

/// What may happen next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Every clock makes this many steps.
    Tick([u32; NODES]),
    /// A node campaigns, with a counter that is at least this.
    Campaign(usize, u64),
    /// A timer fires: a round, or the end of a candidacy or reign.
    Expire(usize),
    /// A node gives up.
    GiveUp(usize),
    /// A node dies with all it knew and starts again.
    Crash(usize),
    /// A message arrives.
    Deliver(Mail),
}

impl Voters {
    /// Two candidates, machines that look at the clock in time, any number of crashes; reigns of `reign` steps, leases and
    /// silences of `lease`.
    pub(crate) fn new(reign: u32, lease: u32) -> Self {
        let timing = Timing {
            // Two clocks differ by a factor of two.
            rate_error_permille: 333,
            reign: UNIT * reign,
            lease: UNIT * lease,
            silence: UNIT * lease,
            renew: UNIT,
            // No evidence is waited for.
            evidence: FAR.since(NOW),
            candidacy: UNIT * reign,
            stagger: Duration::ZERO,
            ..Timing::lan()
        };
        let timing = Timing { wait: timing.drifted(timing.session), ..timing };
        let voters: Vec<_> = (0..NODES).map(|node| key(node, 1).id).collect();
        let config = |node, life| {
            let config = ElectionConfig::new(key(node, life), voters.clone(), timing.clone());
            Fixed::new(config.expect("the times are safe"))
        };
        let configs = (0..NODES).map(|node| (1..=LIVES).map(|life| config(node, life)).collect()).collect();
        Self { rules: Rules::all(), candidates: 2, crashes: None, lazy: false, configs }
    }

    /// The same, but without `rule`.
    pub(crate) fn without(mut self, rule: Rule) -> Self {
        self.rules = self.rules.and_without(rule);
        for config in self.configs.iter_mut().flatten() {
            *config = Fixed::new(ElectionConfig::clone(config).with_rules(self.rules));
        }
        self
    }

    fn config(&self, me: NodeKey) -> Fixed<ElectionConfig> {
        self.configs[place_of(me.id)][usize::try_from(me.incarnation.0).expect("few lives") - 1].clone()
    }

    fn born(&self, me: NodeKey) -> Node {
        Node { me, machine: Election::new(NOW, self.config(me)), over: false }
    }

    /// Lets a node hear something, or its timer fire, and posts what it says.
    fn act(&self, world: &mut World, node: usize, input: Option<ElectionInput>) {
        let mut out = Vec::new();
        let Node { me, machine, .. } = &mut world.nodes[node];
        match input {
            Some(input) => machine.handle(NOW, input, &mut out),
            None => machine.expire(NOW, &mut out),
        }
        let mut ended = None;
        for output in out {
            match output {
                // A refusal does what giving up does, so it need not be carried.
                ElectionOutput::Send { message: Control::LeaseRefused { .. }, .. } => {}
                ElectionOutput::Send { to, message } => {
                    let to = NodeKey { id: to, incarnation: Incarnation(1) };
                    world.mail.push(Mail { from: *me, to, message });
                }
                // What the reign kept alive on this node stops at once. Later is as if the mail were late.
                ElectionOutput::Lost { term, resigned: false } => ended = Some(term),
                // Nobody has sessions here, so there is nothing to list.
                ElectionOutput::NeedWall
                | ElectionOutput::Elected { .. }
                | ElectionOutput::Evidence { .. }
                | ElectionOutput::Confirmed { .. }
                | ElectionOutput::Committed { .. }
                | ElectionOutput::Lost { .. }
                | ElectionOutput::Notice(_) => {}
            }
        }
        if let Some(term) = ended {
            self.act(world, node, Some(ElectionInput::Stopped { term }));
        }
    }

    /// The timer of a node that waits fires at once, whatever its pace.
    fn campaign(&self, world: &mut World, node: usize, counter: u64) {
        world.nodes[node].machine.each_mark(&mut |mark| {
            if let Mark::Pace(at) = mark {
                *at = NOW;
            }
        });
        self.act(world, node, None);
        self.act(world, node, Some(ElectionInput::Start { wall: counter }));
    }

    /// The counters by which a candidacy of `node` can differ from another: between any two that are in use, or equal to one
    /// that only others use. The node's own vote, at least, must not be against it.
    fn counters(&self, world: &World, node: usize) -> Vec<u64> {
        let names = Names::of(|f| world.clone().each_mark(f));
        let promised = world.nodes[node].machine.voter().map_or(0, |voter| voter.promised().counter);
        let me = world.nodes[node].me;
        let mut mine = Vec::new();
        world.clone().each_mark(&mut |mark| {
            if let Mark::Term(term) | Mark::Fallback(term) = mark
                && term.node == me
            {
                mine.push(term.counter);
            }
        });
        let ties = names.counters().iter().copied().filter(|at| *at > promised && !mine.contains(at));
        let above = core::iter::once(promised).chain(names.counters().iter().copied());
        let mut found: Vec<_> = above.filter(|at| *at >= promised).map(|at| at + SPACE / 2).chain(ties).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn normal(&self, world: &mut World, before: &[Option<Term>]) {
        if !self.lazy {
            (0..NODES).for_each(|node| self.act(world, node, Some(ElectionInput::Start { wall: 0 })));
        }
        for (node, before) in world.nodes.iter_mut().zip(before) {
            node.settle();
            let named = node.machine.campaign().and_then(Campaign::term);
            let valid = node.machine.reigning(NOW);
            node.over |= before.is_some_and(|before| Some(before) == named && valid != Some(before));
            world.revived |= node.over && valid.is_some() && valid == named;
            node.over &= named.is_some();
        }
        world.mail.sort_unstable();
        world.mail.dedup();
        let mail = core::mem::take(&mut world.mail);
        world.mail = mail.into_iter().filter(|mail| self.matters(world, mail)).collect();
        world.forget();
        let names = Names::of(|f| world.each_mark(f));
        world.each_mark(&mut |mark| names.give(mark));
        for node in &mut world.nodes {
            let config = self.config(node.me);
            node.machine.rename(config);
        }
        world.mail.sort_unstable();
    }

    /// Whether a machine would ever take notice of a message: as long as the answer is no for the state at hand, it stays
    /// no. The machines themselves are asked, so that a machine without a rule is not spared what the rule was for.
    fn matters(&self, world: &World, mail: &Mail) -> bool {
        let Mail { from, to, message } = mail;
        match message {
            // A vote that was counted, or cannot count any more, only ties the voter: as if its mail were lost.
            Control::LeaseRequest { term, round, .. } => {
                let granted = Control::LeaseGranted { term: *term, round: *round, config: 1, stored: None };
                let candidate = &world.nodes[place_of(from.id)];
                candidate.me == *from && candidate.notices(*to, granted)
            }
            // A vote for a former life, or for a round that is over, is of use only to one that doesn't look, and to that one
            // perhaps later.
            Control::LeaseGranted { term, .. } if !self.rules.on(Rule::Incarnation) => term.node.id == to.id,
            Control::LeaseGranted { term, .. } if !self.rules.on(Rule::OneRound) => {
                world.nodes[place_of(to.id)].machine.campaign().and_then(Campaign::term) == Some(*term)
            }
            message => world.nodes[place_of(to.id)].notices(*from, message.clone()),
        }
    }
}

impl World {
    fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        for node in &mut self.nodes {
            f(Mark::Node(&mut node.me));
            node.machine.each_mark(f);
        }
        for mail in &mut self.mail {
            let to = mail.to;
            mail_marks(mail, f);
            // Votes and requests are for whatever life is there.
            mail.to = to;
        }
    }

    /// Which terms can still be asked for or given up by someone.
    fn alive(&self, term: Term) -> bool {
        let named = |mail: &Mail| match &mail.message {
            Control::LeaseRequest { term: named, .. } | Control::Release { term: named, .. } => *named == term,
            _ => false,
        };
        self.nodes.iter().any(|node| node.machine.campaign().and_then(Campaign::term) == Some(term))
            || self.mail.iter().any(named)
    }

    /// Drops memory that at most keeps a voter from granting: what it promised before; what it promises now, once it is
    /// lent to nobody and nobody can name that term any more; and which candidacies a node has given up. Disjoint reigns
    /// rest on whom a voter is lent to, so a world of more forgetful voters does more and must do no harm either.
    fn forget(&mut self) {
        for node in 0..NODES {
            let Some(voter) = self.nodes[node].machine.voter() else { continue };
            let promised = voter.promised();
            let idle = voter.holder(NOW).is_none() && !self.alive(promised);
            self.nodes[node].machine.each_mark(&mut |mark| match mark {
                Mark::Term(term) if idle && *term == promised => *term = Term::default(),
                Mark::Fallback(term) | Mark::Spent(term) => *term = Term::default(),
                _ => {}
            });
        }
    }
}

impl Node {
    fn settle(&mut self) {
        let valid_until = self.machine.valid_until().unwrap_or(Instant::ZERO);
        self.machine.each_mark(&mut settle(valid_until));
    }

    /// Whether a message would change the machine, apart from looking at the clock.
    fn notices(&self, from: NodeKey, message: Control) -> bool {
        let (mut with, mut without) = (self.clone(), self.clone());
        with.machine.handle(NOW, ElectionInput::Heard { from, message }, &mut |_| {});
        without.machine.handle(NOW, ElectionInput::Start { wall: 0 }, &mut |_| {});
        [&mut with, &mut without].into_iter().for_each(|node| {
            node.settle();
            node.machine.each_mark(&mut |mark| {
                if let Mark::Spent(term) = mark {
                    *term = Term::default();
                }
            });
        });
        with != without
    }
}

impl Model for Voters {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let nodes = (0..NODES).map(|node| self.born(key(node, 1))).collect();
        let mut world = World { nodes, mail: Vec::new(), crashes: 0, revived: false };
        self.normal(&mut world, &[None; NODES]);
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for bits in 0..1_u32 << NODES {
            steps.push(Step::Tick(core::array::from_fn(|node| 1 + (bits >> node & 1))));
        }
        for node in 0..NODES {
            if world.nodes[node].machine.deadline().is_some_and(|at| at <= NOW) {
                steps.push(Step::Expire(node));
            }
            match world.nodes[node].machine.campaign() {
                Some(Campaign::Idle { .. }) if node < self.candidates => {
                    steps.extend(self.counters(world, node).into_iter().map(|counter| Step::Campaign(node, counter)));
                }
                Some(Campaign::Candidate { .. } | Campaign::Reigning { .. }) => steps.push(Step::GiveUp(node)),
                _ => {}
            }
            if self.crashes.is_none_or(|most| world.crashes < most) {
                steps.push(Step::Crash(node));
            }
        }
        steps.extend(world.mail.iter().cloned().map(Step::Deliver));
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        match step {
            Step::Tick(clocks) => {
                for (node, steps) in world.nodes.iter_mut().zip(clocks) {
                    node.machine.each_mark(&mut pass(steps));
                }
            }
            Step::Campaign(node, counter) => self.campaign(&mut world, node, counter),
            Step::Expire(node) => self.act(&mut world, node, None),
            Step::GiveUp(node) => self.act(&mut world, node, Some(ElectionInput::StepDown)),
            Step::Crash(node) => {
                let me = world.nodes[node].me;
                let me = NodeKey { incarnation: Incarnation(me.incarnation.0 + 1), ..me };
                world.nodes[node] = self.born(me);
                world.crashes += u8::from(self.crashes.is_some());
            }
            Step::Deliver(Mail { from, to, message }) => {
                self.act(&mut world, place_of(to.id), Some(ElectionInput::Heard { from, message }));
            }
        }
        let before: Vec<_> = last.nodes.iter().map(|node| node.machine.reigning(NOW)).collect();
        self.normal(&mut world, &before);
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("I2: reigns are disjoint", |_, world: &World| world.reigns() <= 1),
            Property::always("I5: no reign comes back", |_, world: &World| !world.revived),
            Property::sometimes("somebody reigns", |_, world: &World| world.reigns() == 1),
            Property::sometimes("the second candidate reigns", |_, world: &World| {
                world.nodes[1].machine.reigning(NOW).is_some()
            }),
            Property::sometimes("a candidate has no chance any more", |_, world: &World| {
                world.reigns() == 1 && world.nodes.iter().any(|node| node.candidate())
            }),
        ]
    }
}

impl World {
    fn reigns(&self) -> usize {
        self.nodes.iter().filter(|node| node.machine.reigning(NOW).is_some()).count()
    }
}

impl Node {
    fn candidate(&self) -> bool {
        matches!(self.machine.campaign(), Some(Campaign::Candidate { .. }))
    }
}

/// The process that a node is in one of its lives.
fn key(node: usize, life: u64) -> NodeKey {
    NodeKey { id: NodeId(1 + node as u64), incarnation: Incarnation(life) }
}

fn place_of(id: NodeId) -> usize {
    usize::try_from(id.0).expect("three nodes") - 1
}
