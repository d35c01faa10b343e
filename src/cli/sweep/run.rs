//! `fabricsim sweep run`.

use super::slurm::{self, Passed, SlurmArgs};
use super::{BUILD, say};
use crate::cli::budget::BudgetArgs;
use crate::cli::examples::{Examples, examples};
use crate::cli::long::Long;
use crate::cli::what_if::WhatIfArgs;
use crate::cli::{CliError, output, terminal};
use clap::{Command, FromArgMatches};
use fabricsim_experiment::sweep::{
    AxisSpec, BaseRef, OptionSpec, Sweep, SweepSpec, parse_axis, parse_sweep, run_points,
    sweep_names, sweep_text,
};
use fabricsim_experiment::{Machines, catalogue};
use fabricsim_report::sweep::{
    Expected, PointRow, Shard, Status, SweepFolder, SweepInfo, sweep_sentence,
};
use fabricsim_topology::error::{candidates, did_you_mean_one_of};
use fabricsim_topology::load;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const EXAMPLES: Examples = [
    (
        "On how many GPUs is which algorithm faster, at which size, on which machine?",
        "fabricsim sweep run crossover",
    ),
    (
        "Which of two algorithms is faster at two sizes?",
        "fabricsim sweep run allreduce-dgx-h100 --over size=1KiB,64MiB --over algorithm=ring,tree",
    ),
    (
        "How much do more sequences a step help, by which metric?",
        "fabricsim sweep run ddp-straggler --over global_batch=128,256 --objective mfu -o batches",
    ),
];

/// Runs the points of a sweep, several at a time.
///
/// The folder holds sweep.json (which sweep it is), points.csv and points.jsonl (a row a point). It grows
/// while points are run: what was stopped goes on where it was with the same command. A point that cannot
/// be run is a row with its reason.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// A sweep's file, the name of a shipped sweep, or the scenario that is to vary: its file or the name
    /// of a shipped one
    #[arg(value_name = "SWEEP|SCENARIO")]
    target: PathBuf,
    /// An axis: a place of the scenario and values, `nodes=1,2,4`, `size=1MiB..1GiB*4`, `gpus=8..64`,
    /// `seed=0..9+1`, `topology.fabrics.compute.routing=ecmp,adaptive`; may be repeated, the last one
    /// varies fastest
    #[arg(long, value_name = "PATH=VALUES")]
    over: Vec<String>,
    /// An axis of what-ifs, one for each time this is given: `none`, or a name and options of `run`:
    /// `slow='--slow-gpu 5:0.8'`
    #[arg(long, value_name = "NAME=OPTIONS")]
    what_if: Vec<String>,
    /// Puts a value into the scenario of all points: `--set nodes=4`; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// The metric by which points are judged, such as tokens_per_s or time_us
    #[arg(long, value_name = "METRIC")]
    objective: Option<String>,
    /// The folder [default: runs/sweep-NAME]
    #[arg(short, long, value_name = "DIR", value_parser = output::folder())]
    output: Option<PathBuf>,
    /// Only every N-th point, from the I-th on: `2/4`; `sweep merge` puts shards together
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<Shard>,
    /// More points than so many are refused
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    max_points: u32,
    /// Goes on in a folder that another build of the program began: points of both are kept, and rows of the other one
    /// are marked
    #[arg(long)]
    accept_program: bool,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Prints one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    slurm: SlurmArgs,
}

fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/');
    let read = parts.and_then(|(index, of)| {
        let (index, of): (u32, u32) = (index.parse().ok()?, of.parse().ok()?);
        (1..=of).contains(&index).then_some(Shard { index, of })
    });
    read.ok_or_else(|| "expected which of how many, such as 2/4".to_owned())
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    let (spec, folder, origin) = sweep_of(args)?;
    let sweep = Sweep::new(spec, (&folder, &origin), args.max_points)?;
    let machines = Machines::default();
    let info = sweep.info(args.shard, &machines, (&origin, BUILD))?;
    let default = || Path::new("runs").join(format!("sweep-{}", info.name));
    let target = args.output.clone().unwrap_or_else(default);
    let as_array = args.slurm.wanted()?;
    let values = |number: u32| Some(sweep.values(sweep.points.get(number as usize)?));
    let expected = Expected {
        values: &values,
        accept_program: args.accept_program,
    };
    let growing = SweepFolder::open(&target, info.clone(), &expected)?;
    let hidden = quiet || args.json;
    let slowest = match as_array {
        true => {
            let passed = passed(args, hidden);
            slurm::run(&args.slurm, &passed, (&target, &info, &growing))?;
            Vec::new()
        }
        false => run_here(
            args,
            (&sweep, &machines),
            &growing,
            (bar(&info, growing.left().len(), hidden), quiet),
        )?,
    };
    let begun = growing.info().clone();
    let points = growing.finish()?;
    if as_array {
        slurm::tidy(&target)?;
    }
    if args.json {
        terminal::print(&document(&begun, &points))?;
    } else if !quiet {
        say(&begun, &points, &target)?;
        say_slowest(&sweep, slowest);
    }
    match points.iter().any(|point| point.status == Status::Done) {
        true => Ok(()),
        false => Err(CliError::NoPointDone(points.len())),
    }
}

