//! A folder of results, whole or not at all.
//!
//! Everything is written into a hidden folder beside the target. When that is complete and on
//! disk, it changes places with a former one in one step where the system can do that (Linux),
//! so that the name is never without a whole folder. Elsewhere the former one is moved aside
//! first and comes back if the new one cannot take the name. It is deleted only after that.

use super::ReportError;
use super::unfinished::{Aside, PREFIX, sweep};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What a folder of one kind holds, by which an older one is known and may be replaced.
#[derive(Debug, Clone, Copy)]
pub struct FolderKind<'a> {
    /// The files that it can hold. Anything else in a folder is someone's work.
    pub files: &'a [&'a str],
    /// Files of which there can be several: how their names begin and end, with something
    /// between.
    pub families: &'a [(&'a str, &'a str)],
    /// Folders in it: how their names begin, and how those of the files in them begin and end.
    pub folders: &'a [(&'a str, (&'a str, &'a str))],
    /// The one of the files that is always there.
    pub mark: &'a str,
    /// What that file is. It is looked at no closer, since it may have been written by another version of fabricsim.
    pub content: Content<'a>,
}

/// What a file of fabricsim's is known by.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// A JSON object that has these fields.
    Fields(&'a [&'a str]),
    /// A page or picture that has this text.
    Text(&'a str),
}

impl Content<'_> {
    /// Whether a file is such a one.
    fn is(&self, bytes: &[u8]) -> bool {
        match self {
            Content::Fields(fields) => serde_json::from_slice::<serde_json::Value>(bytes)
                .is_ok_and(|mark| fields.iter().all(|field| mark.get(field).is_some())),
            Content::Text(text) => bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes()),
        }
    }
}

