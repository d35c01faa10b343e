//! `fabricsim collective`: what nccl-tests would print on a machine.

use super::budget::BudgetArgs;
use super::examples::{Examples, examples};
use super::progress::Show;
use super::terminal::say_wall;
use super::what_if::{WhatIfArgs, with_gpus};
use super::{CliError, one_of, output, terminal};
use crate::Experiment;
use fabricsim_collective::Collective;
use fabricsim_experiment::{
    CollectiveSpec, EnvValue, FaultSpec, JobSpec, Scenario, ScenarioError, ScenarioSpec, SizesSpec,
    TopologyRef,
};
use fabricsim_nccl::{Algorithm, NcclError, Registration};
use fabricsim_plan::ProtocolKind;
use fabricsim_report::{
    Outputs, Results, check_target, decision_tables, rows_csv, rows_json, table_footer,
    table_left_out, write_results,
};
use fabricsim_topology::{TopologyError, load};
use fabricsim_units::Bytes;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    (
        "How long does an all-reduce take at each size, and which algorithm does NCCL choose?",
        "fabricsim collective all-reduce -t dgx-h100",
    ),
    (
        "Why that one, at 64 MiB on two nodes?",
        "fabricsim collective all-reduce -t dgx-h100 -n 2 -s 64M --why",
    ),
    (
        "What does a dead NIC cost?",
        "fabricsim collective all-reduce -t dgx-h100 -n 4 -s 64M --kill node1/nic0",
    ),
];

/// Times one collective at several sizes, as nccl-tests does.
///
/// Prints nccl-tests' columns, then NCCL's choice of algorithm, protocol and channels, the
/// time that no algorithm can beat on this machine (what must cross its narrowest cut, with
/// sums in switches where they can), and what limits each size. NCCL's own choice is the
/// default; `--algo`, `--proto` and `--env` overrule it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// Which one
    ///
    /// Of sends and receives there are three: `send-recv` is nccl-tests' ring shift, in which
    /// each rank sends to the next; in `send-recv-pairs` ranks 2i and 2i + 1 exchange, in
    /// `send-recv-halves` ranks i and i + N/2, as in OSU's multi-pair tests: between nodes
    /// where there are two of them. Their size is that of each rank's message.
    #[arg(value_parser = one_of(&Collective::ALL, Collective::name))]
    name: Collective,
    /// A shipped topology (see `topology list`) or a topology file
    #[arg(short, long, value_name = "NAME|FILE")]
    topology: String,
    /// Nodes, in place of what the topology says
    #[arg(short, long)]
    nodes: Option<u32>,
    /// GPUs of each node that take part; all of them by default
    #[arg(short, long)]
    gpus_per_node: Option<u32>,
    /// The smallest size; K, M and G are powers of 1024
    #[arg(short = 'b', long, default_value = "8", value_parser = Bytes::parse_flag, value_name = "SIZE")]
    min_bytes: Bytes,
    /// The largest size
    #[arg(short = 'e', long, default_value = "8G", value_parser = Bytes::parse_flag, value_name = "SIZE")]
    max_bytes: Bytes,
    /// Each size is so many times the one before [default: 2]
    #[arg(short = 'f', long, value_name = "FACTOR")]
    step_factor: Option<u64>,
    /// Each size is so much larger than the one before, in place of a factor
    #[arg(short = 'i', long, value_parser = Bytes::parse_flag, value_name = "SIZE", conflicts_with = "step_factor")]
    step_bytes: Option<Bytes>,
    /// This size only; may be repeated
    #[arg(short, long, value_parser = Bytes::parse_flag, conflicts_with_all = ["min_bytes", "max_bytes", "step_factor", "step_bytes"])]
    size: Vec<Bytes>,
    #[command(flatten)]
    job: CollectiveArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// GPUs that take part: whole nodes, or some of one
    #[arg(long, conflicts_with_all = ["nodes", "gpus_per_node"])]
    gpus: Option<u32>,
    /// Also prints NCCL's decision table: what it expects of each algorithm and protocol, and
    /// why some are excluded
    #[arg(long)]
    why: bool,
    /// The seed of every random choice
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Prints one JSON document
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Prints the rows as CSV
    #[arg(long)]
    csv: bool,
    /// Also writes a folder of results, as `run` does, with the largest size recorded
    #[arg(short, long, value_name = "DIR", value_parser = output::folder())]
    output: Option<PathBuf>,
}

