//! A validation's folder: its files, and what is in each.

use super::{Validation, curves_svg, validation_json, validation_page};
use crate::folder::{Content, FolderKind, check_folder, write_folder};
use crate::{ReportError, write_file};
use std::path::Path;

/// A validation's folder, as it is known again.
const KIND: FolderKind<'static> = FolderKind {
    files: &["validation.json", "report.html", "curves.svg"],
    families: &[],
    folders: &[],
    mark: "validation.json",
    content: Content::Fields(&["sets", "summary", "skipped", "version"]),
};

/// Writes `validation` as the folder `target`, making its parents if needed; an older
/// validation there is replaced.
///
/// # Errors
/// A target that exists and is not a validation's folder, a parent that cannot be written,
/// or results that cannot be shown; what was there before stays as it was.
pub fn write_validation(target: &Path, validation: &Validation) -> Result<(), ReportError> {
    let json = validation_json(validation)?;
    let page = validation_page(validation);
    let curves = curves_svg(validation);
    write_folder(target, &[&KIND], |folder| {
        write_file(&folder.join("validation.json"), json.as_bytes())?;
        write_file(&folder.join("report.html"), page.as_bytes())?;
        write_file(&folder.join("curves.svg"), curves.as_bytes())
    })
}

/// Whether [`write_validation`] could write to `target` now; to be asked before long work.
///
/// # Errors
/// A target that exists and is not a validation's folder, or a parent that cannot be written.
pub fn check_validation_target(target: &Path) -> Result<(), ReportError> {
    check_folder(target, &[&KIND])
}
