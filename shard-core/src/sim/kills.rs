//! Where each broken rule is shown to do harm, so that none goes unnoticed because random storms seldom meet it.
//!
//! `tests/mutants.rs` looks whether all this is true: storms it runs (`tests/sim_scripts.rs` the scripts), tests it finds, and
//! they are no ignored ones. `storm --mutants` prints it for the rules that its seeds do not miss.
//!
//! One rule is defence in depth, `sent-kept`: no harm comes of its absence alone ([`Kill::Covered`]). Five are killed by
//! storms only, those with a [`Kill::Storm`].

use core::fmt;

use crate::machine::Rule;

/// One thing that `cargo test` runs and that fails the rule's mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kill {
    /// One of these seeds of [`Options::from_seed`](super::Options::from_seed) breaks the property.
    Storm {
        /// The first seed.
        first: u64,
        /// The last.
        last: u64,
        /// The property, by its name.
        property: &'static str,
    },
    /// A script of `tests/scripts`.
    Script {
        /// Its name, without `.storm`.
        name: &'static str,
        /// All of it.
        text: &'static str,
    },
    /// A directed test of the machine, or of a model of it.
    Test {
        /// Its file, from the folder of this crate.
        file: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// Defence in depth: nothing shows harm of this rule's absence alone, for another one covers for it. The test that comes
    /// with this breaks both.
    Covered {
        /// The other rule.
        by: Rule,
    },
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storm { first, last, property } => write!(f, "by a storm of seeds {first} to {last} ({property})"),
            Self::Script { name, .. } => write!(f, "by script {name}"),
            Self::Test { file, name } => write!(f, "by test {name} in {file}"),
            Self::Covered { by } => write!(f, "harmless alone: the rule that {} breaks covers for it", by.mutant()),
        }
    }
}

macro_rules! by {
    (storm $first:literal to $last:literal $property:literal) => {
        Kill::Storm { first: $first, last: $last, property: $property }
    };
    (script $name:literal) => {
        Kill::Script { name: $name, text: include_str!(concat!("../../tests/scripts/", $name, ".storm")) }
    };
    (coordinator $name:literal) => {
        Kill::Test { file: "src/coordinator/scripts.rs", name: $name }
    };
    (early exit $name:literal) => {
        Kill::Test { file: "src/coordinator/early.rs", name: $name }
    };
    (election $name:literal) => {
        Kill::Test { file: "src/election/tests/mutants.rs", name: $name }
    };
    (lists $name:literal) => {
        Kill::Test { file: "src/election/tests/lists.rs", name: $name }
    };
    (voters $name:literal) => {
        Kill::Test { file: "src/election/tests/change.rs", name: $name }
    };
    (link $name:literal) => {
        Kill::Test { file: "src/wire/link/tests.rs", name: $name }
    };
}

const OWNER: Kill =
    Kill::Test { file: "src/region/stream/tests/incoming.rs", name: "each_mutant_of_the_owner_breaks_its_rule" };
const SENDER: Kill =
    Kill::Test { file: "src/region/stream/tests/outgoing.rs", name: "each_mutant_of_the_sender_breaks_its_rule" };

