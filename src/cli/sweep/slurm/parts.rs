//! The parts of a sweep, each a folder that a task writes.

use super::job::{Job, io};
use crate::cli::CliError;
use fabricsim_report::ReportError;
use fabricsim_report::sweep::{PointRow, Shard, SweepFolder, SweepInfo, read_info, read_points};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A sweep's folder and the points that it lacks.
pub(super) struct Whole<'a> {
    pub(super) info: &'a SweepInfo,
    /// Parts may be of another build of the program.
    pub(super) accept_program: bool,
    pub(super) folder: &'a SweepFolder,
    pub(super) left: BTreeSet<u32>,
}

impl Whole<'_> {
    /// Takes the points that the parts have by now.
    ///
    /// # Errors
    /// A part of another sweep; files that cannot be read or written.
    pub(super) fn take(&mut self, slurm: &Path, of: u32) -> Result<(), CliError> {
        for index in 1..=of {
            let shard = Shard { index, of };
            if !self.left.iter().any(|&point| shard.has(point)) {
                continue;
            }
            for point in points_of((self.info, self.accept_program), shard, slurm)? {
                if self.left.remove(&point.point) {
                    self.folder.add(&point)?;
                }
            }
        }
        Ok(())
    }

    /// The parts that lack points.
    pub(super) fn parts_left(&self, of: u32) -> Vec<u32> {
        let lacks = |&index: &u32| {
            self.left
                .iter()
                .any(|&point| Shard { index, of }.has(point))
        };
        (1..=of).filter(lacks).collect()
    }

    /// What the tasks of an array that has ended left undone: which of them, their points, and the last
    /// words of their logs.
    pub(super) fn undone(&self, job: &Job, slurm: &Path) -> CliError {
        let parts = self.parts_left(job.of);
        let mut text = format!(
            "job array {} has ended and {} of {} points are missing, of {} of {} tasks:",
            job.job,
            self.left.len(),
            self.info.points,
            parts.len(),
            job.parts.len()
        );
        for &index in parts.iter().take(NAMED) {
            let shard = Shard { index, of: job.of };
            let points: Vec<u32> = self
                .left
                .iter()
                .copied()
                .filter(|&p| shard.has(p))
                .collect();
            let log = slurm.join(Job::log_name(&index.to_string()));
            let last = last_lines(&log);
            let said = match last.is_empty() {
                true => "says nothing".to_owned(),
                false => format!("ends with\n        {}", last.join("\n        ")),
            };
            text += &format!(
                "\n    task {index} (shard {index}/{}): {}; {} {said}",
                job.of,
                told(&points),
                log.display()
            );
        }
        if parts.len() > NAMED {
            let more: Vec<String> = parts[NAMED..].iter().map(u32::to_string).collect();
            text += &format!("\n    and tasks {}", more.join(", "));
        }
        text += "\n  The same command submits these tasks again; each goes on where it was.";
        CliError::Slurm(text)
    }
}

/// So many tasks are told with their logs.
const NAMED: usize = 5;
/// So many points of a task.
const POINTS: usize = 12;
/// So many lines of a log.
const LINES: usize = 5;
/// They are within so many bytes of its end.
const TAIL: u64 = 4096;

fn told(points: &[u32]) -> String {
    let shown: Vec<String> = points.iter().take(POINTS).map(u32::to_string).collect();
    let more = match points.len() > POINTS {
        true => format!(" … ({} in all)", points.len()),
        false => String::new(),
    };
    let (noun, verb) = match points.len() {
        1 => ("point", "is"),
        _ => ("points", "are"),
    };
    format!("{noun} {}{more} {verb} missing", shown.join(", "))
}

fn last_lines(log: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut text = Vec::new();
        file.take(TAIL).read_to_end(&mut text)?;
        Ok(text)
    };
    // There is no log of a task that never began.
    let text = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let skip = lines.len().saturating_sub(LINES);
    lines[skip..].iter().map(|&line| line.to_owned()).collect()
}

