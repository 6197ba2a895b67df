//! One tenant's poison, in a whole cluster: how many others it harms, beside what was calculated.
//!
//! Voters that host nothing call; the other nodes host tenants by [`ByTenant`]: each tenant has a hand of nodes and one
//! shard for each of them. Once everybody is served, the first tenant's first entity begins to crash whatever process runs
//! its handler. The coordinator, who knows nothing of that, gives its shard to the next node of the hand as soon as the
//! dead one's session has ended, and so on until the hand is dead. A crash deals nothing anew (the forget delay is longer
//! than the storm), and shards of a dead hand wait: no spilling.
//!
//! Everything is observed from outside: who died; whose shards lost their owner; which messages were handled and which
//! met another fate. Then the calm comes, everybody starts again, and every promise of the simulator must hold as well.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::cluster::Cluster;
use super::options::{Options, Strategy, ms};
use super::report::Report;
use crate::allocation::{AllocationStrategy, ByTenant, ClusterView, NodeIx, Request};
use crate::id::ShardId;
use crate::prng::mix;
use crate::shuffle::{FlowKey, Isolation, Member, Pick, Roster, ShardSize, WhenAllDown};
use crate::time::{Duration, nanos};

/// Who calls, votes and reigns, and hosts nothing.
const VOTERS: usize = 3;
/// When the poison begins: everybody is served by then.
const FROM: Duration = ms(9_000);
/// So long before that every tenant is called, if chance has not done it.
const CALLED_BEFORE: Duration = ms(3_000);
/// A death, the end of the session, the next grant and the next message take less than this.
const PER_DEATH: Duration = ms(4_000);

/// One tenant poisons the nodes of its hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Poison {
    /// The seed of the run, and of everybody's hands.
    pub seed: u64,
    /// Nodes that host, beside three voters that do not.
    pub hosts: usize,
    /// Nodes in a tenant's hand, and shards of a tenant.
    pub hand: u32,
    /// Tenants, the poisoned one among them.
    pub tenants: u32,
}

/// What it did.
#[derive(Debug)]
pub struct Poisoned {
    /// The nodes that died, by number.
    pub killed: BTreeSet<u64>,
    /// Other tenants, by how many nodes of their hands died.
    pub shared: Vec<u64>,
    /// Other tenants none of whose shards lost its owner, and whose every message since the poison began was handled.
    pub unaffected: u64,
    /// Other tenants that nobody served any more.
    pub dead: u64,
    /// What does not fit: with the hands as they were dealt, or with a promise.
    pub wrong: Vec<String>,
    /// The run.
    pub report: Report,
}

/// Gives each node of a tenant's hand one of the tenant's shards.
struct OneEach(u32);

impl AllocationStrategy for OneEach {
    fn name(&self) -> &'static str {
        "one-each"
    }

    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        let candidates = view.candidates();
        candidates.get((request.shard.0 % self.0) as usize % candidates.len().max(1)).copied()
    }
}

