//! A world in motion: rounds of placing and planning, with moves that take their time, and every answer looked at.

use alloc::{format, string::String, vec::Vec};

use super::Law;
use super::world::{Change, World};
use crate::allocation::{
    AllocationStrategy, ClusterView, Layout, Ledger, Limits, Move, NodeIx, NodeView, Rejected, Request,
};
use crate::id::{Incarnation, NodeKey, ShardId};
use crate::prng::mix;
use crate::time::{Duration, Instant};

/// A law that was broken, and how.
pub(super) type Broken = (Law, String);

/// How long a round takes.
const ROUND: Duration = Duration::from_secs(1);

/// The coordinator's part, as far as strategies can tell: it places what is free, carries moves out, and counts.
pub(super) struct Stage {
    layout: Layout,
    nodes: Vec<NodeView>,
    now: Instant,
    seed: u64,
    round: u32,
    limits: Limits,
    /// The strategy's own limit.
    own_limit: Option<usize>,
    flight: u32,
    flights: Vec<Flight>,
    ledger: Ledger,
    /// Shards that a strategy moved.
    pub(super) moved: usize,
    /// Shards that were free and found a node.
    pub(super) placed: usize,
}

/// A move under way.
struct Flight {
    shard: ShardId,
    to: Option<NodeKey>,
    lands: u32,
}

impl Stage {
    pub(super) fn new(world: &World, own_limit: Option<usize>) -> Self {
        let layout = world.layout();
        let view = layout.view(world.now, 0);
        let started = view.shards().filter(|shard| view.is_moving(*shard));
        let flights = started
            .map(|shard| {
                let to = match world.places[shard.0 as usize] {
                    super::Place::Moving(_, Some(to)) => world.nodes.iter().find(|node| node.id.id == to),
                    _ => None,
                };
                Flight { shard, to: to.map(|node| node.id), lands: world.flight }
            })
            .collect();
        Self {
            flights,
            layout,
            nodes: world.nodes.clone(),
            now: world.now,
            seed: world.seed,
            round: 0,
            limits: world.limits,
            own_limit,
            flight: world.flight,
            ledger: Ledger::new(),
            moved: 0,
            placed: 0,
        }
    }

    /// Lets one round go by; true if anything happened in it or is under way.
    pub(super) fn round(&mut self, strategy: &mut dyn AllocationStrategy) -> Result<bool, Broken> {
        let busy = self.arrivals(strategy)?;
        Ok(self.departures(strategy)? || busy || !self.flights.is_empty())
    }

    /// The first half of a round: moves end, and what is free is placed.
    pub(super) fn arrivals(&mut self, strategy: &mut dyn AllocationStrategy) -> Result<bool, Broken> {
        let landed = self.land();
        Ok(self.place(strategy)? || landed)
    }

    /// The second half: moves begin.
    pub(super) fn departures(&mut self, strategy: &mut dyn AllocationStrategy) -> Result<bool, Broken> {
        let moves = self.plan(strategy)?;
        self.moved += moves;
        self.round += 1;
        self.now = self.now + ROUND;
        Ok(moves > 0)
    }

    /// What `strategy` would move now.
    pub(super) fn planned_by(&self, strategy: &mut dyn AllocationStrategy) -> Vec<Move> {
        let view = self.layout.view(self.now, mix(self.seed, u64::from(self.round)));
        Ledger::new().round(strategy, &view, self.limits).to_vec()
    }

    /// The moves of the last round.
    pub(super) fn moves(&self) -> &[Move] {
        self.ledger.moves()
    }

