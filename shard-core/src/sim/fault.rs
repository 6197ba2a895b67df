//! One thing that goes wrong at one moment, as a value and as a line of text.
//!
//! ```text
//! at 1200ms crash 3 for 500ms               a process ends, forgets everything, and is back after that time
//! at 2s pause coordinator for 300ms         it does nothing while its clock runs
//! at 2s freeze 1 for 900ms                  it does nothing, and its clock stands still
//! at 2s cut 1,2 -> 3 for 1s                 nothing from 1 and 2 reaches 3; `<->`: nor back; `*`: everyone
//! at 2s slow 1 <-> * for 1s                 datagrams are late, up to more than W
//! at 2s break 1 -> 2                        the connection that 1 dialled breaks
//! at 3s leave 2 for 1s                      it leaves gracefully, and is back after that time
//! at 3s resign coordinator                 it gives its reign up in good order
//! at 3s start 4                             a node that was `absent` starts
//! at 3s enlist 4                            it is to be a voter: every node is told of the next set of voters
//! at 3s retire 1                            it is to be one no more
//! at 4s clock 2 rate 1050000                it runs so many ticks per million
//! at 5s drop lease-request 1 -> 2 for 1s    datagrams of one sort vanish
//! at 5s hold lease-request 1 -> 3 for 260ms until 6s    they are caught, and let go then
//! ```
//! Nodes are numbers from 1, `coordinator` (who reigns then), or `other` (a node that hosts and does not reign).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::time::Duration;
use crate::wire::Control;

/// A node, by its number or by what it is at that moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The node with this number; the first is 1.
    Node(usize),
    /// Whoever reigns.
    Coordinator,
    /// The last node that hosts shards and does not reign.
    Other,
    /// Each node.
    Everyone,
}

/// Something that goes wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A process ends and forgets everything.
    Crash {
        /// Which.
        who: Who,
        /// When it is back.
        down: Duration,
    },
    /// A node that was absent starts.
    Start {
        /// Which.
        who: Who,
    },
    /// A process does nothing while its clock runs.
    Pause {
        /// Which.
        who: Who,
        /// How long.
        span: Duration,
    },
    /// A process does nothing, and its clock stands still meanwhile.
    Freeze {
        /// Which.
        who: Who,
        /// How long.
        span: Duration,
    },
    /// Nothing passes.
    Cut(Paths),
    /// Datagrams are late.
    Slow(Paths),
    /// The connection that one dialled to the other breaks.
    Break {
        /// The dialling end.
        from: Who,
        /// The other.
        to: Who,
    },
    /// A node leaves gracefully.
    Leave {
        /// Which.
        who: Who,
        /// When it is back, counted from its farewell.
        away: Duration,
    },
    /// Whoever reigns gives the reign up in good order.
    Resign {
        /// Who is asked to.
        who: Who,
    },
    /// A node is to become a voter.
    Enlist {
        /// Which.
        who: Who,
    },
    /// A voter is to be one no more.
    Retire {
        /// Which.
        who: Who,
    },
    /// A clock changes its rate.
    Clock {
        /// Whose.
        who: Who,
        /// Ticks per million true ones.
        rate: u64,
    },
    /// Datagrams of one sort vanish.
    Drop {
        /// The sort; see [`sort_of`].
        sort: String,
        /// Where.
        paths: Paths,
    },
    /// Datagrams of one sort are caught and let go later.
    Hold {
        /// The sort; see [`sort_of`].
        sort: String,
        /// Where.
        paths: Paths,
        /// When they are let go, in the run's time.
        until: Duration,
    },
}

/// From whom to whom, and how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paths {
    /// From each of these.
    pub from: Vec<Who>,
    /// To each of these.
    pub to: Vec<Who>,
    /// And back.
    pub both: bool,
    /// How long.
    pub span: Duration,
}

impl Fault {
    /// How long it lasts, for those that last; a script that still fails with less is simpler.
    pub(super) fn span_mut(&mut self) -> Option<&mut Duration> {
        match self {
            Self::Crash { down: span, .. }
            | Self::Pause { span, .. }
            | Self::Freeze { span, .. }
            | Self::Leave { away: span, .. } => Some(span),
            Self::Cut(paths) | Self::Slow(paths) | Self::Drop { paths, .. } | Self::Hold { paths, .. } => {
                Some(&mut paths.span)
            }
            Self::Start { .. }
            | Self::Resign { .. }
            | Self::Enlist { .. }
            | Self::Retire { .. }
            | Self::Break { .. }
            | Self::Clock { .. } => None,
        }
    }

