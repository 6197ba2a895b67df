//! How sessions end, and what is remembered of those that did.

use alloc::vec::Vec;

use super::{DEAD_MAX, FOR_EVER, GONE_MAX, Reign, every_life};
use crate::{
    coordinator::{Ending, Output},
    id::NodeKey,
    machine::{Notice, Outbox, Rule},
    time::Instant,
    wire::{Control, Heartbeat},
};

impl Reign {
    /// A process that goes on although a younger one of the same node id has registered: after a restart its last frames
    /// may come late, but not three in a row.
    pub(super) fn look_for_clash(&mut self, from: NodeKey, out: &mut (impl Outbox<Output> + ?Sized)) {
        const SURE: u8 = 3;
        let Some(born) = self.members.get(&from).map(|member| member.born) else { return };
        let mut lives = self.members.range(every_life(from));
        let younger = lives.find(|(_, member)| member.born > born).map(|(node, _)| *node);
        let (Some(younger), Some(member)) = (younger, self.members.get_mut(&from)) else { return };
        member.outlived = member.outlived.saturating_add(1);
        if member.outlived == SURE {
            self.clashes.insert(from.id, from);
            out.emit(Output::Notice(Notice::NodeIdClash { older: from, younger }));
        }
    }

    /// Whether a heartbeat comes from a node that was let go and did not hear it. (A node that was replaced by a newer
    /// process and wants to leave gets its wish as well.)
    pub(super) fn left(&self, from: NodeKey, beat: &Heartbeat) -> bool {
        let empty = beat.report.as_ref().is_none_or(|report| report.owned.is_empty());
        self.dead.get(&from) == Some(&FOR_EVER) && beat.leaving && empty
    }

    /// Sessions whose time is up end: L2 says that their nodes ended them before.
    pub(in super::super) fn advance(&mut self, now: Instant, out: &mut (impl Outbox<Output> + ?Sized)) {
        let expired: Vec<_> = self.expiries.iter().take_while(|(at, _)| now >= *at).map(|(_, node)| *node).collect();
        for node in expired {
            let session = self.members.get(&node).map_or(0, |member| member.session);
            self.end(now, node, Ending::Expired, out);
            let same_id = self.members.range(every_life(node)).next().is_some();
            if same_id && !self.clashes.contains_key(&node.id) {
                self.bury_for_ever(node, out);
            } else {
                self.bury(node, session, out);
            }
            out.emit(Output::Gone { node });
        }
        // The rule that must not be: a drain that takes too long gives the shard to somebody else.
        if !self.config.rules.on(Rule::NoForcedHandoff) {
            for key in self.table.overdue(now) {
                self.free(now, key, Ending::Dropped, out);
            }
        }
    }

    /// Removes a session and frees its shards.
    pub(super) fn end(&mut self, now: Instant, node: NodeKey, how: Ending, out: &mut (impl Outbox<Output> + ?Sized)) {
        let Some(member) = self.members.remove(&node) else { return };
        self.expiries.remove(&(member.expire_at, node));
        self.directory_version += 1;
        self.roll.ended();
        if self.clashes.get(&node.id) == Some(&node) {
            self.clashes.remove(&node.id);
        }
        for key in member.holds {
            self.free(now, key, how, out);
        }
    }

    pub(super) fn bury(&mut self, node: NodeKey, session: u64, out: &mut (impl Outbox<Output> + ?Sized)) {
        let last = self.dead.entry(node).or_insert(0);
        *last = session.max(*last);
        if self.dead.len() > DEAD_MAX && !self.outdone {
            self.outdone = true;
            out.emit(Output::Notice(Notice::BoundHit { what: "sessions ended in one reign" }));
            out.emit(Output::LearnedCounter(self.term.counter));
        }
    }

    pub(super) fn bury_for_ever(&mut self, node: NodeKey, out: &mut (impl Outbox<Output> + ?Sized)) {
        self.bury(node, FOR_EVER, out);
        self.directory_version += 1;
        if self.gone.len() == GONE_MAX {
            self.gone.pop_front();
        }
        self.gone.push_back(node);
    }

    /// Former processes of the same node whose sessions have ended will not come back.
    pub(super) fn replaces_older(&mut self, node: NodeKey, out: &mut (impl Outbox<Output> + ?Sized)) {
        let ended = self.dead.range(every_life(node)).filter(|(former, dead)| **former != node && **dead != FOR_EVER);
        let ended: Vec<_> = ended.map(|(former, _)| *former).collect();
        for former in ended {
            self.bury_for_ever(former, out);
        }
    }

    pub(super) fn refuse(&self, to: NodeKey, session: u64, out: &mut (impl Outbox<Output> + ?Sized)) {
        self.send(to, Control::Dead { term: self.term, session }, out);
    }
}
