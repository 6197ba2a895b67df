//! Who may talk to whom: the first two frames of every connection (K1).

use alloc::string::String;
use core::fmt;

use crate::id::NodeKey;

/// The version of everything this crate writes to a connection. Nodes of different versions refuse each other.
pub const PROTOCOL: u16 = 4;

/// What a process is to its peers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// The cluster's name; nodes of different clusters refuse each other.
    pub cluster: String,
    /// The version spoken: [`PROTOCOL`], unless a test says otherwise.
    pub protocol: u16,
    /// This process.
    pub node: NodeKey,
    /// Where other nodes reach it.
    pub address: String,
}

/// The dialling end's introduction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hello {
    /// Its cluster.
    pub cluster: String,
    /// The version it speaks.
    pub protocol: u16,
    /// Who it is.
    pub from: NodeKey,
    /// Whom it means to reach, as last known.
    pub to: Option<NodeKey>,
    /// Where it can be dialled back.
    pub address: String,
    /// A second connection beside the one that carries the link, for control frames alone: bulk that waits in the socket of
    /// the first holds up nothing here. Only for whoever is known by the first; has `to`.
    pub aside: bool,
}

/// The answering end's consent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Welcome {
    /// Who answers.
    pub node: NodeKey,
    /// The number of the next frame it waits for: all before it have been delivered.
    pub expected: u64,
}

/// Why a connection was turned away. The dialler learns the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refusal {
    /// The dialler belongs to another cluster.
    WrongCluster {
        /// The dialler's.
        theirs: String,
        /// The answerer's.
        ours: String,
    },
    /// The dialler speaks another version.
    WrongProtocol {
        /// The dialler's.
        theirs: u16,
        /// The answerer's.
        ours: u16,
    },
    /// The dialler wants a node that does not live here. A new life of the same node is no reason to refuse: the
    /// `Welcome` tells the dialler of it, and the dialler ends the old pair (K4).
    WrongNode {
        /// Whom it wants.
        asked: NodeKey,
        /// Who answers.
        here: NodeKey,
    },
    /// The answerer keeps a place for every node id it has met, and has met as many as it may.
    TooManyNodes {
        /// How many.
        known: usize,
    },
    /// The dialler was declared gone for good: it left, or a newer process took its place.
    Gone {
        /// The dialler.
        theirs: NodeKey,
    },
    /// The dialler wants a connection beside that of its link, and has none.
    NotMet {
        /// The dialler.
        theirs: NodeKey,
    },
    /// A process dialled itself.
    SelfConnection {
        /// That process.
        node: NodeKey,
    },
    /// Another process bears this node's id: one of the two is configured wrongly.
    WrongIncarnation {
        /// The dialler.
        theirs: NodeKey,
        /// The answerer.
        ours: NodeKey,
    },
}

impl Identity {
    /// The introduction to a peer, last known as `to`.
    #[must_use]
    pub fn hello(&self, to: Option<NodeKey>) -> Hello {
        Hello {
            cluster: self.cluster.clone(),
            protocol: self.protocol,
            from: self.node,
            to,
            address: self.address.clone(),
            aside: false,
        }
    }

    /// Whether a dialler may come in (K1).
    ///
    /// # Errors
    /// The first thing that does not fit. The version is looked at first: nothing else means anything without it.
    pub fn admit(&self, hello: &Hello) -> Result<(), Refusal> {
        if hello.protocol != self.protocol {
            return Err(Refusal::WrongProtocol { theirs: hello.protocol, ours: self.protocol });
        }
        if hello.cluster != self.cluster {
            return Err(Refusal::WrongCluster { theirs: hello.cluster.clone(), ours: self.cluster.clone() });
        }
        if hello.from == self.node {
            return Err(Refusal::SelfConnection { node: self.node });
        }
        if hello.from.id == self.node.id {
            return Err(Refusal::WrongIncarnation { theirs: hello.from, ours: self.node });
        }
        match hello.to {
            Some(asked) if asked.id != self.node.id => Err(Refusal::WrongNode { asked, here: self.node }),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongCluster { theirs, ours } => {
                write!(f, "wrong cluster: the dialler belongs to {theirs:?}, this node to {ours:?}")
            }
            Self::WrongProtocol { theirs, ours } => {
                write!(f, "wrong protocol version: the dialler speaks {theirs}, this node {ours}")
            }
            Self::WrongNode { asked, here } => write!(f, "wrong node: the dialler wants {asked}, this is {here}"),
            Self::Gone { theirs } => write!(f, "gone: {theirs} has left the cluster or was replaced"),
            Self::NotMet { theirs } => write!(f, "not met: {theirs} has no link here for control frames to be beside"),
            Self::SelfConnection { node } => write!(f, "self-connection: {node} dialled its own address"),
            Self::TooManyNodes { known } => {
                write!(f, "too many nodes: this one has met {known} since it started, and meets no more; restart it")
            }
            Self::WrongIncarnation { theirs, ours } => {
                write!(f, "wrong incarnation: {theirs} bears the id of this node, which is {ours}")
            }
        }
    }
}

impl core::error::Error for Refusal {}
