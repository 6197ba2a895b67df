//! What must hold besides ownership: terms that a region obeys grow (I6), nobody serves what the coordinator takes for free
//! (I4), every queue keeps its bound (I10), no shard flaps (P5), and every message is counted once.

use alloc::collections::VecDeque;
use alloc::format;

use super::cluster::Cluster;
use super::links::BYTES;
use super::marks::Mark;
use crate::id::{ShardId, Term};
use crate::time::nanos;

/// How often queues are measured; in large clusters ten times less often.
const EVERY: u64 = 100_000_000;
/// How often a large cluster's whole table is compared with its owners.
const SECOND: u64 = 1_000_000_000;
/// A shard that begins to be served so often within one session's length flaps (P5): each new owner needs the drop of the
/// one before, or its session's end.
const FLAPS: usize = 16;

/// What it remembers.
#[derive(Debug, Default)]
pub(super) struct Audit {
    next: u64,
    /// When the tables of a large cluster are looked at next.
    tables_at: u64,
    /// Per shard: when it last began to be served.
    grants: alloc::vec::Vec<VecDeque<u64>>,
}

impl Cluster {
    /// After every event at `seat`.
    pub(super) fn audit(&mut self, seat: usize) {
        self.audit_term(seat);
        // In a large cluster: when a table comes into force, and each simulated second.
        let opened = self.audit_opening(seat);
        if opened || self.checker.is_thorough() {
            self.audit_table(seat);
        } else if self.now >= self.audit.tables_at {
            self.audit.tables_at = self.now + SECOND;
            (0..self.seats.len()).for_each(|seat| self.audit_table(seat));
        }
        if self.now >= self.audit.next {
            let rarely = if self.checker.is_thorough() { 1 } else { 10 };
            self.audit.next = self.now + EVERY * rarely;
            (0..self.seats.len()).for_each(|seat| self.audit_bounds(seat));
        }
    }

    /// I6: a region never obeys a lesser term than one it has obeyed.
    fn audit_term(&mut self, seat: usize) {
        let Some(process) = &mut self.seats[seat].process else { return };
        let term = process.node.session().term();
        if term < process.obeyed {
            let (key, before) = (process.key, process.obeyed);
            self.violated("term-regressed", format!("{key} obeys {} after {}", said(term), said(before)));
        } else {
            process.obeyed = term;
        }
    }

    /// Whether a reign may place shards for the first time: early, or after W.
    fn audit_opening(&mut self, seat: usize) -> bool {
        let now = self.local(seat);
        let wait = self.options.timing.wait;
        let Some(process) = &mut self.seats[seat].process else { return false };
        let Some(at) = process.elected_at.filter(|_| process.node.allocator().may_allocate(now)) else { return false };
        process.elected_at = None;
        if now < at + wait {
            self.marks.meet(Mark::OpenedEarly);
        }
        true
    }

    /// I4: once a coordinator may place shards, its table names every live owner.
    fn audit_table(&mut self, seat: usize) {
        if self.reigning(seat).is_none() {
            return;
        }
        let now = self.local(seat);
        let Some(process) = &self.seats[seat].process else { return };
        let allocator = process.node.allocator();
        if !allocator.may_allocate(now) {
            return;
        }
        let mut unknown = None;
        for shard in (0..self.options.shards).map(ShardId) {
            let place = allocator.place(self.key(shard)).map(|place| place.owner);
            for owner in self.checker.owners(shard) {
                let key = self.name(*owner);
                if place != Some(key) && self.live_owner(*owner, shard).is_some() {
                    unknown = Some((key, shard, place));
                }
            }
        }
        if let Some((owner, shard, place)) = unknown {
            let table = place.map_or_else(|| "nobody".into(), |owner| format!("{owner}"));
            let me = self.name(seat);
            self.violated(
                "unlisted-owner",
                format!("{owner} serves {shard}, which the table of {me} gives to {table}"),
            );
        }
    }

    /// I10.
    fn audit_bounds(&mut self, seat: usize) {
        let Some(process) = &self.seats[seat].process else { return };
        let (stream, shards) = (&self.options.stream, self.options.shards as usize);
        let mut over = None;
        // What a sender keeps for a shard: its stream, and what its entities had waiting when a tenure ended.
        let returned = self.options.handlers.mailbox * self.options.entities_per_shard as usize;
        let most_kept = stream.messages_max + returned;
        for berth in &process.lanes {
            for (shard, _) in berth.lane.tenures() {
                let kept = berth.lane.unsettled(shard);
                if kept > most_kept {
                    over = Some(format!("{kept} messages for {shard} in a stream, {most_kept} at most"));
                }
            }
            let (kept, most) = (berth.lane.kept(), most_kept * shards);
            if kept > most {
                over = Some(format!("{kept} messages in the streams of a lane, {most} at most"));
            }
            if let (Some(census), Some(share)) = (berth.lane.census(), berth.lane.share()) {
                let (held, sum) = (census.held(), census.awake.count + census.pinned.count + census.stopping.count);
                if held > share && census.awake.count > 0 {
                    over = Some(format!("{held} awake, {share} at most: {census:?}"));
                }
                if sum as usize != berth.lane.residents() {
                    over = Some(format!("the policy knows {sum} of {} entities", berth.lane.residents()));
                }
            }
            let (awake, most) = (berth.lane.residents(), self.entities.len());
            if awake > most {
                over = Some(format!("{awake} residents of {most} entities"));
            }
        }
        if let Some(pool) = process.pool.as_ref().filter(|pool| pool.given() > pool.limit()) {
            over = Some(format!("{} given of a limit of {}", pool.given(), pool.limit()));
        }
        // Answers pass a full link: as many as the peer keeps messages, twice if the answers do not get through and it gave up on
        // the first, and a few for each shard.
        let answers = shards * (2 * most_kept + 8) * BYTES;
        for (node, link) in &process.links.senders {
            let (bytes, most) = (link.bytes(), self.options.link.bytes_max + answers);
            if bytes > most {
                over = Some(format!("{bytes} bytes on the link to {node}, {most} at most"));
            }
        }
        let now = self.local(seat);
        for node in process.node.allocator().nodes(now) {
            let (commands, most) = (node.commands, shards * 2);
            if commands > most {
                over = Some(format!("{commands} commands for {}, {most} at most", node.node));
            }
        }
        if let Some(over) = over {
            let key = process.key;
            self.violated("bound", format!("{key} keeps {over}"));
        }
    }

    /// P5: a shard begins to be served.
    pub(super) fn audit_grant(&mut self, shard: ShardId) {
        let (now, window) = (self.now, nanos(self.options.timing.session));
        let at = shard.0 as usize;
        if self.audit.grants.len() <= at {
            self.audit.grants.resize(at + 1, VecDeque::new());
        }
        let grants = &mut self.audit.grants[at];
        grants.push_back(now);
        if grants.len() == FLAPS {
            let first = grants.pop_front().unwrap_or(0);
            if now - first < window && !self.options.dense {
                self.violated("flapping", format!("{shard} began to be served {FLAPS} times within one session"));
            }
        }
    }

    /// At the end: the classes of messages add up.
    pub(super) fn audit_sum(&mut self) {
        let totals = self.model.totals();
        let (all, sum) = (self.model.entries.len() as u64, totals.sum());
        if self.violation.is_none() && all != sum {
            self.violated("sum", format!("{all} messages were sent and {sum} met a fate: {totals:?}"));
        }
    }
}

fn said(term: Option<Term>) -> alloc::string::String {
    term.map_or_else(|| "no term".into(), |term| format!("{term}"))
}
