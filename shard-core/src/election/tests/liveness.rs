//! What happens when nothing, or little, goes wrong.

use super::bench::{Bench, FIRST};
use crate::machine::Rules;

#[test]
fn a_healthy_cluster_elects_its_first_voter_once() {
    let mut bench = Bench::new(Rules::all());
    bench.run(FIRST + 1, |_| true);
    assert!(bench.reign(0).is_some());
    bench.run(20_000, |_| true);
    assert_eq!((bench.elections(), bench.reigns()), (1, 1));
}

#[test]
fn a_dead_coordinator_is_followed_within_lease_and_stagger() {
    let mut bench = Bench::new(Rules::all());
    bench.run(FIRST + 600, |_| true);
    bench.run(1_500 + 10 + 60 + 40, |letter| letter.to != 0 && letter.from.id.0 != 0);
    assert!(bench.reign(1).is_some());
    assert_eq!(bench.elections(), 2);
}

#[test]
fn restarting_each_voter_in_turn_costs_no_election() {
    let mut bench = Bench::new(Rules::all());
    bench.run(FIRST + 1, |_| true);
    let term = bench.reign(0);
    for node in [1, 2] {
        bench.crash(node);
        bench.run(5_000, |_| true);
    }
    assert_eq!((bench.elections(), bench.reign(0)), (1, term));
    bench.crash(0);
    bench.run(5_000, |_| true);
    assert_eq!((bench.elections(), bench.reigns()), (2, 1), "its own restart costs the coordinator its reign, once");
}

#[test]
fn a_voter_that_was_cut_off_deposes_nobody_when_it_returns() {
    let mut bench = Bench::new(Rules::all());
    bench.run(FIRST + 1, |_| true);
    let term = bench.reign(0);
    // Deaf, then mute, then both.
    bench.run(4_000, |letter| letter.to != 2);
    bench.run(4_000, |letter| letter.from.id.0 != 2);
    bench.run(4_000, |letter| letter.to != 2 && letter.from.id.0 != 2);
    bench.run(4_000, |_| true);
    assert_eq!((bench.elections(), bench.reign(0)), (1, term));
}

#[test]
fn a_cluster_that_restarts_as_a_whole_elects_once() {
    let mut bench = Bench::new(Rules::all());
    bench.run(FIRST + 100, |_| true);
    (0..3).for_each(|node| bench.crash(node));
    bench.run(FIRST + 200, |_| true);
    assert_eq!((bench.elections(), bench.reigns()), (2, 1));
    bench.run(5_000, |_| true);
    assert_eq!(bench.elections(), 2);
}

#[test]
fn voters_that_start_at_the_same_moment_still_agree() {
    // All three ask for the same counter at once: every vote is split.
    let mut bench = Bench::new(Rules::all());
    bench.pass([FIRST + 120; 3]);
    (0..3).for_each(|node| bench.act(node));
    bench.settle(|_| true);
    assert_eq!(bench.reigns(), 0);
    bench.run(400, |_| true);
    assert_eq!(bench.reigns(), 1);
}