    /// Lets rounds go by until one has nothing in it; false: there was none within `rounds`.
    pub(super) fn rest(&mut self, strategy: &mut dyn AllocationStrategy, rounds: u32) -> Result<bool, Broken> {
        for _ in 0..rounds {
            if !self.round(strategy)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets time go by in which nobody asks the strategy.
    pub(super) fn pause(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    pub(super) fn nodes(&self) -> &[NodeView] {
        &self.nodes
    }

    /// How many shards a node has.
    pub(super) fn count(&self, id: NodeKey) -> u32 {
        self.layout.find(id).map_or(0, |ix| self.layout.view(self.now, 0).count(ix))
    }

    /// How many nodes take shards.
    pub(super) fn candidates(&self) -> usize {
        self.nodes.iter().filter(|node| node.accepts).count()
    }

    /// The moves of the last round in words, for a strategy that does not come to rest.
    pub(super) fn last_moves(&self) -> String {
        let view = self.layout.view(self.now, 0);
        let address = |ix: NodeIx| &*view.node(ix).address;
        let mut words = String::new();
        for m in self.ledger.moves().iter().take(5) {
            words += &format!(" {} {}>{} ({}),", m.shard.0, address(m.from), address(m.to), m.why);
        }
        words.pop();
        if words.is_empty() { String::from(" none") } else { words }
    }

    /// Something happens to the nodes.
    pub(super) fn change(&mut self, change: &Change) {
        let at = |which: u64, nodes: &[NodeView]| (which % nodes.len().max(1) as u64) as usize;
        match change {
            Change::Join(node) if self.nodes.iter().any(|other| other.id.id == node.id.id) => return,
            Change::Join(node) => self.nodes.push(NodeView { up_since: self.now, ..node.clone() }),
            _ if self.nodes.is_empty() => return,
            Change::Crash(which) => {
                self.nodes.remove(at(*which, &self.nodes));
            }
            Change::Turn(which) => {
                let at = at(*which, &self.nodes);
                let node = &mut self.nodes[at];
                (node.accepts, node.deaf) = (!node.accepts, false);
            }
            Change::Restart(which) => {
                let at = at(*which, &self.nodes);
                let node = &mut self.nodes[at];
                node.id.incarnation = Incarnation(node.id.incarnation.0 + 1);
                node.up_since = self.now;
            }
        }
        self.layout.set_nodes(self.nodes.clone());
        let view = self.layout.view(self.now, 0);
        self.flights.retain(|flight| view.home(flight.shard).is_some());
    }

    /// Ends the moves that have been under way for long enough.
    fn land(&mut self) -> bool {
        let (landed, flights) =
            core::mem::take(&mut self.flights).into_iter().partition::<Vec<_>, _>(|flight| flight.lands <= self.round);
        self.flights = flights;
        landed.iter().for_each(|flight| self.arrive(flight));
        !landed.is_empty()
    }

    fn arrive(&mut self, flight: &Flight) {
        match flight.to.and_then(|to| self.layout.find(to)) {
            Some(to) if self.layout.view(self.now, 0).is_candidate(to) => {
                self.layout.settle(self.now, flight.shard, to);
            }
            _ => self.layout.free(flight.shard),
        }
    }

    fn place(&mut self, strategy: &mut dyn AllocationStrategy) -> Result<bool, Broken> {
        let seed = mix(self.seed, u64::from(self.round));
        let mut placed = false;
        for shard in self.layout.view(self.now, 0).shards() {
            let view = self.layout.view(self.now, seed);
            if view.home(shard).is_some() {
                continue;
            }
            if let Some(ix) = ask(strategy, &view, shard)? {
                self.layout.settle(self.now, shard, ix);
                self.placed += 1;
                placed = true;
            }
        }
        Ok(placed)
    }

    fn plan(&mut self, strategy: &mut dyn AllocationStrategy) -> Result<usize, Broken> {
        let view = self.layout.view(self.now, mix(self.seed, u64::from(self.round)));
        plan(strategy, &view, &mut self.ledger, self.limits, self.own_limit)?;
        for m in self.ledger.moves() {
            let flight = Flight { shard: m.shard, to: Some(self.nodes_by_ix(m.to)), lands: self.round + self.flight };
            self.layout.depart(m.shard, Some(m.to));
            self.flights.push(flight);
        }
        if self.flight == 0 {
            self.land();
        }
        Ok(self.ledger.moves().len())
    }

    fn nodes_by_ix(&self, ix: NodeIx) -> NodeKey {
        self.layout.view(self.now, 0).node(ix).id
    }
}

/// Asks where a shard shall go, and looks at the answer.
pub(super) fn ask(
    strategy: &mut dyn AllocationStrategy,
    view: &ClusterView<'_>,
    shard: ShardId,
) -> Result<Option<NodeIx>, Broken> {
    let seed = mix(view.seed(), u64::from(shard.0));
    let request = Request::new(shard, seed);
    // Some requests come from a node, others from nobody in particular.
    let asker = NodeIx((seed % (view.nodes().len() as u64 + 1)) as u16);
    let request = if asker.at() < view.nodes().len() { request.asked_by(asker) } else { request };
    let answer = strategy.place(view, &request);
    match answer {
        Some(ix) if !view.is_candidate(ix) => {
            let node = view.nodes().get(ix.at()).map_or("a node that does not exist", |node| &node.address);
            Err((Law::Candidates, format!("it placed shard {} on {node}, which takes none", shard.0)))
        }
        answer => Ok(answer),
    }
}

/// Asks for a round of moves, and looks at them.
pub(super) fn plan(
    strategy: &mut dyn AllocationStrategy,
    view: &ClusterView<'_>,
    ledger: &mut Ledger,
    limits: Limits,
    own_limit: Option<usize>,
) -> Result<(), Broken> {
    ledger.round(strategy, view, limits);
    if let Some(m) = ledger.moves().iter().find(|m| !view.is_candidate(m.to)) {
        let to = &view.node(m.to).address;
        return Err((Law::Candidates, format!("it moves shard {} to {to}, which takes none", m.shard.0)));
    }
    let refused = ledger.refused(Rejected::NotACandidate);
    if refused > 0 {
        return Err((Law::Candidates, format!("it proposed {refused} moves to nodes that take none")));
    }
    if let Some(m) = ledger.moves().iter().find(|m| view.is_moving(m.shard)) {
        return Err((Law::InFlight, format!("it moves shard {}, which is on its way", m.shard.0)));
    }
    if ledger.misled() > 0 {
        let how = format!("it proposed {} moves of shards on their way, by a copy in which they rest", ledger.misled());
        return Err((Law::InFlight, how));
    }
    let (moves, under_way) = (ledger.moves().len(), view.in_flight());
    let most = limits.in_flight_max.min(own_limit.unwrap_or(usize::MAX));
    if moves > 0 && moves + under_way > most || moves > limits.moves_per_round_max {
        let Limits { moves_per_round_max, .. } = limits;
        let how =
            format!("{moves} moves while {under_way} are in flight: {moves_per_round_max} a round, {most} at once");
        return Err((Law::Limits, how));
    }
    // Every part of a strategy may run into the end of the plan once.
    let pressed = ledger.refused(Rejected::BudgetSpent);
    if pressed as usize > view.nodes().len() + 1 {
        return Err((Law::Limits, format!("it went on to propose {pressed} moves when the plan was full")));
    }
    Ok(())
}
