//! What only the composition of the machines can get wrong.

use std::boxed::Box;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::allocation::{AllocationStrategy, ClusterView, LeastShard, NodeIx, Plan, Request, Stats};
use crate::id::{Incarnation, ShardId};
use crate::time::{Duration, Instant};
use crate::wire::{Ack, Directory, KindReport};

const KIND: Kind = Kind(7);

fn key(id: u64) -> NodeKey {
    NodeKey { id: NodeId(id), incarnation: Incarnation(id) }
}

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn term(counter: u64, node: u64) -> Term {
    Term { counter, node: key(node) }
}

/// Node 9, which does not vote, with one type in two lanes.
fn node() -> Node {
    let voters = (1..=3).map(|id| (NodeId(id), std::format!("10.0.0.{id}"))).collect();
    let mut node = Node::new(ms(1), NodeConfig::new(key(9), "10.0.0.9", voters)).expect("the defaults are safe");
    let kind = KindReport { kind: KIND, shards: 4, hosts: true };
    node.register(ms(1), kind, 2, Box::new(LeastShard::default()), &mut Vec::new());
    node
}

fn heard(node: &mut Node, now: u64, from: u64, message: Control) -> Vec<Output> {
    let mut out = Vec::new();
    node.handle(ms(now), Input::Heard { from: key(from), to: key(9), message }, &mut out);
    node.expire(ms(now), &mut out);
    out
}

fn heartbeats(out: &[Output]) -> Vec<(u64, u64)> {
    let beat = |output: &Output| match output {
        Output::Send { message: Control::Heartbeat(beat), .. } => Some((beat.session, beat.sequence)),
        _ => None,
    };
    out.iter().filter_map(beat).collect()
}

fn ack(session: u64, sequence: u64) -> Control {
    Control::Ack(Ack {
        term: term(5, 1),
        session,
        sequence,
        first: 1,
        commands: Vec::new(),
        report_seen: 0,
        directory: None,
        open: true,
        clock: 0,
        committed: 0,
        farewell: false,
    })
}

#[test]
fn a_hint_that_names_its_own_sender_starts_no_endless_talk() {
    let mut node = node();
    let hint = Control::Reign { term: term(5, 1), address: String::new() };
    let asks = |out: &[Output]| {
        let ask = |output: &&Output| matches!(output, Output::Send { to: Peer::Key(_), message: Control::WhoReigns });
        out.iter().filter(ask).count()
    };
    // A candidate that has not won answers every `WhoReigns` with a hint that names itself.
    assert_eq!(asks(&heard(&mut node, 10, 1, hint.clone())), 1);
    let more: usize = (11..400).map(|now| asks(&heard(&mut node, now, 1, hint.clone()))).sum();
    assert_eq!(more, 0);
    assert_eq!(asks(&heard(&mut node, 600, 1, hint)), 1, "a heartbeat later it may be true");
}

#[test]
fn no_session_begins_before_every_lane_of_the_former_one_has_halted() {
    let mut node = node();
    let beats = heartbeats(&heard(&mut node, 10, 1, Control::Announce { term: term(5, 1), committed: 0 }));
    let &(session, sequence) = beats.first().expect("it registers at once");
    heard(&mut node, 20, 1, ack(session, sequence));
    assert!(node.session().is_live(ms(20)));
    let mut out = Vec::new();
    node.expire(ms(4_000), &mut out);
    assert!(out.contains(&Output::All(Order::Halt)) && node.is_halting());
    let mut out = Vec::new();
    node.handle(ms(5_000), Input::Halted { kind: KIND, lane: 1 }, &mut out);
    node.expire(ms(5_000), &mut out);
    assert_eq!(heartbeats(&out), [], "lane 0 may still run a handler");
    node.handle(ms(5_001), Input::Halted { kind: KIND, lane: 0 }, &mut out);
    node.expire(ms(5_001), &mut out);
    assert_eq!(heartbeats(&out).first().map(|beat| beat.0), Some(session + 1));
}

