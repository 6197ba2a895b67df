//! Counterexamples of the models as named event scripts: the shortest harm that a rule prevents, step by step over the real
//! machines. Each runs with all rules (no harm may come of it) and without one (it must).
//!
//! Only what has no script elsewhere stands here. The others: reigns in `src/election/tests/mutants.rs`, sessions and
//! commands in `src/coordinator/scripts.rs`, lists and resignation in `src/coordinator/early.rs`.

use shard_core::machine::Rule;
use stateright::Model;

use crate::normal::Mail;
use crate::owners::{Confirm, Lists, Owners, Source, Step, World};

/// A world, and what has been done to it.
struct Script {
    model: Owners,
    world: World,
    harm: bool,
}

impl Script {
    fn new(model: Owners) -> Self {
        let world = model.init_states().pop().expect("one world");
        Self { model, world, harm: false }
    }

    /// One step; whether it was possible. What a rule forbids is left out, and the script goes on.
    fn step(&mut self, step: &Step) -> bool {
        let mut possible = Vec::new();
        self.model.actions(&self.world, &mut possible);
        if !possible.contains(step) {
            return false;
        }
        if let Some(next) = self.model.next_state(&self.world, step.clone()) {
            self.world = next;
        }
        self.harm |= self.world.owners().count() > 1;
        true
    }

    /// A step that is possible under any rules.
    fn must(&mut self, step: &Step) {
        assert!(self.step(step), "{step:?} is not possible now");
    }

    /// All clocks make one step, `times` times.
    fn pass(&mut self, times: u32) {
        (0..times).for_each(|_| self.must(&Step::Tick(0)));
    }

    /// A region's newest heartbeat arrives.
    fn beats(&mut self, region: usize) {
        self.must(&Step::Beat(region));
        let me = self.world.region(region);
        if let Some(mail) = self.world.mail().iter().rfind(|mail| mail.from == me).cloned() {
            self.step(&Step::Deliver(mail));
        }
    }

    /// What a region was sent last arrives.
    fn hears(&mut self, region: usize) {
        if let Some(mail) = self.sent_to(region).pop() {
            self.step(&Step::Deliver(mail));
        }
    }

    /// What a region was sent before anything else that is still under way arrives, perhaps again.
    fn hears_the_oldest(&mut self, region: usize) {
        if let Some(mail) = self.sent_to(region).into_iter().next() {
            self.step(&Step::Deliver(mail));
        }
    }

    fn sent_to(&self, region: usize) -> Vec<Mail> {
        let me = self.world.region(region);
        self.world.mail().iter().filter(|mail| mail.to == me).cloned().collect()
    }

    /// What a coordinator holds back goes out, if its authority says so.
    fn releases(&mut self, seat: usize) {
        self.step(&Step::Confirm(seat));
        self.step(&Step::Answer(seat));
    }
}

/// The harm comes with the broken model, and not with the sound one.
fn proves(sound: Owners, broken: Owners, script: fn(&mut Script)) {
    for (model, harm) in [(sound, false), (broken, true)] {
        let mut run = Script::new(model);
        script(&mut run);
        assert_eq!(run.harm, harm, "{:?}", run.world);
    }
}

fn authority(confirm: Confirm) -> Owners {
    Owners { source: Source::Authority(confirm), seats: 2, late: 2, strict: false, ..Owners::new(1, 2) }
}

/// A coordinator that lost its key unseen goes on granting beside its successor, whose window has passed.
fn unseen_loss(run: &mut Script) {
    run.must(&Step::Elect(0, false));
    run.must(&Step::Announce(0, 0));
    run.pass(2);
    run.must(&Step::KeyLoss);
    run.must(&Step::Elect(1, false));
    run.must(&Step::Announce(1, 1));
    run.pass(2);
    run.beats(1);
    run.must(&Step::Allocate(1, 1));
    run.beats(0);
    run.step(&Step::Allocate(0, 0));
    for region in 0..2 {
        run.releases(0);
        run.releases(1);
        run.hears(region);
    }
}

#[test]
fn a_coordinator_that_asks_nobody_grants_beside_its_successor() {
    proves(authority(Confirm::After), authority(Confirm::Never), unseen_loss);
}

#[test]
fn a_replica_that_has_not_heard_of_the_loss_confirms_nothing() {
    proves(authority(Confirm::After), authority(Confirm::Stale), unseen_loss);
}

