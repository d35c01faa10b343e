//! The journal of a sweep: points that are over, a line each, in the order in which they ended.
//!
//! A line is written at once. What a killed process left half written is the last line; it is dropped,
//! and its point run again.

use super::row::PointRow;
use super::table::line_of;
use crate::ReportError;
use crate::strict_json::from_bytes;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A crash of the machine, not of the process, may cost the points of so long.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// A journal that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    synced: Instant,
}

impl Journal {
    /// Goes on behind the whole lines of the journal at a path, so many bytes, or begins it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn open(path: &Path, whole: u64) -> Result<Self, ReportError> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(path);
        let file = file.map_err(ReportError::io("write", path))?;
        // The torn tail goes.
        file.set_len(whole)
            .map_err(ReportError::io("write", path))?;
        Ok(Journal {
            file,
            path: path.to_owned(),
            synced: Instant::now(),
        })
    }

    /// One more point is over.
    ///
    /// # Errors
    /// A disk that is full.
    pub(super) fn add(&mut self, point: &PointRow) -> Result<(), ReportError> {
        let line = line_of(point)?;
        let written = self.file.write_all(line.as_bytes());
        written.map_err(ReportError::io("write", &self.path))?;
        if self.synced.elapsed() >= SYNC_EVERY {
            let synced = self.file.sync_data();
            synced.map_err(ReportError::io("write", &self.path))?;
            self.synced = Instant::now();
        }
        Ok(())
    }
}

/// What is in a file that may end in a torn line.
#[derive(Default)]
pub(super) struct Lines {
    /// The points, each with the number of its line.
    pub(super) rows: Vec<(usize, PointRow)>,
    /// How many bytes whole lines are.
    pub(super) whole: u64,
}

/// The lines of a file of points. None, where there is no file.
///
/// # Errors
/// A file that cannot be read; a line before the last that is no point.
pub(super) fn read(path: &Path) -> Result<Lines, ReportError> {
    let mut text = Vec::new();
    match File::open(path).map(|mut file| file.read_to_end(&mut text)) {
        Ok(Ok(_)) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Lines::default()),
        Ok(Err(error)) | Err(error) => return Err(ReportError::io("read", path)(error)),
    }
    let whole = text.iter().rposition(|&byte| byte == b'\n');
    let whole = whole.map_or(0, |at| at + 1);
    let lines = text[..whole].split(|&byte| byte == b'\n');
    let mut rows = Vec::new();
    let numbered = lines.enumerate().map(|(index, line)| (index + 1, line));
    for (line, text) in numbered.filter(|(_, text)| !text.is_empty()) {
        let point = from_bytes(text).map_err(|source| ReportError::NoPoint {
            path: path.to_owned(),
            line,
            source,
        })?;
        rows.push((line, point));
    }
    Ok(Lines {
        rows,
        whole: whole as u64,
    })
}
