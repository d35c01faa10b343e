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
    let mut all: Vec<(&String, &Row, Vec<Share>)> =
        rows.map(|(name, row)| (name, row, shares(row))).collect();
    let named = largest(all.iter().flat_map(|(_, _, shares)| shares));
    for (_, _, shares) in &mut all {
        join_rest(shares, &named);
    }
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

/// Causes that have a colour of their own; there are no more that can be told apart.
const MOST_NAMED: usize = 5;

/// The causes that take most time in any of the bars.
fn largest<'s>(shares: impl Iterator<Item = &'s Share>) -> Vec<String> {
    let mut most: Vec<(String, f64)> = Vec::new();
    for share in shares {
        match most.iter_mut().find(|(what, _)| *what == share.what) {
            Some((_, seconds)) => *seconds = seconds.max(share.seconds),
            None => most.push((share.what.clone(), share.seconds)),
        }
    }
    most.sort_by(|a, b| b.1.total_cmp(&a.1));
    most.into_iter()
        .take(MOST_NAMED)
        .map(|(what, _)| what)
        .collect()
}

/// Makes of all causes without a colour one part, the last.
fn join_rest(shares: &mut Vec<Share>, named: &[String]) {
    let mut rest = Share {
        what: "the rest".to_owned(),
        kind: ShareKind::Waiting,
        stream: None,
        seconds: 0.0,
        share: 0.0,
    };
    shares.retain(|share| {
        let keep = named.contains(&share.what);
        if !keep {
            rest.seconds += share.seconds;
            rest.share += share.share;
        }
        keep
    });
    if rest.seconds > 0.0 {
        shares.push(rest);
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
