//! `fabricsim scenario`: scenarios that are shipped, and new ones.

use super::examples::{Examples, examples};
use super::{CliError, output, terminal};
use clap::{Args as Flags, Subcommand};
use fabricsim_experiment::catalogue::{self, Entry, Machine};
use fabricsim_experiment::{Draft, TopologyRef, draft_collective, draft_training};
use fabricsim_report::FORMAT;
use fabricsim_topology::load;
use fabricsim_workload::model::{ModelError, presets};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

const EXAMPLES: Examples = [
    ("Which scenarios are shipped?", "fabricsim scenario list"),
    (
        "What does a shipped scenario say?",
        "fabricsim scenario show ddp-buckets",
    ),
    (
        "How does a job of my own begin?",
        "fabricsim scenario new training --model llama3-8b -t dgx-h100 -o mine.json",
    ),
];

/// Lists, shows and copies the shipped scenarios, and makes new ones.
#[derive(Debug, Flags)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

const LIST: Examples = [
    ("Which scenarios are shipped?", "fabricsim scenario list"),
    (
        "Which of them serve models?",
        "fabricsim scenario list | grep serving",
    ),
    (
        "What is known of each, for a program?",
        "fabricsim scenario list --json",
    ),
];

const SHOW: Examples = [
    (
        "What does the scenario of gradient buckets say?",
        "fabricsim scenario show ddp-buckets",
    ),
    (
        "How is a NIC written that goes down again and again?",
        "fabricsim scenario show nic-flap",
    ),
    (
        "How are two jobs written that share a network?",
        "fabricsim scenario show two-jobs",
    ),
];

const COPY: Examples = [
    (
        "What comes out after an edit of the shipped file?",
        "fabricsim scenario copy ddp-buckets -o mine.json\n\
         fabricsim run mine.json",
    ),
    (
        "Where does a copy go without -o? To ddp-straggler.json, here",
        "fabricsim scenario copy ddp-straggler",
    ),
    (
        "How is a folder of scenarios begun?",
        "fabricsim scenario copy nic-flap -o scenarios",
    ),
];

const NEW: Examples = [
    (
        "What does a scenario of one collective need?",
        "fabricsim scenario new collective",
    ),
    (
        "What does a training job on as few nodes as it fits look like?",
        "fabricsim scenario new training --model llama3-70b -t gb200-nvl72",
    ),
    (
        "How long is a step of it?",
        "fabricsim scenario new training -o mine.json\n\
         fabricsim run mine.json",
    ),
];

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the shipped scenarios, which `run` takes by their names
    #[command(after_long_help = examples(&LIST))]
    List {
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Prints a shipped scenario's file
    #[command(after_long_help = examples(&SHOW))]
    Show {
        /// Which one
        name: String,
    },
    /// Writes a shipped scenario's file, to be edited
    #[command(after_long_help = examples(&COPY))]
    Copy {
        /// Which one
        name: String,
        /// The file, or the folder for it [default: NAME.json]
        #[arg(short, long, value_name = "FILE|DIR", value_parser = output::file_ending_in(&["json"]))]
        output: Option<PathBuf>,
        /// Writes over a file that is there
        #[arg(long)]
        force: bool,
    },
    /// Makes a short scenario file whose comments say what to edit; it runs as it is
    #[command(after_long_help = examples(&NEW))]
    New {
        #[command(subcommand)]
        kind: Kind,
    },
}

const NEW_COLLECTIVE: Examples = [
    (
        "What does a scenario of one collective need?",
        "fabricsim scenario new collective",
    ),
    (
        "How is it written for another machine?",
        "fabricsim scenario new collective -t gb200-nvl72 -o mine.json",
    ),
    (
        "How long does it take?",
        "fabricsim scenario new collective -t dgx-a100 -o a100.json\n\
         fabricsim run a100.json",
    ),
];

const NEW_TRAINING: Examples = [
    (
        "On how few nodes does Llama 3 70B fit?",
        "fabricsim scenario new training --model llama3-70b",
    ),
    (
        "And on GB200 NVL72?",
        "fabricsim scenario new training --model llama3-70b -t gb200-nvl72 -o nvl72.json",
    ),
    (
        "How long is a step of GPT-2?",
        "fabricsim scenario new training --model gpt2-124m -o gpt2.json\n\
         fabricsim run gpt2.json",
    ),
];

#[derive(Debug, Subcommand)]
enum Kind {
    /// One collective at several sizes, as nccl-tests runs it
    #[command(after_long_help = examples(&NEW_COLLECTIVE))]
    Collective {
        #[command(flatten)]
        file: NewFile,
    },
    /// Steps of a training job, on as few nodes as its model fits
    #[command(after_long_help = examples(&NEW_TRAINING))]
    Training {
        /// The model, a shipped one (`fabricsim model list`)
        #[arg(long, default_value = "llama3-8b", value_parser = model)]
        model: String,
        #[command(flatten)]
        file: NewFile,
    },
}

