//! A published measurement as a file has it.

use fabricsim_collective::Collective;
use fabricsim_experiment::EnvValue;
use fabricsim_topology::{TopologyError, load};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// One published table. Files hold more than this (who measured, what it says of the machine);
/// only what a prediction needs is read, and everything else is let through.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Measurement {
    /// What it is called, unique.
    pub id: String,
    /// False if its own source reports a fault.
    #[serde(default = "yes")]
    pub healthy: bool,
    /// Where it was published.
    #[serde(default)]
    pub source: Source,
    /// What ran.
    #[serde(default)]
    pub software: Software,
    /// As nccl-tests calls it, or another benchmark.
    pub collective: String,
    /// How to run it here, as its source says; absent where nobody can tell.
    #[serde(default)]
    pub model: Option<Model>,
    /// Settings that are taken to have been otherwise than the source says.
    #[serde(default)]
    pub inferred: Option<Inferred>,
    /// What else its source says, in words.
    #[serde(default, deserialize_with = "words")]
    pub notes: Option<String>,
    /// The figures.
    pub rows: Vec<MeasuredRow>,
}

fn yes() -> bool {
    true
}

/// Text; anything else that a file has there is let through, as all that is not needed is.
fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let found = serde_json::Value::deserialize(from)?;
    Ok(found.as_str().map(str::to_owned))
}

/// More than any GPU holds.
const MAX_BYTES: u64 = 1 << 40;

/// Microseconds that a clock can have measured: from a picosecond to four months.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 1e-6..=1e13;

/// What nccl-tests times together unless it is told otherwise (`-n`).
const ITERATIONS: u32 = 20;

/// More of them hardly change a mean.
const MOST_ITERATIONS: u32 = 100;

impl Measurement {
    /// How many times as long as a larger size a size took, at most; 1 if none took longer, or
    /// nobody can tell.
    #[must_use]
    pub fn inversion(&self) -> f64 {
        let Some(model) = &self.model else {
            return 1.0;
        };
        let ranks = model.nodes * model.gpus_per_node;
        let time = |row: &MeasuredRow| Some((row.bytes?, row.micros(model.collective, ranks)?));
        let mut times: Vec<(u64, f64)> = self.rows.iter().filter_map(time).collect();
        times.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let (mut least, mut most) = (f64::INFINITY, 1.0f64);
        for (_, time) in times {
            least = least.min(time);
            most = most.max(time / least);
        }
        most
    }

    /// The table with its inferred settings in place of those that its source says; `None` if it has
    /// none, or nothing says how to run it.
    #[must_use]
    pub fn as_inferred(&self) -> Option<Measurement> {
        let inferred = self.inferred.as_ref()?;
        let mut other = self.clone();
        let env = &mut other.model.as_mut()?.env;
        for (name, value) in &inferred.env {
            match value {
                Some(value) => env.insert(name.clone(), value.clone()),
                None => env.remove(name),
            };
        }
        Some(other)
    }

    /// Threads of a process and operations timed together: as the model says, else as the table's
    /// notes do (`8 threads x 1 GPU`, `iters 5`).
    #[must_use]
    pub fn threads(&self) -> Option<(u32, u32)> {
        let model = self.model.as_ref()?;
        let notes = self.notes.as_deref().unwrap_or("");
        let words: Vec<&str> = notes
            .split([' ', ',', ';'])
            .filter(|w| !w.is_empty())
            .collect();
        let number = |word: &str| word.parse().ok();
        let threads = words.windows(4).find_map(|w| match w {
            [n, "threads", "x", _] => number(n),
            _ => None,
        });
        let iterations = words.windows(2).find_map(|w| match w {
            ["iters", n] => number(n),
            _ => None,
        });
        let threads = model.threads_per_process.or(threads).filter(|&n| n > 1)?;
        let iterations = model.iterations.or(iterations).unwrap_or(ITERATIONS);
        Some((threads, iterations.clamp(1, MOST_ITERATIONS)))
    }
}

/// Where a table was published.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Source {
    /// For people.
    #[serde(default)]
    pub title: Option<String>,
    /// Page, repository or thread.
    #[serde(default)]
    pub address: Option<String>,
}

/// What ran.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Software {
    /// NCCL's release as the source says it, perhaps with remarks.
    #[serde(default)]
    pub nccl: Option<String>,
}

/// How to run a measurement here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Model {
    /// A shipped topology, or a file.
    pub topology: String,
    /// Nodes.
    pub nodes: u32,
    /// GPUs of each that take part.
    pub gpus_per_node: u32,
    /// What runs on them.
    pub collective: Collective,
    /// GPUs that one process drives; it starts their kernels one after the other.
    #[serde(default)]
    pub ranks_per_process: Option<u32>,
    /// Threads of a process (nccl-tests' `-t`), each with `ranks_per_process` GPUs of its own.
    #[serde(default)]
    pub threads_per_process: Option<u32>,
    /// Operations of a size that were timed together (nccl-tests' `-n`).
    #[serde(default)]
    pub iterations: Option<u32>,
    /// NCCL's variables.
    #[serde(default)]
    pub env: BTreeMap<String, EnvValue>,
}

