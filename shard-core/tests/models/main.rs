//! Models.
#![cfg(feature = "sim")]

mod check;
mod normal;
mod owners;
mod voters;

use check::explore;
use owners::{Confirm, Owners, Source};
use shard_core::machine::{Rule, Rules};
use voters::Voters;

#[test]
fn a1() {
    explore("A,R nodrain", Owners { late: 1, drains: false, ..Owners::new(Rules::all(), 1, 2) }, 1);
}
#[test]
fn a2() {
    explore("A,R", Owners { late: 1, ..Owners::new(Rules::all(), 1, 2) }, 1);
}
#[test]
fn a3_mutants() {
    let base = |rule| Owners { late: 1, strict: false, ..Owners::new(Rules::without(rule), 1, 2) };
    let mutants = [
        Owners {
            ..Owners {
                timing: base(Rule::DriftFactor).timing,
                ..Owners { late: 1, strict: false, ..Owners::new(Rules::without(Rule::DriftFactor), 2, 4) }
            }
        },
        base(Rule::ValidityFromSend),
        base(Rule::NoForcedHandoff),
        base(Rule::Quarantine),
        base(Rule::AppliedBeforeFree),
        Owners { strict: true, ..base(Rule::HeartbeatTerm) },
        Owners { strict: true, ..base(Rule::SequenceGrows) },
        Owners { strict: true, ..base(Rule::AdoptionWindow) },
        Owners { late: 2, ..base(Rule::TermOfCommands) },
        Owners { late: 2, ..base(Rule::SessionBump) },
        Owners { late: 2, ..base(Rule::DeadSessions) },
        Owners { late: 2, ..base(Rule::GrantOnlyWhileLive) },
        Owners { late: 2, ..base(Rule::SessionGrows) },
        Owners { lazy: true, ..base(Rule::AdvanceFirst) },
        Owners { crashes: 1, ..base(Rule::Incarnation) },
    ];
    for m in mutants {
        let name = Rule::ALL.iter().find(|r| !m.rules.on(**r)).unwrap().mutant();
        let m = if name == "no-drift-factor" {
            Owners { late: 1, strict: false, ..Owners::new(Rules::without(Rule::DriftFactor), 2, 4) }
        } else {
            m
        };
        let o = explore(name, m, 1);
        println!("{:#?}", o.broken);
    }
}
#[test]
fn b_mutants() {
    for (rule, r, l, crashes, lazy) in [
        (Rule::ReignFromSend, 2, 4, 0, false),
        (Rule::Incarnation, 1, 2, 1, false),
        (Rule::AdvanceFirst, 2, 4, 0, true),
        (Rule::OneRound, 2, 4, 0, false),
    ] {
        let o = explore(
            rule.mutant(),
            Voters { crashes: Some(crashes), lazy, ..Voters::new(Rules::without(rule), r, l) },
            1,
        );
        println!("{:#?}", o.broken);
    }
}
