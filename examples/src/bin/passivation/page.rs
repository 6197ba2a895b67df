//! A page that stands alone: a plot and a table for each trace.

use std::fmt::Write;

use super::run::{Figures, Run};

/// Of a plot, with its margins.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;
/// The optimum is drawn in the ink of the text, the policies in these.
const COLOURS: [&str; 12] = [
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0",
    "#d1495b", "#2e7d6b",
];

/// The whole page.
pub(crate) fn page(runs: &[Run<'_>]) -> String {
    let mut page = String::from(HEAD);
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
    page + "</body></html>\n"
}

const HEAD: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">
<title>Passivation policies</title>
<style>
:root { color-scheme: light dark; --ink: light-dark(#222, #ddd); --line: light-dark(#ddd, #444) }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 82rem; margin: 2rem auto; padding: 0 1rem }
.pair { display: flex; flex-wrap: wrap; gap: 1rem }
svg { max-width: 100%; height: auto; font: 11px system-ui, sans-serif } svg text { fill: var(--ink) }
table { border-collapse: collapse; margin: 1rem 0 2rem } td, th { padding: .15rem .7rem; border-bottom: 1px solid var(--line) }
td { text-align: right; font-variant-numeric: tabular-nums } th { text-align: left; font-weight: 500 }
</style></head><body>
<h1>Passivation policies</h1>
<p>A hit is a message whose entity is awake; a reactivation wakes one that had been awake before. The optimum knows the future.</p>
";

fn plot(runs: &[Run<'_>], label: &str, value: impl Fn(&Figures) -> f64) -> String {
    let limits: Vec<f64> = runs.iter().map(|run| f64::from(run.limit).ln()).collect();
    let (low, high) = limits.iter().fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(*it), high.max(*it)));
    let most = runs.iter().flat_map(|run| run.all().map(|(_, figures)| value(figures))).fold(0.0, f64::max);
    let (step, top) = scale(most);
    let x = |limit: f64| LEFT + if high > low { (limit - low) / (high - low) } else { 0.5 } * (WIDTH - LEFT - RIGHT);
    let y = |it: f64| HEIGHT - BOTTOM - it / top * (HEIGHT - TOP - BOTTOM);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" role=\"img\" aria-label=\"{label}\">");
    for line in 0..=(top / step).round() as u32 {
        let at = f64::from(line) * step;
        let (y, right) = (y(at), WIDTH - RIGHT);
        let _ = write!(svg, "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"var(--line)\"/>");
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{at}</text>", LEFT - 6.0, y + 4.0);
    }
    for (run, limit) in runs.iter().zip(&limits) {
        let (x, y) = (x(*limit), HEIGHT - BOTTOM + 16.0);
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", run.limit);
    }
    let _ = write!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">{label}, by limit</text>", HEIGHT - 4.0);
    for (line, (policy, _)) in runs[0].all().enumerate() {
        let (colour, dash) =
            if line == 0 { ("var(--ink)", "6 4") } else { (COLOURS[(line - 1) % COLOURS.len()], "none") };
        let points: Vec<(f64, f64, f64)> = runs
            .iter()
            .zip(&limits)
            .filter_map(|(run, limit)| {
                let value = value(run.figures(policy)?);
                Some((x(*limit), y(value), value))
            })
            .collect();
        let path: String = points.iter().map(|(x, y, _)| format!("{x:.1},{y:.1} ")).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
        );
        for (x, y, value) in points {
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{policy}: {value:.2}</title></circle>"
            );
        }
        let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 10.0 + 18.0 * line as f64);
        let _ = write!(svg, "<rect x=\"{x}\" y=\"{:.1}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>", y - 6.0);
        let _ = write!(svg, "<text x=\"{}\" y=\"{y:.1}\">{policy}</text>", x + 20.0);
    }
    svg + "</svg>"
}

/// Round steps, four to ten of them, and the top of the axis.
fn scale(most: f64) -> (f64, f64) {
    let most = most.max(1.0);
    let power = 10_f64.powf(most.log10().floor());
    let step = [0.1, 0.2, 0.25, 0.5, 1.0, 2.0].map(|it| it * power).into_iter().find(|step| most / step <= 8.0);
    let step = step.unwrap_or(power * 2.0);
    (step, (most / step).ceil() * step)
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
