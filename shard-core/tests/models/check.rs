//! Runs a model to its end and says what was seen.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

/// A model whose states and steps can be shown.
pub(crate) trait World:
    Model<
        State: Clone + Hash + PartialEq + Debug + Send + Sync + 'static,
        Action: Clone + PartialEq + Debug + Send + Sync,
    > + Send
    + Sync
    + 'static
{
}

impl<M> World for M where
    M: Model<
            State: Clone + Hash + PartialEq + Debug + Send + Sync + 'static,
            Action: Clone + PartialEq + Debug + Send + Sync,
        > + Send
        + Sync
        + 'static
{
}

/// Every state can be visited, there are at least this many, none breaks a promise, and in some of them things happen.
pub(crate) fn closes(name: &str, model: impl World, states: usize) {
    let found = explore(name, model);
    assert_eq!(found.broken, None, "{name}");
    assert_eq!(found.unseen, Vec::<&str>::new(), "{name}: what never happens proves nothing");
    assert!(found.states >= states, "{name}: {} states, not {states}: the model has shrunk", found.states);
}

/// A state that breaks this promise can be reached.
pub(crate) fn kills(name: &str, model: impl World, promise: &str) {
    let found = explore(name, model);
    let (broken, steps) = found.broken.unwrap_or_else(|| panic!("{name} survives"));
    assert!(broken.starts_with(promise), "{name} breaks {broken}:\n{}", steps.join("\n"));
}

struct Found {
    states: usize,
    /// The property that is violated, and the steps that lead there.
    broken: Option<(&'static str, Vec<String>)>,
    /// What should have been seen and was not.
    unseen: Vec<&'static str>,
}

/// Explores a model breadth first, on one thread, until everything was visited or a property is violated.
fn explore<M: World>(name: &str, model: M) -> Found {
    let began = Instant::now();
    let checker = model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut paths = checker.discoveries();
    let (harms, sights): (Vec<Property<M>>, Vec<_>) =
        checker.model().properties().into_iter().partition(|property| property.expectation.discovery_is_failure());
    let unseen = sights.into_iter().map(|sight| sight.name).filter(|name| !paths.contains_key(name)).collect();
    let mut show = |harm: Property<M>| {
        let steps = paths.remove(harm.name)?.into_actions();
        Some((harm.name, steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>()))
    };
    let broken = harms.into_iter().filter_map(&mut show).min_by_key(|(_, steps)| steps.len());
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let verdict = match &broken {
        Some((harm, steps)) => format!("in {} steps not {harm}", steps.len()),
        None => format!("closed at depth {depth}"),
    };
    let (steps, seconds) = (checker.state_count(), began.elapsed().as_secs_f64());
    println!("{name}: {states} states, {steps} steps, {seconds:.1} s: {verdict}");
    Found { states, broken, unseen }
}
