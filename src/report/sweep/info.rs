//! Which sweep a folder is of, and which build of the program made its points.

use super::plot::PlotSpec;
use super::product::most_points;
use super::row::PointRow;
use crate::ReportError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// More characters than the name of a scenario, of a sweep or of a variant has.
pub const MOST_NAME: usize = 200;
/// More characters than a title has, which is one line.
pub const MOST_TITLE: usize = 1000;

/// Which sweep a folder is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepInfo {
    /// The format of the document.
    pub format: u32,
    /// The version of the program.
    pub version: String,
    /// The build of the program that made its points; empty of a folder that does not say.
    #[serde(default)]
    pub program: String,
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

    /// How many points the folder is to have.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        match self.shard {
            Some(Shard { index, of }) => (self.points.saturating_sub(index - 1)).div_ceil(of),
            None => self.points,
        }
    }

    /// Refuses what no sweep says of itself; the file is at a path.
    pub(super) fn check_values(&self, path: &Path) -> Result<(), ReportError> {
        let wrong = |place: &str, found: String, expected: String| {
            Err(ReportError::WrongSweep {
                path: path.to_owned(),
                place: place.to_owned(),
                found,
                expected,
            })
        };
        for (place, text, most) in [
            ("name", &self.name, MOST_NAME),
            ("title", &self.title, MOST_TITLE),
        ] {
            let length = text.chars().count();
            if length > most {
                let found = format!("{length} characters");
                return wrong(place, found, format!("at most {most}"));
            }
        }
        if let Some(Shard { index, of }) = self.shard {
            if of == 0 {
                let expected = "a number of shards, 1 or more".to_owned();
                return wrong("shard.of", of.to_string(), expected);
            }
            if !(1..=of).contains(&index) {
                let expected = format!("which of the shards, 1 to {of}");
                return wrong("shard.index", index.to_string(), expected);
            }
        }
        match most_points(&self.spec, &self.axes) {
            Some(most) if u64::from(self.points) > most => wrong(
                "points",
                self.points.to_string(),
                format!("at most {most}, the product of the axes in `spec`"),
            ),
            _ => Ok(()),
        }
    }

    /// The plot that the sweep's file asks for.
    #[must_use]
    pub fn plot(&self) -> Option<PlotSpec> {
        PlotSpec::deserialize(self.spec.get("plot")?).ok()
    }

    /// Whether an older folder is of this sweep; of another build of the program, whether that is accepted.
    ///
    /// # Errors
    /// It is of another sweep, or of another build and `accept_program` is not set.
    pub fn check(
        &self,
        old: &SweepInfo,
        path: &Path,
        accept_program: bool,
    ) -> Result<(), ReportError> {
        if let Some(what) = self.differs(old) {
            return Err(ReportError::AnotherSweep {
                path: path.to_owned(),
                what,
            });
        }
        if self.program != old.program && !accept_program {
            return Err(ReportError::AnotherProgram {
                path: path.to_owned(),
                old: old.program_text(),
                new: self.program_text(),
            });
        }
        Ok(())
    }

    /// A row as it stands in this folder, from where rows that name no build are of `program`.
    #[must_use]
    pub fn marked(&self, row: PointRow, program: &str) -> PointRow {
        let made = row.program.unwrap_or_else(|| program.to_owned());
        PointRow {
            program: (made != self.program).then_some(made),
            ..row
        }
    }

    /// That points are of several builds of the program, for people.
    #[must_use]
    pub fn builds(&self, points: &[PointRow]) -> Option<String> {
        let others = points.iter().filter_map(|point| point.program.as_deref());
        let count = others.clone().count();
        let names: BTreeSet<&str> = others.collect();
        let names: Vec<&str> = names.into_iter().collect();
        (count > 0).then(|| {
            format!(
                "Points are of several builds of the program, whose results may differ: {count} of {} of {}, the others of {}",
                points.len(),
                names.join(", "),
                self.program,
            )
        })
    }

    /// The build, for people.
    fn program_text(&self) -> String {
        match self.program.is_empty() {
            true => format!("a program {} that does not name its build", self.version),
            false => format!("fabricsim {}", self.program),
        }
    }

    /// What does not fit of a row that is said to be of this sweep.
    pub(super) fn misfit(&self, row: &PointRow) -> Option<String> {
        let number = row.point;
        if number >= self.points {
            let points = self.points;
            return Some(format!(
                "point {number} of a sweep that has {points} (0 to {})",
                points.saturating_sub(1)
            ));
        }
        if let Some(shard) = self.shard.filter(|shard| !shard.has(number)) {
            let Shard { index, of } = shard;
            return Some(format!(
                "point {number}, which is not of shard {index}/{of}"
            ));
        }
        let mut names = row.values.keys();
        let foreign = names.find(|name| !self.axes.contains(name))?;
        Some(format!(
            "a value of `{foreign}`, which is no axis of this sweep"
        ))
    }

    /// What is other than in the info of an older folder.
    fn differs(&self, old: &SweepInfo) -> Option<String> {
        let of = |shard: Option<Shard>| match shard {
            Some(Shard { index, of }) => format!("shard {index}/{of}"),
            None => "all points".to_owned(),
        };
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

#[cfg(test)]
impl SweepInfo {
    /// Of one point.
    pub(super) fn sample() -> SweepInfo {
        SweepInfo {
            format: crate::FORMAT,
            version: String::new(),
            program: String::new(),
            name: "s".to_owned(),
            title: "s".to_owned(),
            digest: String::new(),
            points: 1,
            axes: vec!["nodes".to_owned()],
            objective: "time_us".to_owned(),
            shard: None,
            spec: serde_json::json!({
                "name": "s",
                "base": {"name": "a"},
                "axes": [{"path": "nodes", "values": [1, 2, 3]}]
            }),
        }
    }
}
