//! `fabricsim schema`: the formats, for editors and other programs.

use super::{CliError, terminal};
use crate::report::summary_schema;
use crate::scenario::scenario_schema;
use crate::topology::schema::topology_schema;
use clap::ValueEnum;

/// Prints the JSON Schema of a file format.
#[derive(Debug, clap::Args)]
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
    /// A run's summary.json
    Summary,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let schema = match args.format {
        Format::Topology => topology_schema(),
        Format::Scenario => scenario_schema(),
        Format::Summary => summary_schema(),
    };
    Ok(terminal::print(&format!("{:#}\n", schema.as_value()))?)
}
