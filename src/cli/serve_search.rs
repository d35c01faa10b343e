//! `fabricsim optimize` of a serving job: engines that do both, or for prompts and generation apart.

use super::collective::machine;
use super::long::Long;
use super::optimize::document;
use super::{CliError, output, terminal};
use fabricsim_budget::Budget;
use fabricsim_experiment::optimize::{ServingAsk, ServingSizes, optimize_serving};
use fabricsim_experiment::sweep::AxisSpec;
use fabricsim_experiment::{Machines, Scenario};
use fabricsim_report::optimize::{
    ServingSearch, serving_search_page, serving_search_text, write_search,
};
use fabricsim_report::write_file;
use std::path::Path;

/// What is asked.
pub(super) struct Ways<'a> {
    pub(super) topology: &'a [String],
    pub(super) sizes: ServingSizes<'a>,
    pub(super) objective: Option<&'a str>,
    pub(super) slo_share: f64,
    pub(super) top: usize,
    pub(super) over: &'a [AxisSpec],
}

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
    if !(ways.slo_share > 0.0 && ways.slo_share <= 1.0) {
        return Err(CliError::Usage(format!(
            "--slo-share {}: expected a part of requests, above 0 and at most 1",
            ways.slo_share
        )));
    }
    if matches!(ways.sizes, ServingSizes::Each([])) {
        return Err(CliError::Usage(
            "a serving job: expected --gpus or --nodes, the numbers that are tried".to_owned(),
        ));
    }
    let ask = ServingAsk {
        machines: &machines,
        sizes: ways.sizes,
        objective: ways.objective,
        slo_share: ways.slo_share,
        top: ways.top,
        over: ways.over,
    };
    let built = Machines::default();
    let long = (!quiet).then(|| Long::follow(budget));
    let found = optimize_serving((scenario, folder), ask, (budget, &built), &|_| {})?;
    drop(long);
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

/// The page or the document; or the folder with both, and a scenario for each of the best.
fn write(target: &Path, found: &ServingSearch) -> Result<(), CliError> {
    let text = document(found)?;
    match output::ending(target).as_deref() {
        Some("json") => Ok(write_file(target, text.as_bytes())?),
        Some("html") => Ok(write_file(target, serving_search_page(found)?.as_bytes())?),
        _ => {
            let best = found.best.iter();
            let best = best.map(|choice| (choice.topology.as_str(), &choice.scenario));
            let page = serving_search_page(found)?;
            Ok(write_search(target, (&text, &page), best)?)
        }
    }
}
