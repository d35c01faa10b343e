//! Requests as they came once, from a file: lines of JSON, or comma-separated values under a line of names.

use super::request::{Prefix, Request};
use super::spec::{ArrivalUnit, TraceColumns, TraceSpec};
use fabricsim_units::Time;
use serde_json::Value;
use std::io::BufRead;
use std::sync::Arc;
use thiserror::Error;

/// What is wrong with a trace.
#[derive(Debug, Error)]
#[error("line {line}: found {found}; expected {expected}")]
pub struct TraceError {
    /// Where, from 1 on.
    pub line: u64,
    /// What stands there.
    pub found: String,
    /// What belongs there.
    pub expected: String,
}

/// Tokens of a block that has a name, if the trace does not say it: Mooncake's.
const PREFIX_BLOCK_TOKENS: u32 = 512;

/// More requests than are worth simulating at once.
pub const MAX_REQUESTS: u32 = 4_000_000;

/// Columns of published traces: Mooncake's (FAST '25), Azure's of 2023, BurstGPT's, and plain ones.
const KNOWN: [(&str, ArrivalUnit, &str, &str, Option<&str>); 5] = [
    (
        "timestamp",
        ArrivalUnit::Milliseconds,
        "input_length",
        "output_length",
        Some("hash_ids"),
    ),
    (
        "TIMESTAMP",
        ArrivalUnit::Seconds,
        "ContextTokens",
        "GeneratedTokens",
        None,
    ),
    (
        "Timestamp",
        ArrivalUnit::Seconds,
        "Request tokens",
        "Response tokens",
        None,
    ),
    (
        "arrival_s",
        ArrivalUnit::Seconds,
        "input_tokens",
        "output_tokens",
        Some("prefix"),
    ),
    (
        "arrival_ms",
        ArrivalUnit::Milliseconds,
        "input_tokens",
        "output_tokens",
        Some("prefix"),
    ),
];

/// Reads requests, at most so many, in order of arrival; the first arrives at once.
///
/// # Errors
/// A line that is no request, requests out of order, none at all.
pub fn read(
    input: &mut dyn BufRead,
    spec: &TraceSpec,
    most: u32,
) -> Result<Vec<Request>, TraceError> {
    let mut reader = Reader {
        spec,
        columns: spec.columns.clone(),
        header: Vec::new(),
        first: None,
        last: f64::NEG_INFINITY,
        line: 0,
    };
    let mut requests = Vec::new();
    let mut text = String::new();
    while requests.len() < most as usize {
        text.clear();
        reader.line += 1;
        match input.read_line(&mut text) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return Err(reader.wrong(error.to_string(), "text in UTF-8")),
        }
        if !text.trim().is_empty() {
            requests.extend(reader.request(text.trim())?);
        }
    }
    if requests.is_empty() {
        return Err(reader.wrong("no request".into(), "one request in each line"));
    }
    Ok(requests)
}

struct Reader<'s> {
    spec: &'s TraceSpec,
    columns: Option<TraceColumns>,
    /// Of comma-separated values.
    header: Vec<String>,
    /// When the first request arrived, in seconds.
    first: Option<f64>,
    last: f64,
    line: u64,
}

