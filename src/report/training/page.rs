//! `report.html` of a job: the answer first, then what it rests on, then the spec.

use super::compare::{self, effort, ran};
use super::kernels::kernels_page;
use super::share_bars::{Bar, Colours, bars};
use super::text::{by_time, checkpoint, failing, period, restart, slowed, spread, tenths};
use super::timeline_svg::job_timeline_svg;
use super::{
    CollectiveUse, Culprit, Disturbance, GoodputUse, JobTimeline, MemoryUse, RankUse, Share,
    ShareKind, StepResult, zoom,
};
use crate::html::{drawing, tile};
use crate::lines::LEAST_SHARE;
use crate::numbers::{
    count, grouped, micros, percent, seconds, size, three_digits, three_digits_of_small,
};
use crate::{ReportError, Variant};
use maud::{Markup, html};

/// Rows of the tables of communications and of ranks.
const MAX_ROWS: usize = 40;

pub(crate) fn described(variant: &Variant) -> String {
    let gpus = match (variant.gpus, variant.nodes) {
        (gpus, 1) => format!("{} GPUs in one node", grouped(u64::from(gpus))),
        (gpus, nodes) => format!(
            "{} GPUs in {} nodes",
            grouped(u64::from(gpus)),
            grouped(u64::from(nodes))
        ),
    };
    let Some(training) = variant.job.training() else {
        return format!("{gpus} · {}", variant.topology_title);
    };
    let model = format!(
        "{}, {} parameters",
        training.model,
        count(training.parameters)
    );
    let all = [
        model.as_str(),
        &gpus,
        &training.layout,
        &training.schedule,
        &variant.topology_title,
    ];
    let told: Vec<&str> = all.into_iter().filter(|text| !text.is_empty()).collect();
    told.join(" · ")
}

pub(crate) fn tiles(variant: &Variant, result: &StepResult) -> Markup {
    let per_gpu = result.tokens_per_s / f64::from(variant.gpus.max(1));
    let memory = &result.memory;
    let fits = if memory.fits { "fits" } else { "does not fit" };
    html! {
        div.tiles {
            (tile("step time", &seconds(result.step_s), &format!("{} tokens", count(result.tokens as f64))))
            (tile("tokens per second", &count(result.tokens_per_s), &format!("{} per GPU", count(per_gpu))))
            (tile("MFU", &percent(result.mfu), &format!("{} TFLOP/s per GPU; {} with causal attention counted half", three_digits(result.model_tflops_per_gpu), percent(result.mfu_causal))))
            (tile("exposed communication", &percent(result.exposed_communication), &format!("{} of all is hidden", percent(result.overlap))))
            (tile("bubble", &percent(result.bubble), "waiting for other stages"))
            (tile("memory", &size(memory.need().get() as f64), &format!("needed of {}: {fits}", size(memory.capacity.get() as f64))))
            @if let Some(dollars) = result.dollars_per_million_tokens {
                (tile("cost", &format!("${}", three_digits_of_small(dollars)), "per million tokens"))
            }
            @if let Some(used) = &result.goodput {
                (tile("goodput", &tenths(used.goodput), "over a long run with failures"))
            }
        }
    }
}

pub(crate) fn failures(variants: &[Variant]) -> Markup {
    html! {
        @for variant in variants {
            @if let Some(error) = variant.job.failure() {
                section.failed {
                    h2.bad { (variant.name) " failed" }
                    pre { (error) }
                }
            }
        }
    }
}

/// A variant of several: its details can be folded away.
pub(crate) fn folded(
    variant: &Variant,
    timeline: Option<&JobTimeline>,
    (best, zoomed): (bool, bool),
) -> Result<Markup, ReportError> {
    let Some(result) = ran(variant) else {
        return Ok(html! {});
    };
    let timeline = timeline.map(|timeline| timelines(timeline, zoomed));
    let timeline = timeline.transpose()?;
    Ok(html! {
        section {
            details.variant open[best] {
                summary {
                    (variant.name)
                    span.aside { (seconds(result.step_s)) " a step" @if !result.memory.fits { ", does not fit into memory" } }
                }
                p.note { (described(variant)) }
                @if let Some(timeline) = &timeline { h3 { "Timeline" } (timeline) }
                @for (heading, aside, markup) in rooms(variant, result) {
                    h3 { (heading) @if !aside.is_empty() { span.aside { (aside) } } }
                    (markup)
                }
            }
        }
    })
}

/// A variant that is the only one.
pub(crate) fn opened(
    variant: &Variant,
    timeline: Option<&JobTimeline>,
) -> Result<Markup, ReportError> {
    let Some(result) = ran(variant) else {
        return Ok(html! {});
    };
    let timeline = timeline.map(|timeline| timelines(timeline, true));
    let timeline = timeline.transpose()?;
    let parts = compare::parts(std::iter::once(result));
    let colours = Colours::of(&parts);
    let total: f64 = result.time.iter().map(|share| share.seconds).sum();
    Ok(html! {
        section {
            h2 { "Where the time went" span.aside { "an average GPU, " (seconds(total)) } }
            (bars(&[average(&result.time)], &colours, true))
            (time_table(&result.time, &colours))
        }
        @if let Some(timeline) = &timeline {
            section.wide {
                h2 { "Timeline" span.aside { (effort(variant, result)) } }
                (timeline)
            }
        }
        @for (heading, aside, markup) in rooms(variant, result) {
            section {
                h2 { (heading) @if !aside.is_empty() { span.aside { (aside) } } }
                (markup)
            }
        }
    })
}

