//! The command `fabricsim`: arguments in, text out. One file a subcommand.

mod answered;
mod budget;
mod claims;
mod collective;
mod communicator;
mod compare;
mod completions;
mod error;
mod examples;
mod explain;
mod fit;
mod hang;
mod lab;
mod lesson;
mod load;
mod long;
mod man;
mod model;
mod optimize;
mod output;
mod price;
mod progress;
mod run;
mod scenario;
mod schema;
mod serve;
mod serve_search;
mod signals;
mod spelling;
mod sweep;
mod terminal;
mod topology;
mod validate;
mod what_if;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
pub use error::CliError;
use examples::{Examples, examples};
pub use signals::{exit_on_panic, watch_signals};
use spelling::{collective_named, one_of};
use std::process::ExitCode;
pub use terminal::complain;

const EXAMPLES: Examples = [
    (
        "How long does an all-reduce of 1 GiB take inside a DGX H100, and what limits it?",
        "fabricsim collective all-reduce -t dgx-h100 -s 1G",
    ),
    (
        "How large should the buckets of gradients be?",
        "fabricsim run ddp-buckets",
    ),
    (
        "Which machines can be asked about?",
        "fabricsim topology list",
    ),
];

/// Simulates the interconnect of AI clusters: what NCCL would do on a machine, how long it
/// takes, and what limits it.
#[derive(Debug, Parser)]
#[command(name = "fabricsim", version, max_term_width = 100)]
#[command(after_long_help = examples(&EXAMPLES))]
pub struct Cli {
    /// Prints nothing but errors, and the document or rows that `--json` or `--csv` ask for
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Scenario(scenario::Args),
    Collective(collective::Args),
    Communicator(communicator::Args),
    Hang(hang::Args),
    Compare(Box<compare::Args>),
    Serve(serve::Args),
    Sweep(sweep::Args),
    Optimize(optimize::Args),
    Explain(explain::Args),
    Lesson(lesson::Args),
    Lab(lab::Args),
    Topology(topology::Args),
    Model(model::Args),
    Validate(validate::Args),
    Fit(fit::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Does what was asked.
///
/// # Errors
/// Bad input, a failed simulation, or output that cannot be written.
pub fn execute(cli: Cli) -> Result<(), CliError> {
    let quiet = cli.quiet;
    match cli.command {
        Command::Run(args) => run::run(&args, quiet),
        Command::Scenario(args) => scenario::run(&args, quiet),
        Command::Collective(args) => collective::run(&args, quiet),
        Command::Communicator(args) => communicator::run(&args, quiet),
        Command::Hang(args) => hang::run(&args, quiet),
        Command::Compare(args) => compare::run(&args, quiet),
        Command::Serve(args) => serve::run(&args, quiet),
        Command::Sweep(args) => sweep::run(&args, quiet),
        Command::Optimize(args) => optimize::run(&args, quiet),
        Command::Explain(args) => explain::run(&args, quiet),
        Command::Lesson(args) => lesson::run(&args, quiet),
        Command::Lab(args) => lab::run(&args, quiet),
        Command::Topology(args) => topology::run(&args, quiet),
        Command::Model(args) => model::run(&args),
        Command::Validate(args) => validate::run(&args, quiet),
        Command::Fit(args) => fit::run(&args, quiet),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args, quiet),
    }
}

/// Says what is wrong with the arguments, or prints the help that they ask for.
#[must_use]
pub fn refuse_usage(mut error: clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::InvalidSubcommand {
        advise(&mut error);
    }
    if error.use_stderr() {
        terminal::complain_styled(&error.render().ansi().to_string());
        return ExitCode::from(2);
    }
    match error.print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(CliError::from(error).exit_code()),
    }
}

/// Of a word that is no command: the nearest command first, and where a collective's name belongs.
fn advise(error: &mut clap::Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    if let Some(collective) = collective_named(word) {
        let advice = format!("`fabricsim collective {}` times it", collective.name());
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![advice.into()]),
        );
    }
    // They come with the nearest one last.
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) {
        let nearest_first = names.iter().rev().cloned().collect();
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(nearest_first),
        );
    }
}
