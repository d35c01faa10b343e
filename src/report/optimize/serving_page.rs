//! What a search over ways to serve found, as a page.

use super::page::{SCRIPT, STYLE, answer, counts, table};
use super::{ServingSearch, listing, scatter, serving};
use crate::ReportError;
use crate::html::{drawing, page};
use crate::metrics::{Metrics, label};
use crate::numbers::grouped;
use maud::{PreEscaped, html};

/// Numbers of the best of each machine, with what they are of.
const TILES: [(&str, &str); 9] = [
    ("output_tokens_per_s_per_gpu", "of each GPU"),
    ("output_tokens_per_s_per_user", "that a user sees"),
    ("requests_per_s", "of the whole machine"),
    ("ttft_ms_p50", "half of requests"),
    ("ttft_ms_p99", "99 of 100 requests"),
    ("tpot_ms_p99", "99 of 100 requests"),
    ("slo_share", "of requests"),
    ("usd_per_mtok", "by hours of GPUs"),
    ("kw", "the machine at full load"),
];

/// The whole page; it needs no other file.
///
/// # Errors
/// What drawing gives, or a scenario that JSON cannot hold.
pub fn serving_search_page(found: &ServingSearch) -> Result<String, ReportError> {
    let plot = scatter::ways(found)?;
    let firsts = found.firsts().into_iter();
    let best: Vec<(&str, u32, &Metrics)> = firsts
        .map(|choice| (choice.topology.as_str(), choice.gpus, &choice.metrics))
        .collect();
    let scenario = found.best.first().map(|best| {
        serde_json::to_string_pretty(&best.scenario).map_err(|source| ReportError::Json {
            what: "the scenario of the best",
            source,
        })
    });
    let scenario = scenario.transpose()?;
    let objective = found.objective.as_str();
    let body = html! {
        style { (PreEscaped(STYLE)) }
        header {
            h1 { (found.title) }
            p { (grouped(found.simulated)) " simulated of " (grouped(found.searched)) ", best first by " (label(objective)) }
        }
        (answer(&found.answer, &best, &TILES))
        @if let Some(svg) = &plot {
            section {
                h2 { "What a user and a GPU get" }
                div.plots { figure.plot { (drawing(svg)) } }
            }
        }
        @for (heading, choices) in [("The best of each machine", &found.best), ("The front", &found.pareto)] {
            @if !choices.is_empty() {
                section.points {
                    h2 { (heading) }
                    (table(&serving::choices(objective, choices)))
                }
            }
        }
        @if !found.tried.is_empty() {
            section {
                h2 { "Numbers of GPUs that were tried" }
                (table(&listing::tried(&found.tried)))
            }
        }
        section {
            h2 { "What was searched" }
            (counts(serving::ledger(found)))
            @if !found.rejected.is_empty() {
                h3 { "Left out" }
                ul { @for line in serving::left_out(found) { li { (line) } } }
            }
        }
        @if let Some(scenario) = &scenario {
            section {
                h2 { "Scenario of the best" }
                details { summary { "A file for fabricsim run" } pre { code { (scenario) } } }
            }
        }
        footer { "fabricsim " (found.version) ". k, M and B are powers of 1000." }
    };
    Ok(page(&found.title, &body, &[SCRIPT]))
}
