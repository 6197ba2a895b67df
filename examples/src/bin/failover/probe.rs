//! Questions without end, to an entity of every shard, and what became of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shard_core::entity::AskError;
use shard_core::id::NodeId;
use shard_core::prelude::*;
use tokio::task::JoinHandle;

use super::member::{HereMessage, Where};

/// Entities asked: enough that every shard has one.
const ENTITIES: usize = 192;
/// How often each is asked, whether or not it has answered.
const EVERY: Duration = Duration::from_millis(50);
/// How long a question waits: longer than any recovery should take.
const WITHIN: Duration = Duration::from_secs(20);

/// Spans in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps(Vec<u64>);

impl Gaps {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The least that so many of a thousand do not exceed.
    pub(super) fn at(&self, permille: usize) -> u64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * permille).div_ceil(1_000).saturating_sub(1);
        sorted.get(at).copied().unwrap_or(0)
    }

    pub(super) fn figures(&self) -> Value {
        json!({ "count": self.len(), "p50": self.at(500), "p99": self.at(990), "max": self.at(1_000) })
    }
}

/// What a fault cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Toll {
    pub(super) victims: Gaps,
    pub(super) bystanders: Gaps,
    pub(super) answered: u64,
    pub(super) not_run: u64,
    pub(super) in_doubt: u64,
    /// Questions whose asker was told nothing long after their time.
    pub(super) silent: u64,
}

impl Toll {
    pub(super) fn add(&mut self, other: Self) {
        self.victims.0.extend(other.victims.0);
        self.bystanders.0.extend(other.bystanders.0);
        self.answered += other.answered;
        self.not_run += other.not_run;
        self.in_doubt += other.in_doubt;
        self.silent += other.silent;
    }

    /// Questions that were not answered.
    pub(super) fn failed(&self) -> u64 {
        self.not_run + self.in_doubt + self.silent
    }
}

/// One entity.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Who answered last.
    home: u64,
    /// When the last question that was answered was asked.
    asked: Instant,
    /// From the fault to the first answer to a question asked after it.
    gap: Option<Duration>,
    /// It lived where the fault struck.
    victim: bool,
}

#[derive(Debug)]
struct State {
    probes: Vec<Probe>,
    /// When the present fault struck.
    struck: Option<Instant>,
    toll: Toll,
    /// Questions under way: when each was asked, and its number. Each ends, at the latest, with its time.
    under_way: BTreeSet<(Instant, u64)>,
    asked: u64,
    answered: u64,
    stop: bool,
}

/// All of them.
pub(super) struct Probes {
    state: Arc<Mutex<State>>,
    tasks: Vec<JoinHandle<()>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Probes {
    pub(super) fn start(here: Entities<HereMessage>) -> Self {
        let probe = Probe { home: 0, asked: Instant::now(), gap: None, victim: false };
        let state = State {
            probes: vec![probe; ENTITIES],
            struck: None,
            toll: Toll::default(),
            under_way: BTreeSet::new(),
            asked: 0,
            answered: 0,
            stop: false,
        };
        let (state, here) = (Arc::new(Mutex::new(state)), here.within(WITHIN));
        let task = |entity| tokio::spawn(ask_on(Arc::clone(&state), here.clone(), entity));
        let tasks = (0..ENTITIES).map(task).collect();
        Self { state, tasks }
    }

    /// Where entities live.
    pub(super) fn homes(&self) -> BTreeSet<u64> {
        lock(&self.state).probes.iter().map(|probe| probe.home).filter(|home| *home > 0).collect()
    }

    /// How many entities have not answered a question of the last so many milliseconds.
    pub(super) fn waiting(&self, span: Duration) -> usize {
        lock(&self.state).probes.iter().filter(|probe| probe.asked.elapsed() > span).count()
    }

    /// A fault strikes that node now.
    pub(super) fn begin(&self, node: NodeId) {
        let mut state = lock(&self.state);
        for probe in &mut state.probes {
            (probe.victim, probe.gap) = (probe.home == node.0, None);
        }
        state.struck = Some(Instant::now());
        state.toll = Toll::default();
    }

    /// Waits until every entity has answered a question asked after the fault.
    pub(super) async fn answered(&self, limit: Duration) -> Result<(), String> {
        let limit = Instant::now() + limit;
        loop {
            let silent = lock(&self.state).probes.iter().filter(|probe| probe.gap.is_none()).count();
            if silent == 0 {
                return Ok(());
            }
            if Instant::now() > limit {
                return Err(format!("{silent} entities do not answer any more"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the fault cost, once every question asked meanwhile has ended.
    pub(super) async fn end(&self) -> Toll {
        let now = Instant::now();
        lock(&self.state).struck = None;
        while lock(&self.state).under_way.first().is_some_and(|(asked, _)| *asked <= now) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut state = lock(&self.state);
        let mut toll = core::mem::take(&mut state.toll);
        for probe in &state.probes {
            let gap = probe.gap.map_or(u64::MAX, |gap| u64::try_from(gap.as_millis()).unwrap_or(u64::MAX));
            if probe.victim { toll.victims.0.push(gap) } else { toll.bystanders.0.push(gap) }
        }
        toll
    }

    /// Asks no more. How many questions there were, and how many answers.
    pub(super) async fn stop(self) -> (u64, u64) {
        lock(&self.state).stop = true;
        for task in self.tasks {
            let _ = task.await;
        }
        while !lock(&self.state).under_way.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let state = lock(&self.state);
        (state.asked, state.answered)
    }
}

/// Asks one entity again and again, whether or not it answers.
async fn ask_on(state: Arc<Mutex<State>>, here: Entities<HereMessage>, entity: usize) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = Instant::now();
        let number = {
            let mut state = lock(&state);
            if state.stop {
                return;
            }
            state.asked += 1;
            let number = state.asked;
            state.under_way.insert((asked, number));
            number
        };
        let (state, here) = (Arc::clone(&state), here.clone());
        tokio::spawn(async move {
            let ask = tokio::time::timeout(WITHIN + WITHIN / 2, here.ask(format!("e-{entity}"), Where));
            let ended = ask.await;
            let mut state = lock(&state);
            state.under_way.remove(&(asked, number));
            match ended {
                Ok(Ok(home)) => {
                    state.answered += 1;
                    state.toll.answered += 1;
                    let struck = state.struck;
                    let probe = &mut state.probes[entity];
                    (probe.home, probe.asked) = (home, probe.asked.max(asked));
                    if let Some(struck) = struck.filter(|struck| asked >= *struck) {
                        probe.gap.get_or_insert(struck.elapsed());
                    }
                }
                Ok(Err(AskError::NoReply(_))) => state.toll.in_doubt += 1,
                Ok(Err(_)) => state.toll.not_run += 1,
                Err(_) => state.toll.silent += 1,
            }
        });
    }
}
