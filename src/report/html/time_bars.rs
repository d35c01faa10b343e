//! Where the time went, as stacked bars.

use crate::report::numbers::{grouped, percent};
use crate::report::record::{Attribution, Part};
use crate::report::table::by_time;
use crate::units::Time;
use maud::{Markup, html};

/// Kinds of time that get a colour of their own; the others share grey.
const MOST_KINDS: usize = 9;
/// Ranks that get a bar of their own.
const MOST_RANKS: usize = 64;

/// A kind of time and the colour that it has in all the bars.
struct Kinds<'a> {
    names: Vec<(&'a str, String)>,
}

impl<'a> Kinds<'a> {
    /// The kinds that matter most: by their largest share of the two bars that lead.
    fn of(attribution: &'a Attribution) -> Kinds<'a> {
        let mut shares: Vec<(&str, f64)> = Vec::new();
        for part in attribution.critical_path.iter().chain(&attribution.total) {
            match shares.iter_mut().find(|(name, _)| *name == part.what) {
                Some((_, share)) => *share = share.max(part.fraction),
                None => shares.push((&part.what, part.fraction)),
            }
        }
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares.truncate(MOST_KINDS);
        let mut limits = 0;
        let names = shares.into_iter().map(|(name, _)| {
            let colour = usual_colour(name).map_or_else(
                || {
                    limits += 1;
                    format!("var(--limit{})", (limits - 1) % 5)
                },
                |known| format!("var(--{known})"),
            );
            (name, colour)
        });
        Kinds {
            names: names.collect(),
        }
    }

    fn colour(&self, what: &str) -> &str {
        let known = self.names.iter().find(|(name, _)| *name == what);
        known.map_or("var(--other)", |(_, colour)| colour)
    }
}

/// Kinds that are activities of the timeline have its colours.
fn usual_colour(what: &str) -> Option<&'static str> {
    let words = [
        ("launch", "launch"),
        ("credit", "wait_credit"),
        ("slot", "wait_credit"),
        ("waiting", "wait_data"),
        ("sync", "sync"),
        ("latency", "latency"),
        ("finished", "idle"),
        ("idle", "idle"),
    ];
    let text = what.to_lowercase();
    // A link's name may hold any word.
    if text.contains("limited by") {
        return None;
    }
    let found = words.iter().find(|(word, _)| text.contains(word));
    found.map(|(_, colour)| *colour)
}

/// The bars with their legend.
pub(super) fn bars(attribution: &Attribution) -> Markup {
    let kinds = Kinds::of(attribution);
    let ranks = attribution.ranks.iter().take(MOST_RANKS).enumerate();
    let more = attribution.ranks.len().saturating_sub(MOST_RANKS);
    html! {
        div.bars {
            (bar("critical path", &attribution.critical_path, &kinds, true))
            (bar("all workers", &attribution.total, &kinds, true))
        }
        table.kinds {
            thead { tr { th {} th.number { "critical path" } th.number { "all workers" } } }
            tbody {
                @for (name, colour) in &kinds.names {
                    tr {
                        td { span.swatch style={ "background:" (colour) } {} (name) }
                        td.number { (share(&attribution.critical_path, name)) }
                        td.number { (share(&attribution.total, name)) }
                    }
                }
            }
        }
        @if !attribution.ranks.is_empty() {
            h3 { "Each GPU's workers" }
            div.bars.thin {
                @for (rank, parts) in ranks {
                    (bar(&format!("rank {rank}"), parts, &kinds, false))
                }
            }
            @if more > 0 {
                p.note { (grouped(more as u64)) " more ranks are in summary.json." }
            }
        }
    }
}

fn share(parts: &[Part], what: &str) -> String {
    let part = parts.iter().find(|part| part.what == what);
    part.map_or_else(
        || "–".to_owned(),
        |part| format!("{} · {}", percent(part.fraction), human(part.time)),
    )
}

/// As [`Time::human`], with the sign that print has for micro.
fn human(time: Time) -> String {
    time.human().replace(" us", " µs")
}

fn bar(name: &str, parts: &[Part], kinds: &Kinds<'_>, labelled: bool) -> Markup {
    // In the order of the legend, so that bars can be compared down the page.
    let place = |part: &Part| {
        let known = kinds.names.iter().position(|(name, _)| *name == part.what);
        known.unwrap_or(kinds.names.len())
    };
    let mut parts = by_time(parts);
    parts.sort_by_key(|part| place(part));
    let total: Time = parts.iter().map(|part| part.time).sum();
    html! {
        div.bar {
            span.what { (name) @if labelled { span.total { (human(total)) } } }
            div.stack {
                @for part in parts.iter().filter(|part| part.fraction > 0.0) {
                    span style={ "width:" (format!("{:.3}", part.fraction * 100.0)) "%;background:" (kinds.colour(&part.what)) }
                        title={ (part.what) ": " (human(part.time)) ", " (percent(part.fraction)) } {
                        @if labelled && part.fraction >= 0.06 { b { (percent(part.fraction)) } }
                    }
                }
            }
        }
    }
}
