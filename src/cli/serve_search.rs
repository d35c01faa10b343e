//! `fabricsim optimize` of a serving job: engines that do both, or for prompts and generation apart.

use super::collective::machine;
use super::optimize::{document, write_best};
use super::{CliError, output, terminal};
use fabricsim_budget::Budget;
use fabricsim_experiment::optimize::{ServingAsk, Size, optimize_serving};
use fabricsim_experiment::{Machines, Scenario};
use fabricsim_report::optimize::{ServingSearch, serving_search_text};
use fabricsim_report::{Metrics, write_file};
use std::path::Path;

/// What is asked.
pub(super) struct Ways<'a> {
    pub(super) topology: &'a [String],
    pub(super) sizes: &'a [Size],
    pub(super) objective: Option<&'a str>,
    pub(super) slo_share: f64,
    pub(super) top: usize,
}

/// What serving is judged by, where nothing else is said.
const OBJECTIVE: &str = "output_tokens_per_s_per_gpu";

pub(super) fn run(
    (scenario, folder): (&Scenario, &Path),
    ways: Ways<'_>,
    budget: &Budget,
    (json, quiet, target): (bool, bool, Option<&Path>),
) -> Result<(), CliError> {
    let machines = match ways.topology {
        [] => vec![scenario.spec.topology.clone()],
        asked => asked.iter().map(|text| machine(text)).collect(),
    };
    let objective = ways.objective.unwrap_or(OBJECTIVE);
    debug_assert!(Metrics::names().any(|name| name == objective));
    if !(ways.slo_share > 0.0 && ways.slo_share <= 1.0) {
        return Err(CliError::Usage(format!(
            "--slo-share {}: expected a part of requests, above 0 and at most 1",
            ways.slo_share
        )));
    }
    if ways.sizes.is_empty() {
        return Err(CliError::Usage(
            "a serving job: expected --gpus or --nodes, the numbers that are tried".to_owned(),
        ));
    }
    let ask = ServingAsk {
        machines: &machines,
        sizes: ways.sizes,
        objective,
        slo_share: ways.slo_share,
        top: ways.top,
    };
    let built = Machines::default();
    let found = optimize_serving((scenario, folder), ask, (budget, &built), &|_| {})?;
    if let Some(target) = target {
        write(target, &found)?;
    }
    if json {
        terminal::print(&document(&found)?)?;
    } else if !quiet {
        let mut text = serving_search_text(&found, terminal::colour());
        if let Some(target) = target {
            text += &format!("\nWritten to {}\n", target.display());
        }
        terminal::print(&text)?;
    }
    match found.best.is_empty() {
        true => Err(CliError::NoLayout),
        false => Ok(()),
    }
}

/// The document; or a folder with it and a scenario for each of the best.
fn write(target: &Path, found: &ServingSearch) -> Result<(), CliError> {
    let text = document(found)?;
    match output::ending(target).as_deref() {
        Some("json") => Ok(write_file(target, text.as_bytes())?),
        Some(ending) => Err(CliError::Usage(format!(
            "-o ….{ending}: of a serving job expected a folder or a name that ends in .json"
        ))),
        None => {
            let best = found.best.iter();
            let best = best.map(|choice| (choice.topology.as_str(), &choice.scenario));
            write_best(target, &text, best)
        }
    }
}
