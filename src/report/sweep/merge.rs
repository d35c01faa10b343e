//! Putting shards of one sweep together.

use super::folder::{
    JOURNAL, check_contents, info_there, lock, missing_points, read_info, read_points, remove,
    unlock, write_info, write_points,
};
use super::info::SweepInfo;
use super::missing::Missing;
use super::row::PointRow;
use crate::ReportError;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Puts shards of one sweep together, as if it had been run in one; gives what it is and its points. Points of another
/// build than the first folder's are marked, where that is accepted.
///
/// # Errors
/// Folders of different sweeps or builds, a folder that is given twice, points that two of them have or that none has,
/// a target that is of another sweep.
pub fn merge_sweeps(
    shards: &[PathBuf],
    target: &Path,
    accept_program: bool,
) -> Result<(SweepInfo, Vec<PointRow>), ReportError> {
    let Parts { info, points } = parts_of(shards, accept_program)?;
    let Some(info) = info else {
        return Err(missing_points(target, Missing::default()));
    };
    if let Some(missing) = Missing::of(&info, points.keys().copied()) {
        return Err(missing_points(target, missing));
    }
    let points: Vec<PointRow> = points.into_values().map(|(point, _)| point).collect();
    fs::create_dir_all(target).map_err(ReportError::io("create", target))?;
    check_contents(target)?;
    let check = || match info_there(target)? {
        Some(old) => info.check(&SweepInfo { shard: None, ..old }, target, accept_program),
        None => Ok(()),
    };
    // What is refused is left as it was, without a lock.
    check()?;
    let _lock = lock(target)?;
    check()?;
    write_info(target, &info)?;
    write_points(target, &info, &points)?;
    // What an unfinished run of this sweep left there: its points are among these.
    remove(&target.join(JOURNAL))?;
    unlock(target)?;
    Ok((info, points))
}

/// What shards have.
#[derive(Default)]
struct Parts<'a> {
    info: Option<SweepInfo>,
    points: BTreeMap<u32, (PointRow, &'a PathBuf)>,
}

fn parts_of(shards: &[PathBuf], accept_program: bool) -> Result<Parts<'_>, ReportError> {
    let mut parts = Parts::default();
    let mut seen = Vec::new();
    for path in shards {
        let own = fs::canonicalize(path).map_err(ReportError::io("read", path))?;
        if seen.contains(&own) {
            return Err(ReportError::Twice { path: path.clone() });
        }
        seen.push(own);
        let own = read_info(path)?;
        let points = read_points(path, &own)?;
        let own = SweepInfo { shard: None, ..own };
        let first = parts.info.get_or_insert_with(|| own.clone());
        first.check(&own, path, accept_program)?;
        for point in points {
            let point = first.marked(point, &own.program);
            if let Some((_, other)) = parts.points.insert(point.point, (point.clone(), path)) {
                return Err(ReportError::Overlap {
                    point: point.point,
                    one: other.clone(),
                    other: path.clone(),
                });
            }
        }
    }
    Ok(parts)
}
