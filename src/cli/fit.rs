//! `fabricsim fit`: the parameters of time, from published measurements.

use super::examples::{Examples, examples};
use super::{CliError, terminal};
use fabricsim_budget::Budget;
use fabricsim_calibration::{
    Band, EngineFitLog, FitLog, FitSpec, KERNEL_PROFILES, KernelFitLog, KernelTables, Models,
    PredictedSet, PublishedSteps, StepFitLog, fit, fit_engines, fit_kernels, fit_steps,
    group_errors, kernel_parameters_text, leave_one_out, over_groups, read_measurements,
    read_serving, simulated,
};
use fabricsim_report::{FORMAT, ReportError, write_file};
use fabricsim_topology::{load, serving};
use fabricsim_workload::kernel::KernelParameters;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    (
        "Which values do the tables of this repository give? It takes long",
        "fabricsim fit validation/published.json --spec validation/fit.json --values values.json",
    ),
    (
        "How far off is it on machines that were left out?",
        "fabricsim fit validation/published.json --spec validation/fit.json --leave-one-out out.json",
    ),
    (
        "What does power allow long steps? From published training jobs",
        "fabricsim fit --steps validation/training.json --values power.json",
    ),
];

/// Fits the hardware files' parameters of time to published measurements.
///
/// Prints what was fitted, on what, with the values before and after; writes the values as
/// `topologies/hardware/fitted.json` has them, and the log. The same files give the same values.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// Measurement files, or folders of them
    #[arg(required_unless_present_any = ["kernels", "serving", "steps"])]
    paths: Vec<PathBuf>,
    /// What is fitted, and how
    #[arg(long, value_name = "FILE.json", required_unless_present_any = ["kernels", "serving", "steps"])]
    spec: Option<PathBuf>,
    /// Fits the laws of kernels to published profiles of them, files or folders, in place of the
    /// parameters of collectives; may be repeated. The values are those of
    /// topologies/hardware/kernels.json. Also says how far off each group of rows is that an octave
    /// of sizes was left out of
    #[arg(long, value_name = "DIR", conflicts_with_all = ["paths", "spec", "models", "without", "leave_one_out"])]
    kernels: Vec<PathBuf>,
    /// Fits what engines take of the host to published runs of them, files or folders, in place of the
    /// parameters of collectives; may be repeated. The values are those of
    /// topologies/software/serving.json. Also says how far off runs are on each GPU that was left out,
    /// and of each engine with the figures of the others
    #[arg(long, value_name = "DIR", conflicts_with_all = ["paths", "spec", "models", "without", "leave_one_out", "kernels"])]
    serving: Vec<PathBuf>,
    /// Fits what power allows products of long steps, a figure for each generation of GPUs, to published
    /// steps of training jobs, in place of the parameters of collectives. The values are those of
    /// `kernels.power` in topologies/hardware/architectures.json
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["paths", "spec", "models", "without", "leave_one_out", "kernels", "serving"])]
    steps: Option<PathBuf>,
    /// Of kernels, engines or steps: prints the log as one JSON document
    #[arg(long)]
    json: bool,
    /// How to run tables that do not say it themselves, such as validation/models.json; those of its
    /// tables that have `fits` take part, but are not among those that are left out
    #[arg(long, value_name = "FILE.json")]
    models: Option<PathBuf>,
    /// Leaves out the measurements on this topology; may be repeated
    #[arg(long, value_name = "TOPOLOGY")]
    without: Vec<String>,
    /// Also predicts each topology's measurements with what is fitted without them, and writes
    /// how far off that is here
    #[arg(long, value_name = "FILE.json")]
    leave_one_out: Option<PathBuf>,
    /// Where the values go
    #[arg(long, value_name = "FILE.json")]
    values: Option<PathBuf>,
    /// Where the log goes
    #[arg(long, value_name = "FILE.json")]
    log: Option<PathBuf>,
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    if !args.serving.is_empty() {
        return run_engines(args, quiet);
    }
    if let Some(path) = &args.steps {
        return run_steps(path, args, quiet);
    }
    let Some(path) = &args.spec else {
        return run_kernels(args, quiet);
    };
    let text = load::read_text(path)?;
    let spec: FitSpec = load::from_json(&text, &path.display().to_string())?;
    let mut measurements = read_measurements(&args.paths)?;
    let mut given = BTreeSet::new();
    if let Some(path) = &args.models {
        let mut models = Models::read(path)?;
        models.tables.retain(|m| m.fits);
        given = models.complete(&mut measurements);
    }
    measurements.retain(|m| {
        let own = m.model.as_ref().map(|model| &model.topology);
        own.is_none_or(|topology| !args.without.contains(topology))
    });
    let in_spec =
        |problem: String| CliError::Usage(format!("--spec {}: {problem}", path.display()));
    let log = fit(&spec, &measurements, &mut |text| {
        if !quiet {
            terminal::complain(text);
        }
    })
    .map_err(in_spec)?;
    // Files first: where nobody reads the table on, they are written all the same.
    if let Some(path) = &args.values {
        write(path, &values(&log))?;
    }
    if let Some(path) = &args.log {
        write(path, &json!(log))?;
    }
    let mut text = table(&log);
    if let Some(path) = &args.leave_one_out {
        let sets = leave_one_out(&spec, &measurements, &log, &mut |text| {
            if !quiet {
                terminal::complain(text);
            }
        })
        .map_err(in_spec)?;
        // Who says how to run them, which is not the source itself, may have looked at the result.
        let sets: Vec<&PredictedSet> = sets.iter().filter(|s| !given.contains(&s.id)).collect();
        write(path, &groups(&sets))?;
        text += &bands(&sets);
    }
    if !quiet {
        terminal::print(&text)?;
    }
    Ok(())
}

