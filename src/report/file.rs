//! A single file of results, whole or not at all.

use super::ReportError;
use super::folder::sync_folder;
use super::unfinished::{Mark, PREFIX};
use std::io::Write;
use std::path::Path;

/// Writes `contents` to `path` in one step: readers see the old file or the new one, and
/// a failure leaves the old one. The parent must exist.
///
/// # Errors
/// A path that cannot be written, or that is a folder.
pub fn write_file(path: &Path, contents: &[u8]) -> Result<(), ReportError> {
    let unnamed = || ReportError::Unnamed {
        path: path.to_owned(),
    };
    path.file_name().ok_or_else(unnamed)?;
    // A pipe or a terminal cannot be replaced by a file, only written to.
    let special = std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if special {
        return std::fs::write(path, contents).map_err(ReportError::io("write", path));
    }
    // Through a link to the file itself: a rename would replace the link.
    let path = &match std::fs::canonicalize(path) {
        Ok(found) => found,
        Err(_) => path.to_owned(),
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = builder()
        .tempfile_in(parent)
        .map_err(ReportError::io("write into", parent))?;
    let mark = Mark::new(file.path());
    file.write_all(contents)
        .and_then(|()| file.as_file().sync_all())
        .map_err(ReportError::io("write", path))?;
    mark.uninterrupted(|| file.persist(path))
        .map_err(|error| ReportError::io("create", path)(error.error))?;
    sync_folder(parent)
}

/// Temporary files are private by default; results have the permissions of other files.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The system takes the user's mask off it.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder
}
