//! What a node does about clocks that cannot be trusted; how it finds out stands in `node/clocks.rs`.

use super::{Node, Peer};
use crate::election::ElectionInput;
use crate::id::NodeKey;
use crate::machine::{Notice, Outbox};
use crate::node::Output;
use crate::node::clocks::Alarm;
use crate::session;
use crate::time::Instant;
use crate::wire::Control;

impl Node {
    /// Both clocks were read.
    pub(super) fn look_at_the_clocks(&mut self, now: Instant, wall: u64, out: &mut (impl Outbox<Output> + ?Sized)) {
        if let Some(ahead) = self.clocks.jumped(now, wall) {
            let millis = u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX);
            out.emit(Output::Notice(Notice::ClockJumped { millis }));
            // The session first: what rides on the reign is over when the voters hear of its end (E8).
            self.tell_session(now, session::Input::GiveUp, out);
            self.tell_election(now, ElectionInput::StepDown, out);
        }
    }

    /// An ack came, which left when the coordinator's clock showed that.
    pub(super) fn compare_clocks(
        &mut self,
        now: Instant,
        from: NodeKey,
        sequence: u64,
        clock: u64,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) {
        match self.clocks.ack(from, sequence, clock) {
            Some(Alarm::Tell(notice)) => out.emit(Output::Notice(notice)),
            Some(Alarm::End(notice)) => {
                out.emit(Output::Notice(notice));
                self.tell_session(now, session::Input::GiveUp, out);
            }
            Some(Alarm::Distrust(notice)) => {
                out.emit(Output::Notice(notice));
                self.tell_election(now, ElectionInput::Distrust { node: from }, out);
            }
            None => {}
        }
    }

    /// Notes what goes out about time; whether it may go at all.
    pub(super) fn may_send(&mut self, to: Peer, message: &mut Control) -> bool {
        match (message, to) {
            (Control::Ack(ack), _) => ack.clock = self.clocks.now.as_nanos() / 1_000,
            (Control::Heartbeat(beat), Peer::Key(to)) => {
                if self.clocks.is_too_fast(to) {
                    return false;
                }
                self.clocks.beat(to, beat.sequence);
            }
            _ => {}
        }
        true
    }
}
