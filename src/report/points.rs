//! `points.csv`: the variants of a run as rows that other programs can plot.

use super::ReportError;
use super::metrics::Metrics;
use super::summary::{JobResult, Summary, Variant};
use serde_json::Value;
use std::collections::BTreeSet;

/// A point: the variant it is of, of several jobs at once which, and its numbers.
type Point<'a> = (&'a Variant, Option<&'a str>, Metrics);

/// One line for each variant, of a collective one for each of its sizes, of jobs at once one for each
/// job. Key columns come first: the variant's name, the job's if there are several, its machine, and
/// every place of the scenario that any variant sets, with its value; then all numbers that apply to at
/// least one point. No column is there twice: a variant's `topology` and `nodes` are those of its machine, and a
/// place of another column's name stands behind `set.`.
///
/// # Errors
/// None that a summary in memory can cause.
pub fn points_csv(summary: &Summary) -> Result<String, ReportError> {
    let failed = |source| ReportError::Csv {
        what: "the points",
        source,
    };
    let points: Vec<Point<'_>> = summary
        .variants
        .iter()
        .flat_map(|variant| {
            let points = points_of(variant).into_iter();
            points.map(move |(job, metrics)| (variant, job, metrics))
        })
        .collect();
    let mut places = places(&summary.spec);
    places.retain(|place| !["topology", "nodes"].contains(&place.as_str()));
    let columns = Columns::of(points.iter().map(|(_, _, metrics)| metrics));
    let mut csv = csv::Writer::from_writer(Vec::new());
    let jobs = points.iter().any(|(_, job, _)| job.is_some());
    let mut head = vec!["variant", "topology", "nodes", "gpus"];
    if jobs {
        head.insert(1, "job");
    }
    let names = columns.names();
    let taken = |place: &str| head.contains(&place) || names.contains(&place);
    let set: Vec<String> = places
        .iter()
        .map(|place| {
            if taken(place) {
                format!("set.{place}")
            } else {
                place.clone()
            }
        })
        .collect();
    head.extend(set.iter().map(String::as_str));
    head.extend(names);
    csv.write_record(head).map_err(failed)?;
    for (variant, job, metrics) in &points {
        let mut cells = vec![
            variant.name.clone(),
            variant.topology.clone(),
            variant.nodes.to_string(),
            variant.gpus.to_string(),
        ];
        if jobs {
            cells.insert(1, job.unwrap_or_default().to_owned());
        }
        let set = places
            .iter()
            .map(|place| set_value(&summary.spec, &variant.name, place));
        cells.extend(set);
        cells.extend(columns.cells(metrics));
        csv.write_record(cells).map_err(failed)?;
    }
    written(csv).map_err(failed)
}

/// The text of a table.
pub(crate) fn written(csv: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = csv.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The columns of tables that have metrics: whether it fits, the cause, and the numbers that apply to
/// at least one row.
pub(crate) struct Columns {
    /// By their places in [`Metrics::numbers`].
    used: Vec<usize>,
}

impl Columns {
    pub(crate) fn of<'m>(rows: impl Iterator<Item = &'m Metrics> + Clone) -> Self {
        let all = 0..Metrics::names().count();
        let used = |&place: &usize| rows.clone().any(|row| row.numbers()[place].1.is_some());
        Columns {
            used: all.filter(used).collect(),
        }
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        let numbers = Metrics::default().numbers();
        let mut names = vec!["fits", "cause"];
        names.extend(self.used.iter().map(|&place| numbers[place].0));
        names
    }

    /// A row's cells; what does not apply is empty.
    pub(crate) fn cells(&self, row: &Metrics) -> Vec<String> {
        let numbers = row.numbers();
        let number = |&place: &usize| {
            let value: Option<f64> = numbers[place].1;
            value.map_or_else(String::new, |value| value.to_string())
        };
        let mut cells = vec![
            row.fits.map_or_else(String::new, |fits| fits.to_string()),
            row.cause.clone().unwrap_or_default(),
        ];
        cells.extend(self.used.iter().map(number));
        cells
    }
}

/// The numbers of a variant, of a collective those of each size, of jobs at once those of each job,
/// which is named.
pub(crate) fn points_of(variant: &Variant) -> Vec<(Option<&str>, Metrics)> {
    match &variant.job {
        JobResult::Collective(result) => {
            let Metrics {
                kw,
                kw_whole,
                usd_per_gpu_hour,
                uplinks,
                usd_per_hour,
                ..
            } = variant.metrics;
            let rows = result.rows.iter().map(|row| Metrics {
                kw,
                kw_whole,
                usd_per_gpu_hour,
                uplinks,
                usd_per_hour,
                ..Metrics::of_row(row)
            });
            rows.map(|metrics| (None, metrics)).collect()
        }
        JobResult::Concurrent(result) => {
            let jobs = result.jobs.iter().map(|job| {
                let metrics = Metrics {
                    time_us: Some(job.time_us),
                    kw: job.kw,
                    usd_per_gpu_hour: variant.metrics.usd_per_gpu_hour,
                    ..Metrics::default()
                };
                (Some(job.name.as_str()), metrics)
            });
            jobs.collect()
        }
        _ => vec![(None, variant.metrics.clone())],
    }
}

/// Every place that a variant of the scenario sets, in order.
fn places(spec: &Value) -> Vec<String> {
    let variants = spec["variants"].as_array().into_iter().flatten();
    let set = variants.filter_map(|variant| variant["set"].as_object());
    let places: BTreeSet<String> = set.flat_map(|set| set.keys().cloned()).collect();
    places.into_iter().collect()
}

/// What a variant sets a place to, as text; nothing if it leaves it as it is.
fn set_value(spec: &Value, name: &str, place: &str) -> String {
    let mut variants = spec["variants"].as_array().into_iter().flatten();
    let found = variants.find(|variant| variant["name"] == name);
    match found.and_then(|variant| variant["set"].get(place)) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