impl Poison {
    /// The default show: hands of three of sixteen nodes, forty tenants.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, hosts: 16, hand: 3, tenants: 40 }
    }

    /// The calculator for such hands.
    ///
    /// # Panics
    /// If the hand is none, or has more nodes than there are.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        let hosts = u32::try_from(self.hosts).unwrap_or(u32::MAX);
        Isolation::new(hosts, self.hand).expect("a hand has at least one node, and no more than there are")
    }

    fn hash(self, tenant: u32) -> u64 {
        FlowKey::new(u128::from(mix(self.seed, 0x9015))).tenant(&tenant.to_string())
    }

    fn options(self) -> Options {
        let strategy = Strategy::new(move || {
            let tenant_of = move |shard: ShardId| Some(self.hash(shard.0 / self.hand));
            ByTenant::new(OneEach(self.hand), ShardSize::Members(self.hand), tenant_of)
                .when_all_down(WhenAllDown::Strict)
                .forgetting_after(Duration::from_secs(3_600))
        });
        let storm = FROM + PER_DEATH * self.hand;
        let options = Options { strategy, storm, poison_from: FROM, callers: VOTERS, ..Options::calm(self.seed) };
        Options {
            nodes: VOTERS + self.hosts,
            voters: VOTERS,
            pure_voters: VOTERS,
            shards: self.tenants * self.hand,
            entities_per_shard: 1,
            // Shards are placed when somebody wants them, and a poisoned one is to be wanted often.
            work_every: ms(20),
            ..options
        }
    }

    /// The hand of a tenant as the library deals it, by node numbers, without any cluster.
    fn hand_of(self, tenant: u32) -> BTreeSet<u64> {
        let hosts = (VOTERS as u64 + 1)..=(VOTERS + self.hosts) as u64;
        let mut members: Vec<Member> = hosts.map(|id| Member::new(id, 0)).collect();
        let mut picks = alloc::vec![Pick::default(); members.len()];
        let roster = Roster::new(&mut members).expect("every node has its own id");
        let hand = roster.deal(self.hash(tenant), ShardSize::Members(self.hand), &mut picks).unwrap_or_default();
        hand.iter().map(|pick| roster.members()[pick.index()].id).collect()
    }

    /// Runs it.
    ///
    /// # Panics
    /// As [`isolation`](Self::isolation).
    #[must_use]
    pub fn run(&self) -> Poisoned {
        let mut wrong = Vec::new();
        let _ = self.isolation();
        let hands: Vec<BTreeSet<u64>> = (0..self.tenants).map(|tenant| self.hand_of(tenant)).collect();
        let mut cluster = Cluster::new(self.options());
        // Shards are placed when somebody wants them: everybody is called once, lest chance forget one.
        cluster.play_until(nanos(FROM - CALLED_BEFORE));
        let called: Vec<_> = (0..VOTERS).flat_map(|seat| cluster.called_by(seat).map(move |it| (seat, it))).collect();
        for (seat, entity) in called {
            cluster.send_message(seat, entity, false);
        }
        cluster.play_until(nanos(FROM));
        let first = cluster.model.entries.len();
        for (tenant, hand) in hands.iter().enumerate() {
            let owners = self.owners(&cluster, tenant);
            if owners != *hand {
                wrong.push(format!("tenant {tenant} is on {owners:?}, and its hand is {hand:?}"));
            }
        }
        cluster.play_until(nanos(FROM + PER_DEATH * self.hand) - 1);
        let killed: BTreeSet<u64> =
            (1..=cluster.seats.len() as u64).filter(|id| cluster.seats[*id as usize - 1].process.is_none()).collect();
        if killed != hands[0] {
            wrong.push(format!("{killed:?} died, and the hand of the poison is {:?}", hands[0]));
        }
        let (mut shared, mut dead) = (alloc::vec![0; self.hand as usize + 1], 0);
        for (tenant, hand) in hands.iter().enumerate().skip(1) {
            let lost = hand.intersection(&killed).count();
            shared[lost] += 1;
            // Whoever has a node left is served, by the rest of the hand and nobody else.
            let (owners, left) = (self.owners(&cluster, tenant), &(hand - &killed));
            if owners != *left {
                wrong.push(format!("tenant {tenant} is served by {owners:?}, and {left:?} is left of its hand"));
            }
            dead += u64::from(owners.is_empty());
        }
        let (sent, bereaved) = (cluster.model.entries.len(), core::mem::take(&mut cluster.bereaved));
        cluster.play_until(u64::MAX);
        // Everybody's fate is known only now.
        let unserved = cluster.model.entities_unserved(first.min(sent)..sent);
        let mut unaffected = 0;
        for (tenant, hand) in hands.iter().enumerate().skip(1) {
            let own = tenant as u32 * self.hand..(tenant as u32 + 1) * self.hand;
            let whole = own.clone().all(|shard| !bereaved.contains(&ShardId(shard)));
            let served = own.into_iter().all(|shard| !unserved.contains(&(shard as usize)));
            let missed = hand.is_disjoint(&killed);
            if whole != missed || (missed && !served) {
                wrong
                    .push(format!("tenant {tenant} on {hand:?}: owners kept: {whole}, all messages handled: {served}"));
            }
            unaffected += u64::from(whole && served);
        }
        let report = cluster.end();
        if let Some(violation) = &report.violation {
            wrong.push(format!("{}: {}", violation.property, violation.witness));
        }
        Poisoned { killed, shared, unaffected, dead, wrong, report }
    }

    /// Who serves the tenant's shards now.
    fn owners(self, cluster: &Cluster, tenant: usize) -> BTreeSet<u64> {
        let own = tenant as u32 * self.hand..(tenant as u32 + 1) * self.hand;
        let seats = 0..cluster.seats.len();
        let serves = |seat: &usize| own.clone().any(|shard| cluster.live_owner(*seat, ShardId(shard)).is_some());
        seats.filter(serves).map(|seat| seat as u64 + 1).collect()
    }
}

