//! What `-o` names: a file whose ending says what is written, or a folder.

use super::CliError;
use clap::builder::{OsStringValueParser, TypedValueParser};
use fabricsim_report::{ReportError, write_file};
use std::path::{Path, PathBuf};

/// Endings of files whose content anybody knows by them.
const KNOWN: [&str; 14] = [
    "html", "htm", "svg", "png", "jpg", "jpeg", "gif", "pdf", "json", "csv", "xml", "dot", "gv",
    "md",
];

/// Accepts files with these endings. Names whose ending says nothing of the content are accepted too.
pub(super) fn file_ending_in(
    endings: &'static [&'static str],
) -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(move |name| {
        let path = PathBuf::from(name);
        match ending(&path) {
            Some(ending)
                if KNOWN.contains(&ending.as_str()) && !endings.contains(&ending.as_str()) =>
            {
                let can: Vec<String> = endings.iter().map(|e| format!(".{e}")).collect();
                Err(format!(
                    "cannot write .{ending}; expected a name that ends in {}",
                    can.join(" or ")
                ))
            }
            _ => Ok(path),
        }
    })
}

/// Accepts folders: names that do not end as a file's does.
pub(super) fn folder() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|name| {
        let path = PathBuf::from(name);
        match ending(&path) {
            Some(ending) if KNOWN.contains(&ending.as_str()) => Err(format!(
                "cannot write a single .{ending} file; expected a folder, which will hold all results"
            )),
            _ => Ok(path),
        }
    })
}

/// The ending of a file's name, in small letters, without its dot.
pub(super) fn ending(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_str()?;
    Some(ending.to_ascii_lowercase())
}

/// Where the file of a shipped thing goes: `NAME.json` here or in the folder that is named, or the file
/// that is named.
pub(super) fn copy_target(name: &str, output: Option<&Path>) -> PathBuf {
    let file = format!("{name}.json");
    match output {
        None => PathBuf::from(file),
        Some(path) if path.is_dir() || ending(path).as_deref() != Some("json") => path.join(file),
        Some(path) => path.to_owned(),
    }
}

/// Refuses a file that is there: somebody may have edited it. `force` allows it.
pub(super) fn check_new(path: &Path, force: bool) -> Result<(), CliError> {
    if force || !path.is_file() {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "`{}` is there already; name another file, or write over it with --force",
        path.display()
    )))
}

/// Writes a file that is not there yet, or over one if `force` says so; folders on its way are made.
pub(super) fn write_new(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    check_new(path, force)?;
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    Ok(write_file(path, text.as_bytes())?)
}

/// Makes a folder that files are written into one by one, and those on its way.
pub(super) fn make_folder(folder: &Path) -> Result<(), CliError> {
    let failed = |source| ReportError::Io {
        action: "create",
        path: folder.to_owned(),
        source,
    };
    Ok(std::fs::create_dir_all(folder).map_err(failed)?)
}
