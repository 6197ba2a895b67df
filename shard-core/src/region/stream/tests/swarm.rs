//! Random lives of the mini-world: nothing is reordered, repeated or silently lost, and each broken rule is noticed.

use alloc::{format, string::String, vec::Vec};

use super::world::{NODES, SHARDS, World};
use crate::machine::{Rule, Rules};
use crate::time::{Duration, Instant};

/// What may go wrong in a life, besides moves and breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Faults {
    Planned,
    Crashes,
}

struct Outcome {
    complaints: Vec<String>,
    handled: usize,
    doubtful: usize,
    refused: usize,
}

/// One life: `seconds` of traffic and faults, then peace until everything must have its fate.
fn live(seed: u64, faults: Faults, rules: Rules, seconds: u64) -> Outcome {
    let frames_max = if seed.is_multiple_of(3) { 8 } else { 65_536 };
    let mut world = World::new(seed, rules, frames_max);
    let dense = seed % 4 == 1;
    let end = Instant::ZERO + Duration::from_secs(seconds);
    while world.now < end {
        let next = world.now + world.random.micros(100, 3_000);
        world.run_until(next);
        let (at, shard) = (world.random.below(NODES as u64) as usize, world.random.below(SHARDS as u64) as usize);
        let entity = world.random.below(2) as u8;
        if world.nodes[at].alive && world.nodes[at].paused_until <= world.now {
            world.user_sends(at, shard, entity);
        }
        if world.random.below(1000) < if dense { 75 } else { 15 } {
            world.move_shard(shard);
        }
        if world.random.below(1000) < 6 && !world.connections.is_empty() {
            let recent = world.connections.len().saturating_sub(16);
            let chosen = recent + world.random.below(16) as usize;
            world.break_connection(chosen.min(world.connections.len() - 1));
        }
        if world.random.below(1000) < 3 {
            world.nodes[at].paused_until = world.now + world.random.micros(1_000, 80_000);
        }
        if faults == Faults::Crashes {
            if world.random.below(1000) < 2 && world.nodes[at].alive {
                world.kill(at);
            }
            if world.random.below(1000) < 2 {
                world.lapse(at);
            }
        }
    }
    world.run_until(end + Duration::from_secs(8));
    judge(&world)
}

fn judge(world: &World) -> Outcome {
    let ledger = &world.ledger;
    let mut complaints: Vec<String> =
        ledger.violations.iter().map(|(what, message)| format!("message {message}: {what}")).collect();
    let living = |record: &super::net::Record| world.nodes.iter().any(|node| node.key == record.sender);
    for (number, record) in ledger.messages.iter().enumerate() {
        if !record.handled && record.fate.is_none() && living(record) {
            complaints.push(format!("message {number} of shard {}, entity {}: lost", record.shard, record.entity));
        }
    }
    for node in &world.nodes {
        for (shard, stream) in node.streams.iter().enumerate().filter(|(_, stream)| !stream.is_idle()) {
            complaints.push(format!("{} to shard {shard}: {} messages unsettled", node.key, stream.len()));
        }
    }
    Outcome {
        complaints,
        handled: ledger.messages.iter().filter(|record| record.handled).count(),
        doubtful: ledger.messages.iter().filter(|record| record.fate == Some("in doubt")).count(),
        refused: ledger.messages.iter().filter(|record| record.fate == Some("full")).count(),
    }
}

fn assert_clean(seeds: core::ops::Range<u64>, faults: Faults) -> (usize, usize) {
    let (mut handled, mut doubtful) = (0, 0);
    for seed in seeds {
        let outcome = live(seed, faults, Rules::all(), 2);
        assert!(outcome.complaints.is_empty(), "seed {seed}, {faults:?}: {:#?}", &outcome.complaints);
        assert_eq!(outcome.refused, 0, "seed {seed}");
        handled += outcome.handled;
        doubtful += outcome.doubtful;
    }
    (handled, doubtful)
}

/// The first seed whose life shows that `rule` is off.
fn caught(rule: Rule, faults: Faults, seeds: u64) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| {
        let outcome = live(seed, faults, Rules::without(rule), 2);
        outcome.complaints.into_iter().next().map(|complaint| (seed, complaint))
    })
}

#[test]
fn planned_moves_and_breaks_lose_repeat_and_reorder_nothing() {
    let (handled, doubtful) = assert_clean(0..24, Faults::Planned);
    assert_eq!(doubtful, 0);
    assert!(handled > 20_000, "{handled}");
}

#[test]
fn crashes_and_lapses_leave_no_message_without_fate() {
    let (handled, doubtful) = assert_clean(0..40, Faults::Crashes);
    assert!(handled > 20_000 && doubtful > 0, "{handled} {doubtful}");
}

// The attempt rule (`DataAttempt`) takes a longer search than a test may: `outgoing.rs` has its script. The rules of the
// link that random lives hide (`LinkForget`, `LinkConnection`) are tested at the link.
macro_rules! mutants {
    ($($name:ident: $rule:ident, $faults:ident, $seeds:literal;)*) => { $(
        #[test]
        fn $name() {
            let found = caught(Rule::$rule, Faults::$faults, $seeds);
            assert!(found.is_some(), "no life of {} shows that {:?} is off", $seeds, Rule::$rule);
            std::println!("{found:?}");
        }
    )* };
}

mutants! {
    mutant_stream_token_unchecked: DataToken, Planned, 40;
    mutant_stream_entry_unchecked: DataEntry, Planned, 40;
    mutant_closed_without_beyond: ClosedBeyond, Planned, 40;
    mutant_no_closed_after_lapse: ClosedAlways, Crashes, 200;
    mutant_draining_read_as_refusal: DrainingWaits, Planned, 40;
    mutant_settled_on_arrival: SettleOnStart, Planned, 40;
    mutant_in_doubt_resent: NeverResendInDoubt, Crashes, 40;
    mutant_link_gap_accepted: LinkGap, Planned, 40;
    mutant_link_not_reset: LinkReset, Crashes, 40;
}
