//! `fabricsim fit`: the parameters of time, from published measurements.

use super::{CliError, terminal};
use crate::scenario::validation::{FitLog, FitSpec, fit, read_measurements};
use crate::topology::load;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Fits the hardware files' parameters of time to published measurements.
///
/// Prints what was fitted, on what, with the values before and after; writes the values as
/// `topologies/hardware/fitted.json` has them, and the log. The same files give the same values.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Measurement files, or folders of them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// What is fitted, and how
    #[arg(long, value_name = "FILE.json")]
    spec: PathBuf,
    /// Leaves out the measurements on this topology; may be repeated
    #[arg(long, value_name = "TOPOLOGY")]
    without: Vec<String>,
    /// Where the values go
    #[arg(long, value_name = "FILE.json")]
    values: Option<PathBuf>,
    /// Where the log goes
    #[arg(long, value_name = "FILE.json")]
    log: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let text = load::read_text(&args.spec)?;
    let spec: FitSpec = load::from_json(&text, &args.spec.display().to_string())?;
    let mut measurements = read_measurements(&args.paths)?;
    measurements.retain(|m| {
        let own = m.model.as_ref().map(|model| &model.topology);
        own.is_none_or(|topology| !args.without.contains(topology))
    });
    let log = fit(&spec, &measurements, &mut |text| {
        anstream::eprintln!("{text}")
    })
    .map_err(CliError::Usage)?;
    terminal::print(&table(&log))?;
    if let Some(path) = &args.values {
        write(path, &values(&log))?;
    }
    if let Some(path) = &args.log {
        write(path, &json!(log))?;
    }
    Ok(())
}

fn table(log: &FitLog) -> String {
    let mut text = format!(
        "{} measurements; mean |ln(predicted/measured)| {:.4} -> {:.4} in {} predictions\n",
        log.sets.len(),
        log.objective.0,
        log.objective.1,
        log.evaluations
    );
    for value in &log.values {
        let range = value
            .range
            .map_or(String::new(), |(a, b)| format!("x{a}..{b}"));
        text += &format!(
            "{:<55} {:>12} -> {:>12} {:>4} {}\n",
            value.path,
            value.before.to_string().trim_matches('"'),
            value.after.to_string().trim_matches('"'),
            value.sets,
            range
        );
    }
    text
}

fn values(log: &FitLog) -> serde_json::Value {
    let values: BTreeMap<_, _> = log.values.iter().map(|v| (&v.path, &v.after)).collect();
    json!({
        "comment": "Values fitted to published measurements; made by `fabricsim fit`, never by hand. docs/fidelity.md has the method.",
        "values": values,
    })
}

fn write(path: &PathBuf, value: &serde_json::Value) -> Result<(), CliError> {
    std::fs::write(path, format!("{value:#}\n"))
        .map_err(|e| CliError::Usage(format!("cannot write {}: {e}", path.display())))
}
