//! Pools of stateless workers on a node: how they are started, and reached.

use std::marker::PhantomData;
use std::sync::Arc;
use std::vec::Vec;

use core::fmt;
use core::num::NonZeroU32;

use super::builder::random;
use super::crew::{AnyCrew, Crew};
use super::entity_host::Factory;
use super::node::Node;
use super::runtime::Runtime;
use super::shared::Running;
use crate::entity::{Accepts, Ask, Entities, Entity, Identity, Protocol, Refused};
use crate::node::ConfigError;
use crate::time::Duration;
use crate::workers::{PoolConfig, Removal};

/// How a pool of workers is started. See [`Node::workers`].
#[must_use = "nothing happens before `start`"]
pub struct WorkersBuilder<'a, R: Runtime, E> {
    node: &'a Node<R>,
    at_most: Option<u32>,
    waiting: usize,
    idle_cycles: Option<u32>,
    entity: PhantomData<fn() -> E>,
}

impl<R: Runtime, E> fmt::Debug for WorkersBuilder<'_, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkersBuilder").field("at_most", &self.at_most).finish_non_exhaustive()
    }
}

impl<'a, R: Runtime, E: Entity> WorkersBuilder<'a, R, E> {
    pub(super) fn new(node: &'a Node<R>) -> Self {
        let PoolConfig { waiting_max: waiting, .. } = PoolConfig::at_most(1);
        Self { node, at_most: None, waiting, idle_cycles: Some(1), entity: PhantomData }
    }

    /// How many workers there may be on this node; as many as it has processors unless said otherwise.
    pub fn at_most(self, workers: u32) -> Self {
        Self { at_most: Some(workers), ..self }
    }

    /// How many messages may wait for the workers, over all of them; 4,096 unless said otherwise. With zero, a message is taken only
    /// if a worker is there for it at once.
    pub fn waiting_at_most(self, messages: usize) -> Self {
        Self { waiting: messages, ..self }
    }

    /// After how many idle cycles at a stretch, of half a second each, one idle worker goes; 1 unless said otherwise. What an idle
    /// cycle is, and that only a pool that once had messages waiting has any:
    /// [`Controller`](crate::workers::Controller).
    pub fn min_idle_cycles(self, cycles: u32) -> Self {
        Self { idle_cycles: Some(cycles), ..self }
    }

    /// No worker ever goes for idleness.
    pub fn keep_idle(self) -> Self {
        Self { idle_cycles: None, ..self }
    }

    /// Starts the pool, empty; each worker begins as `E::default()`.
    ///
    /// # Errors
    /// The type is registered already, or a setting is of no use.
    pub async fn start(self) -> Result<Workers<E::Message>, ConfigError>
    where
        E: Default,
    {
        self.start_with(|_| E::default()).await
    }

    /// Starts the pool, empty; `factory` makes each worker, on the worker's task. Leave what waits to [`Entity::started`].
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(
        self,
        factory: impl Fn(&Identity) -> E + Send + Sync + 'static,
    ) -> Result<Workers<E::Message>, ConfigError> {
        let processors =
            || std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
        let positive = |name, n| NonZeroU32::new(n).ok_or(ConfigError::Setting { name, must: "at least 1" });
        let at_most = positive("at_most", self.at_most.unwrap_or_else(processors))?;
        let removal = match self.idle_cycles {
            Some(cycles) => Some(Removal { idle_cycles: positive("min_idle_cycles", cycles)? }),
            None => None,
        };
        let shared = &self.node.shared;
        if shared.is_stopped() {
            return Err(ConfigError::Stopped);
        }
        let config = PoolConfig { at_most, waiting_max: self.waiting, removal };
        let factory: Factory<E> = Arc::new(factory);
        let crew = Crew::new(Arc::clone(shared), factory, config, random());
        if !shared.add_crew(Arc::clone(&crew) as Arc<_>) {
            return Err(ConfigError::TypeTaken { entity_type: E::Message::TYPE_NAME });
        }
        let running = Running::new(Arc::clone(shared));
        self.node.runtime.spawn(Arc::clone(&crew).keep(self.node.runtime.clone(), running));
        Ok(Workers { entities: Entities::new(Arc::clone(&crew) as Arc<_>), crew })
    }
}

/// The workers of one type on this node. Clone it freely; it does not keep the node.
///
/// The calls are those of [`Entities`] without the id, and errors mean the same. The factory of an entity type that uses a pool
/// takes a clone along.
pub struct Workers<M> {
    entities: Entities<M>,
    crew: Arc<dyn AnyCrew>,
}

