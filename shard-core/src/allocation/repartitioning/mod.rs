//! Moves that bring together what talks to each other: Orleans' activation repartitioning, for shards and in one place.

mod balance;
mod exchange;
mod graph;
mod heavy;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};

use super::held::Held;
use super::shared::Source;
use super::switch::{Report, Switch};
use super::{AllocationStrategy, ClusterView, Ledger, Limits, Needs, NodeIx, Plan, Rejected, Request, Why};
use crate::id::{NodeKey, ShardId};
use crate::time::{Duration, Instant};
pub use balance::Balance;
use balance::Heats;
use exchange::{Exchanges, Movable};
use graph::Graph;
pub use heavy::{HeavyKeys, HeavyPairs};

/// Moves shards that talk to each other onto one node, after Orleans' activation repartitioning (10.0) and the paper behind
/// it (Newell and others 2016), around a strategy that places and evens out.
///
/// Pairs of nodes exchange shards, those with most to gain first. In each step the shard that takes most off what goes from
/// node to node follows what it talks to: alone if the nodes stay even enough, else another takes its place. So what goes
/// from node to node ([`Report::cut_ppm`]) never rises. A step must gain a part of what the shards in it say
/// ([`gaining`](Self::gaining)), and begins with a shard that is drawn by an edge which is a good part of what either end says
/// ([`heeding`](Self::heeding)): where everybody talks to everybody nothing moves, as chance is no reason.
///
/// The two do not work against each other. Nodes may be a tolerance apart ([`tolerating`](Self::tolerating)): what is within
/// it stays so, and the moves by which the inner strategy would even it out further ([`Why::Count`], [`Why::Load`]) are not
/// made. While nodes are further apart, the inner strategy evens them out, and exchanges add nothing to that. Tell by
/// [`keeping_even`](Self::keeping_even) what it is that the inner one evens out. A shard moved for what it talks to is not
/// moved by the inner strategy within the cool-down; one that a rule of the inner strategy then takes back is left to it from
/// then on. Filters belong around this strategy, not within it, and a rule that fixes every home leaves nothing to gain.
///
/// What talks to what is [`ClusterView::edges`]; while nobody observes it, this is the inner strategy and nothing else. Every
/// node takes part in it as the coordinator sees it, so there are no offers to get lost and no half exchanges.
///
/// Suspended, resumed and watched through [`switch`](Self::switch), or through a clone of the `Shared` it was made with. While
/// suspended, the inner strategy goes on and keeps to the tolerance.
#[derive(Clone, Debug)]
pub struct Repartitioning<S, C = Switch> {
    inner: S,
    switch: C,
    terms: Terms,
    stay: BTreeSet<ShardId>,
    brought: BTreeMap<ShardId, Brought>,
    /// The last round had moves.
    busy: bool,
    /// Memory kept between rounds; it carries no meaning from one to the next.
    held: Held,
    ledger: Ledger,
}

/// A shard that was moved for what it talks to.
#[derive(Clone, Copy, Debug)]
struct Brought {
    to: NodeKey,
    at: Instant,
    /// How often, without a long rest in between.
    times: u32,
}

impl Brought {
    fn is_there(&self, view: &ClusterView<'_>, shard: ShardId) -> bool {
        view.counted(shard).is_some_and(|ix| view.node(ix).id == self.to)
    }

    /// How long it stays: twice as long each time.
    fn stay(&self, cool_down: Duration) -> Duration {
        cool_down.saturating_mul(1 << (self.times.saturating_sub(1)).min(10))
    }

    /// The same, moved again.
    fn again(former: Option<Self>, to: NodeKey, at: Instant, cool_down: Duration) -> Self {
        let times = former.map_or(1, |it| {
            if it.at == at {
                // Asked twice at one moment.
                return it.times;
            }
            if at.since(it.at) >= it.stay(cool_down).saturating_mul(16) { 1 } else { it.times.saturating_add(1) }
        });
        Self { to, at, times }
    }
}

#[derive(Clone, Copy, Debug)]
struct Terms {
    balance: Balance,
    tolerance_permille: u32,
    tolerance_shards: u32,
    min_gain_permille: u32,
    strong_permille: u32,
    strong_weight: u32,
    cool_down: Duration,
    at_once: usize,
}

