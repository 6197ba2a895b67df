//! What lies between processes: datagrams for control, connections for links.

use alloc::vec::Vec;

use super::cluster::{Cluster, about};
use super::event::{Event, Frame, Packet};
use super::options::ms;
use super::process::{address, seat_of};
use crate::id::NodeKey;
use crate::machine::Fixed;
use crate::node::{Input, Peer};
use crate::region::lane::Order;
use crate::time::nanos;
use crate::wire::link::{
    Arrival, Confirmed, Identity, LinkConfig, LinkReceiver, LinkSender, PROTOCOL, ReceiverOrder, SenderOrder, Unit,
};
use crate::wire::{Control, Stream};

impl Unit for Frame {
    fn frames(&self) -> u64 {
        1
    }

    fn bytes(&self) -> usize {
        100
    }
}

/// A one-way connection: the dialling process, the one it means, and the one that answers.
#[derive(Debug)]
pub(super) struct Connection {
    dialler: (usize, u32),
    target: NodeKey,
    listener: (usize, u32),
    broken: bool,
    /// The listener has read something behind the `Hello`.
    confirmed: bool,
    /// What was last sent arrives then: connections keep the order.
    at_dialler: u64,
    at_listener: u64,
}

impl Cluster {
    // ---- datagrams --------------------------------------------------------------------------------------------------

    pub(super) fn send_control(&mut self, seat: usize, to: Peer, message: Control) {
        let there = seat_of(to.id());
        let Some(from) = self.seats[seat].process.as_ref().map(|process| process.key) else { return };
        if there >= self.seats.len() {
            return;
        }
        self.counters.datagrams += 1;
        let key = match to {
            Peer::Key(key) => key,
            Peer::Id(_) => self.seats[there].last_key,
        };
        self.note(seat, || alloc::format!("-> {key} {}", brief(&message)));
        if self.is_cut(seat, there) || self.dice.net.chance(self.faults.loss_permille, 1_000) {
            return;
        }
        let copies = 1 + u64::from(self.dice.net.chance(self.faults.duplicate_permille, 1_000));
        for _ in 0..copies {
            let mut delay = about(&mut self.dice.net, self.faults.delay);
            if self.clogs[seat][there] > self.now || self.dice.net.chance(self.faults.tail_permille, 1_000) {
                delay += self.dice.net.below(nanos(self.options.timing.wait) * 3 / 2);
            }
            let event = Event::Control { from, to: key, message: message.clone() };
            self.agenda.push(self.now + delay + 1, there, 0, event);
        }
    }