    /// Whether it names no node beyond `nodes`.
    pub(super) fn within(&self, nodes: usize) -> bool {
        let fits = |who: &Who| !matches!(who, Who::Node(number) if *number > nodes);
        match self {
            Self::Crash { who, .. }
            | Self::Start { who }
            | Self::Resign { who }
            | Self::Enlist { who }
            | Self::Retire { who }
            | Self::Pause { who, .. }
            | Self::Freeze { who, .. }
            | Self::Leave { who, .. }
            | Self::Clock { who, .. } => fits(who),
            Self::Break { from, to } => fits(from) && fits(to),
            Self::Cut(paths) | Self::Slow(paths) | Self::Drop { paths, .. } | Self::Hold { paths, .. } => {
                paths.from.iter().chain(&paths.to).all(fits)
            }
        }
    }

    /// Reads what follows `at TIME`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let verb = words.next().ok_or("a fault is missing")?;
        let fault = match verb {
            "crash" => Self::Crash { who: who(words.next())?, down: span(&mut words, "for")? },
            "start" => Self::Start { who: who(words.next())? },
            "resign" => Self::Resign { who: who(words.next())? },
            "enlist" => Self::Enlist { who: who(words.next())? },
            "retire" => Self::Retire { who: who(words.next())? },
            "pause" => Self::Pause { who: who(words.next())?, span: span(&mut words, "for")? },
            "freeze" => Self::Freeze { who: who(words.next())?, span: span(&mut words, "for")? },
            "cut" => Self::Cut(paths(&mut words)?),
            "slow" => Self::Slow(paths(&mut words)?),
            "break" => {
                let from = who(words.next())?;
                expect(&mut words, "->")?;
                Self::Break { from, to: who(words.next())? }
            }
            "leave" => Self::Leave { who: who(words.next())?, away: span(&mut words, "for")? },
            "clock" => {
                let who = who(words.next())?;
                expect(&mut words, "rate")?;
                let rate = words.next().and_then(|rate| rate.parse().ok()).filter(|rate| *rate > 0);
                Self::Clock { who, rate: rate.ok_or("a clock needs a rate")? }
            }
            "drop" => Self::Drop { sort: sort(words.next())?, paths: paths(&mut words)? },
            "hold" => {
                Self::Hold { sort: sort(words.next())?, paths: paths(&mut words)?, until: span(&mut words, "until")? }
            }
            other => return Err(format!("there is no fault `{other}`")),
        };
        match words.next() {
            None => Ok(fault),
            Some(word) => Err(format!("`{word}` is too much")),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash { who, down } => write!(f, "crash {who} for {}", Span(*down)),
            Self::Resign { who } => write!(f, "resign {who}"),
            Self::Start { who } => write!(f, "start {who}"),
            Self::Enlist { who } => write!(f, "enlist {who}"),
            Self::Retire { who } => write!(f, "retire {who}"),
            Self::Pause { who, span } => write!(f, "pause {who} for {}", Span(*span)),
            Self::Freeze { who, span } => write!(f, "freeze {who} for {}", Span(*span)),
            Self::Cut(paths) => write!(f, "cut {paths}"),
            Self::Slow(paths) => write!(f, "slow {paths}"),
            Self::Break { from, to } => write!(f, "break {from} -> {to}"),
            Self::Leave { who, away } => write!(f, "leave {who} for {}", Span(*away)),
            Self::Clock { who, rate } => write!(f, "clock {who} rate {rate}"),
            Self::Drop { sort, paths } => write!(f, "drop {sort} {paths}"),
            Self::Hold { sort, paths, until } => write!(f, "hold {sort} {paths} until {}", Span(*until)),
        }
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[Who]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let arrow = if self.both { "<->" } else { "->" };
        write!(f, "{} {arrow} {} for {}", list(&self.from), list(&self.to), Span(self.span))
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(number) => write!(f, "{number}"),
            Self::Coordinator => f.write_str("coordinator"),
            Self::Other => f.write_str("other"),
            Self::Everyone => f.write_str("*"),
        }
    }
}

/// A span of time in the greatest unit that keeps it whole.
pub(super) struct Span(pub(super) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let (unit, name) = match nanos {
            0 => return f.write_str("0ms"),
            n if n % 1_000_000_000 == 0 => (1_000_000_000, "s"),
            n if n % 1_000_000 == 0 => (1_000_000, "ms"),
            n if n % 1_000 == 0 => (1_000, "us"),
            _ => (1, "ns"),
        };
        write!(f, "{}{name}", nanos / unit)
    }
}

