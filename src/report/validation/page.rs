//! `report.html`: every set's curves, the errors, and what was skipped.

use super::panel::{SIZE, legend, panel};
use super::{
    BandErrors, Overall, Spread, ValidatedSet, Validation, choice, hundredths, signed,
    skipped_by_reason, subject, worst,
};
use crate::html::page;
use crate::numbers::{grouped, micros, size};
use maud::{Markup, PreEscaped, html};

const STYLE: &str = include_str!("validation.css");

/// Rows that the table of the worst shows.
const WORST_SHOWN: usize = 40;

/// The whole page; it needs no other file.
#[must_use]
pub fn validation_page(validation: &Validation) -> String {
    let rows: usize = validation.sets.iter().map(|set| set.rows.len()).sum();
    let title = "Predictions beside published measurements";
    let body = html! {
        style { (PreEscaped(STYLE)) }
        header {
            h1 { (title) }
            p { (counted(validation.sets.len(), "set")) " · " (counted(rows, "row")) " · " (validation.skipped.len()) " skipped" }
        }
        (answer(validation))
        @if !validation.sets.is_empty() {
            section {
                h2 { "Errors over all" }
                (overall(&validation.overall))
                p.note {
                    "A group is a topology, a number of ranks and a collective; its error is the median of |predicted / measured − 1| "
                    "over its rows, whichever set they are from. Shown are the median and the 90th percentile over groups, and the "
                    "geometric mean of predicted / measured. The baseline is NCCL's own cost model, by which it chooses algorithms."
                    @if validation.counts.inferred > 0 {
                        " Tables whose settings are taken to have been otherwise than their sources say ("
                        (validation.counts.inferred) ") are predicted both ways, apart from all others."
                    }
                }
            }
            section {
                h2 { "Curves" span.aside { "time over size, both logarithmic" } }
                figure.plot.key { svg viewBox="0 0 430 20" width="430" height="20" role="img" aria-label="Legend" { (legend()) } }
                div.curves { @for set in &validation.sets { (curve(set)) } }
            }
            section {
                h2 { "The rows that are furthest off" span.aside { "by |ln(predicted / measured)|" } }
                (worst_rows(validation))
            }
        }
        @if !validation.skipped.is_empty() {
            section {
                h2 { "Skipped" span.aside { (counted(validation.skipped.len(), "set")) } }
                (skipped(validation))
            }
        }
        footer { "fabricsim " (validation.version) ". KiB, MiB and GiB are powers of 1024." }
    };
    page(title, &body, &[])
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count as u64))
}

fn percents(part: f64) -> String {
    format!("{} %", hundredths(part))
}

/// The bands of the first summary, which is of all, as tiles.
fn answer(validation: &Validation) -> Markup {
    let counts = validation.counts;
    let bands = validation.overall.first().map_or(&[][..], |all| &all.bands);
    let lead = bands
        .iter()
        .rev()
        .find_map(|band| Some((band, band.predicted?)));
    html! {
        section.answer {
            @if let Some((band, spread)) = lead {
                p.lead {
                    "Sizes " (band.name) ": half of the groups of measurements are predicted within " (percents(spread.median))
                    ", nine in ten within " (percents(spread.p90)) "."
                }
            } @else {
                p.lead { "No set could be predicted." }
            }
            div.tiles {
                @for band in bands {
                    @if let (Some(spread), Some(baseline)) = (band.predicted, band.baseline) {
                        div.tile {
                            span.name { (band.name) ", median error" }
                            span.value { (percents(spread.median)) }
                            span.note { "NCCL's model: " (percents(baseline.median)) " · " (counted(spread.count, "group")) }
                        }
                    }
                }
                div.tile {
                    span.name { "predicted sets" }
                    span.value { (counts.modelled) }
                    span.note { "of " (counts.with_model) " healthy ones with a model block; " (counts.tables) " in all, " (counts.healthy) " healthy" }
                }
            }
        }
    }
}

