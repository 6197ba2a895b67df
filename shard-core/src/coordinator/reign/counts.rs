//! How many shards each type has: one number for the whole cluster.

use super::{KINDS_MAX, Reign};
use crate::{
    coordinator::Output,
    id::{Kind, NodeKey},
    machine::{Notice, Outbox},
    wire::KindReport,
};

/// How many shards a type has in this reign.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Count {
    shards: u32,
    /// A node that owns shards of the type counts them so.
    proven: bool,
}

impl Reign {
    /// The count in force for a type.
    pub(in super::super) fn count(&self, kind: Kind) -> Option<u32> {
        self.kinds.get(&kind).map(|count| count.shards)
    }

    /// The types registered, with the counts in force.
    pub(in super::super) fn counts_in_force(&self) -> impl Iterator<Item = (Kind, u32)> {
        self.kinds.iter().map(|(kind, count)| (*kind, count.shards))
    }

    /// The types that a node counts otherwise than the cluster, with the cluster's count. Nobody is held to it before the
    /// reign is open: until then an owner may still come and prove another.
    pub(super) fn miscounts(&self, node: NodeKey) -> impl Iterator<Item = (KindReport, u32)> {
        let kinds = self.members.get(&node).map_or(&[][..], |member| &member.kinds);
        let counted = kinds.iter().filter_map(|kind| Some((*kind, self.count(kind.kind)?)));
        counted.filter(|(kind, cluster)| kind.shards != *cluster)
    }

    pub(super) fn note_miscounts(&self, node: NodeKey, out: &mut (impl Outbox<Output> + ?Sized)) {
        for (kind, cluster) in self.miscounts(node).filter(|(kind, _)| kind.shards > 0) {
            let (kind, node_shards) = (kind.kind, kind.shards);
            out.emit(Output::Notice(Notice::ShardCountMismatch { node, kind, cluster, node_shards }));
        }
    }

    /// The count of those who own shards of the type is in force; without any, the first that is registered. Who disagrees
    /// hosts nothing of it. So a node with a wrong count takes nothing over by registering first with a new coordinator.
    pub(super) fn register_kinds(&mut self, from: NodeKey, out: &mut (impl Outbox<Output> + ?Sized)) {
        let Some(member) = self.members.get(&from) else { return };
        for kind in member.kinds.iter().filter(|kind| kind.shards > 0) {
            if self.kinds.len() == KINDS_MAX && !self.kinds.contains_key(&kind.kind) {
                out.emit(Output::Notice(Notice::BoundHit { what: "entity types" }));
                continue;
            }
            let count = self.kinds.entry(kind.kind).or_insert(Count { shards: kind.shards, proven: false });
            if !count.proven && member.owned.iter().any(|owned| owned.key.kind == kind.kind) {
                *count = Count { shards: kind.shards, proven: true };
            }
        }
    }
}
