//! A job's folder: its files, and what is in each.

use super::{
    JobSummary, JobTimeline, job_page, job_summary_json, job_timeline_svg, reproducible,
    write_job_trace,
};
use crate::ReportError;
use crate::folder::{FolderKind, check_folder, write_folder};
use crate::run::{self, write_text, write_with};
use std::path::Path;

/// A job's folder, as it is known again.
pub(crate) const KIND: FolderKind = FolderKind {
    files: &[
        "summary.json",
        "timeline.json",
        "timeline.svg",
        "report.html",
    ],
    families: &[("timeline-", ".json"), ("timeline-", ".svg")],
    mark: "summary.json",
    fields: &["version", "seed", "title", "answer", "variants", "spec"],
};

/// What a job's folder may replace: a result of the same command, of a job or a collective.
const KINDS: &[&FolderKind] = &[&KIND, &run::KIND];

/// Writes a job's run as the folder `target`, making its parents if needed; an older run
/// there is replaced. `timelines` are by the names of variants: the first is `timeline.json` and
/// `timeline.svg`, the others have their names in these. What differs between two runs of one
/// spec (wall-clock times) is left out of the files.
///
/// # Errors
/// A target that exists and is not a run's folder, a parent that cannot be written, or
/// results that cannot be shown; what was there before stays as it was.
pub fn write_job_run(
    target: &Path,
    summary: &JobSummary,
    timelines: &[(String, JobTimeline)],
) -> Result<(), ReportError> {
    let summary = reproducible(summary);
    let json = job_summary_json(&summary)?;
    let page = job_page(&summary, timelines)?;
    write_folder(target, KINDS, |folder| {
        write_text(&folder.join("summary.json"), &json)?;
        for (name, (_, timeline)) in file_names(timelines).iter().zip(timelines) {
            write_with(&folder.join(format!("{name}.json")), |out| {
                write_job_trace(timeline, out)
            })?;
            let drawing = job_timeline_svg(timeline);
            write_text(&folder.join(format!("{name}.svg")), &drawing)?;
        }
        write_text(&folder.join("report.html"), &page)
    })
}

/// Whether [`write_job_run`] could write to `target` now; to be asked before a long run.
///
/// # Errors
/// A target that exists and is not a run's folder, or a parent that cannot be written.
pub fn check_job_target(target: &Path) -> Result<(), ReportError> {
    check_folder(target, KINDS)
}

/// A name for each timeline's files, without what they end in: any system takes them, also one
/// that does not tell small letters from capitals, and no two are the same.
pub(super) fn file_names(timelines: &[(String, JobTimeline)]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (index, (variant, _)) in timelines.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = variant.to_lowercase().chars().map(plain).collect();
        let words = name.split('-').filter(|word| !word.is_empty());
        let name: String = words.collect::<Vec<_>>().join("-");
        let name: String = name.chars().take(60).collect();
        let name = match (index, name.as_str()) {
            (0, _) => "timeline".to_owned(),
            (_, "") => format!("timeline-{index}"),
            (_, name) => format!("timeline-{name}"),
        };
        let taken = names.contains(&name);
        names.push(if taken {
            free_name(&name, &names)
        } else {
            name
        });
    }
    names
}

/// `name` with the first number behind it that makes it new.
fn free_name(name: &str, names: &[String]) -> String {
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    let mut free = numbered.filter(|numbered| !names.contains(numbered));
    free.next().unwrap_or_else(|| name.to_owned())
}
