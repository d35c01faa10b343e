//! `report.html` of a training job and of several variants: the answer first, then what it rests on,
//! then the spec.

use super::cause_bars::cause_bars;
use super::collectives::better_choices;
use super::job_view::{OnPage, view};
use super::measures::measures_of;
use super::one_axis::timelines;
use super::table::ComparisonTable;
use super::waterfall_bars::waterfall_bars;
use crate::ReportError;
use crate::chart::draw_svg;
use crate::finite::check_finite;
use crate::html::{JOBS_STYLE, SCRIPT, drawing, page};
use crate::lines::{Whole, order};
use crate::numbers::seconds;
use crate::plot;
use crate::results::Results;
use crate::serving;
use crate::summary::{Summary, Variant};
use crate::training::share_bars::{Bar, Colours, bars};
use crate::training::{self, failures, page_described as described, ran, tiles, unsaid};
use maud::{Markup, PreEscaped, html};

/// The whole page of a training job or of several variants of any job; it needs no other file.
///
/// # Errors
/// A number that is not finite, or data that JSON cannot hold.
pub fn variants_page(summary: &Summary, results: &Results) -> Result<String, ReportError> {
    check_finite(summary)?;
    let recorded = results.job_timelines();
    let spec = serde_json::to_string_pretty(&summary.spec).map_err(|source| ReportError::Json {
        what: "the spec",
        source,
    })?;
    let of_name = |name: &Option<String>| {
        let mut all = summary.variants.iter();
        all.position(|v| Some(&v.name) == name.as_ref())
    };
    let best = of_name(&summary.best);
    let several = summary.variants.len() > 1;
    let mut details = Vec::new();
    for index in order(&summary.variants) {
        let variant = &summary.variants[index];
        let found = recorded.iter().find(|(name, _)| *name == variant.name);
        // Of a single variant it does not matter what its timeline is called.
        let found = found.or_else(|| recorded.first().filter(|_| !several));
        let timeline = found.map(|(_, timeline)| *timeline);
        let zoomed = best == Some(index) || summary.baseline.as_ref() == Some(&variant.name);
        let shown = OnPage {
            results,
            variant,
            timeline,
            several,
            is_best: best == Some(index),
            zoomed,
        };
        details.push(view(&variant.job).details(shown)?);
    }
    let body = html! {
        style { (PreEscaped(JOBS_STYLE)) }
        (heading(summary))
        (answer(summary, best))
        @if !summary.warnings.is_empty() {
            section.warnings {
                h2 { "To keep in mind" }
                ul { @for warning in &summary.warnings { li { (warning) } } }
            }
        }
        (failures(&summary.variants))
        @if several { (measures_of(summary)) (comparison(summary)) (curves(summary)?) (cause_bars(summary)) (timelines(summary, results)?) (waterfall_bars(&summary.waterfall)) }
        @for markup in &details { (markup) }
        section {
            h2 { "Spec" }
            details open[spec.len() < 4000] { summary { "The scenario as it was run" } pre { code { (spec) } } }
        }
        footer {
            "fabricsim " (summary.version) ", seed " (summary.seed)
            ". GB/s is 10⁹ bytes per second, GiB is 2³⁰ bytes; k, M and B are powers of 1000."
        }
    };
    Ok(page(&summary.title, &body, &[SCRIPT]))
}

fn heading(summary: &Summary) -> Markup {
    html! {
        header {
            h1 { (summary.title) }
            @if let [one] = summary.variants.as_slice() {
                p { (described(one)) }
            } @else {
                p { (summary.variants.len()) " variants compared" }
            }
        }
    }
}

fn answer(summary: &Summary, best: Option<usize>) -> Markup {
    let shown = best.and_then(|index| {
        let variant = summary.variants.get(index)?;
        Some((variant, ran(variant)?))
    });
    html! {
        section.answer {
            @if !summary.answer.is_empty() { p.lead { (summary.answer) } }
            @if let Some((variant, result)) = shown.filter(|(variant, _)| variant.search.is_none()) {
                @if summary.variants.len() > 1 { p { "Of those that fit into memory, " strong { (variant.name) } " has the most tokens per second and GPU:" } }
                (tiles(variant, result))
            }
        }
    }
}

fn comparison(summary: &Summary) -> Markup {
    let table = ComparisonTable::of(summary);
    let variants: Vec<&Variant> = table.columns.iter().map(|c| c.variant).collect();
    let results = || variants.iter().filter_map(|v| Some((*v, ran(v)?)));
    let part = Whole::Time;
    let parts = training::parts(results().map(|(_, result)| result));
    let colours = Colours::of(&parts);
    let slowest = results().map(|(_, r)| r.step_s).fold(0.0, f64::max);
    let shown: Vec<Bar<'_>> = results()
        .map(|(variant, result)| Bar {
            name: variant.name.clone(),
            note: seconds(result.step_s),
            parts: &result.time,
            length: if slowest > 0.0 {
                result.step_s / slowest
            } else {
                1.0
            },
        })
        .collect();
    html! {
        section {
            h2 { "Comparison" @if let Some(what) = table.marked { span.aside { (what) " is marked" } } }
            div.scroll tabindex="0" {
                table.compare.many[variants.len() > 4] {
                    thead { tr { th {} @for column in &table.columns { th.number.unfit[column.is_unfit()] {
                        (column.variant.name)
                        @if column.baseline { span.mark { "baseline" } }
                        @if let Some(short) = column.short { span.mark.bad { (short) } }
                    } } } }
                    tbody {
                        tr { th {} @for column in &table.columns { td.described.unfit[column.is_unfit()] { @if let Some(job) = column.variant.job.training() { (job.layout) br; (job.schedule) br; } (column.variant.topology) } } }
                        @for row in &table.rows {
                            @if let Some(heading) = row.heading { tr { th.heading colspan=(variants.len() + 1) { (heading) } } }
                            tr {
                                th.part[row.part.is_some()] { @if row.part == Some(part) { (colours.named(&row.what)) } @else { (row.what) } }
                                @for (cell, column) in row.cells.iter().zip(&table.columns) {
                                    td.number.good[cell.best].unfit[column.is_unfit()] { (cell.text.as_deref().unwrap_or("–")) }
                                }
                            }
                        }
                    }
                }
            }
            @for choice in better_choices(variants.iter().copied()) { p.note { (choice) } }
            @for variant in &variants {
                @if let Some(text) = unsaid(summary, variant) { p.note { (text) } }
            }
        }
        @if !shown.is_empty() {
            section {
                h2 { "Where a step's time went" span.aside { "an average GPU" } }
                (bars(&shown, &colours, true))
                (colours.legend())
            }
        }
    }
}

/// Bandwidth and time over size of collectives that are compared.
fn curves(summary: &Summary) -> Result<Markup, ReportError> {
    let charts = plot::compared(summary);
    let drawings = charts.iter().map(draw_svg);
    let mut drawings: Vec<String> = drawings.collect::<Result<_, _>>()?;
    drawings.extend(serving::trade_off(&summary.variants)?);
    Ok(html! {
        @if !drawings.is_empty() {
            section {
                h2 { "Plots" }
                div.plots { @for svg in &drawings { figure.plot { (drawing(svg)) } } }
            }
        }
    })
}
