//! `fabricsim schema`: the formats, for editors and other programs.

use super::examples::{Examples, examples};
use super::{CliError, terminal};
use clap::ValueEnum;
use fabricsim_experiment::scenario_schema;
use fabricsim_experiment::sweep::sweep_schema;
use fabricsim_report::summary_schema;
use fabricsim_topology::schema::topology_schema;

const EXAMPLES: Examples = [
    (
        "What may a scenario's file hold?",
        "fabricsim schema scenario",
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

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let schema = match args.format {
        Format::Topology => topology_schema(),
        Format::Scenario => scenario_schema(),
        Format::Sweep => sweep_schema(),
        Format::Summary | Format::JobSummary => summary_schema(),
    };
    Ok(terminal::print(&format!("{:#}\n", schema.as_value()))?)
}
