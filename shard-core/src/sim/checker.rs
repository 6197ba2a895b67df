//! The invariants, looked at from outside and in real time.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::cluster::Cluster;
use super::options::Options;
use super::process::{Run, What, id_of};
use crate::id::{NodeKey, ShardId, Term, Token};

/// What the checkers remember.
#[derive(Debug)]
pub(super) struct Checker {
    /// The term in force at each seat when it was last looked at.
    reigns: Vec<Option<Term>>,
    /// Terms that were in force and are not any more.
    ended: BTreeSet<Term>,
    /// Per shard: the greatest grant ever served, and by whom.
    tokens: Vec<Option<(Token, NodeKey)>>,
    /// Per shard: since when nobody serves it; zero: somebody does, or it never had an owner.
    idle_since: Vec<u64>,
    longest_gap: u64,
}

impl Checker {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            reigns: alloc::vec![None; options.nodes],
            ended: BTreeSet::new(),
            tokens: alloc::vec![None; options.shards as usize],
            idle_since: alloc::vec![0; options.shards as usize],
            longest_gap: 0,
        }
    }

    /// The process at a seat is gone, and its reign with it.
    pub(super) fn forget(&mut self, seat: usize) {
        self.ended.extend(self.reigns[seat].take());
    }

    pub(super) fn longest_gap(&self) -> u64 {
        self.longest_gap
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
        self.seats[seat].process.as_ref()?.node.election().reigning(self.local(seat))
    }

    /// The grant under which a live owner sits at `seat`: its lane could start a handler, or something of the shard runs
    /// while its session lives.
    fn live_owner(&self, seat: usize, shard: ShardId) -> Option<(Token, &'static str)> {
        let process = self.seats[seat].process.as_ref()?;
        let now = self.local(seat);
        let berth = &process.lanes[self.lane_of(shard)];
        if let Some(token) = berth.lane.serves(now, shard) {
            return Some((token, "may start handlers"));
        }
        let run = berth.runs.values().find(|run| run.shard == shard)?;
        process.node.session().is_live(now).then_some((run.token, "runs a handler or hook"))
    }

    /// I1 and I3: after every event, at the seat where it happened; elsewhere time can only take life away.
    pub(super) fn check(&mut self, seat: usize) {
        for shard in (0..self.options.shards).map(ShardId) {
            let at = shard.0 as usize;
            let Some((token, how)) = self.live_owner(seat, shard) else {
                if self.checker.idle_since[at] == 0 && self.checker.tokens[at].is_some() && !self.is_served(shard) {
                    self.checker.idle_since[at] = self.now;
                }
                continue;
            };
            let since = core::mem::take(&mut self.checker.idle_since[at]);
            if since > 0 {
                self.checker.longest_gap = self.checker.longest_gap.max(self.now - since);
            }
            for other in (0..self.seats.len()).filter(|other| *other != seat) {
                if let Some((theirs, also)) = self.live_owner(other, shard) {
                    self.violated(
                        "double-owner",
                        format!(
                            "{shard}: {} {how} under {token}, while {} {also} under {theirs}",
                            self.name(seat),
                            self.name(other)
                        ),
                    );
                }
            }
            self.check_token(seat, shard, token);
        }
    }

    /// I3: a grant that is served is the greatest ever served, and each is served by one process only.
    fn check_token(&mut self, seat: usize, shard: ShardId, token: Token) {
        let Some(key) = self.seats[seat].process.as_ref().map(|process| process.key) else { return };
        let known = &mut self.checker.tokens[shard.0 as usize];
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
        }
        for other in 0..self.seats.len() {
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
        (0..self.seats.len()).any(|seat| self.serves(seat, shard))
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

    fn name(&self, seat: usize) -> NodeKey {
        self.seats[seat].process.as_ref().map_or(self.seats[seat].last_key, |process| process.key)
    }
}
