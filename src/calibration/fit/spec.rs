//! What is fitted, and on which rows of which measurements.

use crate::measurement::{Measurement, Model};
use serde::Deserialize;
use std::collections::BTreeSet;

/// What is fitted, and on what.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitSpec {
    /// Free text.
    #[serde(default)]
    pub comment: Option<String>,
    /// Most rows of a measurement that take part, evenly chosen.
    pub rows_per_set: usize,
    /// Measurements with more ranks take no part.
    pub most_ranks: u32,
    /// Rows above so many bytes take no part.
    pub most_bytes: u64,
    /// Rows whose slowest run took so many times as long as the fastest take no part: what the
    /// machine itself does not repeat can tell nothing of a parameter.
    pub most_spread: f64,
    /// Measurements in which a size took so many times as long as a larger one take no part: the
    /// machine was doing something else, too.
    pub most_inversion: f64,
    /// Rows that take no part because their source leaves open how they were measured.
    #[serde(default)]
    pub doubtful: Vec<Doubt>,
    /// What a parameter's being moved by a factor of e costs, in units of the objective: those of
    /// which measurements tell little stay near what the hardware files know.
    pub pull: f64,
    /// A move that makes the objective smaller by less than this part of it is not made.
    pub noticeable: f64,
    /// The factors by which values are moved, one round each.
    pub steps: Vec<f64>,
    /// What is fitted.
    pub parameters: Vec<Parameter>,
}

/// Rows that show something else than what their measurement's `model` block says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// The measurements' ids.
    pub sets: BTreeSet<String>,
    /// Their rows with so many bytes or more; all if absent …
    #[serde(default)]
    pub from: u64,
    /// … and with so many or fewer.
    pub up_to: u64,
    /// Why.
    pub why: String,
}

/// One value that is fitted.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its place in the hardware files, with dots: `architectures.hopper.ll.launch`.
    pub path: String,
    /// The parameter whose value it takes if no measurement depends on it; else it keeps its
    /// own from before.
    #[serde(default)]
    pub like: Option<String>,
    /// What being a factor of e away from that one costs, in units of the objective: what
    /// measurements cannot tell from each other is the same in both.
    #[serde(default)]
    pub tie: f64,
}

impl Doubt {
    /// It is about a row of a measurement.
    fn is_about(&self, id: &str, bytes: u64) -> bool {
        self.sets.contains(id) && (self.from..=self.up_to).contains(&bytes)
    }
}

impl FitSpec {
    /// Where a parameter is among the others.
    pub(super) fn place_of(&self, path: &str) -> Option<usize> {
        self.parameters.iter().position(|p| p.path == path)
    }

    /// The first settled parameter on the way from one to what it is like, and so on.
    pub(super) fn like_of(&self, of: usize, settled: impl Fn(&usize) -> bool) -> Option<usize> {
        let next = |&p: &usize| self.place_of(self.parameters[p].like.as_ref()?);
        // Two may be like each other.
        let mut way = std::iter::successors(Some(of), next).take(self.parameters.len());
        way.find(settled)
    }

    /// The sizes of a measurement that take part; none if it does not, as where settings are inferred
    /// from its times.
    #[must_use]
    pub fn sizes(&self, of: &Measurement) -> BTreeSet<u64> {
        let few = |model: &Model| model.nodes * model.gpus_per_node <= self.most_ranks;
        let undisturbed = of.inversion() <= self.most_inversion && of.inferred.is_none();
        if !(of.healthy && undisturbed && of.model.as_ref().is_some_and(few)) {
            return BTreeSet::new();
        }
        let doubtful = |bytes| self.doubtful.iter().any(|d| d.is_about(&of.id, bytes));
        let known = |bytes: &u64| *bytes <= self.most_bytes && !doubtful(*bytes);
        let steady = of.rows.iter().filter(|r| r.spread() <= self.most_spread);
        let all: Vec<u64> = steady.filter_map(|r| r.bytes).filter(known).collect();
        let step = all.len().div_ceil(self.rows_per_set.max(1)).max(1);
        all.into_iter().step_by(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inferred, parse_measurements};
    use std::collections::BTreeMap;

    fn spec(doubtful: &str) -> FitSpec {
        let text = format!(
            r#"{{"rows_per_set": 3, "most_ranks": 8, "most_bytes": 1000, "most_spread": 1.5,
                "most_inversion": 5, "doubtful": [{doubtful}], "pull": 0, "noticeable": 0,
                "steps": [], "parameters": []}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn table(gpus: u32, rows: &str) -> Measurement {
        let text = format!(
            r#"[{{"id": "a", "collective": "all_reduce", "rows": [{rows}],
                "model": {{"topology": "dgx-h100", "nodes": 1, "gpus_per_node": {gpus},
                "collective": "all-reduce"}}}}]"#
        );
        parse_measurements(&text, "a.json").unwrap().remove(0)
    }

    fn sizes(spec: &FitSpec, table: &Measurement) -> Vec<u64> {
        spec.sizes(table).into_iter().collect()
    }

    const ROWS: &str = r#"{"bytes": 8, "time_us": 10}, {"bytes": 16, "time_us": 10},
        {"bytes": 32, "time_us": 10, "time_us_min": 9, "time_us_max": 90},
        {"bytes": 64, "time_us": 12}, {"bytes": 128, "time_us": 13}, {"bytes": 2048, "time_us": 30}"#;

    #[test]
    fn what_is_unsteady_large_or_in_doubt_takes_no_part() {
        // Of four rows every second one.
        assert_eq!(sizes(&spec(""), &table(8, ROWS)), [8, 64]);
        let doubt = r#"{"sets": ["a", "c"], "up_to": 16, "why": "nobody knows"}"#;
        assert_eq!(sizes(&spec(doubt), &table(8, ROWS)), [64, 128]);
        let doubt = r#"{"sets": ["a"], "from": 16, "up_to": 64, "why": "nobody knows"}"#;
        assert_eq!(sizes(&spec(doubt), &table(8, ROWS)), [8, 128]);
        let other = r#"{"sets": ["b"], "up_to": 16, "why": "nobody knows"}"#;
        assert_eq!(sizes(&spec(other), &table(8, ROWS)), [8, 64]);
    }

    #[test]
    fn large_machines_and_disturbed_tables_take_no_part() {
        assert!(spec("").sizes(&table(16, ROWS)).is_empty());
        let disturbed = r#"{"bytes": 8, "time_us": 100}, {"bytes": 16, "time_us": 10}"#;
        assert!(spec("").sizes(&table(8, disturbed)).is_empty());
        let mut told = table(8, ROWS);
        told.healthy = false;
        assert!(spec("").sizes(&told).is_empty());
        let mut inferred = table(8, ROWS);
        inferred.inferred = Some(Inferred {
            why: "its times".into(),
            env: BTreeMap::new(),
        });
        assert!(spec("").sizes(&inferred).is_empty());
    }
}