impl Reader<'_> {
    fn wrong(&self, found: String, expected: impl Into<String>) -> TraceError {
        TraceError {
            line: self.line,
            found,
            expected: expected.into(),
        }
    }

    /// The request of a line; none of a line of names.
    fn request(&mut self, text: &str) -> Result<Option<Request>, TraceError> {
        if text.starts_with('{') {
            let row: Value = serde_json::from_str(text)
                .map_err(|error| self.wrong(error.to_string(), "an object in JSON"))?;
            let names: Vec<&str> = row
                .as_object()
                .into_iter()
                .flatten()
                .map(|(k, _)| k.as_str())
                .collect();
            let columns = self.columns(&names)?;
            return self.of(&columns, |name| row.get(name).cloned()).map(Some);
        }
        let cells: Vec<&str> = text
            .split(',')
            .map(|cell| cell.trim().trim_matches('"'))
            .collect();
        if self.header.is_empty() {
            self.header = cells.iter().map(|&cell| cell.to_owned()).collect();
            self.columns(&cells)?;
            return Ok(None);
        }
        let columns = self.columns(&[])?;
        let header = std::mem::take(&mut self.header);
        let cell = |name: &str| {
            let place = header.iter().position(|known| known == name)?;
            cells.get(place).map(|&cell| Value::String(cell.to_owned()))
        };
        let request = self.of(&columns, cell);
        self.header = header;
        request.map(Some)
    }

    /// What columns are called, once names have been seen.
    fn columns(&mut self, names: &[&str]) -> Result<TraceColumns, TraceError> {
        if let Some(columns) = &self.columns {
            return Ok(columns.clone());
        }
        let has = |name: &str| names.contains(&name);
        let known = KNOWN
            .iter()
            .find(|(arrival, _, input, output, _)| has(arrival) && has(input) && has(output));
        let Some(&(arrival, unit, input, output, prefix)) = known else {
            let found = format!("columns {}", names.join(", "));
            let expected = "columns of a known trace (arrival_s, input_tokens, output_tokens; timestamp, input_length, \
                 output_length; TIMESTAMP, ContextTokens, GeneratedTokens), or `columns` in the scenario that names them";
            return Err(self.wrong(found, expected));
        };
        let columns = TraceColumns {
            arrival: arrival.to_owned(),
            unit,
            input: input.to_owned(),
            output: output.to_owned(),
            prefix: prefix.filter(|name| has(name)).map(str::to_owned),
        };
        self.columns = Some(columns.clone());
        Ok(columns)
    }

    fn of(
        &mut self,
        columns: &TraceColumns,
        cell: impl Fn(&str) -> Option<Value>,
    ) -> Result<Request, TraceError> {
        let missing = |name: &str| format!("no `{name}`");
        let named = |name: &str| {
            cell(name).ok_or_else(|| self.wrong(missing(name), "a value of that name"))
        };
        let at = self.seconds(&columns.arrival, &named(&columns.arrival)?, columns.unit)?;
        let input = self.tokens(&columns.input, &named(&columns.input)?)?;
        let output = self.tokens(&columns.output, &named(&columns.output)?)?;
        let prefix = match &columns.prefix {
            Some(name) => self.prefix(name, named(name)?, input)?,
            None => None,
        };
        if at < self.last {
            let found = format!("a request {:.3} s before the one above", self.last - at);
            return Err(self.wrong(found, "requests in order of arrival"));
        }
        self.last = at;
        let since = at - *self.first.get_or_insert(at);
        let seconds = since / self.spec.speed.unwrap_or(1.0);
        Ok(Request {
            arrival: Time::from_picos((seconds * 1e12).round() as u64),
            input,
            output,
            prefix,
        })
    }

    /// A number of seconds: a number in some unit, or a time of day with its date.
    fn seconds(&self, name: &str, value: &Value, unit: ArrivalUnit) -> Result<f64, TraceError> {
        let number = match value {
            Value::String(text) => match text.parse().ok() {
                Some(number) => Some(number),
                None => {
                    return date(text).ok_or_else(|| {
                        let found = format!("{name} `{text}`");
                        self.wrong(found, "a number, or a time such as 2023-11-16 18:15:46.68")
                    });
                }
            },
            value => value.as_f64(),
        };
        let scale = match unit {
            ArrivalUnit::Seconds => 1.0,
            ArrivalUnit::Milliseconds => 1e-3,
        };
        match number {
            Some(number) if f64::is_finite(number) && number >= 0.0 => Ok(number * scale),
            _ => Err(self.wrong(format!("{name} {value}"), "a time of 0 or more")),
        }
    }

    /// A number of tokens.
    fn tokens(&self, name: &str, value: &Value) -> Result<u32, TraceError> {
        let number = match value {
            Value::String(text) => text.parse().ok(),
            value => value.as_f64(),
        };
        match number {
            Some(tokens) if (1.0..=1e8).contains(&tokens) && tokens.fract() == 0.0 => {
                Ok(tokens as u32)
            }
            _ => Err(self.wrong(
                format!("{name} {value}"),
                "a whole number of tokens, 1 or more",
            )),
        }
    }

    /// Names of a prompt's blocks.
    fn prefix(
        &self,
        name: &str,
        value: Value,
        input: u32,
    ) -> Result<Option<Arc<Prefix>>, TraceError> {
        let block_tokens = self.spec.prefix_block_tokens.unwrap_or(PREFIX_BLOCK_TOKENS);
        let names: Option<Vec<u64>> = match value {
            Value::Null => return Ok(None),
            Value::Array(list) => list.iter().map(Value::as_u64).collect(),
            Value::String(text) => {
                let parts = text.trim_matches(['[', ']']).split([' ', ';']);
                let parts = parts.filter(|part| !part.is_empty());
                parts.map(|part| part.parse().ok()).collect()
            }
            _ => None,
        };
        let Some(names) = names else {
            return Err(self.wrong(
                format!("{name} that is no list of whole numbers"),
                "names of blocks",
            ));
        };
        let blocks = input.div_ceil(block_tokens) as usize;
        if names.len() != blocks && names.len() != (input / block_tokens) as usize {
            let found = format!("{} blocks for {input} tokens", names.len());
            let expected = format!(
                "{blocks}, one for each {block_tokens} tokens; `prefix_block_tokens` says how many tokens a block has"
            );
            return Err(self.wrong(found, expected));
        }
        Ok(Some(Arc::new(Prefix {
            block_tokens,
            names,
        })))
    }
}

