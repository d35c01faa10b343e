//! `fabricsim model`: the models that are shipped.

use super::examples::{Examples, examples};
use super::{CliError, terminal};
use clap::Subcommand;
use fabricsim_experiment::ScenarioError;
use fabricsim_report::{FORMAT, numbers};
use fabricsim_workload::model::{ModelSpec, Preset, parameters, presets};
use fabricsim_workload::training::resolve::TrainingError;
use serde::Serialize;
use std::io;

const EXAMPLES: Examples = [
    ("Which models are shipped?", "fabricsim model list"),
    (
        "What is DeepSeek-V3 made of?",
        "fabricsim model show deepseek-v3",
    ),
    (
        "How fast is one on a machine?",
        "fabricsim serve llama3-8b -t dgx-h100 --rate 5 --requests 200",
    ),
];

/// Lists and shows the shipped models, which `serve`, `optimize`, `scenario new` and scenarios name.
///
/// Capitals and the marks between words are forgiven in a name: `Llama-3-70B` is `llama3-70b`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

const LIST: Examples = [
    ("Which models are shipped?", "fabricsim model list"),
    (
        "Which have experts? Those with parameters that are active",
        "fabricsim model list | grep active",
    ),
    (
        "What is known of each, for a program?",
        "fabricsim model list --json",
    ),
];

const SHOW: Examples = [
    (
        "What is Llama 3 70B made of, and where is that published?",
        "fabricsim model show llama3-70b",
    ),
    (
        "How many experts has DeepSeek-V3?",
        "fabricsim model show deepseek-v3",
    ),
    (
        "What does a program read of it?",
        "fabricsim model show gpt3-175b --json",
    ),
];

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the shipped models with their parameters
    #[command(after_long_help = examples(&LIST))]
    List {
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Shows a model: its other names, its shape and where that is published
    #[command(after_long_help = examples(&SHOW))]
    Show {
        /// Which one
        name: String,
        /// Prints one JSON document
        #[arg(long)]
        json: bool,
    },
}

/// The document of both.
#[derive(Serialize)]
struct Models<'a> {
    format: u32,
    models: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    title: &'a str,
    aliases: &'a [String],
    parameters: u64,
    active_parameters: u64,
    layers: u64,
    kind: Kind,
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<&'a ModelSpec>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Dense,
    Moe,
}

impl Kind {
    const fn text(self) -> &'static str {
        match self {
            Kind::Dense => "dense",
            Kind::Moe => "experts",
        }
    }
}

fn entry(preset: &Preset) -> Entry<'_> {
    let count = parameters(&preset.model);
    Entry {
        name: &preset.name,
        title: &preset.title,
        aliases: &preset.aliases,
        parameters: count.total(),
        active_parameters: count.active(),
        layers: preset.model.layers,
        kind: match preset.model.experts {
            None => Kind::Dense,
            Some(_) => Kind::Moe,
        },
        source: &preset.source,
        shape: None,
    }
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    match &args.command {
        Command::List { json: false } => list(),
        Command::List { json: true } => document(presets::presets().map(entry).collect()),
        Command::Show { name, json } => show(shipped(name)?, *json),
    }
}

/// The shipped model of that name.
fn shipped(name: &str) -> Result<&'static Preset, ScenarioError> {
    Ok(presets::find(name).map_err(TrainingError::Model)?)
}

/// A number of parameters: `70.6 B`.
fn short(count: u64) -> String {
    let (value, unit) = match count {
        0..1_000_000_000 => (count as f64 / 1e6, "M"),
        _ => (count as f64 / 1e9, "B"),
    };
    format!("{} {unit}", numbers::three_digits(value))
}

fn document(models: Vec<Entry<'_>>) -> Result<(), CliError> {
    let format = FORMAT;
    let text = serde_json::to_string_pretty(&Models { format, models }).map_err(io::Error::from)?;
    Ok(terminal::print(&format!("{text}\n"))?)
}

fn list() -> Result<(), CliError> {
    let entries: Vec<Entry<'_>> = presets::presets().map(entry).collect();
    let name = entries.iter().map(|entry| entry.name.len()).max();
    let name = name.unwrap_or(0);
    let (mut text, columns) = (String::new(), terminal::width());
    for entry in entries {
        let all = short(entry.parameters);
        let active = match entry.kind {
            Kind::Dense => String::new(),
            Kind::Moe => short(entry.active_parameters) + " active",
        };
        let line = format!(
            "{:<name$}  {all:>6}  {active:<13}  {:>3} layers  {}",
            entry.name, entry.layers, entry.title
        );
        text += &terminal::cut(&line, columns);
        text.push('\n');
    }
    Ok(terminal::print(&text)?)
}

fn show(preset: &Preset, json: bool) -> Result<(), CliError> {
    let entry = entry(preset);
    if json {
        let shape = Some(&preset.model);
        return document(vec![Entry { shape, ..entry }]);
    }
    let mut lines = vec![format!("{}: {}", entry.name, entry.title)];
    if !entry.aliases.is_empty() {
        lines.push(format!("also      {}", entry.aliases.join(", ")));
    }
    let active = match entry.kind {
        Kind::Dense => String::new(),
        Kind::Moe => format!(
            ", of which a token meets {}",
            numbers::grouped(entry.active_parameters)
        ),
    };
    lines.push(format!(
        "has       {} parameters{active}, {} layers, {}",
        numbers::grouped(entry.parameters),
        entry.layers,
        entry.kind.text()
    ));
    lines.push(format!("source    {}", entry.source));
    let shape = serde_json::to_string_pretty(&preset.model).map_err(io::Error::from)?;
    lines.push(format!("shape     {}", shape.replace('\n', "\n          ")));
    Ok(terminal::print(&(lines.join("\n") + "\n"))?)
}
