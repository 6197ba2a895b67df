//! What a node is built from, checked once.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::allocation::UnknownStrategy;
use crate::election::{ElectionConfigError, VoterChangeError};
use crate::id::{NodeId, NodeKey};
use crate::machine::{Rules, Timing, TimingError};
use crate::time::Duration;
use crate::wire::Facts;

/// What a node is built from.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// This process.
    pub me: NodeKey,
    /// Where other nodes reach it; empty for a node that is alone.
    pub address: String,
    /// The voters and where they listen: 1, 3 or 5, the same on every node. They are also the seeds.
    pub voters: Vec<(NodeId, String)>,
    /// Which set of voters that is: 1 for the first that the cluster ever had, one more with each change. A node that starts
    /// again must not go back to an older one (V1), and none starts with one before the one before is known to be in force.
    pub version: u32,
    /// No other node can ever join, and an exclusive lock (or the lack of a network) says that no former process lives: the
    /// node starts at once.
    pub alone: bool,
    /// The protocol's times.
    pub timing: Timing,
    /// How often the planner looks for a better balance.
    pub rebalance: Duration,
    /// What placement rules may look at: roles, zone and so on.
    pub facts: Facts,
    /// The [name](crate::allocation::named) of the strategy by which shards are placed while this node reigns, of types that
    /// it has not registered, or registered without one; `least-shard` unless said otherwise.
    pub allocation: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The rules in force.
    pub rules: Rules,
}

impl NodeConfig {
    /// A node of a cluster.
    #[must_use]
    pub fn new(me: NodeKey, address: impl Into<String>, voters: Vec<(NodeId, String)>) -> Self {
        Self {
            me,
            address: address.into(),
            voters,
            version: 1,
            alone: false,
            timing: Timing::lan(),
            rebalance: Duration::from_secs(2),
            facts: Facts::default(),
            allocation: String::from("least-shard"),
            seed: me.incarnation.0,
            rules: Rules::all(),
        }
    }

    /// A cluster of this one node, which starts at once.
    #[must_use]
    pub fn alone(me: NodeKey) -> Self {
        Self { alone: true, ..Self::new(me, String::new(), alloc::vec![(me.id, String::new())]) }
    }
}

/// Why a node, or a type on it, cannot be started: the configuration is at fault and the text says what to change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The times break an inequality.
    Timing(TimingError),
    /// The voters do.
    Voters(ElectionConfigError),
    /// The type is registered on this node already.
    TypeTaken {
        /// Its name.
        entity_type: &'static str,
    },
    /// Two type names of this node have one hash; rename one.
    KindClash {
        /// The one.
        entity_type: &'static str,
        /// The other.
        other: &'static str,
    },
    /// The cluster uses another number of shards for this type.
    ShardCount {
        /// The type's name.
        entity_type: String,
        /// What the cluster uses.
        cluster: u32,
        /// What this node asked for.
        node: u32,
    },
    /// Not a usable value.
    Setting {
        /// Which setting.
        name: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// Plain TCP leaves this machine only when that is said explicitly.
    NotLoopback {
        /// The address asked for.
        address: String,
    },
    /// The system refused.
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: String,
    },
    /// The next set of voters was not loaded.
    VoterChange(VoterChangeError),
    /// No strategy is called so.
    UnknownStrategy(UnknownStrategy),
    /// The node is leaving or has stopped.
    Stopped,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timing(error) => write!(f, "{error}"),
            Self::Voters(error) => write!(f, "{error}"),
            Self::TypeTaken { entity_type } => {
                write!(f, "entity type `{entity_type}` is already registered on this node")
            }
            Self::KindClash { entity_type, other } => {
                write!(f, "entity types `{entity_type}` and `{other}` have the same hash; rename one of them")
            }
            Self::ShardCount { entity_type, cluster, node } => write!(
                f,
                "entity type `{entity_type}` has {cluster} shards in this cluster, but this node asks for {node}; \
                 the number cannot differ"
            ),
            Self::Setting { name, must } => write!(f, "`{name}` must be {must}"),
            Self::NotLoopback { address } => write!(
                f,
                "{address} is not a loopback address; plain TCP is neither encrypted nor authenticated, so allow it \
                 explicitly (`allow_plain_tcp_anywhere`) or listen on 127.0.0.1"
            ),
            Self::Io { what, error } => write!(f, "{what}: {error}"),
            Self::VoterChange(error) => write!(f, "{error}"),
            Self::UnknownStrategy(error) => write!(f, "{error}"),
            Self::Stopped => f.write_str("this node is leaving or has stopped"),
        }
    }
}

impl core::error::Error for ConfigError {}

impl From<UnknownStrategy> for ConfigError {
    fn from(error: UnknownStrategy) -> Self {
        Self::UnknownStrategy(error)
    }
}

impl From<TimingError> for ConfigError {
    fn from(error: TimingError) -> Self {
        Self::Timing(error)
    }
}

impl From<ElectionConfigError> for ConfigError {
    fn from(error: ElectionConfigError) -> Self {
        Self::Voters(error)
    }
}
