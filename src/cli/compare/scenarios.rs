//! Scenarios that are run to be compared: one on several machines or with its variants, or several.

use super::{Args, finish};
use crate::cli::collective::machine;
use crate::cli::progress::Show;
use crate::cli::terminal::{self, say_wall};
use crate::cli::what_if::with_gpus;
use crate::cli::{CliError, output};
use fabricsim_experiment::compare::{
    find_better_choices, machines_of, on_machines, without_own_sizes,
};
use fabricsim_experiment::earlier::of_runs;
use fabricsim_experiment::{
    Scenario, TopologyRef, ValidExperiment, catalogue, run as run_experiment, validate,
};
use fabricsim_report::{Outputs, Results};
use serde_json::json;
use std::path::{Path, PathBuf};

impl Args {
    fn machines(&self) -> Vec<TopologyRef> {
        self.topology.iter().map(|text| machine(text)).collect()
    }

    /// A scenario by its path or name, and where its relative paths start.
    pub(super) fn read(&self, path: &Path) -> Result<(Scenario, PathBuf), CliError> {
        let mut overrides = self.set.clone();
        if let Some(seed) = self.seed {
            overrides.push(format!("seed={seed}"));
        }
        Ok(catalogue::find(path, &overrides)?)
    }

    /// The scenario with as many nodes, and GPUs of each, as `-n` and `-g` say.
    fn sized(&self, mut scenario: Scenario) -> Result<Scenario, CliError> {
        let given = [
            ("-n", "nodes", self.nodes),
            ("-g", "gpus_per_node", self.gpus_per_node),
        ];
        for (flag, place, count) in given {
            if let Some(count) = count {
                // On machines the scenario itself is run, without its variants.
                if self.topology.is_empty() {
                    without_own_sizes(&scenario, flag)?;
                }
                scenario = scenario.with(place, count.into())?;
            }
        }
        Ok(scenario)
    }

    /// What is recorded, for what is written.
    pub(super) fn outputs(&self) -> Outputs {
        match &self.output {
            Some(path) if output::ending(path).is_none_or(|ending| ending == "html") => {
                Outputs::default()
            }
            _ => Outputs::of([]),
        }
    }
}

/// A job on the machines, or a scenario with its variants.
pub(super) fn one(
    args: &Args,
    quiet: bool,
    scenario: Scenario,
    folder: &Path,
) -> Result<(), CliError> {
    let scenario = args.sized(args.what_if.apply_beside(scenario)?)?;
    let mut scenario = placed(args, quiet, scenario, folder)?;
    scenario = args
        .price
        .apply(scenario.clone(), &machines_of(&scenario)?, folder)?;
    if let Some(name) = &args.baseline {
        scenario = scenario.with("baseline", name.as_str().into())?;
    }
    let experiment = validate(scenario, folder)?;
    if let [] | [_] = experiment.variants.as_slice() {
        let only = experiment.variants.first();
        return Err(CliError::Usage(format!(
            "there is only {} to compare: expected two machines (-t), another scenario, or a scenario with variants",
            only.map_or("nothing", |v| v.name.as_str())
        )));
    }
    let results = simulated(args, quiet, &experiment)?;
    finish(args, quiet, results)
}

/// The scenario on the machines that are asked for, if any are.
fn placed(
    args: &Args,
    quiet: bool,
    scenario: Scenario,
    folder: &Path,
) -> Result<Scenario, CliError> {
    let machines = args.machines();
    match (machines.as_slice(), args.gpus) {
        ([_, _, ..], _) if args.what_if.falls_back() => Err(CliError::Usage(
            "--fallback: expected one machine (-t); the same without the fall-back is the other"
                .into(),
        )),
        ([machine], gpus) if args.what_if.falls_back() => {
            with_gpus(scenario.with("topology", json!(machine))?, gpus, folder)
        }
        ([], None) => Ok(scenario),
        ([], Some(gpus)) => {
            if !scenario.spec.variants.is_empty() {
                return Err(CliError::Usage(format!(
                    "--gpus {gpus}: expected machines (-t), or a scenario without variants"
                )));
            }
            let own = [scenario.spec.topology.clone()];
            Ok(on_machines(&scenario, &own, Some(gpus), folder)?)
        }
        (machines, gpus) => {
            if gpus.is_none() && args.nodes.is_none() && args.gpus_per_node.is_none() {
                without_own_sizes(&scenario, "-t")?;
            }
            if !quiet && !scenario.spec.variants.is_empty() {
                let own: Vec<&str> = scenario
                    .spec
                    .variants
                    .iter()
                    .map(|v| v.name.as_str())
                    .collect();
                terminal::notes(&[format!(
                    "-t: the scenario itself is run on each machine, without its variants ({})",
                    own.join(", ")
                )]);
            }
            Ok(on_machines(&scenario, machines, gpus, folder)?)
        }
    }
}

/// Runs what is compared.
fn simulated(args: &Args, quiet: bool, experiment: &ValidExperiment) -> Result<Results, CliError> {
    if !quiet {
        terminal::notes(&experiment.notes());
    }
    let budget = args.budget.budget(args.collective.exact_full);
    let mut show = Show::new(false, quiet, true, &budget);
    let mut results = run_experiment(experiment, &budget, &args.outputs(), &mut show)?;
    find_better_choices(experiment, &mut results.summary, &budget)?;
    show.finish();
    if !quiet {
        say_wall(results.summary.wall_ms());
    }
    Ok(results)
}

/// Scenarios of one variant each, which are named by their files.
pub(super) fn several(args: &Args, quiet: bool, paths: &[PathBuf]) -> Result<(), CliError> {
    let mut experiments: Vec<(String, ValidExperiment)> = Vec::new();
    for path in paths {
        let (scenario, folder) = args.read(path)?;
        let scenario = args.sized(args.what_if.apply(scenario)?)?;
        if let [first, ..] = scenario.spec.variants.as_slice() {
            return Err(CliError::Usage(format!(
                "{}: found a scenario with variants ({} …), expected one without, beside another scenario: \
                 compare it by itself",
                path.display(),
                first.name
            )));
        }
        let scenario = with_gpus(scenario, args.gpus, &folder)?;
        let machines = machines_of(&scenario)?;
        let scenario = args.price.apply(scenario, &machines, &folder)?;
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let taken = |stem: &&str| !experiments.iter().any(|(known, _)| known == stem);
        let name = stem.filter(taken).map(str::to_owned);
        let name = name.unwrap_or_else(|| path.display().to_string());
        experiments.push((name, validate(scenario, &folder)?));
    }
    let mut runs = Vec::new();
    let mut records = Vec::new();
    for (name, experiment) in &experiments {
        let mut results = simulated(args, quiet, experiment)?;
        for record in &mut results.records {
            record.variant.clone_from(name);
        }
        records.extend(results.records);
        runs.push((name.clone(), results.summary));
    }
    let summary = of_runs(runs, args.baseline.as_deref())?;
    finish(args, quiet, Results { summary, records })
}
