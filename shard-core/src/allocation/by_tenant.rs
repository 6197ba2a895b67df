//! Every tenant's shards on the tenant's own few nodes.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

use super::layout::Seat;
use super::{AllocationStrategy, ClusterView, Ledger, Limits, Needs, NodeIx, Plan, Rejected, Request, Why};
use crate::id::ShardId;
use crate::machine::Machine;
use crate::shuffle::{Attendance, Heard, Member, Pick, Roster, ShardSize, WhenAllDown, usable};
use crate::time::Duration;

/// Keeps the shards of each tenant on the tenant's hand of nodes, and lets the inner strategy decide among those: a tenant
/// that takes down every node it runs on takes down its hand, and few other tenants have the same one
/// ([`Isolation`](crate::shuffle::Isolation) says how few).
///
/// Hands are dealt by [`Roster::deal`] from the candidates: spread over zones, weighted by capacity, and changed by one
/// node at most when a node comes or goes. A node that vanishes keeps its place in every hand for a while (a minute unless
/// said otherwise), so that a crash does not pass a tenant's poison on to fresh nodes, and so does one that is deaf, as
/// whoever has just crashed seems to be; one that stops taking shards otherwise gives its place up at once. A node is known
/// by its [`NodeId`](crate::id::NodeId), so one that restarts under its own id finds its place. What vanished is remembered by the coordinator that saw it: under a new one, hands are dealt from who is there.
/// Zones are known by the view's numbers for them; should these change, so may the zones that have one node more.
///
/// ```
/// use shard_core::allocation::{ByTenant, LeastShard};
/// use shard_core::shuffle::{FlowKey, ShardSize};
///
/// // Eight shards to a tenant: a shard function puts tenant `t` on shards `8 * t..8 * t + 8`.
/// let key = FlowKey::new(0x5eed);
/// let tenant_of = move |shard: shard_core::id::ShardId| Some(key.tenant(&(shard.0 / 8).to_string()));
/// let strategy = ByTenant::new(LeastShard::default(), ShardSize::Members(4), tenant_of);
/// ```
///
/// The inner strategy sees one tenant at a time: its shards, the nodes of its hand as the only candidates, and the whole
/// cluster's counts. Filters go around it or into it, as with any strategy.
#[derive(Clone)]
pub struct ByTenant<S, F> {
    inner: S,
    tenant_of: F,
    size: ShardSize,
    when_all_down: WhenAllDown,
    attendance: Attendance,
    scratch: Scratch,
}

/// Memory kept between calls; it carries no meaning from one to the next.
#[derive(Clone, Default)]
struct Scratch {
    /// The members, sorted for dealing.
    members: Vec<Member>,
    picks: Vec<Pick>,
    /// The candidates' numbers by their ids.
    present: Vec<(u64, NodeIx)>,
    /// The candidates of one tenant, and per node whether it is one.
    list: Vec<NodeIx>,
    mask: Vec<bool>,
    /// Shards by tenant.
    shards: Vec<(Option<u64>, ShardId)>,
    /// Per shard: its seat if it is the tenant's, nobody's otherwise.
    seats: Vec<Seat>,
    ledger: Ledger,
}

impl<S, F: Fn(ShardId) -> Option<u64> + Send> ByTenant<S, F> {
    /// `tenant_of` gives the hash of the tenant that a shard belongs to; shards of nobody in particular go wherever the
    /// inner strategy wants them. `size` is that of a hand.
    #[must_use]
    pub fn new(inner: S, size: ShardSize, tenant_of: F) -> Self {
        let (when_all_down, attendance) = (WhenAllDown::Keep, Attendance::new(Duration::from_secs(60)));
        Self { inner, tenant_of, size, when_all_down, attendance, scratch: Scratch::default() }
    }

    /// How long a node that vanished keeps its place in the hands.
    #[must_use]
    pub fn forgetting_after(self, forget_after: Duration) -> Self {
        Self { attendance: Attendance::new(forget_after), ..self }
    }

