//! Three voters whose clocks, mail and crashes a test moves by hand.

use std::vec::Vec;

use crate::election::{Election, ElectionConfig, ElectionInput, ElectionOutput};
use crate::id::{Incarnation, NodeId, NodeKey, Term};
use crate::machine::{Fixed, Machine, Rules, Timing};
use crate::time::{Duration, Instant};
use crate::wire::Control;

/// Clocks as bad as rho = 20 % (kappa = 1.5), so that a drift of 800 against 1200 ms is within bounds.
pub(super) fn drifting() -> Timing {
    Timing {
        rate_error_permille: 200,
        session: Duration::from_millis(3_000),
        wait: Duration::from_millis(4_500),
        reign: Duration::from_millis(1_000),
        lease: Duration::from_millis(1_500),
        silence: Duration::from_millis(1_500),
        ..Timing::lan()
    }
}

/// When the first voter campaigns on a fresh bench: Q + 2R.
pub(super) const FIRST: u64 = 2_000;

pub(super) struct Letter {
    pub(super) from: NodeKey,
    pub(super) to: usize,
    pub(super) message: Control,
}

pub(super) struct Bench {
    rules: Rules,
    pub(super) nodes: Vec<Election>,
    pub(super) clocks: Vec<Instant>,
    pub(super) mail: Vec<Letter>,
    /// Every output that is not mail.
    pub(super) said: Vec<(usize, ElectionOutput)>,
    /// What the host's wall clock reads.
    pub(super) wall: u64,
}

impl Bench {
    /// Voters 0, 1 and 2, started at the clock's zero.
    pub(super) fn new(rules: Rules) -> Self {
        let nodes = (0..3).map(|node| Election::new(Instant::ZERO, config(node, 1, rules))).collect();
        Self { rules, nodes, clocks: [Instant::ZERO; 3].into(), mail: Vec::new(), said: Vec::new(), wall: 5 }
    }

    /// Lets each node's clock run by so many milliseconds; nobody acts.
    pub(super) fn pass(&mut self, millis: [u64; 3]) {
        for (clock, millis) in self.clocks.iter_mut().zip(millis) {
            *clock = *clock + Duration::from_millis(millis);
        }
    }

    /// The node's timer fires; the host answers for the wall time.
    pub(super) fn act(&mut self, node: usize) {
        let mut out = Vec::new();
        self.nodes[node].expire(self.clocks[node], &mut out);
        self.take(node, out);
    }

    pub(super) fn handle(&mut self, node: usize, input: ElectionInput) {
        let mut out = Vec::new();
        self.nodes[node].handle(self.clocks[node], input, &mut out);
        self.take(node, out);
    }

    fn take(&mut self, node: usize, out: Vec<ElectionOutput>) {
        for output in out {
            match output {
                ElectionOutput::Send { to, message } => {
                    let from = self.nodes[node].config().me();
                    self.mail.push(Letter { from, to: usize::try_from(to.0).unwrap(), message });
                }
                ElectionOutput::NeedWall => self.handle(node, ElectionInput::Start { wall: self.wall }),
                // What the reign kept alive here stops at once.
                ElectionOutput::Lost { term, .. } => {
                    self.said.push((node, output));
                    self.handle(node, ElectionInput::Stopped { term });
                }
                other => self.said.push((node, other)),
            }
        }
    }

    /// Delivers the oldest letter from `from` to `to`; it must be there.
    pub(super) fn deliver(&mut self, from: u64, to: usize) {
        self.deliver_if(from, to, |_| true);
    }

    /// Delivers the oldest letter from `from` to `to` that `which` picks; it must be there.
    pub(super) fn deliver_if(&mut self, from: u64, to: usize, which: impl Fn(&Control) -> bool) {
        let fits = |letter: &Letter| letter.from.id.0 == from && letter.to == to && which(&letter.message);
        let at = self.mail.iter().position(fits).expect("no such letter");
        let Letter { from, to, message } = self.mail.remove(at);
        self.handle(to, ElectionInput::Heard { from, message });
    }

    /// Delivers everything there is that `passes` lets through, and loses the rest, until there is no mail.
    pub(super) fn settle(&mut self, passes: impl Fn(&Letter) -> bool) {
        while !self.mail.is_empty() {
            let letter = self.mail.remove(0);
            if passes(&letter) {
                self.handle(letter.to, ElectionInput::Heard { from: letter.from, message: letter.message });
            }
        }
    }

    /// Lets all clocks run evenly, by the millisecond, with mail that takes no time.
    pub(super) fn run(&mut self, millis: u64, passes: impl Fn(&Letter) -> bool) {
        for _ in 0..millis {
            self.pass([1; 3]);
            for node in 0..3 {
                if self.nodes[node].deadline().is_some_and(|at| at <= self.clocks[node]) {
                    self.act(node);
                    self.settle(&passes);
                }
            }
        }
    }

    /// Kills the process and starts it anew, with nothing remembered.
    pub(super) fn crash(&mut self, node: usize) {
        let life = self.nodes[node].config().me().incarnation.0 + 1;
        self.nodes[node] = Election::new(self.clocks[node], config(node as u64, life, self.rules));
    }

    /// Makes node 0 the coordinator by the votes of itself and node 2, as early as it can be.
    pub(super) fn elect_first(&mut self) -> Term {
        self.pass([FIRST; 3]);
        self.act(0);
        self.deliver(0, 2);
        self.deliver(2, 0);
        self.mail.clear();
        self.reign(0).expect("two of three voters granted")
    }

    /// Lets node 1 campaign and try node 2's vote; whether that made it coordinator.
    pub(super) fn elect_second(&mut self) -> bool {
        self.mail.clear();
        self.wall = 50;
        self.act(1);
        self.settle(|letter| (letter.from.id.0, letter.to) == (1, 2) || (letter.from.id.0, letter.to) == (2, 1));
        self.reign(1).is_some()
    }

    pub(super) fn reign(&self, node: usize) -> Option<Term> {
        self.nodes[node].reigning(self.clocks[node])
    }

    /// How many nodes reign now: at most one, by I2.
    pub(super) fn reigns(&self) -> usize {
        (0..3).filter(|node| self.reign(*node).is_some()).count()
    }

    pub(super) fn elections(&self) -> usize {
        self.said.iter().filter(|(_, output)| matches!(output, ElectionOutput::Elected { .. })).count()
    }
}

pub(super) const fn key(node: u64, life: u64) -> NodeKey {
    NodeKey { id: NodeId(node), incarnation: Incarnation(life) }
}

pub(super) fn config(node: u64, life: u64, rules: Rules) -> Fixed<ElectionConfig> {
    timed(node, life, rules, drifting())
}

pub(super) fn timed(node: u64, life: u64, rules: Rules, timing: Timing) -> Fixed<ElectionConfig> {
    let voters = (0..3).map(NodeId).collect();
    let config = ElectionConfig::new(key(node, life), voters, timing).expect("these are good");
    Fixed::new(config.with_rules(rules).with_seed(node))
}