/// What a reader takes to have been otherwise than a table's source says, seeing its times. What the
/// source says stays in the model: a table is predicted both ways, and counts among no others.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inferred {
    /// What shows it.
    pub why: String,
    /// NCCL's variables as they are taken to have been; `null` for one that was not set.
    pub env: BTreeMap<String, Option<EnvValue>>,
}

/// One size. Files print a time, a bandwidth, or both.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct MeasuredRow {
    /// nccl-tests' size; absent where a link's bandwidth was printed without one.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Microseconds.
    #[serde(default)]
    pub time_us: Option<f64>,
    /// Of the fastest of several runs.
    #[serde(default)]
    pub time_us_min: Option<f64>,
    /// Of the slowest of several runs.
    #[serde(default)]
    pub time_us_max: Option<f64>,
    /// GB/s, decimal.
    #[serde(default)]
    pub algbw_gbs: Option<f64>,
    /// GB/s, decimal.
    #[serde(default)]
    pub busbw_gbs: Option<f64>,
}

impl MeasuredRow {
    /// How many times slower the slowest of several runs was than the fastest; 1 if only one is
    /// known.
    #[must_use]
    pub fn spread(&self) -> f64 {
        match (self.time_us_min, self.time_us_max) {
            (Some(least), Some(most)) if least > 0.0 => most / least,
            _ => 1.0,
        }
    }

    /// Microseconds, as printed or from a bandwidth; `None` where there is neither, nothing that a
    /// clock can have measured, or more bytes than a GPU can hold.
    #[must_use]
    pub fn micros(&self, collective: Collective, ranks: u32) -> Option<f64> {
        let bytes = self.bytes.filter(|bytes| *bytes <= MAX_BYTES)? as f64;
        let of_rate = |rate: f64| bytes / rate / 1e3;
        let time = self
            .time_us
            .or(self.algbw_gbs.map(of_rate))
            .or_else(|| Some(of_rate(self.busbw_gbs? / collective.bus_factor(ranks))))?;
        PLAUSIBLE.contains(&time).then_some(time)
    }
}

/// Reads the text of a measurement, or of a list of them; `origin` names it in errors.
///
/// # Errors
/// The first place where it is not JSON or not a measurement.
pub fn parse_measurements(text: &str, origin: &str) -> Result<Vec<Measurement>, TopologyError> {
    if !text.trim_start().starts_with(['[', '{']) {
        return Err(no_json(text, origin));
    }
    if text.trim_start().starts_with('[') {
        load::from_json(text, origin)
    } else {
        load::from_json(text, origin).map(|one| vec![one])
    }
}

/// What is said of a file that is no JSON, such as a log of nccl-tests.
fn no_json(text: &str, origin: &str) -> TopologyError {
    // Its heading names columns, and its first lines what runs: `# nThread 1 nGpus 8 …`.
    let heading = |line: &str| {
        let has = |word| line.split_whitespace().any(|found| found == word);
        line.starts_with('#') && ((has("algbw") && has("busbw")) || has("nThread"))
    };
    let found = match text.lines().any(heading) {
        true => "a text log of nccl-tests, which is not read".to_owned(),
        false => {
            let line = text.lines().next().unwrap_or_default();
            format!("`{}`, which is no JSON", line.trim())
        }
    };
    let expected = r#"a table as JSON, with the log's columns size and time: {"id": "my-machine", "collective": "all_reduce", "model": {"topology": "dgx-h100", "nodes": 1, "gpus_per_node": 8, "collective": "all-reduce"}, "rows": [{"bytes": 8, "time_us": 12.3}]}; docs/guide-machines.md, "How true it is", says what else it may have"#;
    TopologyError::Text {
        origin: origin.to_owned(),
        line: 1,
        column: 1,
        found,
        expected: expected.to_owned(),
        nearest: None,
    }
}

/// Reads measurements: files as they are, of folders every `.json` in them, by name.
///
/// # Errors
/// What cannot be read, or is no measurement.
pub fn read_measurements(paths: &[PathBuf]) -> Result<Vec<Measurement>, TopologyError> {
    let files = json_files(paths)?;
    let mut all = Vec::with_capacity(files.len());
    for path in files {
        all.extend(parse_measurements(
            &load::read_text(&path)?,
            &path.display().to_string(),
        )?);
    }
    Ok(all)
}

