//! A search's result as a page.

use super::listing::{self, Cell, Listing};
use super::scatter;
use super::{Choice, Optimized, Reason, Rejected};
use crate::ReportError;
use crate::html::{drawing, page, tile};
use crate::metrics::{Metrics, label, shown};
use crate::numbers::{grouped, micros, three_digits};
use maud::{Markup, PreEscaped, html};

pub(super) const STYLE: &str = include_str!("../html/assets/sweep.css");
pub(super) const SCRIPT: &str = include_str!("../html/assets/sweep.js");

/// More layouts than so many are not listed.
const ROWS: usize = 500;

/// The whole page; it needs no other file.
///
/// # Errors
/// What drawing gives, or a scenario that JSON cannot hold.
pub fn optimized_page(found: &Optimized) -> Result<String, ReportError> {
    let mut plots = Vec::new();
    for against in ["usd_per_mtok", "memory_gib"] {
        plots.extend(scatter::layouts(found, against)?);
    }
    let ranked = ranked(found);
    let scenario = found.best.first().map(|best| {
        serde_json::to_string_pretty(&best.scenario).map_err(|source| ReportError::Json {
            what: "the scenario of the best",
            source,
        })
    });
    let scenario = scenario.transpose()?;
    let firsts = found.firsts().into_iter();
    let best: Vec<(&str, u32, &Metrics)> = firsts
        .map(|choice| (choice.topology.as_str(), choice.gpus, &choice.metrics))
        .collect();
    let body = html! {
        style { (PreEscaped(STYLE)) }
        header {
            h1 { (found.title) }
            p { (grouped(found.simulated)) " simulated of " (grouped(found.searched)) ", best first by " (label(&found.objective)) }
        }
        (answer(&found.answer, &best, &TILES))
        @if !found.tried.is_empty() {
            section {
                h2 { "Numbers of GPUs that were tried" }
                (table(&listing::tried(&found.tried)))
            }
        }
        @if !plots.is_empty() {
            section {
                h2 { "What more speed takes" }
                div.plots { @for svg in &plots { figure.plot { (drawing(svg)) } } }
            }
        }
        @if !found.clusters.is_empty() {
            section {
                h2 { "GPUs and networks" span.aside { "each with its best layout" } }
                (table(&listing::clusters(found)))
            }
        }
        @if !ranked.is_empty() { (layouts(found, &ranked)) }
        (ledger(found))
        @if !found.flips.is_empty() {
            section {
                h2 { "What would change the choice" }
                ul { @for flip in &found.flips { li { (listing::sentence(flip)) } } }
            }
        }
        @if let Some(room) = &found.headroom {
            section {
                h2 { "Headroom of the best" }
                ul { @for line in listing::headroom(room) { li { (line) } } }
            }
        }
        @if let Some(scenario) = &scenario {
            section {
                h2 { "Scenario of the best" }
                details { summary { "A file for fabricsim run" } pre { code { (scenario) } } }
            }
        }
        footer { "fabricsim " (found.version) ". GiB is 2³⁰ bytes; k, M and B are powers of 1000." }
    };
    Ok(page(&found.title, &body, &[SCRIPT]))
}

/// All that were simulated, the best first.
fn ranked(found: &Optimized) -> Vec<Choice> {
    let worth = |choice: &Choice| choice.metrics.worth(&found.objective);
    let mut all = found.all.clone();
    all.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    all
}

/// Numbers of the best of each machine, with what they are of.
const TILES: [(&str, &str); 7] = [
    ("tokens_per_s_per_gpu", "of each GPU"),
    ("tokens_per_s", "of the whole job"),
    ("time_us", "a step"),
    ("mfu", "of the GPUs' peak"),
    ("memory_gib", "of the fullest GPU"),
    ("usd_per_mtok", "by hours of GPUs"),
    ("kw", "the machine at full load"),
];

/// The answer, and numbers of the best of each machine.
pub(super) fn answer(
    text: &str,
    best: &[(&str, u32, &Metrics)],
    of: &[(&'static str, &str)],
) -> Markup {
    // The first sentence is the answer, the others are what it rests on.
    let (lead, more) = match text.split_once(". ") {
        Some((lead, more)) => (format!("{lead}."), more),
        None => (text.to_owned(), ""),
    };
    html! {
        section.answer {
            p.lead { (lead) }
            @if !more.is_empty() { p { (more) } }
            @for (machine, gpus, metrics) in best {
                h3 { (machine) span.aside { (grouped(u64::from(*gpus))) " GPUs" } }
                div.tiles {
                    @for (name, note) in of {
                        @if let Some(value) = metrics.number(name) { (tile(label(name), &shown(name, value), note)) }
                    }
                }
            }
        }
    }
}

fn cell(of: &Cell) -> Markup {
    match of.number {
        Some(number) => html! { td.number data-v=(number) { (of.text) } },
        None => html! { td.words { (of.text) } },
    }
}

pub(super) fn table(listing: &Listing) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table.rows.layouts {
                thead { tr { @for (name, numbers) in &listing.columns { th.number[*numbers] { (name) } } } }
                tbody {
                    @for row in &listing.rows { tr.traced[row.tied] { @for of in &row.cells { (cell(of)) } } }
                }
            }
        }
    }
}

fn layouts(found: &Optimized, ranked: &[Choice]) -> Markup {
    let rows = &ranked[..ranked.len().min(ROWS)];
    html! {
        section.points {
            h2 { "Layouts" span.aside { "all that were simulated; a heading sorts" } }
            @if ranked.len() > rows.len() {
                p.note { "The best " (grouped(ROWS as u64)) " of " (grouped(ranked.len() as u64)) "." }
            }
            div.filters.screen hidden { span.count role="status" {} button type="button" { "Show all" } }
            (table(&listing::choices(found, rows)))
            @if let Some(line) = listing::as_good(found, rows) { p.note { (line) } }
        }
    }
}

fn ledger(found: &Optimized) -> Markup {
    html! {
        section {
            h2 { "What was searched" }
            (counts(listing::ledger(found)))
            @if !found.rejected.is_empty() {
                h3 { "The most promising of those that cannot be run" }
                div.scroll tabindex="0" {
                    table.layouts {
                        thead { tr { th { "machine" } th { "layout" } th { "why" } th.number { "step, at least" } } }
                        tbody {
                            @for rejected in &found.rejected {
                                tr {
                                    td { (rejected.topology) }
                                    td.words { (rejected.layout()) }
                                    td { (why(rejected)) }
                                    td.number { (rejected.step_bound_us.map_or_else(String::new, micros)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What was searched, with how many.
pub(super) fn counts(rows: Vec<(u64, String)>) -> Markup {
    html! {
        div.scroll {
            table.layouts {
                tbody {
                    @for (count, what) in rows { tr { td.number { (grouped(count)) } td.words { (what) } } }
                }
            }
        }
    }
}

fn why(rejected: &Rejected) -> String {
    match rejected.memory_gib.zip(rejected.memory_capacity_gib) {
        Some((needs, has)) => format!("needs {} GiB of {}", three_digits(needs), three_digits(has)),
        None if rejected.why == Reason::Refused => "NCCL or the job refuses it".to_owned(),
        None => rejected.why.text().to_owned(),
    }
}
