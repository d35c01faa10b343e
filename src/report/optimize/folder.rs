//! The folder of a search: its document, its page, and the scenario of each of the best.

use crate::folder::{Content, FolderKind, check_folder, write_folder};
use crate::{ReportError, write_file};
use serde_json::Value;
use std::path::Path;

const DOCUMENT: &str = "optimized.json";
const PAGE: &str = "report.html";

/// A search's folder, as it is known again.
const KIND: FolderKind<'static> = FolderKind {
    files: &[DOCUMENT, PAGE],
    families: &[("best-", ".json")],
    folders: &[],
    mark: DOCUMENT,
    content: Content::Fields(&["format", "searched", "best"]),
};

/// Writes a search as the folder `target`, making its parents if needed; an older one there is replaced. `best` are the
/// machines and the scenarios of the best, in order.
///
/// # Errors
/// A target that exists and is not a search's folder, or that cannot be written; what was there before stays as it was.
pub fn write_search<'b>(
    target: &Path,
    (document, page): (&str, &str),
    best: impl Iterator<Item = (&'b str, &'b Value)>,
) -> Result<(), ReportError> {
    let scenarios = best.enumerate().map(|(index, (topology, scenario))| {
        let name = format!("best-{}-{topology}.json", index + 1);
        (name, format!("{scenario:#}\n"))
    });
    let scenarios: Vec<(String, String)> = scenarios.collect();
    write_folder(target, &[&KIND], |folder| {
        write_file(&folder.join(DOCUMENT), document.as_bytes())?;
        write_file(&folder.join(PAGE), page.as_bytes())?;
        for (name, text) in &scenarios {
            write_file(&folder.join(name), text.as_bytes())?;
        }
        Ok(())
    })
}

/// Whether [`write_search`] could write to `target` now; to be asked before a search.
///
/// # Errors
/// A target that exists and is not a search's folder, or a parent that cannot be written.
pub fn check_search_target(target: &Path) -> Result<(), ReportError> {
    check_folder(target, &[&KIND])
}
