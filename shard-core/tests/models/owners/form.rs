//! The normal form of a world of owners: what nobody would take notice of any more is dropped, and the rest renamed.

use shard_core::coordinator::{self, Allocator};
use shard_core::id::NodeKey;
use shard_core::machine::{Machine, Mark, Rule, Sort};
use shard_core::session;
use shard_core::time::Instant;
use shard_core::wire::Control;

use super::{Owners, REGIONS, Region, Seat, World};
use crate::normal::{Mail, NOW, Names, list_marks, mail_marks, settle};

impl Owners {
    /// Brings a world to its normal form. Machines look at the clock first, unless the model is lazy.
    pub(super) fn normal(&self, world: &mut World) {
        if !self.lazy {
            (0..world.seats.len()).for_each(|seat| self.tell(world, seat, NOW, None));
            (0..REGIONS).for_each(|region| world.wake(region));
        }
        world.seats.iter_mut().for_each(Seat::settle);
        world.regions.iter_mut().for_each(Region::settle);
        let applied = core::array::from_fn(|region| world.regions[region].applied());
        let mail = core::mem::take(&mut world.mail);
        world.mail = mail.into_iter().filter_map(|mail| self.matters(world, &applied, mail)).collect();
        world.mail.sort_unstable();
        world.mail.dedup();
        self.lose_the_oldest(&mut world.mail);
        for seat in 0..world.seats.len() {
            let held = core::mem::take(&mut world.seats[seat].held);
            let held = held.into_iter().filter_map(|mail| self.matters(world, &applied, mail));
            world.seats[seat].held = held.collect();
            world.seats[seat].held.sort_unstable();
        }
        world.forget_the_dead();
        let names = Names::of(|f| world.each_mark(f));
        world.each_mark(&mut |mark| {
            // A node that crashed is another name in the allocator's maps, and crashes are few.
            if !matches!(mark, Mark::Node(_)) {
                names.give(mark);
            }
        });
        world.mail.sort_unstable();
    }

    /// The message, cut to what its receiver would take notice of, now or later; none if that is nothing. Where a rule is
    /// what makes a message void, a machine without the rule keeps it.
    fn matters(&self, world: &World, applied: &[u64; REGIONS], mut mail: Mail) -> Option<Mail> {
        match &mut mail.message {
            Control::Heartbeat(_) => {
                let seat = world.seats.iter().find(|seat| seat.me == mail.to)?;
                seat.notices(world, &mail, self.lazy).then_some(mail)
            }
            Control::Ack(ack) => {
                let at = world.regions.iter().position(|region| region.me.id == mail.to.id)?;
                let (region, applied) = (&world.regions[at], applied[at]);
                let term = region.session.term();
                if (self.rules.on(Rule::Incarnation) && region.me != mail.to)
                    || (self.rules.on(Rule::TermOfCommands) && term.is_some_and(|term| ack.term < term))
                    || ack.session != region.session.number()
                {
                    return None;
                }
                // What was applied can come again only without one of these rules.
                let numbered = self.rules.on(Rule::TermOfCommands) && self.rules.on(Rule::SessionBump);
                let foreign = term != Some(ack.term) || region.me != mail.to;
                if numbered && !foreign {
                    let known = usize::try_from((applied + 1).saturating_sub(ack.first)).expect("few commands");
                    ack.commands.drain(..known.min(ack.commands.len()));
                    ack.first = ack.first.max(applied + 1);
                    if ack.commands.is_empty() {
                        ack.first = applied + 1;
                    }
                }
                let news = !ack.commands.is_empty();
                (foreign || news || region.notices(&mail, self.lazy)).then_some(mail)
            }
            Control::Dead { term, session } => {
                let region = world.regions.iter().find(|region| region.me.id == mail.to.id)?;
                let known = region.session.term().is_some_and(|known| *term < known);
                (!known && *session == region.session.number() && region.me == mail.to).then_some(mail)
            }
            _ => None,
        }
    }

    fn lose_the_oldest(&self, mail: &mut Vec<Mail>) {
        // Sorted: by sender and receiver, then kind, then term, session and sequence.
        let kind = |mail: &Mail| (mail.from.id, mail.to.id, core::mem::discriminant(&mail.message));
        let mut at = 0;
        while at < mail.len() {
            let same = mail[at..].iter().take_while(|other| kind(other) == kind(&mail[at])).count();
            let lost = same.saturating_sub(self.late);
            mail.drain(at..at + lost);
            at += same - lost;
        }
    }
}

