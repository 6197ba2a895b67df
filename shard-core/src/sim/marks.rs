//! Rare places that a campaign must reach, each with a name: `sometimes` as opposed to `always`.
//!
//! A checker that never sees a state proves nothing about it. So the simulator notes, from outside the machines, when a run
//! passes one of these; [`Report::marks`](super::Report::marks) counts them, a campaign adds them up and names those that
//! it never met. Nothing of this exists in production builds.

use core::fmt;

macro_rules! marks {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// One rare place.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Mark { $($(#[$doc])* $variant,)* }

        impl Mark {
            /// Every mark.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        const COUNT: usize = [$(Mark::$variant,)*].len();
    };
}

marks! {
    /// A process that reigned crashed.
    CoordinatorCrashed = "coordinator-crashed",
    /// A process that reigned was paused.
    CoordinatorPaused = "coordinator-paused",
    /// A process that reigned left.
    CoordinatorLeft = "coordinator-left",
    /// A process crashed while one of its shards drained.
    CrashInDrain = "crash-in-drain",
    /// A process crashed while a hook or handler ran.
    CrashInHandler = "crash-in-handler",
    /// A process crashed while its lanes were stopping.
    CrashWhileHalting = "crash-while-halting",
    /// A process crashed on its way out.
    CrashWhileLeaving = "crash-while-leaving",
    /// A session ended unrenewed while its node held shards.
    LapseWithShards = "lapse-with-shards",
    /// A session was renewed after its margin had stopped the lanes.
    RevivedInMargin = "revived-in-margin",
    /// A candidacy found no majority in time.
    CandidacyGivenUp = "candidacy-given-up",
    /// A voter refused its lease.
    LeaseRefused = "lease-refused",
    /// A voter was freed by a candidate that had never reigned.
    ReleasedUnreigned = "released-unreigned",
    /// A voter was freed by a coordinator that resigned.
    ReleasedResigned = "released-resigned",
    /// A reign placed shards before its quarantine was over.
    OpenedEarly = "opened-early",
    /// A coordinator could not resign in time.
    ResignationFailed = "resignation-failed",
    /// A process was told of the next set of voters, and loaded it.
    VotersLoaded = "voters-loaded",
    /// A process that reigned loaded the next set of voters.
    VotersLoadedReigning = "voters-loaded-reigning",
    /// A process refused the next set of voters: the one before was not in force.
    VotersRefused = "voters-refused",
    /// A set of voters came into force.
    VotersInForce = "voters-in-force",
    /// It did, under a coordinator that is not one of them.
    OutgoingReigns = "outgoing-reigns",
    /// The store refused a claim or a write of a life that is not the newest.
    StoreRefused = "store-refused",
    /// A clock that was broken was found out.
    ClockAlarm = "clock-alarm",
    /// A region told a would-be coordinator of a greater term.
    Nacked = "nacked",
    /// A session was declared dead.
    DeclaredDead = "declared-dead",
    /// A node with shards heard of a new reign.
    AnnouncedToOwner = "announced-to-owner",
    /// A new coordinator heard of shards before it might place any.
    ShardsReported = "shards-reported",
    /// A directive came under a term that was over.
    StaleDirective = "stale-directive",
    /// Somebody claimed what only another may say.
    ClaimOfAnother = "claim-of-another",
    /// A frame of control was late or repeated.
    FrameRepeated = "frame-repeated",
    /// A datagram reached a later life of its node.
    ForFormerLife = "for-former-life",
    /// A datagram of one sort was dropped on purpose.
    SortDropped = "sort-dropped",
    /// A datagram of one sort was caught, to be let go later.
    SortHeld = "sort-held",
    /// A drain passed its deadline.
    DrainForced = "drain-forced",
    /// A running hook or handler was dropped by order.
    HandlerCancelled = "handler-cancelled",
    /// An entity fell asleep, idle.
    Idle = "asleep-idle",
    /// An entity was evicted at the cap.
    Evicted = "asleep-evicted",
    /// An entity failed to start.
    StartFailed = "start-failed",
    /// A message found its entity by the fast door.
    FastDoor = "fast-door",
    /// A message was told in doubt.
    InDoubt = "told-in-doubt",
    /// A message was not run: the entity's mailbox was full.
    FullEntity = "told-full-entity",
    /// A message was not run: its tenant had as much waiting as it may.
    FullTenant = "told-full-tenant",
    /// A message was not run: the shard's stream was full.
    FullShard = "told-full-shard",
    /// A message was not run: no home was found in time.
    Unavailable = "told-unavailable",
    /// An ask was not run before its deadline.
    Expired = "told-expired",
    /// An owner took a message and could not run it.
    Rejected = "rejected-by-owner",
    /// A tenure ended with messages taken beyond the prefix.
    ClosedBeyond = "closed-with-beyond",
    /// Data met a tenure that drained.
    RefusedDraining = "refused-draining",
    /// Data met a node that knew a later home.
    RefusedWithHint = "refused-with-hint",
    /// A stream was opened again.
    StreamReopened = "stream-reopened",
    /// A reply came when nobody waited for it any more.
    ReplyTooLate = "reply-too-late",
    /// A frame was missing on a link.
    LinkGap = "link-gap",
    /// A frame came twice over a link.
    LinkDuplicate = "link-duplicate",
    /// A frame came over a former connection.
    LinkStale = "link-stale",
    /// A new life of a peer opened a link.
    LinkNewLife = "link-new-life",
    /// A dialler found another life than it had dialled.
    WelcomeOfNewLife = "welcome-of-new-life",
    /// A peer was hard to reach.
    LinkDoubtful = "link-doubtful",
    /// A link had no room when a lane asked.
    LinkCrowded = "link-crowded",
    /// Lanes were told that a link has room again.
    LinkRoomAgain = "link-room-again",
}

/// How often each mark was met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marks([u64; COUNT]);

impl Default for Marks {
    fn default() -> Self {
        Self([0; COUNT])
    }
}

impl Marks {
    pub(super) fn meet(&mut self, mark: Mark) {
        self.0[mark as usize] += 1;
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// How often one was met.
    #[must_use]
    pub const fn count(&self, mark: Mark) -> u64 {
        self.0[mark as usize]
    }

    /// Every mark's name and count.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Mark::ALL.iter().map(|mark| (mark.name(), self.count(*mark)))
    }

    /// How many were met at all.
    #[must_use]
    pub fn met(&self) -> usize {
        self.0.iter().filter(|count| **count > 0).count()
    }

    /// The names of those that were never met.
    pub fn silent(&self) -> impl Iterator<Item = &'static str> {
        self.counts().filter(|(_, count)| *count == 0).map(|(name, _)| name)
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().try_for_each(|(name, count)| writeln!(f, "{name:<24} {count:>10}"))
    }
}
