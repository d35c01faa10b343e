//! A model on several machines: the best layout of each, then these beside each other.

use super::{Args, finish};
use crate::cli::CliError;
use crate::cli::collective::machine;
use crate::cli::load::job_of_model;
use crate::cli::long::Long;
use crate::cli::terminal::say_wall;
use fabricsim_experiment::best_of_each::{BestOf, Question, best_of_each, settle};
use fabricsim_experiment::compare::find_better_choices;
use fabricsim_experiment::earlier::of_runs;
use fabricsim_experiment::optimize::Progress;
use fabricsim_experiment::{
    Machines, Scenario, Silent, TopologyRef, parse, run as run_experiment, validate_on,
};
use fabricsim_report::{KEEPS_SLO, Record, Results, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &Args, quiet: bool, model: &str) -> Result<(), CliError> {
    let began = Instant::now();
    let machines: Vec<TopologyRef> = args.topology.iter().map(|text| machine(text)).collect();
    let Some(gpus) = args.gpus.filter(|_| machines.len() > 1) else {
        return Err(CliError::Usage(format!(
            "{model} is a model: expected machines and how many of their GPUs, such as -t dgx-h100 -t gb200-nvl72 \
             --gpus 72"
        )));
    };
    let scenario = scenario_of(args, model, &machines)?;
    let question = Question {
        machines: &machines,
        gpus,
        slo_share: KEEPS_SLO,
    };
    let budget = args.budget.budget(false);
    let built = Machines::default();
    let bar = bar(quiet || args.json || args.csv);
    let long = (!quiet).then(|| Long::beside(&budget, &bar));
    let watch = |at: Progress<'_>| {
        bar.set_message(format!(
            "{} on {} GPUs of {}",
            at.simulated, at.gpus, at.machine
        ));
        bar.tick();
    };
    let here = Path::new("");
    let found = best_of_each((&scenario, here), question, (&budget, &built), &watch)?;
    drop(long);
    bar.finish_and_clear();
    let mut runs = Vec::new();
    let mut records = Vec::new();
    for best in &found {
        let (summary, own) = simulated(args, best, (scenario.spec.seed, &built))?;
        records.extend(own);
        runs.push((best.name.clone(), summary));
    }
    let mut summary = of_runs(runs, args.baseline.as_deref())?;
    let names: Vec<&str> = found.iter().map(|best| best.name.as_str()).collect();
    summary.title = format!("{model}: {}", names.join(", "));
    settle(&mut summary, &found);
    if !quiet {
        // With the search, which takes most of it.
        say_wall(began.elapsed().as_secs_f64() * 1e3);
    }
    let none = summary.best.is_none();
    finish(args, quiet, Results { summary, records })?;
    match none {
        true => Err(CliError::NoLayout),
        false => Ok(()),
    }
}

/// The job on the first machine; the others are put in its place.
fn scenario_of(args: &Args, model: &str, machines: &[TopologyRef]) -> Result<Scenario, CliError> {
    let job = job_of_model(model, &args.load, (args.global_batch, args.sequence))?;
    let text = json!({
        "name": model,
        "topology": machines.first(),
        "job": job,
        "seed": args.seed.unwrap_or(0),
    });
    let scenario = parse(&text.to_string(), model, &args.set)?;
    let scenario = args.what_if.apply(scenario)?;
    args.price.apply(scenario, machines, Path::new(""))
}

/// Runs the best of a machine, which is then called like it.
fn simulated(
    args: &Args,
    best: &BestOf,
    (seed, built): (u64, &Machines),
) -> Result<(Summary, Vec<Record>), CliError> {
    let Some(scenario) = &best.scenario else {
        return Ok((best.without_layout(seed), Vec::new()));
    };
    let experiment = validate_on(built, scenario.clone(), Path::new(""))?;
    let budget = args.budget.budget(false);
    let mut results = run_experiment(&experiment, &budget, &args.outputs(), &mut Silent)?;
    find_better_choices(&experiment, &mut results.summary, &budget)?;
    for record in &mut results.records {
        record.variant.clone_from(&best.name);
    }
    Ok((results.summary, results.records))
}

fn bar(hidden: bool) -> ProgressBar {
    let style = ProgressStyle::with_template("searched: {msg} {elapsed}");
    match style {
        Ok(style) if !hidden => ProgressBar::new_spinner().with_style(style),
        _ => ProgressBar::hidden(),
    }
}