#[test]
fn a_confirmation_asked_for_before_the_decision_covers_nothing() {
    proves(authority(Confirm::After), authority(Confirm::Before), |run| {
        run.must(&Step::Elect(0, false));
        run.must(&Step::Announce(0, 0));
        run.pass(2);
        // Confirmed while the key was its own; the answer is late.
        run.step(&Step::Ask(0));
        run.must(&Step::KeyLoss);
        run.must(&Step::Elect(1, false));
        run.must(&Step::Announce(1, 1));
        run.pass(2);
        run.beats(1);
        run.must(&Step::Allocate(1, 1));
        run.step(&Step::Ask(1));
        run.releases(1);
        run.beats(0);
        run.step(&Step::Allocate(0, 0));
        run.releases(0);
        run.hears(0);
        run.hears(1);
    });
}

#[test]
fn a_window_that_began_before_the_key_was_created_is_too_short() {
    proves(authority(Confirm::After), authority(Confirm::EarlyWindow), |run| {
        run.must(&Step::Elect(0, false));
        run.must(&Step::Announce(0, 0));
        run.pass(2);
        run.beats(0);
        run.must(&Step::Allocate(0, 0));
        run.releases(0);
        run.must(&Step::KeyLoss);
        run.must(&Step::Elect(1, false));
        run.must(&Step::Announce(1, 1));
        run.beats(1);
        run.step(&Step::Allocate(1, 1));
        run.releases(1);
        run.hears(0);
        run.hears(1);
    });
}

#[test]
fn a_late_ack_fits_a_session_that_kept_its_number_and_its_heartbeats() {
    let sound = || Owners { late: 4, strict: false, ..Owners::new(1, 2) };
    let broken = sound().without(Rule::SessionBump).without(Rule::ForgetSent);
    proves(sound(), broken, |run| {
        run.must(&Step::Elect(0, false));
        run.must(&Step::Announce(0, 0));
        run.must(&Step::Announce(0, 1));
        run.pass(2);
        run.beats(0);
        run.must(&Step::Allocate(0, 0));
        run.must(&Step::Drain(0));
        run.hears(0);
        run.must(&Step::Dropped(0));
        run.beats(0);
        // The session lapses; a new one begins, and the old commands come once more.
        run.pass(1);
        run.beats(0);
        run.hears(0);
        run.hears_the_oldest(0);
        run.beats(1);
        run.step(&Step::Allocate(0, 1));
        run.hears(1);
    });
}

fn listing() -> Owners {
    Owners { lists: Lists::Kept, late: 2, strict: false, ..Owners::new(1, 2) }
}

impl Script {
    /// The voters store what there is to store, and say so.
    fn list(&mut self) {
        while self.step(&Step::Store(0)) && self.step(&Step::Stored(0)) {}
    }

    /// A reign waits W, so that it knows that its list is complete, and has it stored. Nobody has registered yet.
    fn sure_reign(&mut self) {
        self.must(&Step::Elect(0, false));
        self.list();
        self.pass(2);
        self.list();
    }

    /// Under that reign, one region owns the shard.
    fn first_owner(&mut self) {
        self.sure_reign();
        self.must(&Step::Announce(0, 0));
        self.beats(0);
        self.list();
        self.must(&Step::Allocate(0, 0));
        self.hears(0);
        assert_eq!(self.world.owners().count(), 1);
    }

    /// A reign that has read the voters' lists hears only the other region, and grants it the shard if it is open.
    fn second_owner(&mut self) {
        self.must(&Step::Elect(0, true));
        self.must(&Step::Announce(0, 1));
        self.beats(1);
        self.list();
        self.step(&Step::Allocate(0, 1));
        self.hears(1);
    }
}

#[test]
fn the_quarantine_does_not_end_before_those_named_have_registered() {
    proves(listing(), listing().without(Rule::OpenWhenHeard), |run| {
        run.first_owner();
        run.second_owner();
    });
}

#[test]
fn a_reign_that_knows_nothing_of_those_before_calls_no_list_complete() {
    proves(listing(), listing().without(Rule::CompleteByEvidence), |run| {
        run.first_owner();
        run.must(&Step::Elect(0, false));
        run.must(&Step::Store(0));
        run.second_owner();
    });
}

#[test]
fn nobody_lives_whom_the_voters_could_not_name() {
    proves(listing(), listing().without(Rule::AckAfterConfirm), |run| {
        run.sure_reign();
        run.must(&Step::Announce(0, 0));
        run.beats(0);
        run.must(&Step::Allocate(0, 0));
        run.hears(0);
        run.second_owner();
    });
}

#[test]
fn two_short_reigns_in_a_row_do_not_lose_the_list() {
    proves(listing(), listing().without(Rule::CarryListed), |run| {
        run.first_owner();
        // This one hears nobody.
        run.must(&Step::Elect(0, true));
        run.must(&Step::Store(0));
        run.second_owner();
    });
}
