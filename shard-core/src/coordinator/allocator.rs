//! The allocator machine ("A" in the protocol): its doors. What happens inside a reign stands in `reign.rs`.

use alloc::{collections::BTreeSet, vec::Vec};

use super::{AllocatorConfig, Input, Output, reign::Reign};
#[cfg(any(test, feature = "sim"))]
use crate::machine::{Mark, instants};
use crate::{
    id::{NodeKey, Term},
    machine::{Fixed, Machine, Notice, Outbox, Rule},
    time::{Instant, soonest},
    wire::{Control, Heartbeat},
};

/// The book-keeping of one coordinator. Idle while this node does not reign.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Allocator {
    pub(super) config: Fixed<AllocatorConfig>,
    /// Whom to tell who reigns. At most one process per node id, besides what [`Input::Peers`] listed.
    peers: BTreeSet<NodeKey>,
    pub(super) reign: Option<Reign>,
    /// The newest version of the voters that is known to be in force, told to every node (V5).
    committed: u32,
}

impl Machine for Allocator {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Instant, input: Input, out: &mut (impl Outbox<Output> + ?Sized)) {
        if self.config.rules.on(Rule::AdvanceFirst)
            && let Some(reign) = &mut self.reign
        {
            reign.advance(now, out);
        }
        match input {
            Input::Elected { term } => self.elected(now, term, out),
            Input::Lost { term } => {
                if self.reign.as_ref().is_some_and(|reign| reign.term == term) {
                    self.reign = None;
                    out.emit(Output::Notice(Notice::ReignEnded { term }));
                }
            }
            Input::Evidence { term, complete, carried } => {
                if let Some(reign) = self.reign.as_mut().filter(|reign| reign.term == term) {
                    reign.evidence(complete, carried);
                }
            }
            Input::Confirmed { term, version } => {
                if let Some(reign) = self.reign.as_mut().filter(|reign| reign.term == term) {
                    reign.confirmed(now, version, out);
                }
            }
            Input::Committed { version } => {
                self.committed = version.max(self.committed);
                if let Some(reign) = &mut self.reign {
                    reign.committed = self.committed;
                }
            }
            Input::Resign => {
                if let Some(reign) = &mut self.reign {
                    reign.resign(now);
                }
            }
            Input::Peers(nodes) => self.peers_are(nodes, out),
            Input::Met { node } => self.met(node, out),
            Input::Heard { from, message } => self.heard(now, from, message, out),
            Input::Allocate { key, to } => {
                if let Some(reign) = &mut self.reign {
                    reign.allocate(now, key, to);
                }
            }
            Input::Drain { key, within } => {
                if let Some(reign) = &mut self.reign {
                    reign.drain(now, key, within);
                }
            }
        }
        if let Some(reign) = &mut self.reign {
            reign.call_the_roll(now, out);
        }
    }

    fn expire(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        if let Some(reign) = &mut self.reign {
            reign.advance(now, out);
            reign.call_the_roll(now, out);
            reign.flush(now, out);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let reign = self.reign.as_ref()?;
        soonest(soonest(reign.roll_deadline(), reign.flush_at), reign.expiry_deadline())
    }
}

impl Allocator {
    /// An allocator that does not reign and knows nobody.
    #[must_use]
    pub fn new(config: AllocatorConfig) -> Self {
        Self { config: Fixed::new(config), peers: BTreeSet::new(), reign: None, committed: 0 }
    }

    /// The edge into a reign: everything starts empty, every node known is told.
    fn elected(&mut self, now: Instant, term: Term, out: &mut (impl Outbox<Output> + ?Sized)) {
        let me = self.config.me;
        if term.node != me || self.reign.as_ref().is_some_and(|reign| reign.term >= term) {
            return;
        }
        let committed = self.committed;
        let reign = self.reign.insert(Reign::new(now, term, self.config.clone()));
        reign.committed = committed;
        let others = self.peers.iter().copied().filter(|node| *node != me);
        for to in core::iter::once(me).chain(others) {
            out.emit(Output::Send { to, message: Control::Announce { term, committed } });
        }
    }

    fn peers_are(&mut self, nodes: Vec<NodeKey>, out: &mut (impl Outbox<Output> + ?Sized)) {
        let before = core::mem::take(&mut self.peers);
        self.peers.extend(nodes);
        for node in self.peers.difference(&before) {
            self.announce_to(*node, out);
        }
    }

    fn met(&mut self, node: NodeKey, out: &mut (impl Outbox<Output> + ?Sized)) {
        self.peers.retain(|known| known.id != node.id || *known == node);
        self.peers.insert(node);
        self.announce_to(node, out);
    }

    fn announce_to(&self, to: NodeKey, out: &mut (impl Outbox<Output> + ?Sized)) {
        if let Some(Reign { term, committed, .. }) = self.reign {
            out.emit(Output::Send { to, message: Control::Announce { term, committed } });
        }
    }

    fn heard(&mut self, now: Instant, from: NodeKey, message: Control, out: &mut (impl Outbox<Output> + ?Sized)) {
        match message {
            Control::Heartbeat(heartbeat) => self.heartbeat(now, from, heartbeat, out),
            Control::Nack { max_term } => {
                if let Some(reign) = &mut self.reign {
                    reign.learn(max_term, out);
                }
            }
            Control::Lookup { key } => {
                if let Some(reign) = &mut self.reign {
                    reign.lookup(now, from, key, out);
                }
            }
            Control::WhoReigns => self.announce_to(from, out),
            // The other messages are for voters, regions and lanes.
            _ => {}
        }
    }

    /// G2: only a heartbeat of this very term is a report made in this reign. An older one was sent before the election
    /// and may describe what has been granted anew since.
    fn heartbeat(&mut self, now: Instant, from: NodeKey, beat: Heartbeat, out: &mut (impl Outbox<Output> + ?Sized)) {
        let Some(reign) = &mut self.reign else { return };
        if beat.term != reign.term && self.config.rules.on(Rule::HeartbeatTerm) {
            reign.learn(beat.term, out);
            if beat.term < reign.term {
                let message = Control::Announce { term: reign.term, committed: reign.committed };
                out.emit(Output::Send { to: from, message });
            }
            return;
        }
        reign.heartbeat(now, from, beat, out);
    }

    /// Visits every instant of the state, so that a model checker can shift them all.
    #[cfg(any(test, feature = "sim"))]
    pub fn each_instant(&mut self, visit: &mut dyn FnMut(&mut Instant)) {
        self.each_mark(&mut instants(visit));
    }

    /// Shows everything that a model checker may rename, but for the processes themselves.
    #[cfg(any(test, feature = "sim"))]
    pub fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        if let Some(reign) = &mut self.reign {
            reign.each_mark(f);
        }
    }
}
