//! What an entity sees of its surroundings while it handles a message.

use alloc::{borrow::ToOwned, sync::Arc};
use core::{fmt, num::NonZeroU32};

use super::{
    Accepts, Entities, Entity, EntityId, EntityRef, Failure, Protocol, ReplyTo,
    host::{End, Tenure, Wishes},
    refs::unregistered,
};
use crate::id::{ShardId, Token};
use crate::time::{Duration, Instant};

/// Who an entity is, in this life: handed to the factory and readable in every turn. Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    id: EntityId,
    activation: u64,
    pub(super) tenure: Arc<Tenure>,
}

impl Identity {
    /// For hosts: an entity started for the `activation`th time under `tenure`. Of two lives of one entity under one
    /// token, the later must get the greater number.
    #[must_use]
    pub fn new(tenure: Arc<Tenure>, id: EntityId, activation: u64) -> Self {
        Self { id, activation, tenure }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &EntityId {
        &self.id
    }

    /// The name of its type.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.tenure.kind()
    }

    /// Its shard.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.tenure.shard()
    }

    /// The grant under which its shard lives here.
    #[must_use]
    pub fn token(&self) -> Token {
        self.tenure.token()
    }

    /// Which of its lives under that grant.
    #[must_use]
    pub const fn activation(&self) -> u64 {
        self.activation
    }

    /// What a store compares: an older life must not overwrite what a newer one wrote.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence { token: self.token(), activation: self.activation }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind(), self.id)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("kind", &self.kind())
            .field("id", &self.id)
            .field("shard", &self.shard())
            .field("token", &self.token())
            .field("activation", &self.activation)
            .finish()
    }
}

/// One life of one entity, ordered: the later life of an entity has the greater fence. Those of different entities are
/// never compared.
///
/// A store that checks it keeps out what a former life had still on its way, also where a clock broke its bound:
///
/// - **Claim before reading** (F1), in one statement, in `started`: `UPDATE carts SET fence = :mine WHERE id = :id AND fence <=
///   :mine RETURNING state, version`. No row: a later life has claimed it; fail, and let that one live.
/// - **Write under the claim, over what was read** (F2): `UPDATE carts SET state = :state, version = version + 1 WHERE id = :id
///   AND fence = :mine AND version = :read`. No row: stop this life, for it is not the newest.
/// - **A number for each activation** (F3), which this is: it tells two lives under one grant apart. Where an answer got lost,
///   restart the entity: its next life claims anew.
/// - **One write at a time** (F4).
///
/// Store `(token.counter, token.node, token.number, activation)` so that they compare in that order. The simulator's
/// entities do this to a store in memory, whose answers get lost and whose writes are seconds late; each rule has a mutant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fence {
    /// The grant of its shard.
    pub token: Token,
    /// The life within the grant.
    pub activation: u64,
}

/// An entity's surroundings, lent for one turn: an idle entity pays nothing for it.
///
/// What a handler asks for here ([`passivate`](Self::passivate), [`stop`](Self::stop), [`restart`](Self::restart),
/// [`schedule`](Self::schedule), [`weighs`](Self::weighs), [`pin`](Self::pin)) is done by the host after the turn. In the first
/// hook only the last three count, in the last one nothing does.
pub struct Context<'a, E: Entity> {
    identity: &'a Identity,
    wishes: &'a mut Wishes<E::Message>,
}

impl<'a, E: Entity> Context<'a, E> {
    pub(super) fn new(identity: &'a Identity, wishes: &'a mut Wishes<E::Message>) -> Self {
        Self { identity, wishes }
    }

