//! Why a report could not be made.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a report could not be made; a path names the file or folder it is about.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The operating system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried: `create`, `write` …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The target exists and holds something that fabricsim did not write.
    #[error(
        "`{}` is not a folder that fabricsim wrote ({found}); it was left as it is: name another folder, or remove this one",
        path.display()
    )]
    Foreign {
        /// The folder asked for.
        path: PathBuf,
        /// What gave it away.
        found: String,
    },
    /// The target holds the current folder, which would be pulled from under the shell.
    #[error("`{}` is the current folder or holds it, and cannot be replaced: name a folder inside it", path.display())]
    Current {
        /// The folder asked for.
        path: PathBuf,
    },
    /// The target has no name: `/`, or a path that ends in nothing.
    #[error("`{}` does not name a folder that can be made", path.display())]
    Unnamed {
        /// The folder asked for.
        path: PathBuf,
    },
    /// The target is a link to nothing.
    #[error("`{}` is a link to `{}`, which does not exist: make that folder, or name another", path.display(), to.display())]
    Dangling {
        /// The folder asked for.
        path: PathBuf,
        /// Where it leads.
        to: PathBuf,
    },
    /// The finished folder could not take the old one's place, nor the old one come back.
    #[error(
        "cannot replace `{}`: {source}; the former folder is now `{}`",
        path.display(),
        kept.display()
    )]
    Stranded {
        /// The folder asked for.
        path: PathBuf,
        /// Where the former contents are.
        kept: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file is no summary of a run.
    #[error("`{}` is no summary.json of a run: {source}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A folder's file does not say which sweep it is of.
    #[error("`{}` is no sweep.json: {source}", path.display())]
    NoSweep {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A folder's file says of its sweep what cannot be.
    #[error("`{}`, at {place}: found {found}; expected {expected}", path.display())]
    WrongSweep {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: String,
        /// What is there.
        found: String,
        /// What belongs there.
        expected: String,
    },
    /// A sweep's folder is of another format.
    #[error("`{}` has format {format}; expected {}: name another folder, or use the program that wrote it", path.display(), crate::FORMAT)]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// A line of a sweep's points is none.
    #[error("`{}`, line {line}: no point of a sweep: {source}; without this line and those behind it `sweep run` goes on, and runs their points again", path.display())]
    NoPoint {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A line of a sweep's points is of something else.
    #[error("`{}`, line {line}: found {what}; without the line `sweep run` goes on, and runs the point again", path.display())]
    WrongPoint {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What it is of.
        what: String,
    },
    /// A folder has points that another build of the program made.
    #[error("`{}` has points of {old}, not of {new}, whose results may differ; name another folder, remove this one, or give --accept-program: points of both are kept, and marked", path.display())]
    AnotherProgram {
        /// The folder.
        path: PathBuf,
        /// What made its points.
        old: String,
        /// What was to go on.
        new: String,
    },
    /// A folder is given twice.
    #[error("`{}` is given twice; expected each shard once", path.display())]
    Twice {
        /// The folder.
        path: PathBuf,
    },
    /// A folder has points of another sweep.
    #[error("`{}` has points of another sweep: {what}; name another folder, or remove this one", path.display())]
    AnotherSweep {
        /// The folder.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// Another process writes a sweep's folder.
    #[error("`{}` is being written by another process: wait for it, or name another folder", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Two shards have the same point.
    #[error("point {point} is in `{}` and in `{}`; expected shards that have no point in common", one.display(), other.display())]
    Overlap {
        /// The point's number.
        point: u32,
        /// One folder.
        one: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// A sweep is not whole.
    #[error("{count} points are missing for `{}` ({points}): run them, or name the folders that have them", path.display())]
    MissingPoints {
        /// The folder that was to be whole.
        path: PathBuf,
        /// How many.
        count: u64,
        /// Which, for people.
        points: String,
    },
    /// A number in the results is not finite, so that JSON cannot hold it.
    #[error("the result `{field}` is {value}, which no report can hold")]
    NotFinite {
        /// Where in the summary: `rows[3].time_us`.
        field: String,
        /// The number.
        value: f64,
    },
    /// A plot could not be drawn.
    #[error("cannot draw the plot: {0}")]
    Plot(String),
    /// A value could not be written as JSON.
    #[error("cannot write {what} as JSON: {source}")]
    Json {
        /// What was written.
        what: &'static str,
        /// What went wrong.
        source: serde_json::Error,
    },
    /// A file of series that cannot be read.
    #[error("`{}`, line {line}: found {found}; expected {expected}", path.display())]
    Series {
        /// The file.
        path: PathBuf,
        /// The line in it, from 1.
        line: u64,
        /// What is there.
        found: String,
        /// What belongs there.
        expected: String,
    },
    /// Series that cannot be set beside each other.
    #[error("the series {what}: simulated are {simulated}; measured are {measured}")]
    Apart {
        /// Why not.
        what: String,
        /// Metrics of one.
        simulated: String,
        /// Metrics of the other.
        measured: String,
    },
    /// Rows could not be written as CSV.
    #[error("cannot write {what} as CSV: {source}")]
    Csv {
        /// What was written.
        what: &'static str,
        /// What went wrong.
        source: csv::Error,
    },
}

impl ReportError {
    /// Whether what was asked for cannot be, rather than the system or the results refusing.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            ReportError::Foreign { .. }
            | ReportError::Current { .. }
            | ReportError::Unnamed { .. }
            | ReportError::Dangling { .. }
            | ReportError::Unread { .. }
            | ReportError::NoSweep { .. }
            | ReportError::WrongSweep { .. }
            | ReportError::Format { .. }
            | ReportError::NoPoint { .. }
            | ReportError::WrongPoint { .. }
            | ReportError::AnotherProgram { .. }
            | ReportError::Twice { .. }
            | ReportError::AnotherSweep { .. }
            | ReportError::Busy { .. }
            | ReportError::Overlap { .. }
            | ReportError::MissingPoints { .. }
            | ReportError::Series { .. }
            | ReportError::Apart { .. } => true,
            ReportError::Io { .. }
            | ReportError::Stranded { .. }
            | ReportError::NotFinite { .. }
            | ReportError::Plot(_)
            | ReportError::Json { .. }
            | ReportError::Csv { .. } => false,
        }
    }

    /// The same error, with the file's name where the system refused to write it.
    pub(super) fn in_file(self, path: &Path) -> Self {
        let io = |source| ReportError::io("write", path)(source);
        match self {
            ReportError::Json { source, .. } if source.is_io() => io(source.into()),
            ReportError::Csv { source, .. } if source.is_io_error() => io(source.into()),
            other => other,
        }
    }

    /// An [`ReportError::Io`] from what was tried on `path`, for `map_err`.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| ReportError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
