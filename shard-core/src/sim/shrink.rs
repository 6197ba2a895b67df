//! Makes a failing script as short as it gets while it still fails in the same way.

use alloc::vec::Vec;

use super::fault::Fault;
use super::options::Options;
use super::script::Script;
use crate::time::Duration;

/// Seeds tried when a change moves the random delays.
const SEEDS: u64 = 6;

/// Shortens `script` with at most `budget` runs. `fails` runs one and says when, in the run's time, it failed in the way it
/// should; `None`: it did not. Gives the shortest found, and how many runs that took.
pub fn shrink(script: &Script, budget: u32, fails: impl FnMut(&Script) -> Option<Duration>) -> (Script, u32) {
    let mut search = Search { best: script.clone(), fails, left: budget };
    if search.try_one(script.clone()) {
        while search.left > 0 {
            let before = search.size();
            search.fewer_faults();
            search.calmer();
            search.fewer_faults();
            search.shorter();
            if search.size() == before {
                break;
            }
        }
        search.rounder();
        search.rounder_end();
    }
    (search.best, budget - search.left)
}

struct Search<F> {
    best: Script,
    fails: F,
    left: u32,
}

impl<F: FnMut(&Script) -> Option<Duration>> Search<F> {
    /// What is to become less: settings that differ from the calm, faults, and how long they last.
    fn size(&self) -> (usize, usize, Duration) {
        let script = &self.best.options.script;
        let spans = script.iter().filter_map(|(_, fault)| fault.clone().span_mut().copied()).sum();
        let settings = self.best.options.differences(&Options::calm(0)).len();
        (script.len(), settings, spans)
    }

