//! What Prometheus answers to a range query over HTTP (`api/v1/query_range`): JSON.

use super::range::metric;
use super::{METRICS, Point, Wrong};
use crate::strict_json::from_bytes;
use serde::{Deserialize, Deserializer, de};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What belongs into such a file.
const EXPECTED: &str = "the answer of api/v1/query_range: {\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\
    \"result\":[{\"metric\":{\"__name__\":…},\"values\":[[1769860800,\"12.5\"],…]}]}}";

/// Whether a text begins as Prometheus's answers do.
pub(super) fn is_answer(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let inside = text.strip_prefix('{').map(str::trim_start);
    inside.is_some_and(|inside| inside.starts_with("\"status\""))
}

/// What is known of any answer.
#[derive(Deserialize)]
struct Outcome {
    status: String,
    #[serde(rename = "errorType")]
    error_type: Option<String>,
    error: Option<String>,
    data: Option<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "resultType")]
    result_type: Option<String>,
}

/// That of a range query.
#[derive(Deserialize)]
struct Answer {
    data: Matrix,
}

#[derive(Deserialize)]
struct Matrix {
    result: Vec<Ranged>,
}

#[derive(Deserialize)]
struct Ranged {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<Sample>,
}

/// A time in seconds, and a value; nothing where it is NaN.
struct Sample(f64, Option<f64>);

impl<'de> Deserialize<'de> for Sample {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (at, text) = <(f64, Cow<'de, str>)>::deserialize(from)?;
        if text == "NaN" {
            return Ok(Sample(at, None));
        }
        let value: Option<f64> = text.parse().ok();
        match value.filter(|value| value.is_finite()) {
            Some(value) => Ok(Sample(at, Some(value))),
            None => {
                let shown: String = text.chars().take(40).collect();
                Err(de::Error::custom(format_args!("the value `{shown}`")))
            }
        }
    }
}

fn wrong(error: &serde_json::Error) -> Wrong {
    Wrong::new(error.line() as u64, error.to_string(), EXPECTED)
}

/// Words of a text that come one after the other, and their lines: one pass over all of it.
struct Words<'t> {
    rest: &'t str,
    line: u64,
}

impl<'t> Words<'t> {
    const fn of(text: &'t str) -> Self {
        Words {
            rest: text,
            line: 1,
        }
    }

    /// The line of the next such word. One that is written with escapes is not found: for it and all that follow the
    /// line of the one before stands.
    fn line(&mut self, word: &str) -> u64 {
        let word = format!("\"{word}\"");
        let found = self.rest.find(&word);
        let (before, rest) = self.rest.split_at(found.unwrap_or(0));
        self.line += before.matches('\n').count() as u64;
        self.rest = found.map_or("", |_| &rest[word.len()..]);
        self.line
    }
}

pub(super) fn points(text: &str, unknown: &mut BTreeSet<String>) -> Result<Vec<Point>, Wrong> {
    let outcome: Outcome = from_bytes(text.as_bytes()).map_err(|error| wrong(&error))?;
    let line = |word: &str| Words::of(text).line(word);
    if outcome.status != "success" {
        let why = [outcome.error_type, outcome.error];
        let why: Vec<String> = why.into_iter().flatten().collect();
        let found = format!("the status {}: {}", outcome.status, why.join(": "));
        return Err(Wrong::new(line("status"), found, EXPECTED));
    }
    let kind = outcome.data.and_then(|data| data.result_type);
    if let Some(kind) = kind.filter(|kind| kind != "matrix") {
        let found = format!("the result of a query that is no range: {kind}");
        return Err(Wrong::new(line("resultType"), found, EXPECTED));
    }
    let answer: Answer = from_bytes(text.as_bytes()).map_err(|error| wrong(&error))?;
    let mut points = Vec::new();
    let mut words = Words::of(text);
    for ranged in answer.data.result {
        let Some(name) = ranged.metric.get("__name__") else {
            let labels: Vec<String> = ranged
                .metric
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect();
            let found = format!("a series without __name__ ({})", labels.join(", "));
            let expected = format!("{METRICS}: functions such as rate() leave the name out");
            return Err(Wrong::new(words.line("metric"), found, expected));
        };
        let line = words.line(name);
        let Some(metric) = metric(name, line, unknown)? else {
            continue;
        };
        let labels = ranged
            .metric
            .iter()
            .filter(|(label, _)| *label != "__name__");
        let entity: Vec<String> = labels.map(|(k, v)| format!("{k}={v}")).collect();
        let entity = entity.join("/");
        for Sample(at, value) in ranged.values {
            points.extend(value.map(|value| Point {
                metric,
                entity: entity.clone(),
                at,
                since: None,
                value,
                line,
            }));
        }
    }
    Ok(points)
}
