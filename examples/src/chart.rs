//! Pages that stand alone: what the tools that draw share. SVG and a little style in one file, nothing fetched from anywhere.

use std::fmt::Write;

/// Of a plot of lines, with its margins.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;

/// Of a row of bars, and of its label and its number.
const ROW: f64 = 20.0;
const LABEL: f64 = 170.0;
const NUMBER: f64 = 70.0;

/// Colours that can be told apart, on light and dark.
pub const COLOURS: [&str; 12] = [
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0",
    "#d1495b", "#2e7d6b",
];

const STYLE: &str = "
:root { color-scheme: light dark; --ink: light-dark(#222, #ddd); --line: light-dark(#ddd, #444); --soft: light-dark(#666, #aaa) }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 82rem; margin: 2rem auto; padding: 0 1rem }
.pair { display: flex; flex-wrap: wrap; gap: 1rem }
svg { max-width: 100%; height: auto; font: 11px system-ui, sans-serif } svg text { fill: var(--ink) }
table { border-collapse: collapse; margin: 1rem 0 2rem } td, th { padding: .15rem .7rem; border-bottom: 1px solid var(--line) }
td { text-align: right; font-variant-numeric: tabular-nums } th { text-align: left; font-weight: 500 }
";

/// A whole page. `style` is added to that of all pages; `body` follows the heading.
#[must_use]
pub fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">
<title>{title}</title>
<style>{STYLE}{style}</style></head><body>
<h1>{title}</h1>
{body}</body></html>
"
    )
}

/// Text, made safe for a page.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A line of a plot.
#[derive(Debug)]
pub struct Series<'a> {
    /// What the legend calls it.
    pub name: &'a str,
    /// Its colour; `None`: the ink of the text, with dashes.
    pub colour: Option<&'a str>,
    /// Where it goes.
    pub points: Vec<(f64, f64)>,
}

/// Lines over marks of an axis from left to right, with a legend. The axis of the values begins at zero.
#[must_use]
pub fn lines(label: &str, axis: &str, marks: &[(f64, String)], lines: &[Series<'_>]) -> String {
    let (low, high) = marks.iter().fold((f64::MAX, f64::MIN), |(low, high), (at, _)| (low.min(*at), high.max(*at)));
    let values = lines.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
    let (step, top) = scale(values.fold(0.0, f64::max));
    let x = |at: f64| LEFT + if high > low { (at - low) / (high - low) } else { 0.5 } * (WIDTH - LEFT - RIGHT);
    let y = |it: f64| HEIGHT - BOTTOM - it / top * (HEIGHT - TOP - BOTTOM);
    let mut svg = begin(WIDTH, HEIGHT, label);
    for line in 0..=(top / step).round() as u32 {
        let at = f64::from(line) * step;
        let (y, right) = (y(at), WIDTH - RIGHT);
        let _ = write!(svg, "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"var(--line)\"/>");
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{at}</text>", LEFT - 6.0, y + 4.0);
    }
    for (at, text) in marks {
        let (x, y) = (x(*at), HEIGHT - BOTTOM + 16.0);
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>");
    }
    let _ = write!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">{label}, {axis}</text>", HEIGHT - 4.0);
    for (line, Series { name, colour, points }) in lines.iter().enumerate() {
        let (colour, dash) = colour.map_or(("var(--ink)", "6 4"), |colour| (colour, "none"));
        let points: Vec<_> = points.iter().map(|(at, value)| (x(*at), y(*value), *value)).collect();
        let path: String = points.iter().map(|(x, y, _)| format!("{x:.1},{y:.1} ")).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
        );
        for (x, y, value) in points {
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{name}: {value:.2}</title></circle>"
            );
        }
        let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 10.0 + 18.0 * line as f64);
        let _ = write!(svg, "<rect x=\"{x}\" y=\"{:.1}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>", y - 6.0);
        let _ = write!(svg, "<text x=\"{}\" y=\"{y:.1}\">{name}</text>", x + 20.0);
    }
    svg + "</svg>"
}

/// A bar.
#[derive(Debug)]
pub struct Bar<'a> {
    /// What stands before it.
    pub name: &'a str,
    /// Its colour.
    pub colour: &'a str,
    /// How long it is.
    pub value: f64,
    /// What stands behind it.
    pub text: String,
}

/// Bars from left to right, each with its name before and its number behind it. They are drawn up to `most`, which a longer
/// one is shown to pass; a line marks the value `best`.
#[must_use]
pub fn bars(label: &str, width: f64, (best, most): (f64, f64), bars: &[Bar<'_>]) -> String {
    let height = ROW * bars.len() as f64 + 8.0;
    let room = width - LABEL - NUMBER;
    let mut svg = begin(width, height, label);
    for (row, Bar { name, colour, value, text }) in bars.iter().enumerate() {
        let top = 4.0 + ROW * row as f64;
        let (length, middle) = ((value / most).clamp(0.0, 1.0) * room, top + 13.0);
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{name}</text>", LABEL - 8.0);
        let _ = write!(
            svg,
            "<rect x=\"{LABEL}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" fill=\"{colour}\"><title>{name}: {text}</title></rect>",
            top + 3.0,
            length.max(1.0),
            ROW - 6.0
        );
        let (end, past) = (LABEL + length + 6.0, if *value > most { "\u{bb} " } else { "" });
        let _ = write!(svg, "<text x=\"{end:.1}\" y=\"{middle:.1}\">{past}{text}</text>");
    }
    let x = LABEL + best / most * room;
    let _ = write!(
        svg,
        "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{height:.1}\" stroke=\"var(--ink)\" stroke-dasharray=\"2 3\"/>"
    );
    svg + "</svg>"
}

/// The beginning of a picture; `</svg>` ends it.
#[must_use]
pub fn begin(width: f64, height: f64, label: &str) -> String {
    format!("<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" aria-label=\"{label}\">")
}

/// Round steps, four to ten of them, and the top of the axis.
fn scale(most: f64) -> (f64, f64) {
    let most = most.max(1.0);
    let power = 10_f64.powf(most.log10().floor());
    let step = [0.1, 0.2, 0.25, 0.5, 1.0, 2.0].map(|it| it * power).into_iter().find(|step| most / step <= 8.0);
    let step = step.unwrap_or(power * 2.0);
    (step, (most / step).ceil() * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_four_to_ten_round_steps() {
        for most in [1.0, 1.3, 2.0, 7.5, 42.0, 99.0, 100.0, 12_345.0] {
            let (step, top) = scale(most);
            assert!((4.0..=10.0).contains(&(top / step).round()) && top >= most, "{most}: {step}, {top}");
        }
    }

    #[test]
    fn a_bar_that_is_too_long_says_so() {
        let bar = |value| Bar { name: "it", colour: "red", value, text: "five".into() };
        assert!(!bars("", 400.0, (1.0, 5.0), &[bar(5.0)]).contains('\u{bb}'));
        assert!(bars("", 400.0, (1.0, 4.0), &[bar(5.0)]).contains('\u{bb}'));
    }
}
