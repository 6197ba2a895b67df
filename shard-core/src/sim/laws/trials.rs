//! One trial per law: what is done with a world, and what must come of it.

use alloc::{format, string::String, vec::Vec};

use super::stage::{Broken, Stage, ask, plan};
use super::world::{Change, World};
use super::{Law, Terms};
use crate::allocation::{AllocationStrategy, Layout, Ledger, NodeIx, NodeView, Why};
use crate::id::{NodeKey, ShardId};
use crate::prng::Prng;

/// How a strategy is made anew.
pub(super) type Make<'a> = &'a dyn Fn() -> alloc::boxed::Box<dyn AllocationStrategy>;

/// Tries `law` on `world`.
pub(super) fn attempt(law: Law, make: Make<'_>, terms: &Terms, world: &World) -> Result<(), Broken> {
    match law {
        Law::Candidates | Law::InFlight | Law::Limits => {
            answers(&mut *make(), world, terms, &world.layout()).map(|_| ())
        }
        Law::Deterministic => deterministic(make, terms, world),
        Law::Order => order(make, terms, world),
        Law::Rest => rest(make, terms, world),
        Law::Convergence => convergence(make, terms, world),
        Law::Movement => match terms.movement {
            Some(factor) => movement(make, terms, world, factor),
            None => Ok(()),
        },
    }
}

/// Everything that a strategy answers on one view.
#[derive(PartialEq, Eq)]
struct Answers {
    places: Vec<Option<NodeIx>>,
    moves: Vec<(ShardId, NodeIx, Why)>,
}

impl Answers {
    /// The first difference, in words.
    fn differ(&self, other: &Self) -> Option<String> {
        let places = self.places.iter().zip(&other.places).enumerate().find(|(_, (a, b))| a != b);
        if let Some((shard, (a, b))) = places {
            let node = |ix: &Option<NodeIx>| ix.map_or(String::from("nowhere"), |ix| format!("node {}", ix.0));
            return Some(format!("shard {shard} belongs to {} and to {}", node(a), node(b)));
        }
        (self != other).then(|| format!("one plan has {} moves and the other {}", self.moves.len(), other.moves.len()))
    }
}

fn answers(
    strategy: &mut dyn AllocationStrategy,
    world: &World,
    terms: &Terms,
    layout: &Layout,
) -> Result<Answers, Broken> {
    let view = layout.view(world.now, world.seed);
    // Also of shards that have an owner: the answer may be asked for any time.
    let places = view.shards().map(|shard| ask(strategy, &view, shard)).collect::<Result<_, _>>()?;
    let mut ledger = Ledger::new();
    plan(strategy, &view, &mut ledger, world.limits, terms.own_limit)?;
    let moves = ledger.moves().iter().map(|m| (m.shard, m.to, m.why)).collect();
    Ok(Answers { places, moves })
}

/// Two fresh instances answer alike, one instance answers alike twice, and what it saw before does not matter.
fn deterministic(make: Make<'_>, terms: &Terms, world: &World) -> Result<(), Broken> {
    let layout = world.layout();
    let mut strategy = make();
    let first = answers(&mut *strategy, world, terms, &layout)?;
    let broken = |which: &str, how: String| Err((Law::Deterministic, format!("{which}, on one view {how}")));
    if let Some(how) = first.differ(&answers(&mut *make(), world, terms, &layout)?) {
        return broken("asked of two new instances", how);
    }
    if let Some(how) = first.differ(&answers(&mut *strategy, world, terms, &layout)?) {
        return broken("asked twice", how);
    }
    if terms.memory.is_none() {
        let mut used = make();
        let mut other = world.clone();
        other.places.reverse();
        other.nodes.truncate(world.nodes.len().div_ceil(2));
        answers(&mut *used, &other, terms, &other.layout_of(other.nodes.clone()))?;
        if let Some(how) = first.differ(&answers(&mut *used, world, terms, &layout)?) {
            return broken("asked of a new instance and of one that saw another view before", how);
        }
        return steady(make, terms, world);
    }
    Ok(())
}

/// Round after round, one that was there from the beginning plans as a new one does.
fn steady(make: Make<'_>, terms: &Terms, world: &World) -> Result<(), Broken> {
    let mut strategy = make();
    let mut stage = Stage::new(world, terms.own_limit);
    for round in 0..ROUNDS_COMPARED {
        stage.arrivals(&mut *strategy)?;
        let anew = stage.planned_by(&mut *make());
        stage.departures(&mut *strategy)?;
        if anew != stage.moves() {
            let how = format!("in round {round}, one that was there from the beginning plans otherwise than a new one");
            return Err((Law::Deterministic, how));
        }
    }
    Ok(())
}

/// Moves are under way for four rounds at most.
const ROUNDS_COMPARED: u32 = 24;

/// Whoever joins first, the cluster they make gets the same answers.
fn order(make: Make<'_>, terms: &Terms, world: &World) -> Result<(), Broken> {
    let joined = |nodes: &[NodeView]| -> Result<Answers, Broken> {
        let mut strategy = make();
        for some in 1..nodes.len() {
            answers(&mut *strategy, world, terms, &world.layout_of(nodes[..some].to_vec()))?;
        }
        answers(&mut *strategy, world, terms, &world.layout_of(nodes.to_vec()))
    };
    let mut nodes = world.nodes.clone();
    let first = joined(&nodes)?;
    for turn in 0..3 {
        match turn {
            0 => nodes.reverse(),
            _ => Prng::new(world.seed ^ turn).shuffle(&mut nodes),
        }
        if let Some(how) = first.differ(&joined(&nodes)?) {
            return Err((Law::Order, format!("when the nodes join in another order, {how}")));
        }
    }
    Ok(())
}

