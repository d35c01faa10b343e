//! `fabricsim validate`: predictions beside published measurements.

use super::budget::BudgetArgs;
use super::examples::{Examples, examples};
use super::long::Long;
use super::{CliError, claims, output, terminal};
use fabricsim_calibration::{
    KnownErrors, Measurement, Models, PublishedMemory, PublishedSteps, coverage, predict_memory,
    predict_serving, predict_steps, read_measurements, read_serving, validate,
};
use fabricsim_report::training::{memory_json, memory_text, published_json, published_text};
use fabricsim_report::validation::{
    check_validation_target, serving_validation_json, serving_validation_text, validation_json,
    validation_text, write_validation,
};
use fabricsim_report::{ReportError, write_file};
use fabricsim_topology::{Hardware, catalogue, load};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    (
        "Does a claim of lecture notes agree with what is simulated?",
        "fabricsim validate --claims --only 1",
    ),
    (
        "Which figures does it compare?",
        "fabricsim validate --claims --only 1,70 --json",
    ),
    (
        "Which scenarios are behind a claim?",
        "fabricsim validate --claims --only 24 -o claims",
    ),
];

/// Predicts published measurements and says how far off the predictions are.
///
/// Reads measurement files (or folders of them), runs each as its `model` block says, and
/// prints errors by bands of size, for each table and over all, beside those of NCCL's own
/// cost model; then the rows that are furthest off, and what was skipped with the reasons.
/// Each error is shown as median, 90th percentile, and mean ratio of predicted to measured.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// Measurement files, or folders of them
    #[arg(required_unless_present_any = ["steps", "job_memory", "serving", "claims"])]
    paths: Vec<PathBuf>,
    /// Published steps of training jobs in place of collectives, such as
    /// validation/training.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "output"])]
    steps: Option<PathBuf>,
    /// Published memory of training jobs in place of collectives, such as validation/memory.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "steps", "output", "jobs"])]
    job_memory: Option<PathBuf>,
    /// Published figures of serving, files or folders, in place of collectives; may be repeated
    #[arg(long, value_name = "DIR", conflicts_with_all = ["paths", "steps", "job_memory", "output", "values", "models", "unhealthy"])]
    serving: Vec<PathBuf>,
    /// What lecture notes claim in place of collectives: runs the commands of each claim and says
    /// which agree; `=FILE.json` takes claims of your own in place of the shipped ones, `--only` names
    /// numbers (`1,88`), `-o` a page (`claims.md`) or a folder that has the commands' scenarios, too
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, require_equals = true, conflicts_with_all = ["paths", "steps", "job_memory", "serving", "values", "models", "unhealthy"])]
    claims: Option<Option<PathBuf>>,
    /// Of steps or serving: also writes how far off each kind is, for the answers of `compare`; what the file holds of
    /// the other stays
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["paths", "job_memory", "claims"])]
    known_errors: Option<PathBuf>,
    /// Also writes what ranges of machines and sizes the tables show, by algorithm, protocol and network,
    /// for the notes of `collective` and `run`
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["steps", "job_memory", "serving", "claims"])]
    coverage: Option<PathBuf>,
    /// Values that `fit --values` wrote, in place of the shipped ones
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["steps", "job_memory"])]
    values: Option<PathBuf>,
    /// How to run tables that do not say it themselves, such as validation/models.json
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["steps", "job_memory"])]
    models: Option<PathBuf>,
    /// Only tables whose name holds this text, or claims with these numbers; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Also predicts tables whose source reports a fault (`"healthy": false`), which are skipped
    /// else; they count as healthy ones
    #[arg(long, conflicts_with_all = ["steps", "job_memory"])]
    unhealthy: bool,
    /// Prints one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Also writes a folder: validation.json, report.html with every curve, and curves.svg with
    /// ten of them
    #[arg(short, long, value_name = "DIR", value_parser = output::file_ending_in(&["md"]))]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    if let Some(own) = &args.claims {
        return claims::run(&claims::Asked {
            own: own.as_deref(),
            only: &args.only,
            json: args.json,
            quiet,
            jobs: args.budget.budget(false).threads,
            output: args.output.as_deref(),
        });
    }
    if let Some(target) = args.output.as_deref().and_then(output::ending)
        && target == "md"
    {
        let text =
            "-o: of claims alone there is a page; expected a folder, which will hold all results";
        return Err(CliError::Usage(text.into()));
    }
    if let Some(path) = &args.steps {
        return run_steps(path, args, quiet);
    }
    if let Some(path) = &args.job_memory {
        return run_memory(path, args, quiet);
    }
    if !args.serving.is_empty() {
        return run_serving(args, quiet);
    }
    let measurements = measurements(args)?;
    if let Some(target) = &args.output {
        check_validation_target(target)?;
    }
    let bar = bar(measurements.len(), "tables", quiet);
    let own = args.values.as_deref().map(hardware).transpose()?;
    let hardware = own.as_ref().unwrap_or(catalogue::hardware());
    let budget = args.budget.budget(false);
    let long = (!quiet).then(|| Long::beside(&budget, &bar));
    let validation = validate(&measurements, hardware, &budget, &|| bar.inc(1));
    drop(long);
    bar.finish_and_clear();
    if let Some(target) = &args.output {
        write_validation(target, &validation)?;
    }
    if let Some(path) = &args.coverage {
        write_json(path, "the ranges of tables", &coverage(&validation))?;
    }
    if args.json {
        terminal::print(&validation_json(&validation)?)?;
    } else if !quiet {
        let mut text = validation_text(&validation, terminal::colour());
        if let Some(target) = &args.output {
            text += &format!("\nWritten to {}\n", target.display());
        }
        terminal::print(&text)?;
    }
    if validation.sets.is_empty() {
        return Err(CliError::NothingPredicted(measurements.len()));
    }
    Ok(())
}