fn average(time: &[Share]) -> Bar<'_> {
    Bar {
        name: "average GPU".into(),
        note: String::new(),
        parts: time,
        length: 1.0,
    }
}

fn time_table(time: &[Share], colours: &Colours<'_>) -> Markup {
    let shown = time.iter().filter(|share| share.share >= LEAST_SHARE);
    let mut sorted: Vec<&Share> = shown.collect();
    sorted.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    html! {
        table.kinds {
            tbody {
                @for share in sorted {
                    tr {
                        td { (colours.named(&share.what)) }
                        td.number { (percent(share.share)) }
                        td.number { (seconds(share.seconds)) }
                    }
                }
            }
        }
    }
}

/// The picture, and the one that can be zoomed if there is not another one in the page.
fn timelines(timeline: &JobTimeline, zoomed: bool) -> Result<Markup, ReportError> {
    let zoomed = zoomed.then(|| zoom::view(timeline)).transpose()?;
    Ok(html! {
        figure.steps { (drawing(&job_timeline_svg(timeline))) }
        @if let Some(view) = &zoomed { (view) }
    })
}

/// The parts of a variant's details that it has: heading, what stands beside it, content.
fn rooms(variant: &Variant, result: &StepResult) -> Vec<(&'static str, String, Markup)> {
    let mut rooms = Vec::new();
    if !result.collectives.is_empty() {
        let aside = "of one GPU, what takes most time first".to_owned();
        rooms.push(("Communication", aside, collectives(&result.collectives)));
    }
    let kernels = (&result.kernels[..], &result.flop_counts[..]);
    if let Some((aside, markup)) = kernels_page(kernels, MAX_ROWS) {
        rooms.push(("Kernels", aside, markup));
    }
    if !result.ranks.is_empty() {
        rooms.push(("Ranks", effort(variant, result), ranks(result)));
    }
    if !result.culprits.is_empty() {
        let aside = "worst first".to_owned();
        rooms.push((
            "Ranks that others waited for",
            aside,
            culprits(&result.culprits),
        ));
    }
    let aside = format!("the fullest GPU, stage {}", result.memory.stage);
    rooms.push(("Memory", aside, memory(&result.memory)));
    if !result.disturbances.is_empty() {
        let markup = disturbances(&result.disturbances);
        rooms.push(("Disturbances", String::new(), markup));
    }
    if let Some(used) = &result.goodput {
        let aside = format!("{} over a long run", tenths(used.goodput));
        rooms.push(("Goodput", aside, goodput(used)));
    }
    rooms
}

fn collectives(uses: &[CollectiveUse]) -> Markup {
    let sorted = by_time(uses);
    let more = sorted.len().saturating_sub(MAX_ROWS);
    html! {
        div.scroll {
            table {
                thead { tr {
                    th { "group" } th.number { "ranks" } th { "what" } th.number { "size" } th.number { "count" } th.number { "in all" }
                    th.number { "time" } th.number { "alone" } th.number { "busbw, GB/s" } th { "how" } th.number { "SMs" }
                } }
                tbody {
                    @for used in sorted.iter().take(MAX_ROWS) {
                        tr {
                            td { (used.group) }
                            td.number { (used.ranks) }
                            td { (used.what) }
                            td.number title={ (grouped(used.bytes.get())) " bytes" } { (size(used.bytes.get() as f64)) }
                            td.number { (grouped(u64::from(used.count))) }
                            td.number { (micros(f64::from(used.count) * used.time_us)) }
                            td.number.slow[slowed(used)] { (micros(used.time_us)) }
                            td.number { (micros(used.alone_us)) }
                            td.number { (three_digits(used.busbw_gbs)) }
                            td { (used.how) }
                            td.number { (used.sms) }
                        }
                    }
                }
            }
        }
        p.note {
            "Time and bus bandwidth are of one operation, on average; alone is what it takes with all links for itself."
            @if more > 0 { " " (more) " more are in summary.json." }
        }
    }
}

