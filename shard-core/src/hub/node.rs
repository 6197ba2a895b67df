//! The node that users hold.

use std::future::poll_fn;
use std::string::{String, ToString};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;
use std::vec::Vec;

use super::builder::NodeBuilder;
use super::clock;
use super::events::EventStream;
use super::hosting::{Proxy, Sharding};
use super::runtime::{Runtime, timeout};
use super::shared::{Counters, Shared, ToControl, lock};
use crate::entity::{Entity, Protocol, Wire};
use crate::hash;
use crate::id::{NodeId, NodeKey, ShardId, ShardKey};
use crate::machine::{Fixed, Timing};
use crate::node::{ConfigError, Explanation, Input};
use crate::passivation::LimitReport;
use crate::region::stream::StreamConfig;

/// How long a node that leaves waits for the acknowledgement of what it said.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// One node of a cluster. Dropping it stops it without handing anything over; [`leave`](Self::leave) does it properly.
pub struct Node<R: Runtime> {
    pub(super) shared: Arc<Shared>,
    pub(super) runtime: R,
    pub(super) timing: Timing,
    pub(super) lanes: u32,
    /// The strategy of types that say none.
    pub(super) allocation: String,
    pub(super) stream: Fixed<StreamConfig>,
}

impl<R: Runtime> core::fmt::Debug for Node<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node")
            .field("key", &self.shared.me)
            .field("cluster", &self.shared.cluster)
            .finish_non_exhaustive()
    }
}

impl<R: Runtime + Default> Node<R> {
    /// Begins a node of the cluster called `cluster`, on the executor that this is called on.
    pub fn builder(cluster: impl Into<String>) -> NodeBuilder<R> {
        Self::builder_on(R::default(), cluster)
    }
}

impl<R: Runtime> Node<R> {
    /// Begins a node on a given executor.
    pub fn builder_on(runtime: R, cluster: impl Into<String>) -> NodeBuilder<R> {
        NodeBuilder::new(runtime, cluster.into())
    }

    /// This process, as the cluster knows it.
    #[must_use]
    pub fn key(&self) -> NodeKey {
        self.shared.me
    }

    /// Where other nodes reach it; empty without a network.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Begins hosting entities of type `E` on this node.
    pub fn sharding<E: Entity>(&self) -> Sharding<'_, R, E>
    where
        E::Message: Wire,
    {
        Sharding::new(self)
    }