impl fmt::Display for Poisoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others: u64 = self.shared.iter().sum();
        let Self { report, killed, unaffected, dead, .. } = self;
        write!(
            f,
            "seed {}: nodes {killed:?} died; of {others} other tenants {unaffected} fully unaffected, ",
            report.seed
        )?;
        write!(f, "{:?} lost 0, 1, .. nodes, {dead} are without a node; ", self.shared)?;
        write!(f, "{} messages, {} handled", report.counters.messages, report.counters.handled)?;
        self.wrong.iter().try_for_each(|wrong| write!(f, "\n  WRONG: {wrong}"))
    }
}

/// What many runs did together.
#[derive(Clone, Debug, Default)]
pub struct Toll {
    /// Runs.
    pub runs: u64,
    /// Other tenants, by how many nodes of their hands died.
    pub shared: Vec<u64>,
    /// Other tenants that were fully unaffected.
    pub unaffected: u64,
    /// Runs in which something did not fit.
    pub wrong: u64,
}

impl Toll {
    /// Counts one more run, of hands of one size.
    pub fn add(&mut self, run: &Poisoned) {
        self.runs += 1;
        self.wrong += u64::from(!run.wrong.is_empty());
        self.unaffected += run.unaffected;
        self.shared.resize(self.shared.len().max(run.shared.len()), 0);
        self.shared.iter_mut().zip(&run.shared).for_each(|(sum, one)| *sum += one);
    }

    /// Other tenants, in all runs.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.shared.iter().sum()
    }

    /// The square of how far the number of unaffected tenants lies from the calculated one, in standard errors. Whatever
    /// hand is poisoned, the other tenants' hands are independent of it and of each other, so the number is binomial.
    #[must_use]
    pub fn deviation_squared(&self, isolation: &Isolation) -> f64 {
        let (many, law) = (self.others() as f64, isolation.overlap()[0]);
        let off = self.unaffected as f64 - many * law;
        off * off / (many * law * (1.0 - law)).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_are_dealt_alike_for_all_and_differ_by_seed() {
        let hands = |seed| (0..40).map(|tenant| Poison::new(seed).hand_of(tenant)).collect::<BTreeSet<_>>();
        assert!(hands(1).iter().all(|hand| hand.len() == 3 && hand.iter().all(|id| (4..=19).contains(id))));
        assert!(hands(1).len() > 30 && hands(1) != hands(2));
    }

    /// The hands alone, without clusters: many more of them than clusters can be run, so the bound is tight.
    #[test]
    fn hands_of_many_seeds_overlap_as_calculated() {
        let mut toll = Toll { shared: alloc::vec![0], ..Toll::default() };
        for seed in 0..20_000 {
            let dealt: Vec<_> = (0..40).map(|tenant| Poison::new(seed).hand_of(tenant)).collect();
            toll.shared[0] += 39;
            toll.unaffected += dealt[1..].iter().filter(|hand| hand.is_disjoint(&dealt[0])).count() as u64;
        }
        // As for the clusters: four standard errors, which are 0.0023 of the share here.
        let (isolation, share) = (Poison::new(0).isolation(), toll.unaffected as f64 / toll.others() as f64);
        assert!(toll.deviation_squared(&isolation) < 16.0, "{share} of {}", toll.others());
    }
}
