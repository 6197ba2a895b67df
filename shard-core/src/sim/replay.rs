//! What the `storm` example must be told so that it runs the same again.

use alloc::format;
use alloc::string::String;

use super::options::Options;
use super::worlds::Drill;

impl Options {
    /// The arguments with which `storm` makes this very run: the seed and whatever else was asked for. `None` if something in it
    /// was set by hand or came from a script; then [`Report::script`](super::Report::script) has it as text. Strategies
    /// are known by their names only.
    #[must_use]
    pub fn arguments(&self) -> Option<String> {
        let mut arguments = self.made_by()?;
        if let Some(only) = &self.only {
            arguments = format!("{arguments} --only {only}");
        }
        if let Some(mutant) = self.mutant {
            arguments = format!("{arguments} --mutant {}", mutant.mutant());
        }
        Some(arguments)
    }

    /// Finds out by trying. What a command cannot say does not fit whatever is tried.
    fn made_by(&self) -> Option<String> {
        let (seed, nodes) = (self.seed, self.nodes);
        let with_guard = |options: Self| if self.guard > 0 { options.with_guard() } else { options };
        let guard = if self.guard > 0 { " --guard" } else { "" };
        if self.drill {
            let fits = |drill: &Drill| self.is_like(with_guard(Self::drill(*drill, seed, nodes)));
            let drill = Drill::ALL.into_iter().find(fits)?;
            return Some(format!("--drill {} --seed {seed} --nodes {nodes}{guard}", drill.name()));
        }
        let drawn = Self::from_seed(seed);
        let seconds = self.storm.as_secs();
        let timed = self.storm != drawn.storm;
        let time = if timed { format!(" --seconds {seconds}") } else { String::new() };
        let storm = if timed { crate::time::Duration::from_secs(seconds) } else { drawn.storm };
        let dense = if self.dense { " --dense" } else { "" };
        let makes = |options: Self, guarded: bool| {
            let options = options.with_storm(storm);
            let options = if guarded { options.with_guard() } else { options };
            self.is_like(if self.dense { options.with_dense_moves() } else { options })
        };
        // A seed may have drawn a guard already.
        for (guard, guarded) in [("", false), (guard, self.guard > 0)] {
            if makes(drawn.clone(), guarded) {
                return Some(format!("--seed {seed}{time}{guard}{dense}"));
            }
            if makes(drawn.clone().with_nodes(nodes), guarded) {
                return Some(format!("--seed {seed} --nodes {nodes}{time}{guard}{dense}"));
            }
        }
        None
    }

    /// Whether both make the same run but for what is looked for in it.
    fn is_like(&self, mut other: Self) -> bool {
        let mut copy = self.clone();
        if self.dense {
            // Each run puts its own in that place.
            other.strategy = copy.strategy.clone();
        }
        for options in [&mut copy, &mut other] {
            (options.trace, options.mutant, options.only) = (false, None, None);
        }
        format!("{copy:?}") == format!("{other:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Rule;
    use crate::time::Duration;
    use alloc::vec::Vec;

    /// Does what `storm` does with these arguments.
    fn obey(arguments: &str) -> Options {
        let words: Vec<&str> = arguments.split(' ').collect();
        let value = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1).copied());
        let number = |name: &str| value(name).map(|word| word.parse::<u64>().expect("a number"));
        let seed = number("--seed").expect("a seed");
        let nodes = number("--nodes").map(|nodes| nodes as usize);
        let mut options = match value("--drill") {
            Some(name) => {
                let drill = Drill::ALL.into_iter().find(|drill| drill.name() == name).expect("a drill");
                Options::drill(drill, seed, nodes.expect("nodes"))
            }
            None => nodes.map_or(Options::from_seed(seed), |nodes| Options::from_seed(seed).with_nodes(nodes)),
        };
        if let Some(seconds) = number("--seconds") {
            options = options.with_storm(Duration::from_secs(seconds));
        }
        if words.contains(&"--guard") {
            options = options.with_guard();
        }
        if words.contains(&"--dense") {
            options = options.with_dense_moves();
        }
        options.mutant = value("--mutant").and_then(Rule::by_mutant);
        options.only = value("--only").map(Into::into);
        options
    }

    #[test]
    fn the_arguments_make_the_same_run() {
        let short = Duration::from_secs(3);
        let only = |options: Options| Options { only: Some("double-owner".into()), ..options };
        for seed in 7..12 {
            let drawn = || Options::from_seed(seed);
            let made = [
                drawn(),
                drawn().with_guard(),
                drawn().with_nodes(2).with_storm(short),
                drawn().with_nodes(25).with_storm(short).with_guard(),
                drawn().with_dense_moves(),
                drawn().with_storm(short).with_guard().with_dense_moves().with_trace(),
                only(drawn().with_mutant(Rule::Quarantine)),
                Options::drill(Drill::Leave, seed, 5).with_mutant(Rule::DropBarrier),
                Options::drill(Drill::CoordinatorCrash, seed, 3),
            ];
            for options in made {
                let arguments = options.arguments().expect("a command makes it");
                let again = obey(&arguments);
                assert!(options.is_like(again.clone()), "{arguments}");
                assert_eq!((options.mutant, &options.only), (again.mutant, &again.only), "{arguments}");
            }
        }
    }

    #[test]
    fn what_no_argument_says_is_not_promised() {
        let drawn = || Options::from_seed(3);
        let by_hand = [
            Options { shards: 40, ..drawn() },
            drawn().with_storm(Duration::from_millis(2_500)),
            drawn().with_protocol(super::super::Protocol::ForcedTimeout),
            Options::calm(3),
        ];
        assert_eq!(by_hand.map(|options| options.arguments()), [None, None, None, None]);
    }
}
