//! Voter change (V2-V6): the steps as they should go, and for each rule the shortest schedule that breaks I2 without it.

use std::vec;
use std::vec::Vec;

use super::bench::{drifting, key};
use crate::election::{Election, ElectionConfig, ElectionConfigError, ElectionInput, ElectionOutput, VoterChangeError};
use crate::id::NodeId;
use crate::machine::{Fixed, Machine, Rule, Rules};
use crate::time::{Duration, Instant};
use crate::wire::{Control, List};

fn ids(voters: &[u64]) -> Vec<NodeId> {
    voters.iter().copied().map(NodeId).collect()
}

/// Nodes whose clocks run evenly and whose mail takes no time, unless it would cross the cut.
struct Cluster {
    nodes: Vec<Election>,
    now: Instant,
    /// Nodes below it and the others do not hear each other.
    cut_at: usize,
    outgoing: Vec<usize>,
    /// The most that reigned at one moment.
    reigns: usize,
}

impl Cluster {
    /// Each node starts with its version of the voters.
    fn new(rules: Rules, versions: &[(u32, &[u64])]) -> Self {
        let start = |(node, (version, voters)): (usize, &(u32, &[u64]))| {
            let config = ElectionConfig::during_change(key(node as u64, 1), ids(voters), drifting()).expect("good");
            let config = config.with_version(*version).with_rules(rules).with_seed(node as u64);
            Election::new(Instant::ZERO, Fixed::new(config))
        };
        let nodes = versions.iter().enumerate().map(start).collect();
        Self { nodes, now: Instant::ZERO, cut_at: 0, outgoing: Vec::new(), reigns: 0 }
    }

    fn load(&mut self, node: usize, version: u32, voters: &[u64]) -> Result<(), VoterChangeError> {
        let mut out = Vec::new();
        let loaded = self.nodes[node].load(self.now, version, ids(voters), &mut out);
        self.carry(out.into_iter().map(|output| (node, output)).collect());
        loaded
    }

    fn tell(&mut self, node: usize, input: ElectionInput) {
        let mut out = Vec::new();
        self.nodes[node].handle(self.now, input, &mut out);
        self.carry(out.into_iter().map(|output| (node, output)).collect());
    }

    /// Does what the machines order, as a host would, until nothing is left to do.
    fn carry(&mut self, mut orders: Vec<(usize, ElectionOutput)>) {
        while !orders.is_empty() {
            let (node, order) = orders.remove(0);
            let mut inputs = Vec::new();
            match order {
                ElectionOutput::Send { to, message } => {
                    let to = usize::try_from(to.0).unwrap();
                    if (node < self.cut_at) == (to < self.cut_at) && to < self.nodes.len() {
                        inputs.push((to, ElectionInput::Heard { from: key(node as u64, 1), message }));
                    }
                }
                ElectionOutput::NeedWall => inputs.push((node, ElectionInput::Start { wall: 5 })),
                ElectionOutput::Evidence { term, carried, .. } => {
                    let list = List { term, version: 1, complete: true, members: carried };
                    inputs.push((node, ElectionInput::Publish(list)));
                }
                ElectionOutput::Lost { term, .. } => inputs.push((node, ElectionInput::Stopped { term })),
                // Every node that the coordinator reaches hears of it with the next ack.
                ElectionOutput::Committed { version } => {
                    let reached = (0..self.nodes.len()).filter(|to| (node < self.cut_at) == (*to < self.cut_at));
                    inputs.extend(reached.map(|to| (to, ElectionInput::Committed { version })));
                }
                _ => {}
            }
            for (to, input) in inputs {
                let mut out = Vec::new();
                self.nodes[to].handle(self.now, input, &mut out);
                orders.extend(out.into_iter().map(|output| (to, output)));
            }
        }
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now = self.now + Duration::from_millis(1);
            for node in 0..self.nodes.len() {
                if self.nodes[node].deadline().is_some_and(|due| due <= self.now) {
                    let mut out = Vec::new();
                    self.nodes[node].expire(self.now, &mut out);
                    self.carry(out.into_iter().map(|output| (node, output)).collect());
                }
                if self.nodes[node].is_outgoing(self.now) {
                    self.outgoing.push(node);
                    self.tell(node, ElectionInput::StepDown);
                }
            }
            self.reigns = self.reigns.max(self.coordinators().len());
        }
    }

    fn coordinators(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].reigning(self.now).is_some()).collect()
    }

    fn committed(&self) -> Vec<u32> {
        self.nodes.iter().map(Election::committed).collect()
    }
}

