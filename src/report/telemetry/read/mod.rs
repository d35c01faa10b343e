//! Series from files: our own, those of a range query of Prometheus as CSV or JSON, and what `dcgmi dmon` and
//! `nvidia-smi` print.

mod answer;
mod cell;
mod clock;
mod dmon;
mod own;
mod query;
mod range;

use super::{Field, PORT_COUNTERS};
use crate::ReportError;
use crate::numbers::trimmed;
use csv::StringRecord;
use fabricsim_units::Quotes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// A field of GPUs.
    Gpu(Field),
    /// Bytes a second out of a port.
    PortOut,
    /// Bytes a second into one.
    PortIn,
}

impl Metric {
    /// As exporters name it; counters of ports are compared as rates.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Gpu(field) => field.name(),
            Metric::PortOut => PORT_COUNTERS[0],
            Metric::PortIn => PORT_COUNTERS[1],
        }
    }

    /// The metric of that name.
    fn named(name: &str) -> Option<Metric> {
        let fields = Field::ALL.into_iter().map(Metric::Gpu);
        let mut all = fields.chain([Metric::PortOut, Metric::PortIn]);
        all.find(|metric| metric.name() == name)
    }
}

/// The mean of all GPUs, or ports, over a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// From, in seconds of the file's clock.
    pub start: f64,
    /// To.
    pub end: f64,
    /// The mean.
    pub value: f64,
}

/// What a file has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// The file's form: `dcgmi dmon`.
    pub form: &'static str,
    /// The means of each metric, in order of time.
    pub metrics: BTreeMap<Metric, Vec<Mean>>,
    /// Metrics that no run has.
    pub unknown: Vec<String>,
}

/// A value of one GPU or port at a time.
#[derive(Debug, Clone)]
struct Point {
    metric: Metric,
    entity: String,
    /// Seconds of the file's clock; a value is of the time before it.
    at: f64,
    /// When that time began, where the file says it.
    since: Option<f64>,
    value: f64,
    /// The line of the file.
    line: u64,
}

/// Something in a file that cannot be read.
struct Wrong {
    line: u64,
    found: String,
    expected: String,
}

impl Wrong {
    fn new(line: u64, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Wrong {
            line,
            found: found.into(),
            expected: expected.into(),
        }
    }
}

/// Reads series of a file with its text. `each` is the time from sample to sample of a file that does not say it
/// (`dcgmi dmon`, `nvidia-smi dmon`), in seconds.
///
/// # Errors
/// A file of no known form; a column or a value that makes no sense, times that go back.
pub fn read_series(path: &Path, text: &str, each: f64) -> Result<Series, ReportError> {
    series_of(text, each).map_err(|wrong| ReportError::Series {
        path: path.to_owned(),
        line: wrong.line,
        found: wrong.found,
        expected: wrong.expected,
    })
}

/// Whether a text of JSON is an answer of Prometheus, and no scenario.
#[must_use]
pub fn is_prometheus_answer(text: &str) -> bool {
    answer::is_answer(text)
}

fn series_of(text: &str, each: f64) -> Result<Series, Wrong> {
    // Grafana puts a byte order mark before what it saves.
    let text = text.trim_start_matches('\u{feff}');
    let first = text.lines().find(|line| !line.trim().is_empty());
    let Some(first) = first else {
        return Err(Wrong::new(1, "nothing", FORMS));
    };
    let mut unknown = BTreeSet::new();
    let (form, points) = if let Some(program) = dmon::Program::of(first) {
        let points = dmon::points((text, each), program, &mut unknown)?;
        (program.form, points)
    } else if first.trim_start().starts_with('#') {
        let shown: String = first.trim().chars().take(40).collect();
        let line = 1 + text
            .lines()
            .take_while(|line| line.trim().is_empty())
            .count();
        return Err(Wrong::new(line as u64, format!("`{shown}`"), FORMS));
    } else if first.trim_start().starts_with('{') {
        ("Prometheus", answer::points(text, &mut unknown)?)
    } else if first.starts_with("start_us,") {
        ("fabricsim", own::points(text)?)
    } else if query::is_head(first) {
        ("nvidia-smi", query::points(text, &mut unknown)?)
    } else {
        ("Prometheus", range::points(text, &mut unknown)?)
    };
    check(&points)?;
    let metrics = means(points);
    if metrics.is_empty() {
        return Err(Wrong::new(1, "no series that a run has", METRICS));
    }
    Ok(Series {
        form,
        metrics,
        unknown: unknown.into_iter().collect(),
    })
}

const FORMS: &str = "telemetry.csv of a run, a range query of Prometheus as CSV or JSON, or the output of `dcgmi dmon`, \
    `nvidia-smi dmon` or `nvidia-smi --query-gpu=… --format=csv`";
const METRICS: &str = "a field of DCGM such as DCGM_FI_PROF_NVLINK_TX_BYTES, or node_infiniband_port_data_transmitted_bytes_total";

/// No sample of any metric is larger: counters of 64 bits are not.
const LARGEST: f64 = 1e20;