/// What kills the mutant that breaks `rule`.
#[must_use]
pub const fn kills(rule: Rule) -> &'static [Kill] {
    use Kill::{Covered, Test};
    match rule {
        Rule::DriftFactor => &[
            by!(script "no-drift-factor"),
            by!(coordinator "a_wait_without_the_drift_factor_ends_before_a_slow_owner_does"),
        ],
        Rule::Quarantine => &[
            by!(script "no-quarantine"),
            by!(coordinator "a_new_coordinator_that_does_not_wait_grants_what_is_still_on_its_way"),
        ],
        Rule::NoForcedHandoff => {
            &[by!(script "forced-handoff"), by!(coordinator "a_drain_that_takes_too_long_is_not_given_away")]
        }
        Rule::ValidityFromSend => &[
            by!(script "validity-from-receipt"),
            by!(coordinator "validity_from_receipt_outlives_the_coordinators_wait"),
        ],
        Rule::Incarnation => &[
            by!(script "no-incarnation-check"),
            by!(coordinator "an_ack_for_the_process_before_fits_the_process_after"),
        ],
        Rule::TermOfCommands => &[by!(coordinator "a_grant_of_an_older_term_is_obeyed_beside_a_newer_one")],
        Rule::SessionBump => &[by!(coordinator "a_lapsed_session_under_the_same_number_obeys_its_old_commands_again")],
        Rule::ForgetSent => &[
            Covered { by: Rule::SessionBump },
            Test {
                file: "tests/models/scripts.rs",
                name: "a_late_ack_fits_a_session_that_kept_its_number_and_its_heartbeats",
            },
        ],
        Rule::ContiguousReign => &[by!(script "reign-revived"), by!(election "a_lapsed_reign_must_not_come_back")],
        Rule::Majority => &[by!(storm 1 to 20 "overlapping-reigns")],
        Rule::VoterSilence => &[by!(election "a_restarted_voter_that_is_not_silent_lets_two_reign")],
        Rule::DeadSessions => &[by!(coordinator "a_session_that_expired_unborn_is_made_anew_and_its_old_grant_fits")],
        Rule::AdoptionWindow => &[
            by!(script "late-adoption"),
            by!(coordinator "a_first_report_after_the_window_is_refused_before_it_can_conflict"),
        ],
        Rule::ReignFromSend => {
            &[by!(script "reign-from-receipt"), by!(election "a_reign_that_counts_from_the_answer_lets_two_reign")]
        }
        Rule::OneRound => &[by!(election "votes_of_two_rounds_added_up_let_two_reign")],
        Rule::ReleaseTerm => &[by!(election "a_late_release_of_a_former_candidacy_must_not_free_a_voter")],
        Rule::GrantOnlyWhileLive => &[by!(coordinator "a_grant_taken_while_dead_comes_to_life_under_the_next_reign")],
        Rule::HeartbeatTerm => &[by!(coordinator "a_heartbeat_sent_before_the_election_is_no_report_of_this_reign")],
        Rule::AppliedBeforeFree => &[by!(coordinator "absent_is_not_free_while_a_grant_is_on_its_way")],
        Rule::SequenceGrows => &[by!(coordinator "an_older_heartbeat_of_the_same_session_claims_what_was_given_away")],
        Rule::SessionGrows => &[by!(coordinator "a_heartbeat_of_a_lower_session_does_not_replace_the_higher_one")],
        Rule::AdvanceFirst => &[by!(coordinator "a_paused_owner_looks_at_the_clock_before_it_registers_again")],
        Rule::ReleaseAlways => &[by!(election "candidates_that_release_nothing_stall_the_next_election")],
        Rule::RestorePromise => &[by!(election "a_failed_candidacy_that_keeps_its_promise_locks_the_coordinator_out")],
        Rule::DropBarrier => &[by!(script "no-barrier-leave"), by!(script "no-barrier")],
        Rule::SessionBarrier => &[by!(coordinator "the_next_session_is_silent_until_the_lanes_have_stopped")],
        Rule::DataToken => &[OWNER],
        Rule::DataAttempt => &[OWNER],
        Rule::DataEntry => &[OWNER],
        Rule::ClosedBeyond => &[by!(script "closed-without-beyond"), OWNER],
        Rule::ClosedAlways => &[OWNER],
        Rule::DrainingWaits => &[SENDER],
        Rule::SettleOnStart => &[by!(script "settled-on-arrival"), OWNER],
        Rule::NeverResendInDoubt => &[by!(script "in-doubt-resent"), SENDER],
        Rule::LinkGap => &[by!(script "link-gap-accepted"), by!(link "mutant_link_gap_accepted_delivers_out_of_order")],
        Rule::LinkReset => &[by!(link "mutant_link_not_reset_drops_the_new_processes_frames")],
        Rule::LinkForget => &[by!(link "mutant_link_resends_to_new_process_is_seen_at_the_link")],
        Rule::LinkConnection => &[by!(link "mutant_link_former_connection_accepted_takes_its_frames")],
        Rule::ListGrows => &[by!(lists "an_older_list_never_takes_the_place_of_a_newer_one")],
        Rule::CandidateListless => &[by!(lists "a_candidate_does_not_wipe_the_lists")],
        Rule::ListMajority => &[by!(lists "without_a_majority_of_lists_the_evidence_is_incomplete_after_its_time")],
        Rule::ListNewest => &[by!(lists "of_two_lists_the_newer_one_counts")],
        Rule::ListCarried => &[by!(lists "of_two_lists_the_newer_one_counts")],
        Rule::CarryListed => &[by!(early exit "those_carried_over_stay_listed_until_they_register_or_w_has_passed")],
        Rule::CompleteByEvidence => &[by!(early exit "a_list_without_evidence_is_complete_after_w_only")],
        Rule::AckAfterConfirm => &[by!(early exit "nobody_is_acknowledged_before_the_voters_know_of_it")],
        Rule::OpenWhenHeard => &[by!(early exit "the_quarantine_ends_when_everyone_has_registered")],
        Rule::OwnRegionClipped => &[by!(storm 20 to 60 "unlisted-owner")],
        Rule::LapseBeforeRelease => {
            &[Test { file: "src/node/tests.rs", name: "the_mutant_frees_its_vote_while_the_region_still_runs" }]
        }
        Rule::AmnesiaUnknown => &[by!(lists "a_voter_that_forgot_everything_does_not_know_an_empty_list")],
        Rule::ResignListed => &[by!(early exit "the_mutants_of_a_resignation_skip_the_list_or_the_confirmation")],
        Rule::ResignConfirmed => &[by!(early exit "the_mutants_of_a_resignation_skip_the_list_or_the_confirmation")],
        Rule::OneVoter => &[by!(voters "a_voter_swapped_in_one_step_lets_two_reign")],
        Rule::NeighbourVersion => &[by!(voters "a_voter_that_listens_to_an_older_version_lets_two_reign")],
        Rule::VersionProved => &[by!(voters "a_version_loaded_before_the_last_is_in_force_lets_two_reign")],
        Rule::RateWatched => &[by!(script "rate-unwatched")],
        Rule::JumpGuard => &[by!(script "jump-unguarded")],
        Rule::StoreClaim => &[by!(storm 1 to 20 "newest-refused")],
        Rule::StoreCondition => &[by!(storm 1 to 20 "lost-update")],
        Rule::StoreActivation => &[by!(storm 1 to 20 "newest-refused")],
        Rule::VersionTold => &[by!(voters "who_comes_back_behind_is_told_by_those_ahead")],
    }
}