    pub(super) fn hear_control(&mut self, seat: usize, from: NodeKey, to: NodeKey, message: Control) {
        if self.seats[seat].process.is_none() {
            return;
        }
        self.note(seat, || alloc::format!("<- {from} {}", brief(&message)));
        self.node_call(seat, |node, now, out| node.handle(now, Input::Heard { from, to, message }, out));
    }

    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts[from][to] > self.now
    }

    // ---- links ------------------------------------------------------------------------------------------------------

    fn link_config(&self) -> Fixed<LinkConfig> {
        Fixed::new(LinkConfig { rules: self.options.rules(), ..self.options.link.clone() })
    }

    /// There shall be a link to that process.
    pub(super) fn reach(&mut self, seat: usize, node: NodeKey) {
        let config = self.link_config();
        let Some(process) = &mut self.seats[seat].process else { return };
        if node.id == process.key.id || process.gone.contains(&node) || process.senders.contains_key(&node) {
            return;
        }
        process.senders.insert(node, LinkSender::new(config, Some(node)));
        self.serve_links(seat);
    }

    /// A lane sends a frame: to the link, or nowhere if that process is gone, which the lane is told again.
    pub(super) fn send_frame(&mut self, seat: usize, _lane: usize, to: NodeKey, frame: Frame) {
        self.reach(seat, to);
        let Some(process) = &mut self.seats[seat].process else { return };
        match process.senders.get_mut(&to) {
            Some(link) => {
                link.answer(frame);
                self.serve_links(seat);
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
        let mut closing: Vec<u64> = Vec::new();
        if let Some(mut link) = process.senders.remove(&node) {
            closing.extend(link.connection());
            drop(link.gone(now, node));
        }
        let receiver = process.receivers.entry(node.id).or_insert_with(|| LinkReceiver::new(config));
        let connection = receiver.connection();
        if receiver.gone(node) {
            closing.extend(connection);
        }
        process.doubtful.remove(&node);
        self.note(seat, || alloc::format!("{node} is gone for good"));
        self.order_all(seat, Order::PeerGone(node));
        for connection in closing {
            self.close(connection);
        }
    }

    pub(super) fn link_timer(&mut self, seat: usize, at: u64) {
        let Some(process) = &mut self.seats[seat].process else { return };
        if process.link_timer == at {
            process.link_timer = u64::MAX;
            self.serve_links(seat);
        }
    }

    /// Does what all links of a process want done now.
    fn serve_links(&mut self, seat: usize) {
        let now = self.local(seat);
        let Some(process) = &mut self.seats[seat].process else { return };
        let mut orders = Vec::new();
        let mut acks = Vec::new();
        for (peer, link) in &mut process.senders {
            while let Some(order) = link.expire(now) {
                orders.push((*peer, order));
            }
        }
        for link in process.receivers.values_mut() {
            while let Some(order) = link.expire(now) {
                acks.push(order);
            }
        }
        for (peer, order) in orders {
            match order {
                SenderOrder::Dial => self.dial(seat, peer),
                SenderOrder::Ping { connection } => self.transmit(connection, false, Packet::Ping),
                SenderOrder::Close { connection } => self.close(connection),
            }
        }
        for order in acks {
            match order {
                ReceiverOrder::Ack { connection, upto } => self.transmit(connection, true, Packet::Ack(upto)),
                ReceiverOrder::Close { connection } => self.close(connection),
            }
        }
        self.pump(seat);
        self.tell_doubts(seat);
        self.set_link_timer(seat);
    }

    /// Writes what waits for a connection that is there.
    fn pump(&mut self, seat: usize) {
        let Some(process) = &mut self.seats[seat].process else { return };
        let mut frames = Vec::new();
        for link in process.senders.values_mut() {
            let Some(connection) = link.connection() else { continue };
            while let Some((seq, frame)) = link.write(connection) {
                frames.push((connection, Packet::Frame { seq, frame: frame.clone(), late: false }));
            }
        }
        for (connection, frame) in frames {
            self.counters.frames += 1;
            self.transmit(connection, false, frame);
        }
    }

    /// Lanes hear when a process becomes hard to reach, and when it is not any more (D9).
    fn tell_doubts(&mut self, seat: usize) {
        let Some(process) = &mut self.seats[seat].process else { return };
        let mut news = Vec::new();
        for (node, link) in &process.senders {
            let doubtful = link.is_doubtful();
            if doubtful != process.doubtful.contains(node) {
                news.push((*node, !doubtful));
            }
        }
        for (node, up) in &news {
            if *up {
                process.doubtful.remove(node)
            } else {
                process.doubtful.insert(*node)
            };
        }
        for (node, up) in news {
            self.order_all(seat, Order::Link { node, up });
        }
    }

    // ---- connections ------------------------------------------------------------------------------------------------

    fn dial(&mut self, seat: usize, target: NodeKey) {
        let there = seat_of(target.id);
        let Some(process) = &self.seats[seat].process else { return };
        let (key, life) = (process.key, process.life);
        self.connections_made += 1;
        let number = self.connections_made;
        let listener = self.seats[there].process.as_ref().map(|process| (there, process.life));
        let connection = Connection {
            dialler: (seat, life),
            target,
            listener: listener.unwrap_or((there, 0)),
            broken: false,
            confirmed: false,
            at_dialler: 0,
            at_listener: 0,
        };
        self.connections.insert(number, connection);
        if listener.is_none() {
            // Nobody listens: the dialler hears so, or nothing.
            if self.dice.net.chance(3, 4) {
                self.transmit(number, true, Packet::Refused);
            }
            return;
        }
        self.transmit(number, false, Packet::Hello { hello: identity(seat, key).hello(Some(target)) });
    }

    /// Puts a packet on a connection, towards its dialler or its listener.
    fn transmit(&mut self, number: u64, dialler: bool, packet: Packet) {
        let delay = about(&mut self.dice.net, self.faults.delay);
        let Some(connection) = self.connections.get_mut(&number).filter(|connection| !connection.broken) else {
            return;
        };
        let (from, to) =
            if dialler { (connection.listener, connection.dialler) } else { (connection.dialler, connection.listener) };
        let at = if dialler { &mut connection.at_dialler } else { &mut connection.at_listener };
        *at = (*at).max(self.now + delay) + 1;
        let at = *at;
        if self.is_cut(from.0, to.0) {
            return self.break_connection(number);
        }
        let frame = matches!(packet, Packet::Frame { .. });
        if frame && self.dice.net.chance(self.faults.frame_loss_permille, 1_000) {
            return;
        }
        self.agenda.push(at, to.0, to.1, Event::Wire { connection: number, dialler, packet });
    }

    pub(super) fn hear_wire(&mut self, seat: usize, number: u64, dialler: bool, packet: Packet) {
        let closing = matches!(packet, Packet::Closed);
        let broken = self.connections.get(&number).is_none_or(|connection| connection.broken);
        if broken && !closing {
            // What was in flight is lost, but for a frame that lingers somewhere and comes much later.
            match packet {
                Packet::Frame { late: true, .. } => self.hear_packet(seat, number, dialler, packet),
                Packet::Frame { seq, frame, .. } if self.dice.net.chance(self.faults.late_frame_permille, 1_000) => {
                    let at = self.now + self.dice.net.below(200_000_000);
                    let packet = Packet::Frame { seq, frame, late: true };
                    self.push_here(at, seat, Event::Wire { connection: number, dialler, packet });
                }
                _ => {}
            }
            return;
        }
        self.hear_packet(seat, number, dialler, packet);
    }

    fn hear_packet(&mut self, seat: usize, number: u64, dialler: bool, packet: Packet) {
        if dialler {
            self.hear_at_dialler(seat, number, packet);
        } else {
            self.hear_at_listener(seat, number, packet);
        }
        self.serve_links(seat);
    }

    fn hear_at_dialler(&mut self, seat: usize, number: u64, packet: Packet) {
        let now = self.local(seat);
        let Some(target) = self.connections.get(&number).map(|connection| connection.target) else { return };
        let Some(process) = &mut self.seats[seat].process else { return };
        let Some(link) = process.senders.get_mut(&target) else {
            return self.close(number);
        };
        match packet {
            Packet::Welcome(welcome) => match link.connected(now, number, welcome) {
                Ok(None) if link.peer() == Some(target) => self.transmit(number, false, Packet::Ping),
                Ok(None) => {
                    // Only without the rules of K4: the link goes on with another process.
                    if let Some(link) = process.senders.remove(&target) {
                        process.senders.insert(welcome.node, link);
                    }
                    if let Some(connection) = self.connections.get_mut(&number) {
                        connection.target = welcome.node;
                    }
                    self.transmit(number, false, Packet::Ping);
                }
                Ok(Some(gone)) => {
                    self.close(number);
                    self.peer_gone(seat, gone.old);
                    self.reach(seat, welcome.node);
                }
                Err(_) => self.close(number),
            },
            Packet::Ack(upto) => {
                if link.acked(now, number, upto, &mut |_| {}).is_err() {
                    self.close(number);
                }
            }
            Packet::Refused => {
                link.failed(now);
                self.connections.remove(&number);
            }
            Packet::Closed => {
                link.disconnected(now, number);
                self.connections.remove(&number);
            }
            Packet::Hello { .. } | Packet::Ping | Packet::Frame { .. } => {}
        }
    }

    fn hear_at_listener(&mut self, seat: usize, number: u64, packet: Packet) {
        let now = self.local(seat);
        let config = self.link_config();
        let Some(process) = &mut self.seats[seat].process else { return };
        let me = identity(seat, process.key);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let from = super::process::id_of(connection.dialler.0);
        let link = process.receivers.entry(from).or_insert_with(|| LinkReceiver::new(config));
        match packet {
            Packet::Hello { hello } => match link.hello(&me, number, &hello) {
                Ok(welcome) => self.transmit(number, true, Packet::Welcome(welcome)),
                Err(_) => self.transmit(number, true, Packet::Refused),
            },
            Packet::Ping | Packet::Frame { .. } => {
                if !connection.confirmed {
                    match link.confirm(now, number) {
                        Confirmed::Opened { gone, replaced } => {
                            connection.confirmed = true;
                            let met = link.peer();
                            if let Some(old) = replaced {
                                self.close(old);
                            }
                            if let Some(old) = gone {
                                self.peer_gone(seat, old);
                            }
                            if let Some(node) = met {
                                let address = address(seat_of(node.id));
                                self.node_call(seat, |core, now, out| {
                                    core.handle(now, Input::Met { node, address }, out);
                                });
                            }
                        }
                        Confirmed::Already => {}
                        Confirmed::Stale => return self.close(number),
                    }
                }
                self.hear_frame(seat, number, packet);
            }
            Packet::Closed => {
                link.disconnected(number);
                self.connections.remove(&number);
            }
            Packet::Welcome(_) | Packet::Ack(_) | Packet::Refused => {}
        }
    }

    fn hear_frame(&mut self, seat: usize, number: u64, packet: Packet) {
        let now = self.local(seat);
        let Some(connection) = self.connections.get(&number) else { return };
        let dialler = super::process::id_of(connection.dialler.0);
        let Some(process) = &mut self.seats[seat].process else { return };
        let Some(link) = process.receivers.get_mut(&dialler) else { return };
        let Packet::Frame { seq, frame, .. } = packet else {
            link.ping(now, number);
            return;
        };
        match link.frame(now, number, seq) {
            Arrival::Deliver => {
                if let Some(from) = link.peer() {
                    self.deliver(seat, from, frame);
                }
            }
            Arrival::Duplicate => {}
            Arrival::Gap | Arrival::Stale => self.close(number),
        }
    }

    /// One end closes: what it has not read is lost, and the other end hears of it.
    fn close(&mut self, number: u64) {
        self.break_connection(number);
    }

    /// A connection breaks: what is in flight is lost. Its ends hear of it soon, or never.
    pub(super) fn break_connection(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number).filter(|connection| !connection.broken) else {
            return;
        };
        connection.broken = true;
        let ends = [(connection.dialler, true), (connection.listener, false)];
        for ((seat, life), dialler) in ends {
            if life > 0 && self.dice.net.chance(4, 5) {
                let at = self.now + about(&mut self.dice.net, ms(2));
                self.agenda.push(
                    at + 1,
                    seat,
                    life,
                    Event::Wire { connection: number, dialler, packet: Packet::Closed },
                );
            }
        }
    }

    pub(super) fn open_connections(&self) -> Vec<u64> {
        self.connections.iter().filter(|(_, connection)| !connection.broken).map(|(number, _)| *number).collect()
    }

    pub(super) fn drop_connections_of(&mut self, seat: usize, life: u32) {
        for number in self.open_connections() {
            let ours = self
                .connections
                .get(&number)
                .is_some_and(|connection| connection.dialler == (seat, life) || connection.listener == (seat, life));
            if ours {
                self.break_connection(number);
            }
        }
    }
}

fn identity(seat: usize, node: NodeKey) -> Identity {
    Identity { cluster: "sim".into(), protocol: PROTOCOL, node, address: address(seat) }
}

/// A control message in a few words.
fn brief(message: &Control) -> alloc::string::String {
    match message {
        Control::Heartbeat(beat) => alloc::format!(
            "Heartbeat {} session {} seq {} applied {}{}",
            beat.term,
            beat.session,
            beat.sequence,
            beat.applied,
            beat.report.as_ref().map_or_else(alloc::string::String::new, |report| {
                let shards: Vec<_> = report.owned.iter().map(|owned| alloc::format!("{}", owned.key.shard)).collect();
                alloc::format!(" owns {}", shards.join(","))
            }),
        ),
        Control::Ack(ack) => {
            alloc::format!(
                "Ack {} session {} seq {} first {} {:?}",
                ack.term,
                ack.session,
                ack.sequence,
                ack.first,
                ack.commands
            )
        }
        other => alloc::format!("{other:?}"),
    }
}
