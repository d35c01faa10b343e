//! `fabricsim run`: a scenario, and its folder of results.

use super::budget::BudgetArgs;
use super::examples::{Examples, examples};
use super::progress::Show;
use super::terminal::say_wall;
use super::what_if::{WhatIfArgs, with_gpus};
use super::{CliError, one_of, output, terminal};
use crate::Experiment;
use fabricsim_experiment::catalogue;
use fabricsim_report::{
    Output, Outputs, Results, Summary, check_target, ended, summary_json, summary_text,
    write_results,
};
use fabricsim_units::Time;
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    (
        "How large should the buckets of gradients be on four DGX-1?",
        "fabricsim run ddp-buckets",
    ),
    (
        "What does a NIC at a tenth of its rate cost a step, with all outputs in one folder?",
        "fabricsim run ddp-buckets --nic node1/nic2:0.1 -o slow-nic",
    ),
    (
        "How long is a step of a job of my own?",
        "fabricsim scenario new training -o mine.json\n\
         fabricsim run mine.json --kernels",
    ),
];

/// Runs a scenario, from a file or a shipped one, and writes its folder of results.
///
/// The folder holds summary.json and report.html, for each variant a timeline.json (for
/// Perfetto), of collectives links.csv, topology.svg, bandwidth.svg and .png, of training jobs
/// timeline.svg, and of several variants points.csv. It is written whole or not at all; the
/// results of an earlier run in its place are replaced.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// The scenario's file, or the name of a shipped one (see `scenario list`)
    #[arg(value_name = "FILE|NAME")]
    scenario: PathBuf,
    /// The folder for the results, in place of the scenario's own or `runs/<name>`
    #[arg(short, long, value_name = "DIR", value_parser = output::folder())]
    output: Option<PathBuf>,
    /// What the folder is to hold beside summary.json [default: all of it]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = one_of(&Output::ALL, Output::name))]
    outputs: Vec<Output>,
    /// From one sample of telemetry to the next; without it a run has 200 samples
    #[arg(long, value_name = "TIME", value_parser = sample)]
    sample: Option<Time>,
    /// Puts a value into the scenario: `--set job.collective.sizes.to=1GiB`; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// GPUs that take part: whole nodes, or some of one
    #[arg(long)]
    gpus: Option<u32>,
    /// Adds a table of a training step's kernels with what bounds each, and its utilisation by every
    /// convention
    #[arg(long)]
    kernels: bool,
    /// The seed, in place of the scenario's own
    #[arg(long)]
    seed: Option<u64>,
    /// Simulates every worker, also where one could stand for all that are alike: the same
    /// results, later; of a large machine all is recorded
    #[arg(long)]
    exact_full: bool,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Prints summary.json in place of tables
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let mut overrides = args.set.clone();
    if let Some(seed) = args.seed {
        overrides.push(format!("seed={seed}"));
    }
    if args.kernels {
        overrides.push("job.training.kernel_table=true".to_owned());
    }
    let (scenario, folder) = catalogue::find(&args.scenario, &overrides)?;
    let scenario = with_gpus(args.what_if.apply(scenario)?, args.gpus, &folder)?;
    let mut experiment = Experiment::check(scenario, &folder)?;
    experiment.budget = args.budget.budget(args.exact_full);
    let checked = &experiment.checked;
    if !quiet {
        terminal::notes(&checked.notes());
    }
    let target = args.output.as_ref().unwrap_or(&checked.outputs);
    // Nobody wants to hear after an hour that there is no room for the results.
    check_target(target)?;
    let outputs = match args.outputs.as_slice() {
        [] => Outputs::default(),
        asked => Outputs::of(asked.iter().copied()),
    };
    if args.sample.is_some() && !outputs.has(Output::Telemetry) {
        return Err(CliError::Usage(
            "--sample: it is of telemetry: expected --outputs telemetry beside it".into(),
        ));
    }
    let outputs = outputs.sampled(args.sample);
    let tables = !args.json && !quiet;
    // Rows of a collective that is run alone are shown as they come.
    let live = tables && checked.only_collective().is_some();
    let mut show = Show::new(live, quiet, true, &experiment.budget);
    let results = experiment.run_for(&outputs, &mut show)?;
    show.finish();
    write_results(target, &results, &outputs)?;
    let Results { summary, .. } = &results;
    if args.json {
        terminal::print(&summary_json(&summary.reproducible())?)?;
    }
    if tables {
        let (width, colour) = (terminal::width(), terminal::colour());
        let mut text = summary_text(summary, width, colour);
        text += &format!("\nWritten to {}\n", target.display());
        terminal::print(&text)?;
    }
    if !quiet && !live {
        say_wall(summary.wall_ms());
    }
    found(summary, target)
}

/// The time from one sample to the next.
pub(super) fn sample(text: &str) -> Result<Time, String> {
    match text.parse::<Time>() {
        Ok(Time::ZERO) => Err("expected more than 0, such as 1ms".into()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

/// An answer that is a failure: a job that does not end, or variants of which none fits.
pub(super) fn found(summary: &Summary, target: &Path) -> Result<(), CliError> {
    // What a job was to detect it has found.
    for variant in &summary.variants {
        let own = variant.job.communicator().is_some() || variant.job.calls().is_some();
        if let (Some(why), true) = (variant.job.failure(), own) {
            return Err(CliError::Failed {
                what: format!("the job `{}`", variant.name),
                why: why.to_owned(),
                results: Some(target.to_owned()),
            });
        }
        if let Some(why) = variant.job.failure() {
            return Err(CliError::Found {
                what: format!("the job `{}`", variant.name),
                why: why.to_owned(),
                results: target.to_owned(),
            });
        }
    }
    let unfit = |variant: &fabricsim_report::Variant| variant.metrics.fits == Some(false);
    match summary.variants.iter().all(|v| ended(v) && unfit(v)) {
        true => Err(CliError::NothingFits),
        false => Ok(()),
    }
}
