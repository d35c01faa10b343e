//! A sweep's folder, which grows while its points are run.
//!
//! `sweep.json` says which sweep it is and is written first. Points that are over go to
//! `journal.jsonl`; when the last of the sweep or of its shard is over, `points.jsonl` and `points.csv`
//! are made of it in the order of their numbers, each whole or not at all, and the journal goes. What
//! was killed goes on where it was. A lock keeps a second process out.

use super::info::SweepInfo;
use super::journal::{self, Journal};
use super::missing::Missing;
use super::page::sweep_page;
use super::plot::{chosen_plot, sweep_plot};
use super::row::PointRow;
use super::table::{sweep_csv, sweep_jsonl};
use crate::file::write_file;
use crate::strict_json::from_bytes;
use crate::unfinished::PREFIX;
use crate::{FORMAT, ReportError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(super) const INFO: &str = "sweep.json";
pub(super) const JOURNAL: &str = "journal.jsonl";
const POINTS: &str = "points.jsonl";
const TABLE: &str = "points.csv";
const PAGE: &str = "sweep.html";
const PLOT: &str = "plot.svg";
#[cfg(feature = "png")]
const PLOT_PNG: &str = "plot.png";
const LOCK: &str = ".lock";

/// A folder whose points are being run.
#[derive(Debug)]
pub struct SweepFolder {
    path: PathBuf,
    info: SweepInfo,
    journal: Mutex<Journal>,
    /// Points that were over before.
    finished: BTreeMap<u32, PointRow>,
    /// The build that makes points now.
    program: String,
    _lock: File,
}

/// What is asked of a folder that is there already.
pub struct Expected<'a> {
    /// The values of a point on its axes, by its number.
    pub values: &'a dyn Fn(u32) -> Option<BTreeMap<String, Value>>,
    /// Points of another build of the program may stand beside those of this one.
    pub accept_program: bool,
}

impl SweepFolder {
    /// Makes the folder of a sweep, or goes on with one of the same sweep.
    ///
    /// # Errors
    /// A folder of something else, of another sweep or of another build of the program; rows in it that are not of this
    /// sweep; one that another process writes, one that cannot be written.
    pub fn open(
        path: &Path,
        mut info: SweepInfo,
        expected: &Expected<'_>,
    ) -> Result<Self, ReportError> {
        fs::create_dir_all(path).map_err(ReportError::io("create", path))?;
        check_contents(path)?;
        let check = |old| info.check(old, path, expected.accept_program);
        // What is refused is left as it was, without a lock.
        info_there(path)?.as_ref().map_or(Ok(()), check)?;
        let lock = lock(path)?;
        let program = info.program.clone();
        if let Some(old) = info_there(path)? {
            info.check(&old, path, expected.accept_program)?;
            info.program.clone_from(&old.program);
            // Points stay what they are if they are judged or drawn in another way.
            if old != info {
                write_info(path, &info)?;
            }
        } else {
            write_info(path, &info)?;
        }
        let misfit = |row: &PointRow| {
            info.misfit(row).or_else(|| {
                let wrong = (expected.values)(row.point)? != row.values;
                wrong.then(|| format!("other values than point {} of this sweep has", row.point))
            })
        };
        let (finished, whole) = rows(path, &misfit)?;
        let journal = Journal::open(&path.join(JOURNAL), whole)?;
        Ok(SweepFolder {
            path: path.to_owned(),
            info,
            journal: Mutex::new(journal),
            finished,
            program,
            _lock: lock,
        })
    }

    /// What the folder says of its sweep: of the build that began it.
    #[must_use]
    pub const fn info(&self) -> &SweepInfo {
        &self.info
    }

    /// Numbers of the points that are still to be run.
    #[must_use]
    pub fn left(&self) -> Vec<u32> {
        let left = |number: &u32| !self.finished.contains_key(number);
        self.info.numbers().filter(left).collect()
    }

