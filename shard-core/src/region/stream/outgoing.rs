//! The sender's side of one stream: D1, D2, D6-D10.

mod heard;

use alloc::{collections::VecDeque, vec::Vec};

use super::queue::Queue;
use super::{Bound, Entry, Full, GivenBack, OutgoingInput, OutgoingOutput, StreamConfig};
use crate::id::{NodeKey, Token};
use crate::machine::{Fixed, Machine, Outbox, Rule};
use crate::time::{Duration, Instant, soonest};
use crate::wire::Home;

/// All that one process has to say to one shard, in order. `E` names an entity, `B` is a message body; neither is looked
/// into. A lane pushes with [`push`](Self::push), encodes from [`message`](Self::message) when told to transmit, and
/// takes what failed with [`take`](Self::take).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Outgoing<E, B> {
    config: Fixed<StreamConfig>,
    me: NodeKey,
    next_seq: u64,
    /// Grows with every opening, never repeats (D11).
    attempt: u32,
    phase: Phase,
    /// D10: the greatest grant followed so far.
    route: Option<Route>,
    /// The present attempt's message with the `first` mark, once it is sent (D2).
    first: Option<u64>,
    /// The link refused a message: nothing is sent until it has room.
    held: bool,
    /// A later home, and until when `Closed` of the present one is waited for (D9).
    newer: Option<(Home, Instant)>,
    /// A node that is hard to reach.
    down: Option<NodeKey>,
    /// D9: no question before this.
    ask_at: Instant,
    /// The pause after the next refusal by the same grant.
    refuse_pause: Duration,
    unsettled: Queue<E, B>,
    /// Asks that were taken and wait for their reply, by ascending number, with the process that took them.
    awaiting: VecDeque<(NodeKey, Entry<E, B>)>,
    /// No entry of `awaiting` has a deadline before this.
    overdue_at: Option<Instant>,
    /// Entries whose fate was told and which the lane has not yet taken.
    fated: Vec<Entry<E, B>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Route {
    node: NodeKey,
    token: Token,
    /// The grant is known to have ended: only a later one is followed.
    over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Phase {
    /// No home. With something unsettled: when to look it up next, and the pause after that.
    Seek { lookup: Option<(Instant, Duration)> },
    /// Messages go to the route's node as they come.
    Open,
    /// The owner drains; its `Closed` will come.
    Wait,
    /// This node is the home; the lane pops messages itself.
    Local,
}

impl<E, B> Outgoing<E, B> {
    /// An empty stream of process `me`.
    #[must_use]
    pub fn new(config: Fixed<StreamConfig>, me: NodeKey) -> Self {
        let refuse_pause = config.refuse_pause;
        Self {
            config,
            me,
            next_seq: 1,
            attempt: 0,
            phase: Phase::Seek { lookup: None },
            route: None,
            first: None,
            held: false,
            newer: None,
            down: None,
            ask_at: Instant::ZERO,
            refuse_pause,
            unsettled: Queue::new(),
            awaiting: VecDeque::new(),
            overdue_at: None,
            fated: Vec::new(),
        }
    }

    /// Whether nothing is unsettled, unanswered or untaken.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.unsettled.is_empty() && self.awaiting.is_empty() && self.fated.is_empty()
    }

    /// Whether nothing is unsettled: only then may a lane that owns the shard pass by the stream (D10).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// How many messages are unsettled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.unsettled.len()
    }

    /// Whether an answer of that process is waited for.
    #[must_use]
    pub fn awaits(&self, node: NodeKey) -> bool {
        self.awaiting.iter().any(|(taker, _)| *taker == node)
    }

    /// The process that messages go to, unless the stream has no home now.
    #[must_use]
    pub fn home(&self) -> Option<NodeKey> {
        self.route.filter(|_| !matches!(self.phase, Phase::Seek { .. })).map(|route| route.node)
    }

    /// The home that it sends to, if that is elsewhere and later than `token`: what another sender may be told (D7).
    #[must_use]
    pub fn home_after(&self, token: Token) -> Option<(NodeKey, Token)> {
        let later = |route: &Route| !route.over && route.token > token && route.node != self.me;
        self.route.filter(later).map(|route| (route.node, route.token))
    }

    /// An unsettled message. O(1), or O(log n) after something was taken out of the middle.
    #[must_use]
    pub fn message(&self, seq: u64) -> Option<&Entry<E, B>> {
        self.unsettled.get(seq)
    }

    /// Whether message `seq` is on its way under the present attempt: only then may a `Transmit` of it be obeyed.
    #[must_use]
    pub fn is_sent(&self, seq: u64) -> bool {
        self.unsettled.find(seq).is_ok_and(|index| self.unsettled.is_sent(index))
    }

    /// Takes a message whose fate an output told.
    pub fn take(&mut self, seq: u64) -> Option<Entry<E, B>> {
        let index = self.fated.iter().position(|entry| entry.seq == seq)?;
        Some(self.fated.remove(index))
    }

    /// Appends a message and gives its number; open streams transmit it at once (D1). `bytes` counts against the bound.
    /// If it is unsent at `deadline`, it is not run.
    ///
    /// # Errors
    /// A bound is reached; the message comes back and the stream is unchanged.
    #[expect(clippy::too_many_arguments, reason = "they are the message")]
    pub fn push(
        &mut self,
        now: Instant,
        entity: E,
        body: B,
        bytes: usize,
        ask: bool,
        deadline: Option<Instant>,
        out: &mut (impl Outbox<OutgoingOutput> + ?Sized),
    ) -> Result<u64, Full<E, B>> {
        if let Some(bound) = self.bound_reached(bytes, ask) {
            return Err(Full { bound, entity, body });
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        let give_up_at = now + self.config.give_up_after;
        self.unsettled.push_back(Entry { seq, entity, body, ask, bytes, deadline, give_up_at });
        match (self.phase, self.route) {
            (Phase::Open, _) => self.transmit(out),
            (Phase::Seek { lookup: None }, _) => self.seek(now, out),
            (Phase::Local, Some(route)) if self.unsettled.len() == 1 => {
                out.emit(OutgoingOutput::OpenLocal { token: route.token });
            }
            _ => {}
        }
        Ok(seq)
    }

    /// The next message for this node's own entities; `None` unless this node is the home. The lane either runs it or
    /// brings it back with [`give_back`](Self::give_back).
    pub fn pop_front(&mut self) -> Option<Entry<E, B>> {
        if self.phase == Phase::Local { self.unsettled.remove(0) } else { None }
    }

    /// This process does not own the shard under the grant of an `OpenLocal`, not yet or not any more: as a refusal by
    /// another owner (D7).
    pub fn refuse_local(&mut self, now: Instant, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        if self.phase == Phase::Local {
            self.refused(now, false, None, out);
        }
    }

    /// The local tenure ended: mail that was delivered here and not taken comes back, in order, before all that is kept.
    /// Everything is numbered anew, which is safe because nothing of it was sent under a grant that still counts.
    pub fn give_back(
        &mut self,
        now: Instant,
        returned: Vec<GivenBack<E, B>>,
        out: &mut (impl Outbox<OutgoingOutput> + ?Sized),
    ) {
        let give_up_at = now + self.config.give_up_after;
        if !returned.is_empty() {
            debug_assert!(!self.unsettled.any_sent(), "mail is delivered here only while none is sent elsewhere");
            let mut kept = Vec::new();
            while !self.unsettled.any_sent()
                && let Some(entry) = self.unsettled.remove(0)
            {
                kept.push(entry);
            }
            for GivenBack { entity, body, ask, bytes, deadline } in returned {
                let seq = self.take_number();
                self.unsettled.push_back(Entry { seq, entity, body, ask, bytes, deadline, give_up_at });
            }
            for entry in kept {
                let seq = self.take_number();
                self.unsettled.push_back(Entry { seq, ..entry });
            }
        }
        match self.phase {
            Phase::Local => self.leave_route(now, out),
            Phase::Seek { lookup: None } if !self.unsettled.is_empty() => self.seek(now, out),
            _ => {}
        }
    }

    /// The process is about to end: everything unsettled or unanswered gets its last fate.
    pub fn abandon(&mut self, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        loop {
            let sent = self.unsettled.any_sent();
            let Some(entry) = self.unsettled.remove(0) else { break };
            let seq = entry.seq;
            self.fated.push(entry);
            out.emit(if sent { OutgoingOutput::InDoubt { seq } } else { OutgoingOutput::Unavailable { seq } });
        }
        for (_, entry) in core::mem::take(&mut self.awaiting) {
            out.emit(OutgoingOutput::InDoubt { seq: entry.seq });
            self.fated.push(entry);
        }
    }

    fn take_number(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Process `from` answered ask `seq`, or rejected message `seq`, which may arrive before its `Taken` and settles it
    /// then. `None`: it is not waited for any more.
    pub fn answered(&mut self, from: NodeKey, seq: u64) -> Option<Entry<E, B>> {
        if let Ok(index) = self.awaiting.binary_search_by_key(&seq, |(_, entry)| entry.seq) {
            if self.awaiting.get(index).is_none_or(|(node, _)| *node != from) {
                return None;
            }
            return self.awaiting.remove(index).map(|(_, entry)| entry);
        }
        let index = self.unsettled.find(seq).ok()?;
        if self.unsettled.is_sent(index) && self.home() == Some(from) { self.unsettled.remove(index) } else { None }
    }

    fn bound_reached(&self, bytes: usize, ask: bool) -> Option<Bound> {
        if self.unsettled.len() >= self.config.messages_max {
            return Some(Bound::Messages);
        }
        if self.unsettled.bytes + bytes > self.config.bytes_max && !self.unsettled.is_empty() {
            return Some(Bound::Bytes);
        }
        let asks = self.unsettled.asks + self.awaiting.len();
        (ask && asks >= self.config.asks_max).then_some(Bound::Asks)
    }

    // ---- edges between the phases -----------------------------------------------------------------------------------

    /// D2: another attempt, at `home`; all that is unsettled goes there in order.
    fn open(&mut self, now: Instant, home: Home, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        if self.route.is_none_or(|route| route.token < home.token) {
            self.refuse_pause = self.config.refuse_pause;
        }
        self.attempt += 1;
        self.route = Some(Route { node: home.node, token: home.token, over: false });
        (self.first, self.held, self.newer) = (None, false, None);
        self.ask_at = now + self.config.ask_every;
        self.declare_fates(now, out);
        if home.node == self.me {
            self.phase = Phase::Local;
            out.emit(OutgoingOutput::OpenLocal { token: home.token });
        } else {
            self.phase = Phase::Open;
            self.transmit(out);
        }
    }

    fn transmit(&mut self, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        let Some(Route { node: to, token, .. }) = self.route.filter(|_| self.phase == Phase::Open && !self.held) else {
            return;
        };
        while let Some(seq) = self.unsettled.send_next() {
            let first = self.first.is_none();
            self.first.get_or_insert(seq);
            out.emit(OutgoingOutput::Transmit { to, token, attempt: self.attempt, seq, first });
        }
    }

    /// Without a home from here on; looks one up at once if there is something to send.
    fn seek(&mut self, now: Instant, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        let mut lookup = None;
        if !self.unsettled.is_empty() {
            out.emit(OutgoingOutput::Lookup);
            lookup = Some((now + self.config.retry_first, self.config.retry_first * 2));
        }
        self.phase = Phase::Seek { lookup };
    }

    /// The route's tenure is over and nothing of it is on its way: on to the next home, if it is known.
    fn leave_route(&mut self, now: Instant, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        if let Some(route) = &mut self.route {
            route.over = true;
        }
        match self.newer.take() {
            Some((home, _)) => self.open(now, home, out),
            None => self.seek(now, out),
        }
    }

    /// D8: the owner is gone, or given up. What was sent to it is in doubt and stays unsent for ever.
    fn lose_route(&mut self, now: Instant, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        if self.config.rules.on(Rule::NeverResendInDoubt) {
            while self.unsettled.any_sent()
                && let Some(entry) = self.unsettled.remove(0)
            {
                out.emit(OutgoingOutput::InDoubt { seq: entry.seq });
                self.fated.push(entry);
            }
        }
        self.unsettled.unsend_from(0);
        self.leave_route(now, out);
    }

    fn at_owner(&self, from: NodeKey, token: Token) -> bool {
        matches!(self.phase, Phase::Open | Phase::Wait)
            && self.route.is_some_and(|route| route.node == from && route.token == token)
    }

    /// Settles the sent entry at `index`; an ask goes on waiting for its reply.
    fn settle(&mut self, index: usize, by: NodeKey) {
        let Some(entry) = self.unsettled.remove(index) else { return };
        if entry.ask {
            self.overdue_at = soonest(self.overdue_at, entry.deadline);
            let place = self.awaiting.partition_point(|(_, other)| other.seq < entry.seq);
            self.awaiting.insert(place, (by, entry));
        }
    }

    fn settle_upto(&mut self, upto: u64, by: NodeKey) {
        while self.unsettled.any_sent() && self.unsettled.front().is_some_and(|front| front.seq <= upto) {
            self.settle(0, by);
        }
    }

    // ---- time -------------------------------------------------------------------------------------------------------

    /// D9: when to ask for the home of what the owner has not settled.
    fn ask_due(&self) -> Option<Instant> {
        let waits = self.config.give_up_after.saturating_sub(self.config.ask_every);
        self.unsettled.front().map(|front| self.ask_at.max(front.give_up_at - waits))
    }

    fn declare_fates(&mut self, now: Instant, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        while self.unsettled.front().is_some_and(|front| front.give_up_at <= now) {
            let sent = self.unsettled.any_sent();
            let Some(entry) = self.unsettled.remove(0) else { break };
            let seq = entry.seq;
            self.fated.push(entry);
            out.emit(if sent { OutgoingOutput::InDoubt { seq } } else { OutgoingOutput::Unavailable { seq } });
        }
        while let Some(entry) = self.unsettled.pop_expired(now) {
            out.emit(OutgoingOutput::Expired { seq: entry.seq });
            self.fated.push(entry);
        }
        if self.overdue_at.is_none_or(|at| at > now) {
            return;
        }
        while let Some(index) =
            self.awaiting.iter().position(|(_, entry)| entry.deadline.is_some_and(|deadline| deadline <= now))
            && let Some((_, entry)) = self.awaiting.remove(index)
        {
            out.emit(OutgoingOutput::Overdue { seq: entry.seq });
            self.fated.push(entry);
        }
        self.overdue_at = self.awaiting.iter().filter_map(|(_, entry)| entry.deadline).min();
    }
}

impl<E, B> Machine for Outgoing<E, B> {
    type Input = OutgoingInput;
    type Output = OutgoingOutput;

    fn handle(&mut self, now: Instant, input: OutgoingInput, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        match input {
            OutgoingInput::Home(home) => self.home_named(now, home, out),
            OutgoingInput::Taken { from, token, upto } => {
                if self.at_owner(from, token) {
                    self.refuse_pause = self.config.refuse_pause;
                    self.settle_upto(upto, from);
                }
            }
            OutgoingInput::Closed { from, token, upto, beyond } => {
                if self.at_owner(from, token) {
                    self.closed(now, from, (upto, &beyond), out);
                }
            }
            OutgoingInput::Refuse { from, token, attempt, draining, hint } => {
                let present = attempt == self.attempt || !self.config.rules.on(Rule::DataAttempt);
                if self.at_owner(from, token) && present && self.phase == Phase::Open {
                    self.refused(now, draining, hint, out);
                }
            }
            OutgoingInput::PeerGone { node } => self.peer_gone(now, node, out),
            OutgoingInput::Lost { node } => self.lose_answers(node, out),
            OutgoingInput::LinkDown { node } => self.link_down(now, node, out),
            OutgoingInput::LinkUp { node } => self.down = self.down.filter(|down| *down != node),
            OutgoingInput::Held { attempt, seq } => self.hold(attempt, seq),
            OutgoingInput::Room => {
                self.held = false;
                self.transmit(out);
            }
        }
    }

    fn expire(&mut self, now: Instant, out: &mut (impl Outbox<OutgoingOutput> + ?Sized)) {
        self.declare_fates(now, out);
        match self.phase {
            Phase::Seek { lookup: Some((at, pause)) } if at <= now => {
                let again = (now + pause, (pause * 2).min(self.config.retry_last));
                let lookup = (!self.unsettled.is_empty()).then_some(again);
                self.phase = Phase::Seek { lookup };
                if lookup.is_some() {
                    out.emit(OutgoingOutput::Lookup);
                }
            }
            Phase::Open | Phase::Wait => {
                if self.newer.is_some_and(|(_, close_by)| close_by <= now) {
                    return self.lose_route(now, out);
                }
                if self.ask_due().is_some_and(|at| at <= now) {
                    self.ask_at = now + self.config.ask_every;
                    out.emit(OutgoingOutput::Lookup);
                }
            }
            Phase::Seek { .. } | Phase::Local => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let fates = soonest(self.unsettled.front().map(|front| front.give_up_at), self.unsettled.expiry());
        let fates = soonest(fates, self.overdue_at);
        match self.phase {
            Phase::Seek { lookup } => soonest(fates, lookup.map(|(at, _)| at)),
            Phase::Open | Phase::Wait => {
                soonest(soonest(fates, self.ask_due()), self.newer.map(|(_, close_by)| close_by))
            }
            Phase::Local => fates,
        }
    }
}
