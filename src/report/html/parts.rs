//! Parts of a run's page, for one that changes while it is looked at.

use super::{drawing, links, tiles, time_bars, timeline_view};
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
    /// The busiest links, or a job's communications, ranks and memory.
    pub tables: Markup,
}

/// Those of a collective: what was recorded of it, with so many spans at most.
///
/// # Errors
/// Data that JSON cannot hold.
pub fn collective_parts(
    view: CollectiveView<'_>,
    (timeline, topology_svg): (&Timeline, &str),
    most_spans: usize,
) -> Result<Parts, ReportError> {
    let attribution = view.result.attribution.as_ref();
    let row = view.result.shown_row();
    Ok(Parts {
        tiles: html! { @if let Some(row) = row { (tiles(row)) } },
        time: html! { @if let Some(attribution) = attribution { (time_bars::bars(attribution)) } },
        timeline: timeline_view::view(timeline, most_spans)?,
        drawing: drawing(topology_svg),
        tables: html! { @if !view.result.links.is_empty() { (links(view.result)) } },
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
