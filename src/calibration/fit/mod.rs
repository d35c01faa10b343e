//! Fitting the parameters of time to published tables.
//!
//! Coordinate search on factors: each parameter in turn, and all those that are tied to each other,
//! are moved up and down by steps that become smaller, and what makes the objective smaller is kept
//! (`search.rs`); after each round all of them move at once (`newton.rs`): of a kernel's start and
//! what a step takes a table often knows the sum best. The first round is made from two places.
//!
//! The objective is the mean, over groups of measurements and bands of size, of
//! |ln(predicted / measured)| (half the median and half the mean of a group's rows), where large
//! errors count less and less: every group counts alike, and what no parameter explains bends none;
//! and of a little for each parameter's distance from the hardware files, and from those that it is
//! tied to. No random choice is made, so a fit with the same files gives the same values.

mod leave_out;
mod matrix;
mod newton;
mod pull;
mod quadratic;
mod search;
mod spec;
mod state;

pub use leave_out::leave_one_out;
pub use spec::{Doubt, FitSpec, Parameter};

use super::measurement::Measurement;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::Fit;

/// A parameter's value, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedValue {
    /// Its place in the hardware files.
    pub path: String,
    /// As the hardware files have it.
    pub before: Value,
    /// As fitted.
    pub after: Value,
    /// How many measurements depend on it; 0: it was taken from another parameter.
    pub sets: usize,
    /// How far it can be moved alone until the objective is 1 % worse, as factors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
}

/// What a fit did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FitLog {
    /// Measurements that took part.
    pub sets: Vec<String>,
    /// The objective before and after.
    pub objective: (f64, f64),
    /// How many predictions of a row it took.
    pub evaluations: usize,
    /// The values.
    pub values: Vec<FittedValue>,
}

/// Fits what `spec` names on `measurements`; `tell` hears of every round and parameter.
///
/// # Errors
/// A parameter that is not in the hardware files, or has no unit.
pub fn fit(
    spec: &FitSpec,
    measurements: &[Measurement],
    tell: &mut dyn FnMut(&str),
) -> Result<FitLog, String> {
    let mut fit = Fit::new(spec, measurements)?;
    tell(&format!(
        "{} measurements, {} parameters",
        fit.sets.len(),
        fit.paths.len()
    ));
    let all: Vec<usize> = (0..fit.paths.len()).collect();
    let (before, best) = fit.run(spec, &all)?;
    tell(&format!("objective {before:.5} -> {best:.5}"));
    let mut values = Vec::new();
    for p in 0..fit.paths.len() {
        let range = fit.range(p, best)?;
        values.push(FittedValue {
            path: fit.paths[p].clone(),
            before: fit.starts[p].clone(),
            after: fit.value(p).unwrap_or(Value::Null),
            sets: fit.touched[p].len(),
            range,
        });
    }
    inherit(spec, &mut values);
    Ok(FitLog {
        sets: fit.sets.iter().map(|m| m.id.clone()).collect(),
        objective: (before, best),
        evaluations: fit.evaluations,
        values,
    })
}

/// Parameters on which no measurement depends take the value of those that they are like.
fn inherit(spec: &FitSpec, values: &mut [FittedValue]) {
    for p in (0..values.len())
        .filter(|&p| values[p].sets == 0)
        .collect::<Vec<_>>()
    {
        if let Some(like) = spec.like_of(p, |&q| values[q].sets > 0) {
            values[p].after = values[like].after.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pull::scaled;
    use super::*;
    use crate::{Machines, parse_measurements, predict};
    use fabricsim_topology::{Hardware, catalogue};

    const FITTED: [&str; 2] = [
        "architectures.hopper.ll.launch",
        "architectures.hopper.ll.hop.nvlink",
    ];

    /// All-reduces of kilobytes on 4 and 8 H100, which took `time` of each size.
    fn tables(time: impl Fn(u32, usize) -> f64) -> Vec<Measurement> {
        let table = |gpus: u32| {
            let row = |at| {
                format!(
                    r#"{{"bytes": {}, "time_us": {}}}"#,
                    1024 << at,
                    time(gpus, at)
                )
            };
            let rows = [0, 1, 2].map(row).join(", ");
            format!(
                r#"{{"id": "{gpus}", "collective": "all_reduce", "rows": [{rows}],
                "model": {{"topology": "dgx-h100", "nodes": 1, "gpus_per_node": {gpus},
                "collective": "all-reduce"}}}}"#
            )
        };
        let text = format!("[{}, {}]", table(4), table(8));
        parse_measurements(&text, "made.json").unwrap()
    }

    /// What the tables would be on hardware whose values are so many times the shipped ones.
    fn made(factors: [f64; 2]) -> Vec<Measurement> {
        let mut hardware = catalogue::hardware_json();
        for (path, factor) in FITTED.iter().zip(factors) {
            let place = catalogue::place_in(&mut hardware, path).unwrap();
            *place = scaled(place, factor).unwrap();
        }
        let hardware: Hardware = serde_json::from_value(hardware).unwrap();
        let mut machines = Machines::new(&hardware);
        let times = tables(|_, _| 1.0).into_iter().map(|table| {
            let predicted = predict(&table, &mut machines, |_| true).unwrap();
            predicted.rows.iter().map(|row| row.predicted_us).collect()
        });
        let times: Vec<Vec<f64>> = times.collect();
        tables(|gpus, at| times[usize::from(gpus == 8)][at])
    }

    #[test]
    fn a_start_and_hops_that_only_sums_tell_of_are_found() {
        let parameters = FITTED.map(|path| format!(r#"{{"path": "{path}"}}"#));
        let spec = format!(
            r#"{{"rows_per_set": 3, "most_ranks": 8, "most_bytes": 1000000, "most_spread": 2,
                "most_inversion": 5, "pull": 0, "noticeable": 0.00001, "steps": [1.35, 1.06],
                "parameters": [{}]}}"#,
            parameters.join(", ")
        );
        let spec: FitSpec = serde_json::from_str(&spec).unwrap();
        // Shorter starts and much longer hops: 14 of these are as much of a time.
        let wanted = [0.6, 4.0];
        let log = fit(&spec, &made(wanted), &mut |_| {}).unwrap();
        assert!(
            log.objective.1 < 0.01 * log.objective.0,
            "{:?}",
            log.objective
        );
        for (value, factor) in log.values.iter().zip(wanted) {
            let number = |value: &Value| pull::number(value).unwrap();
            let found = number(&value.after) / number(&value.before);
            assert!(
                (found / factor - 1.0).abs() < 0.02,
                "{}: {found}",
                value.path
            );
        }
    }
}