    /// A point is over, made by this build if it names no other.
    ///
    /// # Errors
    /// A disk that is full.
    pub fn add(&self, point: &PointRow) -> Result<(), ReportError> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.add(&self.info.marked(point.clone(), &self.program))
    }

    /// All points are over: makes the tables of them; gives them in order.
    ///
    /// # Errors
    /// Files that cannot be written; points that are missing.
    pub fn finish(self) -> Result<Vec<PointRow>, ReportError> {
        let journal = self.path.join(JOURNAL);
        drop(self.journal);
        let mut all = self.finished;
        let new = journal::read(&journal)?.rows;
        all.extend(new.into_iter().map(|(_, point)| (point.point, point)));
        if let Some(missing) = Missing::of(&self.info, all.keys().copied()) {
            return Err(missing_points(&self.path, missing));
        }
        let points: Vec<PointRow> = all.into_values().collect();
        write_points(&self.path, &self.info, &points)?;
        remove(&journal)?;
        remove_unfinished(&self.path)?;
        unlock(&self.path)?;
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

pub(super) fn write_info(path: &Path, info: &SweepInfo) -> Result<(), ReportError> {
    let text = serde_json::to_string_pretty(info).map_err(|source| ReportError::Json {
        what: "the sweep",
        source,
    })?;
    write_file(&path.join(INFO), format!("{text}\n").as_bytes())
}

pub(super) fn write_points(
    path: &Path,
    info: &SweepInfo,
    points: &[PointRow],
) -> Result<(), ReportError> {
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
/// A folder without `sweep.json`, with one that is none, of another format, or says what cannot be.
pub fn read_info(path: &Path) -> Result<SweepInfo, ReportError> {
    let file = path.join(INFO);
    let text = fs::read(&file).map_err(ReportError::io("read", &file))?;
    let info: SweepInfo = from_bytes(&text).map_err(|source| ReportError::NoSweep {
        path: file.clone(),
        source,
    })?;
    match info.format {
        FORMAT => info.check_values(&file).map(|()| info),
        format => Err(ReportError::Format { path: file, format }),
    }
}

/// Which sweep a folder is of, if there is one in it.
pub(super) fn info_there(path: &Path) -> Result<Option<SweepInfo>, ReportError> {
    match path.join(INFO).exists() {
        true => read_info(path).map(Some),
        false => Ok(None),
    }
}

/// The points of a folder that are over, in order, whether it is whole or not.
///
/// # Errors
/// Files that cannot be read; rows that are not of the sweep.
pub fn read_points(path: &Path, info: &SweepInfo) -> Result<Vec<PointRow>, ReportError> {
    let (points, _) = rows(path, &|row| info.misfit(row))?;
    Ok(points.into_values().collect())
}

/// All rows of a folder by their numbers, none of which is of something else; and how many bytes whole lines of its
/// journal are.
fn rows(
    path: &Path,
    misfit: &dyn Fn(&PointRow) -> Option<String>,
) -> Result<(BTreeMap<u32, PointRow>, u64), ReportError> {
    let mut all: BTreeMap<u32, PointRow> = BTreeMap::new();
    let journal = journal::read(&path.join(JOURNAL))?;
    let points = journal::read(&path.join(POINTS))?;
    for (name, rows) in [(POINTS, points.rows), (JOURNAL, journal.rows)] {
        let mut here = BTreeSet::new();
        for (line, row) in rows {
            let number = row.point;
            // A process that was killed between its tables and the journal's end leaves a row in both.
            let again = match all.get(&number) {
                Some(known) if *known != row => Some(", with other results"),
                _ => (!here.insert(number)).then_some(""),
            };
            let again = again.map(|how| format!("point {number} again{how}"));
            if let Some(what) = misfit(&row).or(row.misfit()).or(again) {
                return Err(ReportError::WrongPoint {
                    path: path.join(name),
                    line,
                    what,
                });
            }
            all.insert(row.point, row);
        }
    }
    Ok((all, journal.whole))
}

pub(super) fn missing_points(path: &Path, missing: Missing) -> ReportError {
    ReportError::MissingPoints {
        path: path.to_owned(),
        count: missing.count,
        points: missing.told,
    }
}

/// Nothing is in the folder that is not a sweep's.
pub(super) fn check_contents(path: &Path) -> Result<(), ReportError> {
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
    // Points of nobody knows which sweep.
    let nameless = |name: &&str| path.join(name).exists() && !path.join(INFO).exists();
    match [JOURNAL, POINTS].iter().find(|name| nameless(name)) {
        Some(name) => Err(ReportError::Foreign {
            path: path.to_owned(),
            found: format!("it holds `{name}` and no `{INFO}`"),
        }),
        None => Ok(()),
    }
}

/// Keeps other processes out as long as the file lives. Where a file system has no locks nobody is
/// kept out.
pub(super) fn lock(path: &Path) -> Result<File, ReportError> {
    let name = path.join(LOCK);
    let file = File::create(&name).map_err(ReportError::io("create", &name))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(ReportError::Busy {
            path: path.to_owned(),
        }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

pub(super) fn remove(file: &Path) -> Result<(), ReportError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(ReportError::io("remove", file)(error))
        }
        _ => Ok(()),
    }
}

/// The folder is whole: its lock goes.
pub(super) fn unlock(path: &Path) -> Result<(), ReportError> {
    remove(&path.join(LOCK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::merge_sweeps;
    use serde_json::json;

    /// What is said of a folder with such a `sweep.json`.
    fn told(text: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(INFO), text).unwrap();
        match read_info(folder.path()) {
            Ok(_) => String::new(),
            Err(error) => {
                assert!(error.is_usage(), "{error}");
                error.to_string()
            }
        }
    }

    fn sample() -> Value {
        serde_json::to_value(SweepInfo::sample()).unwrap()
    }

    #[test]
    fn what_no_sweep_says_of_itself_is_refused_with_its_place() {
        assert_eq!(told(sample().to_string().as_bytes()), "");
        let shard = |index: u32, of: u32| json!({"index": index, "of": of});
        for (place, value, says) in [
            (
                "shard",
                shard(1, 0),
                "sweep.json`, at shard.of: found 0; expected a number of",
            ),
            (
                "shard",
                shard(0, 4),
                "at shard.index: found 0; expected which of the shards, 1 to 4",
            ),
            (
                "shard",
                shard(5, 4),
                "at shard.index: found 5; expected which of the shards, 1 to 4",
            ),
            (
                "points",
                json!(u32::MAX),
                "at points: found 4294967295; expected at most 3, the product",
            ),
            (
                "name",
                json!("x".repeat(8000)),
                "at name: found 8000 characters; expected at most 200",
            ),
            (
                "title",
                json!("x".repeat(1001)),
                "at title: found 1001 characters; expected at most 1000",
            ),
        ] {
            let mut info = sample();
            info[place] = value;
            let told = told(info.to_string().as_bytes());
            assert!(told.contains(says), "{told}");
        }
    }

    #[test]
    fn what_is_not_text_or_names_a_thing_twice_is_no_sweep() {
        let text = sample().to_string();
        let twice = text.replace("\"base\":", "\"base\":{\"name\":\"b\"},\"base\":");
        let said = told(twice.as_bytes());
        assert!(said.contains("the name `base` stands twice"), "{said}");
        let mut bytes = text.replace("\"s\"", "\"?\"").into_bytes();
        for byte in bytes.iter_mut().filter(|byte| **byte == b'?') {
            *byte = 0xff;
        }
        let said = told(&bytes);
        assert!(said.contains("is no sweep.json: "), "{said}");
    }

    /// What is said of points of a folder with such a journal.
    fn told_of(journal: &str) -> Result<usize, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(JOURNAL), journal).unwrap();
        let info = SweepInfo {
            points: 3,
            ..SweepInfo::sample()
        };
        let points = read_points(folder.path(), &info);
        points
            .map(|points| points.len())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn lines_that_are_wrong_are_counted_with_blank_ones() {
        let refused =
            |point: u32| format!("{{\"point\":{point},\"values\":{{}},\"status\":\"refused\"}}\n");
        let (zero, one) = (refused(0), refused(1));
        assert_eq!(told_of(&format!("{zero}\n\n{one}")), Ok(2));
        for (line, says) in [
            ("{}\n", "line 4: no point of a sweep: missing field"),
            (zero.as_str(), "line 4: found point 0 again;"),
            (&refused(9), "line 4: found point 9 of a sweep that has 3"),
            (
                &one.replace("refused", "done"),
                "line 4: found point 1, which is done, without rows",
            ),
            (
                &one.replace("{}", "{\"nodes\":1,\"nodes\":2}"),
                "line 4: no point of a sweep: the name `nodes` stands twice",
            ),
        ] {
            let said = told_of(&format!("{zero}\n\n{line}")).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }

    /// The file says a number of points that no axis of it bounds.
    #[test]
    fn billions_of_points_are_missing_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut info = sample();
        info["spec"] = json!({});
        info["points"] = json!(u32::MAX);
        fs::write(folder.path().join(INFO), info.to_string()).unwrap();
        let target = folder.path().join("merged");
        let error = merge_sweeps(&[folder.path().to_owned()], &target, false).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("4294967295 points are missing"), "{said}");
        assert!(said.contains("(0-4294967294)"), "{said}");
    }
}