/// Runs the points that a folder lacks; gives those that took longest.
fn run_here(
    args: &Args,
    (sweep, machines): (&Sweep, &Machines),
    growing: &SweepFolder,
    (bar, quiet): (ProgressBar, bool),
) -> Result<Vec<(Duration, u32)>, CliError> {
    let slowest = Mutex::new(Vec::new());
    let budget = args.budget.budget(false);
    let long = (!quiet).then(|| Long::beside(&budget, &bar));
    run_points(sweep, &growing.left(), (&budget, machines), &|row, time| {
        growing.add(&row)?;
        let mut slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
        keep_slowest(&mut slowest, time, row.point);
        bar.inc(1);
        Ok(())
    })?;
    drop(long);
    bar.finish_and_clear();
    Ok(slowest.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// What the tasks of a job array are given: all that says which sweep it is.
fn passed(args: &Args, hidden: bool) -> Passed {
    let many = [
        ("over", &args.over),
        ("what-if", &args.what_if),
        ("set", &args.set),
    ];
    let mut words = Vec::new();
    for (flag, values) in many {
        words.extend(values.iter().map(|value| format!("--{flag}={value}")));
    }
    words.extend(
        args.objective
            .iter()
            .map(|name| format!("--objective={name}")),
    );
    words.push(format!("--max-points={}", args.max_points));
    words.extend(args.accept_program.then(|| "--accept-program".to_owned()));
    let memory = args.budget.memory();
    words.extend(memory.map(|memory| format!("--memory={}", memory.get())));
    words.push("--".to_owned());
    let mut arguments: Vec<_> = words.into_iter().map(OsString::from).collect();
    arguments.push(args.target.clone().into());
    Passed {
        arguments,
        jobs: args.budget.jobs(),
        accept_program: args.accept_program,
        hidden,
    }
}

/// The sweep that the arguments say, where relative paths in it start, and what it is called in messages.
fn sweep_of(args: &Args) -> Result<(SweepSpec, PathBuf, String), CliError> {
    let origin = args.target.display().to_string();
    let (mut spec, folder) = match sweep_file(&args.target, &origin)? {
        Some(spec) => {
            let folder = args.target.parent().unwrap_or(Path::new("")).to_owned();
            (spec, folder)
        }
        None => {
            let (scenario, folder) = catalogue::find(&args.target, &args.set)?;
            let spec = SweepSpec {
                name: scenario.spec.name.clone(),
                title: scenario.spec.title.clone(),
                base: Some(BaseRef::Inline(Box::new(scenario.spec))),
                ..SweepSpec::default()
            };
            (spec, folder)
        }
    };
    let axes = args.over.iter().map(|text| parse_axis(text));
    let mut axes: Vec<AxisSpec> = axes.collect::<Result<_, _>>().map_err(CliError::Usage)?;
    axes.extend(what_ifs(&args.what_if)?);
    if !axes.is_empty() && !spec.parts.is_empty() {
        let text =
            "--over: this sweep has parts with axes of their own; put the axis into its file";
        return Err(CliError::Usage(text.to_owned()));
    }
    for axis in axes {
        let name = |axis: &AxisSpec| axis.name.clone().or_else(|| axis.path.clone());
        match spec.axes.iter_mut().find(|old| name(old) == name(&axis)) {
            Some(old) => *old = axis,
            None => spec.axes.push(axis),
        }
    }
    if args.objective.is_some() {
        spec.objective.clone_from(&args.objective);
    }
    Ok((spec, folder, origin))
}

/// The sweep of a file, or a shipped one; none if it is a scenario's file or name.
fn sweep_file(path: &Path, origin: &str) -> Result<Option<SweepSpec>, CliError> {
    if !path.is_file() {
        let shipped = sweep_names().any(|name| name == origin);
        return match shipped {
            true => Ok(Some(parse_sweep(sweep_text(origin)?, origin)?)),
            false if load::is_path(origin) || catalogue::names().any(|name| name == origin) => {
                Ok(None)
            }
            false => Err(unknown(origin)),
        };
    }
    let text = load::read_text(path)?;
    let value: Option<Value> = serde_json::from_str(&text).ok();
    let has = |field| {
        value
            .as_ref()
            .is_some_and(|value| value.get(field).is_some())
    };
    if has("job") || has("topology") {
        return Ok(None);
    }
    Ok(Some(parse_sweep(&text, origin)?))
}

/// A name of neither a sweep nor a scenario.
fn unknown(name: &str) -> CliError {
    let both = sweep_names().chain(catalogue::names());
    let near = candidates(name, both);
    CliError::Usage(format!(
        "there is no sweep or scenario `{name}`, neither a file nor a shipped one{}\n    \
         `fabricsim sweep list` and `fabricsim scenario list` show those that are shipped",
        did_you_mean_one_of(&near)
    ))
}

/// The axis of what-ifs, if there are any.
fn what_ifs(texts: &[String]) -> Result<Option<AxisSpec>, CliError> {
    let mut options = Vec::new();
    for text in texts {
        let (name, flags) = text.split_once('=').unwrap_or((text, ""));
        let words = std::iter::once("--what-if").chain(flags.split_whitespace());
        let command = <WhatIfArgs as clap::Args>::augment_args(Command::new("what-if"));
        let wrong = |error: clap::Error| {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default().to_owned();
            CliError::Usage(format!("--what-if {text}: {why}"))
        };
        let matches = command.no_binary_name(false).try_get_matches_from(words);
        let matches = matches.map_err(wrong)?;
        let what_if = WhatIfArgs::from_arg_matches(&matches).map_err(wrong)?;
        options.push(OptionSpec {
            comment: None,
            name: name.to_owned(),
            set: what_if.places()?,
        });
    }
    Ok((!options.is_empty()).then(|| AxisSpec {
        name: Some("what-if".to_owned()),
        options,
        ..AxisSpec::default()
    }))
}

fn bar(info: &SweepInfo, left: usize, hidden: bool) -> ProgressBar {
    if hidden || left == 0 {
        return ProgressBar::hidden();
    }
    let all = u64::from(info.wanted());
    let bar = ProgressBar::new(all).with_position(all.saturating_sub(left as u64));
    let template = "{pos} of {len} points {bar:30} {elapsed}, {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// So many of the points that took longest are named.
const SLOWEST: usize = 10;
/// Not of points that took less.
const SLOW: Duration = Duration::from_millis(500);

fn keep_slowest(slowest: &mut Vec<(Duration, u32)>, time: Duration, point: u32) {
    slowest.push((time, point));
    slowest.sort_by_key(|&(time, _)| std::cmp::Reverse(time));
    slowest.truncate(SLOWEST);
}

/// On standard error: two runs of one sweep differ in nothing else.
fn say_slowest(sweep: &Sweep, mut slowest: Vec<(Duration, u32)>) {
    slowest.retain(|&(time, _)| time >= SLOW);
    if slowest.is_empty() {
        return;
    }
    let mut lines = vec!["points that took longest to simulate:".to_owned()];
    for (time, point) in slowest {
        if let Some(point) = sweep.points.get(point as usize) {
            lines.push(format!(
                "  {:6.2} s  {}",
                time.as_secs_f64(),
                sweep.description(point)
            ));
        }
    }
    for line in lines {
        terminal::complain(&line);
    }
}

/// The document of `--json`.
fn document(info: &SweepInfo, points: &[PointRow]) -> String {
    let document = json!({
        "format": fabricsim_report::FORMAT,
        "sweep": info,
        "answer": sweep_sentence(info, points),
        "points": points,
    });
    format!("{document:#}\n")
}
