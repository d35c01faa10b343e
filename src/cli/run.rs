//! `fabricsim run`: a scenario, and its folder of results.

use super::budget::BudgetArgs;
use super::progress::Show;
use super::terminal::say_wall;
use super::{CliError, output, terminal};
use fabricsim_experiment::training::{run_jobs, validate_job};
use fabricsim_experiment::{JobSpec, Scenario, read, run as run_scenario, validate};
use fabricsim_report::training::{self, VariantResult, check_job_target, write_job_run};
use fabricsim_report::{
    attribution_table, check_target, links_table, reproducible, summary_json, table_footer,
    table_left_out, write_run,
};
use indicatif::{ProgressBar, ProgressDrawTarget};
use std::path::{Path, PathBuf};

/// Runs a scenario file and writes its folder of results.
///
/// Of collectives the folder holds summary.json, timeline.json (for Perfetto), links.csv,
/// bandwidth.svg and .png, topology.svg and report.html; of training jobs summary.json, each
/// variant's timeline.json and timeline.svg, and report.html. It is written whole or not at all;
/// the results of an earlier run in its place are replaced.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The scenario file
    scenario: PathBuf,
    /// The folder for the results, in place of the scenario's own or `runs/<name>`
    #[arg(short, long, value_name = "DIR", value_parser = output::folder())]
    output: Option<PathBuf>,
    /// Puts a value into the scenario: `--set job.collective.sizes.to=1GiB`; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// The seed, in place of the scenario's own
    #[arg(long)]
    seed: Option<u64>,
    /// Simulates every worker, also where one could stand for all that are alike: the same
    /// results, later
    #[arg(long)]
    exact_full: bool,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Prints summary.json in place of tables
    #[arg(long)]
    json: bool,
}

/// Links that the table on the terminal shows.
const LINKS_SHOWN: usize = 8;

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let mut overrides = args.set.clone();
    if let Some(seed) = args.seed {
        overrides.push(format!("seed={seed}"));
    }
    let scenario = read(&args.scenario, &overrides)?;
    let folder = args.scenario.parent().unwrap_or(Path::new(""));
    if matches!(scenario.spec.job, JobSpec::Training(_)) {
        return run_job(args, quiet, scenario, folder);
    }
    let spec = validate(scenario, folder)?;
    let budget = args.budget.budget(args.exact_full);
    if !quiet {
        terminal::notes(&spec.notes);
    }
    let target = args.output.as_ref().unwrap_or(&spec.outputs);
    // Nobody wants to hear after an hour that there is no room for the results.
    check_target(target)?;

    let tables = !args.json && !quiet;
    let mut show = Show::new(tables, quiet, true);
    let run = run_scenario(&spec, &budget, &mut show)?;
    show.finish();
    write_run(target, &run)?;
    if args.json {
        terminal::print(&summary_json(&reproducible(&run.summary))?)?;
    }
    if args.json && !quiet {
        let rows = run.summary.rows.iter();
        say_wall(rows.map(|row| row.wall_ms).sum());
    }
    if tables {
        let colour = terminal::colour();
        let summary = &run.summary;
        let mut text = table_footer(summary, colour);
        let width = terminal::width();
        text += &table_left_out(summary, width, "summary.json and --json have all", colour);
        if let Some(attribution) = &summary.attribution {
            text.push('\n');
            text += &attribution_table(attribution, colour);
        }
        if !summary.links.is_empty() {
            text += "\nThe busiest links\n";
            text += &links_table(&summary.links, LINKS_SHOWN, colour);
        }
        text += &format!("\nWritten to {}\n", target.display());
        terminal::print(&text)?;
    }
    Ok(())
}

/// A training job, or several to be compared.
fn run_job(args: &Args, quiet: bool, scenario: Scenario, folder: &Path) -> Result<(), CliError> {
    let job = validate_job(scenario, folder)?;
    let budget = args.budget.budget(args.exact_full);
    if !quiet {
        let mut notes: Vec<String> = Vec::new();
        for note in job.variants.iter().flat_map(|variant| &variant.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        terminal::notes(&notes);
    }
    let target = args.output.as_ref().unwrap_or(&job.outputs);
    check_job_target(target)?;
    let bar = ProgressBar::new(job.variants.len() as u64);
    if quiet || args.json {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let run = run_jobs(&job, &budget, &mut |name| {
        bar.set_message(name.to_owned());
        bar.tick();
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    write_job_run(target, &run.summary, &run.timelines)?;
    let summary = training::reproducible(&run.summary);
    if args.json {
        terminal::print(&training::job_summary_json(&summary)?)?;
    } else if !quiet {
        let mut text = training::job_table(&summary, terminal::colour());
        text += &format!("\nWritten to {}\n", target.display());
        terminal::print(&text)?;
    }
    if !quiet {
        let wall = run.summary.variants.iter().map(|v| match &v.result {
            VariantResult::Ran(result) => result.wall_ms,
            VariantResult::Failed(_) => 0.0,
        });
        say_wall(wall.sum());
    }
    // What a job was to detect it has found.
    let failed = |variant: &training::Variant| match &variant.result {
        VariantResult::Failed(why) => Some((variant.name.clone(), why.clone())),
        VariantResult::Ran(_) => None,
    };
    if let Some((name, why)) = run.summary.variants.iter().find_map(failed) {
        return Err(CliError::Found {
            what: format!("the job `{name}`"),
            why,
            results: target.clone(),
        });
    }
    if run.summary.best.is_none() {
        return Err(CliError::NothingFits);
    }
    Ok(())
}
