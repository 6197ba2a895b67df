//! Departures in good order, as `hub` does them: hand over all shards, wait until what callers sent is settled and what was
//! said is acknowledged, then leave. A process that were gone before its word of what it took has arrived would leave its
//! senders in doubt.

use alloc::format;

use super::cluster::Cluster;
use super::event::Event;
use super::fault::Fault;
use super::links::Sender;
use super::measure::Cause;
use crate::id::NodeKey;
use crate::node::Input;
use crate::time::nanos;

/// How often a process that leaves looks whether it may go.
const LOOK: u64 = 5_000_000;
/// For so many drains at most it waits for its mail; `hub` has the same bound with the default times.
const PATIENCE: u32 = 4;

/// How a departure stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// How long it stays away once it has left.
    pub(super) away: u64,
    /// When it goes, whatever is still under way.
    goes_at: u64,
    /// Since when it owns nothing and keeps nothing.
    settled_at: Option<u64>,
}

impl Cluster {
    /// The process at a seat is asked to leave.
    pub(super) fn leave(&mut self, seat: usize, away: u64) {
        let reigns = self.reigning(seat).is_some();
        let goes_at = self.now + nanos(self.options.timing.drain * PATIENCE);
        if let Some(process) = &mut self.seats[seat].process
            && process.departure.is_none()
        {
            process.departure = Some(Departure { away, goes_at, settled_at: None });
            self.blame(&[seat], if reigns { Cause::CoordinatorLeave } else { Cause::Leave });
            self.note(seat, || "wants to leave".into());
            self.push_here(self.now, seat, Event::Answer(Input::HandOver));
            self.push_here(self.now + LOOK, seat, Event::Part);
        }
    }

    /// It looks whether it may go.
    pub(super) fn part(&mut self, seat: usize) {
        let now = self.now;
        // What it said last should arrive; but a node that died will never acknowledge it.
        let last_words = nanos(self.options.timing.drain);
        let Some(process) = &mut self.seats[seat].process else { return };
        let lanes = &process.lanes;
        let settled = lanes.iter().all(|berth| berth.lane.kept() == 0 && berth.lane.tenures().next().is_none());
        let said = |(node, link): (&NodeKey, &Sender)| link.is_empty() || process.doubtful.contains(node);
        let acknowledged = process.links.senders.iter().all(said);
        let Some(departure) = &mut process.departure else { return };
        let since = if settled { *departure.settled_at.get_or_insert(now) } else { now };
        if now >= departure.goes_at || (settled && (acknowledged || now >= since + last_words)) {
            self.note(seat, || format!("has handed over: settled {settled}, acknowledged {acknowledged}"));
            self.push_here(now, seat, Event::Answer(Input::Leave));
        } else {
            self.push_here(now + LOOK, seat, Event::Part);
        }
    }

    /// Where one planned move is all that happens, every sender knows what became of its message.
    pub(super) fn audit_plan(&mut self) {
        let planned = |fault: &Fault| matches!(fault, Fault::Leave { .. } | Fault::Resign { .. } | Fault::Start { .. });
        let in_doubt = self.model.totals().in_doubt;
        if self.options.drill && in_doubt > 0 && self.options.script.iter().all(|(_, fault)| planned(fault)) {
            self.violated("doubted", format!("{in_doubt} messages are in doubt after a planned move"));
        }
    }
}
