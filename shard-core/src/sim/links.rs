//! The links of a process: who is reached, what is written, and when a link next wants something.
//!
//! A process may have a thousand links, so a packet looks only at the link it came over; the deadlines of all stand in an
//! index ([`Links`]) of which the timer takes what is due.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::cluster::Cluster;
use super::event::{Frame, Packet};
use super::marks::Mark;
use crate::id::{NodeId, NodeKey};
use crate::machine::Fixed;
use crate::region::lane::Order;
use crate::time::Instant;
use crate::wire::Stream;
use crate::wire::link::{LinkConfig, LinkReceiver, LinkSender, ReceiverOrder, SenderOrder};

/// What every message counts against a link's bound.
pub(super) const BYTES: usize = 100;

/// One end of a link at this process: to a process, or from a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum End {
    To(NodeKey),
    From(NodeId),
}

pub(super) type Sender = LinkSender<Frame>;

/// All links of a process.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) senders: BTreeMap<NodeKey, Sender>,
    pub(super) receivers: BTreeMap<NodeId, LinkReceiver>,
    /// When each next has something to do, and the same in order.
    deadlines: BTreeMap<End, Instant>,
    due: BTreeSet<(Instant, End)>,
}

impl Links {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A link changed: what it now waits for.
    fn rearm(&mut self, end: End) {
        let deadline = match end {
            End::To(node) => self.senders.get(&node).map(LinkSender::deadline),
            End::From(node) => self.receivers.get(&node).and_then(LinkReceiver::deadline),
        };
        let before = match deadline {
            Some(at) => self.deadlines.insert(end, at),
            None => self.deadlines.remove(&end),
        };
        if before == deadline {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, end));
        }
        if let Some(at) = deadline {
            self.due.insert((at, end));
        }
    }

    fn due_at(&self, now: Instant) -> Vec<End> {
        self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, end)| *end).collect()
    }
}

impl Cluster {
    pub(super) fn link_config(&self) -> Fixed<LinkConfig> {
        Fixed::new(LinkConfig { rules: self.options.rules(), ..self.options.link.clone() })
    }

    /// There shall be a link to that process.
    pub(super) fn reach(&mut self, seat: usize, node: NodeKey) {
        let config = self.link_config();
        let Some(process) = &mut self.seats[seat].process else { return };
        if node.id == process.key.id || process.gone.contains(&node) || process.links.senders.contains_key(&node) {
            return;
        }
        process.links.senders.insert(node, LinkSender::new(config, Some(node)));
        self.serve_links(seat, &[End::To(node)]);
    }

    /// A lane sends a frame: to the link, or nowhere if that process is gone, which the lane is told again.
    pub(super) fn send_frame(&mut self, seat: usize, _lane: usize, to: NodeKey, frame: Frame) {
        self.reach(seat, to);
        let Some(process) = &mut self.seats[seat].process else { return };
        match process.links.senders.get_mut(&to) {
            Some(link) => {
                link.answer(frame);
                self.serve_links(seat, &[End::To(to)]);
            }
            None => {
                if matches!(frame, Stream::Data { .. }) {
                    self.order_all(seat, Order::PeerGone(to));
                }
            }
        }
    }

    /// A process is gone for good: its links are over.
    pub(super) fn peer_gone(&mut self, seat: usize, node: NodeKey) {
        let now = self.local(seat);
        let config = self.link_config();
        let Some(process) = &mut self.seats[seat].process else { return };
        if node == process.key || !process.gone.insert(node) {
            return;
        }
        let links = &mut process.links;
        let mut closing: Vec<u64> = Vec::new();
        if let Some(mut link) = links.senders.remove(&node) {
            closing.extend(link.connection());
            drop(link.gone(now, node));
        }
        let receiver = links.receivers.entry(node.id).or_insert_with(|| LinkReceiver::new(config));
        let connection = receiver.connection();
        if receiver.gone(node) {
            closing.extend(connection);
        }
        links.rearm(End::To(node));
        links.rearm(End::From(node.id));
        process.doubtful.remove(&node);
        process.crowded.remove(&node);
        self.note(seat, || alloc::format!("{node} is gone for good"));
        self.order_all(seat, Order::PeerGone(node));
        for connection in closing {
            self.close(connection);
        }
    }

