//! `fabricsim optimize`: the best layout of a training job.

use super::budget::BudgetArgs;
use super::collective::machine;
use super::examples::{Examples, examples};
use super::load::{LoadArgs, job_of_model};
use super::long::Long;
use super::price::PriceArgs;
use super::serve_search::{self, Ways};
use super::{CliError, output, terminal};
use fabricsim_experiment::optimize::{
    Ask, Limit, Progress, ServingSizes, Size, fewest_gpus, optimize,
};
use fabricsim_experiment::sweep::{AxisSpec, parse_axis};
use fabricsim_experiment::{JobSpec, Machines, Scenario, ScenarioError, catalogue, parse};
use fabricsim_report::optimize::{
    Optimized, check_search_target, optimized_page, optimized_text, write_search,
};
use fabricsim_report::{Metrics, ReportError, write_file};
use fabricsim_topology::error::nearest;
use fabricsim_workload::model::presets;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    (
        "Which layout of GPT-2 is fastest on 8 GPUs?",
        "fabricsim optimize gpt2-124m -t dgx-h100 --gpus 8 --global-batch 64",
    ),
    (
        "On which machine, and on how many of its GPUs?",
        "fabricsim optimize gpt2-124m -t dgx-h100 -t dgx-a100 --gpus 8,16 --global-batch 64",
    ),
    (
        "What are the five best with these sizes of tensor parallelism?",
        "fabricsim optimize llama3-8b -t dgx-h100 --gpus 8 --global-batch 64 --over tp=1,2,4 --top 5",
    ),
];

/// Searches for the layout of a training job, or the engines of a serving job, that is best on a machine, and says
/// what was left out.
///
/// Tensor, pipeline, context and expert parallelism, virtual stages, micro-batches, recomputation and
/// sharding are tried in every combination. What does not divide or does not fit is left out; the rest
/// is simulated in the order of a bound on its step, until no bound is below what was found.
///
/// Tried are tensor parallelism inside an NVLink domain, context parallelism of sequences from 16,384
/// tokens on, micro-batches up to 8 sequences, and up to 8 virtual stages; a quarter, 4 and 16 times the
/// size of buckets for the fastest alone. Where nothing fits, optimizer states, and then parameters, are tried in
/// the memory of the hosts. --over tries other values.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// A training scenario, its file or the name of a shipped one; or a model, such as llama3-70b
    #[arg(value_name = "SCENARIO|MODEL")]
    job: PathBuf,
    /// A machine, in place of the scenario's; several are compared
    #[arg(short, long, value_name = "NAME|FILE")]
    topology: Vec<String>,
    /// GPUs that take part, of each machine; several are compared (`64,128,256`). With --target the most
    /// that are tried; with --budget they may be left out
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',')]
    gpus: Vec<u32>,
    /// Nodes of each machine, in place of GPUs; several are compared (`8,16,32`)
    #[arg(
        short,
        long,
        value_name = "COUNT,…",
        value_delimiter = ',',
        conflicts_with = "gpus"
    )]
    nodes: Vec<u32>,
    /// Ports down : up of leaves; several are compared (`1,2,4`)
    #[arg(long, value_name = "RATIO,…", value_delimiter = ',')]
    oversubscription: Vec<f64>,
    /// What a machine must not be above: `usd_per_hour=500` for its GPUs, `kw=200` at full load; may be
    /// repeated. Without --gpus and --nodes: the most GPUs that it pays, up to 1,024, and powers of two below
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit)]
    budget: Vec<Limit>,
    /// The fewest GPUs for a rate, in place of a number of GPUs: `tokens/s=2M`, `tokens/day=1e11`, or with
    /// --tokens `days=30`; of serving `load`: that keep up with it and meet the SLO. Parts of a node and all numbers
    /// of nodes count, up to --gpus
    #[arg(long, value_name = "RATE", value_parser = rate)]
    target: Option<Rate>,
    /// Tokens that are to be trained on, for a target of days: `15T`
    #[arg(long, value_name = "TOKENS", value_parser = many)]
    tokens: Option<f64>,
    /// Of a model: sequences of a step, all GPUs together
    #[arg(long, value_name = "SEQUENCES")]
    global_batch: Option<u32>,
    /// Of a model: tokens of a sequence
    #[arg(long, value_name = "TOKENS")]
    sequence: Option<u64>,
    #[command(flatten)]
    price: PriceArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Of serving: the part of requests that has to keep the SLO
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.9,
        help_heading = "Serving"
    )]
    slo_share: f64,
    /// The metric that is to be best, such as usd_per_mtok [default: tokens_per_s_per_gpu; tokens_per_s where
    /// the budget says how many GPUs there are; of serving the fewest GPUs, then output_tokens_per_s_per_gpu]
    #[arg(long, value_name = "METRIC")]
    objective: Option<String>,
    /// So many layouts, or ways to serve, of each machine [default: 3; of layouts 1 where several numbers of GPUs or
    /// networks are compared, and of each of these]
    #[arg(long, value_name = "COUNT")]
    top: Option<NonZeroUsize>,
    /// Values of a knob, in place of those that are tried: `tp=4,8`, `pp=1..16`, `recompute=full`,
    /// `sharding=zero,fsdp`, `bucket=25MiB,100MiB`, `offload=none,optimizer,parameters`; of serving `tp=4,8`, `pp=1,2`,
    /// `attention_dp=8`, `ep=8`, `replicas=4` (engines in all), `split=none,3:1`; may be repeated
    #[arg(long, value_name = "KNOB=VALUES")]
    over: Vec<String>,
    /// Puts a value into the scenario: `--set job.training.precision=fp8`; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Simulates everything that fits, to check the bounds
    #[arg(long)]
    exhaustive: bool,
    #[command(flatten)]
    resources: BudgetArgs,
    /// Also writes a folder: optimized.json, report.html, and the scenario of each of the best; or a page or
    /// the document alone
    #[arg(short, long, value_name = "DIR|FILE.html|FILE.json", value_parser = output::file_ending_in(&["html", "json"]))]
    output: Option<PathBuf>,
    /// Prints one JSON document
    #[arg(long)]
    json: bool,
}