#[test]
fn a_home_counts_only_under_the_term_in_force_and_from_its_node() {
    let mut node = node();
    heard(&mut node, 10, 1, Control::Announce { term: term(5, 1), committed: 0 });
    let key = ShardKey { kind: KIND, shard: ShardId(3) };
    let orders = |out: Vec<Output>| out.iter().filter(|output| matches!(output, Output::Order { .. })).count();
    let home = |term| Control::Home { term, key, home: None };
    assert_eq!(orders(heard(&mut node, 11, 1, home(term(5, 1)))), 1);
    assert_eq!(orders(heard(&mut node, 11, 1, home(term(4, 1)))), 0, "an older term");
    assert_eq!(orders(heard(&mut node, 11, 2, home(term(5, 1)))), 0, "another node");
}

#[test]
fn a_node_that_is_alone_reigns_joins_and_owns_without_waiting() {
    let mut node = Node::new(ms(1), NodeConfig::alone(key(1))).expect("the defaults are safe");
    let kind = KindReport { kind: KIND, shards: 4, hosts: true };
    let mut out = Vec::new();
    node.register(ms(1), kind, 1, Box::new(LeastShard::default()), &mut out);
    node.expire(ms(1), &mut out);
    assert!(out.contains(&Output::NeedWall));
    node.handle(ms(2), Input::Wall(1), &mut out);
    node.handle(ms(2), Input::Lookup { key: ShardKey { kind: KIND, shard: ShardId(2) } }, &mut out);
    let until = ms(2) + Duration::from_millis(20);
    while let Some(at) = node.deadline().filter(|at| *at < until) {
        node.expire(at.max(ms(2)), &mut out);
    }
    node.handle(ms(3), Input::Lookup { key: ShardKey { kind: KIND, shard: ShardId(2) } }, &mut out);
    node.expire(ms(3), &mut out);
    let owns = |output: &Output| matches!(output, Output::Order { order: Order::Own { shard: ShardId(2), .. }, .. });
    assert!(out.iter().any(owns), "{out:#?}");
}

/// What a strategy saw when it was asked to plan: the age of shard 2, its load, and what its node had measured.
type Seen = std::sync::Arc<std::sync::Mutex<Vec<(Option<Duration>, Option<u32>, Option<Stats>)>>>;

struct Watching(Seen);
impl AllocationStrategy for Watching {
    fn name(&self) -> &'static str {
        "watching"
    }
    fn place(&mut self, view: &ClusterView<'_>, _: &Request) -> Option<NodeIx> {
        view.candidates().first().copied()
    }
    fn plan(&mut self, view: &ClusterView<'_>, _: &mut Plan<'_>) {
        let stats = view.nodes().first().and_then(|node| node.stats);
        self.0.lock().unwrap().push((view.age(ShardId(2)), view.load(ShardId(2)), stats));
    }
}

#[test]
fn strategies_see_how_long_a_shard_has_been_where_it_is_and_what_its_node_measured() {
    let (mut node, seen) =
        (Node::new(ms(1), NodeConfig::alone(key(1))).expect("the defaults are safe"), Seen::default());
    let mut out = Vec::new();
    let kind = KindReport { kind: KIND, shards: 4, hosts: true };
    node.register(ms(1), kind, 1, Box::new(Watching(seen.clone())), &mut out);
    node.expire(ms(1), &mut out);
    node.handle(ms(2), Input::Wall(1), &mut out);
    let stats = Stats { cpu_permille: 7, ..Stats::default() };
    node.handle(ms(2), Input::Measured(stats), &mut out);
    // Of a shard that is nobody's, nothing that is said counts.
    let loads = alloc::vec![(ShardId(1), 9_000), (ShardId(2), 500)];
    let mut said = false;
    let mut now = ms(2);
    while now < ms(11_000) {
        node.handle(now, Input::Lookup { key: ShardKey { kind: KIND, shard: ShardId(2) } }, &mut out);
        node.expire(now, &mut out);
        if now > ms(5_000) && !said {
            said = true;
            node.handle(now, Input::Loads { kind: KIND, loads: loads.clone() }, &mut out);
        }
        now = node.deadline().map_or(ms(11_000), |at| at.max(now + Duration::from_millis(1)));
    }
    let seen = seen.lock().unwrap();
    let ages: Vec<_> = seen.iter().filter_map(|(age, ..)| *age).collect();
    assert!(ages.len() >= 4 && ages.is_sorted(), "{ages:?}");
    assert!(ages.last().unwrap().as_secs() >= 6, "a round every two seconds: {ages:?}");
    assert_eq!(seen.first().unwrap().1, None, "nobody has said anything yet");
    assert_eq!((seen.last().unwrap().1, seen.last().unwrap().2), (Some(500), Some(stats)));
}

