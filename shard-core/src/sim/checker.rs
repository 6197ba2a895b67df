//! The invariants, looked at from outside and in real time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use super::cluster::Cluster;
use super::options::Options;
use super::process::{Run, What, id_of};
use crate::id::{NodeKey, ShardId, Term, Token};

const SECOND: u64 = 1_000_000_000;

/// Up to so many shards times nodes, every shard is looked at after every event; above, those that the event concerned,
/// and all of them each simulated second.
const SMALL: u64 = 100;

/// What the checkers remember.
#[derive(Debug)]
pub(super) struct Checker {
    /// Every shard after every event.
    thorough: bool,
    /// The term in force at each seat when it was last looked at.
    reigns: Vec<Option<Term>>,
    /// Terms that were in force and are not any more.
    ended: BTreeSet<Term>,
    shards: Vec<Watch>,
    longest_gap: u64,
    /// Shards that the present event concerns.
    touched: BTreeSet<ShardId>,
    /// When every seat is looked at next.
    scan_at: u64,
}

/// One shard.
#[derive(Clone, Debug, Default)]
struct Watch {
    /// The greatest grant ever served, and by whom.
    token: Option<(Token, NodeKey)>,
    /// Seats that were live owners when they were last looked at.
    owners: Vec<usize>,
    /// The last of them.
    last: Option<usize>,
    /// Since when nobody serves it; zero: somebody does, or it never had an owner.
    idle_since: u64,
    /// Since when somebody has served it without a gap.
    served_since: u64,
}

impl Checker {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            thorough: options.nodes as u64 * u64::from(options.shards) <= SMALL,
            reigns: alloc::vec![None; options.nodes],
            ended: BTreeSet::new(),
            shards: alloc::vec![Watch::default(); options.shards as usize],
            longest_gap: 0,
            touched: BTreeSet::new(),
            scan_at: SECOND,
        }
    }

    /// The process at a seat is gone, and its reign with it.
    pub(super) fn forget(&mut self, seat: usize) {
        self.ended.extend(self.reigns[seat].take());
        if !self.thorough {
            let lost = self.shards.iter().enumerate().filter(|(_, watch)| watch.owners.contains(&seat));
            self.touched.extend(lost.map(|(shard, _)| ShardId(shard as u32)));
        }
    }

    pub(super) fn longest_gap(&self) -> u64 {
        self.longest_gap
    }

    /// Whether the seat's process reigned when it was last looked at.
    pub(super) fn has_reigned(&self, seat: usize) -> bool {
        self.reigns[seat].is_some()
    }

    /// Whether every shard is looked at after every event.
    pub(super) fn is_thorough(&self) -> bool {
        self.thorough
    }

    /// Seats that were live owners when they were last looked at.
    pub(super) fn owners(&self, shard: ShardId) -> &[usize] {
        &self.shards[shard.0 as usize].owners
    }

    /// Who served it last.
    pub(super) fn owner(&self, shard: ShardId) -> Option<usize> {
        self.shards[shard.0 as usize].last
    }

    /// Since when it has been served; the end of time, if it is not.
    pub(super) fn served_since(&self, shard: ShardId) -> u64 {
        let watch = &self.shards[shard.0 as usize];
        if watch.idle_since > 0 || watch.last.is_none() { u64::MAX } else { watch.served_since }
    }
}

impl Cluster {
    /// I2 and I5: before and after everything that happens at a seat.
    pub(super) fn watch_reign(&mut self, seat: usize) {
        let reigning = self.reigning(seat);
        let before = self.checker.reigns[seat];
        if before == reigning {
            return;
        }
        self.checker.ended.extend(before);
        self.checker.reigns[seat] = reigning;
        let Some(term) = reigning else { return };
        if self.checker.ended.contains(&term) {
            self.violated("term-twice", format!("{} reigns under {term}, which had ended", id_of(seat)));
        }
        let others = (0..self.seats.len()).filter(|other| *other != seat);
        let other = others.filter_map(|other| Some((other, self.reigning(other)?))).next();
        if let Some((other, theirs)) = other {
            self.violated(
                "overlapping-reigns",
                format!("{} reigns under {term} while {} reigns under {theirs}", id_of(seat), id_of(other)),
            );
        }
    }

