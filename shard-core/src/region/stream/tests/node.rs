//! The mini-world's nodes: what the lane of a real host does with streams, tenures and links.

use alloc::vec::Vec;

use super::net::{Mail, Packet};
use super::world::{ENTITIES, Event, NODES, Node, Post, SHARDS, World, place, shard_key};
use crate::id::{NodeKey, Token};
use crate::machine::Machine;
use crate::region::stream::{GivenBack, IncomingOutput, OutgoingInput, OutgoingOutput, Verdict};
use crate::time::{Duration, Instant, soonest};
use crate::wire::Stream;
use crate::wire::link::{PeerGone, ReceiverOrder, SenderOrder};

impl World {
    /// K5: what the link never wrote is unsent; then the streams hear that the process is gone.
    pub(super) fn pair_over(&mut self, at: usize, gone: PeerGone<Mail>) {
        self.nodes[at].gone.insert(gone.old);
        for mail in gone.unsent {
            if let Stream::Data { key, attempt, seq, .. } = mail {
                self.tell(at, key.shard.0 as usize, OutgoingInput::Held { attempt, seq });
            }
        }
        for shard in 0..SHARDS {
            if let Some(tenure) = &mut self.nodes[at].tenures[shard] {
                tenure.incoming.peer_gone(gone.old);
            }
            self.tell(at, shard, OutgoingInput::PeerGone { node: gone.old });
            self.tell(at, shard, OutgoingInput::Room);
        }
    }

    /// An answer rides the link to exactly that process, whatever the link's bound says.
    pub(super) fn answer(&mut self, at: usize, to: NodeKey, mail: Mail) {
        let known_gone = self.nodes[at].gone.contains(&to);
        let link = &mut self.nodes[at].tx[place(to)];
        if !known_gone && link.aim(to) {
            link.answer(mail);
        }
    }

    pub(super) fn user_sends(&mut self, at: usize, shard: usize, entity: u8) {
        let (now, mut out) = (self.now, Vec::new());
        let message = self.ledger.new_message(self.nodes[at].key, shard, entity);
        let pushed = self.nodes[at].streams[shard].push(now, entity, message, 100, false, None, &mut out);
        if pushed.is_err() {
            self.ledger.fate(message, "full");
        }
        self.obey(at, shard, out);
        self.tend(at);
    }

    pub(super) fn tell(&mut self, at: usize, shard: usize, input: OutgoingInput) {
        let mut out = Vec::new();
        self.nodes[at].streams[shard].handle(self.now, input, &mut out);
        self.obey(at, shard, out);
    }

    pub(super) fn obey(&mut self, at: usize, shard: usize, out: Vec<OutgoingOutput>) {
        for output in out {
            match output {
                OutgoingOutput::Transmit { to, token, attempt, seq, first } => {
                    self.transmit(at, shard, to, (token, attempt, seq, first));
                }
                OutgoingOutput::Lookup => {
                    let key = self.nodes[at].key;
                    if !self.random.chance(5) {
                        self.mail(Event::Lookup(key, shard));
                    }
                }
                OutgoingOutput::OpenLocal { token } => self.open_local(at, shard, token),
                OutgoingOutput::InDoubt { seq } => self.fate(at, shard, seq, "in doubt"),
                OutgoingOutput::Unavailable { seq } => self.fate(at, shard, seq, "unavailable"),
                OutgoingOutput::Expired { .. } | OutgoingOutput::Overdue { .. } => unreachable!(),
            }
        }
    }

    fn fate(&mut self, at: usize, shard: usize, seq: u64, fate: &'static str) {
        let entry = self.nodes[at].streams[shard].take(seq).expect("an entry with a fate");
        self.ledger.fate(entry.body, fate);
    }

