//! The control machines, model-checked: every state that a small world can reach is visited, and no promise is broken in any
//! of them.
//!
//! The machines are the real ones, driven through [`Machine`](shard_core::machine::Machine) like everywhere else; only what
//! they stand in is small. What makes the spaces finite is the normal form of a state (`normal.rs`), which the machines
//! support by showing their [marks](shard_core::machine::Mark). There is no budget on elections, heartbeats, lapses, grants
//! or drains: messages may come late, twice, in any order or never, timers late or never, and clocks run at one speed or at
//! twice that. Bounded are, where it is said, crashes and how many late frames of one kind can still matter.
//!
//! | model | machines | promises |
//! |---|---|---|
//! | `voters.rs` | three [`Election`](shard_core::election::Election)s, two of them candidates | disjoint reigns (I2), contiguous reigns (I5) |
//! | `owners.rs` | [`Allocator`](shard_core::coordinator::Allocator), two [`Session`](shard_core::session::Session)s | one live owner (I1), the table covers the owners (I4), no conflicting claim (I7) |
//! | the same, `Lists::Kept` | the same, with the voters' lists as one board | the same, with early exit |
//! | the same, `Source::Authority` | two allocators, one key that may be lost at any moment, unseen | the same |
//!
//! A model that closes may be one in which nothing happens, so each also counts its states, shows that things do happen, and
//! kills its mutants: without a rule it must find the harm. `scripts.rs` retells counterexamples as named scripts.
//!
//! The small bounds are part of `cargo test`. The larger ones take minutes each and up to some gigabytes:
//!
//! ```sh
//! cargo test --release -p shard-core --features sim --test models -- --ignored --nocapture --test-threads 1
//! ```
//!
//! # What is not here
//! - The authority is a model too: the project has no machine yet that talks to one. Its rules X1 and X2 are the switches of
//!   `Confirm`; X4 and X5 speak of a list and of an own region that such a machine would have to keep.
//! - The coordinator's own region (E8) and resignation: the regions here live on other nodes. How a candidate reads the
//!   voters' lists (E1-E3, E9) is one step here; both have their scripts beside the machines.
//! - Lanes: here they stop at once when told. The barriers are the simulator's.
#![cfg(feature = "sim")]

mod check;
mod normal;
mod owners;
mod scripts;
mod voters;

use check::{closes, kills};
use owners::{Confirm, Lists, Owners, Source};
use shard_core::machine::Rule;
use voters::Voters;

/// D = 1, W = 2; one late frame of each kind.
fn owners() -> Owners {
    Owners { late: 1, ..Owners::new(1, 2) }
}

/// Nothing is moved on purpose, which makes the worlds a third as large.
fn resting() -> Owners {
    Owners { drains: false, ..owners() }
}

/// Only a double owner is harm, not what leads there.
fn lenient() -> Owners {
    Owners { strict: false, ..owners() }
}

fn authority(confirm: Confirm) -> Owners {
    Owners { source: Source::Authority(confirm), ..resting() }
}

/// The loser of the key goes on.
fn careless(confirm: Confirm) -> Owners {
    Owners { seats: 2, strict: false, ..authority(confirm) }
}

fn lists() -> Owners {
    Owners { lists: Lists::Kept, ..resting() }
}

/// T_c = 1, T_v = Q = 2; nobody crashes.
fn voters() -> Voters {
    Voters { crashes: Some(0), ..Voters::new(1, 2) }
}

/// Longer times, so that clocks can differ and rounds overlap: T_c = 2, T_v = Q = 4.
fn slow_voters() -> Voters {
    Voters { crashes: Some(0), ..Voters::new(2, 4) }
}

#[test]
fn reigns_are_disjoint_and_never_come_back() {
    closes("voters", voters(), 38_000);
}

#[test]
fn one_live_owner() {
    closes("owners", owners(), 83_000);
}

#[test]
fn one_live_owner_under_an_authority_that_loses_its_key() {
    closes("authority, no drains", authority(Confirm::After), 65_000);
}

#[test]
fn each_rule_of_reigns_is_needed() {
    let slow = slow_voters;
    kills("no-drift-factor", slow().without(Rule::DriftFactor), "I2");
    kills("no-voter-silence", Voters { crashes: Some(1), ..voters() }.without(Rule::VoterSilence), "I2");
    kills("reign-from-receipt", slow().without(Rule::ReignFromSend), "I2");
    kills("release-unchecked", voters().without(Rule::ReleaseTerm), "I2");
    kills("reign-revived", slow().without(Rule::ContiguousReign), "I5");
    kills("no-advance", Voters { lazy: true, ..slow() }.without(Rule::AdvanceFirst), "I5");
}

