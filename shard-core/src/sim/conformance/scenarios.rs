//! The list.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::probe::{Answer, Break, Echo, Hold, Later, Life, Mark, Remind, Sleep, Stranger};
use super::{Cluster, Embedding, Member, ProbeMessage, Scenario, Setup, Verdict, until, wait};
use crate::entity::{Accepts, Ask, AskError, Entities, NoReply, Reason, Refused, StopReason};
use crate::passivation::{Passivation, PolicyChoice};
use crate::time::Duration;

macro_rules! list {
    ($($nodes:literal: $scenario:ident,)*) => {
        pub(super) const ALL: &[Scenario] =
            &[$(Scenario { name: stringify!($scenario), nodes: $nodes, play: $scenario },)*];
    };
}

list! {
    1: an_ask_is_answered_by_an_entity_that_was_asleep,
    1: many_tells_and_an_ask_are_handled_in_order,
    1: a_handler_that_waits_delays_no_other_entity,
    1: mail_waits_for_a_slow_start_in_order,
    1: a_panic_costs_one_entity_its_state_and_nobody_else,
    1: an_ask_ends_at_its_deadline_though_its_handler_waits,
    1: an_answer_may_come_later,
    1: a_question_that_is_dropped_says_so,
    1: an_entity_without_mail_falls_asleep_and_wakes_fresh,
    1: the_least_recently_used_falls_asleep_at_the_cap,
    1: mail_for_a_stopping_entity_is_answered_by_its_next_life,
    1: what_an_entity_schedules_comes,
    1: an_entity_reaches_itself,
    1: a_type_that_nobody_has_is_refused,
    1: a_node_that_leaves_runs_every_last_hook,
    2: every_node_asks_every_entity,
    2: mail_keeps_its_order_while_shards_move_to_a_node_that_joins,
    2: a_node_that_leaves_hands_its_shards_over_and_loses_nothing,
    2: a_waiting_handler_ends_before_its_shard_moves,
}

/// A cluster with its first node.
struct Play {
    setup: Setup,
    cluster: Box<dyn Cluster>,
    member: Box<dyn Member>,
    probes: Entities<ProbeMessage>,
}

impl Play {
    fn begin(embedding: &dyn Embedding, shards: u32, passivation: Passivation) -> Self {
        let setup = Setup::new(shards, passivation);
        let mut cluster = embedding.cluster(&setup);
        let member = cluster.start();
        let probes = patient(member.probes());
        Self { setup, cluster, member, probes }
    }

    fn plain(embedding: &dyn Embedding) -> Self {
        Self::begin(embedding, 16, Passivation::never())
    }

    fn tell<Q>(&self, id: &str, message: Q) -> Verdict
    where
        ProbeMessage: Accepts<Q>,
    {
        // A full queue is no failure: there is more to send than fits.
        wait(self.probes.send(id, message))?.map_err(|refused| format!("{refused}"))
    }

    fn ask<Q>(&self, id: &str, question: Q) -> Result<<ProbeMessage as Accepts<Q>>::Reply, String>
    where
        ProbeMessage: Accepts<Q>,
    {
        answer(self.probes.ask(id, question))
    }

    fn end(self) -> Verdict {
        self.setup.ledger.check()
    }
}

/// With time for a move and a busy machine.
fn patient(probes: Entities<ProbeMessage>) -> Entities<ProbeMessage> {
    probes.within(Duration::from_secs(25))
}

fn answer<Q>(ask: Ask<ProbeMessage, Q>) -> Result<<ProbeMessage as Accepts<Q>>::Reply, String>
where
    ProbeMessage: Accepts<Q>,
{
    wait(ask)?.map_err(|error| format!("{error}"))
}

fn same<T: PartialEq + Debug>(what: &str, seen: T, due: T) -> Verdict {
    if seen == due { Ok(()) } else { Err(format!("{what}: {seen:?}, not {due:?}")) }
}

fn ids(prefix: &'static str, count: u32) -> impl Iterator<Item = String> {
    (0..count).map(move |n| format!("{prefix}-{n}"))
}

fn an_ask_is_answered_by_an_entity_that_was_asleep(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    same("the first life", play.ask("a", Life)?, 1)?;
    same("the same life", play.ask("a", Life)?, 1)?;
    same("another entity", play.ask("an id of more than twenty-two bytes: käse", Life)?, 1)?;
    play.end()
}

fn many_tells_and_an_ask_are_handled_in_order(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    for number in 0..2_000 {
        for id in ["a", "b", "c"] {
            play.tell(id, Mark(number))?;
        }
    }
    for id in ["a", "b", "c"] {
        // An ask is refused at a full queue, where a send would wait.
        let mut marked = None;
        until("there is room for a question", || {
            marked = Some(wait(play.probes.ask(id, Mark(2_000))));
            !matches!(marked, Some(Ok(Err(AskError::Refused(Refused { reason: Reason::Full(_), .. })))))
        })?;
        let marked = marked.ok_or("asked")??.map_err(|error| format!("{error}"))?;
        same("marked before the ask", marked, 2_001)?;
        same("the order", play.setup.ledger.marks(id).into_iter().eq(0..=2_000), true)?;
    }
    play.end()
}