/// How a collective is done: what is forced, set and assumed.
#[derive(Debug, clap::Args)]
pub(super) struct CollectiveArgs {
    /// Forces the algorithm in place of NCCL's choice
    #[arg(long, value_parser = one_of(&Algorithm::ALL, Algorithm::name))]
    algo: Option<Algorithm>,
    /// Takes the algorithm from a file, as MSCCL writes them
    #[arg(long, value_name = "FILE.xml", conflicts_with = "algo")]
    algo_file: Option<String>,
    /// Of an all-to-all-v: a JSON file with a row of numbers for each rank, how much it sends to
    /// each other one, in any unit
    #[arg(long, value_name = "FILE.json")]
    matrix: Option<PathBuf>,
    /// Forces the protocol
    #[arg(long, value_parser = one_of(&ProtocolKind::ALL, ProtocolKind::name))]
    proto: Option<ProtocolKind>,
    /// Users' buffers are registered, so that nothing is copied where NCCL can do without: with
    /// ncclCommRegister (nccl-tests' -R 1), `=graph` as those of a captured graph, `=symmetric` as
    /// symmetric windows (-R 2), on which NCCL has kernels of its own
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = Registration::Local.name(),
        value_parser = one_of(&Registration::ALL, Registration::name)
    )]
    registered: Option<Registration>,
    /// Ranks whose buffers are not registered although the others' are
    #[arg(
        long,
        value_name = "RANK,…",
        value_delimiter = ',',
        requires = "registered"
    )]
    unregistered: Vec<u32>,
    /// Operations are nodes of one captured CUDA graph (nccl-tests' -G): no process starts their
    /// kernels one by one
    #[arg(long)]
    cuda_graph: bool,
    /// Sets an environment variable of NCCL; may be repeated
    #[arg(long, value_name = "NCCL_X=VALUE")]
    env: Vec<String>,
    /// The release of NCCL whose rules are followed [default: 2.30.7]
    #[arg(long, value_name = "VERSION")]
    nccl_version: Option<String>,
    /// GPUs that one process drives (nccl-tests' -g): it starts their kernels one after the
    /// other [default: 1]
    #[arg(long, value_name = "COUNT")]
    ranks_per_process: Option<u32>,
    /// What goes wrong: a JSON file with a list of faults, as a scenario's `faults`
    #[arg(long, value_name = "FILE.json")]
    faults: Option<PathBuf>,
    /// Times one cold operation, in place of one among many back to back
    #[arg(long)]
    isolated: bool,
    /// Simulates every worker, also where one could stand for all that are alike: the same
    /// results, later; of a large machine all is recorded
    #[arg(long)]
    pub(super) exact_full: bool,
}

/// Where the scenario comes from, in messages.
const COMMAND_LINE: &str = "command line";

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let scenario = scenario(args)?;
    let mut experiment =
        Experiment::check(scenario, Path::new("")).map_err(|error| in_flags(error, args))?;
    experiment.budget = args.budget.budget(args.job.exact_full);
    let outputs = match &args.output {
        Some(target) => {
            check_target(target)?;
            Outputs::default()
        }
        // Nothing shows what would be recorded.
        None => Outputs::of([]),
    };
    let notes = experiment.checked.notes();
    if !quiet {
        terminal::notes(&notes);
    }
    let document = args.json || args.csv;
    let (rows, budget) = (!document && !quiet, &experiment.budget);
    let mut show = Show::new(rows, quiet, args.output.is_some(), budget);
    let mut results = experiment.run_for(&outputs, &mut show)?;
    show.finish();
    if let Some(target) = &args.output {
        write_results(target, &results, &outputs)?;
    }
    print(args, quiet, &mut results, &notes)
}

