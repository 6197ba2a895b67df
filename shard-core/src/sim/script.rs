//! A run as text: what differs from [`Options::calm`], and one line for each fault.
//!
//! ```text
//! # a handoff that does not wait for the owner's drop
//! mutant forced-handoff
//! expect double-owner
//! seed 7
//! nodes 3
//! at 1200ms crash 3 for 500ms
//! ```
//! Random delays come from the seed, so a script names one. Since a change of the code moves them, `tries N` lets whoever
//! replays it use the seeds after it as well: with the mutant one of them must fail, without it none may. Where an assertion of
//! a machine notices before the checkers do, in builds that have them, `assertion TEXT` says which.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::fault::{Fault, Span, read_span};
use super::options::{Options, Strategy};
use super::report::PROPERTIES;
use crate::allocation::{Hash, LeastShard};
use crate::machine::{Rule, TimingError};
use crate::time::Duration;

/// The most nodes that a simulated cluster can have.
pub const NODES_MAX: usize = 2_000;
/// The most shards, entities, messages that wait somewhere, and seeds to try.
const MANY: u64 = 1_000_000;

/// A run as text; see the module's page for the form.
#[derive(Clone, Debug)]
pub struct Script {
    /// The run.
    pub options: Options,
    /// The property that the mutant breaks.
    pub expect: Option<String>,
    /// What an assertion of a machine says that notices first, in builds with assertions.
    pub assertion: Option<String>,
    /// How many seeds may be tried.
    pub tries: u64,
    /// Lines that began with `#`.
    pub remarks: Vec<String>,
}

/// A line that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptError {
    /// Which; the first is 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl core::error::Error for ScriptError {}

