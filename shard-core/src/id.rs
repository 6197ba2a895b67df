//! Identities: nodes, shards, terms and tokens. All are `Copy`, ordered, and mean the same on every node.

use core::fmt;

/// A node's lasting name. Voters carry one from their configuration; other nodes may draw a random one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeId(pub u64);

/// One life of a node: drawn at random when the process starts, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Incarnation(pub u64);

/// One process of the cluster: a node in one of its lives. Frames name both ends by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeKey {
    /// The node.
    pub id: NodeId,
    /// Which of its lives.
    pub incarnation: Incarnation,
}

/// An entity type as nodes name it to each other: the low 32 bits of the hash of its name ([`crate::hash::kind`]).
/// Two names with one `Kind` on one node are a configuration error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Kind(pub u32);

/// A shard of one entity type: `0..shards`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ShardId(pub u32);

/// A shard, with its entity type: the unit that has one owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ShardKey {
    /// The entity type.
    pub kind: Kind,
    /// The shard within it.
    pub shard: ShardId,
}

/// The name of one reign: unique by construction, even if an amnesiac node repeats a counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Term {
    /// Grows with every candidacy that a node knows of.
    pub counter: u64,
    /// The candidate.
    pub node: NodeKey,
}

/// The name of one grant of one shard. Of two tokens of a shard, the later grant has the greater one; tokens of
/// different shards are never compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Token {
    /// The counter of the term that granted.
    pub counter: u64,
    /// The coordinator that granted.
    pub node: NodeId,
    /// The number of the grant within the reign.
    pub number: u32,
}

/// A place in a slab, with the generation that tells its tenants apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    /// Where.
    pub index: u32,
    /// Which tenant.
    pub generation: u32,
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04x}", self.id, self.incarnation.0 & 0xffff)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}/{}", self.kind.0, self.shard)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}@{}", self.counter, self.node)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}#{}", self.counter, self.node, self.number)
    }
}
