//! `report.html`: a run as one page, for a reader who was not there.

mod page;
mod parts;
mod time_bars;
mod timeline_view;

pub use page::{JOBS_STYLE, STYLE, data, drawing, page};
pub use parts::{Parts, collective_parts, training_parts};
pub use timeline_view::SCRIPT;
use timeline_view::Shown;
pub(super) use timeline_view::{Data, Lane, begin, canvas};

use super::columns::slower;
use super::numbers::{grouped, micros, percent, size, three_digits};
use super::record::{CollectiveResult, Row, Timeline};
use super::recorded::{link_count, with_others};
use super::results::Results;
use super::summary::{CollectiveView, Variant};
use super::table::busiest;
use super::{ReportError, plot};
use maud::{Markup, html};

/// Links that the page lists: enough to see who is busy, few enough to read.
const MOST_LINKS: usize = 24;

/// The page: the answer first, then what it rests on, then the spec. `topology_svg` is a
/// drawing to be set into it.
///
/// # Errors
/// Plots that cannot be drawn, or data that JSON cannot hold.
pub fn report(
    view: CollectiveView<'_>,
    timeline: &Timeline,
    topology_svg: Option<&str>,
) -> Result<String, ReportError> {
    let plots = plot::all_svg(view, timeline)?;
    let timeline_view = timeline_view::view(timeline, &Shown::IN_REPORT)?;
    let spec =
        serde_json::to_string_pretty(&view.summary.spec).map_err(|source| ReportError::Json {
            what: "the spec",
            source,
        })?;
    let body = html! {
        (heading(view))
        (answer(view))
        @if !view.result.faults.is_empty() {
            section {
                h2 { "What goes wrong" }
                ul { @for (index, fault) in view.result.faults.iter().enumerate() { li { (fault) (price_of(view, index)) } } }
            }
        }
        @if !view.summary.warnings.is_empty() {
            section.warnings {
                h2 { "To keep in mind" }
                ul { @for warning in &view.summary.warnings { li { (warning) } } }
            }
        }
        @if !plots.is_empty() {
            section {
                h2 { "Plots" }
                div.plots { @for svg in &plots { figure.plot { (drawing(svg)) } } }
            }
        }
        @if let Some(attribution) = &view.result.attribution {
            section {
                h2 { "Where the time went" }
                (time_bars::bars(attribution))
            }
        }
        section.wide {
            h2 { "Timeline" @if let Some(row) = view.result.traced() { span.aside { "of " (operation(view, row)) } } }
            (timeline_view)
        }
        @if let Some(svg) = topology_svg {
            section {
                h2 { "Topology" span.aside { (view.variant.topology_title) } }
                figure.topology { (drawing(svg)) }
            }
        }
        @if !view.result.links.is_empty() {
            section {
                h2 { "Links" span.aside { "the busiest of " (grouped(carrying(view.result))) " that carried data" } }
                (links(view.result))
            }
        }
        section {
            h2 { "Results" }
            (results(view))
        }
        section {
            h2 { "Spec" }
            details open[spec.len() < 4000] { summary { "The scenario as it was run" } pre { code { (spec) } } }
        }
        footer {
            "fabricsim " (view.summary.version) ", seed " (view.summary.seed)
            ". Rates are per direction; GB/s is 10⁹ bytes per second, MiB is 2²⁰ bytes."
        }
    };
    Ok(page(&view.summary.title, &body, &[timeline_view::SCRIPT]))
}

/// A collective that is one variant of several: its details can be folded away.
pub(super) fn collective_details(
    results: &Results,
    variant: &Variant,
    open: bool,
) -> Result<Markup, ReportError> {
    let Some(result) = variant.job.collective() else {
        return Ok(html! {});
    };
    let view = CollectiveView {
        summary: &results.summary,
        variant,
        result,
    };
    let record = results.collective_record(&variant.name);
    let timeline = record.map(|(timeline, _)| timeline_view::view(timeline, &Shown::IN_REPORT));
    let timeline = timeline.transpose()?;
    Ok(html! {
        section {
            details.variant open[open] {
                summary {
                    (variant.name)
                    @if let Some(row) = result.shown_row() { span.aside { (operation(view, row)) " in " (micros(row.time_us)) } }
                }
                @if !result.bottleneck.is_empty() { p { (result.bottleneck) } }
                @if let Some(attribution) = &result.attribution {
                    h3 { "Where the time went" }
                    (time_bars::bars(attribution))
                }
                @if let Some(timeline) = &timeline { h3 { "Timeline" } (timeline) }
                @if !result.links.is_empty() { h3 { "Links" } (links(result)) }
                h3 { "Results" }
                (self::results(view))
            }
        }
    })
}

/// How many links carried data.
fn carrying(result: &CollectiveResult) -> u64 {
    link_count(&result.links) + result.recorded.map_or(0, |r| r.links_left_out)
}

fn heading(view: CollectiveView<'_>) -> Markup {
    let gpus = match (view.result.ranks, view.variant.nodes) {
        (ranks, 1) => format!("{} GPUs in one node", grouped(u64::from(ranks))),
        (ranks, nodes) => format!(
            "{} GPUs in {} nodes",
            grouped(u64::from(ranks)),
            grouped(u64::from(nodes))
        ),
    };
    html! {
        header {
            h1 { (view.summary.title) }
            p { (view.result.collective) " · " (gpus) " · " (view.variant.topology_title) }
        }
    }
}

fn operation(view: CollectiveView<'_>, row: &Row) -> String {
    format!("{} of {}", view.result.collective, size(row.bytes as f64))
}

/// `An all-reduce`, `A broadcast`.
fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "An"
    } else {
        "A"
    }
}

