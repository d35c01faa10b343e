//! Our own telemetry.csv.

use super::{Metric, Point, Wrong, number};

/// Columns before those of metrics.
const HEAD: [&str; 6] = ["start_us", "end_us", "Hostname", "gpu", "device", "port"];

pub(super) fn points(text: &str) -> Result<Vec<Point>, Wrong> {
    let mut csv = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(text.as_bytes());
    let head = csv.headers().cloned();
    let head = head.map_err(|error| Wrong::new(1, error.to_string(), "a row of names"))?;
    for (name, expected) in head.iter().zip(HEAD) {
        if name != expected {
            let found = format!("the column {name}");
            return Err(Wrong::new(1, found, expected));
        }
    }
    let mut metrics = Vec::new();
    for name in head.iter().skip(HEAD.len()) {
        let metric = Metric::named(name);
        let found = || Wrong::new(1, format!("the column {name}"), super::METRICS);
        metrics.push(metric.ok_or_else(found)?);
    }
    let mut points = Vec::new();
    for row in csv.records() {
        let row = row.map_err(|error| Wrong::new(0, error.to_string(), "a row"))?;
        let line = row.position().map_or(0, csv::Position::line);
        if row.len() != head.len() {
            let found = format!("{} cells", row.len());
            return Err(Wrong::new(line, found, format!("{}", head.len())));
        }
        let cell = |index: usize| row.get(index).unwrap_or_default();
        let start = number(line, HEAD[0], cell(0))? / 1e6;
        let end = number(line, HEAD[1], cell(1))? / 1e6;
        let entity = [cell(2), cell(3), cell(4), cell(5)].join("/");
        for (index, &metric) in metrics.iter().enumerate() {
            let text = cell(HEAD.len() + index);
            if text.is_empty() {
                continue;
            }
            points.push(Point {
                metric,
                entity: entity.clone(),
                at: end,
                since: Some(start),
                value: number(line, metric.name(), text)?,
            });
        }
    }
    Ok(points)
}
