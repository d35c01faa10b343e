//! What a comparison is of, by the names that are given, and which flags go with it.

use super::Args;
use crate::cli::{CliError, output, spelling};
use fabricsim_collective::Collective;
use fabricsim_experiment::catalogue;
use fabricsim_report::telemetry::is_prometheus_answer;
use fabricsim_topology::error::{candidates, nearest};
use fabricsim_topology::load;
use fabricsim_workload::model::presets;
use std::path::{Path, PathBuf};

/// What is asked for.
pub(super) enum Asked {
    /// Machines by themselves.
    Cards,
    /// A run's series and measured ones.
    Series {
        /// The folder of the run.
        run: PathBuf,
        /// The file.
        measured: PathBuf,
    },
    /// Earlier runs, as they are named, with their folders.
    Runs(Vec<(String, PathBuf)>),
    /// A collective on machines.
    Collective(Collective),
    /// Scenarios, by paths or shipped names.
    Scenarios(Vec<PathBuf>),
    /// A model on machines.
    Model(String),
}

impl Asked {
    /// For people.
    const fn name(&self) -> &'static str {
        match self {
            Asked::Cards => "machines by themselves",
            Asked::Series { .. } => "series of monitoring",
            Asked::Runs(_) => "earlier runs",
            Asked::Collective(_) => "a collective",
            Asked::Scenarios(_) => "scenarios",
            Asked::Model(_) => "a model",
        }
    }
}

/// What a WHAT names.
enum Named {
    Run(PathBuf),
    Series(PathBuf),
    Collective(Collective),
    Scenario(PathBuf),
    Model,
}