fn a_handler_that_waits_delays_no_other_entity(embedding: &dyn Embedding) -> Verdict {
    // One shard, so they share whatever shards share.
    let play = Play::begin(embedding, 1, Passivation::never());
    let held = play.probes.ask("holds", Hold);
    let behind = play.probes.ask("holds", Mark(7));
    for id in ids("free", 50) {
        same("an entity beside it", play.ask(&id, Mark(1))?, 1)?;
    }
    same("its own mail waits", play.setup.ledger.marks("holds"), Vec::new())?;
    play.setup.ledger.open("holds");
    answer(held)?;
    same("its own mail", answer(behind)?, 1)?;
    play.end()
}

fn mail_waits_for_a_slow_start_in_order(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    for number in 0..100 {
        play.tell("slow", Mark(number))?;
    }
    until("the first hook runs", || play.setup.ledger.is_running("slow"))?;
    same("nothing is handled before it is done", play.setup.ledger.marks("slow"), Vec::new())?;
    play.setup.ledger.open("slow");
    same("all of it", play.ask("slow", Mark(100))?, 101)?;
    same("the order", play.setup.ledger.marks("slow").into_iter().eq(0..=100), true)?;
    play.end()
}

fn a_panic_costs_one_entity_its_state_and_nobody_else(embedding: &dyn Embedding) -> Verdict {
    let play = Play::begin(embedding, 1, Passivation::never());
    play.ask("beside", Life)?;
    play.ask("breaks", Life)?;
    let broken = play.probes.ask("breaks", Break);
    let after = play.probes.ask("breaks", Life);
    match wait(broken)? {
        Err(AskError::NoReply(NoReply::Ended)) => {}
        other => return Err(format!("the question went down with the handler, but: {other:?}")),
    }
    same("mail behind the panic goes to the next life", answer(after)?, 2)?;
    same("the entity beside it", play.ask("beside", Life)?, 1)?;
    play.end()
}

fn an_ask_ends_at_its_deadline_though_its_handler_waits(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    // Awake, so that the limit is the handler's and not that of finding the entity a home.
    play.ask("holds", Life)?;
    let limit = Duration::from_millis(60);
    match wait(play.member.probes().within(limit).ask("holds", Hold))? {
        Err(AskError::NoReply(NoReply::Expired { after })) => same("the limit", after, limit)?,
        other => return Err(format!("it should have expired, but: {other:?}")),
    }
    play.setup.ledger.open("holds");
    same("the entity goes on", play.ask("holds", Life)?, 1)?;
    play.end()
}

fn an_answer_may_come_later(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    let later = play.probes.ask("a", Later);
    same("other mail is handled meanwhile", play.ask("a", Mark(1))?, 1)?;
    play.tell("a", Answer(42))?;
    same("the answer", answer(later)?, 42)?;
    play.end()
}

fn a_question_that_is_dropped_says_so(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    let later = play.probes.ask("a", Later);
    play.tell("a", Sleep(1))?;
    match wait(later)? {
        Err(AskError::NoReply(NoReply::Ended)) => play.end(),
        other => Err(format!("it ended with its entity, but: {other:?}")),
    }
}

fn an_entity_without_mail_falls_asleep_and_wakes_fresh(embedding: &dyn Embedding) -> Verdict {
    let play = Play::begin(embedding, 16, Passivation::after(Duration::from_millis(80)));
    same("awake", play.ask("a", Life)?, 1)?;
    until("it falls asleep", || play.setup.ledger.ends("a") == [StopReason::Idle])?;
    same("awake again", play.ask("a", Life)?, 2)?;
    play.end()
}

fn the_least_recently_used_falls_asleep_at_the_cap(embedding: &dyn Embedding) -> Verdict {
    let play = Play::begin(embedding, 1, Passivation::at_most(3).choosing(PolicyChoice::Lru));
    for id in ["a", "b", "c", "a", "d"] {
        play.ask(id, Life)?;
    }
    until("one goes", || play.setup.ledger.ends("b") == [StopReason::Evicted])?;
    same("those used since stay", play.ask("a", Life)?, 1)?;
    play.end()
}

fn mail_for_a_stopping_entity_is_answered_by_its_next_life(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    play.ask("lingers", Life)?;
    play.tell("lingers", Sleep(9))?;
    until("the last hook runs", || !play.setup.ledger.ends("lingers").is_empty())?;
    let (question, mark) = (play.probes.ask("lingers", Life), play.probes.ask("lingers", Mark(10)));
    play.setup.ledger.open("lingers");
    same("the answer comes from the next life", answer(question)?, 2)?;
    answer(mark)?;
    same("the last message, then the mail", play.setup.ledger.marks("lingers"), [9, 10].into())?;
    same("it asked", play.setup.ledger.ends("lingers"), [StopReason::Asked].into())?;
    play.end()
}