/// A file that is to be made.
#[derive(Debug, Flags)]
struct NewFile {
    /// A shipped topology (see `topology list`) or a topology file
    #[arg(short, long, value_name = "NAME|FILE", default_value = "dgx-h100")]
    topology: String,
    /// The file, in place of standard output
    #[arg(short, long, value_name = "FILE", value_parser = output::file_ending_in(&["json"]))]
    output: Option<PathBuf>,
    /// Writes over a file that is there
    #[arg(long)]
    force: bool,
}

/// The name of a shipped model, however it is written.
fn model(text: &str) -> Result<String, ModelError> {
    Ok(presets::find(text)?.name.clone())
}

pub(super) fn run(args: &Args, quiet: bool) -> Result<(), CliError> {
    match &args.command {
        Command::List { json } => list(*json),
        Command::Show { name } => Ok(terminal::print(catalogue::text(name)?)?),
        Command::Copy {
            name,
            output,
            force,
        } => copy(name, output.as_deref(), *force, quiet),
        Command::New { kind } => new(kind, quiet),
    }
}

/// The document of `scenario list --json`.
#[derive(Serialize)]
struct List {
    format: u32,
    scenarios: Vec<Entry>,
}

fn list(json: bool) -> Result<(), CliError> {
    let scenarios = catalogue::entries()?;
    if json {
        let format = FORMAT;
        let list = List { format, scenarios };
        let text = serde_json::to_string_pretty(&list).map_err(io::Error::from)?;
        return Ok(terminal::print(&format!("{text}\n"))?);
    }
    let rows: Vec<[String; 3]> = scenarios
        .iter()
        .map(|entry| {
            let job = entry.collective.unwrap_or(entry.job);
            [
                entry.name.to_owned(),
                job.to_owned(),
                machines(&entry.machines),
            ]
        })
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let [name, job, machine] = [0, 1, 2].map(width);
    let (mut text, columns) = (String::new(), terminal::width());
    for ([a, b, c], entry) in rows.iter().zip(&scenarios) {
        let line = format!("{a:<name$}  {b:<job$}  {c:<machine$}  {}", entry.title);
        text += &terminal::cut(&line, columns);
        text.push('\n');
    }
    Ok(terminal::print(&text)?)
}

/// The machines of a scenario: `9 × dgx-h100, 18 × gb200-nvl72`.
fn machines(machines: &[Machine]) -> String {
    let texts = machines.iter().map(|machine| match machine.nodes {
        Some(nodes) => format!("{nodes} × {}", machine.topology),
        None => machine.topology.clone(),
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn copy(name: &str, output: Option<&Path>, force: bool, quiet: bool) -> Result<(), CliError> {
    let text = catalogue::text(name)?;
    let path = output::copy_target(name, output);
    output::write_new(&path, text, force)?;
    said(&path, quiet)
}

fn new(kind: &Kind, quiet: bool) -> Result<(), CliError> {
    let (file, name) = match kind {
        Kind::Collective { file } => (file, "my-collective"),
        Kind::Training { file, .. } => (file, "my-training"),
    };
    if let Some(path) = &file.output {
        output::check_new(path, file.force)?;
    }
    // What is wrong with the machine is said of the flag, not of a scenario that is not there.
    let found = load::find(&file.topology)?;
    if !quiet {
        terminal::notes(&found.notes);
    }
    let path = file.output.as_deref();
    let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
    let draft = Draft {
        name: &path.map_or_else(|| name.to_owned(), |path| name_of(path, name)),
        topology: &topology(&file.topology, folder)?,
        folder,
    };
    let text = match kind {
        Kind::Collective { .. } => draft_collective(draft)?,
        Kind::Training { model, .. } => draft_training(draft, model)?,
    };
    match path {
        None => Ok(terminal::print(&text)?),
        Some(path) => {
            output::write_new(path, &text, file.force)?;
            said(path, quiet)
        }
    }
}

/// A scenario's name, after its file's; `otherwise` where that cannot be one.
fn name_of(path: &Path, otherwise: &str) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let stem = stem.filter(|stem| stem.chars().all(plain) && !stem.starts_with('-'));
    stem.unwrap_or(otherwise).to_owned()
}

/// The machine as a scenario in `folder` names it: paths in it start there.
fn topology(text: &str, folder: &Path) -> Result<TopologyRef, CliError> {
    if !load::is_path(text) {
        return Ok(TopologyRef::Name(text.to_owned()));
    }
    let path = Path::new(text);
    let here = folder.as_os_str().is_empty() || path.is_absolute();
    let path = if here {
        path.to_owned()
    } else {
        std::path::absolute(path)?
    };
    Ok(TopologyRef::Path(path.display().to_string()))
}

fn said(path: &Path, quiet: bool) -> Result<(), CliError> {
    if quiet {
        return Ok(());
    }
    let path = path.display();
    let text = format!("Written to {path}; run it with: fabricsim run {path}\n");
    Ok(terminal::print(&text)?)
}