impl<S, C: Source<Switch>> Repartitioning<S, C> {
    /// `inner` places and evens out. Nodes may be 100 thousandths of the mean count apart, two shards at least; a step gains 10
    /// thousandths of what its shards say, and follows an edge with 50 thousandths and a weight of 10; a shard that came less
    /// than a minute ago stays; 50 shards are on their way at once.
    #[must_use]
    pub const fn new(inner: S, switch: C) -> Self {
        let terms = Terms {
            balance: Balance::Counts,
            tolerance_permille: 100,
            tolerance_shards: 2,
            min_gain_permille: 10,
            strong_permille: 50,
            strong_weight: 10,
            cool_down: Duration::from_secs(60),
            at_once: 50,
        };
        let stay = BTreeSet::new();
        let brought = BTreeMap::new();
        Self { inner, switch, terms, stay, brought, busy: false, held: Held::new(), ledger: Ledger::new() }
    }

    /// What must stay even: that which the inner strategy evens out. Counts, unless said otherwise.
    #[must_use]
    pub const fn keeping_even(mut self, balance: Balance) -> Self {
        self.terms.balance = balance;
        self
    }

    /// The fullest candidate may have `permille` thousandths of the mean more than the emptiest, or `shards` shards of mean
    /// weight if that is more.
    #[must_use]
    pub const fn tolerating(mut self, permille: u32, shards: u32) -> Self {
        (self.terms.tolerance_permille, self.terms.tolerance_shards) = (permille, shards);
        self
    }

    /// A step must take `permille` thousandths of what the shards it moves say off what goes from node to node.
    #[must_use]
    pub const fn gaining(mut self, permille: u32) -> Self {
        self.terms.min_gain_permille = permille;
        self
    }

    /// A shard follows another if what they say to each other is `permille` thousandths of all that either says, and `weight`
    /// at least: where weights are messages, fewer than ten may have been chance.
    #[must_use]
    pub const fn heeding(mut self, permille: u32, weight: u32) -> Self {
        (self.terms.strong_permille, self.terms.strong_weight) = (permille, weight);
        self
    }

    /// A shard that came less than `cool_down` ago stays. One that is moved for what it talks to again and again stays twice as
    /// long each time, a thousand times as long at most, until it has rested sixteen times as long as that: what is observed
    /// varies, and where two nodes draw a shard about alike it would follow every change.
    #[must_use]
    pub const fn cooling_down(mut self, cool_down: Duration) -> Self {
        self.terms.cool_down = cool_down;
        self
    }

    /// No move while `moves` shards are on their way, whoever sent them.
    #[must_use]
    pub const fn at_once(mut self, moves: usize) -> Self {
        self.terms.at_once = moves;
        self
    }

    /// These shards are never moved for what they talk to. They still draw others, and count as what their nodes carry.
    #[must_use]
    pub fn without(mut self, shards: impl IntoIterator<Item = ShardId>) -> Self {
        self.stay.extend(shards);
        self
    }

    /// The switch, or what shares it.
    pub const fn switch(&mut self) -> &mut C {
        &mut self.switch
    }

    /// What was found and done so far.
    pub fn report(&mut self) -> Report {
        self.switch.consult(|switch| switch.report())
    }
}

impl<S: AllocationStrategy, C: Source<Switch>> AllocationStrategy for Repartitioning<S, C> {
    fn name(&self) -> &'static str {
        "repartitioning"
    }

    fn needs(&self) -> Needs {
        self.inner.needs().with_traffic()
    }

    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.inner.place(view, request)
    }

    /// What the inner plan costs, and while edges are known O(shards + edges log edges), with O(s log s + e) for each pair of
    /// nodes that has something to exchange, between them `s` shards and `e` edges.
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        if view.edges().is_empty() {
            return self.plan_inner(view, plan, false);
        }
        let even = self.heats(view, plan).is_even(view);
        self.plan_inner(view, plan, even);
        let suspended = self.switch.consult(|switch| switch.suspended(view.now()));
        let room = self.terms.at_once.saturating_sub(view.in_flight() + plan.moves().len()).min(plan.budget());
        if suspended.is_some() || room == 0 {
            return;
        }
        let graph = Graph::of(view, plan, (self.terms.strong_permille, self.terms.strong_weight));
        let cut_ppm = graph.cut_ppm(view);
        let moves = self.exchange(view, plan, graph, room);
        let completed = u64::from(core::mem::replace(&mut self.busy, moves > 0) && moves == 0);
        self.switch.consult(|switch| {
            let report = switch.report_mut();
            report.cut_ppm = cut_ppm;
            report.cycles += 1;
            report.moves += moves as u64;
            report.completed += completed;
        });
    }
}

