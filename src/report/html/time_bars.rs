//! Where the time went, as stacked bars.

use crate::numbers::{grouped, percent};
use crate::record::{Activity, Attribution, Part, PartKind};
use crate::table::by_time;
use fabricsim_units::Time;
use maud::{Markup, html};

/// Limits that get a colour of their own, the largest; the others share grey.
const MOST_LIMITS: usize = 5;
/// Ranks that get a bar of their own.
const MOST_RANKS: usize = 32;

/// The kinds of time that are told apart, and the colours that they have in all bars.
struct Kinds<'a> {
    names: Vec<(&'a str, String)>,
}

impl<'a> Kinds<'a> {
    /// By their largest share of the two bars that lead.
    fn of(attribution: &'a Attribution) -> Kinds<'a> {
        let mut shares: Vec<(&str, PartKind, f64)> = Vec::new();
        for part in attribution.critical_path.iter().chain(&attribution.total) {
            match shares.iter_mut().find(|(name, ..)| *name == part.what) {
                Some((_, _, share)) => *share = share.max(part.fraction),
                None => shares.push((&part.what, part.kind, part.fraction)),
            }
        }
        shares.sort_by(|a, b| b.2.total_cmp(&a.2));
        let mut limits = 0;
        let colour = |(name, kind, _)| {
            if let Some(known) = usual_colour(kind) {
                return Some((name, format!("var(--{known})")));
            }
            limits += 1;
            (limits <= MOST_LIMITS).then(|| (name, format!("var(--limit{})", limits - 1)))
        };
        Kinds {
            names: shares.into_iter().filter_map(colour).collect(),
        }
    }

    /// Where a kind stands in the legend; the others come last.
    fn place(&self, what: &str) -> usize {
        let known = self.names.iter().position(|(name, _)| *name == what);
        known.unwrap_or(self.names.len())
    }

    fn colour(&self, what: &str) -> &str {
        let named = self.names.get(self.place(what));
        named.map_or("var(--other)", |(_, colour)| colour)
    }

    /// The parts that are not told apart, as one; nothing if there are none.
    fn rest(&self, parts: &[Part]) -> Option<Part> {
        let rest = || {
            let parts = parts.iter();
            parts.filter(|part| self.place(&part.what) == self.names.len())
        };
        (rest().count() > 0).then(|| Part {
            what: format!("{} other limits", rest().count()),
            kind: PartKind::Limited,
            time: rest().map(|part| part.time).sum(),
            fraction: rest().map(|part| part.fraction).sum(),
        })
    }
}

/// The colour of a kind that is an activity of the timeline: the one that it has there.
const fn usual_colour(kind: PartKind) -> Option<&'static str> {
    let activity = match kind {
        PartKind::Launch => Activity::Launch,
        PartKind::Latency => Activity::Latency,
        PartKind::Protocol => Activity::Sync,
        PartKind::WaitData => Activity::WaitData,
        PartKind::WaitCredit => Activity::WaitCredit,
        PartKind::Idle => Activity::Idle,
        PartKind::Limited => return None,
    };
    Some(activity.key())
}

/// The bars of all workers together, with their legend.
pub(super) fn together(attribution: &Attribution) -> Markup {
    let kinds = Kinds::of(attribution);
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
                @let rests = [kinds.rest(&attribution.critical_path), kinds.rest(&attribution.total)];
                @if rests.iter().any(Option::is_some) {
                    tr {
                        td { span.swatch style="background:var(--other)" {} "other limits" }
                        @for rest in &rests { td.number { (rest.as_ref().map_or_else(none, text)) } }
                    }
                }
            }
        }
    }
}

/// The bars with their legend, and one for each rank.
pub(super) fn bars(attribution: &Attribution) -> Markup {
    let kinds = Kinds::of(attribution);
    let ranks = attribution.ranks.iter().take(MOST_RANKS).enumerate();
    let more = attribution.ranks.len().saturating_sub(MOST_RANKS);
    html! {
        (together(attribution))
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
    part.map_or_else(none, text)
}

fn text(part: &Part) -> String {
    format!("{} · {}", percent(part.fraction), human(part.time))
}

fn none() -> String {
    "–".to_owned()
}

/// As [`Time::human`], with the sign that print has for micro.
fn human(time: Time) -> String {
    time.human().replace(" us", " µs")
}

fn bar(name: &str, parts: &[Part], kinds: &Kinds<'_>, labelled: bool) -> Markup {
    // In the order of the legend, so that bars can be compared down the page.
    let told_apart = by_time(parts).into_iter();
    let mut shown: Vec<Part> = told_apart
        .filter(|part| kinds.place(&part.what) < kinds.names.len())
        .cloned()
        .collect();
    shown.sort_by_key(|part| kinds.place(&part.what));
    shown.extend(kinds.rest(parts));
    let total: Time = parts.iter().map(|part| part.time).sum();
    html! {
        div.bar {
            span.what { (name) @if labelled { span.total { (human(total)) } } }
            div.stack {
                @for part in shown.iter().filter(|part| part.fraction > 0.0) {
                    span style={ "width:" (format!("{:.3}", part.fraction * 100.0)) "%;background:" (kinds.colour(&part.what)) }
                        title={ (part.what) ": " (human(part.time)) ", " (percent(part.fraction)) } {
                        @if labelled && part.fraction >= 0.06 { b { (percent(part.fraction)) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_from_kinds_whatever_the_names() {
        let part = |what: &str, kind, fraction| Part {
            what: what.to_owned(),
            kind,
            time: Time::from_micros(1),
            fraction,
        };
        let attribution = Attribution {
            total: vec![
                part("limited by the latency launch", PartKind::Limited, 0.5),
                part("on its way", PartKind::Latency, 0.3),
                part("sync of credits", PartKind::Idle, 0.2),
            ],
            critical_path: Vec::new(),
            ranks: Vec::new(),
        };
        let kinds = Kinds::of(&attribution);
        let colours = attribution.total.iter().map(|p| kinds.colour(&p.what));
        let colours: Vec<_> = colours.collect();
        assert_eq!(colours, ["var(--limit0)", "var(--latency)", "var(--idle)"]);
    }
}
