//! A sweep's folder, which grows while its points are run.
//!
//! `sweep.json` says which sweep it is and is written first. Points that are over go to
//! `journal.jsonl`; when the last of the sweep or of its shard is over, `points.jsonl` and `points.csv`
//! are made of it in the order of their numbers, each whole or not at all, and the journal goes. What
//! was killed goes on where it was. A lock keeps a second process out.

use super::journal::{self, Journal};
use super::page::sweep_page;
use super::plot::{PlotSpec, chosen_plot, sweep_plot};
use super::row::PointRow;
use super::table::{sweep_csv, sweep_jsonl};
use crate::ReportError;
use crate::file::write_file;
use crate::unfinished::PREFIX;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const INFO: &str = "sweep.json";
const JOURNAL: &str = "journal.jsonl";
const POINTS: &str = "points.jsonl";
const TABLE: &str = "points.csv";
const PAGE: &str = "sweep.html";
const PLOT: &str = "plot.svg";
#[cfg(feature = "png")]
const PLOT_PNG: &str = "plot.png";
const LOCK: &str = ".lock";

/// Which sweep a folder is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepInfo {
    /// The format of the document.
    pub format: u32,
    /// The version of the program.
    pub version: String,
    /// The sweep's name.
    pub name: String,
    /// For people.
    pub title: String,
    /// Of all points, and of the files that they read.
    pub digest: String,
    /// How many points there are in all.
    pub points: u32,
    /// Names of its axes, in the order of their columns.
    pub axes: Vec<String>,
    /// The metric by which points are judged.
    pub objective: String,
    /// The part of the points that this folder has; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The sweep's file.
    pub spec: Value,
}

/// Every so manieth point, from one on: `--shard 2/4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which, from 1.
    pub index: u32,
    /// Of how many.
    pub of: u32,
}

impl Shard {
    /// Whether a point is of this shard.
    #[must_use]
    pub const fn has(self, point: u32) -> bool {
        point % self.of == self.index - 1
    }
}

impl SweepInfo {
    /// The numbers of the points that the folder is to have.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let mine = |point: &u32| self.shard.is_none_or(|shard| shard.has(*point));
        (0..self.points).filter(mine)
    }

    /// The plot that the sweep's file asks for.
    #[must_use]
    pub fn plot(&self) -> Option<PlotSpec> {
        PlotSpec::deserialize(self.spec.get("plot")?).ok()
    }

    /// What is other than in the info of an older folder.
    #[must_use]
    pub fn differs(&self, old: &SweepInfo) -> Option<String> {
        let of = |shard: Option<Shard>| match shard {
            Some(Shard { index, of }) => format!("shard {index}/{of}"),
            None => "all points".to_owned(),
        };
        if self.version != old.version {
            let (new, old) = (&self.version, &old.version);
            return Some(format!("it was begun by version {old}, and this is {new}"));
        }
        if self.points != old.points || self.axes != old.axes {
            return Some(format!(
                "it has {} points over {}, and this sweep {} over {}",
                old.points,
                old.axes.join(", "),
                self.points,
                self.axes.join(", ")
            ));
        }
        if self.digest != old.digest {
            return Some("values, a scenario or a file that they read have changed".to_owned());
        }
        (self.shard != old.shard)
            .then(|| format!("it has {}, and this is {}", of(old.shard), of(self.shard)))
    }
}

/// A folder whose points are being run.
#[derive(Debug)]
pub struct SweepFolder {
    path: PathBuf,
    info: SweepInfo,
    journal: Mutex<Journal>,
    /// Points that were over before.
    finished: BTreeMap<u32, PointRow>,
    _lock: File,
}