fn answer(view: CollectiveView<'_>) -> Markup {
    let row = view.result.shown_row();
    html! {
        section.answer {
            @if !view.result.bottleneck.is_empty() { p.lead { (view.result.bottleneck) } }
            @if let Some(row) = row {
                p {
                    (article(&view.result.collective)) " " (operation(view, row)) " takes " strong { (micros(row.time_us)) }
                    ", a bus bandwidth of " strong { (three_digits(row.busbw_gbs)) " GB/s" } "."
                    @if row.bound_us > 0.0 && row.time_us > 0.0 {
                        (bound_sentence(row))
                    }
                }
                (tiles(row))
            }
        }
    }
}

/// The numbers of a row.
#[must_use]
pub fn tiles(row: &Row) -> Markup {
    html! {
        div.tiles {
            (tile("time", &micros(row.time_us), &size(row.bytes as f64)))
            (tile("bus bandwidth", &format!("{} GB/s", three_digits(row.busbw_gbs)), "comparable to a link's rate"))
            (tile("algorithm bandwidth", &format!("{} GB/s", three_digits(row.algbw_gbs)), "size / time"))
            (tile("bound of the machine", &micros(row.bound_us), &reached(row)))
            @if let Some(healthy) = row.healthy_us {
                (tile("without faults", &micros(healthy), &format!("{} with them", slower(row.time_us, healthy))))
            }
            (tile("algorithm", &row.algo, &format!("{}, {} channels", row.proto, row.channels)))
        }
    }
}

/// What no algorithm can beat, and how near this is.
fn bound_sentence(row: &Row) -> Markup {
    let sums_differ = row.bound_plain_us > row.bound_us;
    html! {
        " No algorithm could be faster than " (micros(row.bound_us)) " on this machine"
        @if !row.bound_cut.is_empty() { ", for its bytes have to cross the " (row.bound_cut) }
        "; this is " strong { (percent(row.bound_us / row.time_us)) } " of that bound."
        @if sums_differ {
            " That is with sums in switches; with sums in GPUs alone none could be faster than "
            (micros(row.bound_plain_us)) "."
        }
    }
}

/// What a fault costs the row that is shown.
fn price_of(view: CollectiveView<'_>, index: usize) -> String {
    let row = view.result.shown_row();
    let cost = row.and_then(|row| row.fault_costs.get(index));
    match (row, cost) {
        (Some(row), Some(cost)) => format!(": {}", cost.outcome(row.time_us)),
        _ => String::new(),
    }
}

fn reached(row: &Row) -> String {
    if row.bound_us > 0.0 && row.time_us > 0.0 {
        format!("{} reached", percent(row.bound_us / row.time_us))
    } else {
        "not known".to_owned()
    }
}

pub(crate) fn tile(name: &str, value: &str, note: &str) -> Markup {
    html! { div.tile { span.name { (name) } span.value { (value) } span.note { (note) } } }
}

fn links(result: &CollectiveResult) -> Markup {
    let more = result.links.len().saturating_sub(MOST_LINKS);
    let over_time = match result.recorded {
        None => "has all over time",
        Some(_) => "has the busiest over time",
    };
    html! {
        (links_table(result, MOST_LINKS))
        @if more > 0 {
            p.note { (grouped(more as u64)) " more are in summary.json; links.csv " (over_time) "." }
        }
    }
}

fn links_table(result: &CollectiveResult, most: usize) -> Markup {
    let shown = busiest(&result.links, most);
    html! {
        div.scroll {
            table {
                thead { tr { th { "link" } th { "kind" } th.number { "carried" } th.number { "usable rate" } th.number { "use" } th {} } }
                tbody {
                    @for link in &shown {
                        tr {
                            td { (with_others(link).replace(" > ", " → ")) @if link.faulty { " " strong { "faulty" } } }
                            td { (link.family) }
                            td.number { (size(link.bytes.get() as f64)) }
                            td.number { (three_digits(link.rate.gb_per_sec())) " GB/s" }
                            td.number { (percent(link.utilisation)) }
                            td.meter { span style={ "width:" (format!("{:.1}", link.utilisation.clamp(0.0, 1.0) * 100.0)) "%" } {} }
                        }
                    }
                }
            }
        }
    }
}

fn results(view: CollectiveView<'_>) -> Markup {
    html! {
        div.scroll {
            table.results {
                thead { tr {
                    th.number { "size" } th.number { "time" } th.number { "algbw, GB/s" } th.number { "busbw, GB/s" }
                    th.number { "bound" } th.number { "reached" }
                    @if !view.result.faults.is_empty() { th.number { "without faults" } th.number { "slower" } }
                    th { "algorithm" } th { "protocol" } th.number { "channels" } th { "limited by" }
                } }
                tbody {
                    @for (index, row) in view.result.rows.iter().enumerate() {
                        tr.traced[view.result.traced_row == Some(index)] {
                            td.number title={ (grouped(row.bytes)) " bytes" } { (size(row.bytes as f64)) }
                            td.number { (micros(row.time_us)) }
                            td.number { (three_digits(row.algbw_gbs)) }
                            td.number { b { (three_digits(row.busbw_gbs)) } }
                            td.number { (micros(row.bound_us)) }
                            td.number { @if row.time_us > 0.0 { (percent(row.bound_us / row.time_us)) } }
                            @if let Some(healthy) = row.healthy_us {
                                td.number { (micros(healthy)) } td.number { (slower(row.time_us, healthy)) }
                            } @else if !view.result.faults.is_empty() { td {} td {} }
                            td { (row.algo) } td { (row.proto) } td.number { (row.channels) }
                            td { (row.bottleneck) }
                        }
                    }
                }
            }
        }
        @if view.result.traced_row.is_some() && view.result.rows.len() > 1 {
            p.note { "The marked row is the one that was traced: timeline, links and times are of it." }
        }
    }
}