/// I2 holds with every rule on, and the schedule breaks it without `rule`.
fn needed(rule: Rule, reigns: impl Fn(Rules) -> usize) {
    assert_eq!(reigns(Rules::all()), 1, "one side reigns, and only one");
    assert_eq!(reigns(Rules::without(rule)), 2, "{} survives", rule.mutant());
}

const FIRST: (u32, &[u64]) = (1, &[0, 1, 2]);

#[test]
fn a_voter_is_swapped_in_two_steps_and_the_one_that_goes_resigns_and_stays_out() {
    let mut cluster = Cluster::new(Rules::all(), &[FIRST; 4]);
    cluster.run(4_000);
    assert_eq!(cluster.coordinators(), [0]);
    assert_eq!(cluster.committed(), [1; 4], "the first version needs no proof");
    for node in [3, 1, 0, 2] {
        assert_eq!(cluster.load(node, 2, &[0, 1, 2, 3]), Ok(()));
        let early = cluster.load(node, 3, &[1, 2, 3]);
        assert_eq!(
            early.is_err(),
            cluster.nodes[node].committed() < 2,
            "never before version 2 is in force: {early:?}"
        );
        if early.is_ok() {
            break;
        }
        cluster.run(300);
    }
    let mut cluster = Cluster::new(Rules::all(), &[FIRST; 4]);
    cluster.run(4_000);
    (0..4).for_each(|node| cluster.load(node, 2, &[0, 1, 2, 3]).unwrap());
    // The new voter is silent for Q, but the other three are enough.
    cluster.run(600);
    assert_eq!((cluster.coordinators(), cluster.committed()), (vec![0], vec![2; 4]), "nobody lost the reign over it");
    (0..4).for_each(|node| cluster.load(node, 3, &[1, 2, 3]).unwrap());
    cluster.run(10_000);
    assert_eq!(cluster.outgoing, [0], "V6: once version 3 is in force");
    assert_eq!(cluster.committed(), [3; 4]);
    assert_eq!(cluster.nodes[0].deadline(), None, "a former voter never campaigns");
    assert!(matches!(cluster.coordinators()[..], [1..=3]));
    assert_eq!(cluster.reigns, 1);
}

#[test]
fn a_version_is_in_force_only_when_most_of_its_voters_run_it() {
    let mut cluster = Cluster::new(Rules::all(), &[FIRST; 4]);
    cluster.run(4_000);
    cluster.load(0, 2, &[0, 1, 2, 3]).unwrap();
    cluster.load(1, 2, &[0, 1, 2, 3]).unwrap();
    cluster.run(5_000);
    assert_eq!(cluster.coordinators(), [0], "voters of the version before vote for the next");
    assert_eq!(cluster.committed(), [1; 4], "two of four");
    cluster.load(3, 2, &[0, 1, 2, 3]).unwrap();
    cluster.run(5_000);
    assert_eq!(cluster.committed(), [2; 4]);
    assert_eq!(cluster.load(2, 3, &[0, 1, 3]), Err(VoterChangeError::NotNext { running: 1, asked: 3 }));
}

