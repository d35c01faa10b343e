//! `DIR/slurm/job.json`: which job array a sweep was given to.

use crate::cli::CliError;
use fabricsim_report::{FORMAT, ReportError, write_file};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The job array that was submitted last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    format: u32,
    /// Its id.
    pub(super) job: String,
    /// The sweep's digest.
    pub(super) digest: String,
    /// How many parts the sweep has.
    pub(super) of: u32,
    /// The parts that this array has, from 1: its tasks.
    pub(super) parts: Vec<u32>,
}

impl Job {
    pub(super) fn new(job: String, digest: &str, of: u32, parts: Vec<u32>) -> Self {
        Job {
            format: FORMAT,
            job,
            digest: digest.to_owned(),
            of,
            parts,
        }
    }

    /// What a folder has; none if nothing was submitted from it.
    ///
    /// # Errors
    /// A file that cannot be read, or that is none.
    pub(super) fn read(slurm: &Path) -> Result<Option<Self>, CliError> {
        let file = path(slurm);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io("read", &file, source)),
        };
        let wrong = |error| {
            let (file, slurm) = (file.display(), slurm.display());
            CliError::Usage(format!(
                "`{file}` does not name a job array: {error}; remove `{slurm}` to begin again"
            ))
        };
        serde_json::from_str(&text).map(Some).map_err(wrong)
    }

    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write(&self, slurm: &Path) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(self).map_err(|source| ReportError::Json {
            what: "the job array",
            source,
        })?;
        Ok(write_file(&path(slurm), format!("{text}\n").as_bytes())?)
    }

    /// What a task writes to its standard output and error, by the task's index.
    pub(super) fn log_name(task: &str) -> String {
        format!("task-{task}.log")
    }
}

fn path(slurm: &Path) -> PathBuf {
    slurm.join("job.json")
}

/// The system refuses to do something with a file.
pub(super) fn io(action: &'static str, path: &Path, source: std::io::Error) -> CliError {
    CliError::Report(ReportError::Io {
        action,
        path: path.to_owned(),
        source,
    })
}