    fn transmit(
        &mut self,
        at: usize,
        shard: usize,
        to: NodeKey,
        (token, attempt, seq, first): (Token, u32, u64, bool),
    ) {
        let node = &mut self.nodes[at];
        if !node.streams[shard].is_sent(seq) {
            return; // It was held meanwhile.
        }
        let entry = node.streams[shard].message(seq).expect("a message that is sent");
        let (entity, body) = (entry.entity, entry.body);
        let data = Stream::Data { key: shard_key(shard), token, attempt, seq, first, ask: false, entity, body };
        let known_gone = node.gone.contains(&to);
        let link = &mut node.tx[place(to)];
        if known_gone {
            self.tell(at, shard, OutgoingInput::Held { attempt, seq });
            self.tell(at, shard, OutgoingInput::PeerGone { node: to });
        } else if !link.aim(to) || link.push(data).is_err() {
            node.full[place(to)] = true;
            self.tell(at, shard, OutgoingInput::Held { attempt, seq });
        }
    }

    fn open_local(&mut self, at: usize, shard: usize, token: Token) {
        let Node { key, tenures, streams, .. } = &mut self.nodes[at];
        match &mut tenures[shard] {
            Some(tenure) if tenure.incoming.token() == token => {
                while !tenure.draining
                    && let Some(entry) = streams[shard].pop_front()
                {
                    let (from, seq, message) = (*key, entry.seq, entry.body);
                    let entity = usize::from(entry.entity);
                    tenure.boxes[entity].push_back(Post { from, seq, message, local: Some(entry) });
                }
            }
            _ => {
                let mut out = Vec::new();
                streams[shard].refuse_local(self.now, &mut out);
                self.obey(at, shard, out);
            }
        }
    }

    pub(super) fn deliver(&mut self, at: usize, from: NodeKey, mail: Mail) {
        let shard = mail.key().shard.0 as usize;
        match mail {
            Stream::Data { key, token, attempt, seq, first, entity, body, .. } => {
                let mut verdict = Verdict::Refuse { draining: false };
                if let Some(tenure) = &mut self.nodes[at].tenures[shard] {
                    verdict = tenure.incoming.data(from, token, attempt, seq, first);
                    if verdict == Verdict::Accept {
                        let post = Post { from, seq, message: body, local: None };
                        tenure.boxes[usize::from(entity)].push_back(post);
                    }
                }
                if let Verdict::Refuse { draining } = verdict {
                    self.answer(at, from, Stream::Refuse { key, token, attempt, draining, hint: None });
                }
            }
            Stream::Taken { token, upto, .. } => self.tell(at, shard, OutgoingInput::Taken { from, token, upto }),
            Stream::Closed { token, upto, beyond, .. } => {
                self.tell(at, shard, OutgoingInput::Closed { from, token, upto, beyond });
            }
            Stream::Refuse { token, attempt, draining, hint, .. } => {
                self.tell(at, shard, OutgoingInput::Refuse { from, token, attempt, draining, hint });
            }
            Stream::Rejected { .. } | Stream::Reply { .. } => unreachable!(),
        }
    }

    /// D5: no handler starts any more, `Closed` to every sender, mailboxes discarded.
    pub(super) fn end_tenure(&mut self, at: usize, shard: usize, lapsed: bool) {
        let Some(tenure) = self.nodes[at].tenures[shard].take() else { return };
        let token = tenure.incoming.token();
        let mut out = Vec::new();
        tenure.incoming.close(lapsed, &mut out);
        self.answer_all(at, shard, token, out);
        let posts = tenure.boxes.into_iter().flatten();
        let mut local: Vec<_> = posts.filter_map(|post| post.local).collect();
        local.sort_by_key(|entry| entry.seq);
        let mut out = Vec::new();
        self.nodes[at].streams[shard].give_back(self.now, local.into_iter().map(GivenBack::from).collect(), &mut out);
        self.obey(at, shard, out);
    }

    fn answer_all(&mut self, at: usize, shard: usize, token: Token, out: Vec<IncomingOutput>) {
        let key = shard_key(shard);
        for output in out {
            match output {
                IncomingOutput::Taken { to, upto } => self.answer(at, to, Stream::Taken { key, token, upto }),
                IncomingOutput::Closed { to, upto, beyond } => {
                    self.answer(at, to, Stream::Closed { key, token, upto, beyond });
                }
            }
        }
    }

