//! A job without a file: simulated, written where that is asked for, and printed.

use super::progress::Show;
use super::{CliError, terminal};
use fabricsim_budget::Budget;
use fabricsim_experiment::{Scenario, run as run_experiment, validate};
use fabricsim_report::{Outputs, check_target, summary_json, summary_text, write_results};
use std::path::{Path, PathBuf};

/// What is done with the results.
pub(super) struct Wanted<'a> {
    pub(super) output: Option<&'a PathBuf>,
    pub(super) json: bool,
    pub(super) quiet: bool,
    pub(super) budget: Budget,
    /// What fails, if the job does.
    pub(super) what: &'a str,
}

/// Simulates a scenario and prints it; a job that fails is an error.
pub(super) fn answered(scenario: Scenario, wanted: &Wanted<'_>) -> Result<(), CliError> {
    let Wanted {
        output,
        json,
        quiet,
        ..
    } = *wanted;
    let experiment = validate(scenario, Path::new(""))?;
    if !quiet {
        terminal::notes(&experiment.notes());
    }
    if let Some(target) = output {
        check_target(target)?;
    }
    let outputs = Outputs::default();
    let mut show = Show::new(false, quiet, output.is_some(), &wanted.budget);
    let results = run_experiment(&experiment, &wanted.budget, &outputs, &mut show)?;
    show.finish();
    if let Some(target) = output {
        write_results(target, &results, &outputs)?;
    }
    let summary = &results.summary;
    if json {
        terminal::print(&summary_json(&summary.reproducible())?)?;
    } else if !quiet {
        let (width, colour) = (terminal::width(), terminal::colour());
        terminal::print(&summary_text(summary, width, colour))?;
    }
    match summary.variants.iter().find_map(|v| v.job.failure()) {
        None => Ok(()),
        Some(why) => Err(CliError::Failed {
            what: wanted.what.to_owned(),
            why: why.to_owned(),
            results: output.cloned(),
        }),
    }
}