/// A setting that a line of text can name.
pub(super) enum Setting<'a> {
    Count(&'a mut usize),
    Number(&'a mut u32),
    Seed(&'a mut u64),
    Share(&'a mut u64),
    Time(&'a mut Duration),
    Flag(&'a mut bool),
}

impl Setting<'_> {
    fn text(&self) -> String {
        match self {
            Self::Count(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Seed(value) | Self::Share(value) => value.to_string(),
            Self::Time(value) => Span(**value).to_string(),
            Self::Flag(value) => if **value { "yes" } else { "no" }.into(),
        }
    }

    pub(super) fn read(&mut self, word: &str) -> Result<(), String> {
        let wrong = || format!("`{word}` is no number");
        match self {
            Self::Count(value) => **value = word.parse().map_err(|_| wrong())?,
            Self::Number(value) => **value = word.parse().map_err(|_| wrong())?,
            Self::Seed(value) => **value = word.parse().map_err(|_| wrong())?,
            Self::Share(value) => match word.parse().map_err(|_| wrong())? {
                share @ 0..=1_000 => **value = share,
                _ => return Err(format!("`{word}` is more than all of 1000")),
            },
            Self::Time(value) => **value = read_span(word)?,
            Self::Flag(value) => match word {
                "yes" => **value = true,
                "no" => **value = false,
                _ => return Err(format!("`{word}` is neither yes nor no")),
            },
        }
        Ok(())
    }
}

impl Options {
    /// Every setting that a script can name.
    pub(super) fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        use Setting::{Count, Flag, Number, Seed, Share, Time};
        let (faults, handlers, timing) = (&mut self.faults, &mut self.handlers, &mut self.timing);
        Vec::from([
            ("nodes", Count(&mut self.nodes)),
            ("voters", Count(&mut self.voters)),
            ("pure-voters", Count(&mut self.pure_voters)),
            ("shards", Number(&mut self.shards)),
            ("entities", Number(&mut self.entities_per_shard)),
            ("lanes", Number(&mut self.lanes)),
            ("storm", Time(&mut self.storm)),
            ("rebalance", Time(&mut self.rebalance)),
            ("work-every", Time(&mut self.work_every)),
            ("link-bytes", Count(&mut self.link.bytes_max)),
            ("link-dial-first", Time(&mut self.link.dial_first)),
            ("link-dial-last", Time(&mut self.link.dial_last)),
            ("link-probe", Time(&mut self.link.probe)),
            ("link-silent", Time(&mut self.link.silent)),
            ("link-ack-delay", Time(&mut self.link.ack_delay)),
            ("stream-messages", Count(&mut self.stream.messages_max)),
            ("stream-give-up", Time(&mut self.stream.give_up_after)),
            ("stream-close-wait", Time(&mut self.stream.close_wait)),
            ("stream-ask-every", Time(&mut self.stream.ask_every)),
            ("stream-retry-first", Time(&mut self.stream.retry_first)),
            ("stream-retry-last", Time(&mut self.stream.retry_last)),
            ("loss", Share(&mut faults.loss_permille)),
            ("duplicate", Share(&mut faults.duplicate_permille)),
            ("late", Share(&mut faults.tail_permille)),
            ("delay", Time(&mut faults.delay)),
            ("frame-loss", Share(&mut faults.frame_loss_permille)),
            ("late-frame", Share(&mut faults.late_frame_permille)),
            ("inbox", Time(&mut faults.inbox)),
            ("drift", Flag(&mut faults.drift)),
            ("late-joiner", Flag(&mut faults.late_joiner)),
            ("handler-time", Time(&mut handlers.time)),
            ("handler-long", Share(&mut handlers.long_permille)),
            ("handler-fail", Share(&mut handlers.fail_permille)),
            ("handler-stop", Share(&mut handlers.stop_permille)),
            ("idle", Time(&mut handlers.idle)),
            ("awake", Count(&mut handlers.awake_max)),
            ("policy", Count(&mut handlers.policy)),
            ("mailbox", Count(&mut handlers.mailbox)),
            ("guard", Seed(&mut self.guard)),
            ("dense", Flag(&mut self.dense)),
            ("store", Flag(&mut self.store)),
            ("poison-from", Time(&mut self.poison_from)),
            ("callers", Count(&mut self.callers)),
            ("clock-error", Number(&mut timing.rate_error_permille)),
            ("heartbeat", Time(&mut timing.heartbeat)),
            ("session", Time(&mut timing.session)),
            ("wait", Time(&mut timing.wait)),
            ("margin", Time(&mut timing.margin)),
            ("reign", Time(&mut timing.reign)),
            ("lease", Time(&mut timing.lease)),
            ("silence", Time(&mut timing.silence)),
            ("renew", Time(&mut timing.renew)),
            ("stagger", Time(&mut timing.stagger)),
            ("candidacy", Time(&mut timing.candidacy)),
            ("evidence", Time(&mut timing.evidence)),
            ("drain", Time(&mut timing.drain)),
        ])
    }

    pub(super) fn settings_text(&self) -> Vec<(&'static str, String)> {
        let mut copy = self.clone();
        copy.settings().into_iter().map(|(name, setting)| (name, setting.text())).collect()
    }
}

impl Script {
    /// The script of a run that did what `options` say, and in which `struck` went wrong.
    pub(super) fn of(options: &Options, struck: &[(u64, Fault)], expect: Option<&str>) -> Self {
        let mut options = options.clone();
        options.trace = false;
        options.script = struck.iter().map(|(at, fault)| (Duration::from_nanos(*at), fault.clone())).collect();
        let faults = &mut options.faults;
        for every in [
            &mut faults.crash_every,
            &mut faults.blackout_every,
            &mut faults.pause_every,
            &mut faults.cut_every,
            &mut faults.break_every,
            &mut faults.leave_every,
            &mut faults.resign_every,
            &mut faults.drift_every,
            &mut faults.starve_every,
            &mut faults.capture_every,
            &mut faults.succession_every,
            &mut faults.voters_every,
        ] {
            *every = Duration::ZERO;
        }
        faults.crash_in_drain = false;
        Self { options, expect: expect.map(Into::into), assertion: None, tries: 1, remarks: Vec::new() }
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').map_or((line, ""), |(word, rest)| (word, rest.trim()));
        match word {
            "at" => {
                let (at, fault) = rest.split_once(' ').ok_or("a time and a fault are missing")?;
                self.options.script.push((read_span(at)?, Fault::parse(fault)?));
            }
            "seed" => self.options.seed = rest.parse().map_err(|_| format!("`{rest}` is no seed"))?,
            "tries" => {
                let tries = rest.parse().ok().filter(|tries| (1..=MANY).contains(tries));
                self.tries = tries.ok_or_else(|| format!("`{rest}` is no number of seeds from 1 to {MANY}"))?;
            }
            "expect" if PROPERTIES.contains(&rest) => self.expect = Some(rest.into()),
            "expect" => return Err(format!("there is no property `{rest}`; there are: {}", PROPERTIES.join(", "))),
            "assertion" => self.assertion = Some(rest.into()),
            "mutant" => {
                self.options.mutant =
                    Some(Rule::by_mutant(rest).ok_or_else(|| format!("no mutant is called `{rest}`"))?);
            }
            "strategy" => match rest {
                "hash" => self.options.strategy = Strategy::new(|| Hash),
                "least-shard" => self.options.strategy = Strategy::new(|| LeastShard::new(1, 3)),
                _ => return Err(format!("a script knows no strategy `{rest}`")),
            },
            "absent" => {
                let numbers = rest.split(',').map(str::parse).collect::<Result<_, _>>();
                self.options.absent = numbers.map_err(|_| format!("`{rest}` are no nodes"))?;
            }
            _ => {
                let mut settings = self.options.settings();
                let setting = settings.iter_mut().find(|(name, _)| *name == word);
                setting.ok_or_else(|| format!("there is no setting `{word}`"))?.1.read(rest)?;
            }
        }
        Ok(())
    }

    pub(super) fn is_possible(&self) -> bool {
        self.check().is_ok()
    }

    /// Whether the cluster that it describes can be. If not: what is wrong, and the words whose lines say so.
    fn check(&self) -> Result<(), (Vec<&'static str>, String)> {
        let Options { nodes, voters, pure_voters, shards, entities_per_shard, lanes, .. } = self.options;
        let counts = [
            ("nodes", nodes as u64, NODES_MAX as u64),
            ("shards", shards.into(), MANY),
            ("entities", entities_per_shard.into(), MANY / u64::from(shards.max(1))),
            ("mailbox", self.options.handlers.mailbox as u64, MANY),
            ("stream-messages", self.options.stream.messages_max as u64, MANY),
            ("link-bytes", self.options.link.bytes_max as u64, MANY * 1_000),
        ];
        if let Some((word, count, most)) = counts.into_iter().find(|(_, count, most)| count > most) {
            return Err((Vec::from([word]), format!("`{word}` is {count} but can be {most} at most")));
        }
        let possible = [1, 3, 5].contains(&voters)
            && voters <= nodes
            && pure_voters <= voters
            && pure_voters < nodes
            && shards > 0
            && entities_per_shard > 0
            && (1..=4).contains(&lanes);
        if !possible {
            let words = ["voters", "nodes", "pure-voters", "shards", "entities", "lanes"];
            let what = format!("such a cluster cannot be: see `{}`", words.join("`, `"));
            return Err((words.into(), what));
        }
        if let Some(number) = self.options.absent.iter().find(|number| !(1..=nodes).contains(*number)) {
            return Err((Vec::from(["absent"]), format!("there is no node {number} of {nodes}")));
        }
        self.options.timing.check().map_err(|error| (words_of(&error), error.to_string()))
    }

    /// The line that is to blame: of those that say one of `words`, the last, else the last of all.
    fn line_of(text: &str, words: &[&str]) -> usize {
        let first = |line: &str| line.split_whitespace().next().is_some_and(|word| words.contains(&word));
        let last = text.lines().enumerate().filter(|(_, line)| first(line)).last();
        last.map_or_else(|| text.lines().count(), |(at, _)| at + 1)
    }
}

/// The settings that an inequality compares.
fn words_of(error: &TimingError) -> Vec<&'static str> {
    match error.rule {
        "S1" | "S2" => Vec::from(["lease", "silence", "reign", "clock-error"]),
        "S3" => Vec::from(["wait", "session", "clock-error"]),
        "S5" => Vec::from(["clock-error"]),
        "not zero" => Vec::from([error.name]),
        _ => Vec::from(["session", "margin", "heartbeat"]),
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut script =
            Self { options: Options::calm(0), expect: None, assertion: None, tries: 1, remarks: Vec::new() };
        let mut faults = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            match line.strip_prefix('#') {
                Some(remark) => script.remarks.push(remark.trim().into()),
                None if line.is_empty() => {}
                None => script.read(line).map_err(|what| ScriptError { line: at + 1, what })?,
            }
            // `nodes` may come later.
            faults.resize(script.options.script.len(), at + 1);
        }
        let wrong = |(words, what): (Vec<&str>, String)| ScriptError { line: Self::line_of(text, &words), what };
        script.check().map_err(wrong)?;
        let nodes = script.options.nodes;
        match script.options.script.iter().zip(faults).find(|((_, fault), _)| !fault.within(nodes)) {
            Some(((_, fault), line)) => Err(ScriptError { line, what: format!("`{fault}`: there are {nodes} nodes") }),
            None => Ok(script),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        for remark in &self.remarks {
            writeln!(f, "# {remark}")?;
        }
        if let Some(mutant) = options.mutant {
            writeln!(f, "mutant {}", mutant.mutant())?;
        }
        if let Some(expect) = &self.expect {
            writeln!(f, "expect {expect}")?;
        }
        if let Some(assertion) = &self.assertion {
            writeln!(f, "assertion {assertion}")?;
        }
        writeln!(f, "seed {}", options.seed)?;
        if self.tries > 1 {
            writeln!(f, "tries {}", self.tries)?;
        }
        let base = Options::calm(0);
        let name = options.strategy.name();
        if name != base.strategy.name() {
            writeln!(f, "strategy {name}")?;
        }
        for ((name, value), (_, usual)) in options.settings_text().into_iter().zip(base.settings_text()) {
            if value != usual {
                writeln!(f, "{name} {value}")?;
            }
        }
        if !options.absent.is_empty() {
            let numbers: Vec<String> = options.absent.iter().map(ToString::to_string).collect();
            writeln!(f, "absent {}", numbers.join(","))?;
        }
        for (at, fault) in &options.script {
            writeln!(f, "at {} {fault}", Span(*at))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_back_as_it_was_written() {
        let mut options = Options::from_seed(9).with_mutant(Rule::DropBarrier);
        options.absent.push(2);
        let pause = Fault::parse("pause other for 20ms").expect("it parses");
        let mut script = Script::of(&options, &[(1_500_000_000, pause)], Some("double-owner"));
        script.remarks.push("why".into());
        script.tries = 4;
        script.assertion = Some("a shard is wanted".into());
        let text = script.to_string();
        let again: Script = text.parse().expect("it parses");
        assert_eq!(again.to_string(), text);
        assert_eq!(again.options.settings_text(), script.options.settings_text());
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        let error = |text: &str| text.parse::<Script>().expect_err("it is wrong").to_string();
        assert_eq!(error("seed 1\nnodes many"), "line 2: `many` is no number");
        assert_eq!(error("colour red"), "line 1: there is no setting `colour`");
        assert!(error("at 1s vanish 3").starts_with("line 1: there is no fault"));
        assert!(error("wait 1ms").contains("S3"), "{}", error("wait 1ms"));
        assert!(error("voters 2").contains("cannot be"));
        assert_eq!(
            error("clock-error 500"),
            "line 1: `rate_error_permille` is 500 but must be below 500 permille (S5)"
        );
    }

    #[test]
    fn what_cannot_be_is_refused_on_its_own_line() {
        let error = |text: &str| text.parse::<Script>().expect_err("it is wrong").to_string();
        // The times, though other lines follow.
        assert!(error("seed 3\nwait 1ms\nnodes 3\n\n# that is all\n").starts_with("line 2: `wait` is 1ms"));
        assert!(error("reign 10s\nstorm 4s").starts_with("line 1: `lease` is"));
        assert!(error("margin 0ms\nstorm 4s").starts_with("line 1: `margin` is 0ns"));
        assert!(error("nodes 4\nvoters 5\nstorm 1s").starts_with("line 2: such a cluster cannot be"));
        // Seats that there are not.
        assert_eq!(error("at 1s crash 99 for 1s\nnodes 7"), "line 1: `crash 99 for 1s`: there are 7 nodes");
        assert_eq!(error("nodes 3\nat 1s crash 3 for 1s\nat 2s enlist 77"), "line 3: `enlist 77`: there are 3 nodes");
        assert!(error("at 1s cut 1 -> 2,6 for 1s").contains("there are 5 nodes"));
        assert_eq!(error("absent 99\nseed 4"), "line 1: there is no node 99 of 5");
        assert_eq!(error("absent 0"), "line 1: there is no node 0 of 5");
        // Sizes.
        assert_eq!(error("nodes 1000000000\nseed 1"), "line 1: `nodes` is 1000000000 but can be 2000 at most");
        assert_eq!(error("shards 4000000000"), "line 1: `shards` is 4000000000 but can be 1000000 at most");
        assert_eq!(error("shards 1000\nentities 2000\nseed 1"), "line 2: `entities` is 2000 but can be 1000 at most");
        assert_eq!(error("storm 1000000s"), "line 1: `1000000s` is too long: a day is the most");
        assert_eq!(error("loss 1001"), "line 1: `1001` is more than all of 1000");
        assert!(error("tries 0").starts_with("line 1: `0` is no number of seeds"));
        assert!(error("seed 1\nexpect double-owners").starts_with("line 2: there is no property `double-owners`"));
    }
}
