//! Small plots below each other over one axis of time, as SVG.

use crate::chart::Axis;
use crate::numbers::trimmed;
use fabricsim_units::text::xml;
use maud::{Markup, html};
use std::fmt::Write;

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 1088.0;
/// Height of a plot, and from one to the next.
const HEIGHT: f64 = 96.0;
const PITCH: f64 = 142.0;
const TOP: f64 = 74.0;
const INK: &str = "#1F2328";
const MUTED: &str = "#575D66";
const GRID: &str = "#D9DDE3";

/// Several plots.
pub(super) struct Panels {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) panels: Vec<Panel>,
    /// Where the axis of time ends, seconds.
    pub(super) end: f64,
    /// Lines of text below.
    pub(super) notes: Vec<String>,
}

/// One of them.
pub(super) struct Panel {
    /// What it shows, with its unit.
    pub(super) title: String,
    pub(super) lines: Vec<Line>,
    /// What its axis reaches at least.
    pub(super) least: f64,
}

/// A curve.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) colour: &'static str,
    pub(super) dashed: bool,
    /// Seconds and values.
    pub(super) points: Vec<(f64, f64)>,
    /// From the least to the largest of all that the curve is the mean of: seconds, both.
    pub(super) band: Vec<(f64, f64, f64)>,
}

impl Panels {
    pub(super) fn svg(&self) -> String {
        let below = TOP + PITCH * self.panels.len() as f64 + 22.0;
        let height = below + 16.0 * self.notes.len() as f64 + 10.0;
        // A unit in which times have few digits.
        let (per_second, unit) = match self.end {
            end if end < 2e-3 => (1e6, "µs"),
            end if end < 2.0 => (1e3, "ms"),
            _ => (1.0, "s"),
        };
        let time = Axis::linear_to("", self.end * per_second);
        let place = |at: f64| LEFT + (RIGHT - LEFT) * at / self.end.max(f64::MIN_POSITIVE);
        let marks: Vec<(f64, &str)> = time.marks(10).collect();
        let marks: Vec<(f64, String)> = marks
            .into_iter()
            .map(|(part, text)| (LEFT + (RIGHT - LEFT) * part, text.to_owned()))
            .collect();
        let drawing = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height}"))
                width=(WIDTH) height=(height) font-family="sans-serif" font-size="12" fill=(INK) {
                rect width="100%" height="100%" fill="#FFFFFF" {}
                text x="24" y="34" font-size="20" { (self.title) }
                text x="24" y="54" font-size="13" fill=(MUTED) { (self.subtitle) }
                @for (index, panel) in self.panels.iter().enumerate() {
                    g transform=(format!("translate(0 {})", TOP + PITCH * index as f64)) {
                        (panel.draw(&place, &marks))
                    }
                }
                g transform=(format!("translate(0 {})", TOP + PITCH * self.panels.len() as f64)) fill=(MUTED) text-anchor="middle" {
                    @for (at, text) in &marks { text x=(number(*at)) y="0" { (text) } }
                    text x=(number((LEFT + RIGHT) / 2.0)) y="18" { "time, " (unit) }
                }
                @for (index, note) in self.notes.iter().enumerate() {
                    text x="24" y=(number(below + 14.0 + 16.0 * index as f64)) fill=(MUTED) { (note) }
                }
            }
        };
        xml(&drawing.into_string()).into_owned() + "\n"
    }
}

impl Panel {
    fn draw(&self, place: &impl Fn(f64) -> f64, marks: &[(f64, String)]) -> Markup {
        let values = self.lines.iter().flat_map(|line| {
            let means = line.points.iter().map(|point| point.1);
            means.chain(line.band.iter().map(|band| band.2))
        });
        let axis = Axis::linear("", values.fold(self.least, f64::max));
        let (top, bottom) = (26.0, 26.0 + HEIGHT);
        let level = |value: f64| bottom - HEIGHT * axis.fraction(value).unwrap_or(0.0).min(1.0);
        let values: Vec<(f64, &str)> = axis.marks(4).collect();
        let mut from = RIGHT;
        let mut legend: Vec<(f64, &Line)> = Vec::new();
        for line in self.lines.iter().rev() {
            from -= 34.0 + 7.0 * line.label.chars().count() as f64;
            legend.push((from, line));
        }
        html! {
            text x=(LEFT) y="16" font-size="13" font-weight="bold" { (self.title) }
            @for (at, line) in &legend {
                path d=(format!("M{} 12h18", number(*at))) stroke=(line.colour) stroke-width="2.5"
                    stroke-dasharray=[line.dashed.then_some("5 3")] {}
                text x=(number(at + 23.0)) y="16" fill=(MUTED) { (line.label) }
            }
            @for (at, _) in marks {
                path d=(format!("M{} {top}V{bottom}", number(*at))) stroke=(GRID) stroke-width="0.6" {}
            }
            @for (part, text) in values {
                @let y = bottom - HEIGHT * part;
                path d=(format!("M{LEFT} {}H{RIGHT}", number(y))) stroke=(GRID) {}
                text x=(LEFT - 8.0) y=(number(y + 4.0)) text-anchor="end" fill=(MUTED) { (text) }
            }
            @for line in &self.lines {
                @if !line.band.is_empty() {
                    path d=(line.outline(place, level)) fill=(line.colour) fill-opacity="0.22" {}
                }
            }
            @for line in &self.lines {
                path d=(line.curve(place, level)) fill="none" stroke=(line.colour) stroke-width="1.8"
                    stroke-linejoin="round" stroke-dasharray=[line.dashed.then_some("6 3")] {}
            }
        }
    }
}

impl Line {
    fn curve(&self, place: &impl Fn(f64) -> f64, level: impl Fn(f64) -> f64) -> String {
        let mut path = String::new();
        for (index, &(at, value)) in self.points.iter().enumerate() {
            let pen = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{pen}{} {}", number(place(at)), number(level(value)));
        }
        path
    }

    fn outline(&self, place: &impl Fn(f64) -> f64, level: impl Fn(f64) -> f64) -> String {
        let highest = self.band.iter().map(|&(at, _, high)| (at, high));
        let lowest = self.band.iter().rev().map(|&(at, low, _)| (at, low));
        let mut path = String::new();
        for (index, (at, value)) in highest.chain(lowest).enumerate() {
            let pen = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{pen}{} {}", number(place(at)), number(level(value)));
        }
        path + "Z"
    }
}

fn number(value: f64) -> String {
    trimmed(value, 2)
}