/// What a target says.
#[derive(Debug, Clone, Copy)]
enum Rate {
    TokensPerSecond(f64),
    Days(f64),
    /// The load of a serving job.
    Load,
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "load" {
        return Ok(Rate::Load);
    }
    let expected =
        || "expected tokens/s=2M, tokens/day=1e11, days=30, or of serving load".to_owned();
    let (what, value) = text.split_once('=').ok_or_else(expected)?;
    match what {
        "tokens/s" => many(value).map(Rate::TokensPerSecond),
        "tokens/day" => Ok(Rate::TokensPerSecond(many(value)? / 86_400.0)),
        "days" => many(value).map(Rate::Days),
        _ => Err(expected()),
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    let expected = || "expected usd_per_hour=500 or kw=200".to_owned();
    let (what, value) = text.split_once('=').ok_or_else(expected)?;
    match what {
        "usd_per_hour" => many(value).map(Limit::UsdPerHour),
        "kw" => many(value).map(Limit::Kw),
        _ => Err(expected()),
    }
}

/// Numbers of GPUs; none if a budget says them.
fn sizes(args: &Args) -> Result<Vec<Size>, CliError> {
    let nodes = args.nodes.iter().copied().map(Size::Nodes);
    let gpus = args.gpus.iter().copied().map(Size::Gpus);
    let mut sizes: Vec<Size> = Vec::new();
    for size in nodes.chain(gpus) {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    if sizes.is_empty() && args.budget.is_empty() {
        return Err(CliError::Usage(
            "expected --gpus, --nodes, or a --budget that says how many there may be".to_owned(),
        ));
    }
    Ok(sizes)
}

/// Refuses a limit that is said twice: one of them would be ignored.
fn once(limits: &[Limit]) -> Result<(), CliError> {
    let same = |a: &Limit, b: &Limit| std::mem::discriminant(a) == std::mem::discriminant(b);
    let twice = limits.iter().enumerate();
    let twice = twice.filter(|(index, limit)| limits[..*index].iter().any(|one| same(one, limit)));
    match twice.map(|(_, limit)| limit).next() {
        None => Ok(()),
        Some(limit) => {
            let (name, _) = limit.named();
            Err(CliError::Usage(format!(
                "--budget {name}: given twice; expected it once"
            )))
        }
    }
}

/// The most GPUs that are tried for a target.
fn most(sizes: &[Size]) -> Result<u32, CliError> {
    match sizes {
        [Size::Gpus(most)] => Ok(*most),
        _ => Err(CliError::Usage(
            "--target: expected one --gpus with it, the most that are tried".to_owned(),
        )),
    }
}

/// More than anyone asks for: tokens, or tokens a second.
const LARGEST: f64 = 1e18;

/// A number as people write large ones: `15T`, `2.5M`, `1e12`.
fn many(text: &str) -> Result<f64, String> {
    let units = [
        ("k", 1e3),
        ("K", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("B", 1e9),
        ("T", 1e12),
    ];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, times) = match unit {
        Some((unit, times)) => (&text[..text.len() - unit.len()], times),
        None => (text, 1.0),
    };
    let value = digits.trim().parse::<f64>().ok().map(|value| value * times);
    let value = value.filter(|value| *value > 0.0 && *value <= LARGEST);
    value.ok_or_else(|| "expected a number above 0, such as 15T or 2.5M, at most 1e18".to_owned())
}

/// The rate that is asked for, tokens per second.
fn target(args: &Args) -> Result<Option<f64>, CliError> {
    match (args.target, args.tokens) {
        (None, None) => Ok(None),
        (Some(Rate::Load), None) => Err(CliError::Usage(
            "--target load: of a serving job; expected a rate, such as tokens/s=2M".to_owned(),
        )),
        (Some(Rate::TokensPerSecond(rate)), None) => Ok(Some(rate)),
        (Some(Rate::Days(days)), Some(tokens)) => Ok(Some(tokens / (days * 86_400.0))),
        (Some(Rate::Days(_)), None) => Err(CliError::Usage(
            "--target days=…: expected --tokens, how many there are to train on, too".to_owned(),
        )),
        (_, Some(_)) => Err(CliError::Usage(
            "--tokens: expected --target days=… with it".to_owned(),
        )),
    }
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    check_output(args.output.as_deref())?;
    once(&args.budget)?;
    let sizes = sizes(args)?;
    let by_default = match sizes.as_slice() {
        [] => "tokens_per_s",
        _ => "tokens_per_s_per_gpu",
    };
    let objective = args.objective.as_deref().unwrap_or(by_default);
    if !Metrics::names().any(|name| name == objective) {
        let near = nearest(objective, Metrics::names());
        let near = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        return Err(CliError::Usage(format!(
            "--objective {objective}: expected the name of a metric{near}"
        )));
    }
    let (scenario, folder) = job_of(args)?;
    let axes = args.over.iter().map(|text| parse_axis(text));
    let axes: Vec<AxisSpec> = axes.collect::<Result<_, _>>().map_err(CliError::Usage)?;
    let machines = match args.topology.as_slice() {
        [] => vec![scenario.spec.topology.clone()],
        asked => asked.iter().map(|text| machine(text)).collect(),
    };
    let scenario = args.price.apply(scenario, &machines, &folder)?;
    if let JobSpec::Serving(_) = scenario.spec.job {
        args.refuse_of_training()?;
        let sizes = match args.target {
            None => ServingSizes::Each(&sizes),
            Some(_) => ServingSizes::FewestUpTo(most(&sizes)?),
        };
        let ask = Ways {
            topology: &args.topology,
            sizes,
            objective: args.objective.as_deref(),
            slo_share: args.slo_share,
            top: args.top.map_or(3, NonZeroUsize::get),
            over: &axes,
        };
        let budget = args.resources.budget(false);
        let shown = (args.json, quiet, args.output.as_deref());
        return serve_search::run((&scenario, &folder), ask, &budget, shown);
    }
    if !args.load.changes()?.is_empty() {
        let flags = "--rate, --concurrency, --requests, --slo: of a serving job; this one trains";
        return Err(CliError::Usage(flags.to_owned()));
    }
    let several = sizes.len() != 1 || args.oversubscription.len() > 1;
    let ask = Ask {
        machines: &machines,
        sizes: &sizes,
        oversubscription: &args.oversubscription,
        limits: &args.budget,
        objective,
        top: args
            .top
            .map_or(if several { 1 } else { 3 }, NonZeroUsize::get),
        over: &axes,
        exhaustive: args.exhaustive,
    };
    let budget = args.resources.budget(false);
    let bar = bar(quiet || args.json);
    let long = (!quiet).then(|| Long::beside(&budget, &bar));
    let watch = |at: Progress<'_>| {
        bar.set_length(at.simulated + at.left);
        bar.set_position(at.simulated);
        bar.set_message(format!("layouts on {} GPUs of {}", at.gpus, at.machine));
    };
    let built = Machines::default();
    let at = (&scenario, folder.as_path());
    let (mut found, summary) = match target(args)? {
        None => optimize(at, ask, (&budget, &built), &watch)?,
        Some(rate) => fewest_gpus(at, (ask, rate, most(&sizes)?), (&budget, &built), &watch)?,
    };
    drop(long);
    bar.finish_and_clear();
    let known = summary.and_then(|mut best| fabricsim_calibration::known_error(&mut best));
    found.settle(known.map(|known| known.median));
    if let Some(target) = &args.output {
        write(target, &found)?;
    }
    if args.json {
        terminal::print(&document(&found)?)?;
    } else if !quiet {
        let mut text = optimized_text(&found, terminal::colour());
        if let Some(target) = &args.output {
            text += &format!("\nWritten to {}\n", target.display());
        }
        terminal::print(&text)?;
    }
    match found.best.is_empty() {
        true => Err(CliError::NoLayout),
        false => Ok(()),
    }
}

impl Args {
    /// Refuses what only layouts of training jobs have.
    fn refuse_of_training(&self) -> Result<(), CliError> {
        let said = [
            ("--global-batch", self.global_batch.is_some()),
            ("--sequence", self.sequence.is_some()),
            ("--tokens", self.tokens.is_some()),
            ("--oversubscription", !self.oversubscription.is_empty()),
            ("--budget", !self.budget.is_empty()),
            ("--exhaustive", self.exhaustive),
            ("--target", !matches!(self.target, None | Some(Rate::Load))),
        ];
        match said.iter().find(|(_, said)| *said) {
            None => Ok(()),
            Some((flag, _)) => Err(CliError::Usage(format!(
                "{flag}: of a training job; this one serves. Expected --target load, --over, --objective, --slo"
            ))),
        }
    }
}

/// The scenario, and where its relative paths start.
fn job_of(args: &Args) -> Result<(Scenario, PathBuf), CliError> {
    let name = args.job.to_string_lossy();
    match catalogue::find(&args.job, &args.set) {
        Err(error) => {
            let model = match presets::find(&name) {
                Ok(preset) if !args.job.exists() => &preset.name,
                _ => return Err(unknown(error, &name)),
            };
            let of_step = (args.global_batch, args.sequence);
            let job = job_of_model(model, &args.load, of_step)?;
            let first = args.topology.first();
            let first = first.ok_or_else(|| {
                CliError::Usage(format!("{model} is a model: expected a machine, too (-t)"))
            })?;
            let text = json!({ "name": model, "topology": machine(first), "job": job });
            Ok((parse(&text.to_string(), model, &args.set)?, PathBuf::new()))
        }
        Ok((scenario, folder)) => {
            let mut set = args.set.clone();
            let batch = args
                .global_batch
                .map(|n| format!("job.training.global_batch={n}"));
            let sequence = args.sequence.map(|n| format!("job.training.sequence={n}"));
            let before = set.len();
            if let JobSpec::Serving(_) = scenario.spec.job {
                set.extend(args.load.changes()?);
            } else {
                set.extend(batch.into_iter().chain(sequence));
            }
            match set.len() == before {
                true => Ok((scenario, folder)),
                false => Ok(catalogue::find(&args.job, &set)?),
            }
        }
    }
}

/// Names of scenarios and of models may be meant by a name that is neither.
fn unknown(error: ScenarioError, name: &str) -> CliError {
    match error {
        ScenarioError::UnknownName { .. } => catalogue::unknown_job(name).into(),
        other => other.into(),
    }
}

fn bar(hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    match ProgressStyle::with_template("{msg}: {pos} of at most {len} {bar:30} {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// What a search found, as JSON.
pub(super) fn document(found: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(found).map_err(|source| ReportError::Json {
        what: "the search",
        source,
    })?;
    Ok(text + "\n")
}

/// The page or the document; or the folder with both, and a scenario for each of the best.
fn write(target: &Path, found: &Optimized) -> Result<(), CliError> {
    match output::ending(target).as_deref() {
        Some("html") => return Ok(write_file(target, optimized_page(found)?.as_bytes())?),
        Some("json") => return Ok(write_file(target, document(found)?.as_bytes())?),
        _ => {}
    }
    let best = found.best.iter();
    let best = best.map(|choice| (choice.topology.as_str(), &choice.scenario));
    let page = optimized_page(found)?;
    Ok(write_search(target, (&document(found)?, &page), best)?)
}

/// Refuses a folder that a search cannot write, before it begins.
pub(super) fn check_output(target: Option<&Path>) -> Result<(), CliError> {
    let folder =
        target.filter(|path| !matches!(output::ending(path).as_deref(), Some("html" | "json")));
    Ok(folder.map_or(Ok(()), check_search_target)?)
}
