//! `fabricsim compare`: one job on several machines, earlier runs, variants, or machines alone.

mod model;
mod scenarios;
mod series;
mod what;

use super::budget::BudgetArgs;
use super::collective::{CollectiveArgs, machine};
use super::examples::{Examples, examples};
use super::load::LoadArgs;
use super::price::PriceArgs;
use super::what_if::WhatIfArgs;
use super::{CliError, output, terminal};
use fabricsim_collective::Collective;
use fabricsim_experiment::compare::{card, machine_with};
use fabricsim_experiment::earlier::of_runs;
use fabricsim_experiment::{Scenario, SizesSpec, parse};
use fabricsim_report::cards::{Card, cards_json, cards_text};
use fabricsim_report::comparison::{comparison_json, variants_text};
use fabricsim_report::{
    Outputs, Results, Summary, check_target, page_of, points_csv, read_summary, write_file,
    write_results,
};
use fabricsim_units::{Bytes, Time};
use std::path::{Path, PathBuf};
use what::Asked;

const EXAMPLES: Examples = [
    (
        "What do two machines hold and cost, side by side?",
        "fabricsim compare -t dgx-h100 -t gb200-nvl72",
    ),
    (
        "On which is an all-reduce over 8 GPUs faster?",
        "fabricsim compare all-reduce -t dgx-h100 -t dgx-a100 --gpus 8 -s 1M -s 64M",
    ),
    (
        "What is different between two runs of my own?",
        "fabricsim run ddp-straggler -o one -q\n\
         fabricsim run ddp-straggler --slow-gpu 3:0.5 -o two -q\n\
         fabricsim compare one two",
    ),
];

/// Sets a job on several machines, variants of a scenario, or earlier runs beside each other.
///
/// Each WHAT is, in this order: a folder of an earlier run, a collective, a scenario's file, the
/// name of a shipped scenario. A collective or a scenario runs on every machine of `-t`; a scenario
/// alone is run with its own variants, several of one variant each are set beside each other. A
/// model, which is read last, is trained (--global-batch) or served (--rate, --concurrency) on so
/// many --gpus of each machine: the best layout of each is searched, to serve on the fewest GPUs,
/// and these are compared. The folder of a run with `--outputs telemetry` and a file of measured
/// series (telemetry.csv, a range query of Prometheus as CSV or JSON; in unverified forms the output
/// of `dcgmi dmon` or `nvidia-smi`, and what Grafana saves) are set beside each other. Without any
/// WHAT the machines themselves are compared.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// Earlier runs, a collective or a scenario
    what: Vec<String>,
    /// A shipped topology or a topology file; once for each machine
    #[arg(short, long, value_name = "NAME|FILE")]
    topology: Vec<String>,
    /// GPUs that take part on each machine: whole nodes, or some of one
    #[arg(long, conflicts_with = "gpus_per_node")]
    gpus: Option<u32>,
    /// GPUs of each node that take part [default: the scenario's, else all]
    #[arg(short, long)]
    gpus_per_node: Option<u32>,
    /// Nodes of each machine [default: the scenario's, else the machine's]
    #[arg(short, long, conflicts_with = "gpus")]
    nodes: Option<u32>,
    /// The smallest size, of a collective; K, M and G are powers of 1024 [default: 8K]
    #[arg(short = 'b', long, value_parser = Bytes::parse_flag, value_name = "SIZE")]
    min_bytes: Option<Bytes>,
    /// The largest size [default: 1G]
    #[arg(short = 'e', long, value_parser = Bytes::parse_flag, value_name = "SIZE")]
    max_bytes: Option<Bytes>,
    /// Each size is so many times the one before [default: 4]
    #[arg(short = 'f', long, value_name = "FACTOR")]
    step_factor: Option<u64>,
    /// This size only; may be repeated
    #[arg(short, long, value_parser = Bytes::parse_flag)]
    size: Vec<Bytes>,
    #[command(flatten)]
    collective: CollectiveArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    #[command(flatten)]
    price: PriceArgs,
    /// Of a model that is trained: sequences of a step, all GPUs together
    #[arg(long, value_name = "SEQUENCES")]
    global_batch: Option<u32>,
    /// Of a model that is trained: tokens of a sequence
    #[arg(long, value_name = "TOKENS")]
    sequence: Option<u64>,
    #[command(flatten)]
    load: LoadArgs,
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

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let asked = what::asked(&args.what)?;
    what::refuse_misplaced(args, &asked)?;
    match asked {
        Asked::Cards => cards(args),
        Asked::Series { run, measured } => series::beside(args, quiet, &run, &measured),
        Asked::Runs(runs) => {
            let found = of_folders(&runs, args.baseline.as_deref())?;
            finish(args, quiet, found)
        }
        Asked::Collective(collective) => {
            let scenario = args.scenario_of(collective)?;
            scenarios::one(args, quiet, scenario, Path::new(""))
        }
        Asked::Model(model) => model::run(args, quiet, &model),
        Asked::Scenarios(paths) => match paths.as_slice() {
            [path] => {
                let (scenario, folder) = args.read(path)?;
                scenarios::one(args, quiet, scenario, &folder)
            }
            paths => scenarios::several(args, quiet, paths),
        },
    }
}

impl Args {
    /// A collective's scenario on the first machine.
    fn scenario_of(&self, collective: Collective) -> Result<Scenario, CliError> {
        let Some(first) = self.topology.first() else {
            return Err(CliError::Usage(format!(
                "compare {collective}: expected machines, such as -t dgx-h100 -t gb200-nvl72"
            )));
        };
        let sizes = match self.size.as_slice() {
            [] => SizesSpec {
                from: Some(self.min_bytes.unwrap_or(Bytes::new(8 << 10))),
                to: Some(self.max_bytes.unwrap_or(Bytes::new(1 << 30))),
                factor: Some(self.step_factor.unwrap_or(4)),
                ..SizesSpec::default()
            },
            list => SizesSpec {
                list: Some(list.to_vec()),
                ..SizesSpec::default()
            },
        };
        let job = self.collective.job(collective, sizes)?;
        let seed = self.seed.unwrap_or(0);
        let scenario = self.collective.scenario(machine(first), job, seed)?;
        match self.set.as_slice() {
            [] => Ok(scenario),
            set => Ok(parse(&scenario.json.to_string(), &scenario.origin, set)?),
        }
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
        let topology = machine_with(&machine(text), (args.nodes, args.gpus), "compare")?;
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
fn of_folders(folders: &[(String, PathBuf)], baseline: Option<&str>) -> Result<Results, CliError> {
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
        summary: of_runs(runs, baseline)?,
        records: Vec::new(),
    })
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
