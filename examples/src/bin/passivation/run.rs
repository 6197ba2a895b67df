//! One trace under one limit, with every policy.

use shard_core::passivation::PolicyChoice;

use super::optimum::optimum;
use super::trace::{Trace, hash};

/// What came of a trace under a limit.
pub(crate) struct Run<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) limit: u32,
    pub(crate) optimum: Figures,
    pub(crate) policies: Vec<(PolicyChoice, Figures)>,
}

impl Run<'_> {
    /// The optimum, and then the policies as they were asked for.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Figures)> {
        let policies = self.policies.iter().map(|(policy, figures)| (policy.name(), figures));
        std::iter::once(("optimum", &self.optimum)).chain(policies)
    }

    /// What came of the policy of that name.
    pub(crate) fn figures(&self, name: &str) -> Option<&Figures> {
        self.all().find(|(policy, _)| *policy == name).map(|(_, figures)| figures)
    }
}

/// How a policy did.
pub(crate) struct Figures {
    pub(crate) messages: u64,
    /// Messages that woke their entity.
    pub(crate) activations: u64,
    /// Those of them whose entity had been awake before.
    pub(crate) reactivations: u64,
    known: Vec<bool>,
}

impl Figures {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self { messages: 0, activations: 0, reactivations: 0, known: vec![false; trace.entities as usize] }
    }

    /// A message found `entity` awake, or did not.
    pub(crate) fn message(&mut self, entity: u32, awake: bool) {
        self.messages += 1;
        self.activations += u64::from(!awake);
        let known = std::mem::replace(&mut self.known[entity as usize], true);
        self.reactivations += u64::from(known && !awake);
    }

    pub(crate) fn hit_rate(&self) -> f64 {
        1.0 - self.activations as f64 / self.messages.max(1) as f64
    }

    pub(crate) fn reactivations_per_thousand(&self) -> f64 {
        1_000.0 * self.reactivations as f64 / self.messages.max(1) as f64
    }
}

/// Runs `trace` through each policy. Whoever is picked is gone at once.
pub(crate) fn run<'a>(trace: &'a Trace, limit: u32, policies: &[PolicyChoice], seed: u64) -> Run<'a> {
    let hashes: Vec<u64> = (0..trace.entities).map(hash).collect();
    let judge = |choice: &PolicyChoice| {
        let mut policy = choice.build(u64::from(limit), seed);
        let (mut figures, mut awake) = (Figures::new(trace), vec![false; trace.entities as usize]);
        let mut picked = Vec::new();
        for entity in &trace.messages {
            let was_awake = std::mem::replace(&mut awake[*entity as usize], true);
            figures.message(*entity, was_awake);
            if was_awake {
                policy.touched(*entity);
                continue;
            }
            policy.created(*entity, hashes[*entity as usize], 1, &mut |index| picked.push(index));
            for index in picked.drain(..) {
                awake[index as usize] = false;
                policy.removed(index);
            }
        }
        (*choice, figures)
    };
    Run { trace, limit, optimum: optimum(trace, limit), policies: policies.iter().map(judge).collect() }
}
