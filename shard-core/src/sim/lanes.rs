//! What a process's lanes do: their orders, the handlers that run for them, and the mail that reaches them.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::cluster::Cluster;
use super::event::{Event, Frame};
use super::host::{Effect, Hands};
use super::marks::Mark;
use super::model::{Asker, Message};
use super::process::{Run, What};
use crate::entity::{Bound, Fate, Reason, StopReason};
use crate::id::{NodeKey, Slot};
use crate::node::Input;
use crate::region::lane::{Arrival, Lane, Next, Tell};
use crate::time::{Duration, Instant, nanos};
use crate::wire::Stream;

impl Cluster {
    pub(super) fn lane_call<R>(
        &mut self,
        seat: usize,
        lane: usize,
        call: impl FnOnce(&mut Lane<Message>, Instant, &mut Hands<'_>) -> R,
    ) -> Option<R> {
        let now = self.local(seat);
        let mut effects = Vec::new();
        let process = self.seats[seat].process.as_mut()?;
        let mut hands = Hands {
            me: process.key,
            effects: &mut effects,
            pool: process.pool.as_mut(),
            links: &process.links,
            crowded: &mut process.crowded,
            bytes_max: self.options.link.bytes_max,
        };
        let crowded = hands.crowded.len();
        let lane_machine = &mut process.lanes[lane].lane;
        let result = call(lane_machine, now, &mut hands);
        lane_machine.flush(&mut hands);
        if hands.crowded.len() > crowded {
            self.marks.meet(Mark::LinkCrowded);
        }
        for effect in effects {
            self.lane_says(seat, lane, effect);
        }
        self.set_lane_timer(seat, lane);
        Some(result)
    }

    fn lane_says(&mut self, seat: usize, lane: usize, effect: Effect) {
        match effect {
            Effect::Start(slot, life) => {
                let entity = self.entity_named(life.id.as_str());
                if let Some(process) = &mut self.seats[seat].process {
                    process.lanes[lane].lives.insert((slot.index, slot.generation), (entity, life.token));
                }
                self.claim(seat, lane, slot, entity, &life);
                let ready = !self.dice.work.chance(self.options.handlers.fail_permille, 1_000);
                self.begin(seat, lane, slot, What::Start { ready });
            }
            Effect::Run(slot, message) => self.run_handler(seat, lane, slot, message),
            Effect::Stop(slot, why) => {
                match why {
                    StopReason::Idle => self.mark(Mark::Idle),
                    StopReason::Evicted => self.mark(Mark::Evicted),
                    _ => {}
                }
                self.counters.passivations += u64::from(matches!(why, StopReason::Idle | StopReason::Evicted));
                self.begin(seat, lane, slot, What::Stop);
            }
            Effect::Cancel(slot) => self.cancel(seat, lane, slot),
            Effect::Discard(slot) => {
                self.forget_life(seat, lane, slot);
                if let Some(process) = &mut self.seats[seat].process {
                    process.lanes[lane].lives.remove(&(slot.index, slot.generation));
                }
            }
            Effect::Send(to, frame) => self.send_frame(seat, lane, to, frame),
            Effect::Lookup(shard) => self.answer(seat, Input::Lookup { key: self.key(shard) }),
            Effect::Undelivered(message, fate) => {
                self.note(seat, || alloc::format!("message {} is told `{fate}`", message.index));
                self.mark_fate(fate);
                let result = self.model.told(message.index, fate);
                self.judge(result);
            }
            Effect::Owned(shard) => {
                self.counters.grants += 1;
                self.calm.moved(self.now);
                self.touch(shard);
                self.audit_grant(shard);
            }
            Effect::Lost(shard) => self.touch(shard),
            Effect::Dropped(shard, token) => {
                self.note(seat, || alloc::format!("{shard} dropped ({token})"));
                self.touch(shard);
                self.answer(seat, Input::Dropped { key: self.key(shard), token });
            }
            Effect::Loads(loads) => self.answer(seat, Input::Loads { kind: self.kind, loads }),
            Effect::Halted => {
                self.note(seat, || alloc::format!("lane {lane} halted"));
                let (kind, lane) = (self.kind, lane as u32);
                self.answer(seat, Input::Halted { kind, lane });
            }
            Effect::Notice(notice) => self.hear_notice(seat, notice),
        }
    }

    fn mark_fate(&mut self, fate: Fate) {
        match fate {
            Fate::InDoubt => self.mark(Mark::InDoubt),
            Fate::NotRun(Reason::Full(Bound::Entity)) => self.mark(Mark::FullEntity),
            Fate::NotRun(Reason::Full(Bound::Tenant)) => self.mark(Mark::FullTenant),
            Fate::NotRun(Reason::Full(Bound::Shard)) => self.mark(Mark::FullShard),
            Fate::NotRun(Reason::Unavailable) => self.mark(Mark::Unavailable),
            Fate::NotRun(Reason::Expired) => self.mark(Mark::Expired),
            Fate::NotRun(_) => {}
        }
    }

    /// A handler starts: here the message is taken.
    pub(super) fn run_handler(&mut self, seat: usize, lane: usize, slot: Slot, message: Message) {
        let odds = &self.options.handlers;
        let (fail, stop) = (odds.fail_permille, odds.stop_permille);
        let roll = self.dice.work.below(1_000);
        let next = match roll {
            _ if roll < fail => Next::Failed,
            _ if roll < fail + stop => Next::Stop,
            _ if roll < fail + stop * 2 => Next::Passivate,
            _ => Next::Stay,
        };
        self.begin(seat, lane, slot, What::Handle { message, next });
    }

    fn begin(&mut self, seat: usize, lane: usize, slot: Slot, what: What) {
        let Some(process) = &self.seats[seat].process else { return };
        let Some(&(entity, token)) = process.lanes[lane].lives.get(&(slot.index, slot.generation)) else { return };
        let shard = self.entities[entity].shard;
        let run = Run { slot, entity, shard, token, what };
        self.note(seat, || alloc::format!("e{entity} {what:?} under {token}"));
        self.check_run(seat, lane, &run);
        self.touch(shard);
        if let What::Handle { message, .. } = what {
            let result = self.model.handled(message.index, entity);
            self.judge(result);
            self.taste(seat, entity);
            self.write(seat, lane, slot);
        }
        let odds = &self.options.handlers;
        let long = self.dice.work.chance(odds.long_permille, 1_000);
        let span = if long { self.options.timing.margin * 4 } else { odds.time };
        let took = self.dice.work.below(nanos(span) + 1);
        self.runs += 1;
        let number = self.runs;
        if let Some(process) = &mut self.seats[seat].process {
            process.lanes[lane].runs.insert(number, run);
        }
        self.push_here(self.now + took, seat, Event::Done { lane, run: number });
    }

    /// What runs for the slot shall be dropped; that takes a moment.
    fn cancel(&mut self, seat: usize, lane: usize, slot: Slot) {
        let Some(process) = &self.seats[seat].process else { return };
        let found = process.lanes[lane].runs.iter().find(|(_, run)| run.slot == slot).map(|(number, _)| *number);
        self.mark(Mark::HandlerCancelled);
        if let Some(run) = found {
            let at = self.now + self.dice.work.below(nanos(self.options.handlers.time) + 1);
            self.push_here(at, seat, Event::Cancelled { lane, run });
        }
    }

    pub(super) fn run_is_over(&mut self, seat: usize, lane: usize, run: u64, cancelled: bool) {
        let Some(process) = &mut self.seats[seat].process else { return };
        let Some(Run { slot, what, shard, .. }) = process.lanes[lane].runs.remove(&run) else { return };
        self.touch(shard);
        if let What::Handle { message, .. } = what {
            self.reply(seat, message);
        }
        let over = match (cancelled, what) {
            (true, _) | (false, What::Stop) => {
                self.forget_life(seat, lane, slot);
                if let Some(process) = &mut self.seats[seat].process {
                    process.lanes[lane].lives.remove(&(slot.index, slot.generation));
                }
                self.lane_call(seat, lane, |lane, now, host| lane.stopped(now, slot, host))
            }
            (false, What::Start { ready }) => {
                if !ready {
                    self.mark(Mark::StartFailed);
                }
                self.lane_call(seat, lane, |lane, now, host| lane.started(now, slot, ready, host))
            }
            (false, What::Handle { next, message }) => {
                self.say(seat, lane, slot, message);
                self.lane_call(seat, lane, |lane, now, host| lane.finished(now, slot, next, host))
            }
        };
        debug_assert!(over.is_some(), "the process lives");
    }

    /// Now and then an entity says that it is heavier or lighter, or that it is to stay awake, or not any more.
    fn say(&mut self, seat: usize, lane: usize, slot: Slot, message: Message) {
        if self.options.handlers.awake_max == 0 {
            return;
        }
        let weight = NonZeroU32::new(message.index % 3 + 1).unwrap_or(NonZeroU32::MIN);
        match message.index % 11 {
            0 => self.lane_call(seat, lane, |lane, now, host| lane.pin(now, slot, true, host)),
            1..=4 => self.lane_call(seat, lane, |lane, now, host| lane.pin(now, slot, false, host)),
            5 => self.lane_call(seat, lane, |lane, now, host| lane.weighed(now, slot, weight, host)),
            _ => None,
        };
    }

    /// A handler returned, or was dropped: whoever asked is told.
    fn reply(&mut self, seat: usize, message: Message) {
        match message.asker {
            Asker::Nobody => {}
            Asker::Here => {
                let result = self.model.replied(message.index);
                self.judge(result);
            }
            Asker::There { from, shard, seq } => {
                let fate = crate::wire::ReplyFate::Answer(message);
                let frame = Stream::Reply { key: self.key(shard), seq, fate };
                self.send_frame(seat, self.lane_of(shard), from, frame);
            }
        }
    }

    /// A frame of a link reaches its lane.
    pub(super) fn mail(&mut self, seat: usize, lane: usize, from: NodeKey, frame: Frame) {
        match frame {
            Stream::Data { key, token, attempt, seq, first, entity, body, .. } => {
                if first && attempt > 1 {
                    self.mark(Mark::StreamReopened);
                }
                let hash = crate::hash::entity(&entity);
                let (shard, id) = (key.shard, entity.as_str());
                let arrival = Arrival { from, shard, token, attempt, seq, first, id, hash, body: Ok(body) };
                self.lane_call(seat, lane, |lane, now, host| lane.arrive(now, arrival, host));
            }
            Stream::Taken { key, token, upto } => {
                self.lane_call(seat, lane, |lane, now, host| lane.taken(now, from, key.shard, token, upto, host));
            }
            Stream::Closed { key, token, upto, beyond } => {
                if !beyond.is_empty() {
                    self.mark(Mark::ClosedBeyond);
                }
                self.lane_call(seat, lane, |lane, now, host| {
                    lane.closed(now, from, key.shard, token, upto, &beyond, host);
                });
            }
            Stream::Refuse { key, token, attempt, draining, hint } => {
                if draining {
                    self.mark(Mark::RefusedDraining);
                }
                if hint.is_some() {
                    self.mark(Mark::RefusedWithHint);
                }
                self.lane_call(seat, lane, |lane, now, host| {
                    lane.refused(now, from, key.shard, token, attempt, draining, hint, host);
                });
            }
            Stream::Rejected { key, seq, reason, tag, .. } => {
                self.mark(Mark::Rejected);
                let reason = Reason::from_wire(reason, tag);
                self.lane_call(seat, lane, |lane, _, host| lane.rejected(from, key.shard, seq, reason, host));
            }
            Stream::Reply { key, seq, .. } => {
                let asked = self.lane_call(seat, lane, |lane, _, _| lane.replied(from, key.shard, seq));
                match asked {
                    Some(Some(message)) => {
                        let result = self.model.replied(message.index);
                        self.judge(result);
                    }
                    _ => self.mark(Mark::ReplyTooLate),
                }
            }
        }
    }

    /// A link delivered a frame: into the lane's inbox.
    pub(super) fn deliver(&mut self, seat: usize, from: NodeKey, frame: Frame) {
        let key = match &frame {
            Stream::Data { key, .. }
            | Stream::Taken { key, .. }
            | Stream::Closed { key, .. }
            | Stream::Refuse { key, .. }
            | Stream::Rejected { key, .. }
            | Stream::Reply { key, .. } => *key,
        };
        let lane = self.lane_of(key.shard);
        let delay = self.dice.net.below(nanos(self.faults.inbox) / 4 + 1);
        let now = self.now;
        let Some(process) = &mut self.seats[seat].process else { return };
        let berth = &mut process.lanes[lane];
        berth.mail_at = berth.mail_at.max(now + delay);
        let at = berth.mail_at;
        self.push_here(at, seat, Event::Mail { lane, from, frame });
    }

    /// A caller on this node sends one message.
    pub(super) fn send_message(&mut self, seat: usize, entity: usize, ask: bool) {
        let Some(process) = &self.seats[seat].process else { return };
        let message = self.model.sent(process.key, entity, ask);
        self.note(seat, || {
            alloc::format!("message {} to e{entity}{}", message.index, if ask { ", an ask" } else { "" })
        });
        let (name, hash, shard) =
            (self.entities[entity].name.clone(), self.entities[entity].hash, self.entities[entity].shard);
        let lane = self.lane_of(shard);
        let patience = nanos(self.options.timing.session) * self.dice.work.between(1, 4);
        let awake = self.lane_call(seat, lane, |lane, now, host| {
            if let Some(slot) = lane.locate(now, shard, hash, &name) {
                return Some(slot);
            }
            let deadline = ask.then(|| now + Duration::from_nanos(patience));
            lane.tell(now, Tell { id: &name, hash, shard, message, ask, deadline }, host);
            None
        });
        if let Some(Some(slot)) = awake {
            self.mark(Mark::FastDoor);
            // The fast door: the host runs the handler itself and says that it did not return at once.
            self.lane_call(seat, lane, |lane, _, _| lane.busy(slot));
            self.run_handler(seat, lane, slot, message);
        }
    }
}
