//! Where the time went, as stacked bars with one legend.

use super::{Share, ShareKind};
use crate::numbers::{percent, seconds};
use maud::{Markup, html};

/// A bar: a name, what is written small below it, and its parts.
pub(crate) struct Bar<'a> {
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) parts: &'a [Share],
    /// How long it is beside the longest, 0 to 1.
    pub(crate) length: f64,
}

/// Parts with their colours, the same in all bars of a page.
pub(crate) struct Colours<'a> {
    parts: Vec<(&'a str, String)>,
}

impl<'a> Colours<'a> {
    /// Of parts and their kinds, in the order in which they are to be drawn.
    pub(crate) fn of(parts: &[(&'a str, ShareKind)]) -> Colours<'a> {
        // Waiting, communication, and all else, which begins behind the colour of computing.
        let mut used = [0, 0, 1];
        let mut next = |family: usize, name: &str, most: usize| {
            used[family] += 1;
            format!("var(--{name}{})", (used[family] - 1) % most)
        };
        let colour = |&(what, kind): &(&'a str, ShareKind)| {
            let colour = match kind {
                ShareKind::Compute => "var(--forward)".to_owned(),
                ShareKind::Slowed => "var(--slowed)".to_owned(),
                ShareKind::Exposed => next(1, "exposed", 5),
                ShareKind::Waiting => next(0, "waiting", 3),
                ShareKind::Host => "var(--launch)".to_owned(),
                ShareKind::Idle => "var(--waiting2)".to_owned(),
                ShareKind::Other => next(2, "limit", 5),
            };
            (what, colour)
        };
        Colours {
            parts: parts.iter().map(colour).collect(),
        }
    }

    fn colour(&self, what: &str) -> &str {
        let found = self.parts.iter().find(|(known, _)| *known == what);
        found.map_or("var(--other)", |(_, colour)| colour)
    }

    fn place(&self, what: &str) -> usize {
        let found = self.parts.iter().position(|(known, _)| *known == what);
        found.unwrap_or(self.parts.len())
    }

    /// The names of parts beside their colours.
    pub(crate) fn legend(&self) -> Markup {
        html! {
            ul.legend.parts {
                @for (what, colour) in &self.parts {
                    li { span.swatch style={ "background:" (colour) } {} (what) }
                }
            }
        }
    }

    /// A part's colour and name.
    pub(crate) fn named(&self, what: &str) -> Markup {
        html! { span.swatch style={ "background:" (self.colour(what)) } {} (what) }
    }

    /// A single bar without its name; `labelled` writes large shares into it.
    pub(crate) fn stack(&self, parts: &[Share], length: f64, labelled: bool) -> Markup {
        let mut shown: Vec<&Share> = parts.iter().filter(|part| part.share > 0.0).collect();
        // In the order of the legend, so that bars can be compared down the page.
        shown.sort_by_key(|part| self.place(&part.what));
        html! {
            div.stack {
                @for part in shown {
                    @let width = part.share * length.clamp(0.0, 1.0);
                    span style={ "width:" (format!("{:.3}", width * 100.0)) "%;background:" (self.colour(&part.what)) }
                        title={ (part.what) ": " (seconds(part.seconds)) ", " (percent(part.share)) } {
                        @if labelled && width >= 0.06 { b { (percent(part.share)) } }
                    }
                }
            }
        }
    }
}

/// Bars below each other.
pub(crate) fn bars(bars: &[Bar<'_>], colours: &Colours<'_>, labelled: bool) -> Markup {
    html! {
        div.bars.thin[!labelled] {
            @for bar in bars {
                div.bar {
                    span.what { (bar.name) @if !bar.note.is_empty() { span.total { (bar.note) } } }
                    (colours.stack(bar.parts, bar.length, labelled))
                }
            }
        }
    }
}
