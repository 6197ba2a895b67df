//! Who hears which control message: election, session, allocator or the lanes.

use super::{Node, coordinator, session};
use crate::election::ElectionInput;
use crate::id::NodeKey;
use crate::machine::{Notice, Outbox, Rule};
use crate::node::Output;
use crate::region::lane::Order;
use crate::time::Instant;
use crate::wire::Control;

impl Node {
    pub(super) fn heard(
        &mut self,
        now: Instant,
        from: NodeKey,
        to: NodeKey,
        message: Control,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) {
        if to != self.config.me && self.config.rules.on(Rule::Incarnation) {
            return;
        }
        match message {
            Control::LeaseRequest { .. } if self.clocks.is_too_slow(from) => {}
            Control::LeaseRequest { .. }
            | Control::LeaseGranted { .. }
            | Control::LeaseRefused { .. }
            | Control::Release { .. } => self.tell_election(now, ElectionInput::Heard { from, message }, out),
            Control::WhoReigns => {
                self.tell_allocator(now, coordinator::Input::Heard { from, message: Control::WhoReigns }, out);
                self.tell_election(now, ElectionInput::Heard { from, message }, out);
                self.point_on(from, out);
            }
            Control::Reign { term, ref address } => {
                if term.node != self.config.me {
                    self.learn_address(term.node.id, address);
                    out.emit(Output::Reach { node: term.node, address: address.clone() });
                    self.tell_session(now, session::Input::CoordinatorIs { term }, out);
                }
                self.tell_election(now, ElectionInput::Heard { from, message }, out);
            }
            Control::Announce { .. } => {
                self.tell_election(now, ElectionInput::Heard { from, message: message.clone() }, out);
                self.tell_session(now, session::Input::Heard { from, to, message }, out);
            }
            Control::Nack { .. } => {
                self.tell_election(now, ElectionInput::Heard { from, message: message.clone() }, out);
                self.tell_allocator(now, coordinator::Input::Heard { from, message }, out);
            }
            Control::Heartbeat(mut beat) => {
                self.learn_address(from.id, &beat.address);
                let (loads, traffic) = (core::mem::take(&mut beat.loads), beat.traffic.take());
                let message = Control::Heartbeat(beat);
                self.tell_allocator(now, coordinator::Input::Heard { from, message }, out);
                self.planner.loads.heard(from, loads, &self.allocator);
                if let Some(traffic) = traffic {
                    self.planner.traffic.heard(from, *traffic, &self.allocator);
                }
            }
            Control::Lookup { .. } => self.tell_allocator(now, coordinator::Input::Heard { from, message }, out),
            Control::Ack(ref ack) => {
                // Only what came from the clock that it speaks of; the session says so if it did not.
                let named = (ack.term.node == from).then_some((ack.sequence, ack.clock));
                if let Some((sequence, clock)) = named {
                    self.compare_clocks(now, from, sequence, clock, out);
                }
                self.tell_session(now, session::Input::Heard { from, to, message }, out);
            }
            Control::Dead { .. } | Control::KindRefused { .. } => {
                self.tell_session(now, session::Input::Heard { from, to, message }, out);
            }
            Control::Home { term, key, home } => {
                if self.session.term() == Some(term) && term.node == from {
                    let order = Order::Home { shard: key.shard, home };
                    out.emit(Output::Order { kind: key.kind, order });
                } else {
                    out.emit(Output::Notice(Notice::StaleTerm { from, term }));
                }
            }
        }
    }
}
