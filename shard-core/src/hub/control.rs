//! The task that runs the control machines of one node.

use std::boxed::Box;
use std::string::ToString;
use std::sync::Arc;
use std::time::Duration;
use std::vec::Vec;

use super::clock;
use super::events::Event;
use super::runtime::{Runtime, race};
use super::shared::{Shared, ToControl, count, lock};
use crate::entity::Reason;
use crate::id::NodeKey;
use crate::node::{Input, Node, Output};
use crate::region::lane::Order;
use crate::time::Instant;

/// Runs until the node has left or is stopped.
pub(super) async fn run<R: Runtime>(shared: Arc<Shared>, runtime: R, mut node: Node) {
    let mut outputs: Vec<Output> = Vec::new();
    let mut batch = Vec::new();
    let mut registered = 0;
    loop {
        lock(&shared.control).swap(&mut batch);
        let (now, wall) = clock::both();
        // Before anything else: if the machine was frozen, nothing that came may be taken.
        if let Some(wall) = wall {
            node.handle(now, Input::Look { wall }, &mut outputs);
        }
        let mut stop = false;
        for message in batch.drain(..) {
            match message {
                ToControl::Input(input) => node.handle(now, input, &mut outputs),
                ToControl::Register { kind, lanes, strategy } => {
                    node.register(now, kind, lanes, strategy, &mut outputs);
                    registered += 1;
                }
                ToControl::LoadVoters { version, voters, loaded } => {
                    for (id, address) in &voters {
                        shared.peers.reach(*id, address);
                    }
                    let _ = loaded.set(node.load_voters(now, version, voters, &mut outputs));
                    // Whoever waits for it is woken by that.
                    shared.stand(|_| {});
                }
                ToControl::Homes { kind, homes } => {
                    let _ = homes.set(node.homes(kind).collect());
                    shared.stand(|_| {});
                }
                ToControl::Explain { key, explained } => {
                    let _ = explained.set(node.explain(now, key));
                    shared.stand(|_| {});
                }
                ToControl::Stop => stop = true,
            }
        }
        node.expire(now, &mut outputs);
        let (mut again, mut left) = (false, false);
        if lock(&shared.standing).term != node.term() {
            // Another reign, another judge: if it counts shards otherwise as well, it says so below.
            lock(&shared.standing).refused.clear();
            shared.each_door(|door| door.refuse(false));
        }
        for output in outputs.drain(..) {
            if let Output::Gone(gone) = output {
                forget_later(&shared, &runtime, gone);
                continue;
            }
            match obey(&shared, output) {
                Obeyed::Done => {}
                Obeyed::NeedWall => again = true,
                Obeyed::Left => left = true,
            }
        }
        look(&shared, &node, registered, now);
        if again {
            shared.input(Input::Wall(clock::wall_millis()));
        }
        if left || stop {
            close(&shared);
            return;
        }
        let span = node.deadline().map(|at| at.since(clock::now()));
        match span {
            Some(span) => {
                // Below a millisecond executors only round up; a due deadline is looked at after a yield.
                race(shared.control_bell.wait(), runtime.sleep(span)).await;
            }
            None => shared.control_bell.wait().await,
        }
    }
}

/// How long the link to a process that left is kept: its farewell may be lost, and is said again while it asks.
const FAREWELL: Duration = Duration::from_secs(4);

/// A process left for good: its link ends, once it has surely heard its farewell.
fn forget_later<R: Runtime>(shared: &Arc<Shared>, runtime: &R, node: NodeKey) {
    let (shared, sleep) = (Arc::downgrade(shared), runtime.sleep(FAREWELL));
    runtime.spawn(async move {
        sleep.await;
        if let Some(shared) = shared.upgrade() {
            shared.end_peer(node);
        }
    });
}

enum Obeyed {
    Done,
    NeedWall,
    Left,
}