#[test]
fn a_single_voter_becomes_two_and_three_and_one_again() {
    let mut cluster = Cluster::new(Rules::all(), &[(1, &[0][..]); 3]);
    cluster.run(4_000);
    for (version, voters) in [(2, &[0, 1][..]), (3, &[0, 1, 2]), (4, &[0, 2]), (5, &[0])] {
        (0..3).for_each(|node| cluster.load(node, version, voters).unwrap());
        cluster.run(4_000);
        assert_eq!((cluster.coordinators(), cluster.committed()), (vec![0], vec![version; 3]));
    }
    assert_eq!(cluster.reigns, 1);
}

#[test]
fn a_candidate_gives_up_when_the_voters_change() {
    let mut cluster = Cluster::new(Rules::all(), &[FIRST; 4]);
    cluster.cut_at = 1;
    let asked = |cluster: &Cluster| cluster.nodes[0].campaign().and_then(|campaign| campaign.term());
    while asked(&cluster).is_none() {
        cluster.run(1);
    }
    let mut out = Vec::new();
    cluster.nodes[0].load(cluster.now, 2, ids(&[0, 1, 2, 3]), &mut out).unwrap();
    assert_eq!(asked(&cluster), None);
    let released =
        |output: &&ElectionOutput| matches!(output, ElectionOutput::Send { message: Control::Release { .. }, .. });
    assert_eq!(out.iter().filter(released).count(), 2, "those whom it asked");
}

#[test]
fn wrong_steps_are_refused_by_name() {
    let mut cluster = Cluster::new(Rules::all(), &[FIRST]);
    let refused = |cluster: &mut Cluster, version, voters: &[u64]| cluster.load(0, version, voters).unwrap_err();
    assert_eq!(cluster.load(0, 1, &[2, 1, 0]), Ok(()), "what runs already, in any order");
    assert_eq!(refused(&mut cluster, 1, &[0, 1]), VoterChangeError::NotNext { running: 1, asked: 1 });
    assert_eq!(refused(&mut cluster, 3, &[0, 1]), VoterChangeError::NotNext { running: 1, asked: 3 });
    assert_eq!(refused(&mut cluster, 2, &[0, 1, 3]), VoterChangeError::NotOne { added: 1, removed: 1 });
    assert_eq!(refused(&mut cluster, 2, &[0, 1, 2]), VoterChangeError::NotOne { added: 0, removed: 0 });
    let twice = ElectionConfigError::DuplicateVoter { voter: NodeId(1) };
    assert_eq!(refused(&mut cluster, 2, &[0, 1, 1, 2]), VoterChangeError::Voters(twice));
    assert_eq!(cluster.nodes[0].config().version(), 1, "nothing has changed");
    assert_eq!(cluster.load(0, 2, &[0, 1]), Ok(()));
    assert_eq!(refused(&mut cluster, 3, &[0]), VoterChangeError::NotInForce { version: 2 });
}

/// V3: version 2 was properly in force, by the voters 1, 2 and 3, when 2 and 3 went on; node 0 never heard of any of it.
#[test]
fn a_voter_that_listens_to_an_older_version_lets_two_reign() {
    needed(Rule::NeighbourVersion, |rules| {
        let late = [FIRST, (2, &[0, 1, 2, 3]), (3, &[1, 2, 3]), (3, &[1, 2, 3])];
        let mut cluster = Cluster::new(rules, &late);
        cluster.cut_at = 2;
        cluster.run(9_000);
        cluster.reigns
    });
}

/// V5: two nodes go on twice before anybody else has gone on once.
#[test]
fn a_version_loaded_before_the_last_is_in_force_lets_two_reign() {
    needed(Rule::VersionProved, |rules| {
        let mut cluster = Cluster::new(rules, &[FIRST; 4]);
        cluster.cut_at = 2;
        for node in [2, 3] {
            let _ = cluster.load(node, 2, &[0, 1, 2, 3]);
            let _ = cluster.load(node, 3, &[1, 2, 3]);
        }
        cluster.run(9_000);
        cluster.reigns
    });
}