/// Seconds of a time such as `2023-11-16 18:15:46.6805900`, since 1970 without leap seconds.
fn date(text: &str) -> Option<f64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut days = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (days.next()??, days.next()??, days.next()??);
    let mut clock = time.trim_end_matches('Z').split(':');
    let hour: f64 = clock.next()?.parse().ok()?;
    let minute: f64 = clock.next()?.parse().ok()?;
    let second: f64 = clock.next()?.parse().ok()?;
    // Days from the civil calendar, years beginning in March (Howard Hinnant's algorithm).
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), (month + 9) % 12);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> TraceSpec {
        TraceSpec {
            file: "trace".into(),
            columns: None,
            speed: None,
            prefix_block_tokens: None,
        }
    }

    fn reads(text: &str) -> Result<Vec<Request>, String> {
        read(&mut text.as_bytes(), &spec(), MAX_REQUESTS).map_err(|error| error.to_string())
    }

    #[test]
    fn published_traces_are_known_by_their_columns() {
        let mooncake = r#"{"timestamp": 27000, "input_length": 1000, "output_length": 5, "hash_ids": [46, 47]}
            {"timestamp": 30500, "input_length": 513, "output_length": 2, "hash_ids": [46, 9]}"#;
        let requests = reads(mooncake).expect("a trace");
        assert_eq!(requests[1].arrival, Time::from_picos(3_500_000_000_000));
        assert_eq!((requests[0].input, requests[0].output), (1000, 5));
        // Both begin alike; what follows does not.
        let name = |k: usize, block| requests[k].block_name(k as u32, block, 16);
        assert_eq!(name(0, 0), name(1, 0));
        assert_eq!(name(0, 31), name(1, 31));
        assert_ne!(name(0, 30), name(0, 31));
        assert_ne!(name(0, 32), name(1, 32));
        let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.5,374,44\n2023-11-17 00:00:01.25,396,109\n";
        let requests = reads(azure).expect("a trace");
        assert_eq!(requests[1].arrival, Time::from_picos(1_750_000_000_000));
        let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,log\n45,GPT-4,1,2,3,log\n";
        assert_eq!(reads(burst).expect("a trace")[1].arrival.seconds(), 40.0);
    }

    #[test]
    fn what_is_no_trace_is_told_by_line() {
        let line = |row: &str| format!("arrival_s,input_tokens,output_tokens\n1,10,10\n{row}\n");
        for (text, expected) in [
            ("", "no request"),
            ("arrival_s,input_tokens,output_tokens\n", "no request"),
            (
                "when,in,out\n1,2,3\n",
                "line 1: found columns when, in, out",
            ),
            (
                &line("0.5,10,10"),
                "line 3: found a request 0.500 s before the one above",
            ),
            (
                &line("-1,10,10"),
                "line 3: found arrival_s \"-1\"; expected a time of 0 or more",
            ),
            (&line("2,0,10"), "line 3: found input_tokens \"0\""),
            (&line("2,10,1.5"), "line 3: found output_tokens \"1.5\""),
            (&line("2,10"), "line 3: found no `output_tokens`"),
            ("{\"timestamp\": 1", "line 1: found EOF"),
            (
                r#"{"timestamp": 1, "input_length": 1000, "output_length": 5, "hash_ids": [1, 2, 3, 4]}"#,
                "found 4 blocks for 1000 tokens; expected 2, one for each 512 tokens",
            ),
        ] {
            let told = reads(text).expect_err(text);
            assert!(told.contains(expected), "{told}");
        }
    }
}