/// Of kernels.
fn run_kernels(args: &Args, quiet: bool) -> Result<(), CliError> {
    let tables = read_serving(&args.kernels)?;
    let kernels: Vec<_> = tables
        .iter()
        .filter(|t| t.kind == KERNEL_PROFILES)
        .collect();
    let read = KernelTables::read(&kernels).map_err(CliError::Usage)?;
    if read.rows.is_empty() {
        return Err(CliError::NothingPredicted(tables.len()));
    }
    let tell = |text: &str| {
        if !quiet {
            terminal::complain(text);
        }
    };
    let (fitted, log) = fit_kernels(KernelParameters::shipped(), &read, None, &tell);
    if let Some(path) = &args.values {
        let text = kernel_parameters_text(&fitted).map_err(|source| ReportError::Json {
            what: "the parameters of kernels",
            source,
        })?;
        write_file(path, text.as_bytes())?;
    }
    if let Some(path) = &args.log {
        write(path, &json!(log))?;
    }
    match (args.json, quiet) {
        (true, _) => terminal::print(&format!("{:#}\n", log_json(&log)))?,
        (false, false) => terminal::print(&kernels_table(&log))?,
        (false, true) => {}
    }
    Ok(())
}

/// Of engines.
fn run_engines(args: &Args, quiet: bool) -> Result<(), CliError> {
    let tables = read_serving(&args.serving)?;
    let tell = |text: &str| {
        if !quiet {
            terminal::complain(text);
        }
    };
    let fitted = fit_engines(serving(), &tables, &Budget::default(), &tell);
    let (fitted, log) = fitted.map_err(CliError::Usage)?;
    if let Some(path) = &args.values {
        let text = serde_json::to_string_pretty(&fitted).map_err(|source| ReportError::Json {
            what: "what engines take of the host",
            source,
        })?;
        write_file(path, format!("{text}\n").as_bytes())?;
    }
    if let Some(path) = &args.log {
        write(path, &json!(log))?;
    }
    match (args.json, quiet) {
        (true, _) => terminal::print(&format!("{:#}\n", log_json(&log)))?,
        (false, false) => terminal::print(&engines_table(&log))?,
        (false, true) => {}
    }
    Ok(())
}

/// Of training steps.
fn run_steps(path: &Path, args: &Args, quiet: bool) -> Result<(), CliError> {
    let steps = PublishedSteps::read(path)?;
    if !steps.tables.iter().any(|table| table.fits) {
        let problem = format!("--steps {}: no table has `\"fits\": true`", path.display());
        return Err(CliError::Usage(problem));
    }
    let tell = |text: &str| {
        if !quiet {
            terminal::complain(text);
        }
    };
    let log = fit_steps(&steps, &Budget::default(), &tell)?;
    if let Some(path) = &args.values {
        let values = log.generations.iter().map(|g| (&g.path, json!(g.value.1)));
        write(path, &values_file(values.collect()))?;
    }
    if let Some(path) = &args.log {
        write(path, &json!(log))?;
    }
    match (args.json, quiet) {
        (true, _) => terminal::print(&format!("{:#}\n", log_json(&log)))?,
        (false, false) => terminal::print(&steps_table(&log))?,
        (false, true) => {}
    }
    Ok(())
}

/// Figures of generations before and after.
fn steps_table(log: &StepFitLog) -> String {
    let lines = log.generations.iter().map(|g| {
        format!(
            "{:<40} {:>4} steps of {} tables, objective {:.4} -> {:.4}, {:.2} -> {:.2}\n",
            g.path, g.rows, g.tables, g.objective.0, g.objective.1, g.value.0, g.value.1
        )
    });
    lines.collect()
}