/// V2: a swap in one step leaves two majorities without a common voter.
#[test]
fn a_voter_swapped_in_one_step_lets_two_reign() {
    needed(Rule::OneVoter, |rules| {
        let mut cluster = Cluster::new(rules, &[FIRST; 4]);
        cluster.cut_at = 2;
        for node in [2, 3] {
            let _ = cluster.load(node, 2, &[1, 2, 3]);
        }
        cluster.run(9_000);
        cluster.reigns
    });
}

/// A single voter has nobody to answer it, and proves its version all the same: also one that another left to it.
#[test]
fn a_single_voter_that_comes_to_reign_proves_its_version() {
    let mut cluster = Cluster::new(Rules::all(), &[(1, &[0, 1][..]); 2]);
    cluster.run(4_000);
    assert_eq!(cluster.coordinators(), [0]);
    // Node 0 goes on, resigns, and goes on again before node 1 has heard that version 2 is in force.
    cluster.cut_at = 1;
    cluster.run(3_000);
    assert_eq!(cluster.coordinators(), [0; 0], "neither has a majority");
    cluster.load(1, 2, &[1]).unwrap();
    cluster.run(4_000);
    assert_eq!((cluster.coordinators(), cluster.committed()), (vec![1], vec![1, 2]));
    cluster.cut_at = 0;
    cluster.load(0, 2, &[1]).unwrap();
    cluster.run(4_000);
    assert_eq!(cluster.load(1, 3, &[0, 1]), Ok(()));
}

/// A coordinator that is voted out, and in again before it has resigned, is told when its reign ends, like any other.
#[test]
fn a_coordinator_that_is_a_voter_again_keeps_its_reign_until_it_loses_it() {
    let mut cluster = Cluster::new(Rules::all(), &[FIRST; 3]);
    cluster.run(4_000);
    let load = |cluster: &mut Cluster, version, voters: &[u64]| {
        let mut out = Vec::new();
        cluster.nodes[0].load(cluster.now, version, ids(voters), &mut out).unwrap();
        out
    };
    let term = cluster.nodes[0].reigning(cluster.now).expect("node 0 reigns");
    load(&mut cluster, 2, &[1, 2]);
    cluster.nodes[0].handle(cluster.now, ElectionInput::Committed { version: 2 }, &mut Vec::new());
    load(&mut cluster, 3, &[0, 1, 2]);
    assert_eq!(cluster.nodes[0].reigning(cluster.now), Some(term));
    let mut out = Vec::new();
    cluster.nodes[0].handle(cluster.now, ElectionInput::StepDown, &mut out);
    assert!(
        out.iter().any(|output| matches!(output, ElectionOutput::Lost { term: lost, .. } if *lost == term)),
        "{out:?}"
    );
}

/// V7: what is in force is forgotten with a restart. Node 0 comes back behind, and nobody can reign without it.
#[test]
fn who_comes_back_behind_is_told_by_those_ahead() {
    for (rules, told) in [(Rules::all(), 2), (Rules::without(Rule::VersionTold), 1)] {
        // Node 1 runs version 3, in which it is no voter and is asked, or is one and asks.
        for ahead in [(3, &[0][..]), (3, &[0, 1, 2])] {
            let mut cluster = Cluster::new(rules, &[(2, &[0, 1]), ahead]);
            cluster.run(3_000);
            assert_eq!(cluster.nodes[0].committed(), told, "{ahead:?}");
            assert_eq!(cluster.load(0, 3, ahead.1).is_ok(), told == 2);
        }
    }
    // A version out of all reason proves no more than that the own one is in force.
    let mut cluster = Cluster::new(Rules::all(), &[FIRST; 2]);
    let request = Control::LeaseRequest {
        term: crate::id::Term { counter: 1, node: key(1, 1) },
        round: 1,
        config: u32::MAX,
        list: None,
    };
    cluster.tell(0, ElectionInput::Heard { from: key(1, 1), message: request });
    assert_eq!(cluster.nodes[0].committed(), 1);
}
