//! `fabricsim compare`: one job on several machines, earlier runs, variants, or machines alone.

use super::budget::BudgetArgs;
use super::collective::{CollectiveArgs, machine};
use super::progress::Show;
use super::terminal::say_wall;
use super::what_if::{WhatIfArgs, with_gpus};
use super::{CliError, output, spelling, terminal};
use fabricsim_collective::Collective;
use fabricsim_experiment::compare::{card, find_better_choices, of_runs, on_machines};
use fabricsim_experiment::{
    Scenario, SizesSpec, TopologyRef, catalogue, machine_of, run as run_experiment, validate,
};
use fabricsim_report::cards::{Card, cards_json, cards_text};
use fabricsim_report::comparison::{comparison_json, variants_text};
use fabricsim_report::telemetry::{Beside, is_prometheus_answer, read_series};
use fabricsim_report::{
    Outputs, Results, Summary, check_target, page_of, points_csv, read_summary, write_file,
    write_results,
};
use fabricsim_units::{Bytes, Time};
use std::path::{Path, PathBuf};

/// Sets a job on several machines, variants of a scenario, or earlier runs beside each other.
///
/// Each WHAT is, in this order: a folder of an earlier run, a collective, a scenario's file, the
/// name of a shipped scenario. A collective or a scenario runs on every machine of `-t`; a scenario
/// alone is run with its own variants. The folder of a run with `--outputs telemetry` and a file of
/// measured series (telemetry.csv, a range query of Prometheus as CSV or JSON, the output of `dcgmi
/// dmon` or `nvidia-smi`) are set beside each other. Without any WHAT the machines themselves are compared.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Earlier runs, a collective or a scenario
    what: Vec<String>,
    /// A shipped topology or a topology file; once for each machine
    #[arg(short, long, value_name = "NAME|FILE")]
    topology: Vec<String>,
    /// GPUs that take part on each machine: whole nodes, or some of one
    #[arg(long, conflicts_with = "gpus_per_node")]
    gpus: Option<u32>,
    /// GPUs of each node that take part, of a collective
    #[arg(short, long)]
    gpus_per_node: Option<u32>,
    /// Nodes of each machine
    #[arg(short, long, conflicts_with = "gpus")]
    nodes: Option<u32>,
    /// The smallest size, of a collective; K, M and G are powers of 1024
    #[arg(short = 'b', long, default_value = "8K", value_parser = Bytes::parse_flag, value_name = "SIZE")]
    min_bytes: Bytes,
    /// The largest size
    #[arg(short = 'e', long, default_value = "1G", value_parser = Bytes::parse_flag, value_name = "SIZE")]
    max_bytes: Bytes,
    /// Each size is so many times the one before
    #[arg(short = 'f', long, value_name = "FACTOR", default_value_t = 4)]
    step_factor: u64,
    /// This size only; may be repeated
    #[arg(short, long, value_parser = Bytes::parse_flag)]
    size: Vec<Bytes>,
    #[command(flatten)]
    collective: CollectiveArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// Puts a value into the scenario, as `run` does; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// The variant that the others are compared with [default: the first]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// The seed of every random choice [default: 0, or the scenario's own]
    #[arg(long)]
    seed: Option<u64>,
    /// From one sample to the next of `dcgmi dmon` and `nvidia-smi dmon` (their -d) [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = super::run::sample)]
    sample: Option<Time>,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Prints one JSON document
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Prints the points as CSV
    #[arg(long)]
    csv: bool,
    /// Also writes a page (.html), the document (.json), the points (.csv) or a folder of results; of
    /// series a plot (.svg) or the document
    #[arg(short, long, value_name = "FILE|DIR", value_parser = output::file_ending_in(&["html", "json", "csv", "svg"]))]
    output: Option<PathBuf>,
}

/// What a WHAT names.
enum Named {
    Run(PathBuf),
    Series(PathBuf),
    Collective(Collective),
    Scenario(PathBuf),
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let mut runs = Vec::new();
    let mut collectives = Vec::new();
    let mut scenarios = Vec::new();
    let mut series = Vec::new();
    for what in &args.what {
        match named(what)? {
            Named::Series(path) => series.push(path),
            Named::Run(folder) => runs.push((what.clone(), folder)),
            Named::Collective(collective) => collectives.push(collective),
            Named::Scenario(path) => scenarios.push(path),
        }
    }
    if let Some(measured) = series.first() {
        return match (
            runs.as_slice(),
            series.len() + scenarios.len() + collectives.len(),
        ) {
            ([(_, run)], 1) => series_beside(args, quiet, run, measured),
            _ => Err(CliError::Usage(format!(
                "{}: expected the folder of one run beside one file of series, as in `compare RUN {}`",
                args.what.join(", "),
                measured.display()
            ))),
        };
    }
    match (
        runs.as_slice(),
        collectives.as_slice(),
        scenarios.as_slice(),
    ) {
        ([], [], []) => cards(args),
        ([_, _, ..], [], []) => finish(args, quiet, of_folders(&runs)?),
        ([], [collective], []) => {
            let scenario = args.scenario_of(*collective)?;
            of_experiment(args, quiet, scenario, Path::new(""))
        }
        ([], [], [path]) => {
            let mut overrides = args.set.clone();
            if let Some(seed) = args.seed {
                overrides.push(format!("seed={seed}"));
            }
            let (scenario, folder) = catalogue::find(path, &overrides)?;
            of_experiment(args, quiet, scenario, &folder)
        }
        ([(name, _)], [], []) => Err(CliError::Usage(format!(
            "{name} is one earlier run: expected another folder to compare it with"
        ))),
        _ => Err(CliError::Usage(format!(
            "{}: expected folders of earlier runs, or one collective, or one scenario",
            args.what.join(", ")
        ))),
    }
}