/// Sums of some such spans, in nanoseconds, stay far below what fits.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Reads a span as [`Span`] writes it.
pub(super) fn read_span(word: &str) -> Result<Duration, String> {
    let digits = word.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at(digits);
    let unit: u64 = match unit {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => return Err(format!("`{word}` is no time; 20ms is one")),
    };
    let number: u64 = number.parse().map_err(|_| format!("`{word}` is no time"))?;
    let span = number.checked_mul(unit).map(Duration::from_nanos).filter(|span| *span <= LONGEST);
    span.ok_or_else(|| format!("`{word}` is too long: a day is the most"))
}

/// The sort of a control message, by which `drop` and `hold` know it.
#[must_use]
pub fn sort_of(message: &Control) -> &'static str {
    match message {
        Control::LeaseRequest { .. } => "lease-request",
        Control::LeaseGranted { .. } => "lease-granted",
        Control::LeaseRefused { .. } => "lease-refused",
        Control::Release { .. } => "release",
        Control::WhoReigns => "who-reigns",
        Control::Reign { .. } => "reign",
        Control::Announce { .. } => "announce",
        Control::Nack { .. } => "nack",
        Control::Heartbeat(_) => "heartbeat",
        Control::Ack(_) => "ack",
        Control::Dead { .. } => "dead",
        Control::KindRefused { .. } => "kind-refused",
        Control::Lookup { .. } => "lookup",
        Control::Home { .. } => "home",
    }
}

const SORTS: [&str; 14] = [
    "lease-request",
    "lease-granted",
    "lease-refused",
    "release",
    "who-reigns",
    "reign",
    "announce",
    "nack",
    "heartbeat",
    "ack",
    "dead",
    "kind-refused",
    "lookup",
    "home",
];

/// The sort with that name.
pub(super) fn known(name: &str) -> Option<&'static str> {
    SORTS.into_iter().find(|sort| *sort == name)
}

fn sort(word: Option<&str>) -> Result<String, String> {
    let word = word.ok_or("a sort of message is missing")?;
    if SORTS.contains(&word) { Ok(word.into()) } else { Err(format!("there are no `{word}`; sorts: {SORTS:?}")) }
}

pub(super) fn who(word: Option<&str>) -> Result<Who, String> {
    match word.ok_or("a node is missing")? {
        "coordinator" => Ok(Who::Coordinator),
        "other" => Ok(Who::Other),
        "*" => Ok(Who::Everyone),
        number => match number.parse() {
            Ok(number) if number > 0 => Ok(Who::Node(number)),
            _ => Err(format!("`{number}` is no node")),
        },
    }
}

fn expect<'a>(words: &mut impl Iterator<Item = &'a str>, word: &str) -> Result<(), String> {
    if words.next() == Some(word) { Ok(()) } else { Err(format!("`{word}` is missing")) }
}

fn span<'a>(words: &mut impl Iterator<Item = &'a str>, before: &str) -> Result<Duration, String> {
    expect(words, before)?;
    read_span(words.next().ok_or("a time is missing")?)
}

fn paths<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Paths, String> {
    let list = |word: Option<&str>| {
        word.ok_or("nodes are missing")?.split(',').map(|word| who(Some(word))).collect::<Result<Vec<_>, String>>()
    };
    let from = list(words.next())?;
    let both = match words.next() {
        Some("->") => false,
        Some("<->") => true,
        _ => return Err("`->` or `<->` is missing".into()),
    };
    let to = list(words.next())?;
    Ok(Paths { from, to, both, span: span(words, "for")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_page_above_reads_back_as_it_was_written() {
        let page = include_str!("fault.rs").lines().filter_map(|line| line.strip_prefix("//! at "));
        let mut verbs = 0;
        for line in page {
            let fault = line.split("  ").next().and_then(|line| line.split_once(' ')).map(|(_, fault)| fault);
            let parsed = Fault::parse(fault.expect("a fault")).expect("it parses");
            assert_eq!(parsed.to_string(), fault.expect("a fault"));
            verbs += 1;
        }
        assert_eq!(verbs, 14);
        for wrong in
            ["", "crash 3", "crash 0 for 1s", "cut 1 3 for 1s", "hold mail 1 -> 2 for 1s until 2s", "start 1 2"]
        {
            assert!(Fault::parse(wrong).is_err(), "{wrong}");
        }
    }
}