    /// What happens to a tenant's shards while no node of its hand takes any: they wait (also under
    /// [`Keep`](WhenAllDown::Keep), the default: a shard needs a node that is up), or they
    /// [`Spill`](WhenAllDown::Spill) to as many others, and move back afterwards.
    #[must_use]
    pub fn when_all_down(self, when_all_down: WhenAllDown) -> Self {
        Self { when_all_down, ..self }
    }

    /// The candidates that a tenant's shards may be put on now, in ascending order, by the tenant's hash.
    /// O(nodes log nodes).
    pub fn hand(&mut self, view: &ClusterView<'_>, tenant: u64) -> &[NodeIx] {
        self.attend(view);
        self.deal(view, Some(tenant));
        &self.scratch.list
    }

    /// Learns who is there. O(nodes log nodes).
    fn attend(&mut self, view: &ClusterView<'_>) {
        let now = view.now();
        self.attendance.expire(now, &mut |_| {});
        self.scratch.present.clear();
        self.scratch.present.extend(view.candidates().iter().map(|ix| (view.node(*ix).id.id.0, *ix)));
        self.scratch.present.sort_unstable();
        let candidate = |id| self.scratch.present.binary_search_by_key(&id, |(id, _)| *id).is_ok();
        let absent: Vec<u64> =
            self.attendance.members().iter().map(|member| member.id).filter(|id| !candidate(*id)).collect();
        if !absent.is_empty() {
            // A process that has crashed is deaf for some time before its session is over: it is lost, and did not leave.
            let known = view.nodes().iter().filter(|node| !node.deaf);
            let mut known: Vec<u64> = known.map(|node| node.id.id.0).collect();
            known.sort_unstable();
            for id in absent {
                // Still there but no candidate: it leaves in good order.
                let gone = if known.binary_search(&id).is_ok() { Heard::Left(id) } else { Heard::Lost(id) };
                self.attendance.handle(now, gone, &mut |_| {});
            }
        }
        for ix in view.candidates() {
            let node = view.node(*ix);
            let member = Member::new(node.id.id.0, u64::from(node.zone.0))
                .joined(node.up_since)
                .weighing(NonZeroU32::new(node.capacity).unwrap_or(NonZeroU32::MIN), node.up_since);
            self.attendance.handle(now, Heard::Joined(member), &mut |_| {});
        }
        self.scratch.members.clear();
        self.scratch.members.extend_from_slice(self.attendance.members());
        self.scratch.picks.resize(self.scratch.members.len(), Pick::default());
    }

    /// Lists the candidates of one tenant's hand, or of everybody.
    fn deal(&mut self, view: &ClusterView<'_>, tenant: Option<u64>) {
        let Scratch { members, picks, present, list, mask, .. } = &mut self.scratch;
        list.clear();
        match tenant {
            None => list.extend_from_slice(view.candidates()),
            Some(tenant) => {
                let roster = Roster::new(members).expect("attendance keeps one member per id");
                let place = |pick: &Pick| {
                    let id = roster.members()[pick.index()].id;
                    present.binary_search_by_key(&id, |(id, _)| *id).ok().map(|at| present[at].1)
                };
                let hand = roster.deal(tenant, self.size, picks).expect("there is a pick per member").len();
                list.extend(picks[..hand].iter().filter_map(place));
                if list.is_empty() && self.when_all_down == WhenAllDown::Spill {
                    let order = roster.deal(tenant, ShardSize::All, picks).expect("there is a pick per member");
                    let others = usable(order, hand, WhenAllDown::Spill, |pick| place(pick).is_some());
                    list.extend(others.into_iter().flatten().filter_map(place));
                }
            }
        }
        list.sort_unstable();
        mask.clear();
        mask.resize(view.nodes().len(), false);
        list.iter().for_each(|ix| mask[ix.at()] = true);
    }
}

