//! Makes a world that breaks a law smaller, while it still breaks the same one.

use alloc::vec::Vec;

use super::world::{Change, Place, World};

/// Gives the smallest world found with at most `budget` trials. `fails` says whether a world still breaks the law.
pub(super) fn shrink(world: &World, mut budget: u32, mut fails: impl FnMut(&World) -> bool) -> World {
    let mut best = world.clone();
    loop {
        let mut smaller = false;
        let (mut list, mut at) = (candidates(&best), 0);
        // What is after the candidate that failed is at about the same place of the next list: go on there, and begin
        // again until a whole list has nothing that fails.
        while let Some(candidate) = list.get(at) {
            if budget == 0 {
                return best;
            }
            budget -= 1;
            if fails(candidate) {
                best = candidate.clone();
                list = candidates(&best);
                smaller = true;
            } else {
                at += 1;
            }
        }
        if !smaller {
            return best;
        }
    }
}

/// Worlds that are a little smaller or plainer than this one, the greatest steps first.
fn candidates(world: &World) -> Vec<World> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut World)| {
        let mut smaller = world.clone();
        change(&mut smaller);
        found.push(smaller);
    };
    let shards = world.places.len();
    for keep in [shards / 2, shards.saturating_sub(1)] {
        if (1..shards).contains(&keep) {
            add(&|it| {
                it.places.truncate(keep);
                it.loads.truncate(keep);
            });
        }
    }
    if world.nodes.len() > 1 {
        (0..world.nodes.len()).for_each(|at| add(&|it| it.remove_node(at)));
    }
    (0..world.changes.len()).rev().for_each(|at| {
        add(&|it| {
            it.changes.remove(at);
        });
    });
    if world.flight > 0 {
        add(&|it| it.flight = 0);
    }
    if !world.loads.is_empty() {
        add(&|it| it.loads.clear());
    }
    (0..world.edges.len()).rev().for_each(|at| {
        add(&|it| {
            it.edges.remove(at);
        });
    });
    for (at, place) in world.places.iter().enumerate() {
        if let Place::Moving(home, _) = place {
            add(&|it| it.places[at] = Place::At(*home));
        }
    }
    for (at, node) in world.nodes.iter().enumerate() {
        if !node.accepts {
            add(&|it| (it.nodes[at].accepts, it.nodes[at].deaf) = (true, false));
        }
        if node.capacity != 1 || node.zone.0 != 0 || node.version != 0 || node.stats.is_some() {
            add(&|it| {
                let node = &mut it.nodes[at];
                (node.capacity, node.zone.0, node.version, node.stats) = (1, 0, 0, None);
            });
        }
        if !node.roles.is_empty() || !node.metadata.is_empty() {
            add(&|it| {
                it.nodes[at].roles.clear();
                it.nodes[at].metadata.clear();
            });
        }
    }
    for (at, (after, change)) in world.changes.iter().enumerate() {
        if *after > 0 {
            add(&|it| it.changes[at].0 = 0);
        }
        if let Change::Crash(which) | Change::Turn(which) | Change::Restart(which) = change
            && *which > 0
        {
            add(&|it| it.changes[at].1 = renumbered(change, which / 2));
        }
    }
    found
}

fn renumbered(change: &Change, which: u64) -> Change {
    match change {
        Change::Join(node) => Change::Join(node.clone()),
        Change::Crash(_) => Change::Crash(which),
        Change::Turn(_) => Change::Turn(which),
        Change::Restart(_) => Change::Restart(which),
    }
}

impl World {
    /// Takes a node out; its shards are free, and what was on the way to it is on the way to nowhere known.
    fn remove_node(&mut self, at: usize) {
        let gone = self.nodes.remove(at).id.id;
        for place in &mut self.places {
            match *place {
                Place::At(home) | Place::Moving(home, _) if home == gone => *place = Place::Free,
                Place::Moving(home, Some(to)) if to == gone => *place = Place::Moving(home, None),
                _ => {}
            }
        }
    }
}
