//! `fabricsim communicator`: what making communicators takes, by parts, with their first operations.

use super::answered::{Wanted, answered};
use super::budget::BudgetArgs;
use super::collective::{machine, scenario_of};
use super::examples::{Examples, examples};
use super::spelling::find;
use super::what_if::with_gpus;
use super::{CliError, one_of, output};
use fabricsim_collective::Collective;
use fabricsim_experiment::{
    CommunicatorSpec, EnvValue, FirstSpec, JobSpec, Modules, ScenarioSpec, StoreSpec,
};
use fabricsim_units::{Bytes, Time};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    (
        "How long does ncclCommInitRank take on 1,024 GPUs?",
        "fabricsim communicator -t dgx-h100 -n 128",
    ),
    (
        "And the groups of a job with tensor and pipeline parallelism?",
        "fabricsim communicator -t dgx-h100 -n 4 --groups world,tp8,pp4,dp",
    ),
    (
        "What does splitting them off the first one save?",
        "fabricsim communicator -t dgx-h100 -n 4 --groups world,tp8,dp --split",
    ),
];

/// Tells what making a job's communicators takes, and their first operations.
///
/// Prints the parts: loading kernels, waiting for the last rank, asking the root, all-gathers round the
/// ring over TCP, finding out the topology, searching channels, connecting; and what a node needs of
/// sockets, ports and open files. Ports that run out are an error that names the range that would do.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// A shipped topology (see `topology list`) or a topology file
    #[arg(short, long, value_name = "NAME|FILE")]
    topology: String,
    /// Nodes, in place of what the topology says
    #[arg(short, long)]
    nodes: Option<u32>,
    /// GPUs of each node that take part; all of them by default
    #[arg(short, long)]
    gpus_per_node: Option<u32>,
    /// GPUs that take part: whole nodes, or some of one
    #[arg(long, conflicts_with_all = ["nodes", "gpus_per_node"])]
    gpus: Option<u32>,
    /// The communicators that each rank is in: `world`, and names with the number of ranks of each, the last one
    /// without: `world,tp8,pp4,dp` [default: world]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    groups: Vec<String>,
    /// Roots whom ranks ask for addresses [default: one for every 128 ranks, as PyTorch has it]
    #[arg(long, value_name = "COUNT")]
    roots: Option<u32>,
    /// All but `world` are split off it (ncclCommSplit)
    #[arg(long)]
    split: bool,
    /// They are made at the same time (ncclGroupStart, ncclGroupEnd)
    #[arg(long)]
    grouped: bool,
    /// The first operation of each: its name and size; `none` for none
    #[arg(long, value_name = "NAME:SIZE", default_value = "all-reduce:64M", value_parser = first)]
    first: First,
    /// The driver has to make NCCL's kernels first
    #[arg(long)]
    cold: bool,
    /// Ranks come so much later than the earliest could, in the mean [default: 0.31s]
    #[arg(long, value_name = "TIME")]
    arrival: Option<Time>,
    /// Ports that a node hands out by itself [default: 28232]
    #[arg(long, value_name = "COUNT")]
    ports: Option<u64>,
    /// Files that a process may have open [default: 1024]
    #[arg(long, value_name = "COUNT")]
    open_files: Option<u64>,
    /// TCP sockets of a connection over a network [default: 1]
    #[arg(long, value_name = "COUNT")]
    sockets_per_connection: Option<u64>,
    /// All ranks meet in the framework's store after each group is made
    #[arg(long, value_name = "WHICH", value_parser = one_of(&StoreSpec::ALL, StoreSpec::name))]
    store: Option<StoreSpec>,
    /// Sets an environment variable of NCCL; may be repeated
    #[arg(long, value_name = "NCCL_X=VALUE")]
    env: Vec<String>,
    /// The release of NCCL whose rules are followed [default: 2.30.7]
    #[arg(long, value_name = "VERSION")]
    nccl_version: Option<String>,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Prints one JSON document
    #[arg(long)]
    json: bool,
    /// Also writes a folder of results, as `run` does
    #[arg(short, long, value_name = "DIR", value_parser = output::folder())]
    output: Option<PathBuf>,
}

/// The first operation, if there is any.
#[derive(Debug, Clone)]
struct First(Option<(Collective, Bytes)>);

fn first(text: &str) -> Result<First, String> {
    if text == "none" {
        return Ok(First(None));
    }
    let (name, size) = text
        .split_once(':')
        .ok_or("expected NAME:SIZE, such as all-reduce:64M, or `none`")?;
    let Some(collective) = find(&Collective::ALL, Collective::name, name) else {
        let names: Vec<&str> = Collective::ALL.into_iter().map(Collective::name).collect();
        return Err(format!("`{name}` is none of {}", names.join(", ")));
    };
    let size = Bytes::parse_flag(size).map_err(|error| error.to_string())?;
    Ok(First(Some((collective, size))))
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let scenario = with_gpus(scenario_of(spec(args)?)?, args.gpus, Path::new(""))?;
    answered(
        scenario,
        &Wanted {
            output: args.output.as_ref(),
            json: args.json,
            quiet,
            budget: args.budget.budget(false),
            what: "making the communicator",
        },
    )
}

/// The scenario that the flags describe.
fn spec(args: &Args) -> Result<ScenarioSpec, CliError> {
    let job = CommunicatorSpec {
        comment: None,
        groups: args.groups.clone(),
        first: args.first.0.map(|(name, size)| FirstSpec {
            comment: None,
            name,
            size,
        }),
        roots: args.roots,
        split: args.split,
        grouped: args.grouped,
        modules: args.cold.then_some(Modules::Cold),
        arrival: args.arrival,
        ports: args.ports,
        open_files: args.open_files,
        sockets_per_connection: args.sockets_per_connection,
        store: args.store,
    };
    let mut environment = BTreeMap::new();
    for text in &args.env {
        let Some((name, value)) = text.split_once('=') else {
            return Err(CliError::Usage(format!(
                "--env {text}: expected NAME=VALUE, such as NCCL_RUNTIME_CONNECT=0"
            )));
        };
        environment.insert(name.to_owned(), EnvValue(value.to_owned()));
    }
    let job = JobSpec::Communicator(Box::new(job));
    Ok(ScenarioSpec {
        environment,
        nccl_version: args.nccl_version.clone(),
        nodes: args.nodes,
        gpus_per_node: args.gpus_per_node,
        ..ScenarioSpec::new("communicator".to_owned(), machine(&args.topology), job)
    })
}
