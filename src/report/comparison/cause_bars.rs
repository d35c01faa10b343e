//! What the times of collectives were spent on, as bars on one axis.

use crate::cause::CausePart;
use crate::numbers::micros;
use crate::record::Row;
use crate::summary::Summary;
use crate::training::share_bars::{Bar, Colours, bars};
use crate::training::{Share, ShareKind};
use maud::{Markup, html};

/// A bar a collective, as long as it takes beside the slowest; nothing without one.
pub(super) fn cause_bars(summary: &Summary) -> Markup {
    let views = summary.collectives();
    let rows = views.filter_map(|view| Some((&view.variant.name, view.result.shown_row()?)));
    let all: Vec<(&String, &Row, Vec<Share>)> =
        rows.map(|(name, row)| (name, row, shares(row))).collect();
    let mut parts: Vec<(&str, ShareKind)> = Vec::new();
    for share in all.iter().flat_map(|(_, _, shares)| shares) {
        if !parts.iter().any(|(what, _)| *what == share.what) {
            parts.push((&share.what, share.kind));
        }
    }
    let colours = Colours::of(&parts);
    let slowest = all
        .iter()
        .map(|(_, row, _)| row.time_us)
        .fold(0.0, f64::max);
    let shown: Vec<Bar<'_>> = all
        .iter()
        .map(|(name, row, parts)| Bar {
            name: (*name).clone(),
            note: micros(row.time_us),
            parts,
            length: row.time_us / slowest,
        })
        .collect();
    html! {
        @if slowest > 0.0 {
            section {
                h2 { "Where the time went" span.aside { "on one axis" } }
                (bars(&shown, &colours, true))
                (colours.legend())
            }
        }
    }
}

fn shares(row: &Row) -> Vec<Share> {
    let share = |part: &CausePart| Share {
        what: part.cause.name().to_owned(),
        kind: ShareKind::Other,
        stream: None,
        seconds: part.us / 1e6,
        share: part.us / row.time_us,
    };
    let parts = row.causes.iter().flat_map(|causes| &causes.parts);
    parts.map(share).collect()
}