/// Does one thing that the control machines ordered.
fn obey(shared: &Arc<Shared>, output: Output) -> Obeyed {
    match output {
        Output::Send { to, message } => shared.peers.control(to, &message),
        Output::NeedWall => return Obeyed::NeedWall,
        Output::Order { kind, order } => {
            if let (Some(door), Some(shard)) = (shared.door(kind), order.shard()) {
                door.order(shard, order);
            }
        }
        Output::All(Order::Live { until }) => {
            // A little early: a lane may have read the clock after this task did.
            let frozen = shared.live_until() <= clock::now() + Duration::from_millis(50);
            shared.set_live_until(until);
            if frozen {
                // Lanes look at it before each handler; those that wait for it must be woken.
                shared.each_door(|door| door.all(Order::Live { until }));
            }
        }
        Output::All(order) => {
            if order == Order::Halt {
                shared.set_live_until(Instant::ZERO);
            }
            shared.each_door(|door| door.all(order));
        }
        Output::Reach { node, address } => shared.peers.reach(node.id, &address),
        // Dealt with by the loop, which has a clock to wait by.
        Output::Gone(_) => {}
        Output::NodeUp(node) => shared.emit(Event::NodeUp(node)),
        Output::NodeDown(node) => shared.emit(Event::NodeGone(node)),
        Output::Joined => shared.emit(Event::SessionGained),
        Output::Lapsed => {
            count(&shared.tallies.sessions_lost, 1);
            shared.emit(Event::SessionLost);
        }
        Output::Elected(term) => shared.emit(Event::ReignBegan(term)),
        Output::Deposed(term) => shared.emit(Event::ReignEnded(term)),
        Output::KindRefused { kind, cluster, node_shards } => {
            let door = shared.door(kind);
            if let Some(door) = &door {
                door.refuse(true);
                // What was accepted before is told as well.
                door.all(Order::Refused);
            }
            shared.stand(|standing| {
                standing.refused.insert(kind, (node_shards, cluster));
            });
            let entity_type = door.map_or_else(|| "?".to_string(), |door| door.name().to_string());
            shared.emit(Event::ShardCountRefused { entity_type, cluster, node: node_shards });
        }
        Output::VotersInForce { version } => shared.emit(Event::VotersInForce { version }),
        Output::Farewell => return Obeyed::Left,
        Output::Notice(notice) => shared.emit(Event::Notice(notice)),
    }
    Obeyed::Done
}

/// Publishes what others may ask about the node, which knows of `registered` types.
fn look(shared: &Shared, node: &Node, registered: usize, now: Instant) {
    let live = node.session().is_live(now);
    let term = node.term();
    let reigning = node.election().reigning(now).is_some();
    let directory = node.directory();
    let voters = (node.voters_version(), node.election().committed());
    let (changed, confirmed) = {
        let standing = lock(&shared.standing);
        // Before the reign is open, its word on the shard counts is not final.
        let settled = node.session().is_confirmed() && node.session().is_open();
        let confirmed = settled && registered == standing.registered;
        let changed = standing.live != live
            || standing.term != term
            || standing.reigning != reigning
            || standing.voters != voters
            || standing.confirmed != confirmed
            || standing.nodes.len() != directory.nodes.len()
            || !standing.nodes.iter().zip(&directory.nodes).all(|(known, entry)| *known == entry.node);
        (changed, confirmed)
    };
    if changed {
        shared.stand(|standing| {
            standing.live = live;
            standing.term = term;
            standing.reigning = reigning;
            standing.voters = voters;
            standing.confirmed = confirmed && registered == standing.registered;
            standing.nodes = directory.nodes.iter().map(|entry| entry.node).collect();
        });
    }
}

/// The node is over: callers are refused, tasks end.
fn close(shared: &Arc<Shared>) {
    shared.set_live_until(Instant::ZERO);
    shared.each_door(|door| door.close(Reason::Stopping));
    shared.each_crew(|crew| crew.close());
    shared.stand(|standing| standing.left = true);
}

/// Rings alarms for as long as the node runs, and after that for as long as somebody holds a reference to its entities: an
/// ask whose answer was deferred still ends at its deadline.
pub(super) async fn alarms<R: Runtime>(shared: Arc<Shared>, runtime: R) {
    loop {
        let next = shared.alarms.ring(clock::now()).map(|span| span.max(Duration::from_millis(1)));
        if shared.is_stopped() {
            if Arc::strong_count(&shared) == 1 {
                return;
            }
            let span = next.unwrap_or(Duration::MAX).min(Duration::from_secs(1));
            race(shared.alarm_bell.wait(), runtime.sleep(span)).await;
            continue;
        }
        match next {
            Some(span) => {
                race(shared.alarm_bell.wait(), runtime.sleep(span)).await;
            }
            None => shared.alarm_bell.wait().await,
        }
    }
}

/// How a task is started without knowing the runtime.
pub(super) fn spawner<R: Runtime>(runtime: R) -> Box<dyn Fn(super::runtime::Boxed<()>) + Send + Sync> {
    Box::new(move |task| runtime.spawn(task))
}