/// Moves end, and never begin again.
fn rest(make: Make<'_>, terms: &Terms, world: &World) -> Result<(), Broken> {
    let mut strategy = make();
    let mut stage = Stage::new(world, terms.own_limit);
    come_to_rest(&mut *strategy, &mut stage, terms, world, Law::Rest)?;
    match terms.moves_per_shard.map(|moves| moves as usize * world.places.len()) {
        Some(most) if stage.moved > most => {
            let how = format!(
                "{} moves of {} shards before rest, and no more than {most} should",
                stage.moved,
                world.places.len()
            );
            Err((Law::Movement, how))
        }
        _ => Ok(()),
    }
}

/// The same, after nodes have come, gone, closed and restarted in the midst of moves.
fn convergence(make: Make<'_>, terms: &Terms, world: &World) -> Result<(), Broken> {
    let mut strategy = make();
    let mut stage = Stage::new(world, terms.own_limit);
    for (after, change) in &world.changes {
        for _ in 0..*after {
            stage.round(&mut *strategy)?;
        }
        stage.change(change);
    }
    come_to_rest(&mut *strategy, &mut stage, terms, world, Law::Convergence)
}

fn come_to_rest(
    strategy: &mut dyn AllocationStrategy,
    stage: &mut Stage,
    terms: &Terms,
    world: &World,
    law: Law,
) -> Result<(), Broken> {
    let rounds = terms.rounds_to_rest(world.places.len());
    let mut rested = stage.rest(strategy, rounds)?;
    if let (true, Some(memory)) = (rested, terms.memory) {
        stage.pause(memory);
        rested = stage.rest(strategy, rounds)?;
    }
    if !rested {
        let moves = stage.last_moves();
        return Err((law, format!("not at rest after {rounds} rounds; moves of the last one:{moves}")));
    }
    for round in 0..terms.quiet_rounds {
        if stage.round(strategy)? {
            return Err((law, format!("moved again after {round} rounds at rest:{}", stage.last_moves())));
        }
    }
    Ok(())
}

/// One node joins, then leaves in good order; another crashes: shards change their places no more often than stated.
fn movement(make: Make<'_>, terms: &Terms, world: &World, factor: u32) -> Result<(), Broken> {
    let mut strategy = make();
    let mut stage = Stage::new(world, terms.own_limit);
    settle(&mut *strategy, &mut stage, terms, world)?;
    let shards = world.places.len();
    let Some(join) = world.changes.iter().find_map(|(_, change)| match change {
        Change::Join(node) => Some(node.clone()),
        _ => None,
    }) else {
        return Ok(());
    };
    let id = join.id;
    let fair = shards.div_ceil(stage.candidates() + 1);
    stage.change(&Change::Join(join));
    within(&mut *strategy, &mut stage, terms, world, (factor, fair, "a node joined"))?;

    let place = |stage: &Stage, id: NodeKey| stage.nodes().iter().position(|node| node.id == id);
    if let Some(at) = place(&stage, id) {
        // It closes, gives away what the strategy takes from it, and is gone.
        let least = shards.div_ceil(stage.candidates()).max(stage.count(id) as usize);
        let before = stage.moved + stage.placed;
        stage.change(&Change::Turn(at as u64));
        settle(&mut *strategy, &mut stage, terms, world)?;
        stage.change(&Change::Crash(at as u64));
        settle(&mut *strategy, &mut stage, terms, world)?;
        told(&stage, before, (factor, least, "a node left"))?;
    }
    if stage.nodes().len() > 1 {
        let at = world.seed % stage.nodes().len() as u64;
        let least = shards.div_ceil(stage.candidates().max(1)).max(stage.count(stage.nodes()[at as usize].id) as usize);
        stage.change(&Change::Crash(at));
        within(&mut *strategy, &mut stage, terms, world, (factor, least, "a node crashed"))?;
    }
    Ok(())
}

/// How many times the least that had to move may move, and when.
type Allowed = (u32, usize, &'static str);

fn within(
    strategy: &mut dyn AllocationStrategy,
    stage: &mut Stage,
    terms: &Terms,
    world: &World,
    allowed: Allowed,
) -> Result<(), Broken> {
    let before = stage.moved + stage.placed;
    settle(strategy, stage, terms, world)?;
    told(stage, before, allowed)
}

fn told(stage: &Stage, before: usize, (factor, least, when): Allowed) -> Result<(), Broken> {
    let made = stage.moved + stage.placed - before;
    if made > least * factor as usize {
        let how = format!("{made} shards changed places when {when}, and no more than {factor} x {least} should");
        return Err((Law::Movement, how));
    }
    Ok(())
}

/// Rounds until rest, or as many as are allowed: that it comes to rest is another law's business.
fn settle(
    strategy: &mut dyn AllocationStrategy,
    stage: &mut Stage,
    terms: &Terms,
    world: &World,
) -> Result<(), Broken> {
    let rounds = terms.rounds_to_rest(world.places.len());
    stage.rest(strategy, rounds)?;
    if let Some(memory) = terms.memory {
        stage.pause(memory);
        stage.rest(strategy, rounds)?;
    }
    Ok(())
}