impl SweepFolder {
    /// Makes the folder of a sweep, or goes on with one of the same sweep.
    ///
    /// # Errors
    /// A folder of something else or of another sweep, one that another process writes, one that
    /// cannot be written.
    pub fn open(path: &Path, info: SweepInfo) -> Result<Self, ReportError> {
        fs::create_dir_all(path).map_err(ReportError::io("create", path))?;
        check_contents(path)?;
        let lock = lock(path)?;
        match read_info(path) {
            Ok(old) => {
                if let Some(what) = info.differs(&old) {
                    return Err(ReportError::AnotherSweep {
                        path: path.to_owned(),
                        what,
                    });
                }
                // Points stay what they are if they are judged or drawn in another way.
                if old != info {
                    write_info(path, &info)?;
                }
            }
            Err(ReportError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                write_info(path, &info)?;
            }
            Err(error) => return Err(error),
        }
        let (done, _) = journal::read(&path.join(POINTS))?;
        let (journal, more) = Journal::open(&path.join(JOURNAL))?;
        let all = done.into_iter().chain(more);
        Ok(SweepFolder {
            path: path.to_owned(),
            info,
            journal: Mutex::new(journal),
            finished: all.map(|point| (point.point, point)).collect(),
            _lock: lock,
        })
    }

    /// Numbers of the points that are still to be run.
    #[must_use]
    pub fn left(&self) -> Vec<u32> {
        let left = |number: &u32| !self.finished.contains_key(number);
        self.info.numbers().filter(left).collect()
    }

    /// A point is over.
    ///
    /// # Errors
    /// A disk that is full.
    pub fn add(&self, point: &PointRow) -> Result<(), ReportError> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.add(point)
    }

    /// All points are over: makes the tables of them; gives them in order.
    ///
    /// # Errors
    /// Files that cannot be written; points that are missing.
    pub fn finish(self) -> Result<Vec<PointRow>, ReportError> {
        let journal = self.path.join(JOURNAL);
        drop(self.journal);
        let mut all = self.finished;
        let (new, _) = journal::read(&journal)?;
        all.extend(new.into_iter().map(|point| (point.point, point)));
        let missing: Vec<u32> = self
            .info
            .numbers()
            .filter(|n| !all.contains_key(n))
            .collect();
        if !missing.is_empty() {
            return Err(missing_points(&self.path, &missing));
        }
        let points: Vec<PointRow> = all.into_values().collect();
        write_points(&self.path, &self.info, &points)?;
        remove(&journal)?;
        remove_unfinished(&self.path)?;
        remove(&self.path.join(LOCK))?;
        Ok(points)
    }
}