/// Files as they are, of folders every `.json` in them, by name.
pub(crate) fn json_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, TopologyError> {
    let unread = |path: &Path, kind, what: &str| TopologyError::Read {
        path: path.display().to_string(),
        source: io::Error::new(
            kind,
            format!("{what}; expected measurement files (.json), or folders of them"),
        ),
    };
    let mut files = Vec::new();
    for path in paths {
        if !path.exists() {
            let what = "there is no such file or folder";
            return Err(unread(path, io::ErrorKind::NotFound, what));
        }
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|source| TopologyError::Read {
                path: path.display().to_string(),
                source,
            })?;
            let inside = entries.filter_map(|e| e.ok().map(|e| e.path()));
            let json = |p: &PathBuf| p.extension().is_some_and(|e| e == "json");
            let mut inside: Vec<PathBuf> = inside.filter(json).collect();
            inside.sort();
            if inside.is_empty() {
                let what = "this folder holds none";
                return Err(unread(path, io::ErrorKind::InvalidInput, what));
            }
            files.extend(inside);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_slower_than_a_larger_one_is_seen() {
        let table = |times: &[f64]| {
            let rows: Vec<_> = times
                .iter()
                .zip(10u64..)
                .map(|(time, power)| serde_json::json!({"bytes": 1 << power, "time_us": time}))
                .collect();
            let text = serde_json::json!({
                "id": "x", "collective": "all_reduce", "rows": rows,
                "model": {"topology": "dgx-h100", "nodes": 1, "gpus_per_node": 8,
                          "collective": "all-reduce"},
            });
            serde_json::from_value::<Measurement>(text).unwrap()
        };
        let seen = |times: &[f64]| table(times).inversion();
        assert!((seen(&[10.0, 12.0, 20.0, 40.0]) - 1.0).abs() < 1e-12);
        assert!((seen(&[90.0, 12.0, 30.0, 20.0, 40.0]) - 7.5).abs() < 1e-12);
    }

    #[test]
    fn a_log_of_nccl_tests_is_told_from_other_text() {
        let log = "# nThread 1 nGpus 8 minBytes 8\n#       size  count  type\n  8  2  float\n";
        let told = |text: &str| parse_measurements(text, "x.log").unwrap_err().to_string();
        let error = told(log);
        for part in [
            "x.log, line 1",
            "a text log of nccl-tests",
            "\"time_us\"",
            "docs/guide-machines.md",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let columns = "\n#  size  time  algbw  busbw #wrong\n";
        assert!(told(columns).contains("a text log of nccl-tests"));
        assert!(told("size,time\n8,12").contains("`size,time`, which is no JSON"));
        assert!(told("").contains("no JSON"));
        // What is shown in the message is read.
        let shown = error
            .split_once("time: ")
            .unwrap()
            .1
            .split_once("; docs")
            .unwrap()
            .0;
        assert!(parse_measurements(shown, "x").unwrap()[0].model.is_some());
    }

    #[test]
    fn inferred_settings_stand_beside_what_the_source_says() {
        let table = |inferred: &str| {
            let text = format!(
                r#"{{"id": "x", "collective": "all_reduce", "rows": [], "model": {{"topology": "dgx-h100",
                "nodes": 1, "gpus_per_node": 8, "collective": "all-reduce",
                "env": {{"NCCL_IB_DISABLE": "1", "NCCL_ALGO": "Ring"}}}}{inferred}}}"#
            );
            parse_measurements(&text, "x.json").map(|mut all| all.remove(0))
        };
        let said = table("").unwrap();
        assert_eq!(said.as_inferred(), None);
        let both = r#", "inferred": {"why": "times", "env": {"NCCL_IB_DISABLE": null, "NCCL_PROTO": "LL"}}"#;
        let both = table(both).unwrap();
        let names = |m: &Measurement| {
            let model = m.model.as_ref().unwrap();
            model.env.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&both), ["NCCL_ALGO", "NCCL_IB_DISABLE"]);
        let other = both.as_inferred().unwrap();
        assert_eq!(names(&other), ["NCCL_ALGO", "NCCL_PROTO"]);
        let unsaid = table(r#", "inferred": {"env": {}}"#).unwrap_err();
        assert!(unsaid.to_string().contains("why"), "{unsaid}");
    }

    #[test]
    fn threads_are_told_by_the_model_or_in_words() {
        let threads = |notes: Option<&str>, own: serde_json::Value| {
            let mut model = serde_json::json!({"topology": "dgx-h100", "nodes": 1,
                "gpus_per_node": 8, "collective": "all-reduce"});
            for (key, value) in own.as_object().unwrap() {
                model[key] = value.clone();
            }
            let text = serde_json::json!({
                "id": "x", "collective": "all_reduce", "rows": [], "model": model, "notes": notes,
            });
            serde_json::from_value::<Measurement>(text)
                .unwrap()
                .threads()
        };
        let words = Some("8 threads x 1 GPU, one process per size; warmup 2, iters 5");
        let nothing = serde_json::json!({});
        assert_eq!(threads(words, nothing.clone()), Some((8, 5)));
        assert_eq!(
            threads(words, serde_json::json!({"threads_per_process": 4})),
            Some((4, 5))
        );
        assert_eq!(
            threads(None, serde_json::json!({"threads_per_process": 4})),
            Some((4, 20))
        );
        assert_eq!(
            threads(words, serde_json::json!({"threads_per_process": 1})),
            None
        );
        let others = Some("rank threads x; nThread 1 nGpus 1 iters 20");
        assert_eq!(threads(others, nothing.clone()), None);
        assert_eq!(threads(None, nothing), None);
        // Notes that are no text say nothing.
        let text = r#"{"id": "x", "collective": "all_reduce", "rows": [], "notes": ["iters 5"]}"#;
        assert_eq!(parse_measurements(text, "x").unwrap()[0].notes, None);
    }
}
