//! What every task of one node shares.

use std::any::Any;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::string::String;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::task::Waker;
use std::vec::Vec;

use super::bell::Bell;
use super::clock::Alarms;
use super::control_queue::ControlQueue;
use super::crew::AnyCrew;
use super::events::{Event, Events};
use super::peers::{Peer, Peers};
use super::runtime::Boxed;
use crate::allocation::AllocationStrategy;
use crate::election::VoterChangeError;
use crate::entity::{Alarm, Clock, Reason, Services};
use crate::id::{Kind, NodeId, NodeKey, ShardId, ShardKey, Term, Token};
use crate::node::{self, Explanation};
use crate::passivation::Pool;
use crate::region::lane::Order;
use crate::time::Instant;
use crate::wire::{Control, KindReport};

/// Counts since the node started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Messages of callers on this node that were accepted.
    pub told: u64,
    /// Handlers that ran on this node.
    pub handled: u64,
    /// Messages sent to other nodes, resends included.
    pub sent: u64,
    /// Accepted messages that are reported not to have run.
    pub not_run: u64,
    /// Accepted messages that may or may not have run.
    pub in_doubt: u64,
    /// Shards that came here.
    pub shards_gained: u64,
    /// Shards that left.
    pub shards_lost: u64,
    /// Sessions that ended before they were renewed.
    pub sessions_lost: u64,
    /// Entities started, and workers.
    pub entities_started: u64,
    /// Connections refused or dropped because of what they sent.
    pub peers_refused: u64,
}

