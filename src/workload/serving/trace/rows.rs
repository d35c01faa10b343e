//! The rows of a trace's file: an object of JSON in each line, or comma-separated values under a line of names.

use super::TraceError;
use fabricsim_topology::TopologyError;
use fabricsim_topology::load::from_json;
use fabricsim_units::{Misquoted, Quotes};
use serde_json::{Map, Value};
use std::io::{BufRead, Read};

/// No row of a trace is longer.
const MAX_ROW: usize = 1 << 20;

/// What excel and others put at the beginning of a file of text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Rows that are being read.
pub(super) struct Rows<'r> {
    text: Text<'r>,
    /// Names of columns, of comma-separated values.
    header: Option<Vec<String>>,
    /// The first row, which was looked at.
    first: Option<Row>,
    cutter: Cutter,
}

/// A row: where it begins, and what is in it.
pub(super) struct Row {
    pub(super) line: u64,
    cells: Cells,
}

enum Cells {
    Json(Map<String, Value>),
    Csv(Vec<String>),
}

impl<'r> Rows<'r> {
    /// Finds out of which kind a file is.
    ///
    /// # Errors
    /// Its first line is of neither.
    pub(super) fn open(input: &'r mut dyn BufRead) -> Result<Self, TraceError> {
        let mut text = Text {
            input,
            line: 0,
            row: String::new(),
        };
        let (mut header, mut first) = (None, None);
        let mut cutter = Cutter::new();
        if let Some(line) = text.next_line()? {
            let begins = text.row.trim_start();
            if begins.starts_with('{') {
                first = Some(json(&text.row, line)?);
            } else if begins.starts_with('[') {
                let found = "a JSON array".to_owned();
                let expected = "lines of JSON objects, one a request, or comma-separated values under a line of names";
                return Err(wrong(line, found, expected));
            } else {
                text.whole_row(line)?;
                header = Some(cutter.cells(&text.row, line)?);
            }
        }
        Ok(Rows {
            text,
            header,
            first,
            cutter,
        })
    }

    /// Names of columns: those of the line of names, or of the first object.
    pub(super) fn names(&self) -> Vec<&str> {
        let first = self.first.as_ref().map(|row| &row.cells);
        match (&self.header, first) {
            (Some(header), _) => header.iter().map(String::as_str).collect(),
            (None, Some(Cells::Json(object))) => object.keys().map(String::as_str).collect(),
            (None, _) => Vec::new(),
        }
    }

    /// The line that is being read.
    pub(super) const fn line(&self) -> u64 {
        self.text.line
    }

    /// The next row; none at the end.
    ///
    /// # Errors
    /// A line that is no row of this file.
    pub(super) fn next(&mut self) -> Result<Option<Row>, TraceError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some(line) = self.text.next_line()? else {
            return Ok(None);
        };
        let Some(header) = &self.header else {
            return json(&self.text.row, line).map(Some);
        };
        self.text.whole_row(line)?;
        let cells = self.cutter.cells(&self.text.row, line)?;
        if cells.len() != header.len() {
            let found = format!("{} cells", cells.len());
            let expected = format!("{}, one for each name of the first line", header.len());
            return Err(wrong(line, found, expected));
        }
        Ok(Some(Row {
            line,
            cells: Cells::Csv(cells),
        }))
    }

    /// What a row has under a name.
    pub(super) fn cell(&self, row: &Row, name: &str) -> Option<Value> {
        match &row.cells {
            Cells::Json(object) => object.get(name).cloned(),
            Cells::Csv(cells) => {
                let header = self.header.as_ref()?;
                let place = header.iter().position(|known| known == name)?;
                cells.get(place).cloned().map(Value::String)
            }
        }
    }
}

fn wrong(line: u64, found: impl Into<String>, expected: impl Into<String>) -> TraceError {
    TraceError {
        line,
        found: found.into(),
        expected: expected.into(),
    }
}

