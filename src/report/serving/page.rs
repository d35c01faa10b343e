//! Serving, as a part of a page.

use super::charts::{over_time, rates};
use super::record::{Part, ServingResult};
use super::text::{KNOWN, against_offered, millis, seen, window_line};
use crate::ReportError;
use crate::html::drawing;
use crate::numbers::{count, percent, size, three_digits};
use crate::training::{JobTimeline, timeline_view};
use maud::{Markup, html};

/// What users see, where their time goes, what engines do; under the variant's name, if there are several.
pub(crate) fn details(
    result: &ServingResult,
    name: Option<&str>,
    timeline: Option<&JobTimeline>,
) -> Result<Markup, ReportError> {
    let timeline = timeline.map(timeline_view).transpose()?;
    let over_time = over_time(result)?;
    let rates = rates(result)?;
    let rows = seen(result);
    Ok(html! {
        @if !rows.is_empty() {
            section {
                h2 { "What users see" @if let Some(name) = name { span.aside { (name) } } }
                div.scroll tabindex="0" {
                    table {
                        thead { tr { th {} @for head in ["mean", "p50", "p90", "p99", "most", KNOWN] { th.number { (head) } } } }
                        tbody { @for (name, of, known) in &rows { tr { th { (name) } @for (_, value) in of.named() { td.number { (millis(value)) } } td.number { (known) } } } }
                    }
                }
                p.note {
                    (count(result.output_tokens_per_s)) " output tokens/s, " (three_digits(result.requests_per_s))
                    " requests/s; " (result.completed) " of " (result.requests) " requests served"
                    @if let Some(verdict) = result.verdict { ": " strong { (verdict.name()) } }
                    @let against = against_offered(result);
                    @if !against.is_empty() { " (requests/s: " (against) ")" }
                    ". "
                    @if let Some(window) = window_line(result) { (window) }
                }
            }
        }
        (waterfall("Where the time to the first token goes", "mean", &result.ttft_parts))
        @if let Some(slowest) = &result.slowest {
            (waterfall("The slowest first token", &format!("request {}, {} tokens", slowest.id, slowest.input_tokens), &slowest.parts))
        }
        (engines(result))
        @if let Some(svg) = &over_time {
            section {
                h2 { "Over time" @if let Some(name) = name { span.aside { (name) } } }
                div.plots {
                    @if let Some(rates) = &rates { figure.plot { (drawing(rates)) } }
                    figure.plot { (drawing(svg)) }
                }
            }
        }
        @if let Some(timeline) = &timeline {
            section.wide {
                h2 { "Timeline" @if let Some(name) = name { span.aside { (name) } } }
                (timeline)
            }
        }
    })
}

/// Parts of a time as bars below each other, each from where the one above ended.
fn waterfall(title: &str, aside: &str, parts: &[Part]) -> Markup {
    let sum: f64 = parts.iter().map(|part| part.us).sum();
    let mut before = 0.0;
    let bars = parts.iter().map(|part| {
        let from = before;
        before += part.us;
        (part, from / sum * 100.0, part.us / sum * 100.0)
    });
    let bars: Vec<(&Part, f64, f64)> = bars.collect();
    html! {
        @if sum > 0.0 {
            section {
                h2 { (title) span.aside { (aside) } }
                div.scroll tabindex="0" {
                    table.steps {
                        tbody { @for (part, from, long) in &bars { tr {
                            th { (part.cause) }
                            td.number { (millis(part.us / 1e3)) }
                            td.track { svg viewBox="0 0 100 6" preserveAspectRatio="none" width="100%" height="14" role="img" aria-label=(format!("{} of it", percent(long / 100.0))) {
                                rect x=(format!("{from:.3}")) y="0" width=(format!("{:.3}", long.max(0.15))) height="6" fill="#0072B2" {}
                            } }
                        } } }
                    }
                }
            }
        }
    }
}

fn engines(result: &ServingResult) -> Markup {
    let gib =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |gib| format!("{gib:.1} GiB"));
    html! {
        section {
            h2 { "Engines" }
            div.scroll tabindex="0" {
                table {
                    thead { tr { th { "engines" } th { "each" } @for head in ["busy", "passes", "tokens a pass", "weights", "KV cache", "KV tokens"] { th.number { (head) } } } }
                    tbody { @for pool in &result.pools { tr {
                        th { (pool.engines) " × " (pool.role) } td { (pool.layout) }
                        td.number { (percent(pool.busy_share)) } td.number { (count(pool.passes as f64)) }
                        td.number { (three_digits(pool.tokens_per_pass)) } td.number { (gib(pool.weights_gib)) }
                        td.number { (gib(pool.kv_gib)) } td.number { (count(pool.kv_tokens as f64)) }
                    } } }
                }
            }
            p.note { "A token takes " (size(result.kv.bytes_per_token as f64)) " of KV cache; at most " (percent(result.kv.peak_share)) " of it was taken; " (result.kv.preemptions) " preemptions." }
            @for tier in &result.tiers {
                p.note {
                    "KV tier " (tier.tier) ": " (percent(tier.hit_share)) " of prompts read from it ("
                    (size(tier.read_bytes as f64)) " in " (count(tier.reads as f64)) " reads), " (size(tier.written_bytes as f64)) " written."
                }
            }
            @if let Some(used) = &result.handover {
                p.note {
                    "Hand-over: " (millis(used.time_ms.mean)) " on average (p99 " (millis(used.time_ms.p99)) "), "
                    (millis(used.alone_ms)) " with links for itself; limited by " strong { (used.binding) }
                    @if let Some(link) = &used.link { " on " (link) } "."
                }
            }
        }
    }
}