macro_rules! tallies {
    ($($name:ident),*) => {
        /// The same, while they are counted.
        #[derive(Debug, Default)]
        pub(super) struct Tallies { $(pub(super) $name: AtomicU64),* }
        impl Tallies {
            pub(super) fn read(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}
tallies!(
    told,
    handled,
    sent,
    not_run,
    in_doubt,
    shards_gained,
    shards_lost,
    sessions_lost,
    entities_started,
    peers_refused
);

/// Adds to a tally.
pub(super) fn count(tally: &AtomicU64, by: u64) {
    tally.fetch_add(by, Ordering::Relaxed);
}

/// What control hears from the rest of the node.
pub(super) enum ToControl {
    Input(node::Input),
    Register {
        kind: KindReport,
        lanes: u32,
        strategy: Box<dyn AllocationStrategy>,
    },
    /// Go on to the next set of voters, and say here how that went.
    LoadVoters {
        version: u32,
        voters: Vec<(NodeId, String)>,
        loaded: Arc<OnceLock<Result<(), VoterChangeError>>>,
    },
    /// Say where the shards of a type live.
    Homes {
        kind: Kind,
        homes: Arc<OnceLock<Vec<(ShardId, NodeId)>>>,
    },
    /// Say why a shard is where it is.
    Explain {
        key: ShardKey,
        explained: Arc<OnceLock<Option<Explanation>>>,
    },
    /// Stop at once, without handing over.
    Stop,
}

/// One registered type, as readers and control see it.
pub(super) trait Door: Send + Sync {
    /// The type's name.
    fn name(&self) -> &'static str;
    /// The shard of an entity.
    fn shard_of(&self, id: &str) -> ShardId;
    /// A message came for an entity of it. False: its lane can hold no more.
    fn data(&self, from: NodeKey, data: DataFrame<'_>) -> bool;
    /// An owner said something about messages of this node. False: the lane can hold no more.
    fn receipt(&self, shard: ShardId, item: super::inbox::ReceiptItem, bytes: usize) -> bool;
    /// An order for one shard's lane.
    fn order(&self, shard: ShardId, order: Order);
    /// An order for every lane.
    fn all(&self, order: Order);
    /// Whether all that callers said has found its place in a lane.
    fn is_quiet(&self) -> bool;
    /// Callers are refused for as long as the cluster's shard count differs from this node's.
    fn refuse(&self, refused: bool);
    /// Every caller is refused from now on.
    fn close(&self, reason: Reason);
    /// If the type has a limit of awake entities: whose is what of it.
    fn pool(&self) -> Option<&Mutex<Pool>>;
}

/// A message as it stands in a frame.
pub(super) struct DataFrame<'a> {
    pub(super) shard: ShardId,
    pub(super) token: Token,
    pub(super) attempt: u32,
    pub(super) seq: u64,
    pub(super) first: bool,
    pub(super) ask: bool,
    pub(super) entity: &'a str,
    pub(super) tag: u16,
    pub(super) body: &'a [u8],
}

/// What is known of this node's standing; written by control.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) live: bool,
    pub(super) term: Option<Term>,
    pub(super) reigning: bool,
    pub(super) nodes: Vec<NodeKey>,
    pub(super) left: bool,
    /// Which set of voters runs here, and which is known to be in force.
    pub(super) voters: (u32, u32),
    /// Types the cluster counts otherwise: (ours, the cluster's).
    pub(super) refused: BTreeMap<Kind, (u32, u32)>,
    /// The coordinator holds the node's report of all its types.
    pub(super) confirmed: bool,
    /// How many types were registered on this node, known to control or not yet.
    pub(super) registered: usize,
    /// Owned shards per type.
    pub(super) shards: BTreeMap<Kind, usize>,
    pub(super) waiting: Vec<Waker>,
}

/// One node.
pub(super) struct Shared {
    pub(super) me: NodeKey,
    pub(super) cluster: String,
    pub(super) address: String,
    /// No handler starts at or after this; zero while there is no session. Lanes read it before every handler.
    /// Bytes of frames that have not come whole, over all connections.
    pub(super) half_frames: AtomicUsize,
    live_until: AtomicU64,
    pub(super) control: Mutex<ControlQueue>,
    pub(super) control_bell: Bell,
    pub(super) alarms: Alarms,
    pub(super) alarm_bell: Bell,
    pub(super) events: Events,
    pub(super) tallies: Tallies,
    pub(super) peers: Peers,
    pub(super) standing: Mutex<Standing>,
    doors: RwLock<BTreeMap<Kind, Arc<dyn Door>>>,
    references: RwLock<BTreeMap<&'static str, Arc<dyn Any + Send + Sync>>>,
    /// Pools of workers, by their types' names.
    crews: RwLock<BTreeMap<&'static str, Arc<dyn AnyCrew>>>,
    spawn: Box<dyn Fn(Boxed<()>) + Send + Sync>,
    log: Box<dyn Fn(&Event) + Send + Sync>,
    stopped: AtomicBool,
    /// Lane tasks that have not ended.
    lanes: AtomicUsize,
    /// Messages of this node's callers that lanes keep in streams.
    kept: AtomicUsize,
    /// Entities awake, as lanes last said.
    awake: AtomicUsize,
}

impl Shared {
    pub(super) fn new(
        me: NodeKey,
        cluster: String,
        address: String,
        peers: Peers,
        spawn: Box<dyn Fn(Boxed<()>) + Send + Sync>,
        log: Box<dyn Fn(&Event) + Send + Sync>,
    ) -> Self {
        Self {
            me,
            cluster,
            address,
            half_frames: AtomicUsize::new(0),
            live_until: AtomicU64::new(0),
            control: Mutex::default(),
            control_bell: Bell::default(),
            alarms: Alarms::new(),
            alarm_bell: Bell::default(),
            events: Events::default(),
            tallies: Tallies::default(),
            peers,
            standing: Mutex::new(Standing::default()),
            doors: RwLock::new(BTreeMap::new()),
            references: RwLock::new(BTreeMap::new()),
            crews: RwLock::new(BTreeMap::new()),
            spawn,
            log,
            stopped: AtomicBool::new(false),
            lanes: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            awake: AtomicUsize::new(0),
        }
    }

    pub(super) fn tell_control(&self, message: ToControl) {
        lock(&self.control).push(message);
        self.control_bell.ring();
    }

    /// A peer's control frame of so many bytes; dropped if it sends more than can wait.
    pub(super) fn heard(&self, from: NodeKey, message: Control, bytes: usize) {
        if lock(&self.control).hear(from, self.me, message, bytes) {
            self.control_bell.ring();
        }
    }

    pub(super) fn input(&self, input: node::Input) {
        self.tell_control(ToControl::Input(input));
    }

    /// Every task of the node is to end. Lanes first tell the fate of what they keep; the last of them ends the events.
    pub(super) fn stop(&self) {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        self.tell_control(ToControl::Stop);
        self.alarm_bell.ring();
        self.each_door(|door| door.close(Reason::Stopping));
        self.each_crew(|crew| crew.close());
        for peer in self.peers.all() {
            peer.bell.ring();
        }
        self.stand(|standing| standing.left = true);
        if self.lanes.load(Ordering::SeqCst) == 0 {
            self.over();
        }
    }

    /// The last task that callers hear of has ended.
    fn over(&self) {
        self.events.close();
        // A door holds its node: without this neither would ever be freed.
        let doors = std::mem::take(&mut *self.doors.write().unwrap_or_else(PoisonError::into_inner));
        let references = std::mem::take(&mut *self.references.write().unwrap_or_else(PoisonError::into_inner));
        let crews = std::mem::take(&mut *self.crews.write().unwrap_or_else(PoisonError::into_inner));
        drop((doors, references, crews));
        self.stand(|_| ());
    }

    /// Whether every lane has ended.
    pub(super) fn has_no_lanes(&self) -> bool {
        self.lanes.load(Ordering::SeqCst) == 0
    }

    /// Entities awake on this node.
    pub(super) fn awake(&self) -> usize {
        self.awake.load(Ordering::Relaxed)
    }

    /// A lane had so many entities awake, and has so many now.
    pub(super) fn wake(&self, before: usize, now: usize) {
        self.awake.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Whether this node owns nothing and keeps no mail of its callers.
    pub(super) fn is_settled(&self) -> bool {
        // The doors first: what left an inbox before this look is counted as kept by the next.
        let mut quiet = true;
        self.each_door(|door| quiet &= door.is_quiet());
        quiet && self.kept() == 0 && lock(&self.standing).shards.values().all(|owned| *owned == 0)
    }

    /// Whether everything that this node said is acknowledged, by all who can be expected to.
    pub(super) fn is_acknowledged(&self) -> bool {
        let nodes = lock(&self.standing).nodes.clone();
        self.peers.all().iter().all(|peer| {
            let state = lock(&peer.state);
            let lost = || state.doubtful && state.link.peer().is_none_or(|node| !nodes.contains(&node));
            !state.has_bulk() || lost()
        })
    }

    pub(super) fn keep(&self, before: usize, after: usize) {
        self.kept.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    pub(super) fn spawn(&self, task: Boxed<()>) {
        (self.spawn)(task);
    }

    pub(super) fn emit(&self, event: Event) {
        (self.log)(&event);
        self.events.emit(event);
    }

    #[inline]
    pub(super) fn live_until(&self) -> Instant {
        Instant::from_nanos(self.live_until.load(Ordering::Acquire))
    }

    pub(super) fn set_live_until(&self, until: Instant) {
        self.live_until.store(until.as_nanos(), Ordering::Release);
    }

    pub(super) fn door(&self, kind: Kind) -> Option<Arc<dyn Door>> {
        self.doors.read().unwrap_or_else(PoisonError::into_inner).get(&kind).cloned()
    }

    pub(super) fn each_door(&self, mut f: impl FnMut(&dyn Door)) {
        for door in self.doors.read().unwrap_or_else(PoisonError::into_inner).values() {
            f(&**door);
        }
    }

    /// Registers a type; gives back the name of the one that has its place.
    pub(super) fn add_door(
        &self,
        kind: Kind,
        door: Arc<dyn Door>,
        references: Arc<dyn Any + Send + Sync>,
    ) -> Result<(), &'static str> {
        let name = door.name();
        let mut doors = self.doors.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = doors.get(&kind) {
            return Err(taken.name());
        }
        if self.crews.read().unwrap_or_else(PoisonError::into_inner).contains_key(name) {
            return Err(name);
        }
        doors.insert(kind, door);
        self.references.write().unwrap_or_else(PoisonError::into_inner).insert(name, references);
        Ok(())
    }

    /// Registers a pool of workers. False: its name is taken, by a pool or an entity type.
    pub(super) fn add_crew(&self, crew: Arc<dyn AnyCrew>) -> bool {
        let doors = self.doors.write().unwrap_or_else(PoisonError::into_inner);
        let mut crews = self.crews.write().unwrap_or_else(PoisonError::into_inner);
        let name = crew.name();
        let taken = crews.contains_key(name) || doors.values().any(|door| door.name() == name);
        if !taken {
            crews.insert(name, crew);
        }
        !taken
    }

    pub(super) fn each_crew(&self, mut f: impl FnMut(&dyn AnyCrew)) {
        let crews: Vec<_> = self.crews.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        crews.iter().for_each(|crew| f(&**crew));
    }

    /// Whether the pools are closed and nobody is in them.
    pub(super) fn crews_are_gone(&self) -> bool {
        let mut gone = true;
        self.each_crew(|crew| gone &= crew.is_gone());
        gone
    }

    /// Changes what is known of the node's standing and wakes who waits for it.
    pub(super) fn stand(&self, change: impl FnOnce(&mut Standing)) {
        let waiting = {
            let mut standing = lock(&self.standing);
            change(&mut standing);
            std::mem::take(&mut standing.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Held by each lane task: the node knows when the last has ended, however it ended.
pub(super) struct Running(Arc<Shared>);

impl Running {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        shared.lanes.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A lane that is gone would keep its shards for as long as the session is renewed, and answer nobody.
            self.0.stop();
        }
        if self.0.lanes.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.is_stopped() {
            self.0.over();
        }
    }
}

/// What the lanes are told about links.
impl Shared {
    /// That process is over, as a handshake or the coordinator says.
    pub(super) fn peer_gone(&self, node: NodeKey) {
        self.each_door(|door| door.all(Order::PeerGone(node)));
    }

    /// The link to that process takes messages again.
    pub(super) fn room(&self, node: NodeKey) {
        self.each_door(|door| door.all(Order::Room(node)));
    }

    /// A link is hard to use, or usable again.
    pub(super) fn link(&self, node: NodeKey, up: bool) {
        self.each_door(|door| door.all(Order::Link { node, up }));
    }

    /// The coordinator says that the process is gone for good: its link is over.
    pub(super) fn end_peer(&self, node: NodeKey) {
        let peer = self.peers.of(node.id);
        lock(&peer.receiver).gone(node);
        self.end_life(&peer, node);
    }

    /// That life of the node is over: nothing goes to it any more, and what went is in doubt.
    pub(super) fn end_life(&self, peer: &Peer, node: NodeKey) {
        peer.end(node);
        self.peer_gone(node);
    }
}

impl Clock for Shared {
    fn now(&self) -> Instant {
        super::clock::now()
    }

    fn wake_at(&self, at: Instant, waker: &Waker) -> Alarm {
        let (alarm, sooner) = self.alarms.add(at, waker);
        if sooner {
            self.alarm_bell.ring();
        }
        alarm.unwrap_or(Alarm::NONE)
    }

    fn forget(&self, alarm: Alarm) {
        self.alarms.remove(alarm);
    }
}

impl Services for Shared {
    fn session_until(&self) -> Instant {
        self.live_until()
    }

    fn registered(&self, name: &str) -> Option<Arc<dyn Any + Send + Sync>> {
        self.references.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Locks, whoever panicked before: every critical section leaves its data whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
