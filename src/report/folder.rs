//! A run's folder, whole or not at all.
//!
//! Everything is written into a hidden folder beside the target and renamed when it is
//! complete and on disk. A former run in its place is moved aside first and comes back
//! if the new one cannot take the name; it is deleted only after that.

use super::record::{Summary, Timeline};
use super::{ReportError, html, links_csv, perfetto, plot, summary_json};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

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

/// The files that a run's folder can hold. Anything else in a folder is someone's work.
const FILES: [&str; 7] = [
    "summary.json",
    "timeline.json",
    "links.csv",
    "bandwidth.svg",
    "bandwidth.png",
    "topology.svg",
    "report.html",
];

/// Writes `run` as the folder `target`, making its parents if needed. What differs
/// between two runs of one spec (wall-clock times) is left out of the files.
///
/// # Errors
/// A target that exists and is not such a folder, a parent that cannot be written, or
/// results that cannot be shown; what was there before stays as it was.
pub fn write_run(target: &Path, run: &Run) -> Result<(), ReportError> {
    let place = Place::check(target)?;
    let made = make_parents(&place.parent)?;
    let written = write_and_swap(&place, run);
    if written.is_err() {
        // Best effort: an empty folder left behind harms no one.
        for folder in made.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
    written
}

/// Where the folder goes.
struct Place {
    target: PathBuf,
    parent: PathBuf,
    /// Something that may be replaced is there.
    occupied: bool,
}

impl Place {
    fn check(target: &Path) -> Result<Place, ReportError> {
        let exists = match fs::symlink_metadata(target) {
            Ok(_) => true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(ReportError::io("look at", target)(error)),
        };
        // Through links and dots to the folder itself: renaming a link would not move it.
        let target = if exists {
            fs::canonicalize(target).map_err(ReportError::io("look at", target))?
        } else {
            target.to_owned()
        };
        let unnamed = || ReportError::Unnamed {
            path: target.clone(),
        };
        target.file_name().ok_or_else(unnamed)?;
        let parent = match target.parent() {
            Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
            Some(parent) => parent.to_owned(),
            None => return Err(unnamed()),
        };
        if exists {
            check_ours(&target)?;
            let current = std::env::current_dir().and_then(fs::canonicalize);
            if current.is_ok_and(|current| current.starts_with(&target)) {
                return Err(ReportError::Current { path: target });
            }
        }
        Ok(Place {
            target,
            parent,
            occupied: exists,
        })
    }
}

/// Accepts an empty folder, and one that holds a run's files and nothing else.
fn check_ours(target: &Path) -> Result<(), ReportError> {
    let foreign = |found: String| ReportError::Foreign {
        path: target.to_owned(),
        found,
    };
    if !target.is_dir() {
        return Err(foreign("it is a file".into()));
    }
    let mut empty = true;
    let entries = fs::read_dir(target).map_err(ReportError::io("read", target))?;
    for entry in entries {
        let entry = entry.map_err(ReportError::io("read", target))?;
        let name = entry.file_name();
        if !FILES.iter().any(|file| name == *file) || entry.path().is_dir() {
            return Err(foreign(format!("it holds `{}`", name.to_string_lossy())));
        }
        empty = false;
    }
    if empty {
        return Ok(());
    }
    let path = target.join("summary.json");
    if !path.exists() {
        return Err(foreign("it has no summary.json".into()));
    }
    let text = fs::read(&path).map_err(ReportError::io("read", &path))?;
    // Looked at loosely: the summary may be of another version of fabricsim.
    let ours = serde_json::from_slice::<serde_json::Value>(&text).is_ok_and(|summary| {
        let has = |field: &str| summary.get(field).is_some();
        ["version", "seed", "topology", "collective", "rows", "spec"]
            .into_iter()
            .all(has)
    });
    if ours {
        Ok(())
    } else {
        Err(foreign("its summary.json is not fabricsim's".into()))
    }
}

/// Makes the missing ones of `parent` and its parents; returns them, outermost first.
fn make_parents(parent: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let missing = parent
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    missing.reverse();
    fs::create_dir_all(parent).map_err(ReportError::io("create", parent))?;
    Ok(missing)
}

fn write_and_swap(place: &Place, run: &Run) -> Result<(), ReportError> {
    let aside = tempfile::Builder::new()
        .prefix(".fabricsim-")
        .tempdir_in(&place.parent)
        .map_err(ReportError::io("write into", &place.parent))?;
    // The temporary folder itself is private (0700); one made inside it has the
    // permissions that the user's folders have.
    let new = aside.path().join("new");
    fs::create_dir(&new).map_err(ReportError::io("create", &new))?;
    write_files(&new, run)?;
    sync_folder(&new)?;

    if place.occupied {
        let old = aside.path().join("old");
        fs::rename(&place.target, &old).map_err(ReportError::io("replace", &place.target))?;
        if let Err(source) = fs::rename(&new, &place.target) {
            if fs::rename(&old, &place.target).is_ok() {
                return Err(ReportError::io("create", &place.target)(source));
            }
            // Dropping `aside` would delete the only copy.
            let kept = aside.keep().join("old");
            return Err(ReportError::Stranded {
                path: place.target.clone(),
                kept,
                source,
            });
        }
    } else {
        fs::rename(&new, &place.target).map_err(ReportError::io("create", &place.target))?;
    }
    sync_folder(&place.parent)?;
    aside
        .close()
        .map_err(ReportError::io("clean up in", &place.parent))
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

fn write_text(path: &Path, text: &str) -> Result<(), ReportError> {
    write_with(path, |out| {
        out.write_all(text.as_bytes())
            .map_err(ReportError::io("write", path))
    })
}

fn write_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let file = File::create(path).map_err(ReportError::io("create", path))?;
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush().map_err(ReportError::io("write", path))?;
    let file = out.get_ref();
    file.sync_all().map_err(ReportError::io("write", path))
}

/// A rename is on disk only when the folder that holds the name is.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> Result<(), ReportError> {
    let opened = File::open(folder).map_err(ReportError::io("open", folder))?;
    opened.sync_all().map_err(ReportError::io("write", folder))
}

/// Folders cannot be opened as files here; the system orders renames itself.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> Result<(), ReportError> {
    Ok(())
}
