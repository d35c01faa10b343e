//! Waterfalls as bars, each beginning where the one before ended.

use crate::numbers::seconds;
use crate::{Change, Waterfall};
use maud::{Markup, html};

/// A line of a waterfall: what it is of, where its bar begins and ends, and what stands beside it.
struct Step<'w> {
    name: &'w str,
    from: i64,
    to: i64,
    text: String,
    class: &'static str,
}

/// All waterfalls that start or end somewhere, one section each.
#[must_use]
pub fn waterfall_bars(waterfalls: &[Waterfall]) -> Markup {
    html! {
        @for waterfall in waterfalls {
            @if !waterfall.parts.is_empty() {
                section {
                    h2 { (waterfall.to) " beside " (waterfall.from) span.aside { (waterfall.total.text()) ", by cause" } }
                    (steps(waterfall))
                    @if let Some(how) = &waterfall.order { p.note { (how) } }
                }
            }
        }
    }
}

fn steps(waterfall: &Waterfall) -> Markup {
    let (shown, small) = waterfall.shown();
    let begin = waterfall.begin.0;
    let whole = |name, picos: i64| Step {
        name,
        from: 0,
        to: picos,
        text: seconds(Change(picos).seconds()),
        class: "whole",
    };
    let mut lines = vec![whole(waterfall.from.as_str(), begin)];
    let mut at = begin;
    let changes = shown.iter().map(|part| (part.cause.as_str(), part.time));
    let rest = small.map(|(_, change)| ("smaller changes", change));
    for (name, change) in changes.chain(rest) {
        let to = at + change.0;
        lines.push(Step {
            name,
            from: at,
            to,
            text: change.text(),
            class: if change.0 > 0 { "more" } else { "less" },
        });
        at = to;
    }
    lines.push(whole(waterfall.to.as_str(), at));
    let most = lines.iter().map(|line| line.from.max(line.to)).max();
    let most = most.unwrap_or(0).max(1) as f64;
    let part = |picos: i64| format!("{:.2}", 100.0 * picos.max(0) as f64 / most);
    let bar = |line: &Step<'_>| {
        let (low, high) = (line.from.min(line.to), line.from.max(line.to));
        format!("left:{}%;width:{}%", part(low), part(high - low))
    };
    html! {
        div.waterfall {
            @for line in &lines {
                div.step.ends[line.class == "whole"] {
                    span.name { (line.name) }
                    span class={ "bar " (line.class) } { span style=(bar(line)) {} }
                    span.number { (line.text) }
                }
            }
        }
    }
}