fn ranks(result: &StepResult) -> Markup {
    let parts = compare::parts(std::iter::once(result));
    let colours = Colours::of(&parts);
    let listed = &result.ranks[..result.ranks.len().min(MAX_ROWS)];
    let more = result.ranks.len() - listed.len();
    let share = |rank: &RankUse, what: &str| {
        let found = rank.time.iter().find(|share| share.what == what);
        found.map_or_else(|| "–".to_owned(), |share| percent(share.share))
    };
    html! {
        (colours.legend())
        div.scroll {
            table.ranks {
                thead { tr {
                    th.number { "rank" } th { "GPU" } th { "part" } th.number { "alike" } th { "time" }
                    @for (what, _) in parts.iter().take(4) { th.number { (what) } }
                } }
                tbody {
                    @for rank in listed {
                        tr {
                            td.number { (rank.rank) } td { (rank.gpu) } td { (rank.part) } td.number { (rank.alike) }
                            td { (colours.stack(&rank.time, 1.0, false)) }
                            @for (what, _) in parts.iter().take(4) { td.number { (share(rank, what)) } }
                        }
                    }
                }
            }
        }
        @if more > 0 { p.note { (more) " more are in summary.json." } }
    }
}

fn culprits(culprits: &[Culprit]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th.number { "rank" } th { "GPU" } th.number { "others waited, in all" } th.number { "waited itself" } th { "why" } } }
                tbody {
                    @for culprit in culprits.iter().take(MAX_ROWS) {
                        tr {
                            td.number { (culprit.rank) } td { (culprit.gpu) }
                            td.number { b { (seconds(culprit.caused_s)) } } td.number { (seconds(culprit.waited_s)) }
                            td { (culprit.why.as_deref().unwrap_or("")) }
                        }
                    }
                }
            }
        }
    }
}

fn memory(memory: &MemoryUse) -> Markup {
    let (need, capacity) = (memory.need().get() as f64, memory.capacity.get() as f64);
    let whole = (memory.total.get() as f64).max(capacity).max(1.0);
    let width = |bytes: f64| format!("width:{:.3}%", bytes / whole * 100.0);
    let colour = |index: usize| format!(";background:var(--limit{})", index % 7);
    html! {
        div.memory {
            div.stack {
                @for (index, (part, bytes)) in memory.parts.iter().enumerate() {
                    @let share = bytes.get() as f64 / whole;
                    span style={ (width(bytes.get() as f64)) (colour(index)) } title={ (part.name()) ": " (size(bytes.get() as f64)) } {
                        @if share >= 0.07 { b { (size(bytes.get() as f64)) } }
                    }
                }
            }
        }
        p {
            (size(need)) " of " (size(capacity)) " needed: "
            @if memory.fits {
                span.good { "fits" } ", " (memory.left())
            } @else {
                span.bad { "does not fit" } ", " (size(memory.missing().get() as f64)) " too much"
                @if let Some((part, _)) = memory.largest() { "; the largest part: " (part.name()) }
            }
        }
        table.kinds {
            tbody {
                @for (index, (part, bytes)) in memory.parts.iter().enumerate() {
                    tr {
                        td { span.swatch style={ "background:var(--limit" (index % 7) ")" } {} (part.name()) }
                        td.number { (size(bytes.get() as f64)) }
                        td.number { (percent(bytes.get() as f64 / capacity.max(1.0))) }
                    }
                }
            }
        }
    }
}

fn disturbances(disturbances: &[Disturbance]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th { "what" } th { "where" } th { "when" } } }
                tbody {
                    @for disturbance in disturbances.iter().take(MAX_ROWS) {
                        tr { td { (disturbance.what) } td { (disturbance.place) } td { (period(disturbance)) } }
                    }
                }
            }
        }
        @if disturbances.len() > MAX_ROWS { p.note { (disturbances.len() - MAX_ROWS) " more are in summary.json." } }
    }
}

fn goodput(used: &GoodputUse) -> Markup {
    let parts = used
        .time
        .iter()
        .map(|share| (share.what.as_str(), share.kind));
    let parts: Vec<(&str, ShareKind)> = parts.collect();
    let colours = Colours::of(&parts);
    html! {
        p {
            "A checkpoint every " (seconds(used.interval_s)) " of work, " (count(used.failures)) " failures on average; " (spread(used))
            @if let Some(parts) = &used.restart { "; " (restart(parts)) }
            "."
        }
        @if let Some(used) = &used.checkpoint {
            @for line in checkpoint(used) { p.note { (line) } }
        }
        @if !used.components.is_empty() {
            table.kinds {
                thead { tr { th { "what fails" } th.number { "failures" } th.number { "costs" } } }
                tbody {
                    @for loss in &used.components {
                        tr { td { (failing(loss)) } td.number { (count(loss.failures)) } td.number { (tenths(loss.lost)) } }
                    }
                }
            }
        }
        @if !used.time.is_empty() {
            (bars(&[Bar { name: "a long run".into(), note: String::new(), parts: &used.time, length: 1.0 }], &colours, true))
            (time_table(&used.time, &colours))
        }
        @if !used.intervals.is_empty() {
            h3 { "Other intervals between checkpoints" }
            table.kinds {
                thead { tr { th {} th.number { "work between" } th.number { "goodput" } } }
                tbody {
                    @for (name, interval, goodput) in &used.intervals {
                        tr { td { (name) } td.number { (seconds(*interval)) } td.number { (tenths(*goodput)) } }
                    }
                }
            }
        }
    }
}