    /// The entity's id.
    #[must_use]
    pub fn id(&self) -> &'a EntityId {
        self.identity.id()
    }

    /// Who it is, in full.
    #[must_use]
    pub fn identity(&self) -> &'a Identity {
        self.identity
    }

    /// Its shard.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.identity.shard()
    }

    /// The grant under which its shard lives here.
    #[must_use]
    pub fn token(&self) -> Token {
        self.identity.token()
    }

    /// What a store compares: token and activation.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.identity.fence()
    }

    /// How long handlers may start here if no further heartbeat is acknowledged: the rest of the node's session, less the
    /// margin that the longest handler must fit into. What still waits when the session ends is dropped.
    #[must_use]
    pub fn session_left(&self) -> Duration {
        let services = self.identity.tenure.services();
        services.session_until().since(services.now())
    }

    /// The time, on the node's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.identity.tenure.services().now()
    }

    /// Stops after the mail that is already here; mail that comes later wakes a fresh entity. Twice is once.
    pub fn passivate(&mut self) {
        self.wishes.end_with(End::Passivate);
    }

    /// As [`passivate`](Self::passivate), with a message of its own handled last. The last call's message counts.
    pub fn passivate_with<Q>(&mut self, last: Q)
    where
        E::Message: Accepts<Q>,
    {
        self.wishes.end_with(End::Passivate);
        self.wishes.rest().last = Some(Accepts::wrap(last, ReplyTo::nobody()));
    }

    /// Stops after this turn; mail that is already here goes to a fresh entity.
    pub fn stop(&mut self) {
        self.wishes.end_with(End::Stop);
    }

    /// What it weighs from now on, where the type has a limit by weight
    /// ([`Passivation::weighing`](crate::passivation::Passivation::weighing)): the bytes it holds, say. Zero is taken for one; of
    /// several calls in one turn the last counts. Costs no allocation. A new life weighs what the limit says.
    pub fn weighs(&mut self, weight: u32) {
        self.wishes.weight = Some(NonZeroU32::new(weight).unwrap_or(NonZeroU32::MIN));
    }

    /// Keeps it awake: it is not put to sleep for idleness or for room until [`unpin`](Self::unpin) or the end of this life,
    /// though it counts. It still goes when it asks, when its shard moves and when its node stops; and if it has been picked
    /// already, it goes.
    pub fn pin(&mut self) {
        self.wishes.pinned = Some(true);
    }

    /// It may be put to sleep again.
    pub fn unpin(&mut self) {
        self.wishes.pinned = Some(false);
    }

    /// Hands the entity a message `after` that long. It belongs to this life: if the entity stops first, it is dropped.
    pub fn schedule<Q>(&mut self, after: Duration, message: Q)
    where
        E::Message: Accepts<Q>,
    {
        let at = self.now() + after;
        self.wishes.rest().scheduled.push((at, Accepts::wrap(message, ReplyTo::nobody())));
    }

    /// Drops this state after the turn and starts the entity anew, with growing pauses if it keeps failing. Mail waits.
    /// The first call's cause counts.
    pub fn restart(&mut self, why: impl Into<Failure>) {
        self.wishes.end_with(End::Restart);
        self.wishes.rest().failure.get_or_insert_with(|| why.into());
    }

    /// The entities of another type. If this node has not registered it, every send is refused with
    /// [`Reason::NoSuchType`](super::Reason::NoSuchType).
    #[must_use]
    pub fn entities<M: Protocol>(&self) -> Entities<M> {
        self.named(M::TYPE_NAME)
    }

    /// A reference to this very entity, to hand out. Awaiting an answer from it here can only end at the deadline.
    #[must_use]
    pub fn me(&self) -> EntityRef<E::Message> {
        self.named(self.identity.kind()).entity(self.id().clone())
    }

    fn named<M: Protocol>(&self, name: &str) -> Entities<M> {
        let services = self.identity.tenure.services();
        let registered = services.registered(name);
        match registered.as_ref().and_then(|found| found.downcast_ref::<Entities<M>>()) {
            Some(entities) => entities.clone(),
            None => unregistered(services.to_owned()),
        }
    }
}

impl<E: Entity> fmt::Debug for Context<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("identity", self.identity).field("wishes", self.wishes).finish()
    }
}
