//! The command `fabricsim`: arguments in, text out. One file a subcommand.

mod budget;
mod collective;
mod completions;
mod error;
mod explain;
mod fit;
mod output;
mod progress;
mod run;
mod schema;
mod terminal;
mod topology;
mod validate;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};
pub use error::CliError;

/// Simulates the interconnect of AI clusters: what NCCL would do on a machine, how long it
/// takes, and what limits it.
#[derive(Debug, Parser)]
#[command(name = "fabricsim", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Collective(collective::Args),
    Explain(explain::Args),
    Topology(topology::Args),
    Validate(validate::Args),
    Fit(fit::Args),
    Schema(schema::Args),
    Completions(completions::Args),
}

/// Does what was asked.
///
/// # Errors
/// Bad input, a failed simulation, or output that cannot be written.
pub fn execute(cli: Cli) -> Result<(), CliError> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Collective(args) => collective::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Topology(args) => topology::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}

/// Accepts the names of `all`.
fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|&value| name(value))).try_map(move |text| {
        let found = all.iter().copied().find(|&value| name(value) == text);
        found.ok_or("unknown name")
    })
}
