//! What making communicators takes, as a part of a page.

use super::record::CommunicatorResult;
use super::text::{needs, rows};
use maud::{Markup, html};

/// The tables of a variant; under its name, if there are several.
pub(crate) fn details(result: &CommunicatorResult, name: Option<&str>) -> Markup {
    let (heading, rows) = rows(result);
    html! {
        @if result.failed.is_none() {
            section {
                h2 { "What it takes" @if let Some(name) = name { span.aside { (name) } } }
                div.scroll tabindex="0" {
                    table {
                        thead { tr { @for cell in heading { th { (cell) } } } }
                        tbody { @for row in &rows { tr { @for (index, cell) in row.iter().enumerate() { td.number[index == 2] { (cell) } } } } }
                    }
                }
            }
        }
        section {
            h2 { "What it needs" @if let Some(name) = name { span.aside { (name) } } }
            div.scroll tabindex="0" {
                table { tbody { @for [what, much, of] in needs(result) { tr { td { (what) } td.number { (much) } td { (of) } } } } }
            }
        }
    }
}
