//! A page that stands alone: a plot and a table for each trace.

use std::fmt::Write;

use examples::chart::{COLOURS, Series, escape, lines, page as whole};

use super::run::{Figures, Run};

/// The whole page.
pub(crate) fn page(runs: &[Run<'_>]) -> String {
    let mut page = String::from(INTRODUCTION);
    for runs in runs.chunk_by(|a, b| std::ptr::eq(a.trace, b.trace)) {
        let trace = runs[0].trace;
        let (name, messages, entities) = (escape(&trace.name), trace.messages.len(), trace.entities);
        let _ = write!(page, "<h2>{name}</h2><p>{messages} messages for {entities} entities.</p>");
        page += "<div class=\"pair\">";
        page += &plot(runs, "hits, %", |figures| 100.0 * figures.hit_rate());
        page += &plot(runs, "reactivations per thousand messages", Figures::reactivations_per_thousand);
        page += "</div>";
        page += &table(runs);
    }
    whole("Passivation policies", "", &page)
}

const INTRODUCTION: &str = "<p>A hit is a message whose entity is awake; a reactivation wakes one that had been awake before. \
The optimum knows the future.</p>\n";

/// The optimum is drawn in the ink of the text, the policies in colours.
fn plot<'a>(runs: &'a [Run<'a>], label: &str, value: impl Fn(&Figures) -> f64) -> String {
    let at = |run: &Run<'_>| f64::from(run.limit).ln();
    let marks: Vec<_> = runs.iter().map(|run| (at(run), run.limit.to_string())).collect();
    let series = |(line, (policy, _)): (usize, (&'a str, &Figures))| Series {
        name: policy,
        colour: line.checked_sub(1).map(|line| COLOURS[line % COLOURS.len()]),
        points: runs.iter().filter_map(|run| Some((at(run), value(run.figures(policy)?)))).collect(),
    };
    let series: Vec<Series<'a>> = runs[0].all().enumerate().map(series).collect();
    lines(label, "by limit", &marks, &series)
}

fn table(runs: &[Run<'_>]) -> String {
    let mut table = String::from("<table><tr><th>policy</th>");
    for run in runs {
        let _ = write!(table, "<th>hits at {0}, %</th><th>reactivations at {0}, o/oo</th>", run.limit);
    }
    table += "</tr>";
    for (policy, _) in runs[0].all() {
        let _ = write!(table, "<tr><th>{policy}</th>");
        for figures in runs.iter().filter_map(|run| run.figures(policy)) {
            let (hits, woken) = (100.0 * figures.hit_rate(), figures.reactivations_per_thousand());
            let _ = write!(table, "<td>{hits:.2}</td><td>{woken:.1}</td>");
        }
        table += "</tr>";
    }
    table + "</table>"
}
