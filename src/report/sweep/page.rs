//! `sweep.html`: the answer, the plot, what matters most, and all points.

use super::effects::{Effect, Placed, effects, ranked};
use super::info::SweepInfo;
use super::levels::Axis;
use super::listing::Listing;
use super::plot::{chosen_plot, sweep_plot};
use super::row::{PointRow, Status};
use super::sentence::sweep_sentence;
use super::table::value_text;
use super::text::change;
use crate::ReportError;
use crate::html::{drawing, page};
use crate::metrics::{is_less_better, label};
use crate::numbers::grouped;
use maud::{Markup, PreEscaped, html};

const STYLE: &str = include_str!("../html/assets/sweep.css");
const SCRIPT: &str = include_str!("../html/assets/sweep.js");

/// More rows than so many are in points.csv alone.
const ROWS: usize = 2000;
/// More points without results than so many are in points.csv alone.
const FAILURES: usize = 500;
/// An axis with more values is filtered by what is typed.
const CHOICES: usize = 60;

/// The whole page; it needs no other file.
///
/// # Errors
/// What drawing gives, or a spec that JSON cannot hold.
pub fn sweep_page(info: &SweepInfo, points: &[PointRow]) -> Result<String, ReportError> {
    let rows = ranked(points, &info.objective);
    let listing = Listing::of(info, points, &rows);
    let effects = effects(&info.axes, points, &info.objective);
    let spec = serde_json::to_string_pretty(&info.spec).map_err(|source| ReportError::Json {
        what: "the sweep",
        source,
    })?;
    // A name that is none is refused before a sweep runs; a page is not worth less without its plot.
    let plot = sweep_plot(info, points, &chosen_plot(info, points), &[]).unwrap_or(None);
    let plot = plot.map(|plot| plot.svg()).transpose()?;
    let count = points.len() as u64;
    let body = html! {
        style { (PreEscaped(STYLE)) }
        header {
            h1 { (info.title) }
            p {
                (grouped(count)) @if count == 1 { " point" } @else { " points" }
                @if let Some(shard) = info.shard { " of shard " (shard.index) "/" (shard.of) }
                @if !listing.axes.is_empty() { " over " (names(&listing.axes)) }
                @if !listing.same.is_empty() { "; in all: " (listing.same.join(", ")) }
            }
        }
        section.answer {
            p.lead { (sweep_sentence(info, points)) }
            @if let Some(builds) = info.builds(points) { p { (builds) "." } }
        }
        @if let Some(svg) = &plot {
            section {
                h2 { "Plot" span.aside { "others: fabricsim sweep plot" } }
                figure.plot { (drawing(svg)) }
            }
        }
        (tornado(info, &effects))
        (table(info, &listing, &rows))
        (failures(&listing, points))
        section {
            h2 { "Spec" }
            details { summary { "The sweep as it was run" } pre { code { (spec) } } }
        }
        footer { "fabricsim " (info.version) ". GB/s is 10⁹ bytes per second, GiB is 2³⁰ bytes; k, M and B are powers of 1000." }
    };
    Ok(page(&info.title, &body, &[SCRIPT]))
}

fn names(axes: &[Axis]) -> String {
    let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    names.join(", ")
}

/// A bar to the left and one to the right of 1 for each axis.
fn tornado(info: &SweepInfo, effects: &[Effect]) -> Markup {
    let weight = |effect: &Effect| effect.ends().map(|(_, ratio)| ratio.ln().abs());
    let most = effects.iter().flat_map(weight).fold(0.01, f64::max);
    let less = is_less_better(&info.objective);
    let width = |ratio: f64| format!("width:{:.2}%", 100.0 * ratio.ln().abs() / most);
    let tone = |lower: bool| if lower == less { "better" } else { "worse" };
    html! {
        @if !effects.is_empty() {
            section {
                h2 { "What matters most" span.aside { (label(&info.objective)) " at the lowest and the highest value, all other axes held" } }
                div.tornado {
                    @for effect in effects {
                        @let [low, high] = effect.ends();
                        div.axis {
                            span.name { (effect.axis) span.beside { "beside " (effect.from.shown()) @if let Some(why) = effect.why_none() { ": nothing changes, " (why) } } }
                            span.end.low { @if low.1 < 1.0 { b { (low.0.shown()) } " " (change(low.1)) } }
                            span.lane.low { span class=(tone(true)) style=(width(low.1)) {} }
                            span.lane.high { span class=(tone(false)) style=(width(high.1)) {} }
                            span.end.high { @if high.1 > 1.0 { b { (high.0.shown()) } " " (change(high.1)) } }
                        }
                    }
                }
                ul.legend { li { span.swatch.better {} "better" } li { span.swatch.worse {} "worse" } li { "bars grow by the logarithm" } }
            }
        }
    }
}