/// The rows as a table's end or as a document, and what is to be known beside them.
fn print(
    args: &Args,
    quiet: bool,
    results: &mut Results,
    notes: &[String],
) -> Result<(), CliError> {
    if args.json || args.csv {
        let Some(view) = results.summary.only_collective() else {
            return Ok(());
        };
        let text = if args.csv {
            rows_csv(view)?
        } else {
            rows_json(view)?
        };
        terminal::print(&text)?;
    }
    // What was said at the start is not said again.
    let warnings = &mut results.summary.warnings;
    warnings.retain(|warning| !notes.contains(warning));
    if quiet {
        return Ok(());
    }
    if args.json || args.csv {
        for warning in warnings {
            terminal::complain(&format!("warning: {warning}"));
        }
        if args.json {
            say_wall(results.summary.wall_ms());
        }
        return Ok(());
    }
    let Some(view) = results.summary.only_collective() else {
        return Ok(());
    };
    let colour = terminal::colour();
    let mut text = table_footer(view, colour);
    text += &table_left_out(view, terminal::width(), "--csv and --json have all", colour);
    terminal::print(&text)?;
    if args.why {
        terminal::print(&decision_tables(view, colour))?;
    }
    Ok(())
}

/// The scenario that the flags describe.
fn scenario(args: &Args) -> Result<Scenario, CliError> {
    let sizes = if args.size.is_empty() {
        SizesSpec {
            from: Some(args.min_bytes),
            to: Some(args.max_bytes),
            factor: args.step_factor,
            step: args.step_bytes,
            ..SizesSpec::default()
        }
    } else {
        SizesSpec {
            list: Some(args.size.clone()),
            ..SizesSpec::default()
        }
    };
    let mut job = args.job.job(args.name, sizes)?;
    job.why = args.why;
    let mut spec = args.job.spec(machine(&args.topology), job, args.seed)?;
    spec.nodes = args.nodes;
    spec.gpus_per_node = args.gpus_per_node;
    let scenario = scenario_of(spec)?;
    with_gpus(args.what_if.apply(scenario)?, args.gpus, Path::new(""))
}

pub(super) fn scenario_of(spec: ScenarioSpec) -> Result<Scenario, CliError> {
    Ok(Scenario::of(spec, COMMAND_LINE)?)
}

impl CollectiveArgs {
    /// The job at these sizes.
    pub(super) fn job(
        &self,
        name: Collective,
        sizes: SizesSpec,
    ) -> Result<CollectiveSpec, CliError> {
        Ok(CollectiveSpec {
            algorithm: self.algo,
            algorithm_file: self.algo_file.clone(),
            matrix: self.matrix.as_deref().map(matrix).transpose()?,
            protocol: self.proto,
            registered: self.registered,
            unregistered: self.unregistered.clone(),
            cuda_graph: self.cuda_graph,
            isolated: self.isolated,
            ..CollectiveSpec::new(name, sizes)
        })
    }

    /// The first of these flags that is given, but for how it is simulated.
    pub(super) fn said(&self) -> Option<&'static str> {
        let flags = [
            ("--algo", self.algo.is_some()),
            ("--algo-file", self.algo_file.is_some()),
            ("--matrix", self.matrix.is_some()),
            ("--proto", self.proto.is_some()),
            ("--registered", self.registered.is_some()),
            ("--cuda-graph", self.cuda_graph),
            ("--env", !self.env.is_empty()),
            ("--nccl-version", self.nccl_version.is_some()),
            ("--ranks-per-process", self.ranks_per_process.is_some()),
            ("--faults", self.faults.is_some()),
            ("--isolated", self.isolated),
        ];
        let given = flags.into_iter().find(|&(_, given)| given);
        given.map(|(flag, _)| flag)
    }

    /// The scenario of a job on a machine.
    pub(super) fn scenario(
        &self,
        topology: TopologyRef,
        job: CollectiveSpec,
        seed: u64,
    ) -> Result<Scenario, CliError> {
        scenario_of(self.spec(topology, job, seed)?)
    }

    fn spec(
        &self,
        topology: TopologyRef,
        job: CollectiveSpec,
        seed: u64,
    ) -> Result<ScenarioSpec, CliError> {
        let mut environment = BTreeMap::new();
        for text in &self.env {
            let Some((name, value)) = text.split_once('=') else {
                return Err(CliError::Usage(format!(
                    "--env {text}: expected NAME=VALUE, such as NCCL_PROTO=LL"
                )));
            };
            environment.insert(name.to_owned(), EnvValue(value.to_owned()));
        }
        let name = job.name.name().to_owned();
        Ok(ScenarioSpec {
            environment,
            nccl_version: self.nccl_version.clone(),
            ranks_per_process: self.ranks_per_process,
            seed,
            faults: self
                .faults
                .as_deref()
                .map(faults)
                .transpose()?
                .unwrap_or_default(),
            ..ScenarioSpec::new(name, topology, JobSpec::Collective(Box::new(job)))
        })
    }
}

