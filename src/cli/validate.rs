//! `fabricsim validate`: predictions beside published measurements.

use super::{CliError, terminal};
use crate::scenario::validation::{
    Band, Machines, Measurement, PredictedSet, Spread, baseline, over_groups, over_rows, predict,
    read_measurements, simulated,
};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Predicts published measurements and says how far off the predictions are.
///
/// Reads measurement files (or folders of them), runs each as its `model` block says, and
/// prints errors by bands of size, for each table and over all, beside those of NCCL's own
/// cost model.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Measurement files, or folders of them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Only tables whose name holds this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Prints one JSON document
    #[arg(long)]
    json: bool,
    /// Tables at once [default: as many as there are processors]
    #[arg(short, long)]
    jobs: Option<usize>,
}

type Outcome = Result<PredictedSet, String>;

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let mut measurements = read_measurements(&args.paths)?;
    if !args.only.is_empty() {
        measurements.retain(|m| args.only.iter().any(|text| m.id.contains(text.as_str())));
    }
    let outcomes = predict_all(&measurements, args.jobs);
    let all = measurements.iter().zip(&outcomes);
    let skipped: Vec<(&str, &str)> = all
        .filter_map(|(m, o)| Some((m.id.as_str(), o.as_ref().err()?.as_str())))
        .collect();
    let sets: Vec<&PredictedSet> = outcomes.iter().filter_map(|o| o.as_ref().ok()).collect();
    let text = if args.json {
        format!("{:#}\n", document(&sets, &skipped))
    } else {
        tables(&sets, &skipped)
    };
    terminal::print(&text)?;
    Ok(())
}

/// All predictions, in the measurements' order; every thread takes the next one.
fn predict_all(measurements: &[Measurement], jobs: Option<usize>) -> Vec<Outcome> {
    let threads = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let next = AtomicUsize::new(0);
    let bar = ProgressBar::new(measurements.len() as u64);
    let work = || {
        let mut machines = Machines::shipped();
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(measurement) = measurements.get(index) else {
                return done;
            };
            done.push((index, predict(measurement, &mut machines, |_| true)));
            bar.inc(1);
        }
    };
    let mut all: Vec<(usize, Outcome)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().flat_map(|w| match w.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    bar.finish_and_clear();
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

fn spread(spread: Option<Spread>) -> Value {
    spread.map_or(
        Value::Null,
        |s| json!({"count": s.count, "median": s.median, "p90": s.p90, "ratio": s.ratio}),
    )
}

/// The document of `--json`; its fields are a contract.
fn document(sets: &[&PredictedSet], skipped: &[(&str, &str)]) -> Value {
    let inside: Vec<&PredictedSet> = sets.iter().copied().filter(|s| s.one_domain).collect();
    let bands = |sets: &[&PredictedSet]| {
        let each = Band::ALL.map(|band| {
            let value = json!({
                "predicted": spread(over_groups(sets, band, simulated)),
                "baseline": spread(over_groups(sets, band, baseline)),
            });
            (band.key().to_owned(), value)
        });
        Value::Object(each.into_iter().collect())
    };
    let one = |set: &&PredictedSet| {
        let rows = set.rows.iter().map(|row| {
            json!({
                "bytes": row.bytes,
                "measured_us": row.measured_us,
                "predicted_us": row.predicted_us,
                "baseline_us": row.baseline_us,
                "algo": row.algorithm,
                "proto": row.protocol,
                "channels": row.channels,
            })
        });
        json!({"id": set.id, "rows": rows.collect::<Vec<_>>()})
    };
    json!({
        "sets": sets.iter().map(one).collect::<Vec<_>>(),
        "summary": {
            "groups": bands(sets),
            "one_nvlink_domain": bands(&inside),
        },
        "skipped": skipped.iter().map(|(id, why)| json!({"id": id, "why": why})).collect::<Vec<_>>(),
        "version": env!("CARGO_PKG_VERSION"),
    })
}

fn cell(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "-".into(),
        |s| {
            format!(
                "{:.1}/{:.1}/{:.2}",
                s.median * 100.0,
                s.p90 * 100.0,
                s.ratio
            )
        },
    )
}

fn tables(sets: &[&PredictedSet], skipped: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for set in sets {
        let cells = Band::ALL.map(|b| cell(over_rows(set, b, simulated)));
        text += &format!(
            "{:<60} {:>18} {:>18} {:>18}\n",
            set.id, cells[0], cells[1], cells[2]
        );
    }
    let inside: Vec<&PredictedSet> = sets.iter().copied().filter(|s| s.one_domain).collect();
    for (name, sets) in [("all groups", sets), ("one NVLink domain", &inside)] {
        for (what, pick) in [
            (
                "simulated",
                simulated as super::super::scenario::validation::Pick,
            ),
            ("NCCL's model", baseline),
        ] {
            let cells = Band::ALL.map(|b| cell(over_groups(sets, b, pick)));
            text += &format!(
                "{:<60} {:>18} {:>18} {:>18}\n",
                format!("{name}, {what}"),
                cells[0],
                cells[1],
                cells[2]
            );
        }
    }
    text += &format!("{} tables skipped\n", skipped.len());
    text
}
