//! Requests as they came once, from a file: lines of JSON, or comma-separated values under a line of names.

mod rows;

use crate::serving::request::{Prefix, Request};
use crate::serving::spec::{ArrivalUnit, TraceColumns, TraceSpec};
use fabricsim_units::Time;
use fabricsim_units::clock::seconds_since_1970;
use rows::Rows;
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

/// Columns of a published trace.
struct Known {
    arrival: &'static str,
    unit: ArrivalUnit,
    input: &'static str,
    output: &'static str,
    prefix: Option<&'static str>,
    /// Rows of failed requests stand among the others, with nothing generated.
    has_failed: bool,
}

const fn known(
    (arrival, unit): (&'static str, ArrivalUnit),
    input: &'static str,
    output: &'static str,
    prefix: Option<&'static str>,
) -> Known {
    Known {
        arrival,
        unit,
        input,
        output,
        prefix,
        has_failed: false,
    }
}

/// Columns of published traces: Mooncake's (FAST '25), Azure's, BurstGPT's, and plain ones.
const KNOWN: [Known; 5] = {
    use ArrivalUnit::{Milliseconds, Seconds};
    let (input, output) = ("input_tokens", "output_tokens");
    [
        known(
            ("timestamp", Milliseconds),
            "input_length",
            "output_length",
            Some("hash_ids"),
        ),
        known(
            ("TIMESTAMP", Seconds),
            "ContextTokens",
            "GeneratedTokens",
            None,
        ),
        Known {
            // Its README: a request with 0 response tokens failed.
            has_failed: true,
            ..known(
                ("Timestamp", Seconds),
                "Request tokens",
                "Response tokens",
                None,
            )
        },
        known(("arrival_s", Seconds), input, output, Some("prefix")),
        known(("arrival_ms", Milliseconds), input, output, Some("prefix")),
    ]
};

/// The requests of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// In order of arrival; the first arrives at once.
    pub requests: Vec<Request>,
    /// Rows that are left out: of requests that failed.
    pub failed: u32,
}

/// Reads requests, at most so many, in order of arrival; the first arrives at once.
///
/// # Errors
/// A line that is no request, requests out of order, none at all.
pub fn read(input: &mut dyn BufRead, spec: &TraceSpec, most: u32) -> Result<Trace, TraceError> {
    let mut rows = Rows::open(input)?;
    let (columns, has_failed) = columns(spec, &rows)?;
    let mut reader = Reader {
        spec,
        columns,
        has_failed,
        first: None,
        last: f64::NEG_INFINITY,
        line: rows.line(),
    };
    let mut requests = Vec::new();
    let mut failed = 0;
    while requests.len() < most as usize {
        let Some(row) = rows.next()? else {
            break;
        };
        reader.line = row.line;
        match reader.request(|name| rows.cell(&row, name))? {
            Some(request) => requests.push(request),
            None => failed += 1,
        }
    }
    if requests.is_empty() {
        return Err(reader.wrong("no request".into(), "one request in each line"));
    }
    Ok(Trace { requests, failed })
}

/// What columns are called, and whether failed requests are among the rows.
fn columns(spec: &TraceSpec, rows: &Rows<'_>) -> Result<(TraceColumns, bool), TraceError> {
    let names = rows.names();
    let wrong = |found, expected: String| TraceError {
        line: rows.line(),
        found,
        expected,
    };
    let (columns, has_failed) = match &spec.columns {
        Some(columns) => (columns.clone(), false),
        None => {
            let has = |name: &str| names.contains(&name);
            let known = KNOWN
                .iter()
                .find(|known| has(known.arrival) && has(known.input) && has(known.output));
            let Some(known) = known else {
                let found = match names.is_empty() {
                    true => "no request".to_owned(),
                    false => format!("columns {}", names.join(", ")),
                };
                let expected = "columns of a known trace (arrival_s, input_tokens, output_tokens; timestamp, input_length, \
                     output_length; TIMESTAMP, ContextTokens, GeneratedTokens), or `columns` in the scenario that names them";
                return Err(wrong(found, expected.to_owned()));
            };
            let columns = TraceColumns {
                arrival: known.arrival.to_owned(),
                unit: known.unit,
                input: known.input.to_owned(),
                output: known.output.to_owned(),
                prefix: known.prefix.filter(|name| has(name)).map(str::to_owned),
            };
            (columns, known.has_failed)
        }
    };
    let own = [&columns.arrival, &columns.input, &columns.output];
    for name in own.into_iter().chain(&columns.prefix) {
        if names.iter().filter(|known| **known == name).count() > 1 {
            let found = format!("two columns `{name}`");
            return Err(wrong(found, "each name once".to_owned()));
        }
    }
    Ok((columns, has_failed))
}