fn json(text: &str, line: u64) -> Result<Row, TraceError> {
    // Strictly: a key that comes twice is an error.
    let object = from_json(text.trim(), "").map_err(|error| {
        let found = match error {
            TopologyError::Json {
                message, column, ..
            } => format!("{message} at column {column}"),
            other => other.to_string(),
        };
        wrong(line, found, "an object in JSON, each key once")
    })?;
    Ok(Row {
        line,
        cells: Cells::Json(object),
    })
}

/// Parts rows into cells.
struct Cutter {
    csv: csv_core::Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Cutter {
    fn new() -> Self {
        Cutter {
            csv: csv_core::Reader::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// The cells of a row, whose quotes are in order.
    fn cells(&mut self, row: &str, line: u64) -> Result<Vec<String>, TraceError> {
        self.csv.reset();
        self.bytes.resize(row.len() + 1, 0);
        self.ends.resize(row.len() + 1, 0);
        let (bytes, ends) = (&mut self.bytes, &mut self.ends);
        let (_, read, mut written, mut count) = self.csv.read_record(row.as_bytes(), bytes, ends);
        // Where no line break ends the row, the end of all input does.
        if read == row.len() && !row.ends_with('\n') {
            let rest = self
                .csv
                .read_record(&[], &mut bytes[written..], &mut ends[count..]);
            written += rest.2;
            count += rest.3;
        }
        let starts = std::iter::once(0).chain(ends[..count].iter().copied());
        let spans = starts.zip(ends[..count].iter().copied());
        let text = |(from, to): (usize, usize)| {
            let cell = bytes[..written].get(from..to).unwrap_or_default();
            String::from_utf8_lossy(cell).trim().to_owned()
        };
        let cells = spans.map(text).collect();
        match row.get(read..).is_none_or(|rest| rest.trim().is_empty()) {
            true => Ok(cells),
            false => {
                let found = "text behind a carriage return";
                Err(wrong(line, found, "one row in each line"))
            }
        }
    }
}

/// Lines of a file, and rows that go over several.
struct Text<'r> {
    input: &'r mut dyn BufRead,
    line: u64,
    row: String,
}

impl Text<'_> {
    /// Reads the next line that is not blank; gives its number.
    fn next_line(&mut self) -> Result<Option<u64>, TraceError> {
        loop {
            self.row.clear();
            if !self.append()? {
                return Ok(None);
            }
            if let (1, Some(rest)) = (self.line, self.row.strip_prefix(BYTE_ORDER_MARK)) {
                self.row = rest.to_owned();
            }
            if !self.row.trim().is_empty() {
                return Ok(Some(self.line));
            }
        }
    }

    /// Reads on until a quoted cell that has line breaks ends.
    fn whole_row(&mut self, line: u64) -> Result<(), TraceError> {
        let mut quotes = Quotes::new(',');
        let mut seen = 0;
        let misquoted = |error: Misquoted| wrong(line, error.found, error.expected);
        loop {
            quotes.read(&self.row[seen..]).map_err(misquoted)?;
            if !quotes.is_open() {
                return Ok(());
            }
            seen = self.row.len();
            if !self.append()? {
                return quotes.end().map_err(misquoted);
            }
        }
    }

    /// Appends a line; whether there was one.
    fn append(&mut self) -> Result<bool, TraceError> {
        let at = self.line + 1;
        let mut bytes = Vec::new();
        let left = (MAX_ROW + 1).saturating_sub(self.row.len()) as u64;
        let read = self.input.take(left).read_until(b'\n', &mut bytes);
        read.map_err(|error| wrong(at, error.to_string(), "a file that can be read"))?;
        if bytes.is_empty() {
            return Ok(false);
        }
        self.line = at;
        if self.row.len() + bytes.len() > MAX_ROW {
            let found = format!("a row of more than {MAX_ROW} bytes");
            return Err(wrong(at, found, "one request in each row"));
        }
        let text = String::from_utf8(bytes);
        let text = text.map_err(|error| wrong(at, error.to_string(), "text in UTF-8"))?;
        self.row.push_str(&text);
        Ok(true)
    }
}