impl<S: AllocationStrategy, F: Fn(ShardId) -> Option<u64> + Send> AllocationStrategy for ByTenant<S, F> {
    fn name(&self) -> &'static str {
        "by-tenant"
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// O(nodes log nodes), and what the inner strategy costs.
    fn place(&mut self, view: &ClusterView<'_>, request: &Request) -> Option<NodeIx> {
        self.attend(view);
        self.deal(view, (self.tenant_of)(request.shard));
        let Scratch { list, mask, .. } = &self.scratch;
        self.inner.place(&ClusterView { candidates: list, candidate: mask, ..*view }, request)
    }

    /// Tenant by tenant, by their hashes: first the shards that are on candidates outside the tenant's hand, each to where
    /// the inner strategy places it; then the inner strategy's moves among the hand.
    /// O(shards log shards + tenants x (nodes log nodes + what the inner plan costs)).
    fn plan(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>) {
        self.attend(view);
        let mut shards = core::mem::take(&mut self.scratch.shards);
        shards.clear();
        shards.extend(view.shards().map(|shard| ((self.tenant_of)(shard), shard)));
        shards.sort_unstable();
        self.scratch.seats.clear();
        self.scratch.seats.resize(shards.len(), Seat::FREE);
        for own in shards.chunk_by(|a, b| a.0 == b.0) {
            if plan.budget() == 0 {
                break;
            }
            self.deal(view, own[0].0);
            if !self.scratch.list.is_empty() {
                self.fetch(view, plan, own);
                self.balance(view, plan, own);
            }
        }
        self.scratch.shards = shards;
    }
}

impl<S: AllocationStrategy, F> ByTenant<S, F> {
    /// Fetches a tenant's shards to its hand.
    fn fetch(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>, own: &[(Option<u64>, ShardId)]) {
        let Scratch { list, mask, .. } = &self.scratch;
        let narrow = ClusterView { candidates: list, candidate: mask, ..*view };
        for (_, shard) in own {
            let misplaced = view.home(*shard).is_some_and(|home| view.is_candidate(home) && !narrow.is_candidate(home));
            if !misplaced || plan.is_moving(*shard) {
                continue;
            }
            let request = Request::new(*shard, crate::prng::mix(view.seed(), u64::from(shard.0)));
            let to = self.inner.place(&narrow.with_counts(plan.counts()), &request);
            if to.is_some_and(|to| plan.propose(*shard, to, Why::Rule) == Err(Rejected::BudgetSpent)) {
                return;
            }
        }
    }

    /// Lets the inner strategy plan for one tenant. It sees no owner of other tenants' shards, so it cannot move them, and
    /// still sees what each node carries.
    fn balance(&mut self, view: &ClusterView<'_>, plan: &mut Plan<'_>, own: &[(Option<u64>, ShardId)]) {
        let Scratch { list, mask, seats, ledger, .. } = &mut self.scratch;
        for (_, shard) in own {
            if !plan.is_moving(*shard) {
                seats[shard.0 as usize] = view.seats[shard.0 as usize];
            }
        }
        // What this plan has moved so far is in flight for the inner strategy's own limit.
        let in_flight = view.in_flight() + plan.moves().len();
        let narrow = ClusterView { candidates: list, candidate: mask, seats, in_flight, ..*view };
        let limits = Limits { moves_per_round_max: plan.budget(), in_flight_max: usize::MAX };
        for wanted in ledger.round(&mut self.inner, &narrow.with_counts(plan.counts()), limits) {
            if plan.propose(wanted.shard, wanted.to, wanted.why) == Err(Rejected::BudgetSpent) {
                break;
            }
        }
        own.iter().for_each(|(_, shard)| seats[shard.0 as usize] = Seat::FREE);
    }
}

impl<S: fmt::Debug, F> fmt::Debug for ByTenant<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByTenant").field("inner", &self.inner).field("size", &self.size).finish_non_exhaustive()
    }
}