    // ---- a node: the end of its turn --------------------------------------------------------------------------------

    /// Starts handlers, ends drained tenures, flushes, obeys timers, writes links, and sets the alarm.
    pub(super) fn tend(&mut self, at: usize) {
        if !self.nodes[at].alive {
            return;
        }
        for shard in 0..SHARDS {
            self.start_handlers(at, shard);
            let mut out = Vec::new();
            self.nodes[at].streams[shard].expire(self.now, &mut out);
            self.obey(at, shard, out);
        }
        for peer in (0..NODES).filter(|peer| *peer != at) {
            self.tend_links(at, peer);
        }
        let Node { key, tx, rx, streams, wake_at, .. } = &mut self.nodes[at];
        let mut next = streams.iter().filter_map(Machine::deadline).min();
        for peer in (0..NODES).filter(|peer| *peer != at) {
            next = soonest(next, soonest(Some(tx[peer].deadline()), rx[peer].deadline()));
        }
        let next = next.unwrap_or(Instant::NEVER).max(self.now + Duration::from_nanos(1));
        if next < *wake_at {
            *wake_at = next;
            let (delay, key) = (next.since(self.now), *key);
            self.after(delay, Event::Wake(key));
        }
    }

    fn start_handlers(&mut self, at: usize, shard: usize) {
        let owner = self.nodes[at].key;
        let Some(tenure) = &mut self.nodes[at].tenures[shard] else { return };
        let token = tenure.incoming.token();
        let mut started = Vec::new();
        for entity in (0..ENTITIES).filter(|_| !tenure.draining) {
            if !tenure.running[entity]
                && let Some(post) = tenure.boxes[entity].pop_front()
            {
                tenure.running[entity] = true;
                tenure.incoming.started(post.from, post.seq);
                let latest = self.latest.entry((post.from, shard, entity as u8)).or_default();
                self.ledger.handled(post.message, latest);
                started.push(entity);
            }
        }
        let mut out = Vec::new();
        tenure.incoming.flush(&mut out);
        let drained = tenure.draining && tenure.running == [false; ENTITIES];
        for entity in started {
            let delay = self.random.micros(0, 6_000);
            self.after(delay, Event::HandlerDone { owner, shard, token, entity });
        }
        self.answer_all(at, shard, token, out);
        if drained {
            self.end_tenure(at, shard, false);
            self.mail(Event::Free { shard, token, closed: true });
        }
    }

    fn tend_links(&mut self, at: usize, peer: usize) {
        let now = self.now;
        while let Some(order) = self.nodes[at].tx[peer].expire(now) {
            match order {
                SenderOrder::Dial => self.dial(at, peer),
                SenderOrder::Ping { connection } => self.send(connection as usize, 1, Packet::Ping),
                SenderOrder::Close { connection } => self.break_connection(connection as usize),
            }
        }
        while let Some(order) = self.nodes[at].rx[peer].expire(now) {
            match order {
                ReceiverOrder::Ack { connection, upto } => self.send(connection as usize, 0, Packet::Ack(upto)),
                ReceiverOrder::Close { connection } => self.break_connection(connection as usize),
            }
        }
        let doubtful = self.nodes[at].tx[peer].is_doubtful();
        if core::mem::replace(&mut self.nodes[at].doubtful[peer], doubtful) != doubtful
            && let Some(node) = self.nodes[at].tx[peer].peer()
        {
            let input = if doubtful { OutgoingInput::LinkDown { node } } else { OutgoingInput::LinkUp { node } };
            (0..SHARDS).for_each(|shard| self.tell(at, shard, input.clone()));
        }
        while let Some(connection) = self.nodes[at].tx[peer].connection()
            && let Some((seq, mail)) = self.nodes[at].tx[peer].write(connection)
        {
            let packet = Packet::Frame(seq, mail.clone());
            self.send(connection as usize, 1, packet);
        }
    }
}
