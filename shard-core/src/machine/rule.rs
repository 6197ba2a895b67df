//! The rules of the protocol that can be switched off one at a time, each with the name of its mutant: the simulator must
//! then find the harm. Not every rule has a switch: K3, K5, D1, D2, D6, D9-D11, E6, E10 and G3, among others, have none, and
//! are found by `grep` for their letters where they are kept. What kills each mutant stands in `sim::kills`, and a test holds
//! that table to it.
//!
//! The letters are those of the protocol's papers. D: streams. E: early exit of the quarantine. G: gaps of the first paper, closed later. K: links. S: the
//! inequalities of the times. L is used three times there: L2-L4 of sessions and commands, L1-L3 of voters (first campaign,
//! restored promise, a reigning coordinator ignores refusals), and L1-L3 of the times, which only warn.
//!
//! Outside the simulator (`sim`) and tests, [`Rules`] has no state and every rule is on: the compiler removes the check.

macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// One rule of the protocol.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Rule { $($(#[$doc])* $variant,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name of the mutant that breaks this rule.
            #[must_use]
            pub const fn mutant(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The rule that a mutant's name breaks.
            #[must_use]
            pub fn by_mutant(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|rule| rule.mutant() == name)
            }
        }
    };
}

rules! {
    /// W, T_v and Q are longer than D and T_c by the clock-rate factor (S1-S3).
    DriftFactor = "no-drift-factor",
    /// A new coordinator waits W before it grants what nobody reported.
    Quarantine = "no-quarantine",
    /// A handoff ends in the owner's drop or in its session's end; no timer reallocates.
    NoForcedHandoff = "forced-handoff",
    /// A session counts from the sending of the acknowledged heartbeat (L2).
    ValidityFromSend = "validity-from-receipt",
    /// Frames for another incarnation are dropped.
    Incarnation = "no-incarnation-check",
    /// Commands of an older term are not obeyed (L4).
    TermOfCommands = "old-term-obeyed",
    /// A lapse raises the session number.
    SessionBump = "session-not-bumped",
    /// A lapse forgets the heartbeats under way.
    ForgetSent = "sent-kept",
    /// A lapsed reign never comes back under its term.
    ContiguousReign = "reign-revived",
    /// A reign rests on a majority of the voters.
    Majority = "minority-elects",
    /// A restarted voter is silent for Q.
    VoterSilence = "no-voter-silence",
    /// The coordinator remembers sessions that ended.
    DeadSessions = "dead-sessions-forgotten",
    /// A non-empty first report is taken only inside the window.
    AdoptionWindow = "late-adoption",
    /// A reign's validity counts from the sending of the round.
    ReignFromSend = "reign-from-receipt",
    /// Votes of different rounds are not pooled.
    OneRound = "rounds-pooled",
    /// Release names its term.
    ReleaseTerm = "release-unchecked",
    /// G1: an ack that leaves the session dead applies no command.
    GrantOnlyWhileLive = "grant-while-dead",
    /// G2: the coordinator checks the heartbeat's term.
    HeartbeatTerm = "heartbeat-term-unchecked",
    /// Absence frees a shard only if every command about it was applied.
    AppliedBeforeFree = "absent-is-free",
    /// Heartbeat sequence numbers must grow.
    SequenceGrows = "sequence-unchecked",
    /// A heartbeat of a lower session is refused.
    SessionGrows = "lower-session-accepted",
    /// Every entry point looks at the clock first.
    AdvanceFirst = "no-advance",
    /// Candidates release what they were granted, on every path.
    ReleaseAlways = "no-release",
    /// A Release of a term that never reigned restores the former promise (L2 of voters).
    RestorePromise = "promise-kept",
    /// A drop is reported only after the lane has stopped.
    DropBarrier = "no-barrier",
    /// The first heartbeat of a new session waits for the lanes.
    SessionBarrier = "no-session-barrier",
    /// D3: data counts only under exactly this grant.
    DataToken = "stream-token-unchecked",
    /// D3/D7: data and refusals count only for the present attempt.
    DataAttempt = "stream-attempt-unchecked",
    /// D3: data without an entry is refused unless it is the first of its attempt.
    DataEntry = "stream-entry-unchecked",
    /// D5: Closed says what was taken beyond the prefix.
    ClosedBeyond = "closed-without-beyond",
    /// D5: every end of a tenure sends Closed.
    ClosedAlways = "no-closed-after-lapse",
    /// D7: a draining refusal means "wait for Closed".
    DrainingWaits = "draining-read-as-refusal",
    /// D4: a message is settled when its handler starts, not when it arrives.
    SettleOnStart = "settled-on-arrival",
    /// D8: what may have run is never sent again.
    NeverResendInDoubt = "in-doubt-resent",
    /// K2: a gap closes the connection.
    LinkGap = "link-gap-accepted",
    /// K4: a link starts anew with a new incarnation.
    LinkReset = "link-not-reset",
    /// K4: old frames are not resent to a new process.
    LinkForget = "link-resends-to-new-process",
    /// K1: frames and acks of a former connection are dropped.
    LinkConnection = "link-former-connection-accepted",
    /// E1: a list never takes the place of a newer one.
    ListGrows = "list-regresses",
    /// E2: a candidate sends no list.
    CandidateListless = "candidate-sends-list",
    /// E3: evidence is a majority of complete lists.
    ListMajority = "one-list-enough",
    /// E3: of the lists reported, the newest counts.
    ListNewest = "any-list",
    /// E3: what the newest list names is carried over.
    ListCarried = "carry-dropped",
    /// E4: what is carried over stands in the new list.
    CarryListed = "carried-unlisted",
    /// E4: a reign without evidence calls its list complete only after W.
    CompleteByEvidence = "incomplete-called-complete",
    /// E5: no ack before a majority of the voters has stored a list with the session.
    AckAfterConfirm = "ack-before-confirm",
    /// E7: the quarantine ends early only when everyone of the list has registered.
    OpenWhenHeard = "open-without-need",
    /// E8: the coordinator's own region is live only while its node reigns.
    OwnRegionClipped = "own-region-unclipped",
    /// E8: the own region ends before the Release goes out.
    LapseBeforeRelease = "region-outlives-release",
    /// E9: a restarted voter holds no list, which is not an empty one.
    AmnesiaUnknown = "amnesia-called-empty",
    /// 2.1: who resigns lists itself first.
    ResignListed = "resign-unlisted",
    /// 2.1: who resigns waits until that list is confirmed.
    ResignConfirmed = "resign-unconfirmed",
    /// V2: each version of the voters differs from the one before by one voter.
    OneVoter = "voters-swapped",
    /// V3: a voter listens to its own version of the voters and the next, never to an older one.
    NeighbourVersion = "older-version-heard",
    /// V5: a version is loaded only when the one before is known to be in force.
    VersionProved = "version-unproved",
    /// S5: a clock that is provably wrong ends the session, and then the dealings with its process.
    RateWatched = "rate-unwatched",
    /// S5: a machine that was frozen gives up its reign and its session when it notices.
    JumpGuard = "jump-unguarded",
    /// F1: an entity claims its row before it reads it.
    StoreClaim = "store-claim-skipped",
    /// F2: a write holds only under the newest claim, over the state that was read.
    StoreCondition = "store-write-unchecked",
    /// F3: each activation has a number of its own.
    StoreActivation = "store-activation-ignored",
    /// V7: whoever runs a version says so, also to those behind, and by that that the one before is in force.
    VersionTold = "version-untold",
}

/// Which rules are on. All of them, unless the simulator switched one off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    #[cfg(any(test, feature = "sim"))]
    off: u128,
}

impl Rules {
    /// Every rule on.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            #[cfg(any(test, feature = "sim"))]
            off: 0,
        }
    }

    /// Every rule but one.
    #[cfg(any(test, feature = "sim"))]
    #[must_use]
    pub const fn without(rule: Rule) -> Self {
        Self { off: 1 << rule as u128 }
    }

    /// These rules but for one more.
    #[cfg(any(test, feature = "sim"))]
    #[must_use]
    pub const fn and_without(self, rule: Rule) -> Self {
        Self { off: self.off | 1 << rule as u128 }
    }

    /// Whether `rule` is on.
    #[cfg(any(test, feature = "sim"))]
    #[must_use]
    pub const fn on(self, rule: Rule) -> bool {
        self.off & (1 << rule as u128) == 0
    }

    /// Whether `rule` is on: always, outside the simulator.
    #[cfg(not(any(test, feature = "sim")))]
    #[must_use]
    #[inline(always)]
    pub const fn on(self, _rule: Rule) -> bool {
        true
    }
}