/// What all of them together ask for.
///
/// # Errors
/// A name that is two things; things that cannot be compared with each other.
pub(super) fn asked(all: &[String]) -> Result<Asked, CliError> {
    let mut runs = Vec::new();
    let mut collectives = Vec::new();
    let mut scenarios = Vec::new();
    let mut series = Vec::new();
    for what in all {
        match named(what)? {
            Named::Series(path) => series.push(path),
            Named::Run(folder) => runs.push((what.clone(), folder)),
            Named::Collective(collective) => collectives.push(collective),
            Named::Scenario(path) => scenarios.push(path),
            Named::Model if all.len() == 1 => return Ok(Asked::Model(what.clone())),
            Named::Model => {
                return Err(CliError::Usage(format!(
                    "{what} is a model: expected it alone, on machines (-t); found {}",
                    all.join(", ")
                )));
            }
        }
    }
    let all = || all.join(", ");
    if let Some(measured) = series.first() {
        let others = series.len() + scenarios.len() + collectives.len();
        return match (runs.as_slice(), others) {
            ([(_, run)], 1) => Ok(Asked::Series {
                run: run.clone(),
                measured: measured.clone(),
            }),
            _ => Err(CliError::Usage(format!(
                "{}: expected the folder of one run beside one file of series, as in `compare RUN {}`",
                all(),
                measured.display()
            ))),
        };
    }
    match (runs.as_slice(), collectives.as_slice(), scenarios.len()) {
        ([], [], 0) => Ok(Asked::Cards),
        ([(name, _)], [], 0) => Err(CliError::Usage(format!(
            "{name} is one earlier run: expected another folder to compare it with"
        ))),
        (_, [], 0) => Ok(Asked::Runs(runs)),
        ([], [collective], 0) => Ok(Asked::Collective(*collective)),
        ([], [], _) => Ok(Asked::Scenarios(scenarios)),
        _ => Err(CliError::Usage(format!(
            "{}: expected folders of earlier runs, or one collective, or scenarios",
            all()
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
        None => scenario_or_model(what),
    }
}

/// A scenario's file or name; what is neither may be a model.
fn scenario_or_model(what: &str) -> Result<Named, CliError> {
    let path = Path::new(what);
    let shipped = catalogue::names().any(|name| name == what);
    let written = what.contains(['/', '\\']) || what.ends_with(".json");
    let model = presets::find(what).is_ok();
    match (model, shipped || path.exists() || written) {
        (true, false) => Ok(Named::Model),
        (true, true) if !written => {
            let other = if shipped {
                "the name of a scenario"
            } else {
                "a file"
            };
            Err(CliError::Usage(format!(
                "{what} is {other}, and a model: write ./{what} for the file, or move it"
            )))
        }
        (false, false) => {
            let names = || catalogue::names().chain(presets::names());
            let near = nearest(what, names());
            let near = near.or_else(|| candidates(what, names()).into_iter().next());
            let near = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            Err(CliError::Usage(format!(
                "there is no earlier run, collective, file, scenario or model `{what}`{near}"
            )))
        }
        _ => Ok(Named::Scenario(path.to_owned())),
    }
}

/// Whether a path is a file of series of monitoring: not JSON, which a scenario is, unless Prometheus answered it.
fn is_series(path: &Path) -> bool {
    let Some(ending) = output::ending(path) else {
        return false;
    };
    match ending.as_str() {
        "csv" | "txt" | "log" | "out" => path.is_file(),
        "json" => load::read_text(path).is_ok_and(|text| is_prometheus_answer(&text)),
        _ => false,
    }
}

/// A flag that is only for some of what can be asked for.
struct Flag {
    name: &'static str,
    /// It is given.
    given: bool,
    /// It goes with what is asked for.
    fits: bool,
    /// What it goes with.
    with: &'static str,
}

/// Refuses flags that what is asked for does not have: nothing is left out in silence.
///
/// # Errors
/// Such a flag, with what it goes with.
pub(super) fn refuse_misplaced(args: &Args, asked: &Asked) -> Result<(), CliError> {
    let wrong = flags(args, asked)
        .into_iter()
        .find(|flag| flag.given && !flag.fits);
    match wrong {
        None => Ok(()),
        Some(flag) => Err(CliError::Usage(format!(
            "{}: found with {}, expected with {}",
            flag.name,
            asked.name(),
            flag.with
        ))),
    }
}

fn flags(args: &Args, asked: &Asked) -> Vec<Flag> {
    let collective = matches!(asked, Asked::Collective(_));
    let one = matches!(asked, Asked::Scenarios(paths) if paths.len() == 1);
    let scenario = matches!(asked, Asked::Scenarios(_));
    let cards = matches!(asked, Asked::Cards);
    let runs = matches!(asked, Asked::Runs(_));
    let model = matches!(asked, Asked::Model(_));
    let simulated = collective || scenario || model;
    let sizes = !args.size.is_empty()
        || args.min_bytes.is_some()
        || args.max_bytes.is_some()
        || args.step_factor.is_some();
    let trained = args.global_batch.is_some() || args.sequence.is_some();
    let flag = |name, given, fits, with| Flag {
        name,
        given,
        fits,
        with,
    };
    let on_machines = "machines by themselves, a collective, one scenario or a model";
    let jobs = "a collective, scenarios or a model";
    let mut flags = vec![
        flag(
            "-t",
            !args.topology.is_empty(),
            cards || collective || one || model,
            on_machines,
        ),
        flag(
            "--gpus",
            args.gpus.is_some(),
            cards || simulated,
            on_machines,
        ),
        flag(
            "-n",
            args.nodes.is_some(),
            cards || collective || scenario,
            "machines by themselves, a collective or scenarios; of a model --gpus",
        ),
        flag(
            "-g",
            args.gpus_per_node.is_some(),
            collective || scenario,
            "a collective or scenarios; of a model --gpus",
        ),
        flag(
            "-s, -b, -e and -f",
            sizes,
            collective,
            "a collective; of a scenario --set job.collective.sizes.list",
        ),
        flag("--set", !args.set.is_empty(), simulated, jobs),
        flag("--seed", args.seed.is_some(), simulated, jobs),
        flag("--price", args.price.is_said(), simulated, jobs),
        flag("a what-if", args.what_if.is_said(), simulated, jobs),
        flag(
            "--fallback",
            args.what_if.falls_back(),
            collective || one,
            "a collective or one scenario",
        ),
        flag(
            "--baseline",
            args.baseline.is_some(),
            simulated || runs,
            "what is simulated, or earlier runs",
        ),
        flag(
            "--rate, --concurrency, --global-batch and --sequence",
            trained || args.load.is_said(),
            model,
            "a model",
        ),
        flag(
            "--csv",
            args.csv,
            simulated || runs,
            "what is simulated, or earlier runs",
        ),
    ];
    let of_collective = args.collective.said();
    flags.extend(
        of_collective.map(|name| flag(name, true, collective, "a collective; of a scenario --set")),
    );
    flags
}