    pub(super) fn reigning(&self, seat: usize) -> Option<Term> {
        let process = self.seats[seat].process.as_ref().filter(|_| !self.seats[seat].frozen);
        process?.node.election().reigning(self.local(seat))
    }

    /// The grant under which a live owner sits at `seat`: its lane could start a handler, or something of the shard runs
    /// while its session lives.
    pub(super) fn live_owner(&self, seat: usize, shard: ShardId) -> Option<(Token, &'static str)> {
        // Who is frozen does nothing, whatever its clock shows.
        let process = self.seats[seat].process.as_ref().filter(|_| !self.seats[seat].frozen)?;
        let now = self.local(seat);
        let berth = &process.lanes[self.lane_of(shard)];
        if let Some(token) = berth.lane.serves(now, shard) {
            return Some((token, "may start handlers"));
        }
        let run = berth.runs.values().find(|run| run.shard == shard)?;
        process.node.session().is_live(now).then_some((run.token, "runs a handler or hook"))
    }

    /// The present event changes something of this shard.
    pub(super) fn touch(&mut self, shard: ShardId) {
        if !self.checker.thorough {
            self.checker.touched.insert(shard);
        }
    }

    /// Everything that the process at a seat holds is looked at.
    pub(super) fn touch_all(&mut self, seat: usize) {
        if !self.checker.thorough {
            let held = self.held(seat);
            self.checker.touched.extend(held);
        }
    }

    fn held(&self, seat: usize) -> BTreeSet<ShardId> {
        let lanes = self.seats[seat].process.iter().flat_map(|process| &process.lanes);
        lanes
            .flat_map(|berth| {
                let runs = berth.runs.values().map(|run| run.shard);
                berth.lane.tenures().map(|(shard, _)| shard).chain(runs)
            })
            .collect()
    }

    /// I1 and I3: after every event, at the seat where it happened; elsewhere time can only take life away.
    pub(super) fn check(&mut self, seat: usize) {
        if self.checker.thorough {
            return (0..self.options.shards).for_each(|shard| self.check_shard(seat, ShardId(shard)));
        }
        while let Some(shard) = self.checker.touched.pop_first() {
            self.check_shard(seat, shard);
        }
        if self.now >= self.checker.scan_at {
            self.checker.scan_at = self.now + SECOND;
            self.scan();
        }
    }

    /// Every shard at every seat, whoever is believed to own it.
    fn scan(&mut self) {
        let mut live = BTreeMap::new();
        for seat in 0..self.seats.len() {
            for shard in self.held(seat) {
                if self.live_owner(seat, shard).is_none() {
                    continue;
                }
                if !self.checker.shards[shard.0 as usize].owners.contains(&seat) {
                    self.violated("blind-checker", format!("{} owns {shard}, unseen", self.name(seat)));
                }
                if let Some(other) = live.insert(shard, seat) {
                    self.two_owners(shard, seat, other);
                }
            }
        }
        for shard in (0..self.options.shards).map(ShardId) {
            let seat = self.checker.shards[shard.0 as usize].owners.first().copied().unwrap_or(0);
            self.check_shard(seat, shard);
        }
    }

    fn check_shard(&mut self, seat: usize, shard: ShardId) {
        let at = shard.0 as usize;
        let found = self.live_owner(seat, shard);
        let mut owners = core::mem::take(&mut self.checker.shards[at].owners);
        owners.retain(|owner| *owner != seat && self.live_owner(*owner, shard).is_some());
        let Some((token, _)) = found else {
            self.checker.shards[at].owners = owners;
            let watch = &self.checker.shards[at];
            if watch.idle_since == 0 && watch.token.is_some() && !self.is_served(shard) {
                let last = watch.last;
                self.checker.shards[at].idle_since = self.now;
                self.gap_begins(shard, last);
            }
            return;
        };
        let others: Vec<usize> = if self.checker.thorough {
            let all = 0..self.seats.len();
            all.filter(|other| *other != seat && self.live_owner(*other, shard).is_some()).collect()
        } else {
            owners.clone()
        };
        if let Some(other) = others.first() {
            self.two_owners(shard, seat, *other);
        }
        owners.push(seat);
        let served = self.serves(seat, shard);
        let watch = &mut self.checker.shards[at];
        watch.owners = owners;
        if served && (watch.idle_since > 0 || watch.last.is_none()) {
            if watch.idle_since > 0 {
                self.checker.longest_gap = self.checker.longest_gap.max(self.now - watch.idle_since);
            }
            watch.idle_since = 0;
            watch.served_since = self.now;
            self.gap_ends(shard);
        }
        if served {
            self.checker.shards[at].last = Some(seat);
        }
        self.check_token(seat, shard, token);
    }