/// Reads a WHAT; an error where it is two things.
fn named(what: &str) -> Result<Named, CliError> {
    let path = Path::new(what);
    let collective = spelling::find(&Collective::ALL, Collective::name, what);
    if path.join("summary.json").is_file() {
        return match collective {
            None => Ok(Named::Run(path.to_owned())),
            Some(collective) => Err(CliError::Usage(format!(
                "{what} is the folder of an earlier run, and the collective {collective}: write \
                 ./{what} for the folder, or move it"
            ))),
        };
    }
    match collective {
        Some(collective) if path.exists() => Err(CliError::Usage(format!(
            "{what} is the collective {collective}, and a file: write ./{what} for the file, or \
             move it"
        ))),
        Some(collective) => Ok(Named::Collective(collective)),
        None if is_series(path) => Ok(Named::Series(path.to_owned())),
        None => Ok(Named::Scenario(path.to_owned())),
    }
}

/// Whether a path is a file of series of monitoring: not JSON, which a scenario is, unless Prometheus answered it.
fn is_series(path: &Path) -> bool {
    let Some(ending) = output::ending(path) else {
        return false;
    };
    match ending.as_str() {
        "csv" | "txt" | "log" | "out" => path.is_file(),
        "json" => is_prometheus_answer(path),
        _ => false,
    }
}

/// A run's series beside a measured one.
fn series_beside(args: &Args, quiet: bool, run: &Path, measured: &Path) -> Result<(), CliError> {
    let own = run.join("telemetry.csv");
    if !own.is_file() {
        return Err(CliError::Usage(format!(
            "{} has no telemetry.csv: expected the folder of `fabricsim run … --outputs telemetry`",
            run.display()
        )));
    }
    let each = args
        .sample
        .unwrap_or(Time::from_micros(1_000_000))
        .seconds();
    let simulated = read_series(&own, each)?;
    let other = read_series(measured, each)?;
    let files = [own.display().to_string(), measured.display().to_string()];
    let beside = Beside::new((&files[0], &simulated), (&files[1], &other))?;
    if let Some(path) = &args.output {
        match output::ending(path).as_deref() {
            Some("svg") => write_file(path, beside.svg().as_bytes())?,
            Some("json") => write_file(path, beside.json()?.as_bytes())?,
            _ => {
                return Err(CliError::Usage(format!(
                    "-o {}: series are written as .svg or .json",
                    path.display()
                )));
            }
        }
    }
    if args.json {
        return Ok(terminal::print(&beside.json()?)?);
    }
    if quiet {
        return Ok(());
    }
    Ok(terminal::print(&beside.text())?)
}

impl Args {
    fn machines(&self) -> Vec<TopologyRef> {
        self.topology.iter().map(|text| machine(text)).collect()
    }

    /// A collective's scenario on the first machine.
    fn scenario_of(&self, collective: Collective) -> Result<Scenario, CliError> {
        let Some(first) = self.topology.first() else {
            return Err(CliError::Usage(format!(
                "compare {collective}: expected machines, such as -t dgx-h100 -t gb200-nvl72"
            )));
        };
        let sizes = match self.size.as_slice() {
            [] => SizesSpec {
                from: Some(self.min_bytes),
                to: Some(self.max_bytes),
                factor: Some(self.step_factor),
                ..SizesSpec::default()
            },
            list => SizesSpec {
                list: Some(list.to_vec()),
                ..SizesSpec::default()
            },
        };
        let job = self.collective.job(collective, sizes)?;
        let seed = self.seed.unwrap_or(0);
        let mut scenario = self.collective.scenario(machine(first), job, seed)?;
        if let Some(nodes) = self.nodes {
            scenario = scenario.with("nodes", nodes.into())?;
        }
        if let Some(gpus) = self.gpus_per_node {
            scenario = scenario.with("gpus_per_node", gpus.into())?;
        }
        Ok(scenario)
    }
}

/// The machines themselves.
fn cards(args: &Args) -> Result<(), CliError> {
    if args.topology.is_empty() {
        return Err(CliError::Usage(
            "expected machines, such as -t dgx-h100 -t gb200-nvl72, and what to run on them, such \
             as all-reduce"
                .into(),
        ));
    }
    let card = |text: &String| -> Result<Card, CliError> {
        let topology = machine_of(&machine(text), Path::new(""), "compare")?;
        Ok(card(&topology))
    };
    let cards: Vec<Card> = args.topology.iter().map(card).collect::<Result<_, _>>()?;
    let json = cards_json(&cards)?;
    if let Some(path) = &args.output {
        match output::ending(path).as_deref() {
            Some("json") => write_file(path, json.as_bytes())?,
            _ => {
                return Err(CliError::Usage(format!(
                    "-o {}: cards are written as .json",
                    path.display()
                )));
            }
        }
    }
    let text = match args.json {
        true => json,
        false => cards_text(&cards, terminal::colour()),
    };
    Ok(terminal::print(&text)?)
}

