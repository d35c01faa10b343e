//! Our own telemetry.csv.

use super::{Metric, Point, Wrong, number, table};

/// Columns before those of metrics.
const HEAD: [&str; 6] = ["start_us", "end_us", "Hostname", "gpu", "device", "port"];

pub(super) fn points(text: &str) -> Result<Vec<Point>, Wrong> {
    let (head, rows) = table(text)?;
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
    for row in rows {
        let (line, row) = row?;
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
                line,
            });
        }
    }
    Ok(points)
}
