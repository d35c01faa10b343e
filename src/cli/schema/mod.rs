//! `fabricsim schema`: the formats, for editors and other programs, and for people.

mod kind;
mod markdown;
mod names;

use super::examples::{Examples, examples};
use super::{CliError, terminal};
use clap::ValueEnum;
use fabricsim_experiment::scenario_schema;
use fabricsim_experiment::sweep::sweep_schema;
use fabricsim_report::summary_schema;
use fabricsim_topology::schema::topology_schema;
use markdown::{Page, reference};
use names::Elsewhere;
use serde_json::Value;

const EXAMPLES: Examples = [
    (
        "What may a scenario's file hold, to read?",
        "fabricsim schema scenario --markdown",
    ),
    (
        "What does an editor need to check topology files?",
        "fabricsim schema topology > topology.schema.json",
    ),
    ("What is in summary.json?", "fabricsim schema summary"),
];

/// Prints the JSON Schema of a file format.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples(&EXAMPLES))]
pub(super) struct Args {
    /// Which one
    format: Format,
    /// A page to read in its place: all fields, how they are written, defaults and meanings
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Topology files
    Topology,
    /// Scenario files
    Scenario,
    /// Files of sweeps
    Sweep,
    /// The summary.json of a run
    Summary,
    /// The same, under the name that it had for jobs
    JobSummary,
}

impl Format {
    fn schema(self) -> Value {
        let schema = match self {
            Format::Topology => topology_schema(),
            Format::Scenario => scenario_schema(),
            Format::Sweep => sweep_schema(),
            Format::Summary | Format::JobSummary => summary_schema(),
        };
        schema.to_value()
    }

    /// The page of `docs/` that describes it.
    fn page(self) -> &'static str {
        match self {
            Format::Topology => "reference-machine.md",
            Format::Scenario => "reference-scenario.md",
            Format::Sweep => "reference-sweep.md",
            Format::Summary | Format::JobSummary => "reference-summary.md",
        }
    }

    /// Formats that it holds: their pages describe what is theirs.
    fn within(self) -> &'static [Format] {
        match self {
            Format::Scenario => &[Format::Topology],
            Format::Sweep => &[Format::Topology, Format::Scenario],
            Format::Topology | Format::Summary | Format::JobSummary => &[],
        }
    }

    fn reference(self) -> String {
        let (title, format) = match self {
            Format::Topology => ("Fields of a machine's file", "topology"),
            Format::Scenario => ("Fields of a scenario", "scenario"),
            Format::Sweep => ("Fields of a sweep", "sweep"),
            Format::Summary | Format::JobSummary => ("Fields of a summary.json", "summary"),
        };
        let pages = self.within().iter().map(|format| Elsewhere {
            file: format.page(),
            schema: format.schema(),
        });
        reference(&Page {
            title,
            format,
            schema: &self.schema(),
            elsewhere: &pages.collect::<Vec<_>>(),
        })
    }
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let text = match args.markdown {
        true => args.format.reference(),
        false => format!("{:#}\n", args.format.schema()),
    };
    Ok(terminal::print(&text)?)
}