    pub(super) fn link_timer(&mut self, seat: usize, at: u64) {
        let now = self.local(seat);
        let Some(process) = &mut self.seats[seat].process else { return };
        if process.link_timer == at {
            process.link_timer = u64::MAX;
            let due = process.links.due_at(now);
            self.serve_links(seat, &due);
        }
    }

    /// Does what these links of a process want done now.
    pub(super) fn serve_links(&mut self, seat: usize, ends: &[End]) {
        let now = self.local(seat);
        for end in ends {
            let Some(process) = &mut self.seats[seat].process else { return };
            match *end {
                End::To(peer) => {
                    let Some(link) = process.links.senders.get_mut(&peer) else {
                        process.links.rearm(*end);
                        continue;
                    };
                    let mut orders = Vec::new();
                    while let Some(order) = link.expire(now) {
                        orders.push(order);
                    }
                    for order in orders {
                        match order {
                            SenderOrder::Dial => self.dial(seat, peer),
                            SenderOrder::Ping { connection } => self.transmit(connection, false, Packet::Ping),
                            SenderOrder::Close { connection } => self.close(connection),
                        }
                    }
                    self.pump(seat, peer);
                    self.tell_doubts(seat, peer);
                    self.tell_room(seat, peer);
                }
                End::From(node) => {
                    let mut acks = Vec::new();
                    while let Some(order) = process.links.receivers.get_mut(&node).and_then(|link| link.expire(now)) {
                        acks.push(order);
                    }
                    for order in acks {
                        match order {
                            ReceiverOrder::Ack { connection, upto } => {
                                self.transmit(connection, true, Packet::Ack(upto));
                            }
                            ReceiverOrder::Close { connection } => self.close(connection),
                        }
                    }
                }
            }
            if let Some(process) = &mut self.seats[seat].process {
                process.links.rearm(*end);
            }
        }
        self.set_link_timer(seat);
    }

    /// Writes what waits for a connection that is there.
    fn pump(&mut self, seat: usize, peer: NodeKey) {
        let Some(process) = &mut self.seats[seat].process else { return };
        let Some(link) = process.links.senders.get_mut(&peer) else { return };
        let Some(connection) = link.connection() else { return };
        let mut frames = Vec::new();
        while let Some((seq, frame)) = link.write(connection) {
            frames.push(Packet::Frame { seq, frame: frame.clone(), late: false });
        }
        for frame in frames {
            self.counters.frames += 1;
            self.transmit(connection, false, frame);
        }
    }

    /// Lanes hear when a process becomes hard to reach, and when it is not any more (D9).
    fn tell_doubts(&mut self, seat: usize, node: NodeKey) {
        let Some(process) = &mut self.seats[seat].process else { return };
        let Some(link) = process.links.senders.get(&node) else { return };
        let doubtful = link.is_doubtful();
        if doubtful == process.doubtful.contains(&node) {
            return;
        }
        if doubtful {
            self.marks.meet(Mark::LinkDoubtful);
            process.doubtful.insert(node);
        } else {
            process.doubtful.remove(&node);
        }
        self.order_all(seat, Order::Link { node, up: !doubtful });
    }

    /// Lanes hear when a link that had no room has some.
    fn tell_room(&mut self, seat: usize, node: NodeKey) {
        let most = self.options.link.bytes_max;
        let Some(process) = &mut self.seats[seat].process else { return };
        let Some(link) = process.links.senders.get(&node) else { return };
        if (link.is_empty() || link.bytes() + BYTES <= most) && process.crowded.remove(&node) {
            self.mark(Mark::LinkRoomAgain);
            self.order_all(seat, Order::Room(node));
        }
    }
}
