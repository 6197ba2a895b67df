//! The page: for somebody who has to choose a strategy and has never seen this project.

use std::fmt::Write;

use examples::chart::{self, Bar, COLOURS, bars, begin, escape};

use super::Args;
use super::run::{Event, Lab, Outcome, Run, duration};
use super::strategies::Family;

/// Of the small picture on a card.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 92.0;
/// Where the axis of small pictures ends: twice the mean and more is drawn there.
const CEILING: f64 = 2.5;

const STYLE: &str = "
.lead { max-width: 60rem } .soft, small { color: var(--soft) }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin: 0 .35rem 0 1rem; vertical-align: -1px }
.key:first-child { margin-left: 0 }
.pair figure { margin: 0 } figcaption { max-width: 24rem; margin: .3rem 0; min-height: 4.5em }
.wide { overflow-x: auto } .wide td, .wide th { padding: .12rem .45rem; white-space: nowrap; font-size: .82rem } .first { border-left: 2px solid var(--line) }
.bad { color: light-dark(#b3261e, #ff8a80); font-weight: 600 } .good { color: light-dark(#1b7f3b, #7fd99a) }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: 1rem }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .7rem .9rem; border-top-width: 4px }
.card h3 { margin: 0; font-size: 1rem } .card p { margin: .1rem 0 .5rem; font-size: .87rem; line-height: 1.35; min-height: 2.7em }
";

const COUNT_LINE: &str = COLOURS[0];
const LOAD_LINE: &str = COLOURS[2];

impl Family {
    const fn colour(self) -> &'static str {
        COLOURS[match self {
            Self::Count => 0,
            Self::Load => 2,
            Self::Rule => 4,
            Self::Chance => 6,
            Self::Outside => 9,
        }]
    }
}

/// The workload in a sentence or two.
pub(crate) fn workload(args: &Args, lab: &Lab) -> String {
    let total: u64 = lab.loads.iter().copied().map(u64::from).sum();
    let heaviest = lab.loads.iter().max().copied().unwrap_or(0);
    let share = f64::from(heaviest) * f64::from(args.nodes) / total.max(1) as f64;
    let events: Vec<_> = lab.phases().flatten().map(Event::name).collect();
    let events = if events.is_empty() { "nothing".into() } else { events.join(", then ") };
    format!(
        "{} nodes, {} shards, load {}: the heaviest shard alone weighs {share:.2} of what a node has on average{}. After the \
         start: {events}. Seed {}.",
        args.nodes,
        args.shards,
        args.load,
        if share > 1.0 { ", and nobody can be evener by load than that" } else { "" },
        args.seed
    )
}

/// The whole page.
pub(crate) fn page(args: &Args, lab: &Lab, runs: &[Run]) -> String {
    let mut body = String::new();
    let _ = write!(
        body,
        "<p class=\"lead\">A cluster divides its work into <i>shards</i>, each owned by one node at a time. An <i>allocation \
         strategy</i> says which node gets a shard, and which shards move when nodes come and go. Moving costs: a shard pauses \
         while it moves. Every strategy below met the same cluster and the same events.</p>\
         <p class=\"lead\"><b>{}</b></p>",
        escape(&workload(args, lab))
    );
    body += "<p>";
    for family in Family::ALL {
        let _ =
            write!(body, "<span class=\"key\" style=\"background:{}\"></span>{}", family.colour(), family.sentence());
    }
    body += "</p><h2>At a glance</h2><div class=\"pair\">";
    body += &glances(runs);
    body += "</div><h2>Event by event</h2>";
    body += COLUMNS;
    body += &table(lab, runs);
    body += "<h2>What it costs</h2><p class=\"lead\">What the coordinator computes, in this run: a round of planning when nothing \
             is to be moved and when something is, and finding a home for one shard. Medians.</p>";
    body += &costs(runs);
    body += "<h2>Strategy by strategy</h2>";
    let _ = write!(
        body,
        "<p>Unevenness, round by round: the fullest node beside the mean, \
         <span class=\"key\" style=\"background:{COUNT_LINE}\"></span>by count of shards and \
         <span class=\"key\" style=\"background:{LOAD_LINE}\"></span>by load, from 1 (even, the bottom) to {CEILING} (the top, \
         and all above). Grey lines are the events. Rounds in which nothing moves are left out.</p><div class=\"cards\">"
    );
    runs.iter().for_each(|run| body += &card(run));
    body += "</div>\n";
    chart::page("Which allocation strategy?", STYLE, &body)
}

fn glances(runs: &[Run]) -> String {
    let worst = |run: &Run, of: fn(&Outcome) -> f64| run.outcomes.iter().map(of).fold(0.0, f64::max);
    let figure = |caption: &str, (best, most): (f64, f64), value: &dyn Fn(&Run) -> f64| {
        let bar = |run: &Run| {
            let value = value(run);
            Bar {
                name: run.contestant.name,
                colour: run.contestant.family.colour(),
                value: value - (1.0 - best),
                text: format!("{value:.2}"),
            }
        };
        let plot = bars(caption, 400.0, (best, most), &runs.iter().map(bar).collect::<Vec<_>>());
        format!("<figure><figcaption>{caption}</figcaption>{plot}</figure>")
    };
    let moved = |run: &Run| {
        let events = || run.outcomes.iter().filter(|it| it.least > 0);
        let least: usize = events().map(|it| it.least).sum();
        events().map(|it| it.changed).sum::<usize>() as f64 / least.max(1) as f64
    };
    figure(
        "<b>Movement</b>: shards that changed places in all events, beside the least that had to (dotted: 1). Less than 1: it \
         leaves a new node empty.",
        (1.0, 5.0),
        &moved,
    ) + &figure(
        "<b>Evenness by count</b>: the fullest node beside the mean, at its worst after any event; 1 is even.",
        (0.0, 1.5),
        &|run| worst(run, |it| it.by_count),
    ) + &figure(
        "<b>Evenness by load</b>: the same by what shards weigh. What only counts shards is as even as luck has it.",
        (0.0, 1.5),
        &|run| worst(run, |it| it.by_load),
    )
}

const COLUMNS: &str = "<p class=\"lead\"><b>Rounds</b>: until nothing moved any more; a coordinator plans every two seconds, so 30 \
rounds are a minute. <b>Moved</b>: shards that changed places; <b>of least</b>: how many times what had to, which is a new node's \
even share, or what the lost node had. <b>Count</b> and <b>load</b>: the fullest node beside the mean, then; 1.00 is even. \
<b>Churn</b>: moves while everything rested and was watched further; more than 0 means that it never settles. (weighted-move leaves a \
shard alone for five minutes after it has moved: hence its many rounds.)</p>";

fn table(lab: &Lab, runs: &[Run]) -> String {
    let mut table = String::from("<div class=\"wide\"><table><tr><th rowspan=\"2\">strategy</th>");
    for event in lab.phases() {
        let (name, columns) = event.map_or(("start", 4), |event| (event.name(), 5));
        let _ = write!(table, "<th class=\"first\" colspan=\"{columns}\">{name}</th>");
    }
    table += "<th class=\"first\">all</th></tr><tr>";
    for event in lab.phases() {
        table += "<th class=\"first\">rounds</th><th>moved</th>";
        table += if event.is_some() { "<th>of least</th>" } else { "" };
        table += "<th>count</th><th>load</th>";
    }
    table += "<th class=\"first\">churn</th></tr>";
    for run in runs {
        let _ = write!(table, "<tr><th>{}</th>", run.contestant.name);
        for (event, it) in lab.phases().zip(&run.outcomes) {
            let rounds = it.rounds.map_or("<span class=\"bad\">never</span>".into(), |rounds| rounds.to_string());
            let _ = write!(table, "<td class=\"first\">{rounds}</td><td>{}</td>", it.changed);
            if event.is_some() {
                let ratio = it.ratio().map_or("-".into(), |ratio| mark(ratio, ratio <= 1.25, ratio >= 4.0, 1));
                let _ = write!(table, "<td>{ratio}</td>");
            }
            for value in [it.by_count, it.by_load] {
                let _ = write!(table, "<td>{}</td>", mark(value, value <= 1.05, value >= 1.5, 2));
            }
        }
        let churn: usize = run.outcomes.iter().map(|it| it.churn).sum();
        let _ = write!(table, "<td class=\"first\">{}</td>", mark(churn as f64, false, churn > 0, 0));
        table += "</tr>";
    }
    table + "</table></div>"
}

/// What each costs, and what each is for.
fn costs(runs: &[Run]) -> String {
    let mut table = String::from("<div class=\"wide\"><table><tr><th>strategy</th><th>plan at rest</th>");
    table += "<th>plan with moves</th><th>a placement</th><th>what it is for</th></tr>";
    for run in runs {
        let _ = write!(table, "<tr><th>{}</th>", run.contestant.name);
        for time in run.costs() {
            let _ = write!(table, "<td>{}</td>", time.map_or("-".into(), duration).replace("us", "&micro;s"));
        }
        let _ = write!(table, "<th>{}</th></tr>", escape(run.contestant.purpose));
    }
    table + "</table></div>"
}

/// A number, green if it is good and red if it is bad.
fn mark(value: f64, good: bool, bad: bool, digits: usize) -> String {
    match (good, bad) {
        (_, true) => format!("<span class=\"bad\">{value:.digits$}</span>"),
        (true, _) => format!("<span class=\"good\">{value:.digits$}</span>"),
        _ => format!("{value:.digits$}"),
    }
}

fn card(run: &Run) -> String {
    let it = &run.contestant;
    let origin = if it.is_contributed() { "contributed" } else { "built in" };
    format!(
        "<div class=\"card\" style=\"border-top-color:{}\"><h3>{} <small>{origin}</small></h3><p>{}</p>{}</div>",
        it.family.colour(),
        it.name,
        escape(it.purpose),
        picture(run)
    )
}

/// Unevenness over rounds.
fn picture(run: &Run) -> String {
    let mut svg = begin(WIDTH, HEIGHT, run.contestant.name);
    let (left, bottom) = (26.0, HEIGHT - 6.0);
    let step = (WIDTH - left - 4.0) / (run.history.len().max(2) - 1) as f64;
    let y = |value: f64| bottom - (value.clamp(1.0, CEILING) - 1.0) / (CEILING - 1.0) * (bottom - 8.0);
    for value in [1.0, 1.5, 2.0, 2.5] {
        let y = y(value);
        let _ = write!(svg, "<line x1=\"{left}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"var(--line)\"/>");
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", left - 5.0, y + 4.0);
    }
    for (at, pair) in run.history.windows(2).enumerate() {
        if pair[0].phase != pair[1].phase {
            let x = left + (at + 1) as f64 * step;
            let _ = write!(svg, "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"{bottom}\" stroke=\"var(--soft)\"/>");
        }
    }
    for (colour, of) in [(LOAD_LINE, 1), (COUNT_LINE, 0)] {
        let points: String = run
            .history
            .iter()
            .enumerate()
            .map(|(at, it)| format!("{:.1},{:.1} ", left + at as f64 * step, y([it.by_count, it.by_load][of])))
            .collect();
        let _ = write!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>");
    }
    svg + "</svg>"
}