    /// Begins sending to entities of a type that lives on other nodes.
    pub fn proxy<M: Wire>(&self) -> Proxy<'_, R, M> {
        Proxy::new(self)
    }

    /// What happens from now on.
    #[must_use]
    pub fn events(&self) -> EventStream {
        self.shared.events.listen()
    }

    /// Waits until this node's session lives, and the coordinator knows its types and every shard that lives: from then on
    /// shards are placed. In a cluster that starts that takes W, some 3 s, longer than in one that runs. Bound it with a timeout of your own: a
    /// cluster without a quorum never gets there.
    ///
    /// # Errors
    /// The cluster counts the shards of a type otherwise, or the node has stopped.
    pub async fn joined(&self) -> Result<(), ConfigError> {
        poll_fn(|cx| {
            let mut standing = lock(&self.shared.standing);
            if let Some((kind, (node, cluster))) = standing.refused.iter().next() {
                let name = self.shared.door(*kind).map_or("?", |door| door.name());
                let (entity_type, cluster, node) = (name.to_string(), *cluster, *node);
                return Poll::Ready(Err(ConfigError::ShardCount { entity_type, cluster, node }));
            }
            if standing.left {
                return Poll::Ready(Err(ConfigError::Stopped));
            }
            if standing.live && standing.confirmed {
                return Poll::Ready(Ok(()));
            }
            standing.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// How the node stands right now.
    #[must_use]
    pub fn status(&self) -> Status {
        let standing = lock(&self.shared.standing).clone();
        let name = |kind| self.shared.door(kind).map_or_else(String::new, |door| door.name().to_string());
        Status {
            node: self.shared.me,
            live: standing.live,
            reigning: standing.reigning,
            coordinator: standing.term.map(|term| term.node),
            voters_version: standing.voters.0,
            voters_in_force: standing.voters.1,
            nodes: standing.nodes,
            shards: standing.shards.into_iter().map(|(kind, owned)| (name(kind), owned)).collect(),
            counters: self.shared.tallies.read(),
        }
    }

    /// If this node is the coordinator, gives that up in good order: another voter follows within a few round trips, and no
    /// shard stops, here or elsewhere. Whether this node has ceased to reign after two leases at most; false also if it is
    /// the only voter, which has nobody to give it to. [`leave`](Self::leave) does this by itself.
    pub async fn resign(&self) -> bool {
        let reigning = || lock(&self.shared.standing).reigning;
        if reigning() {
            self.shared.input(Input::Resign);
            let over = poll_fn(|cx| {
                let mut standing = lock(&self.shared.standing);
                if !standing.reigning || standing.left {
                    return Poll::Ready(());
                }
                standing.waiting.push(cx.waker().clone());
                Poll::Pending
            });
            timeout(&self.runtime, self.timing.lease * 2, over).await;
        }
        !reigning()
    }

    /// Goes on to the next set of voters, `version`, which differs from the one that runs here by one voter, added or
    /// removed. Tell every node, in any order. What a node has accepted belongs into its configuration
    /// ([`voters`](NodeBuilder::voters), [`voters_version`](NodeBuilder::voters_version)), for when it starts again it must
    /// not go back; what it has refused does not. To swap a voter takes two versions, and the second can be loaded once
    /// [`Event::VotersInForce`](super::Event) or [`Status::voters_in_force`] names the first. A coordinator that is not
    /// among the new voters resigns by itself. The set that runs already changes nothing.
    ///
    /// # Errors
    /// [`ConfigError::VoterChange`] says what is wrong with the step, and nothing has changed; or the node has stopped.
    pub async fn load_voters<A: Into<String>>(
        &self,
        version: u32,
        voters: impl IntoIterator<Item = (NodeId, A)>,
    ) -> Result<(), ConfigError> {
        let voters = voters.into_iter().map(|(id, address)| (id, address.into())).collect();
        let loaded = Arc::new(OnceLock::new());
        self.shared.tell_control(ToControl::LoadVoters { version, voters, loaded: Arc::clone(&loaded) });
        self.answer(&loaded).await.ok_or(ConfigError::Stopped)?.map_err(ConfigError::VoterChange)
    }

    /// Where the shards of the type live, in ascending order, if this node is the coordinator; nothing on other nodes, or
    /// once the node has stopped. Written down now and then, it is what [`Returning`](crate::allocation::Returning) needs to
    /// bring shards back to their nodes after the whole cluster was stopped.
    pub async fn homes<E: Entity>(&self) -> Vec<(ShardId, NodeId)>
    where
        E::Message: Wire,
    {
        let (kind, homes) = (hash::kind(E::Message::TYPE_NAME), Arc::new(OnceLock::new()));
        self.shared.tell_control(ToControl::Homes { kind, homes: Arc::clone(&homes) });
        self.answer(&homes).await.unwrap_or_default()
    }

    /// Why the shard of the entity `id` is where it is, for an operator who wonders: who owns it, for how long and why, what it
    /// is used, and which nodes could have it. Only the coordinator knows ([`Status::coordinator`]); `None` on other nodes, while
    /// it knows nothing of the type, or once the node has stopped. O(shards of the type), on the control task.
    pub async fn explain<E: Entity>(&self, id: impl AsRef<str>) -> Option<Explanation>
    where
        E::Message: Wire,
    {
        let kind = hash::kind(E::Message::TYPE_NAME);
        let shard = self.shared.door(kind)?.shard_of(id.as_ref());
        let (key, explained) = (ShardKey { kind, shard }, Arc::new(OnceLock::new()));
        self.shared.tell_control(ToControl::Explain { key, explained: Arc::clone(&explained) });
        self.answer(&explained).await.flatten()
    }

    /// How the limit of the type goes on this node: who is awake, how many messages found their entity awake, how many woke
    /// one, how many entities were put to sleep for want of room. At most a second old. `None`: it has no limit, or none of its
    /// entities live here.
    #[must_use]
    pub fn limits<E: Entity>(&self) -> Option<LimitReport>
    where
        E::Message: Wire,
    {
        let door = self.shared.door(hash::kind(E::Message::TYPE_NAME))?;
        door.pool().map(|pool| lock(pool).report())
    }

    /// Another limit for the entities of the type that are awake on this node, in the units of the first. Lanes follow within a
    /// second; if it is lower, they put a sixteenth of their entities to sleep at a time, ten times a second, until it is
    /// reached. False: the type was started without a limit, or not at all.
    pub fn set_limit<E: Entity>(&self, limit: u64) -> bool
    where
        E::Message: Wire,
    {
        let door = self.shared.door(hash::kind(E::Message::TYPE_NAME));
        door.is_some_and(|door| door.pool().map(|pool| lock(pool).set_limit(limit)).is_some())
    }

    /// What the control task puts there; `None`: the node has stopped.
    async fn answer<T: Clone>(&self, slot: &OnceLock<T>) -> Option<T> {
        poll_fn(|cx| {
            let mut standing = lock(&self.shared.standing);
            if let Some(answer) = slot.get() {
                return Poll::Ready(Some(answer.clone()));
            }
            if standing.left {
                return Poll::Ready(None);
            }
            standing.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// [`leave_within`](Self::leave_within) 10 s.
    pub async fn leave(self) -> LeaveReport {
        self.leave_within(Duration::from_secs(10)).await
    }

    /// Hands all shards over, lets the [workers](Self::workers) finish what they have, waits until what this node's callers sent is settled and what it said is acknowledged, then
    /// leaves and stops. If that takes longer than `limit`, it stops all the same, and its session runs out.
    pub async fn leave_within(self, limit: Duration) -> LeaveReport {
        let begun = clock::now();
        let shared = Arc::clone(&self.shared);
        shared.input(Input::HandOver);
        // Its own mail may take as long as it likes; but the node must also get around to leaving.
        let patience = begun + limit.mul_f32(0.8);
        let mut settled_at = None;
        while clock::now() < patience {
            let settled = shared.is_settled();
            // Entities that go may need workers, and workers may send to entities: they go in between.
            if settled || clock::now().since(begun) >= limit / 2 {
                shared.each_crew(|crew| crew.close());
            }
            if settled && shared.crews_are_gone() {
                let since = *settled_at.get_or_insert_with(clock::now);
                // What it said last should arrive; but a node that died will never acknowledge it.
                if shared.is_acknowledged() || clock::now().since(since) >= LAST_WORDS {
                    break;
                }
            }
            self.runtime.sleep(Duration::from_millis(5)).await;
        }
        shared.input(Input::Leave);
        let left = poll_fn(|cx| {
            let mut standing = lock(&shared.standing);
            if standing.left {
                return Poll::Ready(());
            }
            standing.waiting.push(cx.waker().clone());
            Poll::Pending
        });
        let rest = (begun + limit).since(clock::now()).max(Duration::from_millis(100));
        let clean = timeout(&self.runtime, rest, left).await.is_some();
        shared.stop();
        // Lanes tell the fate of what they still keep, and the report counts it. One that a handler holds is not waited for.
        let ended = poll_fn(|cx| {
            lock(&shared.standing).waiting.push(cx.waker().clone());
            if shared.has_no_lanes() { Poll::Ready(()) } else { Poll::Pending }
        });
        timeout(&self.runtime, Duration::from_millis(500), ended).await;
        LeaveReport { clean, took: clock::now().since(begun), counters: shared.tallies.read() }
    }

    /// The protocol's times that this node runs with.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }
}

impl<R: Runtime> Drop for Node<R> {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// How a node stands. See [`Node::status`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The node.
    pub node: NodeKey,
    /// Its session lives: it may own shards.
    pub live: bool,
    /// It is the coordinator.
    pub reigning: bool,
    /// The coordinator it obeys.
    pub coordinator: Option<NodeKey>,
    /// Which set of voters runs here.
    pub voters_version: u32,
    /// The newest set of voters that is known to be in force.
    pub voters_in_force: u32,
    /// Who is in the cluster, as the coordinator last said.
    pub nodes: Vec<NodeKey>,
    /// Shards owned here, per type.
    pub shards: Vec<(String, usize)>,
    /// Counts since the start.
    pub counters: Counters,
}

/// How leaving went. See [`Node::leave_within`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaveReport {
    /// Every shard was handed over. If not, the node's session runs out, and its shards live elsewhere after that.
    pub clean: bool,
    /// How long it took.
    pub took: Duration,
    /// Counts since the start.
    pub counters: Counters,
}