/// Node 1, the only voter of a cluster of several, with one type in two lanes; it reigns and its session lives.
fn chief(rules: crate::machine::Rules) -> Node {
    let config = NodeConfig { rules, ..NodeConfig::new(key(1), "10.0.0.1", alloc::vec![(NodeId(1), String::new())]) };
    let mut node = Node::new(ms(1), config).expect("the defaults are safe");
    let kind = KindReport { kind: KIND, shards: 4, hosts: true };
    node.register(ms(1), kind, 2, Box::new(LeastShard::default()), &mut Vec::new());
    let mut now = ms(1);
    while !node.session().is_live(now) {
        now = node.deadline().expect("it waits to be elected").max(now);
        let mut out = Vec::new();
        node.expire(now, &mut out);
        if out.contains(&Output::NeedWall) {
            node.handle(now, Input::Wall(1_000), &mut Vec::new());
        }
    }
    node
}

#[test]
fn a_reign_that_ends_stops_the_own_region_first() {
    let mut node = chief(crate::machine::Rules::all());
    let now = ms(4_000);
    let mut out = Vec::new();
    for at in (1_500..4_000).step_by(50) {
        node.expire(ms(at), &mut out);
    }
    assert!(node.session().is_live(now), "it renews its reign and its session");
    let until = node.session().valid_until().expect("it lives");
    assert_eq!(Some(until), node.election().valid_until(), "the reign's end is the sooner one (E8)");

    out.clear();
    node.handle(
        now,
        Input::Heard { from: key(2), to: key(1), message: Control::Nack { max_term: term(9_000, 2) } },
        &mut out,
    );
    let halt = out.iter().position(|output| *output == Output::All(Order::Halt));
    assert!(halt.is_some() && node.is_halting(), "{out:?}");
    assert!(node.election().voter().and_then(|voter| voter.holder(now)).is_some(), "its vote is not free yet");
    for lane in [0, 1] {
        node.handle(now, Input::Halted { kind: KIND, lane }, &mut out);
    }
    assert_eq!(node.election().voter().and_then(|voter| voter.holder(now)), None, "now it is");
}

#[test]
fn the_mutant_frees_its_vote_while_the_region_still_runs() {
    let mut node = chief(crate::machine::Rules::without(crate::machine::Rule::LapseBeforeRelease));
    let now = ms(1_800);
    let mut out = Vec::new();
    for at in (1_500..1_800).step_by(50) {
        node.expire(ms(at), &mut out);
    }
    node.handle(
        now,
        Input::Heard { from: key(2), to: key(1), message: Control::Nack { max_term: term(9_000, 2) } },
        &mut out,
    );
    assert_eq!(node.election().voter().and_then(|voter| voter.holder(now)), None);
    assert!(node.session().is_live(now));
}

