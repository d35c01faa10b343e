//! Jobs that ran at once, as a part of a page.

use super::record::ConcurrentResult;
use super::text::rows;
use crate::comparison::waterfall_bars;
use crate::training::{JobTimeline, timeline_view};
use crate::{ReportError, Waterfall};
use maud::{Markup, html};

/// The table of a variant's jobs and its timeline; under the variant's name, if there are several.
pub(crate) fn details(
    result: &ConcurrentResult,
    name: Option<&str>,
    timeline: Option<&JobTimeline>,
) -> Result<Markup, ReportError> {
    let (heading, rows) = rows(&result.jobs);
    let waterfalls = result.jobs.iter().filter_map(|job| job.waterfall.clone());
    let waterfalls: Vec<Waterfall> = waterfalls.collect();
    let timeline = timeline.map(timeline_view).transpose()?;
    Ok(html! {
        @if !rows.is_empty() {
            section {
                h2 { "Jobs at once" @if let Some(name) = name { span.aside { (name) } } }
                div.scroll tabindex="0" {
                    table {
                        thead { tr { @for (index, cell) in heading.iter().enumerate() { th.number[is_number(index)] { (cell) } } } }
                        tbody { @for row in &rows { tr { @for (index, cell) in row.iter().enumerate() { td.number[is_number(index)] { (cell) } } } } }
                    }
                }
            }
        }
        (waterfall_bars(&waterfalls))
        @if let Some(timeline) = &timeline {
            section.wide {
                h2 { "Timeline" @if let Some(name) = name { span.aside { (name) } } }
                (timeline)
            }
        }
    })
}

/// Whether a column of the table has numbers: start, end, time, by itself, slowdown.
const fn is_number(column: usize) -> bool {
    matches!(column, 3..=7)
}
