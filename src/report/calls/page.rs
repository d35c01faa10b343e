//! What came of calls, as a part of a page.

use super::record::CallsResult;
use super::text::{DONE, SAID, WAITS, done_row, said_rows, wait_rows};
use maud::{Markup, html};

/// The tables of a variant; under its name, if there are several.
pub(crate) fn details(result: &CallsResult, name: Option<&str>) -> Markup {
    let table = |title: &str, heading: &[&str], rows: Vec<Vec<String>>| {
        html! {
            @if !rows.is_empty() {
                section {
                    h2 { (title) @if let Some(name) = name { span.aside { (name) } } }
                    div.scroll tabindex="0" {
                        table {
                            thead { tr { @for cell in heading { th { (cell) } } } }
                            tbody { @for row in &rows { tr { @for cell in row { td { (cell) } } } } }
                        }
                    }
                }
            }
        }
    };
    let done = result.done.iter().map(|done| done_row(done).to_vec());
    let hang = result.hang.as_ref();
    let waits = hang.map_or_else(Vec::new, |hang| wait_rows(hang).map(Vec::from).collect());
    let said = hang.map_or_else(Vec::new, |hang| said_rows(hang).map(Vec::from).collect());
    html! {
        @for note in &result.notes { p { (note) } }
        (table("Who waits for whom", &WAITS, waits))
        (table("What is said, and when", &SAID, said))
        (table("What came to its end", &DONE, done.collect()))
    }
}