/// Writes a document that the program carries with it.
fn write_json(path: &Path, what: &'static str, document: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|source| ReportError::Json { what, source })?;
    Ok(write_file(path, format!("{text}\n").as_bytes())?)
}

/// The hardware with the values of a file.
fn hardware(path: &Path) -> Result<Hardware, CliError> {
    let origin = path.display().to_string();
    Ok(catalogue::hardware_with(&load::read_text(path)?, &origin)?)
}

/// What a file holds of known errors, if there is one.
fn known_errors(path: &Path) -> Result<KnownErrors, CliError> {
    if !path.exists() {
        return Ok(KnownErrors::default());
    }
    let what = "the known errors";
    let known = serde_json::from_str(&load::read_text(path)?);
    Ok(known.map_err(|source| ReportError::Json { what, source })?)
}

/// Steps of training jobs.
fn run_steps(path: &Path, args: &Args, quiet: bool) -> Result<(), CliError> {
    let steps = PublishedSteps::read(path)?;
    let bar = bar(
        steps.tables.iter().map(|t| t.rows.len()).sum(),
        "tables",
        quiet,
    );
    let budget = args.budget.budget(false);
    let long = (!quiet).then(|| Long::beside(&budget, &bar));
    let tables = predict_steps(&steps, &args.only, &budget, &|| bar.inc(1))?;
    drop(long);
    bar.finish_and_clear();
    if let Some(path) = &args.known_errors {
        write_json(
            path,
            "the known errors",
            &known_errors(path)?.with_steps(&tables),
        )?;
    }
    show(
        (args, quiet),
        || published_json(&tables),
        || published_text(&tables, terminal::colour()),
    )
}

/// Memory of training jobs.
fn run_memory(path: &Path, args: &Args, quiet: bool) -> Result<(), CliError> {
    let published = PublishedMemory::read(path)?;
    let bar = bar(
        published.tables.iter().map(|t| t.rows.len()).sum(),
        "tables",
        quiet,
    );
    let tables = predict_memory(&published, &args.only, &|| bar.inc(1))?;
    bar.finish_and_clear();
    show(
        (args, quiet),
        || memory_json(&tables),
        || memory_text(&tables, terminal::colour()),
    )
}

/// Figures of serving.
fn run_serving(args: &Args, quiet: bool) -> Result<(), CliError> {
    let mut tables = read_serving(&args.serving)?;
    if !args.only.is_empty() {
        tables.retain(|t| args.only.iter().any(|text| t.id.contains(text.as_str())));
    }
    let bar = bar(tables.iter().map(|t| t.rows.len()).sum(), "tables", quiet);
    let budget = args.budget.budget(false);
    let long = (!quiet).then(|| Long::beside(&budget, &bar));
    let validation = predict_serving(&tables, &budget, &|| bar.inc(1)).map_err(CliError::Usage)?;
    drop(long);
    bar.finish_and_clear();
    if let Some(path) = &args.known_errors {
        let known = known_errors(path)?.with_serving(&validation);
        write_json(path, "the known errors", &known)?;
    }
    show(
        (args, quiet),
        || serving_validation_json(&validation),
        || serving_validation_text(&validation, terminal::colour()),
    )?;
    if validation.sets.is_empty() {
        return Err(CliError::NothingPredicted(tables.len()));
    }
    Ok(())
}

/// Prints the document or the text, or neither, as it is asked for.
fn show(
    (args, quiet): (&Args, bool),
    json: impl FnOnce() -> Result<String, ReportError>,
    text: impl FnOnce() -> String,
) -> Result<(), CliError> {
    match (args.json, quiet) {
        (true, _) => terminal::print(&json()?)?,
        (false, false) => terminal::print(&text())?,
        (false, true) => {}
    }
    Ok(())
}

fn measurements(args: &Args) -> Result<Vec<Measurement>, CliError> {
    let mut all = read_measurements(&args.paths)?;
    if let Some(path) = &args.models {
        Models::read(path)?.complete(&mut all);
    }
    if args.unhealthy {
        all.iter_mut().for_each(|table| table.healthy = true);
    }
    if args.only.is_empty() {
        return Ok(all);
    }
    let count = all.len();
    all.retain(|m| args.only.iter().any(|text| m.id.contains(text.as_str())));
    if all.is_empty() {
        let texts = args.only.join("`, `");
        return Err(CliError::Usage(format!(
            "--only: none of the {count} tables has a name with `{texts}`"
        )));
    }
    Ok(all)
}

/// It draws to standard error, and hides itself where that is no terminal.
pub(super) fn bar(count: usize, what: &str, hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(count as u64);
    let style =
        ProgressStyle::with_template(&format!("{{pos}} of {{len}} {what} {{bar:30}} {{elapsed}}"));
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
