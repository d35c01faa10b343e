//! `fabricsim sweep`: many experiments that differ along axes.

mod plot;
mod run;
mod shipped;
mod slurm;

use super::{CliError, output, terminal};
use crate::cli::examples::{Examples, examples};
use clap::Subcommand;
use fabricsim_report::sweep::{
    PointRow, SweepInfo, merge_sweeps, read_info, read_points, sweep_sentence, sweep_text,
};
use serde_json::json;
use std::path::{Path, PathBuf};

/// This build of the program: its version, and a digest of what it was built from (build.rs).
const BUILD: &str = env!("FABRICSIM_BUILD");

const EXAMPLES: Examples = [
    ("Which sweeps are shipped?", "fabricsim sweep list"),
    (
        "What does a slow GPU cost, layout by layout?",
        "fabricsim sweep run straggler",
    ),
    (
        "Which algorithm is faster at which size, and where is the curve?",
        "fabricsim sweep run allreduce-dgx-h100 --over size=1KiB,64MiB --over algorithm=ring,tree -o sizes\n\
         fabricsim sweep plot sizes --x size --by algorithm",
    ),
];

/// Runs many experiments that differ along axes, and says what matters.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

const LIST: Examples = [
    ("Which sweeps are shipped?", "fabricsim sweep list"),
    (
        "Which of them vary the machine?",
        "fabricsim sweep list | grep machine",
    ),
    (
        "What is known of each, for a program?",
        "fabricsim sweep list --json",
    ),
];

const STATUS: Examples = [
    (
        "How far is a sweep, and what does it say so far?",
        "fabricsim sweep run allreduce-dgx-h100 --over size=1KiB,64MiB --over algorithm=ring,tree -o sizes\n\
         fabricsim sweep status sizes",
    ),
    (
        "What does a program read of it?",
        "fabricsim sweep status sizes --json",
    ),
    (
        "What is known when one of two parts was run?",
        "fabricsim sweep run ddp-straggler --over global_batch=128,256 --shard 1/2 -o half\n\
         fabricsim sweep status half",
    ),
];

const MERGE: Examples = [
    (
        "What comes out of halves that two computers ran?",
        "fabricsim sweep run ddp-straggler --over global_batch=128,256 --shard 1/2 -o one\n\
         fabricsim sweep run ddp-straggler --over global_batch=128,256 --shard 2/2 -o two\n\
         fabricsim sweep merge one two -o both",
    ),
    (
        "And if their programs were different builds? Rows of the second are marked",
        "fabricsim sweep merge one two -o marked --accept-program",
    ),
    (
        "What does it look like in one picture?",
        "fabricsim sweep merge one two -o whole --quiet\n\
         fabricsim sweep plot whole --x global_batch --by variant",
    ),
];

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the points of a sweep; one that was stopped goes on where it was
    Run(Box<run::Args>),
    /// Lists the shipped sweeps, which `sweep run` takes by their names
    #[command(after_long_help = examples(&LIST))]
    List {
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Writes a shipped sweep's file, to be edited
    Copy(shipped::CopyArgs),
    /// Says how far a sweep is
    #[command(after_long_help = examples(&STATUS))]
    Status {
        /// Its folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Draws points of a sweep as SVG or PNG
    Plot(plot::Args),
    /// Puts shards of one sweep together, as if it had been run in one
    #[command(after_long_help = examples(&MERGE))]
    Merge {
        /// The shards' folders
        #[arg(value_name = "DIR", required = true)]
        shards: Vec<PathBuf>,
        /// Puts together what different builds of the program made: rows of others than the first folder's are marked
        #[arg(long)]
        accept_program: bool,
        /// The folder of all of it
        #[arg(short, long, value_name = "DIR", value_parser = output::folder())]
        output: PathBuf,
    },
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    match &args.command {
        Command::Run(args) => run::run(args, quiet),
        Command::List { json } => shipped::list(*json),
        Command::Copy(args) => shipped::copy(args, quiet),
        Command::Plot(args) => plot::run(args, quiet),
        Command::Status { folder, json } => status(folder, *json),
        Command::Merge {
            shards,
            accept_program,
            output,
        } => {
            let (info, points) = merge_sweeps(shards, output, *accept_program)?;
            if quiet {
                return Ok(());
            }
            say(&info, &points, output)
        }
    }
}

/// What a sweep says, and where its folder is.
fn say(info: &SweepInfo, points: &[PointRow], folder: &Path) -> Result<(), CliError> {
    let text = sweep_text(info, points, terminal::colour(), terminal::width());
    let text = format!("{text}\nWritten to {}; see sweep.html\n", folder.display());
    Ok(terminal::print(&text)?)
}

fn status(folder: &Path, as_json: bool) -> Result<(), CliError> {
    let info = read_info(folder)?;
    let points = slurm::with_tasks(folder, &info, read_points(folder, &info)?)?;
    let wanted = info.wanted() as usize;
    if as_json {
        let SweepInfo { name, digest, .. } = &info;
        let document = json!({
            "format": fabricsim_report::FORMAT,
            "name": name,
            "digest": digest,
            "points": wanted,
            "finished": points.len(),
        });
        return Ok(terminal::print(&format!("{document:#}\n"))?);
    }
    let mut text = format!(
        "{}: {} of {wanted} points are over.\n",
        info.title,
        points.len()
    );
    if !points.is_empty() {
        text += &format!("{}\n", sweep_sentence(&info, &points));
    }
    if points.len() < wanted {
        text += "`fabricsim sweep run` with the same arguments goes on where it was.\n";
    }
    Ok(terminal::print(&text)?)
}