fn overall(overall: &[Overall]) -> Markup {
    html! {
        div.scroll {
            table.errors {
                thead {
                    tr { th {} th {} th {} th.number.group colspan="3" { "simulated" } th.number.group colspan="3" { "NCCL's model" } }
                    tr {
                        th {} th { "size" } th.number { "groups" }
                        @for _ in 0..2 { th.number { "median" } th.number { "p90" } th.number { "ratio" } }
                    }
                }
                @for line in overall {
                    tbody {
                        @for (index, band) in line.bands.iter().enumerate() {
                            tr {
                                @if index == 0 { th.scope rowspan=(line.bands.len()) { (line.name) } }
                                td { (band.name) }
                                td.number { (band.predicted.map_or(0, |spread| spread.count)) }
                                (spread(band.predicted, nearer(band)))
                                (spread(band.baseline, false))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The simulation is nearer to the measurements than NCCL's model.
fn nearer(band: &BandErrors) -> bool {
    match (band.predicted, band.baseline) {
        (Some(simulated), Some(model)) => simulated.median <= model.median,
        _ => false,
    }
}

fn spread(spread: Option<Spread>, good: bool) -> Markup {
    html! {
        @match spread {
            Some(spread) => {
                td.number.good[good] { (percents(spread.median)) }
                td.number { (percents(spread.p90)) }
                td.number { (format!("{:.2}", spread.ratio)) }
            }
            None => { td.number { "–" } td.number { "–" } td.number { "–" } }
        }
    }
}

/// Narrow: all of them as parts of a hundred, which the heading says.
fn hundredth_cells(spread: Option<Spread>, good: bool) -> Markup {
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), hundredths);
    html! {
        td.number.good[good] { (shown(spread.map(|s| s.median))) }
        td.number { (shown(spread.map(|s| s.p90))) }
        td.number { (shown(spread.map(|s| s.ratio))) }
    }
}

fn curve(set: &ValidatedSet) -> Markup {
    html! {
        figure.plot.curve id=(set.anchor()) {
            h3 { (subject(set)) }
            p.id { (set.label()) }
            svg viewBox=(format!("0 0 {} {}", SIZE.0, SIZE.1)) role="img" aria-label={ "Time over size: " (set.label()) } { (panel(set)) }
            table {
                thead {
                    tr { th {} th.number colspan="3" { "simulated, %" } th.number colspan="3" { "NCCL's model, %" } }
                    tr { th { "size" } @for _ in 0..2 { th.number { "median" } th.number { "p90" } th.number { "ratio" } } }
                }
                tbody {
                    @for band in set.errors.iter().filter(|band| band.predicted.is_some()) {
                        tr {
                            td { (band.name) }
                            (hundredth_cells(band.predicted, nearer(band)))
                            (hundredth_cells(band.baseline, false))
                        }
                    }
                }
            }
            figcaption {
                (source(set))
                @if let Some(inferred) = &set.inferred {
                    " · " @if inferred.taken { "Settings inferred: " } @else { "As its source says, which is taken to be otherwise: " } (inferred.why)
                }
            }
        }
    }
}

fn source(set: &ValidatedSet) -> Markup {
    let link = set.address.as_deref().filter(|address| {
        let web = address.starts_with("https://") || address.starts_with("http://");
        web && !address.contains(char::is_whitespace)
    });
    html! {
        @if let Some(title) = &set.title { (title) ": " }
        @match (link, &set.address) {
            (Some(link), _) => a href=(link) rel="noreferrer" { (link) },
            (None, Some(address)) => (address),
            (None, None) => "no address given",
        }
    }
}

fn worst_rows(validation: &Validation) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr {
                    th { "set" } th.number { "size" } th.number { "measured" } th.number { "simulated" } th.number { "error" }
                    th.number { "NCCL's model" } th.number { "error" } th { "chosen" }
                } }
                tbody {
                    @for (set, row) in worst(validation, WORST_SHOWN) {
                        tr {
                            td { a href={ "#" (set.anchor()) } { (set.label()) } }
                            td.number title={ (grouped(row.bytes)) " bytes" } { (size(row.bytes as f64)) }
                            td.number { (micros(row.measured_us)) }
                            td.number { (micros(row.predicted_us)) }
                            td.number { b { (signed(row.predicted_us, row.measured_us)) } }
                            td.number { (micros(row.baseline_us)) }
                            td.number { (signed(row.baseline_us, row.measured_us)) }
                            td { (choice(row)) }
                        }
                    }
                }
            }
        }
    }
}

fn skipped(validation: &Validation) -> Markup {
    html! {
        table.skipped {
            thead { tr { th.number { "sets" } th { "reason" } th { "names" } } }
            tbody {
                @for ((kind, why), names) in skipped_by_reason(validation) {
                    tr {
                        td.number { (names.len()) }
                        td { b { (kind.name()) } ": " (why) }
                        td { @for name in names { code { (name) } " " } }
                    }
                }
            }
        }
    }
}