impl<M: Protocol> Workers<M> {
    /// The same workers, with another limit for [`ask`](Self::ask) and [`send`](Self::send) than
    /// [`Entities::LIMIT`].
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { entities: self.entities.within(limit), ..self }
    }

    /// Sends without waiting: for an answer, or for room.
    ///
    /// `Ok` means taken, not handled. If it does not run after all, the node's events say so
    /// ([`Event::Undelivered`](super::Event::Undelivered)); if its handler panics, likewise
    /// ([`Event::EntityFailed`](super::Event::EntityFailed), under the worker's number).
    ///
    /// # Errors
    /// The message comes back: with [`Reason::Full`](crate::entity::Reason::Full) if all workers have something to do and as many
    /// messages wait as may, with [`Reason::Stopping`](crate::entity::Reason::Stopping) if the node leaves or has stopped.
    pub fn tell<Q>(&self, message: Q) -> Result<(), Refused<Q>>
    where
        M: Accepts<Q>,
    {
        self.entities.tell("", message)
    }

    /// Sends, waiting for room; refused with [`Reason::Expired`](crate::entity::Reason::Expired) if there is none within the
    /// limit.
    ///
    /// # Errors
    /// As [`tell`](Self::tell).
    pub async fn send<Q>(&self, message: Q) -> Result<(), Refused<Q>>
    where
        M: Accepts<Q>,
    {
        self.entities.send("", message).await
    }

    /// Asks. The question is on its way when this returns; the future brings the answer.
    pub fn ask<Q>(&self, message: Q) -> Ask<M, Q>
    where
        M: Accepts<Q>,
    {
        self.entities.ask("", message)
    }

    /// How the pool stands right now.
    #[must_use]
    pub fn report(&self) -> WorkersReport {
        self.crew.report()
    }
}

impl<M> Clone for Workers<M> {
    fn clone(&self) -> Self {
        Self { entities: self.entities.clone(), crew: Arc::clone(&self.crew) }
    }
}

impl<M: Protocol> fmt::Debug for Workers<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workers({})", M::TYPE_NAME)
    }
}

/// How a pool of workers stands. See [`Workers::report`] and [`Node::workers_report`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WorkersReport {
    /// The type.
    pub entity_type: &'static str,
    /// There are never more workers.
    pub at_most: u32,
    /// Workers, those that start or stop included.
    pub workers: usize,
    /// Those of them that do nothing.
    pub idle: usize,
    /// Messages that wait for a worker.
    pub waiting: usize,
    /// Handlers that were begun, since the start.
    pub handled: u64,
    /// Workers that were made, since the start.
    pub made: u64,
    /// Handlers and hooks that failed, since the start.
    pub failed: u64,
}

impl<R: Runtime> Node<R> {
    /// Begins a pool of workers of type `E` on this node: interchangeable, local, without ids and shards. See
    /// [`workers`](crate::workers) for who gets a message and what is promised.
    ///
    /// A worker is an [`Entity`] whose messages need no tags. Its id is its number on this node; what [`Context`] says of shard,
    /// token and fence means nothing, for it owns nothing, and it runs whether or not the node's session lives.
    /// `weighs`, `pin` and `unpin` do nothing, `me` leads to nobody, and `passivate` is `stop`, but for its last message. What it
    /// schedules comes to that very worker, unless it is gone by then. After `restart` it is gone; another is made when a message
    /// needs one.
    ///
    /// Each worker is a task of the executor, so one whose handler waits keeps nobody else. One that computes for long holds a
    /// thread of the executor: `at_most` should then leave some to the node, or the handler hand the work to threads of its own and
    /// await them.
    ///
    /// While the node [leaves](Self::leave), its pools take messages until its entities have gone, or half of the time is over, and
    /// refuse them from then on with [`Reason::Stopping`](crate::entity::Reason::Stopping); what waits is run, and each worker's
    /// last hook. What is left when the time is over is refused or cut short, and told.
    ///
    /// [`Context`]: crate::entity::Context
    pub fn workers<E: Entity>(&self) -> WorkersBuilder<'_, R, E> {
        WorkersBuilder::new(self)
    }

    /// How the pools of this node stand, by the names of their types.
    #[must_use]
    pub fn workers_report(&self) -> Vec<WorkersReport> {
        let mut reports = Vec::new();
        self.shared.each_crew(|crew| reports.push(crew.report()));
        reports
    }
}
