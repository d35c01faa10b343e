//! What is being written and is not whole yet: hidden files and folders beside their targets.
//!
//! They go when the write fails, and when the program is interrupted ([`remove_unfinished`]). What
//! a killed program left behind goes when a later one has written the same folder: a folder that
//! is still being written is locked.

use super::ReportError;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// What all hidden files and folders begin with.
pub(super) const PREFIX: &str = ".fabricsim-";

/// How often a folder that is being written is emptied.
const ATTEMPTS: usize = 10;

/// Paths that a signal removes. Held while finished folders change places, too.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // A set of paths is never half changed.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every file and folder that is not whole yet; to be called once, when the program ends
/// at once. Folders that are about to take their places take them first; none does after.
pub fn remove_unfinished() {
    let paths = unfinished();
    for path in paths.iter() {
        // While it is emptied another thread may write into it; what cannot be removed is left to
        // the next run.
        for _ in 0..ATTEMPTS {
            let removed = if path.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
            if removed.is_ok() || !path.exists() {
                break;
            }
        }
    }
    // The lock is never given back: the program ends now.
    std::mem::forget(paths);
}

/// Says of a path that it is not whole, as long as this lives.
pub(super) struct Mark(PathBuf);

impl Mark {
    pub(super) fn new(path: &Path) -> Self {
        unfinished().insert(path.to_owned());
        Mark(path.to_owned())
    }

    /// What `take_place` does is done wholly or not at all, whatever signals come.
    pub(super) fn uninterrupted<T>(&self, take_place: impl FnOnce() -> T) -> T {
        let held = unfinished();
        let done = take_place();
        drop(held);
        done
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        unfinished().remove(&self.0);
    }
}

/// A hidden folder beside a target.
pub(super) struct Aside {
    // In the order in which they go.
    folder: TempDir,
    mark: Mark,
    _lock: Option<File>,
}

impl Aside {
    /// Makes one in `parent` for a target called `name`.
    ///
    /// # Errors
    /// A parent that cannot be written.
    pub(super) fn new(parent: &Path, name: &str) -> Result<Self, ReportError> {
        let failed = || ReportError::io("write into", parent);
        loop {
            let folder = tempfile::Builder::new()
                .prefix(&prefix_of(name))
                .tempdir_in(parent)
                .map_err(failed())?;
            let mark = Mark::new(folder.path());
            let lock = lock(folder.path(), true);
            // Between its making and its lock another run can have taken it for a stale one.
            if folder.path().exists() {
                return Ok(Aside {
                    folder,
                    mark,
                    _lock: lock,
                });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// See [`Mark::uninterrupted`].
    pub(super) fn uninterrupted<T>(&self, take_place: impl FnOnce() -> T) -> T {
        self.mark.uninterrupted(take_place)
    }

    /// Leaves it where it is.
    pub(super) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    pub(super) fn close(self) -> std::io::Result<()> {
        self.folder.close()
    }
}

/// Removes what killed runs left of a target called `name` in `parent`.
pub(super) fn sweep(parent: &Path, name: &str) {
    let prefix = prefix_of(name);
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(&prefix);
        if ours && path.is_dir() && lock(&path, false).is_some() {
            // What cannot be removed stays: the result itself is written.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// A name cannot be as long as a folder's and have more around it.
fn prefix_of(name: &str) -> String {
    let name: String = name.chars().take(40).collect();
    format!("{PREFIX}{name}-")
}

/// Locks a folder; `None` if another program has, or the file system has no locks.
#[cfg(unix)]
fn lock(folder: &Path, wait: bool) -> Option<File> {
    use rustix::fs::FlockOperation::{LockExclusive, NonBlockingLockExclusive};
    let file = File::open(folder).ok()?;
    let how = if wait {
        LockExclusive
    } else {
        NonBlockingLockExclusive
    };
    rustix::fs::flock(&file, how).ok()?;
    Some(file)
}

/// Folders cannot be locked here, so stale ones cannot be told from others.
#[cfg(not(unix))]
fn lock(_: &Path, _: bool) -> Option<File> {
    None
}
