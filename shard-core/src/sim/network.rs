//! What lies between processes: datagrams for control, connections for links.

use alloc::vec::Vec;

use super::cluster::{Cluster, about};
use super::event::{Event, Frame, Packet};
use super::fault::sort_of;
use super::harm::Passage;
use super::links::{BYTES, End};
use super::marks::Mark;
use super::options::ms;
use super::process::{address, id_of, seat_of};
use crate::id::NodeKey;
use crate::node::{Input, Peer};
use crate::time::nanos;
use crate::wire::link::{Arrival, Confirmed, Identity, LinkReceiver, PROTOCOL, Unit};
use crate::wire::{Control, Exit};

impl Unit for Frame {
    fn frames(&self) -> u64 {
        1
    }

    fn bytes(&self) -> usize {
        BYTES
    }
}

/// So long something of a broken connection may still arrive.
const LINGER: u64 = 1_000_000_000;

/// A one-way connection: the dialling process, the one it means, and the one that answers.
#[derive(Debug)]
pub(super) struct Connection {
    dialler: (usize, u32),
    target: NodeKey,
    listener: (usize, u32),
    broken: bool,
    broken_at: u64,
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
        let held = match self.passage(sort_of(&message), seat, there) {
            Passage::Free => None,
            Passage::Dropped => return self.mark(Mark::SortDropped),
            Passage::HeldUntil(at) => {
                self.mark(Mark::SortHeld);
                Some(at)
            }
        };
        let copies = 1 + u64::from(self.dice.net.chance(self.faults.duplicate_permille, 1_000));
        for _ in 0..copies {
            let mut delay = about(&mut self.dice.net, self.faults.delay);
            if self.clogs[seat][there] > self.now || self.dice.net.chance(self.faults.tail_permille, 1_000) {
                delay += self.dice.net.below(nanos(self.options.timing.wait) * 3 / 2);
            }
            let event = Event::Control { from, to: key, message: message.clone() };
            let leaves = held.unwrap_or(self.now);
            self.agenda.push(leaves + delay + 1, there, 0, event);
        }
    }

    pub(super) fn hear_control(&mut self, seat: usize, from: NodeKey, to: NodeKey, message: Control) {
        if self.seats[seat].process.is_none() {
            return;
        }
        self.note(seat, || alloc::format!("<- {from} {}", brief(&message)));
        self.mark_control(seat, to, &message);
        self.node_call(seat, |node, now, out| node.handle(now, Input::Heard { from, to, message }, out));
    }

    fn mark_control(&mut self, seat: usize, to: NodeKey, message: &Control) {
        let Some(process) = &self.seats[seat].process else { return };
        if to != process.key {
            return self.mark(Mark::ForFormerLife);
        }
        let now = self.local(seat);
        let mark = match message {
            Control::LeaseRefused { .. } => Mark::LeaseRefused,
            Control::Release { exit: Exit::NeverReigned, .. } => Mark::ReleasedUnreigned,
            Control::Nack { .. } => Mark::Nacked,
            Control::Dead { .. } => Mark::DeclaredDead,
            Control::Release { exit: Exit::Resigned, .. } => Mark::ReleasedResigned,
            Control::Announce { .. } if self.holds_shards(seat) => Mark::AnnouncedToOwner,
            Control::Heartbeat(beat)
                if beat.report.as_ref().is_some_and(|report| !report.owned.is_empty())
                    && process.node.allocator().term() == Some(beat.term)
                    && !process.node.allocator().may_allocate(now) =>
            {
                Mark::ShardsReported
            }
            _ => return,
        };
        self.mark(mark);
    }

    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts[from][to] > self.now
    }

    // ---- connections ------------------------------------------------------------------------------------------------

    pub(super) fn dial(&mut self, seat: usize, target: NodeKey) {
        let there = seat_of(target.id);
        let Some(process) = &self.seats[seat].process else { return };
        let (key, life) = (process.key, process.life);
        self.forget_connections();
        self.connections_made += 1;
        let number = self.connections_made;
        let listener = self.seats[there].process.as_ref().map(|process| (there, process.life));
        let connection = Connection {
            dialler: (seat, life),
            target,
            listener: listener.unwrap_or((there, 0)),
            broken: false,
            broken_at: 0,
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
    pub(super) fn transmit(&mut self, number: u64, dialler: bool, packet: Packet) {
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
        let Some((was, from)) = self.connections.get(&number).map(|open| (open.target, open.dialler.0)) else { return };
        if dialler {
            self.hear_at_dialler(seat, number, packet);
        } else {
            self.hear_at_listener(seat, number, packet);
        }
        let target = self.connections.get(&number).map_or(was, |connection| connection.target);
        if dialler {
            self.serve_links(seat, &[End::To(was), End::To(target)]);
        } else {
            self.serve_links(seat, &[End::From(id_of(from))]);
        }
    }

    fn hear_at_dialler(&mut self, seat: usize, number: u64, packet: Packet) {
        let now = self.local(seat);
        let Some(target) = self.connections.get(&number).map(|connection| connection.target) else { return };
        let Some(process) = &mut self.seats[seat].process else { return };
        let Some(link) = process.links.senders.get_mut(&target) else {
            return self.close(number);
        };
        match packet {
            Packet::Welcome(welcome) => match link.connected(now, number, welcome) {
                Ok(None) if link.peer() == Some(target) => self.transmit(number, false, Packet::Ping),
                Ok(None) => {
                    // Only without the rules of K4: the link goes on with another process.
                    if let Some(link) = process.links.senders.remove(&target) {
                        process.links.senders.insert(welcome.node, link);
                    }
                    if let Some(connection) = self.connections.get_mut(&number) {
                        connection.target = welcome.node;
                    }
                    self.transmit(number, false, Packet::Ping);
                }
                Ok(Some(gone)) => {
                    self.marks.meet(Mark::WelcomeOfNewLife);
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
                self.break_quietly(number);
            }
            Packet::Closed => link.disconnected(now, number),
            Packet::Hello { .. } | Packet::Ping | Packet::Frame { .. } => {}
        }
    }

    fn hear_at_listener(&mut self, seat: usize, number: u64, packet: Packet) {
        let now = self.local(seat);
        let config = self.link_config();
        let Some(process) = &mut self.seats[seat].process else { return };
        let me = identity(seat, process.key);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let from = id_of(connection.dialler.0);
        let link = process.links.receivers.entry(from).or_insert_with(|| LinkReceiver::new(config));
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
                                self.mark(Mark::LinkNewLife);
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
            Packet::Closed => link.disconnected(number),
            Packet::Welcome(_) | Packet::Ack(_) | Packet::Refused => {}
        }
    }

    fn hear_frame(&mut self, seat: usize, number: u64, packet: Packet) {
        let now = self.local(seat);
        let Some(connection) = self.connections.get(&number) else { return };
        let dialler = id_of(connection.dialler.0);
        let Some(process) = &mut self.seats[seat].process else { return };
        let Some(link) = process.links.receivers.get_mut(&dialler) else { return };
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
            Arrival::Duplicate => self.mark(Mark::LinkDuplicate),
            Arrival::Gap => {
                self.mark(Mark::LinkGap);
                self.close(number);
            }
            Arrival::Stale => {
                self.mark(Mark::LinkStale);
                self.close(number);
            }
        }
    }

    /// One end closes: what it has not read is lost, and the other end hears of it.
    pub(super) fn close(&mut self, number: u64) {
        self.break_connection(number);
    }

    /// A connection breaks: what is in flight is lost. Its ends hear of it soon, or never.
    pub(super) fn break_connection(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number).filter(|connection| !connection.broken) else {
            return;
        };
        (connection.broken, connection.broken_at) = (true, self.now);
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

    /// A connection that never was: nobody has to hear of its end.
    fn break_quietly(&mut self, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            (connection.broken, connection.broken_at) = (true, self.now);
        }
    }

    /// Drops what broke so long ago that nothing of it is under way any more.
    fn forget_connections(&mut self) {
        let now = self.now;
        if self.connections_made.is_multiple_of(256) {
            self.connections.retain(|_, connection| !connection.broken || now < connection.broken_at + LINGER);
        }
    }

    /// The seats at both ends.
    pub(super) fn ends_of(&self, number: u64) -> Option<(usize, usize)> {
        self.connections.get(&number).map(|connection| (connection.dialler.0, connection.listener.0))
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
