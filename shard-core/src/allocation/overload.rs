//! When a node has too much to do already, and what it will soon have to do.

use super::{ClusterView, Filter, NodeIx, Stats};

/// Admits nodes that are not overloaded, by what they last measured; those that measured nothing are admitted. Source:
/// Orleans' overload detection, with its limits: more than 95 % of the processors, or more than 90 % of the memory.
///
/// Use it with [`preferring`](super::AllocationStrategy::preferring): under [`only`](super::AllocationStrategy::only) the shards
/// of a node would all be moved away as soon as it is busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotOverloaded {
    cpu_permille: u16,
    memory_permille: u16,
}

impl NotOverloaded {
    /// A node is overloaded above these thousandths of its processors and memory. At 1,000 and more a node never is.
    #[must_use]
    pub const fn new(cpu_permille: u16, memory_permille: u16) -> Self {
        Self { cpu_permille, memory_permille }
    }

    pub(super) fn is_overloaded(&self, stats: &Stats) -> bool {
        let used = u128::from(stats.memory_used) * 1_000;
        let allowed = u128::from(stats.memory_limit) * u128::from(self.memory_permille);
        stats.cpu_permille > self.cpu_permille || (stats.memory_limit > 0 && used > allowed)
    }
}

impl Default for NotOverloaded {
    /// 950 and 900.
    fn default() -> Self {
        Self::new(950, 900)
    }
}

impl Filter for NotOverloaded {
    /// O(1).
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool {
        view.node(node).stats.is_none_or(|stats| !self.is_overloaded(&stats))
    }
}

/// Admits nodes that have a role: Orleans' silo roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HasRole(alloc::string::String);

impl HasRole {
    /// The nodes with `role`.
    #[must_use]
    pub fn new(role: impl Into<alloc::string::String>) -> Self {
        Self(role.into())
    }
}

impl Filter for HasRole {
    /// O(roles).
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool {
        view.node(node).has_role(&self.0)
    }
}

/// How many entities nodes have, or will have soon.
///
/// Reports are old when they are read, so a node is taken to have at least as many entities as its shards, the ones on their way
/// to it included, would have on the other nodes on average: a burst of placements does not go to one node.
pub(super) struct Expected {
    entities: u64,
    shards: u64,
}

impl Expected {
    /// O(candidates).
    pub(super) fn new(view: &ClusterView<'_>) -> Self {
        let (mut entities, mut shards) = (0, 0);
        for ix in view.candidates() {
            if let Some(stats) = view.node(*ix).stats {
                entities += u64::from(stats.entities);
                shards += u64::from(view.count(*ix));
            }
        }
        Self { entities, shards }
    }

    pub(super) fn of(&self, view: &ClusterView<'_>, ix: NodeIx) -> u128 {
        let (count, reported) = (view.count(ix), view.node(ix).stats.map_or(0, |stats| stats.entities));
        // What the others' shards have on average: its own report may be from before its shards came.
        let of_others = u128::from(self.entities - u64::from(reported));
        let shards_of_others = self.shards.saturating_sub(u64::from(count)).max(1);
        (u128::from(count) * of_others / u128::from(shards_of_others)).max(u128::from(reported))
    }
}