struct Reader<'s> {
    spec: &'s TraceSpec,
    columns: TraceColumns,
    /// Whether a request without an answer is one that failed.
    has_failed: bool,
    /// When the first request arrived, in seconds.
    first: Option<f64>,
    last: f64,
    line: u64,
}

/// Longer than any time that is simulated.
const MAX_SECONDS: f64 = u64::MAX as f64 / 1e12;

impl Reader<'_> {
    fn wrong(&self, found: String, expected: impl Into<String>) -> TraceError {
        TraceError {
            line: self.line,
            found,
            expected: expected.into(),
        }
    }

    /// The request of a row; nothing of one that failed, which is read like the others.
    fn request(
        &mut self,
        cell: impl Fn(&str) -> Option<Value>,
    ) -> Result<Option<Request>, TraceError> {
        let columns = &self.columns;
        let missing = |name: &str| format!("no `{name}`");
        let named = |name: &str| {
            cell(name).ok_or_else(|| self.wrong(missing(name), "a value of that name"))
        };
        let at = self.seconds(&columns.arrival, &named(&columns.arrival)?, columns.unit)?;
        let input = self.tokens(&columns.input, &named(&columns.input)?, 1)?;
        let least = if self.has_failed { 0 } else { 1 };
        let output = self.tokens(&columns.output, &named(&columns.output)?, least)?;
        let prefix = match &columns.prefix {
            Some(name) => self.prefix(name, named(name)?, input)?,
            None => None,
        };
        if at < self.last {
            let found = format!("a request {:.3} s before the one above", self.last - at);
            return Err(self.wrong(found, "requests in order of arrival"));
        }
        self.last = at;
        if output == 0 {
            return Ok(None);
        }
        let since = at - *self.first.get_or_insert(at);
        let seconds = since / self.spec.speed.unwrap_or(1.0);
        if seconds >= MAX_SECONDS {
            let found = format!("a request {seconds:.0} s after the first one");
            let expected = format!("at most {MAX_SECONDS:.0} s (213 days)");
            return Err(self.wrong(found, expected));
        }
        Ok(Some(Request {
            arrival: Time::from_picos((seconds * 1e12).round() as u64),
            input,
            output,
            prefix,
        }))
    }

    /// A number of seconds: a number in some unit, or a time of day with its date.
    fn seconds(&self, name: &str, value: &Value, unit: ArrivalUnit) -> Result<f64, TraceError> {
        let number = match value {
            Value::String(text) => match text.parse().ok() {
                Some(number) => Some(number),
                None => {
                    return seconds_since_1970(text).ok_or_else(|| {
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

    /// A number of tokens, not fewer than `least`.
    fn tokens(&self, name: &str, value: &Value, least: u32) -> Result<u32, TraceError> {
        let number = match value {
            Value::String(text) => text.parse().ok(),
            value => value.as_f64(),
        };
        match number {
            Some(tokens) if (f64::from(least)..=1e8).contains(&tokens) && tokens.fract() == 0.0 => {
                Ok(tokens as u32)
            }
            _ => Err(self.wrong(
                format!("{name} {value}"),
                format!("a whole number of tokens, {least} or more"),
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
                // In brackets, or without any; half a pair is no list.
                let inside = text
                    .strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'));
                let parts = inside.unwrap_or(&text).split([' ', ';']);
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

    fn trace(text: &str) -> Result<Trace, String> {
        read(&mut text.as_bytes(), &spec(), MAX_REQUESTS).map_err(|error| error.to_string())
    }

    fn reads(text: &str) -> Result<Vec<Request>, String> {
        trace(text).map(|trace| trace.requests)
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
        // A week later the same, with offsets from UTC.
        let offsets = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 02:00:01.009930+02:00,2399,6\n";
        assert_eq!(reads(offsets).expect("a trace")[1].arrival.seconds(), 1.0);
    }

    #[test]
    fn failed_requests_of_burstgpt_are_counted_and_left_out() {
        let names = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
        let rows =
            "5,ChatGPT,472,18,490,log\n45,ChatGPT,1087,0,1087,log\n118,GPT-4,417,276,693,log\n";
        let found = trace(&format!("{names}{rows}")).expect("a trace");
        assert_eq!((found.requests.len(), found.failed), (2, 1));
        assert_eq!(found.requests[1].arrival.seconds(), 113.0);
        // They are read like the others.
        for (row, told) in [
            (
                "45,ChatGPT,many,0,1087,log",
                "line 3: found Request tokens \"many\"",
            ),
            (
                "soon,ChatGPT,1087,0,1087,log",
                "line 3: found Timestamp `soon`",
            ),
            (
                "4,ChatGPT,1087,0,1087,log",
                "line 3: found a request 1.000 s before",
            ),
            (
                "45,ChatGPT,1087,-0.5,1087,log",
                "line 3: found Response tokens \"-0.5\"",
            ),
        ] {
            let text = format!("{names}5,ChatGPT,472,18,490,log\n{row}\n");
            let found = trace(&text).expect_err(row);
            assert!(found.contains(told), "{found}");
        }
        let plain = "arrival_s,input_tokens,output_tokens\n1,10,0\n";
        assert!(reads(plain).expect_err("a trace").contains("output_tokens"));
    }

    #[test]
    fn quoted_cells_are_one_cell() {
        let names = "\u{feff}arrival_s,prompt,input_tokens,output_tokens\r\n";
        let rows = "0,\"say 1, 5, 7\",1000,50\r\n\r\n1,\"x\"\"5\"\",\n7\",\"900\",40\r\n";
        let requests = reads(&format!("{names}{rows}")).expect("a trace");
        let lengths = requests
            .iter()
            .map(|request| (request.input, request.output));
        assert_eq!(lengths.collect::<Vec<_>>(), [(1000, 50), (900, 40)]);
        let json = "\u{feff}{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 5}\n";
        assert_eq!(reads(json).expect("a trace").len(), 1);
    }

    #[test]
    fn names_of_blocks_stand_in_one_pair_of_brackets_or_in_none() {
        let names = "arrival_s,input_tokens,output_tokens,prefix\n";
        let reads = |cell: &str| reads(&format!("{names}0,1000,5,{cell}\n"));
        for cell in ["[1 2]", "1 2", "1;2", "\"[1 2]\""] {
            assert!(reads(cell).is_ok(), "{cell}");
        }
        for cell in ["]]1 2[[", "[[1 2]]", "[1 2", "1 2]", "[1, 2]"] {
            let cell = format!("\"{cell}\"");
            let told = reads(&cell).expect_err(&cell);
            assert!(
                told.contains("line 2: found prefix that is no list"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_row_is_bounded() {
        let endless = &mut std::io::repeat(b'0');
        let mut endless = std::io::BufReader::new(endless);
        let told = read(&mut endless, &spec(), 1).expect_err("a trace");
        assert!(
            told.to_string()
                .contains("line 1: found a row of more than 1048576 bytes")
        );
        let endless = &mut std::io::repeat(b'\n');
        let mut endless = std::io::BufReader::new(std::io::Read::take(endless, 1 << 22));
        assert!(read(&mut endless, &spec(), 1).is_err());
        let open = format!("arrival_s,\"input_tokens{}", "\n".repeat(2 << 20));
        let told = reads(&open).expect_err("a trace");
        assert!(told.contains("a row of more than"), "{told}");
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
            (&line("2,10"), "line 3: found 2 cells; expected 3"),
            (
                &line("2,10,10\r5"),
                "line 3: found text behind a carriage return",
            ),
            (&line("2,10,10,999"), "line 3: found 4 cells; expected 3"),
            (
                &line("2,\"10\"0,10"),
                "line 3: found `0` behind a quoted cell",
            ),
            (
                &line("2,\"10,10"),
                "line 3: found a quote that nothing closes",
            ),
            (
                &line("1e12,10,10"),
                "line 3: found a request 999999999999 s after the first one",
            ),
            (
                "arrival_s,input_tokens,output_tokens,input_tokens\n0,100,10,200\n",
                "line 1: found two columns `input_tokens`; expected each name once",
            ),
            (
                "[{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 5}]",
                "line 1: found a JSON array; expected lines of JSON objects",
            ),
            (
                "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-45 25:61:61,374,44\n",
                "line 2: found TIMESTAMP `2023-13-45 25:61:61`",
            ),
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