#[test]
fn a_young_reign_counts_nobody_out_before_it_knows_who_lives() {
    let mut node = node();
    let directory = |version, nodes: &[u64]| {
        let nodes = nodes.iter().map(|id| crate::wire::DirectoryEntry { node: key(*id), address: String::new() });
        Directory { version, nodes: nodes.collect(), gone: Vec::new() }
    };
    let told = |node: &mut Node, now, from, sequence, open, directory| {
        let Control::Ack(ack) = ack(1, sequence) else { unreachable!() };
        let ack = Ack { term: term(from, from), open, directory: Some(directory), ..ack };
        let out = heard(node, now, from, Control::Ack(ack));
        out.into_iter()
            .filter(|output| {
                matches!(output, Output::NodeUp(_) | Output::NodeDown(_) | Output::All(Order::Member { .. }))
            })
            .collect::<Vec<_>>()
    };
    heard(&mut node, 10, 1, Control::Announce { term: term(1, 1), committed: 0 });
    let out = told(&mut node, 11, 1, 1, true, directory(1, &[1, 2, 9]));
    assert_eq!(out, [1, 2, 9].map(|id| Output::NodeUp(key(id))));

    heard(&mut node, 20, 2, Control::Announce { term: term(2, 2), committed: 0 });
    assert_eq!(told(&mut node, 21, 2, 2, false, directory(1, &[9])), [], "the others have not registered yet");
    assert_eq!(node.directory().nodes.len(), 3);
    let out = told(&mut node, 22, 2, 2, true, directory(2, &[2, 9]));
    let counted_out = Output::All(Order::Member { node: key(1), present: false });
    assert_eq!(out, [Output::NodeDown(key(1)), counted_out]);
    let out = told(&mut node, 23, 2, 2, true, directory(3, &[1, 2, 9]));
    let counted_in = Output::All(Order::Member { node: key(1), present: true });
    assert_eq!(out, [Output::NodeUp(key(1)), counted_in]);
}

#[test]
fn the_only_voter_does_not_resign() {
    let mut node = chief(crate::machine::Rules::all());
    let (now, term) = (ms(1_600), node.allocator().term());
    let mut out = Vec::new();
    node.handle(now, Input::Resign, &mut out);
    node.expire(now, &mut out);
    assert!(node.allocator().term() == term && node.allocator().term().is_some(), "it would only succeed itself");
    assert!(!out.iter().any(|output| matches!(output, Output::Deposed(_))));
}

/// Whoever was started with voters of old finds the cluster through any of them that is still there.
#[test]
fn a_node_that_does_not_vote_says_whom_it_is_registered_with() {
    let mut node = node();
    let hints = |out: Vec<Output>| -> Vec<(NodeKey, Term)> {
        let hint = |output| match output {
            Output::Send { to: Peer::Key(to), message: Control::Reign { term, .. } } => Some((to, term)),
            _ => None,
        };
        out.into_iter().filter_map(hint).collect()
    };
    assert_eq!(hints(heard(&mut node, 5, 4, Control::WhoReigns)), [], "it knows nothing");
    let beats = heartbeats(&heard(&mut node, 10, 1, Control::Announce { term: term(5, 1), committed: 0 }));
    heard(&mut node, 20, 1, ack(beats[0].0, beats[0].1));
    assert_eq!(hints(heard(&mut node, 30, 4, Control::WhoReigns)), [(key(4), term(5, 1))]);
    assert_eq!(hints(heard(&mut node, 40, 1, Control::WhoReigns)), [], "that node knows best itself");
}

#[test]
fn a_coordinator_explains_who_has_a_shard_and_why() {
    let mut node = chief(crate::machine::Rules::all());
    let mut now = ms(1_500);
    let shard = ShardKey { kind: KIND, shard: ShardId(2) };
    let mut run = |node: &mut Node, until: Instant| {
        let mut out = Vec::new();
        while now < until {
            now = node.deadline().map_or(until, |at| at.max(now).min(until));
            node.expire(now, &mut out);
        }
        out
    };
    run(&mut node, ms(4_100));
    assert_eq!(node.explain(ms(4_100), ShardKey { shard: ShardId(4), ..shard }), None, "there are four");
    let nobody = node.explain(ms(4_100), shard).expect("it reigns");
    assert_eq!(nobody.to_string(), "s2 is nobody's; strategy least-shard; n1 could have it");

    node.handle(ms(4_100), Input::Lookup { key: shard }, &mut Vec::new());
    run(&mut node, ms(7_000));
    let held = node.explain(ms(7_000), shard).expect("it reigns").tenure.expect("it was placed");
    assert_eq!((held.owner, held.cause), (NodeId(1), Cause::Placed { asker: Some(NodeId(1)) }));
    assert_eq!((held.stage, held.age.as_secs(), held.next), (crate::coordinator::Stage::Held, 2, None));
}