/// Earlier runs.
fn of_folders(folders: &[(String, PathBuf)]) -> Result<Results, CliError> {
    let mut runs: Vec<(String, Summary)> = Vec::new();
    for (name, folder) in folders {
        let short = folder.file_name().and_then(|name| name.to_str());
        let taken = |short: &&str| !runs.iter().any(|(known, _)| known == short);
        let short = short.filter(taken).unwrap_or(name);
        runs.push((
            short.to_owned(),
            read_summary(&folder.join("summary.json"))?,
        ));
    }
    Ok(Results {
        summary: of_runs(runs)?,
        records: Vec::new(),
    })
}

/// A scenario on another machine.
fn on_machine(scenario: Scenario, machine: &TopologyRef) -> Result<Scenario, CliError> {
    let value = serde_json::to_value(machine)
        .map_err(|error| CliError::Usage(format!("cannot write the machine as JSON: {error}")))?;
    Ok(scenario.with("topology", value)?)
}

/// A job on the machines, or a scenario with its variants.
fn of_experiment(
    args: &Args,
    quiet: bool,
    scenario: Scenario,
    folder: &Path,
) -> Result<(), CliError> {
    let scenario = args.what_if.apply_beside(scenario)?;
    let machines = args.machines();
    let mut scenario = match (machines.as_slice(), args.gpus) {
        ([_, _, ..], _) if args.what_if.falls_back() => {
            return Err(CliError::Usage(
                "--fallback: expected one machine (-t); the same without the fall-back is the other".into(),
            ));
        }
        ([machine], gpus) if args.what_if.falls_back() => {
            with_gpus(on_machine(scenario, machine)?, gpus, folder)?
        }
        ([], None) => scenario,
        ([], Some(gpus)) => {
            let own = [scenario.spec.topology.clone()];
            match scenario.spec.variants.is_empty() {
                true => on_machines(&scenario, &own, Some(gpus), folder)?,
                false => {
                    return Err(CliError::Usage(format!(
                        "--gpus {gpus}: expected machines (-t), or a scenario without variants"
                    )));
                }
            }
        }
        (machines, gpus) => on_machines(&scenario, machines, gpus, folder)?,
    };
    if let Some(name) = &args.baseline {
        scenario = scenario.with("baseline", name.as_str().into())?;
    }
    let experiment = validate(scenario, folder)?;
    if experiment.variants.len() < 2 {
        return Err(CliError::Usage(format!(
            "there is only {} to compare: expected two machines (-t) or a scenario with variants",
            experiment
                .variants
                .first()
                .map_or("nothing", |v| v.name.as_str())
        )));
    }
    if !quiet {
        terminal::notes(&experiment.notes());
    }
    let outputs = match &args.output {
        Some(path) if output::ending(path).is_none_or(|ending| ending == "html") => {
            Outputs::default()
        }
        _ => Outputs::of([]),
    };
    let budget = args.budget.budget(args.collective.exact_full);
    let mut show = Show::new(false, quiet, true);
    let mut results = run_experiment(&experiment, &budget, &outputs, &mut show)?;
    find_better_choices(&experiment, &mut results.summary, &budget)?;
    show.finish();
    if !quiet {
        say_wall(results.summary.wall_ms());
    }
    finish(args, quiet, results)
}

/// Prints and writes a comparison.
fn finish(args: &Args, quiet: bool, mut results: Results) -> Result<(), CliError> {
    let known_error = fabricsim_calibration::known_error(&mut results.summary);
    let summary = &results.summary;
    let json = || comparison_json(summary, known_error.clone());
    if let Some(path) = &args.output {
        match output::ending(path).as_deref() {
            Some("html") => write_file(path, page_of(summary, &results)?.as_bytes())?,
            Some("json") => write_file(path, json()?.as_bytes())?,
            Some("csv") => write_file(path, points_csv(summary)?.as_bytes())?,
            Some("svg") => {
                return Err(CliError::Usage(format!(
                    "-o {}: only series are written as .svg; expected .html, .json, .csv or a folder",
                    path.display()
                )));
            }
            _ => {
                check_target(path)?;
                write_results(path, &results, &Outputs::default())?;
            }
        }
    }
    if args.json {
        return Ok(terminal::print(&json()?)?);
    }
    if args.csv {
        return Ok(terminal::print(&points_csv(summary)?)?);
    }
    if quiet {
        return Ok(());
    }
    let text = variants_text(summary, terminal::width(), terminal::colour());
    terminal::print(&text)?;
    if let Some(path) = &args.output {
        terminal::print(&format!("\nWritten to {}\n", path.display()))?;
    }
    Ok(())
}