/// What a column sorts by.
fn sorts(text: &str, number: Option<f64>) -> Markup {
    match number {
        Some(number) => html! { td.number data-v=(number) { (text) } },
        None => html! { td { (text) } },
    }
}

fn axis_cell(axis: &Axis, value: Option<&serde_json::Value>, shown: &str) -> Markup {
    let level = value.and_then(|value| axis.levels.iter().find(|l| l.text == value_text(value)));
    sorts(
        shown,
        level.and_then(|level| level.number).map(|number| number.1),
    )
}

fn table(info: &SweepInfo, listing: &Listing<'_>, rows: &[Placed<'_>]) -> Markup {
    let shown = &rows[..rows.len().min(ROWS)];
    html! {
        @if !rows.is_empty() {
            section.points {
                h2 { "Points" span.aside { "best first by " (label(&info.objective)) "; a heading sorts" } }
                @if rows.len() > shown.len() {
                    p.note { "The best " (grouped(ROWS as u64)) " of " (grouped(rows.len() as u64)) " rows; all are in points.csv." }
                }
                (filters(&listing.axes))
                div.scroll tabindex="0" {
                    table.rows {
                        thead { tr {
                            @for axis in &listing.axes { th.number[axis.kind().is_some()] { (axis.name) } }
                            @if listing.gpus { th.number { "GPUs" } }
                            @for metric in &listing.metrics { th.number { (label(metric)) } }
                            th { "limited by" }
                        } }
                        tbody {
                            @for placed in shown {
                                tr.unfit[placed.row.metrics.fits == Some(false)] {
                                    @for axis in &listing.axes {
                                        (axis_cell(axis, placed.point.values.get(&axis.name), &Listing::level(axis, placed)))
                                    }
                                    @if listing.gpus { (sorts(&placed.row.gpus.to_string(), Some(placed.row.gpus.into()))) }
                                    @for metric in &listing.metrics {
                                        (sorts(&Listing::number(metric, placed), placed.row.metrics.number(metric)))
                                    }
                                    td { (Listing::cause(placed)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A field for each axis, which the script shows.
fn filters(axes: &[Axis]) -> Markup {
    html! {
        div.filters.screen hidden {
            @for (column, axis) in axes.iter().enumerate() {
                label {
                    span { (axis.name) }
                    @if axis.levels.len() <= CHOICES {
                        select data-column=(column) {
                            option value="" { "all" }
                            @for level in &axis.levels { option value=(level.shown()) { (level.shown()) } }
                        }
                    } @else {
                        input type="text" data-column=(column) placeholder="part of it";
                    }
                }
            }
            span.count role="status" {}
            button type="button" { "Show all" }
        }
    }
}

fn failures(listing: &Listing<'_>, points: &[PointRow]) -> Markup {
    let without: Vec<&PointRow> = points.iter().filter(|p| p.status != Status::Done).collect();
    let shown = &without[..without.len().min(FAILURES)];
    html! {
        @if !without.is_empty() {
            section.failed {
                h2 { "Without results" span.aside { (without.len()) " of " (points.len()) " points" } }
                @if without.len() > shown.len() { p.note { "The first " (FAILURES) " of them; all are in points.csv." } }
                div.scroll tabindex="0" {
                    table.reasons {
                        thead { tr { @for axis in &listing.axes { th.number[axis.kind().is_some()] { (axis.name) } } th {} th { "why" } } }
                        tbody {
                            @for point in shown {
                                tr {
                                    @for axis in &listing.axes {
                                        @let value = point.values.get(&axis.name);
                                        (axis_cell(axis, value, &value.map_or_else(String::new, super::levels::shown)))
                                    }
                                    td { (point.status.name()) }
                                    td.why { (point.why.as_deref().unwrap_or_default()) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