    fn two_owners(&mut self, shard: ShardId, seat: usize, other: usize) {
        let (Some((ours, how)), Some((theirs, also))) = (self.live_owner(seat, shard), self.live_owner(other, shard))
        else {
            return;
        };
        let (here, there) = (self.name(seat), self.name(other));
        self.violated(
            "double-owner",
            format!("{shard}: {here} {how} under {ours}, while {there} {also} under {theirs}"),
        );
    }

    /// I3: a grant that is served is the greatest ever served, and each is served by one process only.
    fn check_token(&mut self, seat: usize, shard: ShardId, token: Token) {
        let Some(key) = self.seats[seat].process.as_ref().map(|process| process.key) else { return };
        let known = &mut self.checker.shards[shard.0 as usize].token;
        match *known {
            Some((last, who)) if token < last || (token == last && who != key) => {
                self.violated(
                    "token-order",
                    format!("{shard}: {key} serves under {token} after {who} did under {last}"),
                );
            }
            _ => *known = Some((token, key)),
        }
    }

    /// A hook or handler starts: under the greatest grant, and beside no other of its entity.
    pub(super) fn check_run(&mut self, seat: usize, lane: usize, run: &Run) {
        if !matches!(run.what, What::Stop) {
            self.check_token(seat, run.shard, run.token);
            // I9: what starts, starts while its shard is live.
            if !self.serves(seat, run.shard) {
                let key = self.name(seat);
                self.violated(
                    "ran-unowned",
                    format!("{key} starts {:?} of {}, which it does not serve", run.what, run.shard),
                );
            }
        }
        let all = if self.checker.thorough {
            (0..self.seats.len()).collect()
        } else {
            let mut owners = self.checker.shards[run.shard.0 as usize].owners.clone();
            owners.push(seat);
            owners
        };
        for other in all {
            let Some(process) = &self.seats[other].process else { continue };
            let live = other == seat || process.node.session().is_live(self.local(other));
            let beside = process.lanes[lane].runs.values().find(|running| running.entity == run.entity);
            if live && let Some(beside) = beside {
                let what = beside.what;
                self.violated(
                    "beside",
                    format!(
                        "e{}: {:?} starts on {} while {what:?} runs on {}",
                        run.entity,
                        run.what,
                        self.name(seat),
                        self.name(other)
                    ),
                );
            }
        }
    }

    fn is_served(&self, shard: ShardId) -> bool {
        if self.checker.thorough {
            return (0..self.seats.len()).any(|seat| self.serves(seat, shard));
        }
        self.checker.shards[shard.0 as usize].owners.iter().any(|seat| self.serves(*seat, shard))
    }

    /// How many nodes serve a shard.
    pub(super) fn servers(&self, shard: ShardId) -> usize {
        let owners = self.checker.shards[shard.0 as usize].owners.iter();
        owners.filter(|seat| self.serves(**seat, shard)).count()
    }

    pub(super) fn serves(&self, seat: usize, shard: ShardId) -> bool {
        let process = self.seats[seat].process.as_ref();
        process.is_some_and(|process| process.lanes[self.lane_of(shard)].lane.serves(self.local(seat), shard).is_some())
    }

    /// Who serves a shard, as one character: the node's number, `.` for nobody, `!` for more than one.
    pub(super) fn who_serves(&self, shard: ShardId) -> char {
        let mut serving = (0..self.seats.len()).filter(|seat| self.serves(*seat, shard));
        match (serving.next(), serving.next()) {
            (None, _) => '.',
            (Some(seat), None) => char::from_digit(seat as u32 + 1, 10).unwrap_or('?'),
            (Some(_), Some(_)) => '!',
        }
    }

    pub(super) fn name(&self, seat: usize) -> NodeKey {
        self.seats[seat].process.as_ref().map_or(self.seats[seat].last_key, |process| process.key)
    }
}
