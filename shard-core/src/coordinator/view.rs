//! What a planner may see of the allocator. Everything comes in the order of its key.

use alloc::collections::BTreeMap;

use super::{Allocator, member::Member};
use crate::{
    allocation::Stats,
    id::{Kind, NodeKey, ShardKey, Term, Token},
    time::Instant,
    wire::{Directory, Facts, KindReport},
};

/// One shard that has an owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The shard.
    pub key: ShardKey,
    /// Its owner.
    pub owner: NodeKey,
    /// Its grant.
    pub token: Token,
    /// How far the grant is.
    pub stage: Stage,
}

/// How far a grant is. The diagram stands on the module's page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// Ordered, not seen in a report yet.
    Granting,
    /// The owner's report shows it.
    Held,
    /// Ordered to stop.
    Draining {
        /// When its entities should have stopped. No timer acts on it here: the owner drops by force.
        until: Instant,
    },
}

/// One node with a session.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// The node.
    pub node: NodeKey,
    /// Where it listens.
    pub address: &'a str,
    /// It is being drained and gets nothing.
    pub leaving: bool,
    /// Acks seem not to reach it; it gets nothing until they do.
    pub deaf: bool,
    /// Shards that the table gives it, those under way included.
    pub shards: usize,
    /// Commands that it has not obeyed yet.
    pub commands: usize,
    /// What its operator says about it.
    pub facts: &'a Facts,
    /// Its resources, as it last measured them.
    pub stats: Option<Stats>,
    /// The types it registered, sorted.
    pub kinds: &'a [KindReport],
}

/// Read-only accessors. While this node does not reign all of them are empty.
impl Allocator {
    /// The reign.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.reign.as_ref().map(|reign| reign.term)
    }

    /// Whether shards may be placed at all at `now`.
    #[must_use]
    pub fn may_allocate(&self, now: Instant) -> bool {
        self.reign.as_ref().is_some_and(|reign| reign.may_allocate(now))
    }

    /// Whether `Allocate { key, to }` would be obeyed at `now`.
    #[must_use]
    pub fn placeable(&self, now: Instant, key: ShardKey, to: NodeKey) -> bool {
        self.reign.as_ref().is_some_and(|reign| reign.placeable(now, key, to))
    }

    /// The nodes with a session.
    pub fn nodes(&self, now: Instant) -> impl Iterator<Item = NodeView<'_>> {
        let members = self.reign.as_ref().map(|reign| &reign.members);
        members.into_iter().flat_map(BTreeMap::iter).map(move |(node, member)| view(now, *node, member))
    }

    /// The nodes that a shard of `kind` may be placed on: they host it with the shard count in force, do not leave and are
    /// not deaf.
    pub fn candidates(&self, now: Instant, kind: Kind) -> impl Iterator<Item = NodeView<'_>> {
        let count = self.shards(kind).unwrap_or(0);
        let hosts = move |node: &NodeView<'_>| {
            node.kinds.iter().any(|known| known.kind == kind && known.hosts && known.shards == count && count > 0)
        };
        self.nodes(now).filter(|node| !node.leaving && !node.deaf).filter(hosts)
    }

    /// The shard count in force for a type.
    #[must_use]
    pub fn shards(&self, kind: Kind) -> Option<u32> {
        self.reign.as_ref()?.count(kind)
    }

    /// The types registered in this reign, with their shard counts.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, u32)> {
        self.reign.iter().flat_map(|reign| reign.counts_in_force())
    }

    /// Every shard that has an owner.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.reign.iter().flat_map(|reign| reign.table.places())
    }

    /// Where one shard is.
    #[must_use]
    pub fn place(&self, key: ShardKey) -> Option<Place> {
        self.reign.as_ref()?.table.place(key)
    }

    /// The shards that the table gives a node.
    pub fn held_by(&self, node: NodeKey) -> impl Iterator<Item = ShardKey> {
        let member = self.reign.as_ref().and_then(|reign| reign.members.get(&node));
        member.into_iter().flat_map(|member| &member.holds).copied()
    }

    /// Shards that were asked for or had an owner, and have none.
    pub fn wanted(&self) -> impl Iterator<Item = ShardKey> {
        self.reign.iter().flat_map(|reign| reign.table.homeless())
    }

    /// How many shards are between two homes: being granted or drained. Walks the table.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.places().filter(|place| place.stage != Stage::Held).count()
    }

    /// The directory as the next ack would carry it.
    #[must_use]
    pub fn directory(&self) -> Option<Directory> {
        self.reign.as_ref().map(|reign| reign.directory())
    }
}

fn view(now: Instant, node: NodeKey, member: &Member) -> NodeView<'_> {
    NodeView {
        node,
        address: &member.address,
        leaving: member.leaving,
        deaf: member.deaf(now),
        shards: member.holds.len(),
        commands: member.commands.len(),
        facts: &member.facts,
        stats: member.stats,
        kinds: &member.kinds,
    }
}