impl World {
    pub(super) fn each_mark(&mut self, f: &mut dyn FnMut(Mark<'_>)) {
        for seat in &mut self.seats {
            seat.allocator.each_mark(f);
            seat.held.iter_mut().for_each(|mail| mail_marks(mail, f));
            seat.listing.iter_mut().for_each(|(list, _)| list_marks(list, f));
        }
        for region in &mut self.regions {
            region.session.each_mark(f);
            region.draining.iter_mut().for_each(|token| f(Mark::Token(token)));
        }
        self.mail.iter_mut().for_each(|mail| mail_marks(mail, f));
    }

    /// The region looks at the clock.
    fn wake(&mut self, region: usize) {
        let Region { session, draining, .. } = &mut self.regions[region];
        let mut ended = None;
        let nothing = session::Input::LanesStopped { session: 0 };
        session.handle(NOW, nothing, &mut |output| {
            if let session::Output::StopAll { session } = output {
                ended = Some(session);
            }
        });
        if let Some(ended) = ended {
            *draining = None;
            session.handle(NOW, session::Input::LanesStopped { session: ended }, &mut |_| {});
        }
    }

    /// A session that ended is remembered as long as someone may still speak of it.
    fn forget_the_dead(&mut self) {
        let spoken: Vec<(NodeKey, u64)> = self
            .mail
            .iter()
            .filter_map(|mail| match &mail.message {
                Control::Heartbeat(beat) => Some((mail.from, beat.session)),
                _ => None,
            })
            .chain(self.regions.iter().map(|region| (region.me, region.session.number())))
            .collect();
        for seat in &mut self.seats {
            let members: Vec<_> = seat.allocator.nodes(NOW).map(|node| node.node).collect();
            seat.allocator.each_mark(&mut |mark| {
                if let Mark::Number(of, Sort::Session, session) = mark
                    && !members.contains(&of)
                    && !spoken.iter().any(|(node, spoken)| *node == of && *spoken <= *session)
                {
                    *session = 0;
                }
            });
        }
    }
}

/// Besides the rest, all versions of the list up to the one confirmed are alike. That one is shown last.
fn settle_allocator(allocator: &mut Allocator) {
    let (mut confirmed, mut settle) = (0, settle(Instant::ZERO));
    allocator.each_mark(&mut |mark| {
        if let Mark::Version(_, version) = mark {
            confirmed = *version;
        } else {
            settle(mark);
        }
    });
    allocator.each_mark(&mut |mark| {
        if let Mark::Version(_, version) = mark {
            *version = confirmed.max(*version);
        }
    });
}

impl Seat {
    fn settle(&mut self) {
        settle_allocator(&mut self.allocator);
        self.held.iter_mut().for_each(|mail| mail_marks(mail, &mut settle(Instant::ZERO)));
    }

    /// Whether a heartbeat would change anything, or be answered with something that does.
    fn notices(&self, world: &World, mail: &Mail, lazy: bool) -> bool {
        let mut with = self.allocator.clone();
        let mut hit = false;
        let heard = coordinator::Input::Heard { from: mail.from, message: mail.message.clone() };
        with.handle(NOW, heard, &mut |output| {
            if let coordinator::Output::Send { to, message: Control::Dead { term, session } } = output {
                let dies = |region: &Region| {
                    let obeys = region.session.term().is_none_or(|known| known <= term);
                    region.me == to && region.session.number() == session && obeys
                };
                hit |= world.regions.iter().any(dies);
            }
        });
        with.expire(NOW, &mut |_| {});
        settle_allocator(&mut with);
        if lazy {
            let mut without = self.allocator.clone();
            without.expire(NOW, &mut |_| {});
            settle_allocator(&mut without);
            hit || with != without
        } else {
            hit || with != self.allocator
        }
    }
}

impl Region {
    fn settle(&mut self) {
        let valid_until = self.session.valid_until().unwrap_or(Instant::ZERO);
        self.session.each_mark(&mut settle(valid_until));
        self.draining = self.draining.filter(|token| self.session.owned().iter().any(|owned| owned.token == *token));
    }

    /// The number of the last command obeyed.
    fn applied(&self) -> u64 {
        let mut applied = 0;
        self.session.clone().each_mark(&mut |mark| {
            if let Mark::Number(_, Sort::Command, value) = mark {
                applied = *value;
            }
        });
        applied
    }

    /// Whether a message would change the session, apart from looking at the clock.
    fn notices(&self, mail: &Mail, lazy: bool) -> bool {
        let mut with = self.clone();
        let Mail { from, to, message } = mail.clone();
        with.session.handle(NOW, session::Input::Heard { from, to, message }, &mut |_| {});
        with.settle();
        if lazy {
            let mut without = self.clone();
            without.session.handle(NOW, session::Input::LanesStopped { session: 0 }, &mut |_| {});
            without.settle();
            with != without
        } else {
            with != *self
        }
    }
}