impl FolderKind<'_> {
    /// Whether a file of this name can be in such a folder.
    fn holds(&self, name: &OsStr) -> bool {
        let several = |name: &str| self.families.iter().any(|family| is_of(name, *family));
        self.files.iter().any(|file| name == *file) || name.to_str().is_some_and(several)
    }

    /// Whether a folder can be in such a folder, with all that it holds.
    fn holds_folder(&self, path: &Path) -> Result<bool, ReportError> {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some((_, files)) = self
            .folders
            .iter()
            .find(|(begin, _)| name.starts_with(begin))
        else {
            return Ok(false);
        };
        for entry in fs::read_dir(path).map_err(ReportError::io("read", path))? {
            let entry = entry.map_err(ReportError::io("read", path))?;
            let ours = entry
                .file_name()
                .to_str()
                .is_some_and(|name| is_of(name, *files));
            if !ours || entry.path().is_dir() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a name begins and ends so, with something between.
fn is_of(name: &str, (begin, end): (&str, &str)) -> bool {
    let rest = name.strip_prefix(begin).and_then(|n| n.strip_suffix(end));
    rest.is_some_and(|between| !between.is_empty())
}

/// Makes the folder `target`, and its parents if needed, with what `fill` writes into
/// the (other) folder that it is given. An older folder of one of these kinds is replaced.
///
/// # Errors
/// A target that exists and is of none of these kinds, a parent that cannot be written, or
/// what `fill` gives; what was there before stays as it was.
pub fn write_folder(
    target: &Path,
    kinds: &[&FolderKind<'_>],
    fill: impl FnOnce(&Path) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let place = Place::check(target, kinds)?;
    let made = make_parents(&place.parent)?;
    let written = write_and_swap(place, kinds, fill);
    if written.is_err() {
        remove_empty(&made);
    }
    written
}

/// Whether [`write_folder`] could make the folder `target` now; to be asked before long
/// work whose results go there.
///
/// # Errors
/// A target that exists and is of none of these kinds, or a parent that cannot be written.
pub fn check_folder(target: &Path, kinds: &[&FolderKind<'_>]) -> Result<(), ReportError> {
    let place = Place::check(target, kinds)?;
    let existing = place.parent.ancestors().find(|folder| folder.exists());
    let existing = match existing {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir_in(existing)
        .and_then(tempfile::TempDir::close)
        .map_err(ReportError::io("write into", existing))
}

/// Where the folder goes.
struct Place {
    target: PathBuf,
    parent: PathBuf,
    /// Something that may be replaced is there.
    occupied: bool,
}

impl Place {
    fn check(target: &Path, kinds: &[&FolderKind<'_>]) -> Result<Place, ReportError> {
        let exists = match fs::symlink_metadata(target) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(ReportError::io("look at", target)(error)),
        };
        // Through links and dots to the folder itself: renaming a link would not move it.
        let target = if exists {
            fs::canonicalize(target).map_err(|error| Place::unreachable(target, error))?
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
            check_kinds(&target, kinds)?;
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

    /// Something is there that leads nowhere.
    fn unreachable(target: &Path, error: io::Error) -> ReportError {
        match fs::read_link(target) {
            Ok(to) if error.kind() == io::ErrorKind::NotFound => ReportError::Dangling {
                path: target.to_owned(),
                to,
            },
            _ => ReportError::io("look at", target)(error),
        }
    }

    fn name(&self) -> String {
        let name = self.target.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// Accepts a folder that one of `kinds` accepts; the error is that of the
/// first.
fn check_kinds(target: &Path, kinds: &[&FolderKind<'_>]) -> Result<(), ReportError> {
    let mut refused = None;
    for kind in kinds {
        match check_kind(target, kind) {
            Ok(()) => return Ok(()),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Accepts an empty folder, and one that holds files of this kind and nothing else.
fn check_kind(target: &Path, kind: &FolderKind<'_>) -> Result<(), ReportError> {
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
        let path = entry.path();
        let held = match path.is_dir() {
            true => kind.holds_folder(&path)?,
            false => kind.holds(&name),
        };
        if !held {
            return Err(foreign(format!("it holds `{}`", name.to_string_lossy())));
        }
        empty = false;
    }
    if empty {
        return Ok(());
    }
    let path = target.join(kind.mark);
    if !path.exists() {
        return Err(foreign(format!("it has no {}", kind.mark)));
    }
    let text = fs::read(&path).map_err(ReportError::io("read", &path))?;
    if kind.content.is(&text) {
        Ok(())
    } else {
        Err(foreign(format!("its {} is not fabricsim's", kind.mark)))
    }
}

/// Makes the missing ones of `parent` and its parents; returns them, outermost first.
fn make_parents(parent: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let missing = parent
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    missing.reverse();
    fs::create_dir_all(parent).map_err(|source| {
        remove_empty(&missing);
        ReportError::io("create", parent)(source)
    })?;
    Ok(missing)
}

/// Undoes [`make_parents`], as far as that goes: an empty folder left behind harms no one.
fn remove_empty(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}

/// Runs that end at the same moment can take the place from each other so often.
const ATTEMPTS: usize = 8;

fn write_and_swap(
    mut place: Place,
    kinds: &[&FolderKind<'_>],
    fill: impl FnOnce(&Path) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let aside = Aside::new(&place.parent, &place.name())?;
    // The temporary folder itself is private (0700); one made inside it has the
    // permissions that the user's folders have.
    let new = aside.path().join("new");
    fs::create_dir(&new).map_err(ReportError::io("create", &new))?;
    fill(&new)?;
    sync_folder(&new)?;

    let old = aside.path().join("old");
    for attempt in 1.. {
        match aside.uninterrupted(|| take_place(&place, &new, &old)) {
            Ok(()) => break,
            // Another run has written the folder meanwhile, or taken it away: the last one
            // stays, as if they had run one after the other.
            Err(Refusal::Changed(_)) if attempt < ATTEMPTS => {
                place = Place::check(&place.target, kinds)?;
            }
            Err(Refusal::Changed(source)) => {
                return Err(ReportError::io("create", &place.target)(source));
            }
            Err(Refusal::Stranded(source)) => {
                // Dropping `aside` would delete the only copy.
                let kept = aside.keep().join("old");
                return Err(ReportError::Stranded {
                    path: place.target.clone(),
                    kept,
                    source,
                });
            }
        }
    }
    sync_folder(&place.parent)?;
    aside
        .close()
        .map_err(ReportError::io("clean up in", &place.parent))?;
    sweep(&place.parent, &place.name());
    Ok(())
}

/// Why a finished folder did not take its place.
enum Refusal {
    /// It is not as it was looked at, or cannot be written; what is there is whole.
    Changed(io::Error),
    /// The former folder could not come back either.
    Stranded(io::Error),
}

/// Gives `new` the target's name; a former folder there becomes `old`.
fn take_place(place: &Place, new: &Path, old: &Path) -> Result<(), Refusal> {
    let target = &place.target;
    if !place.occupied {
        return fs::rename(new, target).map_err(Refusal::Changed);
    }
    if let Some(exchanged) = exchange(new, target) {
        return exchanged.map_err(Refusal::Changed);
    }
    fs::rename(target, old).map_err(Refusal::Changed)?;
    fs::rename(new, target).map_err(|source| match fs::rename(old, target) {
        Ok(()) => Refusal::Changed(source),
        Err(_) => Refusal::Stranded(source),
    })
}

/// Lets two folders change their names in one step; `None` where the file system cannot.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> Option<io::Result<()>> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => None,
        done => Some(done.map_err(Into::into)),
    }
}

/// Other systems have no such step in common.
#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> Option<io::Result<()>> {
    None
}

/// A rename is on disk only when the folder that holds the name is.
#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> Result<(), ReportError> {
    let opened = File::open(folder).map_err(ReportError::io("open", folder))?;
    opened.sync_all().map_err(ReportError::io("write", folder))
}

/// Folders cannot be opened as files here; the system orders renames itself.
#[cfg(not(unix))]
pub(super) fn sync_folder(_: &Path) -> Result<(), ReportError> {
    Ok(())
}