fn what_an_entity_schedules_comes(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    play.ask("a", Remind(5))?;
    until("it comes", || play.setup.ledger.marks("a") == [5])?;
    play.end()
}

fn an_entity_reaches_itself(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    same("its own reference takes mail", play.ask("a", Echo(6))?, true)?;
    until("the mail comes", || play.setup.ledger.marks("a") == [6])?;
    play.end()
}

fn a_type_that_nobody_has_is_refused(embedding: &dyn Embedding) -> Verdict {
    let play = Play::plain(embedding);
    same("refused as such", play.ask("a", Stranger)?, true)?;
    play.end()
}

fn a_node_that_leaves_runs_every_last_hook(embedding: &dyn Embedding) -> Verdict {
    let Play { setup, cluster, member, probes } = Play::plain(embedding);
    for id in ids("e", 20) {
        answer(probes.ask(&id, Life))?;
    }
    same("it leaves in time", member.leave(), true)?;
    for id in ids("e", 20) {
        same("one last hook", setup.ledger.ends(&id).len(), 1)?;
    }
    drop(cluster);
    setup.ledger.check()
}

fn every_node_asks_every_entity(embedding: &dyn Embedding) -> Verdict {
    let mut play = Play::plain(embedding);
    let second = play.cluster.start();
    let theirs = patient(second.probes());
    until("both hold shards", || {
        // Shards are granted when somebody asks for them.
        for id in ids("e", 32) {
            let _ = wait(play.probes.ask(&id, Life));
        }
        play.member.shards() > 0 && second.shards() > 0
    })?;
    for id in ids("e", 32) {
        let (mine, their) = (play.ask(&id, Life)?, answer(theirs.ask(&id, Life))?);
        let births = play.setup.ledger.births(&id);
        same("both nodes reach a life that began", (1..=births).contains(&mine) && mine <= their, true)?;
    }
    play.end()
}

fn mail_keeps_its_order_while_shards_move_to_a_node_that_joins(embedding: &dyn Embedding) -> Verdict {
    let mut play = Play::plain(embedding);
    let mut next = 0;
    // Every entity is told the same numbers, from the first node.
    let mut stream = |play: &Play, rounds: u32| -> Verdict {
        for number in next..next + rounds {
            for id in ids("e", 32) {
                play.tell(&id, Mark(number))?;
            }
        }
        next += rounds;
        Ok(())
    };
    stream(&play, 50)?;
    let second = play.cluster.start();
    until("shards have moved", || stream(&play, 1).is_err() || second.shards() > 0)?;
    stream(&play, 50)?;
    for id in ids("e", 32) {
        play.ask(&id, Mark(next))?;
        let marks = play.setup.ledger.marks(&id);
        same("all numbers once, in order", marks.iter().copied().eq(0..=next), true)
            .map_err(|error| format!("{error}: {id} {marks:?}"))?;
    }
    play.end()
}

fn a_node_that_leaves_hands_its_shards_over_and_loses_nothing(embedding: &dyn Embedding) -> Verdict {
    let mut play = Play::plain(embedding);
    let second = play.cluster.start();
    let theirs = patient(second.probes());
    let mut next = 0;
    let mut round = |play: &Play| -> Verdict {
        for id in ids("e", 32) {
            play.tell(&id, Mark(next))?;
        }
        next += 1;
        Ok(())
    };
    until("both hold shards", || round(&play).is_err() || (second.shards() > 0 && play.member.shards() > 0))?;
    let held = second.shards() + play.member.shards();
    // What the leaver itself has under way is delivered before it goes.
    let last_words: Vec<_> = ids("e", 32).map(|id| theirs.ask(&id, Life)).collect();
    for _ in 0..20 {
        round(&play)?;
    }
    same("it leaves in time", second.leave(), true)?;
    for ask in last_words {
        answer(ask)?;
    }
    round(&play)?;
    for id in ids("e", 32) {
        play.ask(&id, Mark(next))?;
        let marks = play.setup.ledger.marks(&id);
        same("all numbers once, in order", marks.iter().copied().eq(0..=next), true)
            .map_err(|error| format!("{error}: {id} {marks:?}"))?;
    }
    same("the first node holds them all", play.member.shards() >= held, true)?;
    play.end()
}

fn a_waiting_handler_ends_before_its_shard_moves(embedding: &dyn Embedding) -> Verdict {
    let mut play = Play::plain(embedding);
    for id in ids("holds", 8) {
        play.ask(&id, Life)?;
    }
    let held: Vec<_> = ids("holds", 8).map(|id| play.probes.ask(&id, Hold)).collect();
    for id in ids("holds", 8) {
        until("its handler waits", || play.setup.ledger.is_running(&id))?;
    }
    let _second = play.cluster.start();
    let behind: Vec<_> = ids("holds", 8).map(|id| play.probes.ask(&id, Mark(1))).collect();
    ids("holds", 8).for_each(|id| play.setup.ledger.open(&id));
    for ask in held {
        answer(ask)?;
    }
    for ask in behind {
        same("marked by one life", answer(ask)?, 1)?;
    }
    play.end()
}