/// Figures of engines before and after, and how far off runs are.
fn engines_table(log: &EngineFitLog) -> String {
    let mut text = String::new();
    for engine in &log.engines {
        text += &format!(
            "{}: {} rows of {} groups, objective {:.4} -> {:.4}\n",
            engine.name, engine.rows, engine.groups, engine.objective.0, engine.objective.1
        );
        for (name, (before, after)) in &engine.values {
            text += &format!("  {name:<18} {before:>9} -> {after:>9}\n");
        }
    }
    text += "\nMedian errors over groups of these rows, by what is left out of the fit:\n";
    let percent = |error: Option<f64>| {
        error.map_or_else(|| "-".to_owned(), |error| format!("{:.1} %", error * 100.0))
    };
    for errors in &log.errors {
        text += &format!(
            "  {:<54} {:>3} groups: per token {:>7}, to the first token {:>7}, tokens/s {:>7}\n",
            errors.left_out,
            errors.groups,
            percent(errors.tpot),
            percent(errors.ttft),
            percent(errors.throughput)
        );
    }
    text += &format!("{} runs simulated\n", log.simulated);
    text
}

fn log_json(log: &impl serde::Serialize) -> serde_json::Value {
    let mut document = json!(log);
    document["format"] = json!(FORMAT);
    document["version"] = json!(env!("CARGO_PKG_VERSION"));
    document
}

/// Figures of kernels before and after, and how far off groups are.
fn kernels_table(log: &KernelFitLog) -> String {
    let mut text = String::new();
    for entry in &log.entries {
        text += &format!(
            "{}: {} rows, objective {:.4} -> {:.4}\n",
            entry.path, entry.rows, entry.objective.0, entry.objective.1
        );
        for (path, (before, after)) in &entry.values {
            let name = path.rsplit('.').next().unwrap_or(path);
            text += &format!("  {name:<12} {before:>12.4e} -> {after:>12.4e}\n");
        }
    }
    text += "\nMedian error: fitted on all rows; on the others than an octave of sizes\n";
    for group in &log.left_out {
        text += &format!(
            "  {:<46} {:>4} rows {:>6.1} % {:>6.1} %, 90th percentile {:>6.1} %\n",
            group.group,
            group.rows,
            group.fitted * 100.0,
            group.median * 100.0,
            group.p90 * 100.0
        );
    }
    text += &format!(
        "{} groups, each octave left out in turn: median {:.1} %, without FP4 {:.1} %\n",
        log.left_out.len(),
        log.median * 100.0,
        log.median_without_fp4 * 100.0
    );
    for skip in &log.skipped {
        text += &format!("Not used: {}, {} rows: {}\n", skip.id, skip.rows, skip.why);
    }
    text
}

fn table(log: &FitLog) -> String {
    let mut text = format!(
        "{} measurements; objective {:.4} -> {:.4} in {} predictions\n",
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

/// How far off predictions are, by bands.
fn bands(sets: &[&PredictedSet]) -> String {
    let inside: Vec<&PredictedSet> = sets.iter().copied().filter(|s| s.one_domain).collect();
    let mut text = String::from("Each topology predicted without its own measurements:\n");
    for (name, sets) in [("all groups", sets), ("one NVLink domain", &inside)] {
        for band in Band::ALL {
            if let Some(s) = over_groups(sets, band, simulated) {
                text += &format!(
                    "  {name:<18} {:<14} {:>3} groups, median {:>5.1} %, 90th percentile {:>5.1} %\n",
                    band.name(),
                    s.count,
                    s.median * 100.0,
                    s.p90 * 100.0
                );
            }
        }
    }
    text
}

/// The error of every group.
fn groups(sets: &[&PredictedSet]) -> serde_json::Value {
    let rows = Band::ALL.iter().flat_map(|&band| {
        let groups = group_errors(sets, band, simulated);
        groups.into_iter().map(move |(group, (median, ratio))| {
            json!({
                "band": band.key(),
                "topology": group.topology,
                "ranks": group.ranks,
                "collective": group.collective.name(),
                "median": median,
                "ratio": ratio,
            })
        })
    });
    json!({"comment": "Each topology predicted with what was fitted without its measurements; made by `fabricsim fit --leave-one-out`.", "groups": rows.collect::<Vec<_>>()})
}

fn values(log: &FitLog) -> serde_json::Value {
    let values = log.values.iter().map(|v| (&v.path, json!(v.after)));
    values_file(values.collect())
}

/// Values by their places in the hardware files.
fn values_file(values: BTreeMap<&String, serde_json::Value>) -> serde_json::Value {
    json!({
        "comment": "Values fitted to published measurements; made by `fabricsim fit`, never by hand. docs/fidelity.md has the method.",
        "values": values,
    })
}

fn write(path: &Path, value: &serde_json::Value) -> Result<(), CliError> {
    Ok(write_file(path, format!("{value:#}\n").as_bytes())?)
}