    /// Keeps `script` if it fails; what comes after the failure is dropped at once.
    fn try_one(&mut self, mut script: Script) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let Some(at) = (self.fails)(&script) else { return false };
        let end = at + Duration::from_millis(1);
        if end < script.options.storm {
            script.options.script.retain(|(when, _)| *when < end);
            let mut ended = script.clone();
            ended.options.storm = Duration::from_millis(u64::try_from(end.as_millis()).unwrap_or(u64::MAX) + 1);
            // The calm begins after the failure now; if it was the calm's own, the longer one stays.
            if (self.fails)(&ended).is_some() {
                script = ended;
            }
        }
        self.best = script;
        true
    }

    /// The same with the seeds that follow, if the first does not do it.
    fn try_seeds(&mut self, script: &Script) -> bool {
        let seed = script.options.seed;
        (seed..seed + SEEDS).any(|seed| {
            let mut script = script.clone();
            script.options.seed = seed;
            self.try_one(script)
        })
    }

    /// Drops faults, first many at once.
    fn fewer_faults(&mut self) {
        let mut chunk = self.best.options.script.len();
        while chunk > 0 && self.left > 0 {
            let mut at = 0;
            while at < self.best.options.script.len() {
                let mut script = self.best.clone();
                let end = (at + chunk).min(script.options.script.len());
                script.options.script.drain(at..end);
                // Dropping many moves all random delays, so other seeds are tried; for a single fault that costs too much.
                let fails = if chunk > 2 { self.try_seeds(&script) } else { self.try_one(script) };
                if !fails {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    /// Sets what is unusual back to what it is in a calm, one setting after the other.
    fn calmer(&mut self) {
        let calm = Options::calm(0);
        // The times hang together by inequalities, so they go as one.
        let mut script = self.best.clone();
        script.options.timing = calm.timing.clone();
        if script.options.settings_changed(&self.best.options) {
            self.try_seeds(&script);
        }
        for name in self.best.options.differences(&calm) {
            if matches!(name, "storm") {
                continue;
            }
            let mut script = self.best.clone();
            script.options.copy_setting(name, &calm);
            if script.is_possible() {
                self.try_seeds(&script);
            }
        }
        for (name, least) in [("nodes", 2), ("nodes", 3), ("shards", 1), ("shards", 2), ("entities", 1)] {
            let mut script = self.best.clone();
            script.options.set_count(name, least);
            let reach = script.options.script.iter().all(|(_, fault)| fault.within(script.options.nodes));
            if reach && script.is_possible() && script.options.settings_changed(&self.best.options) {
                self.try_seeds(&script);
            }
        }
        if self.best.options.strategy.name() != calm.strategy.name() {
            let mut script = self.best.clone();
            script.options.strategy = calm.strategy.clone();
            self.try_seeds(&script);
        }
    }

    /// Halves what lasts.
    fn shorter(&mut self) {
        for at in 0..self.best.options.script.len() {
            for _ in 0..6 {
                let mut script = self.best.clone();
                let Some(span) = script.options.script.get_mut(at).and_then(|(_, fault)| fault.span_mut()) else {
                    break;
                };
                if *span < Duration::from_millis(20) {
                    break;
                }
                *span /= 2;
                if !self.try_one(script) {
                    break;
                }
            }
        }
    }

    /// Ends the storm at a round moment after the failure.
    fn rounder_end(&mut self) {
        for unit in [1_000, 100] {
            let mut script = self.best.clone();
            script.options.storm = round(script.options.storm, Duration::from_millis(unit));
            if self.left > 0 {
                self.left -= 1;
                if (self.fails)(&script).is_some() {
                    self.best = script;
                    return;
                }
            }
        }
    }

    /// Rounds times, which are easier to read.
    fn rounder(&mut self) {
        for at in 0..self.best.options.script.len() {
            for unit in [100, 10, 1] {
                let unit = Duration::from_millis(unit);
                let mut script = self.best.clone();
                let Some((when, fault)) = script.options.script.get_mut(at) else { return };
                *when = round(*when, unit);
                if let Some(span) = fault.span_mut() {
                    *span = round(*span, unit);
                }
                if let Fault::Hold { until, .. } = fault {
                    *until = round(*until, unit);
                }
                let in_order = script.options.script.is_sorted_by_key(|(when, _)| *when);
                if in_order && self.try_one(script) {
                    break;
                }
            }
        }
    }
}

fn round(span: Duration, unit: Duration) -> Duration {
    let (span, unit) = (span.as_nanos(), unit.as_nanos());
    Duration::from_nanos(u64::try_from(span.div_ceil(unit) * unit).unwrap_or(u64::MAX))
}

impl Options {
    /// The names of the settings in which two runs differ.
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        let (ours, theirs) = (self.settings_text(), other.settings_text());
        ours.into_iter().zip(theirs).filter(|(ours, theirs)| ours != theirs).map(|(ours, _)| ours.0).collect()
    }

    fn settings_changed(&self, other: &Self) -> bool {
        !self.differences(other).is_empty()
    }

    fn copy_setting(&mut self, name: &str, from: &Self) {
        let text = from.settings_text().into_iter().find(|(known, _)| *known == name).map(|(_, text)| text);
        self.write_setting(name, &text.unwrap_or_default());
    }

    fn set_count(&mut self, name: &str, value: u32) {
        self.write_setting(name, &alloc::format!("{value}"));
    }

    fn write_setting(&mut self, name: &str, text: &str) {
        if let Some((_, setting)) = self.settings().iter_mut().find(|(known, _)| *known == name) {
            // What another run's setting reads as can be read.
            let _ = setting.read(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_does_not_matter_is_dropped_and_what_matters_stays() {
        let text = "seed 3\nnodes 4\nloss 200\nlate 30\nshards 9\n\
            at 1s crash 2 for 800ms\nat 1100ms pause 3 for 640ms\nat 1200ms break 1 -> 2\nat 4s crash 1 for 1s\n";
        let script: Script = text.parse().expect("it parses");
        let (short, runs) = shrink(&script, 500, |script| {
            let pauses = |fault: &Fault| match fault {
                Fault::Pause { span, .. } => *span >= Duration::from_millis(100),
                _ => false,
            };
            let fails =
                script.options.faults.loss_permille > 0 && script.options.script.iter().any(|(_, fault)| pauses(fault));
            fails.then_some(Duration::from_millis(2_000))
        });
        let text = short.to_string();
        assert!(text.ends_with("at 1100ms pause 3 for 200ms\n") && text.contains("loss 200\n"), "{text}");
        assert!(!text.contains("late") && !text.contains("crash") && !text.contains("break"), "{text}");
        assert!(runs < 200, "{runs} runs");
    }
}