/// The points of a sweep that the folder of one of its parts has by now.
///
/// # Errors
/// It is of another sweep, or of another build of the program where that is not accepted; files that cannot be read.
pub(super) fn points_of(
    (info, accept_program): (&SweepInfo, bool),
    shard: Shard,
    slurm: &Path,
) -> Result<Vec<PointRow>, CliError> {
    let path = folder_of(slurm, shard.index);
    if !exists(&path)? {
        return Ok(Vec::new());
    }
    let expected = SweepInfo {
        shard: Some(shard),
        ..info.clone()
    };
    let found = match read_info(&path) {
        Err(ReportError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        found => found?,
    };
    expected.check(&found, &path, accept_program)?;
    let points = read_points(&path, &found)?.into_iter();
    Ok(points.map(|row| info.marked(row, &found.program)).collect())
}

fn folder_of(slurm: &Path, index: u32) -> PathBuf {
    slurm.join(format!("shard-{index}"))
}

/// Listing a folder makes a network file system look whether it has new files.
fn exists(path: &Path) -> Result<bool, CliError> {
    match fs::read_dir(path) {
        Ok(entries) => Ok(entries.count() > 0),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(io("read", path, source)),
    }
}

/// How many points the tasks of an array have written, counted without reading them again and again.
pub(super) struct Progress {
    parts: Vec<Part>,
    /// Points that are over elsewhere.
    before: u64,
}

struct Part {
    journal: PathBuf,
    whole: PathBuf,
    points: u64,
    read: u64,
    over: u64,
}

impl Progress {
    pub(super) fn new(job: &Job, info: &SweepInfo, slurm: &Path) -> Self {
        let points = |index| {
            let shard = Shard { index, of: job.of };
            (0..info.points).filter(|&point| shard.has(point)).count() as u64
        };
        let part = |&index: &u32| Part {
            journal: folder_of(slurm, index).join("journal.jsonl"),
            whole: folder_of(slurm, index).join("points.jsonl"),
            points: points(index),
            read: 0,
            over: 0,
        };
        let parts: Vec<Part> = job.parts.iter().map(part).collect();
        let mine: u64 = parts.iter().map(|part| part.points).sum();
        Progress {
            parts,
            before: u64::from(info.points).saturating_sub(mine),
        }
    }

    /// Points that are over by now.
    pub(super) fn over(&mut self) -> u64 {
        let parts = self.parts.iter_mut().map(Part::over);
        self.before + parts.sum::<u64>()
    }
}

impl Part {
    fn over(&mut self) -> u64 {
        if self.over < self.points {
            match self.whole.is_file() {
                true => self.over = self.points,
                // It is there when it is written; until then nothing is over.
                false => self.read_on().unwrap_or_default(),
            }
        }
        self.over.min(self.points)
    }

    fn read_on(&mut self) -> std::io::Result<()> {
        let mut file = File::open(&self.journal)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // A line that is half written is counted when it is whole.
        let whole = text.iter().rposition(|&byte| byte == b'\n');
        let whole = whole.map_or(0, |at| at + 1);
        self.read += whole as u64;
        self.over += text[..whole].iter().filter(|&&byte| byte == b'\n').count() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_of_a_journal_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut part = Part {
            journal: folder.path().join("journal.jsonl"),
            whole: folder.path().join("points.jsonl"),
            points: 9,
            read: 0,
            over: 0,
        };
        assert_eq!(part.over(), 0);
        fs::write(&part.journal, "a\nb\nhal").unwrap();
        assert_eq!((part.over(), part.over()), (2, 2));
        fs::write(&part.journal, "a\nb\nhalf\n").unwrap();
        assert_eq!(part.over(), 3);
        fs::remove_file(&part.journal).unwrap();
        fs::write(&part.whole, "").unwrap();
        assert_eq!(part.over(), 9);
    }

    #[test]
    fn a_log_s_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert!(last_lines(&log).is_empty());
        let text: String = (0..5000).map(|n| format!("line {n}\n\n")).collect();
        fs::write(&log, text).unwrap();
        let last = last_lines(&log);
        assert_eq!((last.len(), &*last[4]), (LINES, "line 4999"));
        assert_eq!(told(&[3]), "point 3 is missing");
        assert_eq!(told(&[3, 5]), "points 3, 5 are missing");
    }
}