fn matrix(path: &Path) -> Result<Vec<Vec<f64>>, CliError> {
    read_flag(
        "--matrix",
        path,
        "rows of numbers, such as [[0, 1], [2, 0]]",
    )
}

fn faults(path: &Path) -> Result<FaultSpec, CliError> {
    let expected = r#"a list, such as [{"slow_gpu": {"ranks": [3], "speed": 0.8}}]"#;
    read_flag("--faults", path, expected)
}

/// Reads the JSON file of a flag.
fn read_flag<T: DeserializeOwned>(flag: &str, path: &Path, expected: &str) -> Result<T, CliError> {
    let text = load::read_text(path)?;
    let origin = format!("{flag} {}", path.display());
    load::from_json(&text, &origin).map_err(|error| match error {
        TopologyError::Json { .. } => CliError::Usage(format!("{error}\n    expected: {expected}")),
        other => other.into(),
    })
}

/// A machine by its shipped name or its file.
pub(super) fn machine(text: &str) -> TopologyRef {
    TopologyRef::from(text)
}

/// What is wrong with the scenario, said of the flags and files that it was made from.
fn in_flags(mut error: ScenarioError, args: &Args) -> CliError {
    let flags = [
        ("job.collective.sizes.from", "-b"),
        ("job.collective.sizes.to", "-e"),
        ("job.collective.sizes.factor", "-f"),
        ("job.collective.sizes.step", "-i"),
        ("job.collective.sizes.list", "--size"),
        ("job.collective.sizes", "sizes"),
        ("nccl_version", "--nccl-version"),
        ("job.collective.unregistered", "--unregistered"),
        ("ranks_per_process", "--ranks-per-process"),
        ("gpus_per_node", "-g"),
        ("mtu", "--mtu"),
        ("topology.name", "--topology"),
    ];
    let files = [
        ("faults", "--faults", &args.job.faults),
        ("job.collective.matrix", "--matrix", &args.job.matrix),
    ];
    let in_file = |place: &str| {
        files.iter().find_map(|(path, flag, file)| {
            let rest = place.strip_prefix(path)?;
            let file = file.as_ref()?.display();
            let at = if rest.is_empty() { "" } else { ", at " };
            Some(format!("{flag} {file}{at}{rest}"))
        })
    };
    if let ScenarioError::Input(TopologyError::Faults { origin, faults }) = &mut error
        && origin == COMMAND_LINE
    {
        for fault in faults {
            if let Some((_, flag)) = flags.iter().find(|(path, _)| fault.path.starts_with(path)) {
                fault.path = (*flag).to_owned();
            } else if let Some(place) = in_file(&fault.path) {
                fault.path = place;
            }
            fault.expected = fault.expected.replace("`from`", "`-b`");
        }
    }
    if let ScenarioError::Nccl(NcclError::Env { name, .. }) = &mut error
        && let Some(variable) = name.strip_prefix(&format!("{COMMAND_LINE}, at environment."))
    {
        *name = variable.to_owned();
    }
    if let ScenarioError::Input(TopologyError::UnknownName { place, .. }) = &mut error {
        "--topology".clone_into(place);
    }
    error.into()
}
