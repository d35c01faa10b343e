//! A run's folder: its files, and what is in each.

use super::folder::{FolderKind, check_folder, write_folder};
use super::record::{Summary, Timeline};
use super::{ReportError, html, links_csv, perfetto, plot, summary_json, training};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// All that a run's folder is made from.
#[derive(Debug, Clone)]
pub struct Run {
    /// The results.
    pub summary: Summary,
    /// What happened when; empty if no row was traced.
    pub timeline: Timeline,
    /// A drawing of the topology as SVG, if there is one.
    pub topology_svg: Option<String>,
}

/// A run's folder, as it is known again.
pub(super) const KIND: FolderKind = FolderKind {
    files: &[
        "summary.json",
        "timeline.json",
        "links.csv",
        "bandwidth.svg",
        "bandwidth.png",
        "topology.svg",
        "report.html",
    ],
    families: &[],
    mark: "summary.json",
    fields: &["version", "seed", "topology", "collective", "rows", "spec"],
};

/// What a run's folder may replace: a result of the same command, of a collective or a job.
const KINDS: &[&FolderKind] = &[&KIND, &training::FOLDER];

/// Writes `run` as the folder `target`, making its parents if needed; an older run there
/// is replaced. What differs between two runs of one spec (wall-clock times) is left out
/// of the files.
///
/// # Errors
/// A target that exists and is not a run's folder, a parent that cannot be written, or
/// results that cannot be shown; what was there before stays as it was.
pub fn write_run(target: &Path, run: &Run) -> Result<(), ReportError> {
    write_folder(target, KINDS, |folder| write_files(folder, run))
}

/// Whether [`write_run`] could write to `target` now; to be asked before a long run.
///
/// # Errors
/// A target that exists and is not a run's folder, or a parent that cannot be written.
pub fn check_target(target: &Path) -> Result<(), ReportError> {
    check_folder(target, KINDS)
}

fn write_files(folder: &Path, run: &Run) -> Result<(), ReportError> {
    let summary = summary_json::reproducible(&run.summary);
    let timeline = &run.timeline;
    summary_json::check_finite_timeline(timeline)?;
    let svg = plot::bandwidth_svg(&summary, timeline)?;
    let page = html::report(&summary, timeline, run.topology_svg.as_deref())?;

    write_text(
        &folder.join("summary.json"),
        &summary_json::summary_json(&summary)?,
    )?;
    write_with(&folder.join("timeline.json"), |out| {
        perfetto::write_trace(timeline, out)
    })?;
    write_with(&folder.join("links.csv"), |out| {
        links_csv::write_links_csv(timeline, out)
    })?;
    write_text(&folder.join("bandwidth.svg"), &svg)?;
    plot::bandwidth_png(&summary, timeline, &folder.join("bandwidth.png"))?;
    if let Some(drawing) = &run.topology_svg {
        write_text(&folder.join("topology.svg"), drawing)?;
    }
    write_text(&folder.join("report.html"), &page)
}

pub(super) fn write_text(path: &Path, text: &str) -> Result<(), ReportError> {
    write_with(path, |out| {
        out.write_all(text.as_bytes())
            .map_err(ReportError::io("write", path))
    })
}

pub(super) fn write_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let file = File::create(path).map_err(ReportError::io("create", path))?;
    let mut out = BufWriter::new(file);
    write(&mut out).map_err(|error| error.in_file(path))?;
    out.flush().map_err(ReportError::io("write", path))?;
    let file = out.get_ref();
    file.sync_all().map_err(ReportError::io("write", path))
}
