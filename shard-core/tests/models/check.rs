//! Runs a model to its end and says what was seen.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

/// What became of a model.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// States visited.
    pub(crate) states: usize,
    /// The longest of the shortest paths.
    pub(crate) depth: usize,
    /// The property that was violated, and the steps that lead there.
    pub(crate) broken: Option<(&'static str, Vec<String>)>,
    /// What should have been seen and was not.
    pub(crate) unseen: Vec<&'static str>,
}

/// Explores a model breadth first until everything was visited or a property is violated.
pub(crate) fn explore<M>(name: &str, model: M, threads: usize) -> Outcome
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::hash::Hash + PartialEq + std::fmt::Debug + Send + Sync + 'static,
    M::Action: Clone + PartialEq + std::fmt::Debug + Send + Sync,
{
    let began = Instant::now();
    let checker = model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    let broken =
        checker.model().properties().into_iter().filter(|property| property.expectation.discovery_is_failure());
    let broken = broken.filter_map(|property| {
        let path = found.get(property.name)?.clone();
        Some((property.name, path.into_actions().iter().map(|step| format!("{step:?}")).collect::<Vec<_>>()))
    });
    let broken = broken.min_by_key(|(_, steps)| steps.len());
    let unseen: Vec<_> = checker
        .model()
        .properties()
        .into_iter()
        .filter(|property| !property.expectation.discovery_is_failure() && !found.contains_key(property.name))
        .map(|property| property.name)
        .collect();
    let outcome = Outcome { states: checker.unique_state_count(), depth: checker.max_depth(), broken, unseen };
    let verdict = match &outcome.broken {
        Some((property, steps)) => format!("violates {property} in {} steps", steps.len()),
        None => format!("closes at depth {}", outcome.depth),
    };
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}: {} states, {} generated, {seconds:.1} s: {verdict}", outcome.states, checker.state_count());
    outcome
}