#[test]
fn each_rule_of_sessions_is_needed() {
    kills("validity-from-receipt", resting().without(Rule::ValidityFromSend), "I");
    kills("no-quarantine", resting().without(Rule::Quarantine), "I");
    kills("forced-handoff", owners().without(Rule::NoForcedHandoff), "I");
    kills("absent-is-free", owners().without(Rule::AppliedBeforeFree), "I");
    kills("sequence-unchecked", Owners { late: 2, ..owners() }.without(Rule::SequenceGrows), "I");
    kills("late-adoption", resting().without(Rule::AdoptionWindow), "I7");
}

#[test]
fn each_rule_of_commands_is_needed() {
    let late = || Owners { late: 2, ..resting() };
    kills("dead-sessions-forgotten", late().without(Rule::DeadSessions), "I");
    kills("old-term-obeyed", late().without(Rule::TermOfCommands), "I");
    kills("lower-session-accepted", late().without(Rule::SessionGrows), "I");
    kills("session-not-bumped", Owners { late: 2, ..owners() }.without(Rule::SessionBump), "I");
}

#[test]
fn a_window_that_begins_before_the_key_is_too_short() {
    kills("early window", authority(Confirm::EarlyWindow), "I");
}

/// Mutants whose shortest harm lies deep, and the unmutated machines within wider bounds.
mod large {
    use super::*;

    fn late() -> Owners {
        Owners { late: 2, ..lenient() }
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn each_rule_of_commands_keeps_owners_apart() {
        kills("old-term-obeyed", late().without(Rule::TermOfCommands), "I1");
        kills("session-not-bumped", late().without(Rule::SessionBump), "I1");
        kills("grant-while-dead", late().without(Rule::GrantOnlyWhileLive), "I1");
        kills("lower-session-accepted", late().without(Rule::SessionGrows), "I1");
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn each_rule_of_heartbeats_is_needed() {
        let resting = || Owners { drains: false, ..lenient() };
        kills("no-advance", Owners { lazy: true, ..resting() }.without(Rule::AdvanceFirst), "I1");
        kills("no-incarnation-check", Owners { crashes: 1, ..resting() }.without(Rule::Incarnation), "I1");
        kills("heartbeat-term-unchecked", owners().without(Rule::HeartbeatTerm), "I7");
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn each_rule_of_early_exit_is_needed() {
        let lists = || Owners { strict: false, ..lists() };
        kills("open-without-need", lists().without(Rule::OpenWhenHeard), "I1");
        kills("carried-unlisted", lists().without(Rule::CarryListed), "I1");
        kills("incomplete-called-complete", lists().without(Rule::CompleteByEvidence), "I1");
        kills("ack-before-confirm", lists().without(Rule::AckAfterConfirm), "I1");
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn each_rule_of_sessions_keeps_owners_apart() {
        let slow = Owners { strict: false, late: 1, ..Owners::new(2, 4) };
        kills("no-drift-factor", slow.without(Rule::DriftFactor), "I1");
        kills("validity-from-receipt", lenient().without(Rule::ValidityFromSend), "I1");
        kills("forced-handoff", lenient().without(Rule::NoForcedHandoff), "I1");
        kills("no-quarantine", lenient().without(Rule::Quarantine), "I1");
        kills("absent-is-free", lenient().without(Rule::AppliedBeforeFree), "I1");
        kills("dead-sessions-forgotten", late().without(Rule::DeadSessions), "I1");
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn what_an_authority_confirms_must_come_after_the_decision() {
        kills("no confirmation", careless(Confirm::Never), "I1");
        kills("stale confirmation", careless(Confirm::Stale), "I1");
        kills("early confirmation", careless(Confirm::Before), "I1");
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn each_rule_of_votes_is_needed() {
        kills("rounds-pooled", slow_voters().without(Rule::OneRound), "I2");
        kills("no-incarnation-check", Voters { crashes: Some(1), ..voters() }.without(Rule::Incarnation), "I2");
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn one_live_owner_with_early_exit() {
        closes("early exit, no drains", lists(), 850_000);
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn one_live_owner_over_a_crash() {
        closes("owners, no drains, a crash", Owners { crashes: 1, ..resting() }, 170_000);
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn reigns_are_disjoint_over_any_number_of_crashes() {
        closes("voters, crashes", Voters { crashes: None, ..voters() }, 560_000);
    }

    #[test]
    #[ignore = "minutes; the page above has the command"]
    fn reigns_are_disjoint_though_machines_look_late_at_the_clock() {
        closes("voters, lazy", Voters { lazy: true, ..voters() }, 130_000);
    }
}
