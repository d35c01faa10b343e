//! A range query of Prometheus as CSV: either a column for each series (as Grafana saves them), or a
//! line for each value, with columns for its name and labels.

use super::clock::seconds;
use super::{METRICS, Metric, Point, Wrong, cell as cells, is_exported, table};
use csv::StringRecord;
use std::collections::BTreeSet;

/// Names of the column of times, of names, and of values.
const TIMES: [&str; 4] = ["time", "timestamp", "ts", "date"];
const NAMES: [&str; 3] = ["__name__", "metric", "name"];
/// Grafana numbers its queries: `Value #A`.
const VALUES: [&str; 3] = ["value", "values", "value #a"];

pub(super) fn points(text: &str, unknown: &mut BTreeSet<String>) -> Result<Vec<Point>, Wrong> {
    let (head, rows) = table(text)?;
    let place = |names: &[&str]| {
        let is = |column: &str| names.iter().any(|name| column.eq_ignore_ascii_case(name));
        head.iter().position(|column| is(column.trim()))
    };
    let Some(time) = place(&TIMES) else {
        let found = format!("the columns {}", head.iter().collect::<Vec<_>>().join(", "));
        let expected = format!("a column of times ({}); {}", TIMES.join(", "), super::FORMS);
        return Err(Wrong::new(1, found, expected));
    };
    let long = place(&NAMES).zip(place(&VALUES));
    let columns = match long {
        Some(_) => Vec::new(),
        None => columns(&head, time, unknown)?,
    };
    let mut points = Vec::new();
    for row in rows {
        let (line, row) = row?;
        let cell = |index: usize| row.get(index).unwrap_or_default().trim();
        let at = seconds(cell(time)).ok_or_else(|| {
            let found = format!("`{}` in column {}", cell(time), &head[time]);
            let expected = "seconds or milliseconds since 1970, or 2026-01-31T12:00:00Z";
            Wrong::new(line, found, expected)
        })?;
        if let Some((name, value)) = long {
            let Some(metric) = metric(cell(name), line, unknown)? else {
                continue;
            };
            let labels = (0..row.len()).filter(|&index| ![time, name, value].contains(&index));
            let entity: Vec<&str> = labels.map(cell).collect();
            if cells::is_absent(cell(value)) {
                continue;
            }
            points.push(Point {
                metric,
                entity: entity.join("/"),
                at,
                since: None,
                value: cells::value(line, &head[value], metric, cell(value))?,
                line,
            });
            continue;
        }
        for (index, metric) in &columns {
            let text = cell(*index);
            // A series that has no sample then.
            if cells::is_absent(text) {
                continue;
            }
            points.push(Point {
                metric: *metric,
                entity: head[*index].to_owned(),
                at,
                since: None,
                value: cells::value(line, &head[*index], *metric, text)?,
                line,
            });
        }
    }
    Ok(points)
}

/// Columns that are series.
fn columns(
    head: &StringRecord,
    time: usize,
    unknown: &mut BTreeSet<String>,
) -> Result<Vec<(usize, Metric)>, Wrong> {
    let mut columns = Vec::new();
    for (index, column) in head.iter().enumerate() {
        if index == time {
            continue;
        }
        // `NAME{gpu="0"}`, or the name within the braces.
        let name = column.split('{').next().unwrap_or_default().trim();
        let inside = || column.split("__name__=\"").nth(1)?.split('"').next();
        let name = match name {
            "" => inside().unwrap_or_default(),
            name => name,
        };
        if let Some(metric) = metric(name, 1, unknown)? {
            columns.push((index, metric));
        }
    }
    Ok(columns)
}

/// The metric of a name; nothing of one that exporters have and no run.
pub(super) fn metric(
    name: &str,
    line: u64,
    unknown: &mut BTreeSet<String>,
) -> Result<Option<Metric>, Wrong> {
    if let Some(metric) = Metric::named(name) {
        return Ok(Some(metric));
    }
    if is_exported(name) {
        unknown.insert(name.to_owned());
        return Ok(None);
    }
    Err(Wrong::new(line, format!("the series `{name}`"), METRICS))
}