impl<S: AllocationStrategy, C: Source<Switch>> Repartitioning<S, C> {
    fn heats(&self, view: &ClusterView<'_>, plan: &Plan<'_>) -> Heats {
        let Terms { balance, tolerance_permille, tolerance_shards, .. } = self.terms;
        Heats::of(view, plan, balance, tolerance_permille, tolerance_shards)
    }

    /// The inner strategy's moves, without those that even out what is even enough and those of shards brought lately.
    fn plan_inner(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>, even: bool) {
        let before = plan.moves().len();
        let cool_down = self.terms.cool_down;
        let lately = self
            .brought
            .iter()
            .filter(|(shard, brought)| view.now().since(brought.at) < cool_down && brought.is_there(view, **shard));
        let mut lately = lately.map(|(shard, _)| *shard).peekable();
        let seen = if lately.peek().is_some() { self.held.hold(view, lately) } else { *view };
        if even {
            // What this plan has moved so far is in flight for the inner strategy's own limit.
            let in_flight = view.in_flight() + plan.moves().len();
            let seen = ClusterView { in_flight, ..seen };
            let limits = Limits { moves_per_round_max: plan.budget(), in_flight_max: usize::MAX };
            for wanted in self.ledger.round(&mut self.inner, &seen.with_counts(plan.counts()), limits) {
                let idle = matches!(wanted.why, Why::Count | Why::Load);
                if !idle && plan.propose(wanted.shard, wanted.to, wanted.why) == Err(Rejected::BudgetSpent) {
                    break;
                }
            }
        } else {
            self.inner.plan(&seen, &mut plan.within(&seen));
        }
        for m in &plan.moves()[before..] {
            let ruled = !matches!(m.why, Why::Count | Why::Load);
            if self.brought.remove(&m.shard).is_some_and(|brought| ruled && brought.to == view.node(m.from).id) {
                self.stay.insert(m.shard);
            }
        }
    }

    /// Lets pairs of nodes exchange shards; returns how many were moved.
    fn exchange(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>, graph: Graph, room: usize) -> usize {
        let cool_down = self.terms.cool_down;
        let mut stays = alloc::vec![false; view.shards().len()];
        let rests = |(shard, brought): (&ShardId, &Brought)| {
            let rests = brought.is_there(view, *shard) && view.now().since(brought.at) < brought.stay(cool_down);
            rests.then_some(*shard)
        };
        for shard in self.stay.iter().copied().chain(self.brought.iter().filter_map(rests)) {
            if let Some(stays) = stays.get_mut(shard.0 as usize) {
                *stays = true;
            }
        }
        // Where a shard is, if it may be moved.
        let movable = |plan: &Plan<'_>, shard: ShardId| {
            let home = view.home(shard).filter(|home| view.is_candidate(*home) && !stays[shard.0 as usize])?;
            (!plan.is_moving(shard) && view.age(shard)? >= cool_down).then_some((home, shard))
        };
        let talking = view.shards().filter(|shard| !graph.links(*shard).is_empty());
        let pairs = exchange::pairs(view, &graph, talking.filter_map(|shard| movable(plan, shard)));
        if pairs.is_empty() {
            return 0;
        }
        let mut involved = alloc::vec![false; view.nodes().len()];
        pairs.iter().flatten().for_each(|ix| involved[ix.at()] = true);
        let movable = Movable::of(view.nodes().len(), || {
            let here = view.shards().filter(|shard| view.home(*shard).is_some_and(|home| involved[home.at()]));
            here.filter_map(|shard| movable(plan, shard))
        });
        let heats = self.heats(view, plan);
        let mut exchanges =
            Exchanges { view, graph, heats, movable, min_gain_permille: self.terms.min_gain_permille, room };
        let before = plan.moves().len();
        for pair in pairs {
            if exchanges.room == 0 {
                break;
            }
            exchanges.run(plan, pair);
        }
        let moves = &plan.moves()[before..];
        for m in moves {
            let former = self.brought.get(&m.shard).copied();
            let brought = Brought::again(former, view.node(m.to).id, view.now(), cool_down);
            self.brought.insert(m.shard, brought);
        }
        moves.len()
    }
}