/// Removes what processes that were killed had begun to write. Only with the folder's lock.
fn remove_unfinished(path: &Path) -> Result<(), ReportError> {
    for entry in fs::read_dir(path).map_err(ReportError::io("read", path))? {
        let entry = entry.map_err(ReportError::io("read", path))?;
        let begun = |name: &str| name.starts_with(PREFIX);
        if entry.file_name().to_str().is_some_and(begun) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn write_info(path: &Path, info: &SweepInfo) -> Result<(), ReportError> {
    let text = serde_json::to_string_pretty(info).map_err(|source| ReportError::Json {
        what: "the sweep",
        source,
    })?;
    write_file(&path.join(INFO), format!("{text}\n").as_bytes())
}

fn write_points(path: &Path, info: &SweepInfo, points: &[PointRow]) -> Result<(), ReportError> {
    write_file(&path.join(TABLE), sweep_csv(&info.axes, points)?.as_bytes())?;
    write_plot(path, info, points)?;
    write_file(&path.join(PAGE), sweep_page(info, points)?.as_bytes())?;
    // Last, for it says that the folder is whole.
    write_file(&path.join(POINTS), sweep_jsonl(points)?.as_bytes())
}

/// The plot that the page shows; what an older one showed goes if there is none.
fn write_plot(path: &Path, info: &SweepInfo, points: &[PointRow]) -> Result<(), ReportError> {
    let spec = chosen_plot(info, points);
    let plot = sweep_plot(info, points, &spec, &[]).unwrap_or(None);
    let Some(plot) = plot else {
        #[cfg(feature = "png")]
        remove(&path.join(PLOT_PNG))?;
        return remove(&path.join(PLOT));
    };
    #[cfg(feature = "png")]
    plot.png(&path.join(PLOT_PNG))?;
    write_file(&path.join(PLOT), plot.svg()?.as_bytes())
}

/// Which sweep a folder is of.
///
/// # Errors
/// A folder without `sweep.json`, or with one that is none.
pub fn read_info(path: &Path) -> Result<SweepInfo, ReportError> {
    let file = path.join(INFO);
    let text = fs::read_to_string(&file).map_err(ReportError::io("read", &file))?;
    serde_json::from_str(&text).map_err(|source| ReportError::NoSweep { path: file, source })
}

/// The points of a folder that are over, in order, whether it is whole or not.
///
/// # Errors
/// Files that cannot be read.
pub fn read_points(path: &Path) -> Result<Vec<PointRow>, ReportError> {
    let (done, _) = journal::read(&path.join(POINTS))?;
    let (more, _) = journal::read(&path.join(JOURNAL))?;
    let all = done.into_iter().chain(more);
    let all: BTreeMap<u32, PointRow> = all.map(|point| (point.point, point)).collect();
    Ok(all.into_values().collect())
}

/// Puts shards of one sweep together, as if it had been run in one; gives what it is and its points.
///
/// # Errors
/// Folders of different sweeps, points that two of them have, points that none has.
pub fn merge_sweeps(
    shards: &[PathBuf],
    target: &Path,
) -> Result<(SweepInfo, Vec<PointRow>), ReportError> {
    let mut whole: Option<SweepInfo> = None;
    let mut all: BTreeMap<u32, (PointRow, &PathBuf)> = BTreeMap::new();
    for path in shards {
        let info = SweepInfo {
            shard: None,
            ..read_info(path)?
        };
        let first = whole.get_or_insert_with(|| info.clone());
        if let Some(what) = info.differs(first) {
            return Err(ReportError::AnotherSweep {
                path: path.clone(),
                what,
            });
        }
        for point in read_points(path)? {
            let number = point.point;
            if let Some((_, other)) = all.insert(number, (point, path)) {
                return Err(ReportError::Overlap {
                    point: number,
                    one: other.clone(),
                    other: path.clone(),
                });
            }
        }
    }
    let Some(info) = whole else {
        return Err(missing_points(target, &[]));
    };
    let missing: Vec<u32> = info.numbers().filter(|n| !all.contains_key(n)).collect();
    if !missing.is_empty() {
        return Err(missing_points(target, &missing));
    }
    let points: Vec<PointRow> = all.into_values().map(|(point, _)| point).collect();
    fs::create_dir_all(target).map_err(ReportError::io("create", target))?;
    check_contents(target)?;
    let _lock = lock(target)?;
    write_info(target, &info)?;
    write_points(target, &info, &points)?;
    remove(&target.join(LOCK))?;
    Ok((info, points))
}

fn missing_points(path: &Path, missing: &[u32]) -> ReportError {
    ReportError::MissingPoints {
        path: path.to_owned(),
        count: missing.len(),
        points: ranges(missing),
    }
}

/// Numbers in order as people write them: `0-3, 7`; of many the first.
fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let more = parts.len() > 12;
    parts.truncate(12);
    let told = parts.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    let told = told.collect::<Vec<_>>().join(", ");
    match more {
        true => format!("{told} …"),
        false => told,
    }
}

/// Nothing is in the folder that is not a sweep's.
fn check_contents(path: &Path) -> Result<(), ReportError> {
    let own = |name: &str| {
        [INFO, JOURNAL, POINTS, TABLE, LOCK, PAGE, "slurm"].contains(&name)
            || name.starts_with("plot")
            || name.starts_with(PREFIX)
    };
    for entry in fs::read_dir(path).map_err(ReportError::io("read", path))? {
        let entry = entry.map_err(ReportError::io("read", path))?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(own) {
            return Err(ReportError::Foreign {
                path: path.to_owned(),
                found: format!("it holds `{}`", name.display()),
            });
        }
    }
    Ok(())
}

/// Keeps other processes out as long as the file lives. Where a file system has no locks nobody is
/// kept out.
fn lock(path: &Path) -> Result<File, ReportError> {
    let name = path.join(LOCK);
    let file = File::create(&name).map_err(ReportError::io("create", &name))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(ReportError::Busy {
            path: path.to_owned(),
        }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

fn remove(file: &Path) -> Result<(), ReportError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(ReportError::io("remove", file)(error))
        }
        _ => Ok(()),
    }
}