/// Values that a metric can have, at times that there are, and those of each series in order.
fn check(points: &[Point]) -> Result<(), Wrong> {
    let mut last: BTreeMap<(Metric, &str), f64> = BTreeMap::new();
    for point in points {
        let name = point.metric.name();
        if !(0.0..=LARGEST).contains(&point.value) {
            let found = format!("{} for {name}", point.value);
            return Err(Wrong::new(
                point.line,
                found,
                "a value of 0 or more, at most 1e20",
            ));
        }
        let since = point.since.unwrap_or(point.at);
        let is_time = |time: f64| (0.0..=clock::LAST).contains(&time);
        if !(is_time(point.at) && is_time(since) && since <= point.at) {
            let found = match point.since {
                Some(since) => format!("{name} from {since} s to {} s", point.at),
                None => format!("{name} at {} s", point.at),
            };
            let expected =
                "times of 0 or more, before the year 10000, the first of two before the second";
            return Err(Wrong::new(point.line, found, expected));
        }
        let before = last.insert((point.metric, &point.entity), point.at);
        let Some(before) = before.filter(|before| *before >= point.at) else {
            continue;
        };
        let found = match before == point.at {
            true => format!("a second value of {name} ({}) at one time", point.entity),
            false => format!(
                "a value of {name} ({}) {} s before the one above",
                point.entity,
                trimmed(before - point.at, 3)
            ),
        };
        return Err(Wrong::new(
            point.line,
            found,
            "values of a series in order of time",
        ));
    }
    Ok(())
}

/// The mean over all GPUs or ports at each time.
fn means(points: Vec<Point>) -> BTreeMap<Metric, Vec<Mean>> {
    let mut of_entity: BTreeMap<(Metric, String), Vec<Point>> = BTreeMap::new();
    for point in points {
        let key = (point.metric, point.entity.clone());
        of_entity.entry(key).or_default().push(point);
    }
    // By time, which has an order as text of whole nanoseconds.
    let mut sums: BTreeMap<(Metric, i64), (Mean, u32)> = BTreeMap::new();
    for ((metric, _), mut points) in of_entity {
        points.sort_by(|a, b| a.at.total_cmp(&b.at));
        let counts = matches!(metric, Metric::PortOut | Metric::PortIn);
        for (index, point) in points.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| points.get(before));
            let next = points.get(index + 1);
            let since = point.since.or(before.map(|before| before.at));
            // Of the first one the time is not known: as long as the next one's.
            let since = since.or(next.map(|next| point.at - (next.at - point.at)));
            let start = since.unwrap_or(point.at);
            let value = match (counts, before) {
                (false, _) => point.value,
                // A counter that was reset begins again.
                (true, Some(before)) if before.value <= point.value => {
                    (point.value - before.value) / (point.at - start).max(1e-12)
                }
                // Our own counters begin with the run.
                (true, None) if point.since.is_some() => {
                    point.value / (point.at - start).max(1e-12)
                }
                (true, _) => continue,
            };
            let key = (metric, (point.at * 1e9).round() as i64);
            let mean = Mean {
                start,
                end: point.at,
                value: 0.0,
            };
            let (sum, count) = sums.entry(key).or_insert((mean, 0));
            sum.value += value;
            *count += 1;
        }
    }
    let mut metrics: BTreeMap<Metric, Vec<Mean>> = BTreeMap::new();
    for ((metric, _), (sum, count)) in sums {
        metrics.entry(metric).or_default().push(Mean {
            value: sum.value / f64::from(count),
            ..sum
        });
    }
    metrics
}

/// A row of a table and its line, or what is wrong with it.
type Row = Result<(u64, StringRecord), Wrong>;

/// The character that separates cells, where the first line says it (`sep=;`), as Grafana writes it for Excel; and
/// the lines below.
fn separated(text: &str) -> (Option<u8>, &str) {
    let rest = text.strip_prefix("sep=");
    let rest = rest.and_then(|rest| rest.split_once('\n'));
    match rest.map(|(by, below)| (by.trim_end_matches('\r').as_bytes(), below)) {
        Some(([by], below)) => (Some(*by), below),
        _ => (None, text),
    }
}

/// The names of a CSV file's columns, and its rows, each of as many cells, whose quotes are in order.
fn table(text: &str) -> Result<(StringRecord, impl Iterator<Item = Row>), Wrong> {
    let (by, text) = separated(text);
    let above = u64::from(by.is_some());
    let mut quotes = Quotes::new(char::from(by.unwrap_or(b',')));
    let read = quotes.read(text).and_then(|()| quotes.end());
    read.map_err(|error| Wrong::new(error.line + above, error.found, error.expected))?;
    let mut csv = csv::ReaderBuilder::new()
        .flexible(true)
        .delimiter(by.unwrap_or(b','))
        .from_reader(text.as_bytes());
    let head = csv.headers().cloned();
    let head = head.map_err(|error| Wrong::new(1 + above, error.to_string(), "a row of names"))?;
    let cells = head.len();
    let rows = csv.into_records().map(move |row| {
        let row = row.map_err(|error| Wrong::new(0, error.to_string(), "a row"))?;
        let line = row.position().map_or(0, csv::Position::line) + above;
        if row.len() != cells {
            let found = format!("{} cells", row.len());
            return Err(Wrong::new(line, found, format!("{cells}")));
        }
        Ok((line, row))
    });
    Ok((head, rows))
}

/// A number of a cell.
fn number(line: u64, column: &str, text: &str) -> Result<f64, Wrong> {
    let value: Option<f64> = text.trim().parse().ok();
    value.filter(|value| value.is_finite()).ok_or_else(|| {
        let shown: String = text.trim().chars().take(40).collect();
        Wrong::new(
            line,
            format!("`{shown}` in column {column}"),
            format!("a number such as {}", trimmed(12.5, 1)),
        )
    })
}

/// Whether it looks like a metric of an exporter, though no run has it.
fn is_exported(name: &str) -> bool {
    let prefixes = ["DCGM_FI_", "DCGM_EXP_", "node_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests;
