//! Parts of a run's page, for one that changes while it is looked at.

use super::timeline_view::Shown;
use super::{drawing, links_table, tiles, time_bars, timeline_view};
use crate::ReportError;
use crate::record::Timeline;
use crate::summary::{CollectiveView, Variant};
use crate::training::{self, JobTimeline, ran};
use maud::{Markup, html};

/// What stands below the answer.
#[derive(Debug, Default)]
pub struct Parts {
    /// The numbers of the answer.
    pub tiles: Markup,
    /// Where the time went, as bars.
    pub time: Markup,
    /// The timeline, for [`SCRIPT`](super::SCRIPT).
    pub timeline: Markup,
    /// The machine, coloured by how busy its links were.
    pub drawing: Markup,
    /// Links that were busiest, or a job's communications, ranks and memory.
    pub tables: Markup,
}

/// Spans and links: few enough to be sent and drawn at each change.
const SHOWN: Shown = Shown {
    spans: 6_000,
    all: "of the saved scenario `fabricsim run` writes all",
};
const MAX_LINKS: usize = 8;

/// Those of a collective: what was recorded of it, as far as there is room.
///
/// # Errors
/// Data that JSON cannot hold.
pub fn collective_parts(
    view: CollectiveView<'_>,
    (timeline, topology_svg): (&Timeline, &str),
) -> Result<Parts, ReportError> {
    let attribution = view.result.attribution.as_ref();
    let row = view.result.shown_row();
    Ok(Parts {
        tiles: html! { @if let Some(row) = row { (tiles(row)) } },
        time: html! { @if let Some(attribution) = attribution { (time_bars::together(attribution)) } },
        timeline: timeline_view::view(timeline, &SHOWN)?,
        drawing: drawing(topology_svg),
        tables: html! {
            @if !view.result.links.is_empty() {
                section { h2 { "Links" span.aside { "the busiest" } } (links_table(view.result, MAX_LINKS)) }
            }
        },
    })
}

/// Those of a training job, whose timeline stands among its tables.
///
/// # Errors
/// Data that JSON cannot hold.
pub fn training_parts(
    variant: &Variant,
    timeline: Option<&JobTimeline>,
) -> Result<Parts, ReportError> {
    let result = ran(variant);
    Ok(Parts {
        tiles: html! { @if let Some(result) = result { (training::tiles(variant, result)) } },
        tables: training::opened(variant, timeline)?,
        ..Parts::default()
    })
}
